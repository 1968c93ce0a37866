/* A stand-in for the CUDA runtime, for machines without a GPU. mlp-train-faults links it in place
   of the runtime, and so runs all of mlp-train's host code. Device memory is host memory here, so
   AddressSanitizer sees leaks and copies out of bounds. A call fails when fault.c says so. Kernels
   do nothing, except for the kernel that counts rows.

   $CUDA_STAND_IN selects the GPU and driver:

     none         no GPU
     no-driver    no GPU and no driver
     old-driver   the driver is older than the runtime
     old-gpu      the program was not built for this GPU
     full         all of the GPU's memory is taken
     ""           an H100 */
#include <cuda_runtime_api.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/fault.h"
#include "kernels.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"   /* most functions ignore arguments */
#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* nvcc's functions have no prototypes */

static cudaError_t last; /* what the next call of cudaGetLastError returns */

static bool is(const char *kind) {
  const char *asked = getenv("CUDA_STAND_IN");
  return asked && strcmp(asked, kind) == 0;
}

static cudaError_t end(cudaError_t status) {
  if (status != cudaSuccess) last = status;
  return status;
}

/* Defines a CUDA function. If a call must fail, the function only returns fails_by. Otherwise it
   does `work` and returns ends_by. */
#define CALL(name, fails_by, work, ends_by, ...)                                                   \
  cudaError_t name(__VA_ARGS__) {                                                                  \
    if (fault_cuda(__func__, __builtin_return_address(0))) return end(fails_by);                   \
    work;                                                                                          \
    return end(ends_by);                                                                           \
  }
#define TRIES(name, work, ...) CALL(name, cudaErrorLaunchFailure, work, cudaSuccess, __VA_ARGS__)

/* Defines a CUDA function that does `work` even if the call must fail. */
#define DOES(name, work, ...)                                                                      \
  cudaError_t name(__VA_ARGS__) {                                                                  \
    work;                                                                                          \
    return end(fault_cuda(__func__, __builtin_return_address(0)) ? cudaErrorLaunchFailure          \
                                                                 : cudaSuccess);                   \
  }

cudaError_t cudaGetLastError(void) {
  const cudaError_t status = last;
  last = cudaSuccess;
  return status;
}

const char *cudaGetErrorString(cudaError_t status) {
  return "an error of CUDA";
}

/* ---- the device ---------------------------------------------------------------------------- */

cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
  *version = is("no-driver") ? 0 : is("old-driver") ? 11080 : CUDART_VERSION;
  return cudaSuccess;
}

CALL(cudaGetDeviceCount, cudaErrorNoDevice, *count = 1,
     is("no-driver") || is("old-driver") ? cudaErrorInsufficientDriver
     : is("none")                        ? cudaErrorNoDevice
                                         : cudaSuccess,
     int *count)
CALL(cudaSetDevice, cudaErrorLaunchFailure, , device == 0 ? cudaSuccess : cudaErrorInvalidDevice,
     int device)
TRIES(cudaDeviceGetPCIBusId, snprintf(id, (size_t)size, "0000:%02d:00.0", device), char *id,
      int size, int device)
TRIES(cudaGetDevice, *device = 0, int *device)
TRIES(cudaGetDeviceProperties,
      *properties = ((struct cudaDeviceProp){
          .name = "stand-in", .totalGlobalMem = (size_t)80 << 30, .major = is("old-gpu") ? 5 : 9}),
      struct cudaDeviceProp *properties, int device)
CALL(cudaDeviceGetAttribute, cudaErrorLaunchFailure,
     *value = attribute == cudaDevAttrMultiProcessorCount            ? 132
              : attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin ? 227 << 10
                                                                     : 0,
     *value ? cudaSuccess : cudaErrorInvalidValue, int *value, enum cudaDeviceAttr attribute,
     int device)

/* ---- memory -------------------------------------------------------------------------------- */

/* Allocates memory and fills it with nonzero bytes, because cudaMalloc does not clear memory. */
static void *take(size_t size) {
  void *memory = fault_malloc(size);
  if (!memory) abort();
  return memset(memory, 0xa5, size);
}

CALL(cudaMalloc, cudaErrorMemoryAllocation, if (!is("full")) *memory = take(size),
     is("full") ? cudaErrorMemoryAllocation : cudaSuccess, void **memory, size_t size)
CALL(cudaMallocHost, cudaErrorMemoryAllocation, *memory = take(size), cudaSuccess, void **memory,
     size_t size)
TRIES(cudaMemcpy, memcpy(to, from, size), void *to, const void *from, size_t size,
      enum cudaMemcpyKind kind)
TRIES(cudaMemcpyAsync, memcpy(to, from, size), void *to, const void *from, size_t size,
      enum cudaMemcpyKind kind, cudaStream_t stream)
TRIES(cudaMemsetAsync, memset(memory, value, size), void *memory, int value, size_t size,
      cudaStream_t stream)
DOES(cudaFree, free(memory), void *memory)
DOES(cudaFreeHost, free(memory), void *memory)

/* ---- streams, events, graphs: each is one byte of memory ------------------------------------ */

TRIES(cudaDeviceGetStreamPriorityRange, *lowest = *highest = 0, int *lowest, int *highest)
TRIES(cudaStreamCreateWithPriority, *stream = take(1), cudaStream_t *stream, unsigned flags,
      int priority)
TRIES(cudaStreamSynchronize, , cudaStream_t stream)
TRIES(cudaStreamQuery, , cudaStream_t stream)
TRIES(cudaStreamWaitEvent, , cudaStream_t stream, cudaEvent_t event, unsigned flags)
DOES(cudaStreamDestroy, free(stream), cudaStream_t stream)
TRIES(cudaEventCreateWithFlags, *event = take(1), cudaEvent_t *event, unsigned flags)
TRIES(cudaEventRecord, , cudaEvent_t event, cudaStream_t stream)
TRIES(cudaEventSynchronize, , cudaEvent_t event)
TRIES(cudaEventQuery, , cudaEvent_t event)
DOES(cudaEventDestroy, free(event), cudaEvent_t event)
TRIES(cudaStreamBeginCapture, , cudaStream_t stream, enum cudaStreamCaptureMode mode)
/* Creates a graph even if the call fails. So a caller that does not destroy it leaks memory. */
DOES(cudaStreamEndCapture, *graph = take(1), cudaStream_t stream, cudaGraph_t *graph)
CALL(cudaGraphInstantiate, cudaErrorMemoryAllocation, *out = take(1), cudaSuccess,
     cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
TRIES(cudaGraphLaunch, , cudaGraphExec_t graph, cudaStream_t stream)
DOES(cudaGraphDestroy, free(graph), cudaGraph_t graph)
DOES(cudaGraphExecDestroy, free(graph), cudaGraphExec_t graph)

/* ---- kernels ------------------------------------------------------------------------------- */

static const void *sum_kernel; /* state.cu's kernel that counts rows */

/* Code that nvcc adds to each kernel file calls these functions before main to register kernels. */
void **__cudaRegisterFatBinary(void *image) {
  return NULL;
}

void __cudaRegisterFatBinaryEnd(void **handle) {
}

void __cudaUnregisterFatBinary(void **handle) {
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int extern_,
                       size_t size, int constant, int global) {
}

void __cudaRegisterFunction(void **handle, const char *kernel, char *other, const char *name,
                            int threads, uint3 *thread, uint3 *block, dim3 *size, dim3 *grid,
                            int *warp) {
  if (strstr(name, "10sum_kernel")) sum_kernel = kernel;
}

TRIES(cudaFuncSetAttribute, , const void *kernel, enum cudaFuncAttribute attribute, int value)
CALL(cudaFuncGetAttributes, cudaErrorNoKernelImageForDevice,
     *attributes = (struct cudaFuncAttributes){.ptxVersion = 90},
     is("old-gpu") ? cudaErrorNoKernelImageForDevice : cudaSuccess,
     struct cudaFuncAttributes *attributes, const void *kernel)

/* Reports that the driver lacks the function `name`. */
#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result) {
#elif CUDART_VERSION >= 12000
cudaError_t cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *result) {
#endif
#if CUDART_VERSION >= 12000
  *function = NULL;
  *result = cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
#endif

cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *kernel,
                                           const cudaLaunchConfig_t *config) {
  *clusters = 0;
  return cudaSuccess;
}

static void launch(const void *kernel, void **arguments) {
  if (kernel != sum_kernel) return;
  ResultSums *sums = *(ResultSums **)arguments[0];
  sums->rows += *(uint32_t *)arguments[3] - *(uint32_t *)arguments[2];
}

#define LAUNCHES(name, fails_by, ...)                                                              \
  CALL(name, fails_by, launch(kernel, arguments), cudaSuccess, __VA_ARGS__)
LAUNCHES(cudaLaunchKernel, cudaErrorLaunchOutOfResources, const void *kernel, dim3 grid, dim3 block,
         void **arguments, size_t shared, cudaStream_t stream)
LAUNCHES(cudaLaunchKernelExC, cudaErrorLaunchOutOfResources, const cudaLaunchConfig_t *config,
         const void *kernel, void **arguments)
LAUNCHES(cudaLaunchCooperativeKernel, cudaErrorCooperativeLaunchTooLarge, const void *kernel,
         dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream)
LAUNCHES(__cudaLaunchKernel, cudaErrorLaunchOutOfResources, cudaKernel_t kernel, dim3 grid,
         dim3 block, void **arguments, size_t shared, cudaStream_t stream)

/* A launch by <<< >>> calls these two functions. CUDA's first one stores the four arguments between
   <<< and >>>; its second one returns them. */
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
  *grid = *block = (dim3){1, 1, 1};
  *shared = 0;
  *(cudaStream_t *)stream = NULL;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *kernel) {
  memcpy(out, &kernel, sizeof *out);
  return cudaSuccess;
}
