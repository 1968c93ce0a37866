/* The layout of level `epoch`: how many warps do what, the job, a block's shared memory, and the
   barriers between its warps. Read tiles.cu first: it explains the kernel. */
#pragma once

#include "epoch/tiles_weight.cuh"
#include "layer/hopper.cuh"
#include "ptx.cuh"

namespace tiles {

constexpr int LAYERS = TILES_LAYERS, UNITS = 8; /* UNITS: neurons of a tile */
constexpr int RANKS = 16;                       /* blocks of a cluster */

/* The warps of a block; a thread has 128 registers. In layer 1, warps 0 to 6 hold W1, 112 inputs
   each. Warp 7, the helper, holds the tile's columns of the last layer and the biases. Warps 8 to
   15 are the chain. */
constexpr int MATRIX = 7, HELPER = 7, WEIGHT_WARPS = 8, CHAIN = 8, CHAINS = 8,
              WARPS = CHAIN + CHAINS, THREADS = 32 * WARPS;
constexpr int CHUNKS = 7; /* how many chunks of 16 inputs one warp has */
constexpr int ALL_CHUNKS = MATRIX * CHUNKS, INPUTS = 16 * ALL_CHUNKS;
constexpr int CLASSES = 16; /* the most classes: each of 4 lanes has two pairs of classes */
constexpr int FIRST_STAMP = TILES_FIRST_STAMP; /* has phase 1; zeroed memory has phase 0 */

/* Powers of two that keep fp16 terms in range if weights are below 256, activations below 1023 and
   gradients below 1. A byte read as fp16 bits is the byte times 2^-24. */
constexpr float W_SCALE = 256, H_SCALE = 64, DZ_SCALE = 65536, PIXEL = 16777216;

/* The named barriers of a block. A barrier opens when a fixed number of threads have arrived or
   wait, so every warp named here takes part in every step. */
enum Barrier {
  DZ_READY = 1, /* chain tells helper: the step's dZ is in shared memory */
  GO,           /* chain tells other warps: dZ is ready, and they no longer delay the chain */
  LAST_READY,   /* helper tells chain: the last layer's weights are ready for the next step */
  BIASES_READY, /* helper tells chain: biases are ready, and the logits' gradient is read */
  Z_READY,      /* other warps tell chain: their parts of Z are in shared memory */
  Z_TAKEN,      /* chain tells other warps: they may overwrite the parts of Z */
  MATRIX_ONLY,  /* warps that hold W1 meet: all have read the old pixels */
  TERMS_READY   /* all warps meet: the slices' terms are ready for the next step */
};
constexpr int GO_THREADS = 32 * (WARPS - 1), HELPER_THREADS = 32 * (CHAINS + 1);

/* The kernel's argument. Fields named `..._at` are byte offsets in shared memory. */
struct Job {
  int layers, size[LAYERS + 1], classes, batch; /* layers: of weights; size[0]: number of inputs */
  size_t weight[LAYERS + 1], bias[LAYERS + 1];  /* offsets in the flat arrays, from layer 1 on */
  int first_block[LAYERS + 1], tiles[LAYERS + 1], first_tile[LAYERS + 1], all_tiles,
      clusters;          /* arrays by hidden layer, from 1; `clusters`: of the last hidden layer */
  int steps, first_step; /* first_step: number of the launch's first step in its window */
  uint32_t rows, stamp;
  Rule rule;
  float pixel_factor, pixel_offset, k_scale, keep_scale[LAYERS + 1];
  float own, other;      /* target of the label; target of each other class */
  float mean, last_mean; /* 1 / rows of a full step; 1 / rows of the last step */
  FlatArrays flat;
  uint4 *h[LAYERS], *dz[LAYERS], *logits, *gradient; /* mail (tiles_slices.cuh, tiles_head.cuh) */
  int first_row_block;   /* if the head uses mail, blocks from this number on own rows */
  int mail_size[LAYERS]; /* packets in one buffer of H or dZ */
  float4 *slices;        /* float32 hidden weights, if outside shared memory (tiles_slices.cuh) */
  int slice;             /* size of one slice */
  float4 *extra;         /* second moments and averages of W1; NULL if shared memory has them */
  int arrays, kept_at[2][LAYERS], terms_at[2][LAYERS], received_at[LAYERS], head_at[LAYERS],
      parts_at[LAYERS], k_at, extra_at;
  /* tiles_prepare.cu fills the arrays from here on before the launch. */
  const uint8_t *pixels; /* (step, chunk, row, 16) */
  const uint4 *k;        /* (step, next step's row / 8, this step's row / 16, lane) */
  const uint8_t *labels; /* (position in the launch) */
  const uint8_t *keeps;  /* (step, tile of all layers, row): a bit per unit; NULL keeps all */
  const float4 *numbers; /* (step): StepNumbers */
  RowResults results;    /* results of rows, by position in the launch */
};

/* How blocks exchange logits and their gradient. BY_CLUSTERS and BY_MAIL need compute capability
   9.0. BY_MAIL_FROM_80 also uses mail, and runs from 8.0 on. */
enum Way { BY_CLUSTERS, BY_MAIL, BY_MAIL_FROM_80 };

/* The part of a block's shared memory whose size is constant. Arrays that depend on the network
   follow it. ROWS is the rows of a step. SECOND is true if the optimizer keeps a second moment.
   AHEAD is true if Z1 is computed before W1 is known. If FROM_80, there is no copy engine and
   little shared memory, so pixels have one buffer, and hidden weights are in the L2 cache. */
template <int ROWS_, bool SECOND_, Way WAY> struct alignas(128) Shared {
  static constexpr int ROWS = ROWS_;
  static constexpr bool MAIL = WAY != BY_CLUSTERS, FROM_80 = WAY == BY_MAIL_FROM_80;
  static constexpr bool SECOND = SECOND_, AHEAD = ROWS < 128 && !SECOND && !FROM_80;
  /* A step's rows are K_STEPS groups of 16 or N_TILES tiles of 8. A chain warp has OWN tiles. */
  static constexpr int K_STEPS = ROWS / 16, N_TILES = ROWS / 8, OWN = N_TILES < 8 ? 1 : N_TILES / 8;
  static constexpr int BUFFERS = FROM_80 ? 1 : AHEAD ? 3 : 2; /* buffers of pixels */
  static constexpr int TURNS = AHEAD ? 2 : 1; /* buffers of dZ, of H and of the head */
  /* row length: in halves for dz and h, in floats for parts of Z */
  static constexpr int PITCH = ROWS + 8;
  static constexpr bool OVERLAY = ROWS == 128; /* parts of Z overwrite pixels that have been read */
  static constexpr int PIXEL_BYTES = ALL_CHUNKS * 16 * ROWS;
  typedef uint16_t Own[2 * UNITS][PITCH]; /* high terms of each unit's rows, then low terms */
  alignas(16) Own dz[TURNS], h[TURNS];
  alignas(16) uint32_t last[4][UNITS][4]; /* the tile's columns of the last layer: high, low terms
                                             of classes 2 t, 2 t + 1, then of classes 8 + t, 12 +
                                             t */
  alignas(16) float bias[2][UNITS], last_bias[CLASSES];
  alignas(16) uint4 logits[MAIL ? 1 : ROWS / RANKS][RANKS][4]; /* parts of logits of own rows: (row,
                                                                  block, classes of t) */
  uint64_t pixels_came[3], k_came, logits_came, head_came;
};

/* Returns x, but the compiler cannot know that the result is x. So it recomputes values that depend
   on x instead of keeping them in registers from step to step. Code that seldom runs uses this. */
__device__ inline int anew(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

/* A warp's place in the launch, and its access to shared memory. A lane's number is 4 g + t. */
template <class S> struct Ground {
  const Job &job;
  S &s;
  int layer, tile, warp, lane, g, t; /* layer: the tile's hidden layer, from 1 */

  /* Returns a copy whose addresses the compiler must recompute. If it kept them for a whole step,
     it would spill them, and a spilled address comes back from the L2 cache. */
  __device__ __forceinline__ Ground again() const {
    const int l = anew(lane);
    return {job, s, anew(layer), anew(tile), anew(warp), l, l / 4, l % 4};
  }
  template <class T> __device__ T *at(int bytes) const {
    return reinterpret_cast<T *>(reinterpret_cast<unsigned char *>(&s) + bytes);
  }
  /* Returns the offset in the flat arrays of the weight of layer l from unit `from` to unit `to`,
     or -1 if there is no such weight. */
  __device__ long long weight_at(int l, int to, int from) const {
    return to < job.size[l] && from < job.size[l - 1]
               ? (long long)(job.weight[l] + (size_t)to * job.size[l - 1] + from)
               : -1;
  }
  /* Returns the number of lane t's class e (0 to 3). A lane has two pairs of classes. */
  __device__ int class_of(int e) const {
    return e < 2 ? 2 * t + e : 4 * e + t;
  }
  /* Returns the end of this step's segment. Only the first step of a segment is direct. */
  __device__ int end_of_segment(int step) const {
    const int at = job.first_step + step;
    return S::AHEAD ? min(job.steps, step + (int)EPOCH_DIRECT - at % (int)EPOCH_DIRECT) : job.steps;
  }
  __device__ uint8_t *pixels(int step) const {
    return at<uint8_t>(sizeof(S)) + (size_t)(step % S::BUFFERS) * S::PIXEL_BYTES;
  }
  /* Returns a step's parts of Z: (warp, unit, row). */
  __device__ float *parts(int step) const {
    return S::OVERLAY && layer == 1 ? reinterpret_cast<float *>(pixels(step + S::BUFFERS - 1))
                                    : at<float>(job.parts_at[layer]);
  }
  /* Returns the buffer of the logits' gradient. The gradient arrives as (row, classes of t). It is
     kept as (8 rows, term, row), with a high and a low term for each pair of classes. */
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

/* Returns the high terms of two numbers, and sets `low` to their low terms. */
__device__ inline uint32_t split(float a, float b, uint32_t &low) {
  const uint32_t high = pack_fp16(a, b);
  const float2 h = unpack_fp16(high);
  low = pack_fp16(a - h.x, b - h.y);
  return high;
}
/* Widens two of four bytes to 16 bits each. `which` is one of the constants below. */
__device__ inline uint32_t halves(uint32_t bytes, int which) {
  return __byte_perm(bytes, 0, which);
}
constexpr int BYTES_01 = 0x4140, BYTES_23 = 0x4342, BYTES_02 = 0x4240, BYTES_13 = 0x4341;
constexpr uint32_t ONES = 0x3c003c00;

/* Returns the lane's ldmatrix address, to load the tile's own terms as the left operand. Rows 0 to
   7 of the operand are the units' high terms; rows 8 to 15 are their low terms. */
template <class Own> __device__ inline uint32_t own_at(const Own &own) {
  const int lane = threadIdx.x % 32;
  return shared_address(&own[lane % 16][lane / 16 * 8]);
}

/* Adds the four products of two numbers with two terms each. `high` has the products with the right
   operand's high terms, `low` with its low terms. In both, element e comes from the left operand's
   high terms, element e + 2 from its low terms. High times low and low times high are added first.
   So swapped operands give the same sum, and a hidden weight's copies stay equal. */
__device__ inline float add_terms(const float (&high)[4], const float (&low)[4], int e) {
  return (high[e] + (high[e + 2] + low[e])) + low[e + 2];
}

} // namespace tiles
