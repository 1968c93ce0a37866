/* The kernel lab: ladders of kernels, one file per topic. Each rung is a small step from the
   previous rung. A topic is a table of its problems and rungs. The harness (src/lab/cuda/run.c)
   prints, times and allocates; a topic does not. Pointers start with d_ (device) or h_ (host). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__CUDACC__) || defined(HAVE_CUDA)
#include "kernels.h"
#else /* a build without kernels shows recorded results and runs nothing */
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

/* The expected values and allowed errors of output elements [first, first + count). */
typedef struct {
  int problem;
  LabSize size;
  const void *const *h_in; /* all inputs of the topic */
  int64_t first, count;
  double *expected, *allowed;
} LabRange;

/* One problem of a topic. Functions that take a LabSize get only sizes that the topic accepts. */
typedef struct {
  const char *name;                   /* "float32"; "" if the topic has only one problem */
  LabType in[LAB_INPUTS];             /* the inputs' types; LAB_NOTHING after the last input */
  LabType out;                        /* every problem has one output array */
  double (*operations)(LabSize size); /* number of operations for this size */
  /* Fills in a range's expected values and allowed errors. A comment beside each bound gives its
     reason. Several threads call it for ranges of one output; a small output is one range. */
  void (*reference)(const LabRange *range);
  /* Makes the `count` elements of input `array`. One seed always makes the same values. The first
     elements must be hard cases (huge, negative, equal values). A NULL pointer means lab_fill(). */
  void (*fill)(LabSize size, int array, void *h_values, int64_t count, uint64_t seed);
  double (*bytes)(LabSize size); /* fewest bytes to move; NULL means the bytes of all arrays */
} LabProblem;

/* Calls part(context, first, end) for parts of [0, count) on all cores at once. Each part has
   `each` elements, except for the last one. */
void lab_in_parts(int64_t count, int64_t each,
                  void (*part)(const void *context, int64_t first, int64_t end),
                  const void *context);

/* Makes random multiples of 2^-20 of mean 0 and variance 1, and multiplies every 61st by 100. */
void lab_fill(LabType type, void *h_values, int64_t count, uint64_t seed);

/* The first kernel that a call launches, not counting helpers. lab_launch (lab.cuh) records it. */
typedef struct {
  const void *kernel; /* NULL until a kernel is recorded */
  unsigned threads;   /* per block */
  size_t shared;      /* bytes of dynamic shared memory per block */
} LabRecord;

/* The arguments of a rung's functions. Only launch() gets the fields after gpu. Arrays are aligned
   to 256 bytes. */
typedef struct {
  int problem; /* index in topic->problems */
  LabSize size;
  int64_t point; /* one of rung->points; 0 if the rung has no sweep */
  const GpuLimits *gpu;
  const void *d_in[LAB_INPUTS];
  void *d_out;  /* filled with NaN or -1 before the call; the rung writes every element */
  void *d_work; /* rung->work() bytes; the contents are undefined */
  cudaStream_t stream;
  LabRecord *record;
  /* If the topic is on_host, d_in and d_out are NULL, h_in and h_out are the host's arrays, and
     only d_work is device memory. The arrays are pinned unless the rung is pageable. */
  const void *h_in[LAB_INPUTS];
  void *h_out;
  /* More streams. launch() makes them wait for earlier work on `stream`, and then makes `stream`
     wait for them. */
  cudaStream_t streams[LAB_STREAMS]; /* non-blocking */
  cudaEvent_t event;                 /* without timing */
} LabCall;

typedef enum {
  LAB_RUNG,
  LAB_LIBRARY, /* a library function for the same work: checked and timed, but not a rung */
  LAB_PART,    /* only a part of the work, timed for comparison; its output is not checked */
} LabKind;

/* A LabRung.differs that several topics have. */
#define LAB_JOINED                                                                                 \
  "nvcc joins loads of neighbouring words to one instruction, but the emulator counts each load "  \
  "that is written"

/* A rung. Tables set the first three or four fields by position, the others by name. */
typedef struct {
  const char *name;   /* as --rung takes it: "shared-tile" */
  const char *lesson; /* what the rung teaches: a sentence without its full stop */
  /* Queues the work on call->stream and returns at once. */
  cudaError_t (*launch)(const LabCall *call);
  /* Predicts the quantity that topic->predicted_name names. A NULL pointer means no prediction. */
  double (*predicted)(const LabCall *call);
  LabKind kind;
  unsigned problems; /* problems that the rung solves, as bits 1 << index; 0 means all */
  /* The lowest compute capability that can run the rung: 80 means 8.0; 0 means any. */
  int capability;
  /* Returns why the rung cannot run a size on this GPU (a clause), or NULL if it can. If the
     pointer `refuse` is NULL, the rung runs all sizes. */
  const char *(*refuse)(const LabCall *call);
  size_t (*work)(const LabCall *call); /* returns the bytes of d_work; a NULL pointer means 0 */
  /* A sweep runs, checks and times the rung once for each of these points. NULL means no sweep. */
  const int64_t *points;
  int point_count;
  /* Sets larger allowed errors if the rung is documented to be less exact. May be NULL. */
  void (*allowed)(const LabRange *range);
  bool pageable;  /* if the topic is on_host: the host's arrays are not pinned */
  bool uncounted; /* the emulator does not count the predicted quantity */
  bool all_sizes; /* the rung is timed at all of the topic's sizes */
  /* Why the emulator does not count what is predicted (a clause). NULL if it counts that at sizes
     whose dimensions are powers of two. */
  const char *differs;
} LabRung;

typedef enum { LAB_GB_PER_S, LAB_GFLOP_PER_S } LabUnit;

/* The quantity that the emulator counts for each rung, in the same unit as the prediction. */
typedef enum {
  LAB_COUNTS_NOTHING,
  LAB_COUNTS_SECTORS,       /* sectors per request of a warp */
  LAB_COUNTS_BYTES,         /* bytes of all requested sectors divided by LabProblem.bytes() */
  LAB_COUNTS_TURNS,         /* wavefronts of shared memory per 32 values of the first input */
  LAB_COUNTS_ATOMICS,       /* wavefronts of shared atomics per 32 values of the first input */
  LAB_COUNTS_MULTIPLY_ADDS, /* wavefronts of loads from shared memory per 32 multiply-adds */
  LAB_COUNTS_TILE,          /* wavefronts per load or store of a tile, whichever takes more */
  LAB_COUNTS_ACCESSES,      /* loads and stores of a thread per term of three operations */
  LAB_COUNTS_PATHS          /* steps of a warp divided by the mean steps of its lanes */
} LabCount;

/* A topic. Its table sets the first four fields by position, the others by name. */
typedef struct {
  const char *name;  /* "softmax" */
  const char *title; /* a sentence about the topic, without a full stop */
  const char *dims;  /* the meaning of --size: "rows x width" */
  LabUnit unit;      /* GB/s are compared with the copy ceiling, GFLOP/s with the FMA ceiling */
  const LabProblem *problems;
  int problem_count;
  const LabRung *rungs; /* the ladder from its first rung to its last */
  int rung_count;
  /* All rungs are timed at the first size. At each other size these are timed: the last rung that
     can run it, rungs that refuse the first size, the libraries and rungs with `all_sizes`. A size
     of 0 ends the list. */
  LabSize sizes[LAB_SIZES];
  LabSize tested; /* random tests choose each dimension from 1 to this value */
  /* Returns why a size is refused (a clause), or NULL if it is accepted. If the pointer `refuse` is
     NULL, every size is accepted. */
  const char *(*refuse)(int problem, LabSize size);
  /* Returns the number of elements of input `array`, or of the output if `array` is -1. If `count`
     is NULL, every array has as many elements as the product of the dimensions. */
  int64_t (*count)(int problem, LabSize size, int array);
  bool on_host;               /* the inputs and the output are in host memory */
  const char *predicted_name; /* names what rung->predicted() returns; NULL if no rung predicts */
  LabCount counted;
  /* The quantity that each sweep varies, and its unit: "offset, bytes; stride, words". */
  const char *point_name;
  bool shows_ulp; /* the table shows the largest error in units in the last place */
  /* The Nsight Compute metric that `make profile` measures, and its meaning. */
  const char *metric, *metric_name;
} LabTopic;

/* Every topic in the order of the course, then NULL. A build without kernels has no topic. */
extern const LabTopic *const lab_topics[];

extern const LabTopic lab_vector, lab_reduce, lab_softmax, lab_matmul, lab_transpose, lab_histogram,
    lab_pairwise, lab_copy_patterns, lab_divergence, lab_math, lab_constant, lab_transfers;

#ifdef __cplusplus
}
#endif
