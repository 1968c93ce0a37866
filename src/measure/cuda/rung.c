#include "measure/cuda/rung.h"

#include <string.h>

#include "base/clock.h"
#include "engine/engine.h"

/* The stream and the events of one measurement. */
typedef struct {
  cudaStream_t stream;
  cudaEvent_t start, end;
} Clock;

/* Measures the seconds per call, `samples` times after a warm-up. */
static cudaError_t time_samples(const Rung *rung, int samples, Clock *c, double *seconds) {
  TRY(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking));
  TRY(cudaEventCreate(&c->start));
  TRY(cudaEventCreate(&c->end));
  for (int i = -1; i < samples; i++) {
    float ms;
    TRY(cudaEventRecord(c->start, c->stream));
    const double start = seconds_now();
    for (int call = 0; call < rung->calls; call++) TRY(rung->run(rung->context, c->stream));
    TRY(cudaEventRecord(c->end, c->stream));
    TRY(cudaEventSynchronize(c->end));
    TRY(cudaEventElapsedTime(&ms, c->start, c->end));
    const double all = rung->on_host ? seconds_now() - start : ms / 1e3;
    if (i >= 0) seconds[i] = all / rung->calls;
  }
  return cudaSuccess;
}

bool rung_time(const Rung *rung, int samples, Stats *seconds, Error *error) {
  Clock c = {0};
  double all[RUNG_SAMPLES];
  const bool good = cuda_done(time_samples(rung, samples, &c, all), rung->name, error);
  if (good) *seconds = stats_of(all, samples);
  if (c.start) cudaEventDestroy(c.start);
  if (c.end) cudaEventDestroy(c.end);
  if (c.stream) cudaStreamDestroy(c.stream);
  return good;
}

/* Returns a text like "580.95.05, CUDA 13.0": the driver's version, which is the first number in
   its file, and the CUDA version that the driver supports. */
static ShortText find_driver(void) {
  FILE *file = fopen("/proc/driver/nvidia/version", "r");
  char word[31];
  bool found = false;
  int version = 0;
  cudaDriverGetVersion(&version);
  while (file && !found && fscanf(file, "%30s", word) == 1)
    found = *word >= '0' && *word <= '9' && strchr(word, '.');
  if (file) fclose(file);
  const ShortText cuda = text_format("CUDA %d.%d", version / 1000, version % 1000 / 10);
  return found ? text_format("%s, %s", word, cuda.text) : text_format("for %s", cuda.text);
}

bool gpu_start(Error *error) {
  return engine_cuda_available(error) && cuda_done(cudaFree(NULL), "creating a context", error);
}

bool gpu_add_machine(Record *record, const char *name, Error *error) {
  struct cudaDeviceProp properties;
  int device;
  if (!gpu_start(error) || !cuda_done(cudaGetDevice(&device), "finding the device", error) ||
      !cuda_done(cudaGetDeviceProperties(&properties, device), "finding the device", error))
    return false;
  record_add_machine(record, properties.name, find_driver().text, name);
  return true;
}
