/* The engine of a run of ranks: one rank's engine, whose train is shared already, with evaluation
   split among the ranks and the sums of all of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

typedef struct {
  Engine engine; /* first: an Engine * of ours is a RanksEngine * */
  Engine *inner;
  Ranks *ranks;
} RanksEngine;

static Engine *inner_of(Engine *engine) {
  return ((RanksEngine *)engine)->inner;
}

static bool share_staging(Engine *engine, int index, StagingBuffer *out, Error *error) {
  return inner_of(engine)->call->staging(inner_of(engine), index, out, error);
}

static bool share_upload(Engine *engine, int index, uint64_t first_row, uint64_t rows,
                         Error *error) {
  return inner_of(engine)->call->upload(inner_of(engine), index, first_row, rows, error);
}

static bool share_train(Engine *engine, const TrainRange *range, Error *error) {
  return inner_of(engine)->call->train(inner_of(engine), range, error);
}

static bool share_evaluate(Engine *engine, uint64_t first_row, uint64_t rows, Error *error) {
  const Ranks *ranks = ((RanksEngine *)engine)->ranks;
  const size_t rank = (size_t)ranks_number(ranks), count = (size_t)ranks_count(ranks);
  const uint64_t first = part_start(rows, rank, count), end = part_start(rows, rank + 1, count);
  return first == end ||
         inner_of(engine)->call->evaluate(inner_of(engine), first_row + first, end - first, error);
}

static bool share_predict(Engine *engine, uint64_t first_row, uint64_t rows, float *logits,
                          Error *error) {
  return inner_of(engine)->call->predict(inner_of(engine), first_row, rows, logits, error);
}

/* Counts are exact in float64 up to 2^53. */
static bool share_collect(Engine *engine, EngineSums *out, Error *error) {
  EngineSums mine;
  if (!inner_of(engine)->call->collect(inner_of(engine), &mine, error)) return false;
  double sums[] = {mine.loss, (double)mine.correct, (double)mine.rows};
  if (!ranks_sum_doubles(((RanksEngine *)engine)->ranks, sums, sizeof sums / sizeof *sums, error))
    return false;
  *out = (EngineSums){sums[0], (uint64_t)sums[1], (uint64_t)sums[2]};
  return true;
}

static bool share_read(Engine *engine, float *parameters, float *state, Error *error) {
  return inner_of(engine)->call->read(inner_of(engine), parameters, state, error);
}

static bool share_write(Engine *engine, const float *parameters, const float *state, Error *error) {
  return inner_of(engine)->call->write(inner_of(engine), parameters, state, error);
}

static void share_close(Engine *engine) {
  inner_of(engine)->call->close(inner_of(engine));
  free(engine);
}

static const EngineOperations operations = {
    .staging = share_staging,
    .upload = share_upload,
    .train = share_train,
    .evaluate = share_evaluate,
    .predict = share_predict,
    .collect = share_collect,
    .read = share_read,
    .write = share_write,
    .close = share_close,
};

/* What became of a rank's own engine. */
typedef struct {
  bool opened;
  Error error;
} Opened;

/* Whether every rank's could be opened, all (ranks) being room for what they say; *error is then
   the first failure's. */
static bool all_opened(Ranks *ranks, bool mine, Opened *all, Error *error) {
  Opened opened = {.opened = mine};
  if (!mine) opened.error = *error;
  if (!ranks_gather(ranks, &opened, sizeof opened, all, error)) return false;
  for (int r = 0; r < ranks_count(ranks); r++)
    if (!all[r].opened) {
      *error = all[r].error;
      return false;
    }
  return true;
}

Engine *engine_ranks_open(Engine *inner, Ranks *ranks, Error *error) {
  RanksEngine *shared = calloc(1, sizeof *shared);
  Opened *all = calloc((size_t)ranks_count(ranks), sizeof *all);
  if (!shared || !all) error_set(error, "out of memory for the ranks");
  if (!shared || !all || !all_opened(ranks, inner, all, error)) {
    if (inner) inner->call->close(inner);
    free(shared);
    free(all);
    return NULL;
  }
  free(all);
  const int hosts = ranks_hosts(ranks);
  char where[32] = "";
  shared->engine = *inner;
  shared->engine.call = &operations;
  shared->inner = inner;
  shared->ranks = ranks;
  if (hosts > 1) snprintf(where, sizeof where, " on %d hosts", hosts);
  snprintf(shared->engine.device, sizeof shared->engine.device, "%.80s, %d ranks%s", inner->device,
           ranks_count(ranks), where);
  return &shared->engine;
}
