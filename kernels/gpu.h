/* The facts about a GPU that the host plans with. This header needs no CUDA Toolkit. */
#pragma once

#include <stddef.h>

/* How kernels for wide layers multiply: wgmma on 9.0, mma.sync on other GPUs from 8.0 on. */
typedef enum { WIDE_BY_NOTHING, WIDE_BY_MMA, WIDE_BY_WGMMA } WideBy;

typedef struct {
  int capability; /* compute capability that the GPU's kernels were compiled for: 75 for 7.5 */
  int multiprocessors;
  size_t shared_bytes; /* shared memory that one block may ask for */
  /* when to use the kernels of wide.cu */
  enum { WIDE_NEVER, WIDE_WHERE_FASTER, WIDE_WHERE_POSSIBLE } wide;
  WideBy wide_by;
  int clusters; /* how many clusters of 16 blocks, one block per multiprocessor, run at once */
} GpuLimits;
