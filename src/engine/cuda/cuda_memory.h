/* The device memory, streams and events of an engine, and when they are released. */
#pragma once

#include "base/error.h"
#include "engine/cuda/cuda_error.h"
#include "model/network.h"

/* An array, a stream or an event, and the function that releases it. */
typedef struct {
  void *what;
  cudaError_t (*release)(void *what);
} Owned;

/* Capacity of `owned`. A layer owns 2 arrays, 3 planes, 1 event; the engine owns about 40 more. */
enum { CUDA_MAX_OWNED = 64 + 8 * NETWORK_MAX_LAYERS };

typedef struct {
  uint64_t has;        /* bytes of the device's memory */
  uint64_t limit;      /* bytes that --device-memory allows; 0 means no limit */
  uint64_t taken;      /* bytes allocated so far; all members of an engine count together */
  cudaStream_t stream; /* clears arrays */
  Owned owned[CUDA_MAX_OWNED];
  int count;
} CudaMemory;

/* The functions below allocate what cuda_release_all releases. On failure they set *error. They
   respect has and limit. `pointer` is the address of a pointer to an array of `count` elements. */
bool cuda_array(CudaMemory *m, void *pointer, size_t count, size_t size, Error *error);
/* Like cuda_array, and queues a call that sets the array to zeros. */
bool cuda_zeros(CudaMemory *m, void *pointer, size_t count, size_t size, Error *error);
/* Like cuda_array, with another allocator of device memory. */
typedef cudaError_t CudaAllocate(void **pointer, size_t bytes);
typedef cudaError_t CudaRelease(void *pointer);
bool cuda_array_by(CudaMemory *m, CudaAllocate *allocate, CudaRelease *release, void *pointer,
                   size_t count, size_t size, Error *error);
/* Allocates pinned memory of the host. */
bool cuda_pinned(CudaMemory *m, void *pointer, size_t bytes, Error *error);
/* Allocates memory of the host that is set to zeros, for the state of a level. NULL on failure. */
void *cuda_host(CudaMemory *m, size_t bytes, Error *error);
bool cuda_stream(CudaMemory *m, cudaStream_t *stream, int priority, Error *error);
bool cuda_event(CudaMemory *m, cudaEvent_t *event, Error *error);

/* Releases everything, in reverse order of allocation. */
void cuda_release_all(CudaMemory *m);
