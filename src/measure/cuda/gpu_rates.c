#include "measure/cuda/gpu_rates.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/engine.h"
#include "kernels.h"

/* ---- timing --------------------------------------------------------------------------------- */

static cudaError_t queue_calls(const GpuWork *work, cudaStream_t stream) {
  for (int i = 0; i < work->calls; i++) TRY(work->queue(work->context, stream));
  return cudaSuccess;
}

static cudaError_t capture(const GpuWork *work, cudaStream_t stream, cudaGraphExec_t *out) {
  cudaGraph_t graph = NULL;
  TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  const cudaError_t queued = queue_calls(work, stream);
  cudaError_t status = cudaStreamEndCapture(stream, &graph);
  if (queued != cudaSuccess) status = queued;
  if (status == cudaSuccess) status = cudaGraphInstantiate(out, graph, 0);
  if (graph) cudaGraphDestroy(graph);
  return status;
}

/* Milliseconds of all the calls, `samples` times after one that does not count. */
static cudaError_t time_samples(const GpuWork *work, int samples, cudaStream_t stream,
                                cudaGraphExec_t graph, const cudaEvent_t event[2],
                                double ms[GPU_SAMPLES]) {
  for (int i = -1; i < samples; i++) {
    float sample;
    TRY(cudaEventRecord(event[0], stream));
    TRY(graph ? cudaGraphLaunch(graph, stream) : queue_calls(work, stream));
    TRY(cudaEventRecord(event[1], stream));
    TRY(cudaEventSynchronize(event[1]));
    TRY(cudaEventElapsedTime(&sample, event[0], event[1]));
    if (i >= 0) ms[i] = (double)sample;
  }
  return cudaSuccess;
}

bool gpu_time(const char *name, GpuWork work, int samples, Stats *seconds, Error *error) {
  cudaStream_t stream = NULL;
  cudaEvent_t event[2] = {NULL, NULL};
  cudaGraphExec_t graph = NULL;
  double ms[GPU_SAMPLES];
  const bool good =
      cuda_done(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), name, error) &&
      cuda_done(cudaEventCreate(&event[0]), name, error) &&
      cuda_done(cudaEventCreate(&event[1]), name, error) &&
      (!work.graph || cuda_done(capture(&work, stream, &graph), name, error)) &&
      cuda_done(time_samples(&work, samples, stream, graph, event, ms), name, error);
  if (good) {
    const Stats all = stats_of(ms, samples);
    const double unit = 1e3 * work.calls;
    *seconds = (Stats){all.median / unit, all.low / unit, all.high / unit};
  }
  if (graph) cudaGraphExecDestroy(graph);
  for (int i = 0; i < 2; i++)
    if (event[i]) cudaEventDestroy(event[i]);
  if (stream) cudaStreamDestroy(stream);
  return good;
}

/* ---- the machine ---------------------------------------------------------------------------- */

/* The driver's number: the first word of its banner with a digit first and a point in it. */
static void find_driver(char *text, size_t size) {
  FILE *file = fopen("/proc/driver/nvidia/version", "r");
  char banner[256] = "";
  if (file && !fgets(banner, sizeof banner, file)) banner[0] = '\0';
  if (file) fclose(file);
  int version = 0;
  cudaDriverGetVersion(&version);
  for (char *rest = banner, *word; (word = strtok_r(rest, " \t\n", &rest));)
    if (*word >= '0' && *word <= '9' && strchr(word, '.')) {
      snprintf(text, size, "%.30s, CUDA %d.%d", word, version / 1000, version % 1000 / 10);
      return;
    }
  snprintf(text, size, "for CUDA %d.%d", version / 1000, version % 1000 / 10);
}

bool gpu_start(Error *error) {
  return engine_cuda_available(error) && cuda_done(cudaFree(NULL), "creating a context", error);
}

bool gpu_machine(GpuMachine *machine, Error *error) {
  struct cudaDeviceProp properties;
  const time_t now = time(NULL);
  int device;
  if (!gpu_start(error) || !cuda_done(cudaGetDevice(&device), "finding the device", error) ||
      !cuda_done(cudaGetDeviceProperties(&properties, device), "finding the device", error))
    return false;
  snprintf(machine->name, sizeof machine->name, "%.127s", properties.name);
  find_driver(machine->driver, sizeof machine->driver);
  strftime(machine->date, sizeof machine->date, "%Y-%m-%d", gmtime(&now));
  machine->multiprocessors = properties.multiProcessorCount;
  return true;
}

typedef struct {
  void *to;
  const void *from;
  size_t bytes;
} Copy;

static cudaError_t queue_copy(void *context, cudaStream_t stream) {
  const Copy *copy = context;
  return cudaMemcpyAsync(copy->to, copy->from, copy->bytes, cudaMemcpyDefault, stream);
}

/* `trips`: how often a byte passes what is measured. */
static bool copy_rate(const char *name, Copy copy, int trips, double *rate, Error *error) {
  Stats seconds;
  if (!gpu_time(name, (GpuWork){queue_copy, &copy, 4, false}, GPU_SAMPLES, &seconds, error))
    return false;
  *rate = trips * (double)copy.bytes / seconds.median;
  return true;
}

/* A gigabyte, or less on a small GPU. */
bool gpu_copy_rate(double *rate, Error *error) {
  static const char name[] = "a copy on the GPU";
  size_t left, all;
  void *d_from = NULL, *d_to = NULL;
  if (!cuda_done(cudaMemGetInfo(&left, &all), name, error)) return false;
  const size_t bytes = left / 4 < (size_t)1 << 30 ? left / 4 / 256 * 256 : (size_t)1 << 30;
  const bool good = cuda_done(cudaMalloc(&d_from, bytes), name, error) &&
                    cuda_done(cudaMalloc(&d_to, bytes), name, error) &&
                    cuda_done(cudaMemset(d_from, 0x5a, bytes), name, error) &&
                    copy_rate(name, (Copy){d_to, d_from, bytes}, 2, rate, error);
  cudaFree(d_from);
  cudaFree(d_to);
  return good;
}

bool gpu_link_rate(double *rate, Error *error) {
  static const char name[] = "a copy to the GPU";
  const size_t bytes = (size_t)64 << 20;
  void *h_from = NULL, *d_to = NULL;
  bool good = cuda_done(cudaMallocHost(&h_from, bytes), name, error) &&
              cuda_done(cudaMalloc(&d_to, bytes), name, error);
  if (good) memset(h_from, 0x5a, bytes);
  good = good && copy_rate(name, (Copy){d_to, h_from, bytes}, 1, rate, error);
  cudaFreeHost(h_from);
  cudaFree(d_to);
  return good;
}

/* Every multiprocessor full of threads, for some milliseconds. */
enum { FMA_BLOCKS = 8, FMA_ROUNDS = 8192 };

typedef struct {
  float *d_out;
  int blocks;
} Fma;

static cudaError_t queue_fma(void *context, cudaStream_t stream) {
  const Fma *fma = context;
  return launch_fma(fma->d_out, fma->blocks, FMA_ROUNDS, stream);
}

bool gpu_fma_rate(double *rate, Error *error) {
  static const char name[] = "a series of multiply-adds";
  int device, multiprocessors;
  Fma fma = {0};
  Stats seconds;
  if (!cuda_done(cudaGetDevice(&device), name, error) ||
      !cuda_done(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
                 name, error))
    return false;
  fma.blocks = FMA_BLOCKS * multiprocessors;
  const bool good =
      cuda_done(cudaMalloc((void **)&fma.d_out, sizeof *fma.d_out), name, error) &&
      gpu_time(name, (GpuWork){queue_fma, &fma, 1, false}, GPU_SAMPLES, &seconds, error);
  if (good) *rate = (double)fma.blocks * FMA_ROUNDS * FMA_OPERATIONS / seconds.median;
  cudaFree(fma.d_out);
  return good;
}
