/* Fusion level `epoch`: every step of an epoch in one kernel, for two hidden layers and batches up
   to 64.

   A step at batch 64 is 72 MFLOP, one microsecond of this kind of GPU; what costs is communication.
   The layout is chosen so that blocks communicate three times per step, and by mail (mail.cuh),
   never at a barrier of the whole grid:

     neurons    of the first hidden layer, in tiles of 15 (five packets); some tiles make a group
     group      owns its neurons' rows of W1 and columns of W2, and works on every row; the group's
                blocks split the inputs of W1 among them
     block      one tile times one split: 15 neurons, some 130 inputs. Its part of W1 stays in
                registers for the whole launch. Each of a group's first 16 blocks owns 4 rows.

   The warps of a block form three teams that run different code at the same time (warp
   specialisation):

   1. Matrix teams (matrix.cuh) multiply their part of W1 with the pixels: partial sums of Z1,
   mailed to the owners of the rows.

   2. Row teams (rows.cuh) of the owners add them, apply ReLU and multiply with the group's columns
   of W2: partial sums of Z2, mailed to the owners of the same rows in the other groups. Then they
   add the groups' sums and do the rest of their rows alone, forward and backward, down to dZ1. That
   is mailed to the group's matrix teams, which update W1 in their registers.

   3. Patch teams (patch.cuh) meanwhile update W2, W3 and the biases, some patches in each block,
   and mail them to the owners of rows.

   The bias of the first layer is the weight of one more input, a pixel that is always 255.

   The three teams of a block wait for each other only at the barriers of layout.cuh. All sums have
   a fixed order: the same bits every time. Mail is never overwritten unread: whoever sends the
   packet of step t + 1 has received something of step t that the reader sent after reading. Only
   Z2, where the groups run freely, takes two buffers in turn. docs/fusion.md has the proof, buffer
   by buffer, and what each change of this design gained. */
#include "epoch/matrix.cuh"
#include "epoch/patch.cuh"
#include "epoch/rows.cuh"

namespace epoch {

extern __shared__ __align__(16) unsigned char shared_memory[];

/* Trains on all steps of the job. Grid: groups * tiles * splits blocks, one per multiprocessor, all
   resident at once. Block: find_layout() says which tile, split and rows. Warps: the three
   teams. */
__global__ void __launch_bounds__(THREADS, 1)
    epoch_kernel(EpochPlan plan, EpochJob job WITH_STAMPS(, EpochStamps stamps)) {
#if __CUDA_ARCH__ >= 800 /* plan_epoch refuses what is older */
  Shared &s = *reinterpret_cast<Shared *>(shared_memory);
  for (size_t i = threadIdx.x; i < sizeof(Shared) / 4; i += THREADS)
    reinterpret_cast<uint32_t *>(shared_memory)[i] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < ROWS; i += THREADS) s.ones[i] = 1.0f;
  if (threadIdx.x == 0) s.layout = find_layout(plan, static_cast<Packet *>(job.d_mail));
  WITH_STAMPS(if (threadIdx.x == 0) s.stamps = stamps, take_anchor(stamps, 0);)
  __syncthreads();
  if (threadIdx.x < MATRIX_THREADS)
    matrix_team(plan, job, s);
  else if (threadIdx.x < MATRIX_THREADS + ROW_THREADS)
    row_team(plan, job, s);
  else
    patch_team(plan, job, s);
  WITH_STAMPS(if (threadIdx.x == 0) take_anchor(stamps, 1);)
#endif
}

} // namespace epoch

using namespace epoch;

static cudaError_t queue(const EpochPlan *plan, const EpochJob *job,
                         WITH_STAMPS(const EpochStamps *stamps, ) cudaStream_t stream) {
  if (!plan || !job || !job->d_pixels || !job->d_labels || !job->d_order || !job->d_parameters ||
      !job->d_momentum || !job->results.d_loss || !job->results.d_correct || !job->d_mail ||
      job->stride % 16 != 0 || job->position >= job->end || job->first_stamp == 0)
    return cudaErrorInvalidValue;
  cudaError_t status = cudaFuncSetAttribute(
      epoch_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared));
  if (status != cudaSuccess) return launched(status);
  EpochPlan plan_copy = *plan;
  EpochJob job_copy = *job;
  WITH_STAMPS(EpochStamps stamps_copy = *stamps; stamps_copy.first += job->first_stamp;)
  void *arguments[] = {&plan_copy, &job_copy WITH_STAMPS(, &stamps_copy)};
  status = cudaLaunchCooperativeKernel((const void *)epoch_kernel,
                                       dim3(plan->groups * plan->tiles * plan->splits),
                                       dim3(THREADS), arguments, sizeof(Shared), stream);
  return launched(status);
}

#ifdef EPOCH_STAMPED

cudaError_t launch_epoch_stamped(const EpochPlan *plan, const EpochJob *job,
                                 const EpochStamps *stamps, cudaStream_t stream) {
  if (!stamps || !stamps->d_clock || !stamps->d_anchor) return cudaErrorInvalidValue;
  return queue(plan, job, stamps, stream);
}

#else

cudaError_t launch_epoch(const EpochPlan *plan, const EpochJob *job, cudaStream_t stream) {
  return queue(plan, job, stream);
}

/* Plans the shape, or says why it cannot run. */
static const char *lay_out(EpochShape shape, const GpuLimits &limits, EpochPlan *plan) {
  const int tiles = ceil_div(shape.hidden1, TILE);
  *plan = EpochPlan{shape, 0, tiles < MAX_TILES ? tiles : MAX_TILES, 0, 0};
  plan->groups = ceil_div(tiles, plan->tiles);
  plan->splits = limits.multiprocessors / (plan->groups * plan->tiles);
  if (plan->splits > MAX_SPLITS) plan->splits = MAX_SPLITS;
  plan->mail_bytes =
      sizeof(Packet) * (mail_sizes(*plan).z2 + plan->groups * group_mail(mail_sizes(*plan)));
  if (limits.capability < 80) return "it needs compute capability 8.0";
  if (shape.batch > ROWS) return "it takes batches up to 64";
  if (shape.hidden2 > MAX_HIDDEN2) return "it takes second hidden layers up to 120";
  if (k_steps(shape) > MAX_SPLITS * MATRIX_WARPS) return "it takes up to 1279 inputs";
  if (MAX_SPLITS * plan->tiles < OWNERS) return "it takes first hidden layers from 16 neurons on";
  if (packets_of(shape.classes) > plan->tiles) return "it takes three classes a tile, up to 12";
  if (plan->groups > MAX_GROUPS || plan->splits * plan->tiles < OWNERS)
    return "the first hidden layer needs more multiprocessors than this GPU has";
  if (ceil_div(k_steps(shape), plan->splits) > MATRIX_WARPS ||
      patches_of(share_of(*plan), packets_of(shape.classes)) > PATCH_THREADS / QUARTERS)
    return "the layers need more multiprocessors than this GPU has";
  if (sizeof(Shared) > limits.shared_bytes) return "it needs more shared memory than this GPU has";
  return nullptr;
}

void plan_epoch(EpochShape shape, const GpuLimits *limits, EpochPlan *plan, const char **why_not) {
  *why_not = lay_out(shape, *limits, plan);
}

#endif
