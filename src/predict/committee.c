/* A committee is an engine that averages the predictions of other engines, its members. */
#include "predict/predict.h"

#include <string.h>

typedef struct {
  Engine engine; /* must be first, because an Engine * is cast to a Committee * */
  int count;
  double *sums;     /* (staging_rows, classes), sums of the members' probabilities */
  Engine *member[]; /* (count) */
} Committee;

static int classes_of(const Committee *c) {
  return network_classes(&c->engine.config.network);
}

/* Sets *out to the first member's staging buffer. */
static bool committee_staging(Engine *engine, int index, StagingBuffer *out, Error *error) {
  Engine *first = ((Committee *)engine)->member[0];
  return first->call->staging(first, index, out, error);
}

/* Copies the first member's buffer to the other members' buffers and uploads all buffers. The first
   member's buffer is uploaded last, because an uploaded buffer cannot be read. */
static bool committee_upload(Engine *engine, int index, uint64_t first_row, uint64_t rows,
                             Error *error) {
  const Committee *c = (Committee *)engine;
  StagingBuffer from, to;
  if (!committee_staging(engine, index, &from, error)) return false;
  for (int m = 1; m < c->count; m++) {
    Engine *member = c->member[m];
    if (!member->call->staging(member, index, &to, error)) return false;
    memcpy(to.pixels, from.pixels, rows * from.stride);
    memcpy(to.labels, from.labels, rows * sizeof *from.labels);
    if (!member->call->upload(member, index, first_row, rows, error)) return false;
  }
  return c->member[0]->call->upload(c->member[0], index, first_row, rows, error);
}

/* Adds the probabilities of a member's logits (rows, classes) to c->sums. If a logit is not finite,
   the sum for its row and class becomes NAN. */
static void add_probabilities(Committee *c, uint64_t rows, const float *logits) {
  const int classes = classes_of(c);
  double probabilities[NETWORK_MAX_CLASSES];
  for (uint64_t r = 0; r < rows; r++) {
    double *sums = c->sums + r * (uint64_t)classes;
    softmax(logits, classes, probabilities);
    for (int k = 0; k < classes; k++) sums[k] += isfinite(*logits++) ? probabilities[k] : NAN;
  }
}

static bool committee_predict(Engine *engine, uint64_t first_row, uint64_t rows, float *logits,
                              Error *error) {
  Committee *c = (Committee *)engine;
  const size_t values = rows * (size_t)classes_of(c);
  memset(c->sums, 0, values * sizeof *c->sums);
  for (int m = 0; m < c->count; m++) {
    if (!c->member[m]->call->predict(c->member[m], first_row, rows, logits, error)) return false;
    add_probabilities(c, rows, logits);
  }
  /* A probability that is 0 in float64 counts as 1e-308, so that its logarithm is finite. */
  for (size_t i = 0; i < values; i++) /* a sum of 0 counts as 1e-308, but NAN remains NAN */
    logits[i] = (float)log(c->sums[i] <= 0 ? 1e-308 : c->sums[i] / c->count);
  return true;
}

static void committee_close(Engine *engine) {
  Committee *c = (Committee *)engine;
  for (int m = 0; m < c->count; m++) engine_close(c->member[m]);
  free(c->sums);
  free(c);
}

/* Does what picture_upload does, for a single network. */
static bool upload_to_network(Engine *engine, const uint8_t *ink, Error *error) {
  StagingBuffer staging;
  if (!engine->call->staging(engine, 0, &staging, error)) return false;
  const float white = (float)training_white(&engine->config.training);
  for (int p = 0; p < engine->config.network.size[0]; p++)
    staging.pixels[p] = (uint8_t)lroundf((float)ink[p] * white / 255);
  staging.labels[0] = 0;
  return engine->call->upload(engine, 0, 0, 1, error);
}

bool picture_upload(Engine *engine, const uint8_t *ink, Error *error) {
  const Committee *c = (Committee *)engine;
  if (engine->call->predict != committee_predict) return upload_to_network(engine, ink, error);
  for (int m = 0; m < c->count; m++)
    if (!upload_to_network(c->member[m], ink, error)) return false;
  return true;
}

Engine *committee_open(Engine *const *members, int count, Error *error) {
  static const EngineOperations operations = {.staging = committee_staging,
                                              .upload = committee_upload,
                                              .predict = committee_predict,
                                              .close = committee_close};
  Committee *c = calloc(1, sizeof *c + (size_t)count * sizeof *c->member);
  if (c) {
    c->engine = *members[0];
    c->engine.call = &operations;
    c->count = count;
    memcpy(c->member, members, (size_t)count * sizeof *members);
    const size_t values = c->engine.config.staging_rows * (size_t)classes_of(c);
    c->sums = make_array(c->sums, values);
    if (c->sums) return &c->engine;
  }
  error_set(error, "out of memory for %d networks", count);
  if (c)
    committee_close(&c->engine);
  else
    for (int m = 0; m < count; m++) engine_close(members[m]);
  return NULL;
}
