#include "predict/predict.h"

#include <inttypes.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/output.h"
#include "engine/loader.h"

DatasetReader *predict_open(const Engine *engine, DatasetConfig rows, Error *error) {
  rows.classes = network_classes(&engine->config.network);
  rows.inputs = engine->config.network.size[0];
  rows.threads = engine->config.training.threads;
  rows.ahead = 2 * engine->config.staging_rows;
  return dataset_open(&rows, error);
}

/* ---- logits that overflow ----------------------------------------------------------------- */

bool predict_check_logits(const float *logits, int classes, const char *name, uint64_t number,
                          Error *error) {
  for (int c = 0; c < classes; c++)
    if (!isfinite(logits[c]))
      return error_set(error,
                       "%s: the network's output is not a finite number: the weights are too large",
                       name ? name : text_format("row %" PRIu64, number).text);
  return true;
}

/* ---- all rows of a file ------------------------------------------------------------------- */

/* Is called for each row, in file order. `row` is its number in the file, from 1. pixels (inputs)
   and logits (classes) are valid only during the call. To stop, returns false with *error set. */
typedef bool PredictRow(void *context, uint64_t row, const uint8_t *pixels, int label,
                        const float *logits, Error *error);

/* Predicts the rows that loader_next read. Sets logits (rows, classes). */
static bool predict_window(const Loader *window, float *logits, Error *error) {
  Engine *engine = window->engine;
  const size_t classes = (size_t)network_classes(&engine->config.network);
  for (uint64_t done = 0, count; done < window->rows; done += count) {
    count = engine_piece(engine, window->rows - done, 1);
    if (interrupt_pending()) return error_set(error, "interrupted");
    if (!engine->call->predict(engine, window->first_row + done, count, logits + done * classes,
                               error))
      return false;
  }
  return true;
}

static bool predict_rows(Engine *engine, DatasetReader *reader, PredictRow *use, void *context,
                         Error *error) {
  const size_t classes = (size_t)network_classes(&engine->config.network),
               values = engine->config.staging_rows * classes;
  float *logits = make_array(logits, values);
  if (!logits)
    return error_set(error, "no memory for the predictions to %zu rows",
                     engine->config.staging_rows);
  Loader loader = {.engine = engine, .reader = reader, .ring = true};
  StagingBuffer staging;
  bool good = true;
  while (good && (good = loader_next(&loader, error)) && loader.rows > 0 &&
         (good = predict_window(&loader, logits, error) &&
                 engine->call->staging(engine, 1 - loader.index, &staging, error)))
    for (uint64_t r = 0; good && r < loader.rows; r++) {
      const float *of = logits + r * classes;
      const uint64_t row = dataset_number(reader, r);
      good = predict_check_logits(of, (int)classes, NULL, row, error) &&
             use(context, row, staging.pixels + r * staging.stride, staging.labels[r], of, error);
    }
  free(logits);
  return good;
}

/* ---- prediction --------------------------------------------------------------------------- */

typedef struct {
  DatasetReader *reader;
  const char *names;
  AtomicFile output; /* for standard output, only output.file is set */
  int classes;
  bool probabilities;
} Predictions;

/* Sets *error to why the output could not be written, and returns false. */
static bool not_written(const Predictions *p, Error *error) {
  return p->output.file == stdout ? standard_output_flush(error)
                                  : atomic_file_failed(&p->output, error);
}

/* Prints a field of CSV, in quotes if it needs them. */
static void print_field(FILE *file, const char *text) {
  const bool quoted = strpbrk(text, ",\"\r") != NULL;
  if (quoted) putc('"', file);
  for (; *text; text++) {
    if (*text == '"') putc('"', file);
    putc(*text, file);
  }
  if (quoted) putc('"', file);
}

static bool write_row(void *context, uint64_t row, const uint8_t *pixels, int label,
                      const float *logits, Error *error) {
  const Predictions *p = context;
  FILE *file = p->output.file;
  double probabilities[NETWORK_MAX_CLASSES];
  (void)pixels, (void)label;
  const char *id = dataset_next_id(p->reader);
  if (id)
    print_field(file, id);
  else
    fprintf(file, "%" PRIu64, row);
  putc(',', file);
  print_field(file, class_name(p->names, argmax(logits, p->classes)).text);
  if (p->probabilities) softmax(logits, p->classes, probabilities);
  for (int c = 0; p->probabilities && c < p->classes; c++) fprintf(file, ",%.6g", probabilities[c]);
  fputc('\n', file);
  return !ferror(file) || not_written(p, error);
}

bool predict_to_file(Engine *engine, DatasetReader *reader, const char *path, const char *names,
                     bool probabilities, Error *error) {
  Predictions predictions = {.reader = reader,
                             .names = names,
                             .output.file = stdout,
                             .classes = network_classes(&engine->config.network),
                             .probabilities = probabilities};
  AtomicFile *output = &predictions.output;
  if (strcmp(path, "-") != 0 && !atomic_file_open(output, path, error)) return false;
  fputs("ImageId,Label", output->file);
  for (int c = 0; probabilities && c < predictions.classes; c++) fprintf(output->file, ",P%d", c);
  fputc('\n', output->file);
  const bool good = predict_rows(engine, reader, write_row, &predictions, error);
  if (output->file != stdout) return atomic_file_close(output, good, error);
  return good && standard_output_flush(error);
}

/* ---- a file of labelled rows -------------------------------------------------------------- */

enum { MISTAKES = 64 }; /* maximum number of wrong predictions in the picture of --mistakes */

/* The most confident wrong predictions so far. The most confident one is first. */
typedef struct {
  const EvaluateConfig *config;
  Metrics *metrics;
  Mistake list[MISTAKES];
  int inputs, count;
  double white; /* the value of --pixel-max */
} Gallery;

/* Counts a row in the metrics. Adds a wrong prediction to the gallery. This is a PredictRow. */
static bool see(void *context, uint64_t row, const uint8_t *pixels, int label, const float *logits,
                Error *error) {
  Gallery *g = context;
  (void)error;
  const int prediction = metrics_add(g->metrics, logits, label);
  if (prediction == label) return true;
  double probabilities[NETWORK_MAX_CLASSES];
  softmax(logits, g->metrics->classes, probabilities);
  const double probability = probabilities[prediction];
  int at = g->count;
  while (at > 0 && g->list[at - 1].probability < probability) at--;
  if (at == MISTAKES) return true;
  if (g->count < MISTAKES) g->count++;
  Mistake *mistake = &g->list[at];
  memmove(mistake + 1, mistake, (size_t)(g->count - 1 - at) * sizeof *mistake);
  *mistake = (Mistake){label, prediction, probability, row, {0}};
  for (int i = 0; i < g->inputs; i++) /* scales so that --pixel-max becomes 255 */
    mistake->pixels[i] = (uint8_t)fmin(255, round(pixels[i] * 255 / g->white));
  return true;
}

/* Writes the files that show the parameters: the picture of the weights and the web page. */
static bool draw_network(Engine *engine, const Gallery *g, Error *error) {
  const EvaluateConfig *c = g->config;
  const Network *network = &engine->config.network;
  if (!*c->weights && !*c->html) return true;
  float *parameters = make_array(parameters, network->floats);
  if (!parameters)
    return error_set(error, "out of memory drawing %s", *c->weights ? c->weights : c->html);
  const bool good =
      engine->call->read(engine, parameters, 1, error) &&
      (!*c->weights || plot_weights(network, parameters, c->weights, error)) &&
      (!*c->html || digit_page_write(&engine->config, parameters, c->rows.names, c->html, error));
  free(parameters);
  return good;
}

/* Predicts the file's rows for the metrics and the gallery. */
static bool evaluate_rows(Engine *engine, Gallery *gallery, Error *error) {
  const EvaluateConfig *c = gallery->config;
  DatasetReader *reader = predict_open(engine, c->rows, error);
  if (!reader) return false;
  const bool good = predict_rows(engine, reader, see, gallery, error);
  if (good && c->read) *c->read = *dataset_summary(reader);
  dataset_close(reader);
  return good;
}

bool evaluate_can(const Engine *engine, const EvaluateConfig *c, Error *error) {
  const Network *n = &engine->config.network;
  if (*c->html && n->parameters > DIGIT_PAGE_MOST)
    return error_set(error, "a page of --html holds up to %d parameters, but the network has %zu",
                     DIGIT_PAGE_MOST, n->parameters);
  return (!*c->mistakes && !*c->html) || augment_side(n->size[0]) ||
         error_set(error, "--%s draws square pictures, but a row has %d pixels",
                   *c->mistakes ? "mistakes" : "html", n->size[0]);
}

bool evaluate_file(Engine *engine, const EvaluateConfig *c, Metrics *metrics, Error *error) {
  const Network *network = &engine->config.network;
  if (!evaluate_can(engine, c, error) || !metrics_open(metrics, network_classes(network), error))
    return false;
  metrics->names = c->rows.names;
  Gallery g = {.config = c,
               .metrics = metrics,
               .inputs = network->size[0],
               .white = training_white(&engine->config.training)};
  const bool good = (!c->rows.path || evaluate_rows(engine, &g, error)) &&
                    (!*c->mistakes || plot_mistakes(g.list, g.count, augment_side(g.inputs),
                                                    c->rows.names, c->mistakes, error)) &&
                    (!*c->confusion || plot_confusion(metrics, c->confusion, error)) &&
                    draw_network(engine, &g, error);
  if (!good) metrics_close(metrics);
  return good;
}
