#include "predict/predict.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/image.h"
#include "engine/loader.h"
#include "base/atomic_file.h"

enum { LIKELIEST = 3 };

static int classes_of(const Engine *engine) {
  return engine->config.network.size[engine->config.network.layers];
}

DatasetReader *ask_open(const Engine *engine, const char *path, int threads, Error *error) {
  const size_t ahead = 2 * (size_t)engine->config.slot_rows;
  return dataset_open_for(path, engine->config.network.size[0], classes_of(engine), threads, ahead,
                          error);
}

/* ---- all rows of a file ------------------------------------------------------------------- */

typedef struct {
  Engine *engine;
  float *logits; /* (slot_rows, classes) */
  uint64_t rows; /* seen */
  AskRow *use;
  void *context;
} Pass;

/* A LoaderUse: shows the rows of a slot. */
static bool use_slot(void *context, uint64_t first_row, uint64_t rows, Error *error) {
  Pass *pass = context;
  Engine *engine = pass->engine;
  const size_t classes = (size_t)classes_of(engine);
  EngineSlot slot;
  if (!engine->call->predict(engine, first_row, rows, pass->logits, error) ||
      !engine->call->slot(engine, first_row == 0 ? 0 : 1, &slot, error))
    return false;
  for (uint64_t r = 0; r < rows; r++)
    if (!pass->use(pass->context, ++pass->rows, slot.pixels + r * slot.stride, slot.labels[r],
                   pass->logits + r * classes, error))
      return false;
  return true;
}

static bool ask_rows(Engine *engine, DatasetReader *reader, AskRow *use, void *context,
                     Error *error) {
  const size_t logits = (size_t)engine->config.slot_rows * (size_t)classes_of(engine);
  Pass pass = {.engine = engine,
               .logits = malloc(logits * sizeof *pass.logits),
               .use = use,
               .context = context};
  if (!pass.logits) return error_set(error, "no memory for the answers to %zu rows", logits);
  const LoaderPlan plan = {.ring = true, .use = use_slot, .context = &pass};
  uint64_t rows;
  const bool good = loader_feed(engine, reader, &plan, &rows, error);
  free(pass.logits);
  return good;
}

/* ---- evaluation --------------------------------------------------------------------------- */

typedef struct {
  Scores *scores;
  AskRow *each;
  void *context;
} Evaluation;

static bool score_row(void *context, uint64_t row, const uint8_t *pixels, int label,
                      const float *logits, Error *error) {
  const Evaluation *e = context;
  scores_add(e->scores, logits, label);
  return !e->each || e->each(e->context, row, pixels, label, logits, error);
}

bool ask_evaluate(Engine *engine, DatasetReader *reader, Scores *scores, AskRow *each,
                  void *context, Error *error) {
  Evaluation e = {scores, each, context};
  return ask_rows(engine, reader, score_row, &e, error);
}

/* ---- prediction --------------------------------------------------------------------------- */

typedef struct {
  Output output; /* its file may be stdout */
  int classes;
  double *probabilities; /* (classes) or NULL: not asked for; owned */
} Answers;

static bool close_answers(Answers *answers, bool good, Error *error) {
  Output *output = &answers->output;
  free(answers->probabilities);
  if (output->file != stdout) return output_close(output, good, error);
  return good && (fflush(stdout) == 0 || output_failed(output, error));
}

static bool open_answers(Answers *answers, const char *path, int classes, bool probabilities,
                         Error *error) {
  *answers =
      (Answers){.output = {.file = stdout, .path = "to standard output"}, .classes = classes};
  if (probabilities) {
    answers->probabilities = malloc((size_t)classes * sizeof *answers->probabilities);
    if (!answers->probabilities) return error_set(error, "no memory for %d classes", classes);
  }
  if (strcmp(path, "-") == 0 || output_open(&answers->output, path, error)) return true;
  free(answers->probabilities);
  return false;
}

static void write_heads(const Answers *answers) {
  FILE *file = answers->output.file;
  fputs("ImageId,Label", file);
  for (int c = 0; answers->probabilities && c < answers->classes; c++) fprintf(file, ",P%d", c);
  fputc('\n', file);
}

static bool write_row(void *context, uint64_t row, const uint8_t *pixels, int label,
                      const float *logits, Error *error) {
  const Answers *answers = context;
  FILE *file = answers->output.file;
  (void)pixels, (void)label;
  fprintf(file, "%" PRIu64 ",%d", row, scores_answer(logits, answers->classes));
  if (answers->probabilities) {
    scores_probabilities(logits, answers->classes, answers->probabilities);
    for (int c = 0; c < answers->classes; c++) fprintf(file, ",%.6g", answers->probabilities[c]);
  }
  fputc('\n', file);
  return !ferror(file) || output_failed(&answers->output, error);
}

bool ask_predict(Engine *engine, DatasetReader *reader, const char *path, bool probabilities,
                 Error *error) {
  Answers answers;
  if (!open_answers(&answers, path, classes_of(engine), probabilities, error)) return false;
  write_heads(&answers);
  const bool good = ask_rows(engine, reader, write_row, &answers, error);
  return close_answers(&answers, good, error);
}

/* ---- pictures ----------------------------------------------------------------------------- */

/* The logits of a picture, through store row 0. */
static bool ask_picture(Engine *engine, const char *path, int side, float *logits, Error *error) {
  EngineSlot slot;
  if (!engine->call->slot(engine, 0, &slot, error) ||
      !image_read_digit(path, side, slot.pixels, error))
    return false;
  slot.labels[0] = 0;
  return engine->call->upload(engine, 0, 0, 1, error) &&
         engine->call->predict(engine, 0, 1, logits, error);
}

/* "name  7 99.62%  2  0.31%  3  0.05%"; takes the probabilities that it writes away. */
static void write_likeliest(const char *path, int name_width, double *probabilities, int classes,
                            FILE *file) {
  const int digits = snprintf(NULL, 0, "%d", classes - 1);
  fprintf(file, "%-*s", name_width, path);
  for (int i = 0; i < LIKELIEST && i < classes; i++) {
    int best = -1;
    for (int c = 0; c < classes; c++)
      if (!(probabilities[c] < 0) && (best < 0 || probabilities[c] > probabilities[best])) best = c;
    fprintf(file, "  %*d %6.2f%%", digits, best, 100 * probabilities[best]);
    probabilities[best] = -1;
  }
  fputc('\n', file);
}

static bool classify(Engine *engine, char *const *paths, int count, int side, float *logits,
                     double *probabilities, FILE *file, Error *error) {
  const int classes = classes_of(engine);
  int width = 0;
  for (int i = 0; i < count; i++)
    if (strlen(paths[i]) > (size_t)width) width = (int)strlen(paths[i]);
  for (int i = 0; i < count; i++) {
    if (!ask_picture(engine, paths[i], side, logits, error)) return false;
    scores_probabilities(logits, classes, probabilities);
    write_likeliest(paths[i], width, probabilities, classes, file);
  }
  if (fflush(file) == 0 && !ferror(file)) return true;
  return error_set(error, "cannot write the answers: %s", strerror(errno));
}

bool ask_classify(Engine *engine, char *const *paths, int count, FILE *file, Error *error) {
  const size_t classes = (size_t)classes_of(engine);
  const int inputs = engine->config.network.size[0], side = (int)lround(sqrt(inputs));
  if (side * side != inputs || side < 2)
    return error_set(error, "the network takes %d pixels, which are no square picture", inputs);
  float *logits = malloc(classes * sizeof *logits);
  double *probabilities = malloc(classes * sizeof *probabilities);
  const bool good = logits && probabilities
                        ? classify(engine, paths, count, side, logits, probabilities, file, error)
                        : error_set(error, "no memory for %zu classes", classes);
  free(logits);
  free(probabilities);
  return good;
}
