#include "measure/cuda/rung.h"

#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"
#include "kernels.h"

enum { PINNED_BYTES = 64 << 20, LEAST_BYTES = 1 << 27 };
enum { FMA_BLOCKS = 8, FMA_ROUNDS = 8192 }; /* keeps all multiprocessors busy for some ms */
enum { LAUNCH_THREADS = 256, LAUNCHES = 1000, BARRIERS = 4096, ROUND_TRIPS = 4096 };

/* The state of ceilings_add. */
typedef struct {
  Ceiling which; /* the ceiling to measure */
  uint8_t *d_from, *d_to, *h_from;
  size_t bytes; /* bytes of d_from and of d_to: 1 GB, or less on a small GPU */
  int blocks;   /* number of multiprocessors */
  uint32_t stamp;
} Stand;

/* Queues the work of the ceiling s->which. This is a Rung.run. */
static cudaError_t run(void *stand, cudaStream_t stream) {
  Stand *s = stand;
  switch (s->which) {
  case CEILING_COPY:
    return cudaMemcpyAsync(s->d_to, s->d_from, s->bytes, cudaMemcpyDefault, stream);
  case CEILING_PINNED:
    return cudaMemcpyAsync(s->d_to, s->h_from, PINNED_BYTES, cudaMemcpyDefault, stream);
  case CEILING_FMA:
    return launch_fma((float *)s->d_to, FMA_BLOCKS * s->blocks, FMA_ROUNDS, stream);
  case CEILING_LAUNCH:
    return launch_nothing(s->blocks, LAUNCH_THREADS, stream);
  case CEILING_BARRIER:
    return launch_barriers(s->blocks, BARRIERS, stream);
  default: /* CEILING_PACKET */
    s->stamp += 2 * ROUND_TRIPS;
    return launch_ping_pong(s->d_to, s->stamp - 2 * ROUND_TRIPS, ROUND_TRIPS, stream);
  }
}

#define FMA (1.0 * FMA_BLOCKS * FMA_ROUNDS * FMA_OPERATIONS)

/* ceilings_add multiplies FMA's amount by Stand.blocks and COPY's amount by Stand.bytes. */
static const Rung ceilings[CEILINGS] = {
    [CEILING_FMA] = {"float32 multiply-adds alone", run, NULL, 1, false, FMA, "GFLOP/s"},
    [CEILING_COPY] = {"copy on the GPU, read + write", run, NULL, 4, false, 2, "GB/s"},
    [CEILING_PINNED] = {"copy to the GPU, pinned", run, NULL, 4, false, PINNED_BYTES, "GB/s"},
    [CEILING_LAUNCH] = {"kernel launch, back to back", run, NULL, LAUNCHES, false, 1, "us"},
    [CEILING_BARRIER] = {"grid barrier", run, NULL, 1, false, BARRIERS, "us"},
    [CEILING_PACKET] = {"packet from block to block", run, NULL, 1, false, 2 * ROUND_TRIPS, "us"},
};

static cudaError_t open_stand(Stand *s) {
  const size_t most = (size_t)1 << 30, least = LEAST_BYTES;
  size_t left, all;
  int device;
  TRY(cudaGetDevice(&device));
  TRY(cudaDeviceGetAttribute(&s->blocks, cudaDevAttrMultiProcessorCount, device));
  TRY(cudaMemGetInfo(&left, &all));
  s->bytes = left / 4 < least ? least : left / 4 / 256 * 256;
  if (left / 4 > most) s->bytes = most;
  TRY(cudaMalloc((void **)&s->d_from, s->bytes));
  TRY(cudaMalloc((void **)&s->d_to, s->bytes));
  TRY(cudaMallocHost((void **)&s->h_from, PINNED_BYTES));
  memset(s->h_from, 0x5a, PINNED_BYTES);
  return cudaMemset(s->d_from, 0x5a, s->bytes);
}

static void add_value(Record *record, const char *kind, const char *name, double value,
                      const char *unit) {
  json_t *line = record_line(kind);
  record_text(line, "name", name);
  record_number(line, "value", value);
  record_text(line, "unit", unit);
  record_add(record, line);
}

bool ceilings_add(Record *record, Ceiling first, Ceiling end, Error *error) {
  Stand s = {.which = first, .stamp = 1};
  Stats seconds;
  bool good = cuda_done(open_stand(&s), "allocating", error);
  for (; good && s.which < end; s.which++) {
    Rung rung = ceilings[s.which];
    rung.context = &s;
    if (s.which == CEILING_FMA) rung.amount *= s.blocks;
    if (s.which == CEILING_COPY) rung.amount *= (double)s.bytes;
    good = cuda_done(cudaMemset(s.d_to, 0, PING_PONG_BYTES), "clearing", error) &&
           cuda_done(cudaDeviceSynchronize(), "clearing", error) &&
           rung_time(&rung, RUNG_SAMPLES, &seconds, error);
    if (!good) break;
    add_value(record, "ceiling", rung.name,
              *rung.unit == 'u' ? 1e6 * seconds.median / rung.amount
                                : rung.amount / seconds.median / 1e9,
              rung.unit);
  }
  cudaFree(s.d_from);
  cudaFree(s.d_to);
  cudaFreeHost(s.h_from);
  return good;
}

/* The properties that programs report, each with its unit and how many units one is. */
static const struct {
  enum cudaDeviceAttr attribute;
  const char *name, *unit;
  double scale;
} properties[] = {
    {cudaDevAttrMultiProcessorCount, "multiprocessors", "", 1},
    {cudaDevAttrClockRate, "highest clock", "MHz", 1e-3},
    {cudaDevAttrMemoryClockRate, "highest memory clock", "MHz", 1e-3},
    {cudaDevAttrGlobalMemoryBusWidth, "memory bus", "bits", 1},
    {cudaDevAttrL2CacheSize, "L2 cache", "KB", 1.0 / 1024},
    {cudaDevAttrMaxThreadsPerMultiProcessor, "threads per multiprocessor", "", 1},
    {cudaDevAttrMaxBlocksPerMultiprocessor, "blocks per multiprocessor", "", 1},
    {cudaDevAttrMaxRegistersPerMultiprocessor, "registers per multiprocessor", "", 1},
    {cudaDevAttrMaxSharedMemoryPerMultiprocessor, "shared memory per multiprocessor", "KB",
     1.0 / 1024},
    {cudaDevAttrMaxSharedMemoryPerBlockOptin, "shared memory per block", "KB", 1.0 / 1024},
};
enum { MULTIPROCESSORS, CLOCK, MEMORY_CLOCK, BUS, PROPERTIES = LENGTH(properties) };

/* Returns how many float32 multiply-adds a multiprocessor does in a cycle (CUDA Programming Guide,
   throughput of arithmetic instructions). */
static int cores_of(int capability) {
  return capability < 86 ? 64 : 128;
}

static cudaError_t add_theory(Record *record) {
  int device, major, minor;
  double value[PROPERTIES];
  TRY(cudaGetDevice(&device));
  TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  TRY(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  for (int i = 0; i < PROPERTIES; i++) {
    int number;
    TRY(cudaDeviceGetAttribute(&number, properties[i].attribute, device));
    value[i] = number * properties[i].scale;
    add_value(record, "device", properties[i].name, value[i], properties[i].unit);
  }
  const int cores = cores_of(10 * major + minor);
  add_value(record, "device", "float32 cores per multiprocessor", cores, "");
  /* Memory moves bits at both edges of its clock. MHz x bytes is MB/s. */
  const double copy = 2 * value[MEMORY_CLOCK] * value[BUS] / 8 / 1e3,
               fma = 2 * value[MULTIPROCESSORS] * cores * value[CLOCK] / 1e3;
  if (copy > 0) add_value(record, "theory", ceilings[CEILING_COPY].name, copy, "GB/s");
  if (fma > 0) add_value(record, "theory", ceilings[CEILING_FMA].name, fma, "GFLOP/s");
  return cudaSuccess;
}

bool theory_add(Record *record, Error *error) {
  return cuda_done(add_theory(record), "asking for the device's properties", error);
}
