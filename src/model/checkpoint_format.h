/* The names in a checkpoint's file, which saving and loading share. */
#ifndef CHECKPOINT_FORMAT_H
#define CHECKPOINT_FORMAT_H

#include <math.h>

#include "model/checkpoint.h"

#define CHECKPOINT_FORMAT "mlp-train"
#define CHECKPOINT_VERSION "1"

/* The text before the names of an array's tensors. Parameters may have another prefix, that of
   another program. */
static const char *const prefixes[CHECKPOINT_ARRAYS] = {"layers.", "momentum.", "second_moment.",
                                                        "raw."};

enum {
  CHECKPOINT_HEADER_MAX = 1 << 20, /* bytes; 64 tensors and the options take some thousand */
  CHECKPOINT_TENSORS_MAX = 2 * CHECKPOINT_ARRAYS * NETWORK_MAX_LAYERS, /* weight and bias */
};

/* Numbers, kept as text. */
typedef enum { FIELD_INT, FIELD_COUNT, FIELD_REAL } FieldKind; /* int, uint64_t, double */

typedef struct {
  const char *name;
  FieldKind kind;
  size_t offset;    /* in Checkpoint */
  bool may_be_left; /* out, by older versions: then it is 0 */
} Field;

static const Field fields[] = {
    {"epoch", FIELD_INT, offsetof(Checkpoint, epoch), false},
    {"step", FIELD_COUNT, offsetof(Checkpoint, step), false},
    {"loss", FIELD_REAL, offsetof(Checkpoint, loss), false},
    {"correct", FIELD_COUNT, offsetof(Checkpoint, correct), false},
    {"rows", FIELD_COUNT, offsetof(Checkpoint, rows), false},
    {"test_accuracy", FIELD_REAL, offsetof(Checkpoint, test_accuracy), false},
    {"best_accuracy", FIELD_REAL, offsetof(Checkpoint, best_accuracy), false},
    {"best_epoch", FIELD_INT, offsetof(Checkpoint, best_epoch), false},
    {"updates", FIELD_COUNT, offsetof(Checkpoint, updates), true},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static inline bool all_finite(const float *values, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!isfinite(values[i])) return false;
  return true;
}

#endif
