/* A network on disk, with what is needed to go on training it: a safetensors file, which PyTorch,
   JAX and others read (https://github.com/huggingface/safetensors, "Format").

   Tensors, all F32: layers.N.weight (out, in) and layers.N.bias (out), N from 0, as PyTorch's
   nn.Linear keeps them; the momentum, or the first moment of adam and adamw, likewise as
   momentum.N.weight and momentum.N.bias, if there is any, and their second moment as
   second_moment.N.weight and second_moment.N.bias. If the network is an average of the parameters
   that are trained, those are raw.N.weight and raw.N.bias. The rest stands in __metadata__: format
   "mlp-train", version "1", and the fields below under their names.

   Files of others are read, too: tensors in any order, any metadata, and instead of "layers." any
   prefix that all names share, none being one. Layers come in the order of their numbers, which
   may have gaps. So the state dict of an nn.Sequential (0.weight, 2.weight) or of a module with
   fc1, fc2, ... can be loaded; ReLU between them is taken for granted. */
#pragma once

#include "model/class_names.h"
#include "model/network.h"

/* Arrays of a checkpoint, in the order in which an engine keeps them. */
typedef enum {
  CHECKPOINT_PARAMETERS,
  CHECKPOINT_MOMENTUM, /* or adam's first moment */
  CHECKPOINT_SECOND_MOMENT,
  CHECKPOINT_RAW, /* the parameters that are trained, if the first array is their average */
  CHECKPOINT_ARRAYS
} CheckpointArray;

typedef struct {
  Network network;
  float *parameters; /* (count, network.floats): the parameters, then the other arrays, each laid
                        out as network.h says; owned */
  int count;
  CheckpointArray kind[CHECKPOINT_ARRAYS]; /* (count): ascending, from CHECKPOINT_PARAMETERS on */
  uint64_t updates; /* steps trained since the parameters were initialised, 0 if unknown */
  int resident;  /* of a file that older programs saved in the middle of an epoch: its Residency */
  int epoch;     /* epochs trained in full, 0 if unknown */
  uint64_t step; /* steps trained of the epoch after those */
  double loss;   /* sum over the rows of those steps, as EngineSums */
  uint64_t correct, rows; /* likewise */
  double test_accuracy;   /* of the last full epoch, NAN if unknown */
  double best_accuracy;   /* NAN if unknown */
  int best_epoch;         /* 0 if unknown */
  char *options;          /* the text of an INI file in UTF-8, "" if unknown; owned */
  char *names;            /* of the classes, see class_names.h, NULL: none; owned */
  char *data;             /* the training rows, as data_to_json has them; NULL: unknown; owned */
} Checkpoint;

/* Returns the array, (network.floats); NULL: the checkpoint has none. */
static inline float *checkpoint_array(const Checkpoint *checkpoint, CheckpointArray kind) {
  for (int a = 0; a < checkpoint->count; a++)
    if (checkpoint->kind[a] == kind)
      return checkpoint->parameters + (size_t)a * checkpoint->network.floats;
  return NULL;
}

/* Replaces the file as base/output.h says: whatever fails, the old one stays whole. The same
   checkpoint gives the same bytes. Refuses infinite values and NAN, and all but regular files. */
bool checkpoint_save(const Checkpoint *checkpoint, const char *path, Error *error);

/* Tries what saving to `path` will need, and leaves no trace. A run whose network could not be
   saved so fails before it trains. */
bool checkpoint_probe(const char *path, Error *error);

/* Checks the whole file before it believes any of it. On failure *checkpoint is all zeros;
   on success the caller frees it. Arrays have zeros as padding. */
bool checkpoint_load(Checkpoint *checkpoint, const char *path, Error *error);

/* Frees what it owns and leaves zeros. A checkpoint of zeros is allowed. */
void checkpoint_free(Checkpoint *checkpoint);
