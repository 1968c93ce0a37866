/* Stamps of the epoch kernel: when each team of each block came to the end of each of its stages,
   by the clock of its multiprocessor. They exist in a second object of the same sources alone
   (kernels/measure/epoch_stamped.cu), for mlp-bench --trace. */
#pragma once

#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A team's stamps stand in the order of a step; its first one is the step's start. */
typedef enum {
  STAMP_MATRIX,
  STAMP_W1_MULTIPLIED,
  STAMP_Z1_SENT,
  STAMP_PIXELS,
  STAMP_DZ1_RECEIVED,
  STAMP_W1_UPDATED,

  STAMP_ROW,
  STAMP_H1_SENT,
  STAMP_W2_RECEIVED,
  STAMP_Z2_SENT,
  STAMP_Z2_RECEIVED,
  STAMP_Z1_RECEIVED,
  STAMP_DZ2_READY,
  STAMP_DZ1_SENT,

  STAMP_HEAD,
  STAMP_H2_READY,
  STAMP_DZ2_SENT,
  STAMP_W3_SENT,
  STAMP_W3_RECEIVED,

  STAMP_PATCH,
  STAMP_H1_RECEIVED,
  STAMP_DZ2_RECEIVED,
  STAMP_P_SENT,

  EPOCH_STAMPS
} EpochStamp;

/* Two moments at which the clocks of a block are read together: the GPU's clock (ns) and the
   multiprocessor's (cycles) at once, when the block begins and when its first team ends. */
typedef struct {
  uint64_t time[2], clock[2];
} EpochAnchor;

typedef struct {
  uint64_t *d_clock;     /* (blocks, steps, EPOCH_STAMPS): cycles; 0: the block has no such stage */
  EpochAnchor *d_anchor; /* (blocks) */
  uint32_t first, steps; /* of the launch, counted from 0: which are stamped */
} EpochStamps;

/* launch_epoch, stamped. */
cudaError_t launch_epoch_stamped(const EpochPlan *plan, const EpochJob *job,
                                 const EpochStamps *stamps, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
