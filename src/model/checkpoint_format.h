/* The fields in the __metadata__ of a checkpoint's file. */
#pragma once

#include <math.h>

#include "model/checkpoint.h"

#define CHECKPOINT_FORMAT "mlp-train"
#define CHECKPOINT_VERSION "1"

/* Numbers, kept as text. */
typedef enum { FIELD_INT, FIELD_COUNT, FIELD_REAL } FieldKind; /* int, uint64_t, double */

typedef struct {
  const char *name;
  FieldKind kind;
  size_t offset;    /* in Checkpoint */
  bool may_be_left; /* out: then it is 0 */
} Field;

#define FIELD(name, kind, may_be_left)                                                             \
  { #name, kind, offsetof(Checkpoint, name), may_be_left }
static const Field fields[] = {
    FIELD(epoch, FIELD_INT, false),          FIELD(step, FIELD_COUNT, false),
    FIELD(loss, FIELD_REAL, false),          FIELD(correct, FIELD_COUNT, false),
    FIELD(rows, FIELD_COUNT, false),         FIELD(test_accuracy, FIELD_REAL, false),
    FIELD(best_accuracy, FIELD_REAL, false), FIELD(best_epoch, FIELD_INT, false),
    FIELD(updates, FIELD_COUNT, true),       FIELD(resident, FIELD_INT, true),
};
#undef FIELD
enum { FIELDS = sizeof fields / sizeof *fields };
