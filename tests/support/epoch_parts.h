/* Parts of level epoch's kernel that tests plant faults in. */
#pragma once

#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Named barriers without which something goes wrong. LAST_READY and Z_TAKEN are missed only where
   Z1 is known before W1: elsewhere the chain meets the others at Z_READY or TERMS_READY. */
typedef struct {
  const char *name;
  int id;
} EpochBarrier;
enum { EPOCH_BARRIERS = 4 };
extern const EpochBarrier epoch_barriers[EPOCH_BARRIERS];

/* Mail that has two buffers: the first one's place and size, in packets. The second one follows. */
typedef struct {
  const char *name;
  size_t first, packets;
} EpochBuffers;
enum { EPOCH_BUFFERS = 3 };
EpochBuffers epoch_buffers(const TilesPlan *plan, int which);

/* Packets of the head, which come first and have stamps. */
size_t epoch_stamps(const TilesPlan *plan);

#ifdef __cplusplus
}
#endif
