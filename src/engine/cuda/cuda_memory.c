/* Allocates the memory, streams and events of an engine, and lists them for release. */
#include "base/memory.h"
#include "base/sizes.h"
#include "engine/cuda/cuda_state.h"

/* Makes the engine the owner of `what`. cuda_release_all calls release(what), newest first. */
static bool own(CudaEngine *e, void *what, cudaError_t (*release)(void *)) {
  e->owned[e->owned_count++] = (Owned){what, release};
  return true;
}

void cuda_release_all(CudaEngine *e) {
  while (e->owned_count > 0) {
    const Owned *last = &e->owned[--e->owned_count];
    last->release(last->what);
  }
}

bool cuda_array_by(CudaEngine *e, CudaAllocate *allocate, CudaRelease *release, void *pointer,
                   size_t count, size_t size, Error *error) {
  void **d_array = pointer;
  const uint64_t limit = e->engine.config.training.device_memory, has = e->engine.memory;
  const uint64_t most = limit && limit < has ? limit : has, bytes = (uint64_t)count * size;
  const bool fits = e->taken <= most && bytes <= most - e->taken;
  if (fits && allocate(d_array, bytes) == cudaSuccess) {
    e->taken += bytes;
    return own(e, *d_array, release);
  }
  cudaGetLastError(); /* clears the error, like cuda_done */
  error_set(error,
            !fits && most == limit
                ? "--device-memory leaves less than the %.1f MB that the GPU needs%s"
                : "the GPU has less than %.1f MB of memory left%s",
            (double)bytes / 1e6, ": try --resident no or a smaller --batch");
  if (error) error->of_gpu = true, error->too_large = !fits;
  return false;
}

bool cuda_array(CudaEngine *e, void *pointer, size_t count, size_t size, Error *error) {
  return cuda_array_by(e, cudaMalloc, cudaFree, pointer, count, size, error);
}

bool cuda_zeros(CudaEngine *e, void *pointer, size_t count, size_t size, Error *error) {
  return cuda_array(e, pointer, count, size, error) &&
         cuda_done(cudaMemsetAsync(*(void **)pointer, 0, count * size, e->compute), "clearing",
                   error);
}

bool cuda_pinned(CudaEngine *e, void *pointer, size_t bytes, Error *error) {
  void **h_array = pointer;
  return memory_allows((double)bytes, memory_limit(), "staging buffers", error) &&
         cuda_done(cudaMallocHost(h_array, bytes), "allocating pinned memory", error) &&
         own(e, *h_array, cudaFreeHost);
}

static cudaError_t destroy_stream(void *stream) {
  return cudaStreamDestroy(stream);
}

bool cuda_stream(CudaEngine *e, cudaStream_t *stream, int priority, Error *error) {
  return cuda_done(cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, priority),
                   "creating a stream", error) &&
         own(e, *stream, destroy_stream);
}

static cudaError_t destroy_event(void *event) {
  return cudaEventDestroy(event);
}

bool cuda_event(CudaEngine *e, cudaEvent_t *event, Error *error) {
  return cuda_done(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "creating an event",
                   error) &&
         own(e, *event, destroy_event);
}
