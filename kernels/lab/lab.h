/* The kernel lab: ladders of kernels, one file per topic. Each rung is a small step from the
   previous rung. A topic is a table of its problems and rungs. A topic never prints, times or
   allocates; the harness (src/lab/cuda/run.c) does that. Device pointers start d_, host pointers
   h_. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__CUDACC__) || defined(HAVE_CUDA)
#include "kernels.h"
#else /* without kernels, topics are read from a record and cannot be run */
typedef int cudaError_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
#endif
#include "gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LAB_DIMS = 3, LAB_INPUTS = 2, LAB_STREAMS = 4, LAB_SIZES = 8 };

/* The sizes of a problem, outermost first, each at least 1. A dimension that a topic lacks is 1. */
typedef struct {
  int64_t dim[LAB_DIMS];
} LabSize;

/* An element has 4 bytes, but an element of LAB_BFLOAT16 has 2. Outputs are float32 or uint32. */
typedef enum { LAB_NOTHING, LAB_FLOAT32, LAB_UINT32, LAB_BFLOAT16 } LabType;

/* Elements [first, first + count) of an output, and the error allowed in each. h_in has the whole
   input arrays. */
typedef struct {
  int problem;
  LabSize size;
  const void *const *h_in;
  int64_t first, count;
  double *expected, *allowed;
} LabRange;

/* One problem of a topic. Functions of (size) only get sizes that the topic has not refused. */
typedef struct {
  const char *name;                   /* "float32"; "" if the topic has only one problem */
  LabType in[LAB_INPUTS];             /* LAB_NOTHING: this array and those after it do not exist */
  LabType out;                        /* every problem has one output array */
  double (*operations)(LabSize size); /* additions and multiplications, or what the topic counts */
  /* Fills in a range. `allowed` is a bound; its reason stands beside it. Several threads call this
     for ranges of one output. If a pass over all inputs is needed, it is called once. */
  void (*reference)(const LabRange *range);
  /* Makes input `array` of `count` elements, always the same for one seed. The first elements must
     be the hard cases (huge, negative, equal values). NULL means lab_fill. */
  void (*fill)(LabSize size, int array, void *h_values, int64_t count, uint64_t seed);
  double (*bytes)(LabSize size); /* bytes that must at least move; NULL means every array once */
} LabProblem;

/* Numbers of mean 0 and variance 1, exact to 2^-20; every 61st is 100 times as large. */
void lab_fill(LabType type, void *h_values, int64_t count, uint64_t seed);

/* A call's first kernel, as lab_launch (lab.cuh) records it. A helper's kernel is not recorded. */
typedef struct {
  const void *kernel; /* NULL if none has been recorded yet */
  unsigned threads;   /* per block */
  size_t shared;      /* dynamic, bytes per block */
} LabRecord;

/* The arguments of a rung's functions. Only its launcher sees what follows gpu. On 256 bytes. */
typedef struct {
  int problem; /* index in topic->problems */
  LabSize size;
  int64_t point; /* one of rung->points, or 0 */
  const GpuLimits *gpu;
  const void *d_in[LAB_INPUTS];
  void *d_out;  /* full of NaN or of -1 before the call: every element must be written */
  void *d_work; /* rung->work bytes, contents undefined */
  cudaStream_t stream;
  LabRecord *record;
  /* For topics with on_host, d_in and d_out are NULL and these are the host's arrays. They are
     pinned unless the rung is pageable. d_work is all the device memory there is. */
  const void *h_in[LAB_INPUTS];
  void *h_out;
  /* Work on these streams must wait for `stream`'s start, and `stream` must wait for their end. */
  cudaStream_t streams[LAB_STREAMS]; /* non-blocking */
  cudaEvent_t event;                 /* without timing */
} LabCall;

typedef enum {
  LAB_RUNG,
  LAB_LIBRARY, /* what people would call instead: checked and timed, but not a rung */
  LAB_PART,    /* a part of the work alone, timed for comparison; its output is not checked */
} LabKind;

/* A rung. A row of a table gives the first three or four fields in this order without their names.
   It names the fields that follow. */
typedef struct {
  const char *name;   /* as --rung takes it: "shared-tile" */
  const char *lesson; /* one sentence on what this step teaches, without its full stop */
  /* Queues the work on call->stream and returns at once. */
  cudaError_t (*launch)(const LabCall *call);
  /* Returns what the topic's model predicts for the lesson's column. NULL means nothing. */
  double (*predicted)(const LabCall *call);
  LabKind kind;
  unsigned problems; /* the rung's problems, as bits 1 << index; 0 means all */
  /* The least compute capability that has what the lesson is about, 80 for 8.0. 0 means any. */
  int capability;
  /* Returns why the rung cannot serve a size on such a GPU (a clause), or NULL. If the pointer is
     NULL, the rung serves all sizes. */
  const char *(*refuse)(const LabCall *call);
  size_t (*work)(const LabCall *call); /* bytes of d_work; NULL means 0 */
  /* A sweep runs, checks and times the rung at each of these values. NULL means no sweep. */
  const int64_t *points;
  int point_count;
  /* Replaces the problem's bound if the rung's arithmetic is documented to be less exact. */
  void (*allowed)(const LabRange *range);
  bool pageable;  /* on_host: the host's arrays are ordinary memory */
  bool uncounted; /* the prediction is not what the emulator counts for the topic */
} LabRung;

typedef enum { LAB_GB_PER_S, LAB_GFLOP_PER_S } LabUnit;

/* The quantity that the emulator counts for a rung. The count stands beside the prediction and has
   the same unit. */
typedef enum {
  LAB_COUNTS_NOTHING,
  LAB_COUNTS_SECTORS, /* sectors per request of a warp */
  LAB_COUNTS_BYTES,   /* bytes of sectors, over the bytes that the problem must move */
  LAB_COUNTS_TURNS,   /* turns of the banks of shared memory, per 32 values of the first input */
  LAB_COUNTS_ATOMICS, /* the same turns, of atomics only */
  LAB_COUNTS_MULTIPLY_ADDS, /* the same turns, per 32 multiply-adds */
  LAB_COUNTS_TILE,          /* turns of the slower access to a tile; the other access takes 1 */
  LAB_COUNTS_LOADS,         /* loads of a thread per term of three operations */
  LAB_COUNTS_PATHS          /* steps of a warp over the steps of its average lane */
} LabCount;

/* A topic. A table has the first four fields in their order, then the others by name. */
typedef struct {
  const char *name;  /* "softmax" */
  const char *title; /* one sentence on the topic, without its full stop */
  const char *dims;  /* how --size is read: "rows x width" */
  LabUnit unit;      /* bytes are compared with the copy ceiling, operations with the FMA ceiling */
  const LabProblem *problems;
  int problem_count;
  const LabRung *rungs; /* in the order of the ladder */
  int rung_count;
  /* The first is the ladder's. At the others the last rung and libraries are timed. A 0 ends
     them. */
  LabSize sizes[LAB_SIZES];
  LabSize tested; /* random tests go from 1 to this in each dimension */
  /* Returns one clause that says why a size is refused, or NULL. A NULL pointer refuses no size. */
  const char *(*refuse)(int problem, LabSize size);
  /* Returns the elements of input `array`, or of the output (-1). If the pointer is NULL, each
     array has an element for each point. */
  int64_t (*count)(int problem, LabSize size, int array);
  bool on_host;               /* the topic is copies between host and device */
  const char *predicted_name; /* what rung->predicted is; NULL means that no rung has it */
  LabCount counted;
  /* The names and units of a sweep's points: "offset, bytes; stride, words". */
  const char *point_name;
  bool shows_ulp; /* a column with the largest error in units in the last place */
  /* The Nsight Compute metric that `make profile` reads, and its meaning. */
  const char *metric, *metric_name;
} LabTopic;

/* Every topic in the order of the course, then NULL. A build without kernels has none. */
extern const LabTopic *const lab_topics[];

extern const LabTopic lab_vector, lab_reduce, lab_softmax, lab_matmul, lab_transpose, lab_histogram,
    lab_pairwise, lab_copy_patterns, lab_divergence, lab_math, lab_constant, lab_transfers;

#ifdef __cplusplus
}
#endif
