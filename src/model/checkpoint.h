/* A network on disk, with everything that is needed to continue its training. The file is a
   safetensors file, which PyTorch, JAX and others read (https://github.com/huggingface/safetensors,
   "Format").

   All tensors are F32. layers.N.weight (out, in) and layers.N.bias (out), N from 0, are stored as
   in PyTorch's nn.Linear. The other tensors are optional. momentum.N.weight and momentum.N.bias are
   the momentum, or the first moment of adam and adamw. second_moment.N.weight and
   second_moment.N.bias are the second moment of adam and adamw. If layers.N are averages of the
   trained parameters, raw.N.weight and raw.N.bias are the trained parameters. __metadata__ has
   format "mlp-train", version "1", and fields of Checkpoint under their names.

   Files of other programs are read, too. Their tensors may be in any order, with any metadata. All
   names may have another prefix than "layers.", or no prefix. Layers are ordered by their numbers,
   which may have gaps. So the state dict of an nn.Sequential (0.weight, 2.weight) or of a module
   with fc1, fc2, ... can be loaded. ReLU is assumed between layers unless __metadata__ has a field
   "activation"; any other activation is refused. */
#pragma once

#include "model/class_names.h"
#include "model/network.h"

/* The arrays of a checkpoint, in the order in which an engine keeps them. */
typedef enum {
  CHECKPOINT_PARAMETERS,
  CHECKPOINT_MOMENTUM, /* the momentum, or the first moment of adam and adamw */
  CHECKPOINT_SECOND_MOMENT,
  CHECKPOINT_RAW, /* the trained parameters, if the first array is their average */
  CHECKPOINT_ARRAYS
} CheckpointArray;

typedef struct {
  Network network;
  float *parameters; /* (count, network.floats): the parameters, then the other arrays, each laid
                        out as network.h says; owned */
  int count;         /* number of arrays */
  CheckpointArray kind[CHECKPOINT_ARRAYS]; /* (count): the kinds of the arrays, in ascending order,
                                              starting with CHECKPOINT_PARAMETERS */
  uint64_t updates;       /* number of steps trained since the first initialisation; 0 if unknown */
  int resident;           /* a Residency if an older version saved the file in mid-epoch, else 0 */
  int epoch;              /* number of complete epochs trained; 0 if unknown */
  uint64_t step;          /* number of steps trained since the last complete epoch */
  double loss;            /* EngineSums.loss since the last complete epoch */
  uint64_t correct, rows; /* correct predictions; rows (both since the last complete epoch) */
  double test_accuracy;   /* accuracy after the last complete epoch; NAN if unknown */
  double best_accuracy;   /* accuracy after best_epoch; NAN if unknown */
  int best_epoch;         /* the most accurate epoch, counted from 1; 0 if unknown */
  char *options;          /* the options as an INI file's text in UTF-8; "" if unknown; owned */
  char *names;            /* names of the classes, see class_names.h; NULL if unknown; owned */
  char *activation;       /* the function between layers, "relu"; NULL if unknown; owned */
  char *data; /* summary of the training rows, written by data_to_json; NULL if unknown; owned */
} Checkpoint;

/* The only function between layers that networks may have, in lower case. */
#define CHECKPOINT_ACTIVATION "relu"

/* Returns the array (network.floats), or NULL if the checkpoint lacks it. */
static inline float *checkpoint_array(const Checkpoint *checkpoint, CheckpointArray kind) {
  for (int a = 0; a < checkpoint->count; a++)
    if (checkpoint->kind[a] == kind)
      return checkpoint->parameters + (size_t)a * checkpoint->network.floats;
  return NULL;
}

/* Saves to the file `path`. Replaces an old file as base/output.h describes: if saving fails, the
   old file stays intact. The same checkpoint gives the same bytes. Refuses infinite values, NAN,
   and targets that are not regular files. */
bool checkpoint_save(const Checkpoint *checkpoint, const char *path, Error *error);

/* Returns true if a checkpoint can be saved to `path`. Leaves no file there. A run calls this
   before it trains, to fail early. */
bool checkpoint_probe(const char *path, Error *error);

/* Loads a file, and checks all of it. On failure *checkpoint is all zeros. On success the caller
   frees *checkpoint with checkpoint_free. The padding of the arrays is zero. */
bool checkpoint_load(Checkpoint *checkpoint, const char *path, Error *error);

/* Frees what the checkpoint owns and zeroes it. *checkpoint may already be all zeros. */
void checkpoint_free(Checkpoint *checkpoint);
