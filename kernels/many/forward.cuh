/* A step's first half: from pixels to the gradient of the logits. */
#pragma once

#include "many/layout.cuh"

namespace many {

constexpr uint32_t ROW_BITS = 28, ROW_MASK = (1u << ROW_BITS) - 1, NO_LABEL = 15;

/* Starts to copy the warpgroup's row of pixels to all blocks. Pads the row with zeros. */
__device__ inline void copy_row(const Job &job, Shared &s, int step, int turn, int group) {
  const int stride = (int)job.stride;
  uint8_t *to = s.pixels[turn] + (OWN_ROWS * cluster_rank() + group) * INPUTS;
  const size_t row = s.rows[step % 4][group] & ROW_MASK;
  copy_to_all(to, job.d_pixels + row * job.stride, stride, &s.came[PIXELS]);
  if (stride < INPUTS) copy_to_all(to + stride, zeros, INPUTS - stride, &s.came[PIXELS]);
}

/* Returns where the warpgroups store their sums for Z1: the buffer of pixels that is not in use. */
__device__ inline float *sums_of_z1(Shared &s, int turn) {
  return reinterpret_cast<float *>(s.pixels[turn ^ 1]);
}

/* Computes Z1 (64, 20) = pixels (64, 784) W1^T for the block's 20 units. Each warpgroup sums over
   192 inputs. Warpgroup 0 also adds the last 16. Thread 64 fetches the row numbers of step + 2. */
__device__ inline void make_z1(const Job &job, Shared &s, int step, int turn) {
  const Lanes l = lanes();
  if (l.thread == 64) {
    if (step + 2 < job.steps)
      copy_16_bytes(shared_address(s.rows[(step + 2) % 4]), rows_of(job, step + 2), 16);
    close_copies();
    await_groups<1>();
  }
  receive(s, PIXELS, turn, l.thread);
  const uint32_t row = shared_address(s.pixels[turn]) + (16 * l.w + l.lane % 16) * INPUTS,
                 x = row + 192 * l.group + l.lane / 16 * 16;
  const uint64_t w1 = operand(shared_address(s.w1 + 12 * l.group * W1_STEP), W1_HALF, MATRIX);
  uint32_t a[4][4], p[4];
  float z[20];
  const auto spread = [&](int k, const uint32_t *p) {
    a[k][0] = halves(p[0], BYTES_01), a[k][1] = halves(p[1], BYTES_01);
    a[k][2] = halves(p[0], BYTES_23), a[k][3] = halves(p[1], BYTES_23);
  };
  unrolled_by (k, 12, 4) {
    unrolled_by (i, 4, 2) {
      ldmatrix_x4(p, x + 16 * (k + i));
      spread(i, p), spread(i + 1, p + 2);
    }
    start_multiplying();
    unrolled (i, 4) multiply_40(z, a[i], w1 + (k + i) * (W1_STEP / 16), k + i > 0);
    close_group();
    if (k < 8) wait_for_groups<1>();
  }
  if (l.group == 0) {
    ldmatrix_x4(p, row + LAST_INPUTS); /* p[2] and p[3] repeat p[0] and p[1] */
    spread(0, p);
    start_multiplying();
    multiply_40(z, a[0], w1 + (K_STEPS - 1) * (W1_STEP / 16), true);
    close_group();
  }
  wait_for_groups<0>();
  __syncthreads(); /* from here on pixels[turn ^ 1] is free, and W2 and W3 are up to date */
  float *at = sums_of_z1(s, turn) + (l.group * ROWS + 16 * l.w + l.g) * UNITS;
  unrolled (i, 2) {
    float *to = at + 8 * i * UNITS;
    unrolled (k, 2)
      *(float2 *)(to + 8 * k + 2 * l.q) = {z[8 * k + 2 * i] + z[8 * k + 4 + 2 * i],
                                           z[8 * k + 2 * i + 1] + z[8 * k + 5 + 2 * i]};
    to[16 + l.q] = z[16 + 2 * i] + z[17 + 2 * i];
  }
}

/* Computes H1 (64, 20) = ReLU(Z1 + b1) as terms. In ten warps a thread computes four units of a
   row. The other six warps send new columns of W3. A block that has these may send parts of Z2. */
__device__ inline void make_h1(Shared &s, int step, int turn) {
  const Lanes l = lanes();
  if (l.thread < ROWS * UNITS / 4) {
    const int row = l.thread / 5, u = l.thread % 5 * 4;
    const Quad z = add_parts(sums_of_z1(s, turn) + 4 * l.thread, ROWS * UNITS),
               b = load_quad(s.b1[0] + u);
    constexpr float BY = PIXEL / (255 * W1_SCALE);
    const auto scaled = [&](int k) { return fmaf(z.value[k], BY, b.value[k]) * H_SCALE; };
    const float h[4] = {scaled(0), scaled(1), scaled(2), scaled(3)};
    watch(s, FP16_END, h[0], h[1], h[2], h[3]);
    uint8_t *to = s.h1 + row * H1_PITCH + 2 * u;
    /* ReLU: many_takes() refuses any other activation, as heads send only the signs of H2 */
    const float y[4] = {fmaxf(h[0], 0), fmaxf(h[1], 0), fmaxf(h[2], 0), fmaxf(h[3], 0)};
    split(y, to, to + H1_LOW);
  } else if (l.lane == 0) {
    const int rank = cluster_rank();
    for (int i = l.warp - 9; i < BLOCKS; i += 6)
      copy_to_block(s.w3[step % 2][min(OWN_COLUMNS * rank, HIDDEN2)], s.w3_out, w3_bytes(rank),
                    &s.came[NEW_W3], (rank + i) % BLOCKS);
  }
}

/* Returns the lane's address for an ldmatrix of 16 rows x 16 units of H1. */
__device__ inline uint32_t h1_at(const Shared &s, const Lanes &l) {
  return shared_address(s.h1) + (16 * l.w + l.lane % 16) * H1_PITCH + l.lane / 16 * 16;
}

/* Computes Z2 (64, 100) = H1 (64, 20) W2^T, summed over the block's units. Stores each row for the
   block that finishes this row. A warpgroup computes 32 columns. */
__device__ inline void multiply_h1(Shared &s) {
  const Lanes l = lanes();
  const int rank = cluster_rank();
  uint32_t high[4], low[4], last[4];
  const uint32_t h1 = h1_at(s, l);
  ldmatrix_x4(high, h1);
  ldmatrix_x4(low, h1 + H1_LOW);
  ldmatrix_x4(last, h1 + 32 + l.lane / 16 * 32); /* both terms of units 16 to 23 */
  const uint32_t last_high[4] = {last[0], last[1], last[0], last[1]},
                 last_low[4] = {last[2], last[3], 0, 0};
  float *to[2];
  unrolled (i, 2) {
    const int row = 16 * l.w + l.g + 8 * i, owner = row / OWN_ROWS;
    to[i] = &(owner == rank ? s.z2_in : s.z2_out)[owner][row % OWN_ROWS][32 * l.group + 2 * l.q];
  }
  const uint8_t *w2 = s.w2 + 4 * l.group * W2_STEP; /* the last warpgroup also reads rows beyond
                                                       W2, and drops their sums */
  const uint64_t w_high = operand(shared_address(w2), MATRIX, W2_STEP),
                 w_low = operand(shared_address(w2 + W2_LOW), MATRIX, W2_STEP),
                 w_last = operand(shared_address(w2 + 2 * MATRIX), W2_LOW, W2_STEP);
  float z[16];
  start_multiplying();
  multiply_32(z, high, w_high, false);
  multiply_32(z, low, w_high, true);
  multiply_32(z, high, w_low, true);
  multiply_32(z, last_high, w_last, true);
  multiply_32(z, last_low, w_last, true);
  close_group();
  wait_for_groups<0>();
  unrolled (n, 4)
    unrolled (i, 2)
      if (32 * l.group + 8 * n + 2 * l.q < HIDDEN2)
        *(float2 *)(to[i] + 8 * n) = {z[4 * n + 2 * i], z[4 * n + 2 * i + 1]};
  shared_is_written();
}

/* Sums each of ten numbers over the warp's lanes. Each round halves how many numbers a lane has. */
__device__ inline void add_logits(Shared &s, const Lanes &l, float (&z)[CLASSES]) {
  int n = CLASSES;
#pragma unroll
  for (int o = 16; o >= 2; o /= 2) {
    const int half = (n + 1) / 2;
    const bool up = l.lane & o;
    unrolled (k, half) {
      const float other = half + k < n ? z[half + k] : 0;
      const float sent = up ? z[k] : other;
      z[k] = (up ? other : z[k]) + __shfl_xor_sync(FULL_WARP, sent, o);
    }
    n = half;
  }
  z[0] += __shfl_xor_sync(FULL_WARP, z[0], 1);
  const int of_4 = l.lane / 4 % 2 * 2 + l.lane / 2 % 2, of_8 = 3 * (l.lane / 8 % 2) + of_4;
  if (of_4 < 3 && of_8 < 5 && l.lane % 2 == 0)
    s.logits[l.group][l.w][5 * (l.lane / 16) + of_8] = z[0];
}

/* A warp computes softmax, loss and dZ3 (10) of a row. Lanes k and k + 16 compute class k. */
__device__ inline void finish_row(const Job &job, Shared &s, int step, const Lanes &l, int rank) {
  const int k = l.lane % 16, row = OWN_ROWS * rank + l.group;
  float z = -1e30f;
  if (k < job.shape.classes) {
    const float(*at)[CLASSES] = s.logits[l.group];
    z = ((at[0][k] + at[1][k]) + (at[2][k] + at[3][k])) / W3_SCALE + s.b3[k];
    watch(s, INFINITY, z);
  }
  float most = z;
#pragma unroll
  for (int o = 8; o > 0; o /= 2) most = fmaxf(most, __shfl_xor_sync(FULL_WARP, most, o));
  const float e = k < job.shape.classes ? expf(z - most) : 0;
  float sum = e;
#pragma unroll
  for (int o = 8; o > 0; o /= 2) sum += __shfl_xor_sync(FULL_WARP, sum, o);
  const int label = s.rows[step % 4][l.group] >> ROW_BITS;
  const bool counts = label != NO_LABEL;
  const float dz = counts && k < job.shape.classes ? __fdividef(e, sum) - (k == label) : 0;
  const uint32_t terms = split(dz * DZ3_SCALE);
  if (l.lane < 16) /* an operand has room for 16 classes; unused classes are 0 */
    unrolled (i, 2) {
      uint16_t *to = (i ? s.heads[rank] : s.head).dz3[l.group] + l.lane;
      to[0] = terms & 0xffff, to[16] = terms >> 16;
    }
  const uint32_t largest = __ballot_sync(FULL_WARP, z == most);
  if (!counts || l.lane != label) return;
  const size_t at = (size_t)step * job.shape.batch + row;
  job.results.d_loss[at] = logf(sum) + most - z;
  job.results.d_correct[at] = __ffs(largest) - 1 == label;
}

/* Sends and receives parts of Z2. Then each warpgroup computes H2, logits and dZ3 of one row. */
__device__ inline void make_dz3(const Job &job, Shared &s, int step, int turn) {
  const Lanes l = lanes();
  const int rank = cluster_rank(), c = l.thread % GROUP;
  receive(s, NEW_W3, turn, l.thread); /* a block that has sent W3 has room for parts of Z2 */
  const int to = (l.warp + rank) % BLOCKS;
  if (l.lane == 0 && to != rank)
    copy_to_block(s.z2_in[rank], s.z2_out[to], sizeof(Z2), &s.came[PARTS_OF_Z2], to);
  float z[CLASSES] = {};
  if (c < HIDDEN2) {
    const uint4 *p = (const uint4 *)s.w3[step % 2][c];
    const uint4 a = p[0], b = p[1];
    const uint2 d = *(const uint2 *)(p + 2);
    const uint32_t terms[CLASSES] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, d.x, d.y};
    unrolled (k, CLASSES) {
      const float2 t = unpack_fp16(terms[k]);
      z[k] = t.x + t.y;
    }
  }
  receive(s, PARTS_OF_Z2, turn, l.thread);
  float h = 0;
  if (c < HIDDEN2) {
    float sum[4] = {};
    unrolled (i, BLOCKS) sum[i % 4] += s.z2_in[i][l.group][c];
    h = ((sum[0] + sum[1]) + (sum[2] + sum[3])) / (H_SCALE * W2_SCALE);
    watch(s, FP16_END / H_SCALE, h);
    h = fmaxf(h, 0);
    const int owner = c / OWN_COLUMNS;
    (owner == rank ? s.h2_in : s.h2_out)[owner][l.group][c % OWN_COLUMNS] = h;
  }
  const uint32_t mask = __ballot_sync(FULL_WARP, h > 0);
  if (l.lane == 0) s.head.mask[l.group][l.w] = s.heads[rank].mask[l.group][l.w] = mask;
  unrolled (k, CLASSES) z[k] *= h;
  add_logits(s, l, z);
  sync_group(l.group);
  if (l.w == l.group) finish_row(job, s, step, l, rank);
  shared_is_written();
}

} // namespace many
