/* The device's side of every topic of the lab, on top of lab.h. */
#ifndef LAB_CUH
#define LAB_CUH

#include "lab/lab.h"
#include "base/sizes.h"

/* A topic's tables name what they have and leave out the rest. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

/* Launches `kernel` on call->stream and records it in call->record if it is the call's first. The
   arguments are converted to what the kernel takes. */
template <class... Taken, class... Given>
cudaError_t lab_launch(const LabCall *call, void (*kernel)(Taken...), dim3 grid, dim3 block,
                       size_t shared, Given... given) {
  LabRecord *r = call->record;
  if (r && !r->kernel) {
    r->kernel = (const void *)kernel;
    r->block[0] = block.x, r->block[1] = block.y, r->block[2] = block.z;
    r->shared = shared;
  }
  if (shared > 48 * 1024) { /* more than that must be asked for */
    const cudaError_t status = cudaFuncSetAttribute(
        (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (status != cudaSuccess) return status;
  }
  kernel<<<grid, block, shared, call->stream>>>(static_cast<Taken>(given)...);
  return cudaGetLastError();
}

/* The call for a launch that prepares or ends what the rung is about: it is not recorded. */
static inline LabCall lab_helper(const LabCall *call) {
  LabCall helper = *call;
  helper.record = nullptr;
  return helper;
}

/* How many blocks of `each` cover `count`. */
static inline unsigned lab_blocks(int64_t count, int64_t each) {
  return (unsigned)ceil_div(count, each);
}

/* Returns how many of `wanted` blocks a multiprocessor of that compute capability holds at once. It
   has room for 1024 threads (7.5), 2048 (8.0, 9.x, 10.x) or 1536 (others), as the CUDA
   C++ Programming Guide says. */
__host__ __device__ constexpr int lab_resident(int capability, int threads, int wanted) {
  const bool large = capability == 80 || capability / 10 == 9 || capability / 10 == 10;
  const int most = (capability < 80 ? 1024 : large ? 2048 : 1536) / threads;
  return wanted < most ? wanted : most;
}

/* The compute capability that is compiled for, as GpuLimits has it. The host's half does not depend
   on it. */
#ifdef __CUDA_ARCH__
constexpr int LAB_CAPABILITY = __CUDA_ARCH__ / 10;
#else
constexpr int LAB_CAPABILITY = 90;
#endif

#endif
