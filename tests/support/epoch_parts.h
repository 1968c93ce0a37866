/* The parts of level epoch that a test plants faults in: its barriers and its mail. */
#pragma once

#include <stddef.h>

#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  const char *name;
  int id;
} EpochBarrier;

/* Each team's own, and those that order what two teams do with shared memory. The others only tell
   when to look for mail, or that parameters have been read. */
enum { EPOCH_BARRIERS = 7 };
extern const EpochBarrier epoch_barriers[EPOCH_BARRIERS];

/* Mail of the first group, or of all, that takes two buffers in turn. */
typedef struct {
  const char *name;
  size_t first, packets; /* of mail; of one buffer, the second one follows */
} EpochBuffers;

enum { EPOCH_BUFFERS = 4 };

EpochBuffers epoch_buffers(const EpochPlan *plan, int which);

#ifdef __cplusplus
}
#endif
