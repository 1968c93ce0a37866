#include "predict/evaluate.h"

#include <string.h>

enum { MISTAKES = 64 }; /* that a picture shows */

/* The most confident wrong predictions so far, the most confident first. */
typedef struct {
  const EvaluateConfig *config;
  Metrics *metrics;
  Mistake list[MISTAKES];
  uint8_t *pixels; /* (MISTAKES, inputs): list's, in any order */
  int inputs, count;
  double white; /* --pixel-max */
} Gallery;

/* A PredictRow. */
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
  uint8_t *copy = g->count < MISTAKES ? g->pixels + g->count++ * g->inputs
                                      : (uint8_t *)g->list[MISTAKES - 1].pixels;
  memmove(&g->list[at + 1], &g->list[at], (size_t)(g->count - 1 - at) * sizeof *g->list);
  for (int i = 0; i < g->inputs; i++) /* white is 1 to the network */
    copy[i] = (uint8_t)fmin(255, round(pixels[i] * 255 / g->white));
  g->list[at] = (Mistake){copy, label, prediction, probability, row};
  return true;
}

/* Draws what shows the parameters. */
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
      (!*c->html || digit_page_write(&engine->config, parameters, c->names, c->html, error));
  free(parameters);
  return good;
}

/* Reads the file into scores and gallery. */
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
  metrics->names = c->names;
  Gallery g = {.config = c,
               .metrics = metrics,
               .pixels = make_array(g.pixels, MISTAKES * network->size[0]),
               .inputs = network->size[0],
               .white = training_white(&engine->config.training)};
  const bool good = (g.pixels || error_set(error, "out of memory")) &&
                    (!c->rows.path || evaluate_rows(engine, &g, error)) &&
                    (!*c->mistakes || plot_mistakes(g.list, g.count, augment_side(g.inputs),
                                                    c->names, c->mistakes, error)) &&
                    (!*c->confusion || plot_confusion(metrics, c->confusion, error)) &&
                    draw_network(engine, &g, error);
  free(g.pixels);
  if (!good) metrics_close(metrics);
  return good;
}
