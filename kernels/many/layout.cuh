/* Where a block keeps its part of a network, and what blocks exchange. Read many.cu first. */
#pragma once

#include "batch.cuh"
#include "fp16_split.cuh"
#include "layer/hopper.cuh"

namespace many {

constexpr int BLOCKS = 16; /* blocks of the cluster that trains the network */
constexpr int GROUPS = 4, GROUP = 128, THREADS = GROUPS * GROUP; /* GROUP: threads of a warpgroup */
constexpr int ROWS = 64, INPUTS = 784, HIDDEN2 = 100, CLASSES = 10;
constexpr int UNITS = 20; /* a block's units of hidden layer 1; unit 20 is a constant 1, for b2 */
constexpr int OWN_ROWS = ROWS / BLOCKS, OWN_COLUMNS = 7; /* OWN_COLUMNS: a block's columns of W3 */
constexpr int K_STEPS = INPUTS / 16, LAST_INPUTS = INPUTS - 16;
constexpr int HELD = 18, TILE = 30; /* TILE: a thread's weights of W1; HELD: how many of their
                                       momenta are in registers */

/* Powers of two that keep terms within fp16's range. */
constexpr float W1_SCALE = 256, H_SCALE = 64, W2_SCALE = 64, W3_SCALE = 4;
constexpr float DZ3_SCALE = 256, DZ2_SCALE = 1024, DZ1_SCALE = 16384;
constexpr float LOW = 2048;       /* low terms of gradients are multiplied by LOW */
constexpr float PIXEL = 16777216; /* a half whose bits are the byte b has the value b / PIXEL */
/* A sum in update_w1() times GRADIENT is the gradient times W1_SCALE. */
constexpr float GRADIENT = PIXEL * W1_SCALE / (256 * DZ1_SCALE);
constexpr uint16_t HALF_64 = 0x5400; /* H_SCALE as a half */
constexpr float FP16_END = 65520;    /* numbers of this size or larger become infinity in fp16 */

/* The layout of terms, in bytes. W1: a k-step (16 inputs) is two halves. A half is five matrices of
   8 x 8: high terms of units 0 to 7, their low terms, high terms of units 8 to 15, their low terms,
   both terms of units 16 to 19. W2: eight rows are three matrices of high terms, then three of low
   terms. H1: a row has 24 high terms, 24 low terms and a gap against bank conflicts. */
constexpr int MATRIX = 128, W1_HALF = 5 * MATRIX + 16, W1_STEP = 2 * W1_HALF - 16;
constexpr int W2_LOW = 3 * MATRIX, W2_STEP = 2 * W2_LOW, W2_STEPS = 14, H1_LOW = 48, H1_PITCH = 112;
constexpr int DZ1_HALF = 5 * MATRIX, DZ1_STEP = 2 * DZ1_HALF; /* DZ1_STEP: 16 rows */

/* In exchange 2 a block sends a Head of its own four rows to every other block. A Head has dZ3 as
   high and low terms, and a mask of the units of H2 that are above 0. */
struct Head {
  uint16_t dz3[OWN_ROWS][40];
  uint32_t mask[OWN_ROWS][GROUPS];
};
typedef float OwnH2[OWN_ROWS][OWN_COLUMNS];           /* H2: four rows, one block's columns */
typedef uint32_t TermsOfW3[HIDDEN2 + 1][CLASSES + 2]; /* (column, class); column HIDDEN2 is 0 */
typedef float Z2[OWN_ROWS][HIDDEN2];

/* The kernel's argument. `rows` and the results begin with the launch's first step. */
struct Job : ManyJob {
  int steps, short_step; /* short_step: the last step if it is shorter than a batch, else -1 */
  float mean, last_mean; /* mean: 1 / batch; last_mean: 1 / (rows of the last step) */
  float *w2;      /* (BLOCKS, 8, THREADS): four weights of W2 per thread, then their momenta */
  uint32_t *rows; /* (steps, ROWS), written by pack_kernel() */
};
__device__ inline const uint32_t *rows_of(const Job &job, int step) {
  return job.rows + step * ROWS + OWN_ROWS * cluster_rank();
}

alignas(16) __device__ const uint8_t zeros[INPUTS] = {};

enum Exchange { PIXELS, PARTS_OF_Z2, HEADS, NEW_W3 };

struct alignas(128) Shared {
  uint8_t pixels[2][ROWS * INPUTS]; /* one buffer has a step's pixels, the other has sums for Z1 */
  union {
    uint8_t w1[K_STEPS * W1_STEP]; /* terms of W1; unused between make_z1() and update_first() */
    struct {
      Z2 z2_in[BLOCKS], z2_out[BLOCKS];
      float logits[OWN_ROWS][GROUPS][CLASSES];
    };
    struct { /* partial sums, which update_upper() adds up */
      float dz1[GROUPS][ROWS][UNITS], dw2[4][HIDDEN2][UNITS], db2[4][HIDDEN2], dw3[4][GROUP];
    };
  };
  float momentum[TILE - HELD][THREADS]; /* momenta of W1 */
  uint8_t h1[ROWS * H1_PITCH], w2[W2_STEPS * W2_STEP];
  union {
    Head heads[BLOCKS];
    uint8_t dz1_terms[4 * DZ1_STEP];
  };
  OwnH2 h2_in[BLOCKS];
  Head head;
  OwnH2 h2_out[BLOCKS];
  TermsOfW3 w3[2]; /* [step % 2]: W3 in this step; the other one: W3 in the next step */
  uint32_t w3_out[OWN_COLUMNS][CLASSES + 2];
  float own_w3[2][CLASSES][OWN_COLUMNS + 1]; /* [0]: weights, [1]: momenta; last column: b3 */
  float last_w1[2][16][UNITS], b1[2][UNITS], b2[2][HIDDEN2], b3[CLASSES + 2];
  uint32_t rows[4][OWN_ROWS]; /* [step % 4]: dataset row and label of each of the block's rows */
  uint64_t came[4];           /* the barrier of each Exchange */
  int overflowed;
};
static_assert(sizeof(Shared) <= 232448, "what a block of compute capability 9.0 may have");

/* ---- threads -------------------------------------------------------------------------------- */

/* A thread's place: lane 4 g + q of warp `w` of warpgroup `group`. Where PTX describes operands of
   tensor cores, g is called groupID and q is called threadID_in_group. */
struct Lanes {
  int thread, lane, warp, group, w, g, q;
};

/* Returns this thread's place. Each phase of a step calls lanes() again. Otherwise the compiler
   would keep the addresses of all phases in registers. */
__device__ inline Lanes lanes() {
  int t = threadIdx.x;
  asm volatile("" : "+r"(t));
  const int warp = __shfl_sync(FULL_WARP, t / 32, 0), lane = t % 32;
  return {t, lane, warp, warp / 4, warp % 4, lane / 4, lane % 4};
}

__device__ inline void sync_group(int group) {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"(GROUP) : "memory");
}

/* Sets s.overflowed if a number is a NaN or its magnitude is `end` or more. */
template <class... Floats> __device__ inline void watch(Shared &s, float end, Floats... x) {
  if (!(... && (fabsf(x) < end))) s.overflowed = 1;
}

/* ---- exchanges ------------------------------------------------------------------------------ */

/* Returns how many bytes of W3 a block sends. The last has no columns; it sends 16 zero bytes. */
__device__ inline int w3_bytes(int rank) {
  if (rank < 14) return sizeof(Shared::w3_out);
  return rank == 14 ? 2 * sizeof(Shared::w3[0][0]) : 16;
}

/* Tells an exchange's barrier how many bytes will arrive. Pixels come from all blocks, including
   this block. Everything else comes from the 15 other blocks. */
__device__ inline void expect(Shared &s, Exchange what) {
  const int from_one = what == PARTS_OF_Z2 ? sizeof(Z2) : sizeof(Head) + sizeof(OwnH2);
  const int w3 = 14 * w3_bytes(0) + w3_bytes(14) + w3_bytes(15);
  int bytes = (BLOCKS - 1) * from_one;
  if (what == PIXELS) bytes = ROWS * INPUTS;
  if (what == NEW_W3) bytes = w3 - w3_bytes(cluster_rank());
  barrier_expect(&s.came[what], bytes);
}

/* Waits for all bytes of an exchange, and prepares the exchange's barrier for the next step. */
__device__ inline void receive(Shared &s, Exchange what, int turn, int thread) {
  barrier_wait(&s.came[what], turn);
  if (thread == 0) expect(s, what);
}

/* ---- terms ---------------------------------------------------------------------------------- */

/* Returns the address of the thread's terms of W1 for inputs 2 g and 2 g + 1 of a k-step. */
__device__ inline uint8_t *w1_at(Shared &s, const Lanes &l, int step) {
  return s.w1 + step * W1_STEP + l.g % 2 * W1_HALF + l.g / 2 * 32 + l.q * 4;
}
/* Stores terms of W1 for one input and units 2 q, 2 q + 1, 2 q + 8, 2 q + 9 and 16 + q. */
__device__ inline void store_w1(uint8_t *at, const float *w) {
  unrolled (k, 2)
    *(uint32_t *)(at + 2 * k * MATRIX) =
        split(w[2 * k], w[2 * k + 1], *(uint32_t *)(at + (2 * k + 1) * MATRIX));
  *(uint32_t *)(at + 4 * MATRIX) = split(w[4]);
}
__device__ inline uint8_t *w2_at(Shared &s, int column, int unit) {
  return s.w2 + column / 8 * W2_STEP + unit / 8 * MATRIX + column % 8 * 16 + unit % 8 * 2;
}

/* Returns the sum of four Quads that lie `stride` floats apart. */
__device__ inline Quad add_parts(const float *at, int stride) {
  Quad sum, part[4];
  unrolled (i, 4) part[i] = load_quad(at + i * stride);
  unrolled (k, 4)
    sum.value[k] = (part[0].value[k] + part[1].value[k]) + (part[2].value[k] + part[3].value[k]);
  return sum;
}

} // namespace many
