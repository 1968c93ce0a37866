/* The barriers and buffers of level epoch's kernel in which tests plant faults. */
#pragma once

#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The kernel's named barriers. If a test leaves out a barrier, the network `ahead` of
   test_epoch_schedules.c must be trained wrongly. */
typedef struct {
  const char *name;
  int id;
  int elsewhere; /* not 0 if `little` of test_epoch_schedules.c also needs this barrier */
} EpochBarrier;
enum { EPOCH_BARRIERS = 5 };
extern const EpochBarrier epoch_barriers[EPOCH_BARRIERS];
enum { EPOCH_K_BARRIER = 3 }; /* LAST_READY, which guards K in networks without hidden layers */

/* Two adjacent buffers of the mail, from packet `first` on. Each has `packets` packets. */
typedef struct {
  const char *name;
  size_t first, packets;
} EpochBuffers;
enum { EPOCH_BUFFERS = 3 };
EpochBuffers epoch_buffers(const TilesPlan *plan, int which);

/* Returns the number of packets with logits. Only they have stamps. They come first in the mail. */
size_t epoch_stamps(const TilesPlan *plan);

#ifdef __cplusplus
}
#endif
