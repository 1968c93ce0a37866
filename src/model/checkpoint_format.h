/* What saving and loading a checkpoint share: the names in a file's __metadata__. */
#ifndef CHECKPOINT_FORMAT_H
#define CHECKPOINT_FORMAT_H

#include <math.h>

#include "model/checkpoint.h"

#define CHECKPOINT_FORMAT "mlp-train"
#define CHECKPOINT_VERSION "1"
#define CHECKPOINT_MOMENTUM "momentum." /* before the name of the tensor that it belongs to */

enum {
  CHECKPOINT_HEADER_MAX = 1 << 20, /* bytes; 32 tensors and the options take some thousand */
  CHECKPOINT_TENSORS_MAX = 4 * NETWORK_MAX_LAYERS, /* weight and bias, of parameters and momentum */
};

/* Numbers, kept as text. */
typedef enum { FIELD_INT, FIELD_COUNT, FIELD_REAL } FieldKind; /* int, uint64_t, double */

typedef struct {
  const char *name;
  FieldKind kind;
  size_t offset; /* in Checkpoint */
} Field;

static const Field fields[] = {
    {"epoch", FIELD_INT, offsetof(Checkpoint, epoch)},
    {"step", FIELD_COUNT, offsetof(Checkpoint, step)},
    {"loss", FIELD_REAL, offsetof(Checkpoint, loss)},
    {"correct", FIELD_COUNT, offsetof(Checkpoint, correct)},
    {"rows", FIELD_COUNT, offsetof(Checkpoint, rows)},
    {"test_accuracy", FIELD_REAL, offsetof(Checkpoint, test_accuracy)},
    {"best_accuracy", FIELD_REAL, offsetof(Checkpoint, best_accuracy)},
    {"best_epoch", FIELD_INT, offsetof(Checkpoint, best_epoch)},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static inline bool all_finite(const float *values, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!isfinite(values[i])) return false;
  return true;
}

#endif
