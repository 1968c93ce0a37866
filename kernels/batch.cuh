/* Device-side pieces every kernel file shares: which rows a step reads, how a launch is
   answered, the momentum rule. */
#ifndef BATCH_CUH
#define BATCH_CUH

#include "kernels.h"

constexpr float PIXEL_SCALE = 1.0f / 255.0f;
constexpr unsigned FULL_WARP = 0xffffffffu;

/* What a launcher returns: the launch's own complaint, taken off the sticky slot. */
static inline cudaError_t launched() {
  return cudaGetLastError();
}

/* Launches a kernel that may start while the one before it in the stream still runs (programmatic
   dependent launch, compute capability 9.0). Such a kernel calls await_kernel_before() before it
   touches what that one wrote or reads. Elsewhere it is an ordinary launch. */
template <class... Parameters, class... Arguments>
cudaError_t launch_early(void (*kernel)(Parameters...), dim3 grid, int threads, cudaStream_t stream,
                         const Arguments &...arguments) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
  return status == cudaSuccess ? launched() : status;
}

__device__ inline void await_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); /* the next one may come too */
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

static inline unsigned blocks_for(size_t count, unsigned per_block) {
  return (unsigned)((count + per_block - 1) / per_block);
}

static inline bool valid_batch(const BatchView &batch) {
  return batch.d_pixels && batch.d_labels && batch.d_state && batch.rows > 0 &&
         batch.stride % 16 == 0;
}

/* How many rows this step has: 0 when the range is over, less than the batch at its end. */
__device__ inline int rows_of_step(const BatchView &batch) {
  const long long left = (long long)batch.d_state->end - batch.d_state->position - batch.offset;
  return (int)min((long long)batch.rows, max(left, 0ll));
}

/* The position of the batch's row r in the epoch, clamped to the last one. */
__device__ inline uint32_t position_of(const BatchView &batch, int r) {
  return min(batch.d_state->position + batch.offset + r, batch.d_state->end - 1);
}

/* The store row of the batch's row r. */
__device__ inline size_t store_row(const BatchView &batch, int r) {
  const uint32_t position = position_of(batch, r);
  return batch.d_order ? batch.d_order[position] : batch.first_row + position;
}

/* One value of the momentum rule (Sutskever et al. 2013, the form PyTorch uses). */
__device__ inline void update_value(float &w, float &v, float g, UpdateRule rule, float rate) {
  v = rule.momentum * v + (g + rule.weight_decay * w);
  w -= rate * v;
}

#endif
