/* The parts of the lab that need a GPU: times and occupancy. */
#include "lab/harness.h"

#include <malloc.h>
#include <math.h>
#include <nvtx3/nvToolsExt.h>

#include "base/sizes.h"
#include "measure/cuda/rung.h"

/* Makes free() keep the host's memory for the next problem, whose arrays take gigabytes again. The
   kernel would have to clear each of their pages anew, which can take longer than the checks. */
static void keep_memory(void) {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
}

bool lab_machine(Record *record, bool rates, Error *error) {
  keep_memory();
  return gpu_add_machine(record, NULL, error) &&
         (!rates || (theory_add(record, error) &&
                     ceilings_add(record, CEILING_COPY, CEILING_FMA + 1, error)));
}

ShortText lab_watch(const LabArrays *a, const LabRow *row, bool starts) {
  (void)a;
  starts ? nvtxRangePushA(row->rung->name) : nvtxRangePop();
  return (ShortText){""};
}

cudaError_t lab_add_occupancy(const LabRow *row, const LabRecord *record) {
  struct cudaFuncAttributes kernel;
  LabRoom has;
  int blocks, device, reserved;
  if (!record->kernel) return cudaSuccess;
  TRY(cudaGetDevice(&device));
  TRY(cudaFuncGetAttributes(&kernel, record->kernel));
  TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, record->kernel, (int)record->threads,
                                                    record->shared));
  const struct {
    int *value;
    enum cudaDeviceAttr attribute;
  } of_device[] = {{&has.threads, cudaDevAttrMaxThreadsPerMultiProcessor},
                   {&has.registers, cudaDevAttrMaxRegistersPerMultiprocessor},
                   {&has.shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor},
                   {&has.blocks, cudaDevAttrMaxBlocksPerMultiprocessor},
                   {&reserved, cudaDevAttrReservedSharedMemoryPerBlock}};
  for (size_t i = 0; i < LENGTH(of_device); i++)
    TRY(cudaDeviceGetAttribute(of_device[i].value, of_device[i].attribute, device));
  const LabRoom takes = {.threads = (int)record->threads,
                         .registers = kernel.numRegs,
                         .shared = (int)(kernel.sharedSizeBytes + record->shared) + reserved,
                         .blocks = 1};
  record_number(row->line, "blocks_per_sm", blocks);
  record_number(row->line, "occupancy", lab_occupancy(&has, &takes, blocks));
  record_text(row->line, "limit", lab_limit(&has, &takes).text);
  record_number(row->line, "registers", kernel.numRegs);
  if (kernel.localSizeBytes) record_number(row->line, "local_bytes", (double)kernel.localSizeBytes);
  return cudaSuccess;
}

static const double SAMPLE_SECONDS = 5e-3; /* wanted time of a sample; events resolve 0.5 us */
/* A call above SLOW seconds has SLOW_SAMPLES samples. A call above VERY_SLOW seconds has one. */
static const double SLOW = 0.2, VERY_SLOW = 1;
enum { SLOW_SAMPLES = 3, MAX_CALLS = 1000 };

typedef struct {
  const LabArrays *arrays;
  const LabRow *row;
  int next; /* index of the copy that the next call uses */
} Rotation;

static cudaError_t queue_next(void *context, cudaStream_t stream) {
  Rotation *r = context;
  LabCall call = lab_arrays_call(r->arrays, r->row->rung, r->row->point, r->next);
  r->next = (r->next + 1) % r->arrays->copies;
  call.stream = stream;
  return r->row->rung->launch(&call);
}

bool lab_time(const LabArrays *a, const LabRow *row, double once, Error *error) {
  const ShortText what = text_format("timing rung %s of topic %s", row->rung->name, a->topic->name);
  Rotation rotation = {.arrays = a, .row = row};
  Rung rung = {what.text, queue_next, &rotation, .calls = 1, .on_host = a->topic->on_host};
  Stats seconds = stats_of(&once, 1);
  if (once <= SLOW && !rung.on_host) {
    /* `once` may include loading the kernel, so the estimate comes from another run */
    if (!rung_time(&rung, 1, &seconds, error)) return false;
    rung.calls = (int)fmin(fmax(ceil(SAMPLE_SECONDS / seconds.median), 1), MAX_CALLS);
  }
  if (once <= VERY_SLOW &&
      !rung_time(&rung, once > SLOW ? SLOW_SAMPLES : RUNG_SAMPLES, &seconds, error))
    return false;
  record_number(row->line, "ms", 1e3 * seconds.median);
  record_number(row->line, "min_ms", 1e3 * seconds.low);
  record_number(row->line, "max_ms", 1e3 * seconds.high);
  return true;
}
