/* Counts the host's launches. The linker replaces each call of a launch function by a call of its
   __wrap_ version below (--wrap in the Makefile). */
#include "measure/cuda/rung.h"

static uint64_t launches;

uint64_t launch_count(void) {
  return launches;
}

#define COUNTED(name, parameters, arguments)                                                       \
  cudaError_t __real_##name parameters;                                                            \
  cudaError_t __wrap_##name parameters;                                                            \
  cudaError_t __wrap_##name parameters {                                                           \
    launches++;                                                                                    \
    return __real_##name arguments;                                                                \
  }

#define COUNTED_GRID(name, Kernel)                                                                 \
  COUNTED(name,                                                                                    \
          (Kernel kernel, struct dim3 grid, struct dim3 block, void **arguments, size_t shared,    \
           cudaStream_t stream),                                                                   \
          (kernel, grid, block, arguments, shared, stream))

/* nvcc turns <<< >>> into cudaLaunchKernel or, in newer toolkits, __cudaLaunchKernel. */
__attribute__((weak)) cudaError_t __real___cudaLaunchKernel(void *kernel, struct dim3 grid,
                                                            struct dim3 block, void **arguments,
                                                            size_t shared, cudaStream_t stream);
COUNTED_GRID(cudaLaunchKernel, const void *)
COUNTED_GRID(__cudaLaunchKernel, void *)
COUNTED_GRID(cudaLaunchCooperativeKernel, const void *)
COUNTED(cudaLaunchKernelExC,
        (const cudaLaunchConfig_t *config, const void *kernel, void **arguments),
        (config, kernel, arguments))
COUNTED(cudaGraphLaunch, (cudaGraphExec_t graph, cudaStream_t stream), (graph, stream))
