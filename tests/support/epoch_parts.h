/* Parts of level epoch's kernel that tests plant faults in. */
#pragma once

#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Named barriers without which something goes wrong in a network of two hidden layers whose Z1 is
   known before W1. */
typedef struct {
  const char *name;
  int id;
  int elsewhere; /* not 0 if something goes wrong without it elsewhere, too */
} EpochBarrier;
enum { EPOCH_BARRIERS = 5 };
extern const EpochBarrier epoch_barriers[EPOCH_BARRIERS];

/* Mail with two buffers: place and size of the first one, in packets. The second one follows. */
typedef struct {
  const char *name;
  size_t first, packets;
} EpochBuffers;
enum { EPOCH_BUFFERS = 3 };
EpochBuffers epoch_buffers(const TilesPlan *plan, int which);

/* Returns how many packets belong to the head. They come first and have stamps. */
size_t epoch_stamps(const TilesPlan *plan);

#ifdef __cplusplus
}
#endif
