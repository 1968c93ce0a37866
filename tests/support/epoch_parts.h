/* Parts of level epoch's kernel that tests plant faults in. */
#pragma once

#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Named barriers. If one is left out, something must go wrong. LAST_READY and Z_TAKEN are needed
   only if Z1 is known before W1. Otherwise the chain already meets the others at Z_READY or
   TERMS_READY. */
typedef struct {
  const char *name;
  int id;
} EpochBarrier;
enum { EPOCH_BARRIERS = 4 };
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
