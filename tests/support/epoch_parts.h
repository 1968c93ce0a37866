/* Parts of level epoch's kernel in which tests plant faults. */
#pragma once

#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The kernel's named barriers. If any of these barriers is left out, a network of two hidden layers
   whose Z1 is known before W1 must fail. */
typedef struct {
  const char *name;
  int id;
  int elsewhere; /* not 0 if other networks need this barrier, too */
} EpochBarrier;
enum { EPOCH_BARRIERS = 5 };
extern const EpochBarrier epoch_barriers[EPOCH_BARRIERS];

/* The first of a pair of buffers in the mail. The second buffer follows it. Units are packets. */
typedef struct {
  const char *name;
  size_t first, packets;
} EpochBuffers;
enum { EPOCH_BUFFERS = 3 };
EpochBuffers epoch_buffers(const TilesPlan *plan, int which);

/* Returns the number of packets for the head. These packets are the first and carry stamps. */
size_t epoch_stamps(const TilesPlan *plan);

#ifdef __cplusplus
}
#endif
