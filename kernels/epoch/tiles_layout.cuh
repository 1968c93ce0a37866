/* The layout of level `epoch`: how many warps do what, the job, a block's shared memory, and the
   barriers between its warps. Read tiles.cu first: it explains the kernel. */
#pragma once

#include "epoch/tiles_weight.cuh"
#include "fp16_split.cuh"
#include "layer/hopper.cuh"

namespace tiles {

constexpr int LAYERS = TILES_LAYERS, UNITS = 8; /* UNITS: neurons per tile */
constexpr int RANKS = 16;                       /* blocks per cluster */

/* The warps of a block. In layer 1, warps 0 to 6 hold W1, 112 inputs each. Warp 7, the helper,
   holds the tile's columns of the last layer and the biases. Warps 8 to 15 are the chain (struct
   Chain). A thread has 128 registers. */
constexpr int MATRIX = 7, HELPER = 7, WEIGHT_WARPS = 8, CHAIN = 8, CHAINS = 8,
              WARPS = CHAIN + CHAINS, THREADS = 32 * WARPS;
constexpr int CHUNKS = 7; /* how many chunks of 16 inputs one warp has */
constexpr int ALL_CHUNKS = MATRIX * CHUNKS, INPUTS = 16 * ALL_CHUNKS;
constexpr int CLASSES = 16;    /* the largest number of classes: 4 lanes have 4 classes each */
constexpr int FIRST_STAMP = 4; /* of the first mail: has phase 1 (phase_of); zeroed memory has 0 */

/* Powers of two that keep fp16 terms in range if weights are below 256, activations below 1023 and
   gradients below 1. PIXEL is 2^24, because a byte taken as the bits of an fp16 is byte / 2^24. */
constexpr float W_SCALE = 256, H_SCALE = 64, DZ_SCALE = 65536, PIXEL = 16777216;

/* The named barriers of a block. A barrier opens when a fixed number of threads have arrived at it
   or wait for it. So each warp that uses a barrier uses it in every step. */
enum Barrier {
  DZ_READY = 1, /* the chain tells the helper that this step's dZ is in shared memory */
  GO,           /* the chain tells the other warps to start their updates, which use dZ */
  LAST_READY,   /* the helper tells the chain that the last layer's weights are updated */
  BIASES_READY, /* the helper has updated the last biases and has read the gradient of logits */
  Z_READY,      /* the other warps tell the chain that their partial sums of Z are ready */
  Z_TAKEN,      /* the chain tells the other warps that it has read their partial sums */
  MATRIX_ONLY,  /* warps 0 to 6 meet after all of them have read the old pixels */
  TERMS_READY   /* all warps meet when the fp16 weights of the next step are ready */
};
constexpr int GO_THREADS = 32 * (WARPS - 1), HELPER_THREADS = 32 * (CHAINS + 1);

/* The kernel's argument. Fields named `..._at` are byte offsets in shared memory. */
struct Job {
  int layers, size[LAYERS + 1], classes, batch; /* layers: hidden and last; size[0]: inputs */
  size_t weight[LAYERS + 1], bias[LAYERS + 1];  /* offsets in `flat`; layer 1 has index 1 */
  int first_block[LAYERS + 1], tiles[LAYERS + 1], first_tile[LAYERS + 1], all_tiles,
      clusters;          /* arrays start at layer 1; `clusters` belongs to the last hidden layer */
  int steps, first_step; /* first_step: number of the launch's first step in its window */
  uint32_t rows, stamp;
  Rule rule;
  float pixel_factor, pixel_offset, k_scale, keep_scale[LAYERS + 1];
  float own, other;      /* own: target of the label; other: target of each other class */
  float mean, last_mean; /* mean: 1 / rows of a full step; last_mean: 1 / rows of the last step */
  FlatArrays flat;
  uint4 *h[LAYERS], *dz[LAYERS], *logits, *gradient; /* mail: tiles_slices.cuh, tiles_head.cuh */
  int first_row_block;   /* blocks from this number on are RowBlocks (only with mail) */
  int mail_size[LAYERS]; /* packets in one buffer of H or dZ */
  float4 *slices;        /* float32 hidden weights that are not in shared memory (Slice::kept) */
  int slice;             /* size of one slice in float4 */
  float4 *extra;         /* second moments and averages of W1; NULL if shared memory has them */
  int arrays, kept_at[2][LAYERS], terms_at[2][LAYERS], received_at[LAYERS], head_at[LAYERS],
      parts_at[LAYERS], k_at, extra_at;
  /* tiles_prepare.cu fills the next five arrays before this kernel starts. */
  const uint8_t *pixels;  /* (step, chunk, row, 16) */
  const uint4 *k;         /* K as (step, row of next step / 8, row of this step / 16, lane) */
  const uint8_t *labels;  /* one per position of the launch */
  const uint8_t *keeps;   /* bits of kept units: (step, tile of all layers, row); NULL keeps all */
  const float4 *numbers;  /* (step): StepNumbers */
  RowResults results;     /* results of rows, indexed by position in the launch */
  float drop[LAYERS + 1]; /* each hidden layer's probability of dropping a unit */
};
static_assert(sizeof(Job) <= sizeof TilesPlan::job, "TilesPlan has no room for its job");

/* How blocks exchange logits and their gradient. BY_CLUSTERS and BY_MAIL need compute capability
   9.0. BY_MAIL_FROM_80 also uses mail, and runs from 8.0 on. WITHOUT_HIDDEN is for networks without
   hidden layers, whose tiles exchange logits by mail (tiles_classes.cuh). It needs 9.0. */
enum Way { BY_CLUSTERS, BY_MAIL, BY_MAIL_FROM_80, WITHOUT_HIDDEN };

/* One compiled variant of the kernel, for batches of up to `rows` rows. `second` is true for adam
   and adamw. `ahead` is true if Z1 is computed before W1 is known. */
struct Variant {
  int rows;
  bool second;
  Way way;
  bool ahead;
  void (*kernel)(Job);
  size_t shared, pixels; /* bytes of struct Shared; bytes of all buffers of pixels */
  int turns;
};

/* One array per file. variants_first and variants_second use clusters; variants_second has second
   moments. variants_mail (for compute capability 9.0) and variants_80 (from 8.0 on) use mail.
   variants_classes have no hidden layers.
   Unused entries have 0 rows. */
constexpr int VARIANTS = 4;
extern const Variant variants_first[VARIANTS], variants_second[VARIANTS], variants_mail[VARIANTS],
    variants_80[VARIANTS], variants_classes[VARIANTS];

/* Queues the kernels that fill the job's arrays (tiles_prepare.cu). */
cudaError_t prepare(const TilesPlan &plan, const Job &job, const BatchView &batch,
                    const StepState &state, cudaStream_t stream);

/* The start of a block's shared memory. Arrays whose size depends on the network follow it. A step
   has ROWS rows. SECOND is true if the optimizer keeps second moments. AHEAD is true if Z1 is
   computed before W1 is updated. With FROM_80 there is no copy engine and little shared memory. So
   there is one buffer of pixels, and float32 hidden weights are in the L2 cache. */
template <int ROWS_, bool SECOND_, Way WAY> struct alignas(128) Shared {
  static constexpr int ROWS = ROWS_;
  static constexpr bool MAIL = WAY != BY_CLUSTERS, FROM_80 = WAY == BY_MAIL_FROM_80;
  static constexpr bool HIDDEN = WAY != WITHOUT_HIDDEN;
  static constexpr bool SECOND = SECOND_, AHEAD = ROWS < 128 && !SECOND && !FROM_80;
  /* A step has 16 * K_STEPS = 8 * N_TILES rows. A chain warp has 8 * OWN of these rows. */
  static constexpr int K_STEPS = ROWS / 16, N_TILES = ROWS / 8, OWN = N_TILES < 8 ? 1 : N_TILES / 8;
  static constexpr int BUFFERS = FROM_80 ? 1 : 2 + AHEAD; /* buffers of pixels */
  static constexpr int TURNS = AHEAD ? 2 : 1; /* buffers of dZ, H and the logits' gradient */
  /* length of a row: in dz and h it counts fp16 terms, in partial sums of Z it counts floats */
  static constexpr int PITCH = ROWS + 8;
  static constexpr bool OVERLAY = ROWS == 128; /* true if partial sums of Z overwrite old pixels */
  static constexpr int PIXEL_BYTES = ALL_CHUNKS * 16 * ROWS;
  typedef uint16_t Own[2 * UNITS][PITCH]; /* rows 0 to 7: the units' high terms; 8 to 15: low */
  alignas(16) Own dz[TURNS], h[TURNS];
  /* The tile's columns of the last layer's W, as (word, unit, t). Words 0 and 1 have the high and
     low terms of classes 2 t and 2 t + 1; words 2 and 3 those of classes 8 + t and 12 + t. */
  alignas(16) uint32_t last[4][UNITS][4];
  alignas(16) float bias[2][UNITS], last_bias[CLASSES];
  /* partial logits of the block's own rows: (row, sending block, lane t) */
  alignas(16) uint4 logits[MAIL ? 1 : ROWS / RANKS][RANKS][4];
  uint64_t pixels_came[3], k_came, logits_came, head_came;
};

/* Returns x, but the compiler cannot know that. So the compiler recomputes values that depend on x
   instead of keeping them in registers from step to step. Call this in code that seldom runs. */
__device__ inline int anew(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

/* A warp's place in the launch, and its access to shared memory. A lane's number is 4 g + t. */
template <class S> struct Ground {
  const Job &job;
  S &s;
  int layer, tile, warp, lane, g, t; /* layer: the tile's hidden layer, 1 or more */

  /* Returns a copy whose addresses the compiler must recompute. If the compiler kept addresses for
     a whole step, it would spill them and read them back from the L2 cache, which is slower. */
  __device__ __forceinline__ Ground again() const {
    const int l = anew(lane);
    return {job, s, anew(layer), anew(tile), anew(warp), l, l / 4, l % 4};
  }
  template <class T> __device__ T *at(int bytes) const {
    return reinterpret_cast<T *>(reinterpret_cast<unsigned char *>(&s) + bytes);
  }
  /* Returns the offset in the flat arrays of layer l's weight from unit `from` to unit `to`.
     Returns -1 if there is no such weight. */
  __device__ long long weight_at(int l, int to, int from) const {
    return to < job.size[l] && from < job.size[l - 1]
               ? (long long)(job.weight[l] + (size_t)to * job.size[l - 1] + from)
               : -1;
  }
  /* Returns the class of a lane's value e (0 to 3): 2 t, 2 t + 1, 8 + t or 12 + t. */
  __device__ int class_of(int e) const {
    return e < 2 ? 2 * t + e : 4 * e + t;
  }
  /* Returns the end of this step's segment: the next direct step (EPOCH_DIRECT) or job.steps. */
  __device__ int end_of_segment(int step) const {
    const int at = job.first_step + step;
    return S::AHEAD ? min(job.steps, step + (int)EPOCH_DIRECT - at % (int)EPOCH_DIRECT) : job.steps;
  }
  __device__ uint8_t *pixels(int step) const {
    return at<uint8_t>(sizeof(S)) + (size_t)(step % S::BUFFERS) * S::PIXEL_BYTES;
  }
  /* Returns the step's buffer for partial sums of Z, whose layout is (warp, unit, row). */
  __device__ float *parts(int step) const {
    return S::OVERLAY && layer == 1 ? reinterpret_cast<float *>(pixels(step + S::BUFFERS - 1))
                                    : at<float>(job.parts_at[layer]);
  }
  /* Returns the buffer of the logits' gradient. The gradient arrives as (row, t); take_gradient()
     stores it as (group of 8 rows, word, row, t). Each class has a high and a low term. */
  __device__ uint4 *head(int step) const {
    return at<uint4>(job.head_at[layer]) + step % S::TURNS * S::ROWS * 4;
  }
  __device__ StepNumbers numbers(int step) const {
    if (!S::SECOND && !job.rule.averages) return {};
    const float4 n = __ldg(job.numbers + step);
    return {n.x, n.y, n.z};
  }
};

/* ---- terms ---------------------------------------------------------------------------------- */

constexpr uint32_t ONES = 0x3c003c00;

/* Returns the lane's address for ldmatrix, which loads the tile's own terms as a left operand. Rows
   0 to 7 of the operand are the units' high terms; rows 8 to 15 are their low terms. */
template <class Own> __device__ inline uint32_t own_at(const Own &own) {
  const int lane = threadIdx.x % 32;
  return shared_address(&own[lane % 16][lane / 16 * 8]);
}

/* Updates four weights and their averages. sum[0] and sum[1] are for weights 0 and 1, the others
   for weights 2 and 3. A gradient is the sum of four products of two numbers with two terms each.
   `high` has the products with the right operand's high terms, `low` those with its low terms. In
   both, element i comes from the left operand's high terms, element i + 2 from its low terms. High
   times low and low times high are added first. So swapped operands give the same sum, and both
   copies of a weight stay equal. */
template <bool SECOND>
__device__ __forceinline__ void update_four(const Rule &rule, const StepNumbers &now,
                                            const float (&sum)[4][4], Weight (&x)[4]) {
  constexpr float SCALE = 1.0f / (DZ_SCALE * H_SCALE);
  unrolled (e, 4) {
    const float *high = sum[e / 2 * 2], *low = sum[e / 2 * 2 + 1];
    const int i = e % 2;
    const float gradient = (high[i] + (high[i + 2] + low[i])) + low[i + 2];
    update<SECOND>(rule, rule.weights, now, gradient * SCALE, x[e]);
  }
  if (rule.averages)
    unrolled (e, 4) move_average(now, x[e].w, x[e].a);
}

} // namespace tiles
