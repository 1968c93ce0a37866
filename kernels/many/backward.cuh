/* A step's second half: from the gradient of the logits to new weights. */
#pragma once

#include "many/forward.cuh"

namespace many {

/* A thread's weights of W1 and the first HELD of their momenta. The thread has five units. In each
   of three k-steps it has their weights for inputs 2 g and 2 g + 1. */
struct OwnW1 {
  float w[TILE], v[HELD];
};

/* Sends dZ3 and H2, starts to copy the next step's rows, loads W3, then receives dZ3 and H2. */
__device__ inline void exchange_heads(const Job &job, Shared &s, int step, int turn,
                                      uint32_t (&w3)[4][4]) {
  const Lanes l = lanes();
  const int rank = cluster_rank(), to = (l.warp + rank) % BLOCKS;
  if (l.lane == 0 && to != rank)
    copy_to_block(&s.heads[rank], &s.head, sizeof(Head), &s.came[HEADS], to);
  if (l.lane == 1 && to != rank)
    copy_to_block(s.h2_in[rank], s.h2_out[to], sizeof(OwnH2), &s.came[HEADS], to);
  if (l.w == 1 && l.lane == 0 && step + 1 < job.steps)
    copy_row(job, s, step + 1, turn ^ 1, l.group); /* safe: no block still reads pixels[turn ^ 1] */
  unrolled (n, 4) {
    const uint32_t *p = s.w3[step % 2][min(32 * l.group + 8 * n + l.g, HIDDEN2)] + 2 * l.q;
    const uint2 x = *(const uint2 *)p, y = l.q < 2 ? *(const uint2 *)(p + 8) : uint2{0, 0};
    w3[n][0] = __byte_perm(x.x, x.y, 0x5410), w3[n][2] = __byte_perm(x.x, x.y, 0x7632);
    w3[n][1] = __byte_perm(y.x, y.y, 0x5410), w3[n][3] = __byte_perm(y.x, y.y, 0x7632);
  }
  receive(s, HEADS, turn, l.thread);
}

/* Terms of dZ2 (64, 100) = dZ3 W3. dZ2 is 0 where H2 is 0. A warp has 16 rows x 32 columns. */
struct Dz2 {
  uint32_t high[2][4], low[2][4];
};
__device__ inline void make_dz2(const Shared &s, const Lanes &l, const uint32_t (&w3)[4][4],
                                Dz2 &dz2) {
  /* `head` has row g of the warp's 16 rows, `head_8` has row g + 8 */
  const Head &head = s.heads[4 * l.w + l.g / 4], &head_8 = (&head)[2];
  const uint32_t *r = (const uint32_t *)head.dz3[l.g % 4] + l.q,
                 *r_8 = (const uint32_t *)head_8.dz3[l.g % 4] + l.q;
  const uint32_t dz_high[4] = {r[0], r_8[0], r[4], r_8[4]},
                 dz_low[4] = {r[8], r_8[8], r[12], r_8[12]},
                 mask[2] = {head.mask[l.g % 4][l.group] >> 2 * l.q,
                            head_8.mask[l.g % 4][l.group] >> 2 * l.q};
  unrolled (n, 4) {
    uint32_t *high = dz2.high[n / 2] + n % 2 * 2, *low = dz2.low[n / 2] + n % 2 * 2;
    high[0] = high[1] = low[0] = low[1] = 0;
    if (32 * l.group + 8 * n >= HIDDEN2) continue;
    float d[4] = {};
    mma_m16n8k16_fp16(d, dz_high, w3[n][0], w3[n][1]);
    mma_m16n8k16_fp16(d, dz_low, w3[n][0], w3[n][1]);
    mma_m16n8k16_fp16(d, dz_high, w3[n][2], w3[n][3]);
    unrolled (i, 4)
      d[i] = mask[i / 2] >> (8 * n + i % 2) & 1 ? d[i] * (DZ2_SCALE / (DZ3_SCALE * W3_SCALE)) : 0;
    unrolled (i, 2) high[i] = split<(int)LOW>(d[2 * i], d[2 * i + 1], low[i]);
  }
}

/* Computes dZ1 (64, 20) = dZ2 (64, 100) W2, summed over the warpgroup's 32 columns of dZ2. */
__device__ inline void multiply_dz2(Shared &s, const Lanes &l, const Dz2 &dz2) {
  const uint64_t w2 = operand(shared_address(s.w2 + 4 * l.group * W2_STEP), W2_STEP, MATRIX);
  constexpr int NEXT = 2 * W2_STEP / 16, TERM = W2_LOW / 16;
  float d[12];
  start_multiplying();
  multiply_24(d, dz2.low[0], w2, false);
  if (l.group < 3) multiply_24(d, dz2.low[1], w2 + NEXT, true);
  close_group();
  wait_for_groups<0>();
  unrolled (i, 12) d[i] /= LOW;
  start_multiplying();
  multiply_24(d, dz2.high[0], w2, true);
  multiply_24(d, dz2.high[0], w2 + TERM, true);
  if (l.group < 3) multiply_24(d, dz2.high[1], w2 + NEXT, true);
  if (l.group < 3) multiply_24(d, dz2.high[1], w2 + NEXT + TERM, true);
  close_group();
  wait_for_groups<0>();
  unrolled (n, 3)
    unrolled (i, 2)
      if (n < 2 || l.q < 2)
        *(float2 *)&s.dz1[l.group][16 * l.w + l.g + 8 * i][8 * n + 2 * l.q] = {
            d[4 * n + 2 * i], d[4 * n + 2 * i + 1]};
}

/* Computes dW2 (100, 20) = dZ2^T H1 and db2, summed over the warp's 16 rows of the batch. A pass of
   the loop handles 16 columns of dZ2. */
__device__ inline void multiply_by_h1(Shared &s, const Lanes &l, const Dz2 &dz2) {
  const uint32_t h1 = h1_at(s, l);
  unrolled (i, 2) {
    if (32 * l.group + 16 * i >= HIDDEN2) continue;
    uint32_t a[4], a_low[4], h[4], last[4];
    unrolled (k, 4) {
      a[k] = transpose_8x8(dz2.high[i][k % 2 * 2 + k / 2]);
      a_low[k] = transpose_8x8(dz2.low[i][k % 2 * 2 + k / 2]);
    }
    float d[3][4] = {};
    ldmatrix_x4_trans(h, h1);
    ldmatrix_x4_trans(last, h1 + 32 + l.lane / 16 * 32);
    mma_m16n8k16_fp16(d[0], a_low, h[0], h[1]);
    mma_m16n8k16_fp16(d[1], a_low, h[2], h[3]);
    mma_m16n8k16_fp16(d[2], a_low, last[0], last[1]);
    unrolled (k, 12) d[k / 4][k % 4] /= LOW;
    mma_m16n8k16_fp16(d[0], a, h[0], h[1]);
    mma_m16n8k16_fp16(d[1], a, h[2], h[3]);
    mma_m16n8k16_fp16(d[2], a, last[0], last[1]);
    mma_m16n8k16_fp16(d[2], a, last[2], last[3]);
    ldmatrix_x4_trans(h, h1 + H1_LOW);
    mma_m16n8k16_fp16(d[0], a, h[0], h[1]);
    mma_m16n8k16_fp16(d[1], a, h[2], h[3]);
    unrolled (half, 2) {
      const int column = 32 * l.group + 16 * i + 8 * half + l.g;
      if (column >= HIDDEN2) continue;
      unrolled (n, 3) {
        const float x = d[n][2 * half], y = d[n][2 * half + 1];
        if (n < 2 || l.q < 2)
          *(float2 *)&s.dw2[l.w][column][8 * n + 2 * l.q] = {x, y};
        else if (l.q == 2)
          s.db2[l.w][column] = x;
      }
    }
  }
}

/* Computes dW3 (10, 7) = dZ3^T H2 and db3, summed over the warp's 16 rows of the batch. */
__device__ inline void multiply_by_h2(Shared &s, const Lanes &l) {
  const int row = 16 * l.w + l.lane / 16 * 8 + l.lane % 8;
  const uint32_t dz3 = shared_address(s.heads[row / 4].dz3[row % 4]) + l.lane / 8 % 2 * 16;
  uint32_t high[4], low[4], h[2], h_low[2];
  ldmatrix_x4_trans(high, dz3);
  ldmatrix_x4_trans(low, dz3 + 32);
  float x[4], d[4] = {};
  unrolled (k, 4) {
    const int r = 16 * l.w + 2 * l.q + k % 2 + 8 * (k / 2);
    x[k] = (l.g == OWN_COLUMNS ? 1 : s.h2_in[r / 4][r % 4][l.g]) * H_SCALE;
  }
  unrolled (k, 2) h[k] = split(x[2 * k], x[2 * k + 1], h_low[k]);
  mma_m16n8k16_fp16(d, high, h[0], h[1]);
  mma_m16n8k16_fp16(d, low, h[0], h[1]);
  mma_m16n8k16_fp16(d, high, h_low[0], h_low[1]);
  *(float4 *)&s.dw3[l.w][4 * l.lane] = {d[0], d[1], d[2], d[3]};
}

/* Returns the address of the thread's weight k if k < 4, else of the momentum of weight k - 4. */
__device__ inline float *w2_of_thread(const Job &job, int thread, int k) {
  return job.w2 + ((size_t)blockIdx.x * 8 + k) * THREADS + thread;
}
__device__ inline void fetch_w2(const Job &job, int thread, float (&w2)[8]) {
  unrolled (k, 8) w2[k] = __ldcg(w2_of_thread(job, thread, k));
}
/* Stores w2 (weights, momenta) in global memory, and the weights' terms in shared memory. */
__device__ inline void store_w2(const Job &job, Shared &s, int thread, const float (&w2)[8]) {
  unrolled (k, 8) __stcg(w2_of_thread(job, thread, k), w2[k]);
  uint8_t *to = w2_at(s, thread / 5, thread % 5 * 4);
  const float w[4] = {w2[0] * W2_SCALE, w2[1] * W2_SCALE, w2[2] * W2_SCALE, w2[3] * W2_SCALE};
  split(w, to, to + W2_LOW);
}

/* Computes each warpgroup's sums for dZ1, and each warp's sums over 16 rows for dW2, db2, dW3 and
   db3. Then fetches the thread's weights of W2 and their momenta. */
__device__ inline void make_parts(const Job &job, Shared &s, const uint32_t (&w3)[4][4],
                                  float (&w2)[8]) {
  const Lanes l = lanes();
  Dz2 dz2;
  make_dz2(s, l, w3, dz2);
  multiply_dz2(s, l, dz2);
  multiply_by_h1(s, l, dz2);
  if (l.group == 3) multiply_by_h2(s, l);
  fetch_w2(job, l.thread, w2);
}

/* Computes dZ1 as terms. A thread computes four units of a row. */
__device__ inline void make_dz1(Shared &s, const Lanes &l, float mean) {
  const int row = l.thread / 5, u = l.thread % 5;
  const Quad d = add_parts(&s.dz1[0][0][0] + 4 * l.thread, ROWS * UNITS);
  const uint2 h = *(const uint2 *)(s.h1 + row * H1_PITCH + 8 * u);
  const float by = DZ1_SCALE / (DZ2_SCALE * W2_SCALE) * (256.0f / 255) * mean;
  const float z[4] = {h.x & 0xffff ? d.value[0] * by : 0, h.x >> 16 ? d.value[1] * by : 0,
                      h.y & 0xffff ? d.value[2] * by : 0, h.y >> 16 ? d.value[3] * by : 0};
  uint8_t *to = s.dz1_terms + row / 8 * DZ1_HALF + row % 8 * 16;
  if (u < 4) {
    to += u / 2 * 2 * MATRIX + u % 2 * 8;
    split<(int)LOW>(z, to, to + MATRIX);
  } else {
    *(uint4 *)(to + 4 * MATRIX) = {split<(int)LOW>(z[0]), split<(int)LOW>(z[1]),
                                   split<(int)LOW>(z[2]), split<(int)LOW>(z[3])};
  }
}

/* Applies optimizer.h's rule `sgd` with gradient `by` * g. The weight decays only if DECAYS is
   true. The terms of v are added in this kernel's own order, on which its bits depend. Networks
   with another optimizer do not train here (engine_cuda_choose.c). */
template <bool DECAYS>
__device__ inline void learn(const Job &job, float &w, float &v, float g, float by,
                             float decay = 0) {
  const float kept = job.rule.momentum * v;
  v = fmaf(g, by, DECAYS ? fmaf(decay, w, kept) : kept);
  w = fmaf(-job.learning_rate, v, w);
}

/* Updates the thread's four weights of W2, which are in one row. */
__device__ inline void update_w2(const Job &job, Shared &s, const Lanes &l, float mean,
                                 float (&w2)[8]) {
  const Quad g = add_parts(&s.dw2[0][0][0] + 4 * l.thread, HIDDEN2 * UNITS);
  unrolled (k, 4)
    learn<true>(job, w2[k], w2[4 + k], g.value[k], mean / (DZ2_SCALE * H_SCALE),
                job.rule.weight_decay);
  store_w2(job, s, l.thread, w2);
}

/* Stores a bias of b2 as a weight of the first block's unit 20, whose value is always 1. */
__device__ inline void store_b2(Shared &s, int column) {
  const uint32_t terms = split(s.b2[0][column] * W2_SCALE);
  uint16_t *to = (uint16_t *)w2_at(s, column, UNITS);
  to[0] = terms, to[W2_LOW / 2] = terms >> 16;
}
__device__ inline void update_b2(const Job &job, Shared &s, int column, float mean) {
  const float g = (s.db2[0][column] + s.db2[1][column]) + (s.db2[2][column] + s.db2[3][column]);
  learn<false>(job, s.b2[0][column], s.b2[1][column], g, mean / (DZ2_SCALE * H_SCALE));
  store_b2(s, column);
}

/* Updates the block's columns of W3, and the block's copy of b3. */
__device__ inline void update_w3(const Job &job, Shared &s, const Lanes &l, int step, float mean) {
  const int first = OWN_COLUMNS * cluster_rank();
  const Quad g = add_parts(s.dw3[0] + 4 * l.lane, GROUP);
  unrolled (k, 4) {
    const int class_ = l.g + 8 * (k / 2), slot = 2 * l.q + k % 2, column = first + slot;
    if (class_ >= CLASSES) continue;
    float &w = s.own_w3[0][class_][slot];
    const float decay = slot == OWN_COLUMNS ? 0 : job.rule.weight_decay;
    learn<true>(job, w, s.own_w3[1][class_][slot], g.value[k], mean / (DZ3_SCALE * H_SCALE), decay);
    const uint32_t terms = split(w * W3_SCALE);
    if (slot == OWN_COLUMNS) {
      s.b3[class_] = w;
    } else {
      s.w3_out[slot][class_] = terms;
      if (column < HIDDEN2) s.w3[(step + 1) % 2][column][class_] = terms;
    }
  }
}

/* Adds up the partial sums of make_parts(), makes dZ1, and updates W2, b2, W3 and b3. */
__device__ inline void update_upper(const Job &job, Shared &s, int step, float (&w2)[8]) {
  const Lanes l = lanes();
  const float mean = step == job.short_step ? job.last_mean : job.mean;
  if (l.thread < ROWS * UNITS / 4) make_dz1(s, l, mean);
  if (l.thread < HIDDEN2 * UNITS / 4) update_w2(job, s, l, mean, w2);
  if (l.thread >= 320 && l.thread < 320 + HIDDEN2 && cluster_rank() == 0)
    update_b2(job, s, l.thread - 320, mean);
  if (l.warp == 15) update_w3(job, s, l, step, mean);
  shared_is_written();
}

/* The same rule for the scaled weights of W1. `rate` and `decay` include the scales. */
struct ScaledRule {
  float momentum, rate, decay;
  __device__ void update(float &w, float &v, float g) const {
    v = fmaf(decay, w, fmaf(momentum, v, g));
    w = fmaf(rate, v, w);
  }
};

/* Computes dW1 (20, 784) = dZ1^T pixels and updates W1. A warpgroup updates 64 inputs at a time. */
__device__ inline void update_w1(Shared &s, int turn, OwnW1 &own, const ScaledRule &rule,
                                 const Lanes &l) {
  const uint64_t dz1 = operand(shared_address(s.dz1_terms), DZ1_HALF, MATRIX);
  const uint32_t x = shared_address(s.pixels[turn]) + l.lane * INPUTS + 192 * l.group + 16 * l.w;
  unrolled (n, 3) {
    const int tile = (n + 2) % 3; /* tile 2 is first; its momenta are in shared memory */
    float d[20];
    unrolled_by (k, 4, 2) {
      uint32_t p[4];
      ldmatrix_x4_trans(p, x + 64 * tile + 16 * k * INPUTS);
      start_multiplying();
      unrolled (i, 2) {
        const uint32_t a[4] = {halves(p[2 * i], BYTES_02), halves(p[2 * i], BYTES_13),
                               halves(p[2 * i + 1], BYTES_02), halves(p[2 * i + 1], BYTES_13)};
        multiply_40(d, a, dz1 + (k + i) * (DZ1_STEP / 16), k + i > 0);
      }
      close_group();
      wait_for_groups<0>();
    }
    unrolled (i, 2) {
      const float *e = d + 2 * i;
      const float g[5] = {fmaf(e[4], 1 / LOW, e[0]), fmaf(e[5], 1 / LOW, e[1]),
                          fmaf(e[12], 1 / LOW, e[8]), fmaf(e[13], 1 / LOW, e[9]),
                          fmaf(e[17], 1 / LOW, e[16])};
      float *w = own.w + 10 * tile + 5 * i;
      unrolled (k, 5) {
        const int at = 10 * tile + 5 * i + k;
        if (at < HELD)
          rule.update(w[k], own.v[at], g[k]);
        else
          rule.update(w[k], s.momentum[at - HELD][l.thread], g[k]);
      }
      store_w1(w1_at(s, l, 12 * l.group + l.w + 4 * tile) + 16 * i, w);
    }
  }
}

/* The units that warp `part` (0, 1 or 2) of three has in products with dZ1. Warps 0 and 1 have 8
   units, with one matrix per term, and a lane has two of them. Warp 2 has units 16 to 19, with both
   terms in one matrix, and a lane has one of them. */
struct SomeUnits {
  int part, count, first;
  __device__ explicit SomeUnits(const Lanes &l) : part(l.warp % 4), count(part < 2 ? 2 : 1) {
    first = part < 2 ? 8 * part + 2 * l.q : 16 + l.q;
  }
};

/* Multiplies a left operand by dZ1, over the 64 rows. load(k, a) loads the operand's rows 16 k to
   16 k + 15. g[i][k] becomes the product of the operand's line l.g + 8 i and unit first + k. */
template <class Load>
__device__ inline void multiply_dz1(Shared &s, const SomeUnits &units, const Lanes &l,
                                    const Load &load, float (&g)[2][2]) {
  const int matrix = units.part < 2 ? 2 * units.part + l.lane / 16 : 4;
  float d[2][4] = {};
  unrolled (k, 4) {
    uint32_t a[4], b[4];
    load(k, a);
    ldmatrix_x4_trans(b, shared_address(s.dz1_terms) + k * DZ1_STEP + l.lane / 8 % 2 * DZ1_HALF +
                             matrix * MATRIX + l.lane % 8 * 16);
    mma_m16n8k16_fp16(d[0], a, b[0], b[1]);
    mma_m16n8k16_fp16(d[1], a, b[2], b[3]);
  }
  unrolled (i, 2) {
    const float *high = d[0] + 2 * i, *low = d[1] + 2 * i;
    g[i][0] = fmaf(units.part < 2 ? low[0] : high[1], 1 / LOW, high[0]);
    g[i][1] = fmaf(low[1], 1 / LOW, high[1]);
  }
}

/* Updates W1 for the last 16 inputs: a lane has inputs 2 l.g and 2 l.g + 1 of these. */
__device__ inline void update_last_w1(Shared &s, int turn, const ScaledRule &rule, const Lanes &l) {
  const SomeUnits units(l);
  const uint32_t x = shared_address(s.pixels[turn]) + l.lane * INPUTS + LAST_INPUTS;
  uint32_t p[2][4];
  float g[2][2];
  unrolled (i, 2) ldmatrix_x4_trans(p[i], x + 32 * i * INPUTS);
  const auto pixels = [&](int k, uint32_t(&a)[4]) {
    const uint32_t y = p[k / 2][2 * (k % 2)], z = p[k / 2][2 * (k % 2) + 1];
    a[0] = halves(y, BYTES_02), a[1] = halves(y, BYTES_13);
    a[2] = halves(z, BYTES_02), a[3] = halves(z, BYTES_13);
  };
  multiply_dz1(s, units, l, pixels, g);
  unrolled (i, 2) {
    float w[2];
    unrolled (k, 2) {
      if (k >= units.count) continue;
      float &at = s.last_w1[0][2 * l.g + i][units.first + k];
      rule.update(at, s.last_w1[1][2 * l.g + i][units.first + k], g[i][k]);
      w[k] = at;
    }
    uint8_t *to = w1_at(s, l, K_STEPS - 1) + 16 * i + 2 * units.part * MATRIX;
    if (units.part < 2)
      *(uint32_t *)to = split(w[0], w[1], *(uint32_t *)(to + MATRIX));
    else
      *(uint32_t *)to = split(w[0]);
  }
}

/* Updates b1. Its gradient is the sum of dZ1 over the rows: a product with lines of ones, of which
   only the first is used. */
__device__ inline void update_b1(const Job &job, Shared &s, const Lanes &l) {
  const SomeUnits units(l);
  float g[2][2];
  const auto ones = [](int, uint32_t(&a)[4]) {
    unrolled (i, 4) a[i] = 0x3c003c00;
  };
  multiply_dz1(s, units, l, ones, g);
  if (l.g > 0) return;
  unrolled (k, 2)
    if (k < units.count)
      learn<false>(job, s.b1[0][units.first + k], s.b1[1][units.first + k], g[0][k],
                   255.0f / 256 / DZ1_SCALE);
}

__device__ inline void update_first(const Job &job, Shared &s, int turn, OwnW1 &own) {
  const Lanes l = lanes();
  const ScaledRule rule = {job.rule.momentum, -job.learning_rate * GRADIENT,
                           job.rule.weight_decay / GRADIENT};
  update_w1(s, turn, own, rule, l);
  if (l.warp < 3) update_last_w1(s, turn, rule, l);
  if (l.warp >= 4 && l.warp < 7) update_b1(job, s, l);
  shared_is_written();
  sync_group(l.group); /* make_z1() reads weights that the warpgroup's other warps updated */
}

} // namespace many
