#include "engine/cuda/cuda_memory.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/sizes.h"

static bool own(CudaMemory *m, void *what, CudaRelease *release) {
  m->owned[m->count++] = (Owned){what, release};
  return true;
}

void cuda_release_all(CudaMemory *m) {
  while (m->count > 0) {
    const Owned *last = &m->owned[--m->count];
    last->release(last->what);
  }
}

bool cuda_array_by(CudaMemory *m, CudaAllocate *allocate, CudaRelease *release, void *pointer,
                   size_t count, size_t size, Error *error) {
  void **d_array = pointer;
  const uint64_t most = m->limit && m->limit < m->has ? m->limit : m->has,
                 bytes = (uint64_t)count * size;
  const bool fits = m->taken <= most && bytes <= most - m->taken;
  if (fits && allocate(d_array, bytes) == cudaSuccess) {
    m->taken += bytes;
    return own(m, *d_array, release);
  }
  cudaGetLastError(); /* clears the error, like cuda_done */
  error_set(error,
            !fits && most == m->limit
                ? "--device-memory leaves less than the %.1f MB that the GPU needs%s"
                : "the GPU has less than %.1f MB of memory left%s",
            (double)bytes / 1e6, ": try --resident no or a smaller --batch");
  if (error) error->of_gpu = true, error->too_large = !fits;
  return false;
}

bool cuda_array(CudaMemory *m, void *pointer, size_t count, size_t size, Error *error) {
  return cuda_array_by(m, cudaMalloc, cudaFree, pointer, count, size, error);
}

bool cuda_zeros(CudaMemory *m, void *pointer, size_t count, size_t size, Error *error) {
  return cuda_array(m, pointer, count, size, error) &&
         cuda_done(cudaMemsetAsync(*(void **)pointer, 0, count * size, m->stream), "clearing",
                   error);
}

bool cuda_pinned(CudaMemory *m, void *pointer, size_t bytes, Error *error) {
  void **h_array = pointer;
  return memory_allows((double)bytes, memory_limit(), "staging buffers", error) &&
         cuda_done(cudaMallocHost(h_array, bytes), "allocating pinned memory", error) &&
         own(m, *h_array, cudaFreeHost);
}

static cudaError_t release_host(void *memory) {
  free(memory);
  return cudaSuccess;
}

void *cuda_host(CudaMemory *m, size_t bytes, Error *error) {
  void *memory = calloc(1, bytes);
  if (!memory) return error_null(error, "out of memory for the engine");
  own(m, memory, release_host);
  return memory;
}

static cudaError_t destroy_stream(void *stream) {
  return cudaStreamDestroy(stream);
}

bool cuda_stream(CudaMemory *m, cudaStream_t *stream, int priority, Error *error) {
  return cuda_done(cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, priority),
                   "creating a stream", error) &&
         own(m, *stream, destroy_stream);
}

static cudaError_t destroy_event(void *event) {
  return cudaEventDestroy(event);
}

bool cuda_event(CudaMemory *m, cudaEvent_t *event, Error *error) {
  return cuda_done(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "creating an event",
                   error) &&
         own(m, *event, destroy_event);
}
