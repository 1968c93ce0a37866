/* The engines of several ranks: they open together and add their sums. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

/* Counts are exact in float64 up to 2^53. */
bool engine_ranks_collect(const EngineConfig *config, EngineSums *sums, Error *error) {
  double all[] = {sums->loss, (double)sums->correct, (double)sums->rows};
  if (!config->ranks) return true;
  if (!ranks_sum_doubles(config->ranks, all, sizeof all / sizeof *all, error)) return false;
  *sums = (EngineSums){all[0], (uint64_t)all[1], (uint64_t)all[2]};
  return true;
}

/* Returns true if every rank could open its engine; otherwise *error is the first failure. */
static bool all_opened(Ranks *ranks, bool mine, Error *error) {
  typedef struct {
    bool opened;
    Error error;
  } Opened; /* the result of a rank's own engine */
  Opened opened = {.opened = mine}, *all = calloc((size_t)ranks_count(ranks), sizeof *all);
  if (!mine) opened.error = *error;
  bool good = all ? ranks_gather(ranks, &opened, sizeof opened, all, error)
                  : error_set(error, "out of memory for the ranks");
  for (int r = 0; all && good && r < ranks_count(ranks); r++)
    if (!(good = all[r].opened)) *error = all[r].error;
  free(all);
  return good;
}

Engine *engine_ranks_open(Engine *engine, Ranks *ranks, Error *error) {
  const bool opened = all_opened(ranks, engine, error);
  if (!engine) return NULL;
  if (!opened) {
    engine->call->close(engine);
    return NULL;
  }
  const int hosts = ranks_hosts(ranks);
  char device[sizeof engine->device], where[32] = "";
  if (hosts > 1) snprintf(where, sizeof where, " on %d hosts", hosts);
  snprintf(device, sizeof device, "%.80s, %d ranks%s", engine->device, ranks_count(ranks), where);
  memcpy(engine->device, device, sizeof device);
  return engine;
}
