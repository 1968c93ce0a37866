/* Copies the state of training from an engine to a checkpoint and back. */
#ifndef TRAIN_STATE_H
#define TRAIN_STATE_H

#include "engine/engine.h"
#include "model/checkpoint.h"

/* Waits for queued work and copies the network and the state of its training into the checkpoint's
   arrays, which are allocated; its network is set already. On failure some may be: checkpoint_free
   frees them. */
bool train_state_read(Engine *engine, Checkpoint *checkpoint, Error *error);

/* Copies the checkpoint into an engine for the same network. An array that the checkpoint lacks is
   as at the start of a run: moments are 0, and an average is the parameters that are trained. */
bool train_state_write(Engine *engine, const Checkpoint *checkpoint, Error *error);

#endif
