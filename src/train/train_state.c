/* An engine keeps what its optimizer needs as one array after another; a checkpoint keeps each by
   its name. */
#include "train/train_state.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_STATES = 3 };

/* Sets the pointer to each array of training_states, in its order; returns their number. */
static size_t list_states(const EngineConfig *config, Checkpoint *checkpoint,
                          float **states[MOST_STATES]) {
  size_t count = 0;
  states[count++] = &checkpoint->momentum;
  if (training_moments(&config->training) > 1) states[count++] = &checkpoint->second_moment;
  if (config->training.ema > 0) states[count++] = &checkpoint->raw;
  return count;
}

static float *copy_of(const float *values, size_t count) {
  float *copy = malloc(count * sizeof *copy);
  if (copy) memcpy(copy, values, count * sizeof *copy);
  return copy;
}

bool train_state_read(Engine *engine, Checkpoint *checkpoint, Error *error) {
  float **states[MOST_STATES];
  const size_t count = list_states(&engine->config, checkpoint, states);
  const size_t floats = checkpoint->network.floats;
  float *state = malloc(count * floats * sizeof *state);
  checkpoint->parameters = malloc(floats * sizeof *checkpoint->parameters);
  bool room = state && checkpoint->parameters;
  if (room && !engine->call->read(engine, checkpoint->parameters, state, error)) {
    free(state);
    return false;
  }
  for (size_t s = 0; room && s < count; s++)
    room = (*states[s] = copy_of(state + s * floats, floats)) != NULL;
  free(state);
  return room || error_set(error, "out of memory saving the network");
}

bool train_state_write(Engine *engine, const Checkpoint *checkpoint, Error *error) {
  const bool averages = engine->config.training.ema > 0;
  Checkpoint from = *checkpoint; /* its arrays are the other's */
  if (!from.raw) from.raw = from.parameters;
  float **states[MOST_STATES];
  const size_t count = list_states(&engine->config, &from, states);
  const size_t floats = from.network.floats;
  float *state = calloc(count * floats, sizeof *state);
  if (!state) return error_set(error, "out of memory continuing a run");
  for (size_t s = 0; s < count; s++)
    if (*states[s]) memcpy(state + s * floats, *states[s], floats * sizeof *state);
  const bool good =
      engine->call->write(engine, averages ? from.parameters : from.raw, state, error);
  free(state);
  return good;
}
