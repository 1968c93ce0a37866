#include "predict/evaluate.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "plot/figures.h"

enum { MISTAKES = 64 }; /* that a picture shows */

/* The most confident wrong predictions so far, the most confident first. */
typedef struct {
  const EvaluateConfig *config;
  Mistake list[MISTAKES];
  uint8_t *pixels; /* (MISTAKES, inputs): list's, in any order */
  int inputs, classes, count;
  double *probabilities; /* (classes) */
} Gallery;

static bool gallery_open(Gallery *g, const EvaluateConfig *config, const Network *network,
                         Error *error) {
  *g = (Gallery){
      .config = config, .inputs = network->size[0], .classes = network->size[network->layers]};
  g->pixels = malloc((size_t)MISTAKES * (size_t)g->inputs);
  g->probabilities = malloc((size_t)g->classes * sizeof *g->probabilities);
  return (g->pixels && g->probabilities) || error_set(error, "out of memory");
}

static void gallery_close(Gallery *g) {
  free(g->pixels);
  free(g->probabilities);
}

/* A PredictRow. */
static bool see(void *context, uint64_t row, const uint8_t *pixels, int label, const float *logits,
                Error *error) {
  Gallery *g = context;
  const int prediction = argmax(logits, g->classes);
  const EvaluateConfig *c = g->config;
  if (c->each && !c->each(c->context, row, pixels, label, logits, error)) return false;
  if (prediction == label) return true;
  softmax(logits, g->classes, g->probabilities);
  const double probability = g->probabilities[prediction];
  int at = g->count;
  while (at > 0 && g->list[at - 1].probability < probability) at--;
  if (at == MISTAKES) return true;
  const size_t inputs = (size_t)g->inputs;
  uint8_t *copy = g->count < MISTAKES ? g->pixels + (size_t)g->count++ * inputs
                                      : (uint8_t *)g->list[MISTAKES - 1].pixels;
  memmove(&g->list[at + 1], &g->list[at], (size_t)(g->count - 1 - at) * sizeof *g->list);
  memcpy(copy, pixels, inputs);
  g->list[at] = (Mistake){copy, label, prediction, probability, row};
  return true;
}

static bool draw(const Gallery *gallery, const Metrics *metrics, Error *error) {
  const EvaluateConfig *c = gallery->config;
  const int side = (int)lround(sqrt(gallery->inputs));
  return (!*c->mistakes ||
          plot_mistakes(gallery->list, gallery->count, side, c->mistakes, error)) &&
         (!*c->confusion || plot_confusion(metrics, c->confusion, error));
}

static bool draw_weights(Engine *engine, const char *path, Error *error) {
  const Network *network = &engine->config.network;
  float *parameters = malloc(network->floats * sizeof *parameters);
  const bool good = parameters ? engine->call->read(engine, parameters, NULL, error) &&
                                     plot_weights(network, parameters, path, error)
                               : error_set(error, "out of memory drawing %s", path);
  free(parameters);
  return good;
}

/* Reads the file into scores and gallery. */
static bool evaluate_rows(Engine *engine, Gallery *gallery, Metrics *metrics, Error *error) {
  const EvaluateConfig *c = gallery->config;
  const Network *network = &engine->config.network;
  const size_t ahead = 2 * (size_t)engine->config.staging_rows;
  DatasetReader *reader = dataset_open(c->test, network->size[network->layers],
                                       c->threads ? c->threads : omp_get_num_procs(), ahead, error);
  if (!reader) return false;
  const int inputs = dataset_inputs(reader), wanted = network->size[0];
  const bool good =
      inputs == wanted ? predict_evaluate(engine, reader, metrics, see, gallery, error)
      : inputs == wanted - 1
          ? error_set(error,
                      "%s has no label column: its rows are the %d pixels that the network takes; "
                      "--predict %s needs no labels",
                      c->test, wanted, c->test)
          : error_set(error, "%s has %d pixels a row, but the network takes %d", c->test, inputs,
                      wanted);
  dataset_close(reader);
  return good;
}

bool evaluate_can(const Engine *engine, const EvaluateConfig *c, Error *error) {
  const int inputs = engine->config.network.size[0], side = (int)lround(sqrt(inputs));
  return !*c->mistakes || side * side == inputs ||
         error_set(error, "--mistakes draws square pictures, but a row has %d pixels", inputs);
}

bool evaluate_file(Engine *engine, const EvaluateConfig *c, Metrics *metrics, Error *error) {
  Gallery gallery;
  if (!evaluate_can(engine, c, error)) return false;
  if (!metrics_open(metrics, engine->config.network.size[engine->config.network.layers], error))
    return false;
  const bool good = gallery_open(&gallery, c, &engine->config.network, error) &&
                    (!c->test || evaluate_rows(engine, &gallery, metrics, error)) &&
                    draw(&gallery, metrics, error) &&
                    (!*c->weights || draw_weights(engine, c->weights, error));
  gallery_close(&gallery);
  if (!good) metrics_close(metrics);
  return good;
}
