/* Measures on a GPU how long a rung takes, and how many of its blocks fit. */
#include "lab/harness.h"

#include <nvtx3/nvToolsExt.h>

#include "base/sizes.h"
#include "measure/cuda/rung.h"

void lab_watch(const LabArrays *a, LabRow *row, bool starts) {
  (void)a;
  starts ? nvtxRangePushA(row->rung->name) : nvtxRangePop();
}

/* ---- occupancy ------------------------------------------------------------------------------ */

enum { WARP = 32, SCHEDULERS = 4 };
enum { REGISTER_UNIT = 256, SHARED_UNIT = 128 }; /* handed out at once: to a warp, a block */

/* As the occupancy calculator of the CUDA Toolkit counts: registers are given to whole warps, each
   of a scheduler's own quarter; shared memory to blocks. */
const char *lab_limit(const struct cudaDeviceProp *gpu, const LabOccupancy *kernel) {
  const int warps = (int)ceil_div((size_t)kernel->threads, WARP);
  const int of_warp = (int)round_up((size_t)(kernel->registers * WARP), REGISTER_UNIT);
  const int warps_of_registers =
      of_warp ? gpu->regsPerMultiprocessor / SCHEDULERS / of_warp * SCHEDULERS
              : gpu->maxThreadsPerMultiProcessor;
  const size_t of_block = round_up(kernel->shared + gpu->reservedSharedMemPerBlock, SHARED_UNIT);
  const struct {
    const char *name;
    int blocks;
  } all[] = {{"threads", gpu->maxThreadsPerMultiProcessor / (warps * WARP)},
             {"blocks", gpu->maxBlocksPerMultiProcessor},
             {"registers", warps_of_registers / warps},
             {"shared", of_block ? (int)(gpu->sharedMemPerMultiprocessor / of_block)
                                 : gpu->maxBlocksPerMultiProcessor}};
  int least = 0;
  for (int i = 1; i < (int)LENGTH(all); i++)
    if (all[i].blocks < all[least].blocks) least = i;
  return all[least].name;
}

cudaError_t lab_find_occupancy(const LabRecord *record, LabOccupancy *o) {
  static struct cudaDeviceProp gpu; /* of the process */
  struct cudaFuncAttributes kernel;
  int device;
  if (!record->kernel) return cudaSuccess;
  TRY(cudaGetDevice(&device));
  if (gpu.warpSize == 0) TRY(cudaGetDeviceProperties(&gpu, device));
  TRY(cudaFuncGetAttributes(&kernel, record->kernel));
  o->threads = (int)record->threads;
  o->registers = kernel.numRegs;
  o->local = kernel.localSizeBytes;
  o->shared = kernel.sharedSizeBytes + record->shared;
  TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&o->blocks, record->kernel, o->threads,
                                                    record->shared));
  o->limit = lab_limit(&gpu, o);
  return cudaSuccess;
}

/* ---- times ---------------------------------------------------------------------------------- */

static const double SAMPLE_SECONDS = 5e-3; /* long beside the events' resolution of 0.5 us */
/* Slower calls are repeated less: nine of them would take long, and little disturbs a long call. */
static const double SLOW = 0.2, VERY_SLOW = 1;
enum { SLOW_SAMPLES = 3, MAX_CALLS = 1000 };

typedef struct {
  const LabArrays *arrays;
  const LabRow *row;
  int next; /* copy of the arrays */
} Rotation;

static cudaError_t queue_next(void *context, cudaStream_t stream) {
  Rotation *r = context;
  LabCall call = lab_arrays_call(r->arrays, r->row, r->next);
  r->next = (r->next + 1) % r->arrays->copies;
  call.stream = stream;
  return r->row->rung->launch(&call);
}

/* A first guess of the row's seconds is `once`, the run that was checked. */
bool lab_time(const LabArrays *a, LabRow *row, double once, Error *error) {
  const ShortText what = text_format("timing rung %s of topic %s", row->rung->name, a->topic->name);
  Rotation rotation = {.arrays = a, .row = row};
  Rung rung = {what.text, queue_next, &rotation, .calls = 1,
               .mode = a->topic->on_host ? RUNG_ON_HOST : RUNG_QUEUED};
  const int samples = once > SLOW ? SLOW_SAMPLES : RUNG_SAMPLES;
  row->seconds = stats_of(&once, 1);
  if (once > VERY_SLOW) return true;
  if (once <= SLOW && rung.mode == RUNG_QUEUED) {
    /* the first run loaded the kernel: the second tells how long it takes */
    if (!rung_time(&rung, 1, &row->seconds, error)) return false;
    rung.calls = (int)fmin(fmax(ceil(SAMPLE_SECONDS / row->seconds.median), 1), MAX_CALLS);
  }
  return rung_time(&rung, samples, &row->seconds, error);
}
