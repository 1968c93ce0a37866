/* Fusion level `epoch`: every step of an epoch in one kernel, for two hidden layers and batches up
   to 64.

   A step at batch 64 is 72 MFLOP, one microsecond of this kind of GPU; what costs is communication.
   The layout is chosen so that few things wait for each other, and these by mail (mail.cuh), never
   at a barrier of the whole grid:

     neurons       of the first hidden layer, in tiles of 15 (five packets); some tiles make a group
     group         owns its neurons' rows of W1 and columns of W2, and works on every row
     matrix block  two tiles of W1 times one split of the inputs: 30 neurons, some 160 inputs, in
                   registers for the whole launch; four tiles where multiprocessors are few
     row block     four rows of the batch times a group's neurons, and some patches of W2, W3, b2
                   and b3; 16 per group; eight rows, 8 per group, where they are fewer

   A block has one of these roles, so its registers, its code and its shared memory serve that one
   alone. Within a block teams of warps run different code at the same time (warp specialisation):

   1. Matrix blocks (matrix.cuh) multiply what is known of W1 with the pixels of the next step while
   this one is under way, and mail that to the owners of the rows. Then they update W1 by dZ1.

   2. Row teams (rows.cuh) correct it by dZ1 of the step before, which makes it Z1, apply ReLU and
   multiply with the group's columns of W2: partial sums of Z2, mailed to the owners of the same
   rows in the other groups. Later they go back from dZ2 to dZ1, which is mailed to the group's
   matrix blocks and row blocks.

   3. Head teams (head.cuh) have the last layer, forward and backward, of the block's rows, and then
   update some patches of W3 and b3.

   4. Patch teams (patch.cuh) meanwhile update some patches of W2 and b2. Both mail them to the row
   blocks.

   Why Z1 can be computed before its weights are known: an update is W1(t+1) = U(t) - rate
   dZ1(t)' X(t), where U(t) = (1 - rate decay) W1(t) - rate momentum V(t). So Z1(t+1) = X(t+1)
   W1(t+1)' = X(t+1) U(t)' - rate K dZ1(t), where K = X(t+1) X(t)' is known before the epoch begins
   (gram.cu). The way from dZ1 over the weights to the next Z1 is no longer what a step waits for.

   The bias of the first layer is the weight of one more input, a pixel that is always 255.

   All sums have a fixed order: the same bits every time. Mail is never overwritten unread: whoever
   sends a packet has received something that the reader of the one before sent after reading. All
   mail but P takes two buffers in turn. docs/fusion.md has the proof, buffer by buffer, and what
   each change of this design gained. */
#include "epoch/head.cuh"
#include "epoch/matrix.cuh"
#include "epoch/patch.cuh"
#include "epoch/rows.cuh"

namespace epoch {

extern __shared__ __align__(16) unsigned char shared_memory[];

/* Trains on all steps of the job. Grid: plan.blocks, one per multiprocessor, all resident at once.
   Block: its BlockLayout says which role it has, and of what. Warps: the teams of the role. */
template <int QUADS, int DEPTH>
__global__ void __launch_bounds__(THREADS, 1) epoch_kernel(EpochPlan plan, EpochJob job) {
#if __CUDA_ARCH__ >= 800 /* plan_epoch refuses what is older */
  using Block = Shared<QUADS, DEPTH>;
  Block &s = *reinterpret_cast<Block *>(shared_memory);
  for (size_t i = threadIdx.x; i < sizeof(Block) / 4; i += THREADS)
    reinterpret_cast<uint32_t *>(shared_memory)[i] = 0;
  __syncthreads();
  if (threadIdx.x == 0)
    s.layout = BlockLayout(plan, static_cast<Packet *>(job.d_mail), OWNERS<QUADS>);
  __syncthreads();
  const int thread = threadIdx.x;
  if (!s.layout.is_row_block) {
    MatrixBlock<Block>{{plan, job, s.layout}, s}.run();
  } else if (thread < ROW_THREADS) {
    RowTeam<Block>{{plan, job, s.layout}, s}.run();
  } else if (thread < ROW_THREADS + HEAD_THREADS) {
    HeadTeam<Block>{{{plan, job, s.layout}}, s}.run();
  } else if (thread < THREADS_OF_ROW_BLOCK) {
    PatchTeam<Block>{{{plan, job, s.layout}}, s}.run();
  }
#endif
}

} // namespace epoch

using namespace epoch;

/* A kernel, what it is for, and its blocks' shared memory. */
struct Variant {
  int owners, max_groups, depth;
  const void *kernel;
  size_t shared;
};

template <int QUADS, int DEPTH> static Variant variant() {
  return {OWNERS<QUADS>, MAX_GROUPS<QUADS>, DEPTH, (const void *)epoch_kernel<QUADS, DEPTH>,
          sizeof(Shared<QUADS, DEPTH>)};
}

/* The faster ones first. */
static const Variant variants[] = {variant<1, 1>(), variant<1, 2>(), variant<2, 2>()};

cudaError_t launch_epoch(const EpochPlan *plan, const EpochJob *job, cudaStream_t stream) {
  REQUIRE(given(plan, job) &&
          given(job->d_pixels, job->d_labels, job->d_order, job->d_parameters, job->d_momentum,
                job->results.d_loss, job->results.d_correct, job->d_mail, job->d_gram) &&
          job->stride % 16 == 0 && job->position < job->end && job->first_stamp != 0);
  const Variant *of = variants;
  while (of->owners * plan->groups != plan->row_blocks || of->depth != plan->depth)
    REQUIRE(++of != variants + sizeof variants / sizeof *variants);
  TRY(allow_shared(of->kernel, of->shared));
  EpochPlan plan_copy = *plan;
  EpochJob job_copy = *job;
  void *arguments[] = {&plan_copy, &job_copy};
  return launched(cudaLaunchCooperativeKernel(of->kernel, dim3(plan->blocks), dim3(THREADS),
                                              arguments, of->shared, stream));
}

/* Divides the first layer among multiprocessors that row blocks leave. False: they are too few. */
static bool lay_out_blocks(const Variant &of, int multiprocessors, EpochPlan *plan) {
  plan->depth = of.depth;
  plan->row_blocks = plan->groups * of.owners;
  plan->sets = ceil_div(plan->tiles, 2 * of.depth);
  const int units = plan->groups * plan->sets, left = multiprocessors - plan->row_blocks;
  plan->splits = left < units ? 0 : left / units < MAX_SPLITS ? left / units : MAX_SPLITS;
  plan->blocks = plan->row_blocks + units * plan->splits;
  if (plan->splits == 0 || ceil_div(k_steps(plan->shape), plan->splits) > MATRIX_WARPS)
    return false;
  const MailSizes mail = mail_sizes(*plan);
  plan->mail_bytes = sizeof(Packet) * (mail.z2 + plan->groups * group_mail(mail));
  plan->step_mail = (plan->mail_bytes + sizeof(Packet) * plan->groups * mail.p) / 2;
  return true;
}

/* Plans the shape, or says why it cannot run. */
static const char *lay_out(EpochShape shape, const GpuLimits &limits, EpochPlan *plan) {
  const int tiles = ceil_div(shape.hidden1, TILE);
  *plan = EpochPlan{};
  plan->shape = shape;
  plan->tiles = tiles < MAX_TILES ? tiles : MAX_TILES;
  plan->groups = ceil_div(tiles, plan->tiles);
  if (limits.capability < 80) return "it needs compute capability 8.0";
  if (shape.batch > ROWS) return "it takes batches up to 64";
  if (plan->groups > MAX_GROUPS<2>) return "it takes first hidden layers up to 600";
  if (shape.hidden2 > MAX_HIDDEN2) return "it takes second hidden layers up to 120";
  if (k_steps(shape) > MAX_SPLITS * MATRIX_WARPS) return "it takes up to 1279 inputs";
  if (packets_of(shape.classes) > plan->tiles) return "it takes three classes a tile, up to 12";
  const char *why_not = "it needs more shared memory than this GPU has";
  for (const Variant &of : variants) {
    if (of.shared > limits.shared_bytes || plan->groups > of.max_groups) continue;
    if (lay_out_blocks(of, limits.multiprocessors, plan)) return nullptr;
    why_not = "the layers need more multiprocessors than this GPU has";
  }
  return why_not;
}

void plan_epoch(EpochShape shape, const GpuLimits *limits, EpochPlan *plan, const char **why_not) {
  *why_not = lay_out(shape, *limits, plan);
}
