/* The kernel lab: ladders of kernels, one file per topic. Each rung is a small step from the
   previous rung. A topic is a table of its problems and rungs. The harness (src/lab/cuda/run.c)
   prints, times and allocates; a topic does not. Pointers start with d_ (device) or h_ (host). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__CUDACC__) || defined(HAVE_CUDA)
#include "kernels.h"
#else /* without kernels, topics come from a record of results and cannot run */
typedef int cudaError_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
#endif
#include "gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LAB_DIMS = 3, LAB_INPUTS = 2, LAB_STREAMS = 4, LAB_SIZES = 8 };

/* A problem's dimensions, outermost first. Dimensions that a topic does not use are 1. */
typedef struct {
  int64_t dim[LAB_DIMS];
} LabSize;

/* The type of an array's elements. LAB_BFLOAT16 has 2 bytes. Outputs are float32 or uint32. */
typedef enum { LAB_NOTHING, LAB_FLOAT32, LAB_UINT32, LAB_BFLOAT16 } LabType;

/* Expected values and allowed errors of output elements [first, first + count). h_in has all
   inputs. */
typedef struct {
  int problem;
  LabSize size;
  const void *const *h_in;
  int64_t first, count;
  double *expected, *allowed;
} LabRange;

/* One problem of a topic. Functions that take a LabSize get only sizes that the topic accepts. */
typedef struct {
  const char *name;                   /* "float32"; "" if the topic has only one problem */
  LabType in[LAB_INPUTS];             /* the inputs' types; LAB_NOTHING after the last input */
  LabType out;                        /* every problem has one output array */
  double (*operations)(LabSize size); /* number of operations that the topic counts, for most topics
                                         additions and multiplications */
  /* Fills in a range's expected values and allowed errors. A comment beside each bound gives its
     reason. Several threads call this for ranges of one output. If it reads all inputs, it is
     called once. */
  void (*reference)(const LabRange *range);
  /* Makes input `array` of `count` elements. One seed always makes the same values. The first
     elements must be hard cases (huge, negative, equal values). NULL means lab_fill. */
  void (*fill)(LabSize size, int array, void *h_values, int64_t count, uint64_t seed);
  double (*bytes)(LabSize size); /* bytes that any rung must move; NULL means each array once */
} LabProblem;

/* Makes multiples of 2^-20 with mean 0 and variance 1; every 61st is 100 times as large. */
void lab_fill(LabType type, void *h_values, int64_t count, uint64_t seed);

/* The first kernel of a call, helper kernels aside. lab_launch (lab.cuh) records it. */
typedef struct {
  const void *kernel; /* NULL until a kernel is recorded */
  unsigned threads;   /* per block */
  size_t shared;      /* bytes of dynamic shared memory per block */
} LabRecord;

/* The arguments of a rung's functions. The fields after gpu are set only for launchers. Arrays are
   256-byte aligned. */
typedef struct {
  int problem; /* index in topic->problems */
  LabSize size;
  int64_t point; /* one of rung->points; 0 if the rung has no sweep */
  const GpuLimits *gpu;
  const void *d_in[LAB_INPUTS];
  void *d_out;  /* full of NaN or -1 before the call; the rung must write every element */
  void *d_work; /* rung->work bytes, contents undefined */
  cudaStream_t stream;
  LabRecord *record;
  /* If the topic is on_host, d_in and d_out are NULL, h_in and h_out are the host's arrays, and
     only d_work is device memory. The arrays are pinned unless the rung is pageable. */
  const void *h_in[LAB_INPUTS];
  void *h_out;
  /* More streams. They must wait for earlier work on `stream`; `stream` must wait for them. */
  cudaStream_t streams[LAB_STREAMS]; /* non-blocking */
  cudaEvent_t event;                 /* without timing */
} LabCall;

typedef enum {
  LAB_RUNG,
  LAB_LIBRARY, /* a library function for the same work: checked and timed, but not a rung */
  LAB_PART,    /* only a part of the work, timed for comparison; its output is not checked */
} LabKind;

/* A rung. A table's row gives the first three or four fields in order, the others by name. */
typedef struct {
  const char *name;   /* as --rung takes it: "shared-tile" */
  const char *lesson; /* what this step teaches: a sentence without its full stop */
  /* Queues the work on call->stream and returns at once. */
  cudaError_t (*launch)(const LabCall *call);
  /* Returns the prediction of the quantity topic->predicted_name. NULL means no prediction. */
  double (*predicted)(const LabCall *call);
  LabKind kind;
  unsigned problems; /* the rung's problems, as bits 1 << index; 0 means all */
  /* The least compute capability that the lesson needs, 80 for 8.0. 0 means any. */
  int capability;
  /* Returns a clause that says why the rung cannot run a size on this GPU, or NULL if it can. A
     NULL pointer means that the rung runs all sizes. */
  const char *(*refuse)(const LabCall *call);
  size_t (*work)(const LabCall *call); /* bytes of d_work; NULL means 0 */
  /* A sweep runs, checks and times the rung at each of these values. NULL means no sweep. */
  const int64_t *points;
  int point_count;
  /* Sets other allowed errors, if the rung's arithmetic is documented to be less exact. */
  void (*allowed)(const LabRange *range);
  bool pageable;  /* if on_host: the host's arrays are ordinary memory, not pinned */
  bool uncounted; /* the emulator does not count what this rung predicts */
} LabRung;

typedef enum { LAB_GB_PER_S, LAB_GFLOP_PER_S } LabUnit;

/* The quantity that the emulator counts for a rung. The count stands beside the prediction and has
   the same unit. */
typedef enum {
  LAB_COUNTS_NOTHING,
  LAB_COUNTS_SECTORS,       /* sectors per request of a warp */
  LAB_COUNTS_BYTES,         /* bytes of all sectors / bytes that the problem must move */
  LAB_COUNTS_TURNS,         /* wavefronts of shared memory per 32 values of the first input */
  LAB_COUNTS_ATOMICS,       /* wavefronts of shared atomics per 32 values of the first input */
  LAB_COUNTS_MULTIPLY_ADDS, /* wavefronts of shared memory per 32 multiply-adds */
  LAB_COUNTS_TILE,          /* wavefronts of the slower access to a tile; the faster takes 1 */
  LAB_COUNTS_PATHS          /* steps of a warp / steps of its average lane */
} LabCount;

/* A topic. A topic's table gives the first four fields in order, the others by name. */
typedef struct {
  const char *name;  /* "softmax" */
  const char *title; /* a sentence on the topic without its full stop */
  const char *dims;  /* the meaning of --size: "rows x width" */
  LabUnit unit;      /* bytes are compared with the copy ceiling, operations with the FMA ceiling */
  const LabProblem *problems;
  int problem_count;
  const LabRung *rungs; /* in the order of the ladder */
  int rung_count;
  /* The ladder is timed at the first size, the last rung and libraries at all sizes. The list ends
     with a 0. */
  LabSize sizes[LAB_SIZES];
  LabSize tested; /* random tests use sizes from 1 to this in each dimension */
  /* Returns a clause that says why a size is refused, or NULL. A NULL pointer accepts all sizes. */
  const char *(*refuse)(int problem, LabSize size);
  /* Returns the number of elements of input `array`, or of the output if `array` is -1. NULL means
     that each array has as many elements as the product of the size's dimensions. */
  int64_t (*count)(int problem, LabSize size, int array);
  bool on_host;               /* the topic copies between host and device */
  const char *predicted_name; /* what rung->predicted returns; NULL if no rung predicts */
  LabCount counted;
  /* The names and units of a sweep's points: "offset, bytes; stride, words". */
  const char *point_name;
  bool shows_ulp; /* a column shows the largest error in units in the last place */
  /* The Nsight Compute metric that `make profile` reads, and its meaning. */
  const char *metric, *metric_name;
} LabTopic;

/* Every topic in the order of the course, then NULL. A build without kernels has none. */
extern const LabTopic *const lab_topics[];

extern const LabTopic lab_vector, lab_reduce, lab_softmax, lab_matmul, lab_transpose, lab_histogram,
    lab_copy_patterns, lab_divergence, lab_math, lab_constant, lab_transfers;

#ifdef __cplusplus
}
#endif
