/* The matrix blocks of the epoch kernel: W1 and everything done to it. A block has some tiles of 15
   neurons and ten k-steps of 16 inputs each. Every tile has a team of warps, every warp DEPTH
   k-steps, whose weights and momentum stay in registers from the first step of the launch to the
   last. DEPTH is 1, two tiles per block, or 2, four tiles, where there are fewer multiprocessors.

   The rows need Z1 = X W1', W1 being updated by dZ1 of the step before. What is known of W1 before
   that gradient comes is U = W1 - rate (momentum V + decay W1), so X U' is computed and mailed
   while the rows are still busy with the step before. The rest is -rate K dZ1, which the rows add
   themselves (rows.cuh). A direct step waits for the update and mails X W1'. */
#pragma once

#include "bf16_split.cuh"
#include "epoch/layout.cuh"

namespace epoch {

/* A thread's place among the matrix block's teams, one for each tile. */
template <int DEPTH> struct MatrixLane {
  static constexpr int WARPS = MATRIX_WARPS / DEPTH; /* of a team */
  static constexpr int THREADS_OF_TEAM = 32 * WARPS;
  static_assert(THREADS_OF_TEAM * DEPTH == ROWS * TILE_PACKETS, "DEPTH packets for each thread");
  int team, thread, warp; /* thread and warp: of the team */
  int tile;               /* of the group */
  bool has_tile;          /* the group may have fewer */
};

template <int DEPTH>
__device__ inline MatrixLane<DEPTH> matrix_lane(const EpochPlan &plan, const BlockLayout &layout) {
  MatrixLane<DEPTH> lane;
  lane.team = threadIdx.x / lane.THREADS_OF_TEAM;
  lane.thread = threadIdx.x % lane.THREADS_OF_TEAM;
  lane.warp = lane.thread / 32;
  lane.tile = layout.tile + lane.team;
  lane.has_tile = lane.tile < plan.tiles;
  return lane;
}

__device__ inline void matrix_sync() {
  wait<MATRIX>(MATRIX_THREADS);
}

/* The weights of one warp, of each of its k-steps of 16 inputs. Lane 4 g + t holds value e at
   neuron g + 8 (e / 2 % 2), input 2 t + e % 2 + 8 (e / 4). This is the layout of the A operand
   (forward) and also that of two accumulators side by side (gradient), so a weight never leaves its
   register. */
template <int DEPTH> struct Weights { float w[DEPTH][8], v[DEPTH][8]; };

/* Returns the number within the split of k-step k of this warp. */
template <int DEPTH> __device__ inline int k_step(const MatrixLane<DEPTH> &lane, int k) {
  return lane.warp * DEPTH + k;
}

/* Returns the input of value e of this lane's k-step k. */
template <int DEPTH>
__device__ inline int input_of(const BlockLayout &layout, const MatrixLane<DEPTH> &lane, int k,
                               int e) {
  return (layout.first_step + k_step(lane, k)) * 16 + 2 * (threadIdx.x % 4) + e % 2 + 8 * (e / 4);
}

/* Calls use(w, v, offset in the flat arrays) for each existing weight of the warp. */
template <int DEPTH, class Use>
__device__ inline void for_weights(const EpochPlan &plan, const EpochJob &job,
                                   const BlockLayout &layout, const MatrixLane<DEPTH> &lane,
                                   Weights<DEPTH> &weights, const Use &use) {
  const int inputs = plan.shape.inputs;
  unrolled (k, DEPTH)
    unrolled (e, 8) {
      const int in_tile = threadIdx.x % 32 / 4 + 8 * (e / 2 % 2);
      const int input = input_of(layout, lane, k, e);
      const int neuron = layout.group * layout.neurons + lane.tile * TILE + in_tile;
      if (!lane.has_tile || k_step(lane, k) >= layout.steps || in_tile >= TILE ||
          neuron >= plan.shape.hidden1 || input > inputs)
        continue;
      use(weights.w[k][e], weights.v[k][e],
          input == inputs ? job.layout.bias[0] + neuron
                          : job.layout.weight[0] + (size_t)neuron * inputs + input);
    }
}

/* Returns the bytes of 16 inputs from `input` on, with the bias's pixel and zeros after the end of
   the row. */
__device__ inline uint4 end_of_row(uint4 bytes, int input, int inputs) {
  uint32_t word[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
  unrolled (i, 16) {
    const uint32_t mask = 0xffu << 8 * (i % 4);
    if (input + i >= inputs) word[i / 4] &= ~mask;
    if (input + i == inputs) word[i / 4] |= mask;
  }
  return {word[0], word[1], word[2], word[3]};
}

/* The split's pixels of a step, 64 rows x steps x 16 bytes, on their way from global memory to x:
   one row and k-step per thread. */
struct Pixels {
  uint4 bytes;
};

__device__ inline Pixels fetch_pixels(const EpochPlan &plan, const EpochJob &job,
                                      const BlockLayout &layout, uint32_t position) {
  static_assert(MATRIX_THREADS == ROWS * MATRIX_WARPS, "a thread has one row and k-step");
  const int row = threadIdx.x % ROWS, step = threadIdx.x / ROWS;
  const int input = (layout.first_step + step) * 16;
  if (step >= layout.steps || input >= plan.shape.inputs) return {};
  const uint8_t *pixels = job.d_pixels + row_at(job, position, row) * job.stride;
  return {*reinterpret_cast<const uint4 *>(pixels + input)};
}

__device__ inline void keep_pixels(const EpochPlan &plan, const BlockLayout &layout, Pixels pixels,
                                   __nv_bfloat16 (*x)[X_PITCH]) {
  const int row = threadIdx.x % ROWS, step = threadIdx.x / ROWS;
  const int input = (layout.first_step + step) * 16, inputs = plan.shape.inputs;
  if (step >= layout.steps) return;
  uint4 bytes = pixels.bytes;
  if (input + 16 > inputs) bytes = end_of_row(bytes, input, inputs);
  const uint2 a = pixels_to_bf16(bytes.x), b = pixels_to_bf16(bytes.y);
  const uint2 c = pixels_to_bf16(bytes.z), d = pixels_to_bf16(bytes.w);
  uint4 *to = reinterpret_cast<uint4 *>(&x[row][16 * step]);
  to[0] = {a.x, a.y, b.x, b.y};
  to[1] = {c.x, c.y, d.x, d.y};
}

/* Computes U of k-step k, that is, what is known of the weights before the gradient of their step;
   direct: the weights themselves. */
template <int DEPTH>
__device__ inline void expected_weights(const EpochPlan &plan, const EpochJob &job,
                                        const BlockLayout &layout, const MatrixLane<DEPTH> &lane,
                                        const Weights<DEPTH> &weights, int k, bool direct,
                                        float (&u)[8]) {
  const float by_v = direct ? 0.0f : job.learning_rate * job.rule.momentum;
  const float by_w = direct ? 1.0f : 1.0f - job.learning_rate * job.rule.weight_decay;
  unrolled (e, 8) {
    const bool bias = input_of(layout, lane, k, e) == plan.shape.inputs;
    u[e] = (bias ? 1.0f : by_w) * weights.w[k][e] - by_v * weights.v[k][e];
  }
}

/* Multiplies this warp's part of the first term of Z1, of a round's rows from `first` on,
   transposed (neurons, rows), on the tensor cores, and stores it in shared memory: 64 x 16 x 16
   multiply-adds per k-step of all rounds, three times (bf16 terms). */
template <int DEPTH>
__device__ inline void
multiply_w1(const EpochPlan &plan, const EpochJob &job, const BlockLayout &layout,
            const MatrixLane<DEPTH> &lane, const Weights<DEPTH> &weights, bool direct, int first,
            float (*partial)[MatrixShared<DEPTH>::PITCH], const __nv_bfloat16 (*x)[X_PITCH]) {
  constexpr int ROUND = MatrixShared<DEPTH>::ROUND;
  const int l = threadIdx.x % 32, g = l / 4, t = l % 4;
  float z[ROUND / 8][4] = {};
  unrolled (k, DEPTH) {
    float u[8];
    uint32_t a[3][4];
    expected_weights(plan, job, layout, lane, weights, k, direct, u);
    unrolled (i, 4) {
      uint32_t terms[3];
      split_terms(u[2 * i], u[2 * i + 1], terms);
      unrolled (term, 3) a[term][i] = terms[term];
    }
    unrolled (rows, ROUND / 16) {
      uint32_t b[4]; /* rows 16 rows + 0..7: b[0], b[1]; the next eight: b[2], b[3] */
      ldmatrix_x4(b,
                  &x[first + 16 * rows + l / 16 * 8 + l % 8][k_step(lane, k) * 16 + l / 8 % 2 * 8]);
#pragma unroll
      for (int term = 2; term >= 0; term--) {
        mma_m16n8k16(z[2 * rows], a[term], b[0], b[1]);
        mma_m16n8k16(z[2 * rows + 1], a[term], b[2], b[3]);
      }
    }
  }
  unrolled (n, ROUND / 8)
    unrolled (i, 2)
      if (g + 8 * i < TILE)
        *reinterpret_cast<float2 *>(&partial[g + 8 * i][8 * n + 2 * t]) = {z[n][2 * i],
                                                                           z[n][2 * i + 1]};
}

/* Adds the warps' parts and mails the tile's first term of Z1, of the rows from `first` on, to
   their owners: a packet per thread. */
template <int DEPTH>
__device__ inline void send_z1(const BlockLayout &layout, const MatrixLane<DEPTH> &lane,
                               const MatrixShared<DEPTH> &s, int first, uint32_t stamp) {
  const int row = lane.thread % s.ROUND, packet = lane.thread / s.ROUND;
  float z[3] = {};
  unrolled (warp, lane.WARPS)
    if (DEPTH == 1 || DEPTH * warp < layout.steps) /* else it has no part, or one that is still 0 */
      unrolled (e, 3) z[e] += s.partial[lane.team][warp][3 * packet + e][row];
  send(z1_at(layout, layout.split, lane.tile * TILE_PACKETS + packet, first + row, stamp),
       z[0] * PIXEL_SCALE, z[1] * PIXEL_SCALE, z[2] * PIXEL_SCALE, stamp);
}

/* Waits until the first packet of the tile's dZ1 is there, which one thread polls for; then all
   poll for theirs. */
template <int DEPTH>
__device__ inline void await_dz1(const BlockLayout &layout, const MatrixLane<DEPTH> &lane,
                                 uint32_t stamp) {
  if (lane.thread == 0 && lane.has_tile)
    poll_until(dz1_at(layout, lane.tile * TILE_PACKETS, 0, stamp), stamp);
  matrix_sync();
}

/* Receives the tile's dZ1 and stores its bf16 terms in shared memory, (neuron, row). */
template <int DEPTH>
__device__ inline void receive_dz1(const BlockLayout &layout, const MatrixLane<DEPTH> &lane,
                                   __nv_bfloat16 (*dz1)[16][DZ_PITCH], uint32_t stamp) {
  const Packet *from = dz1_at(layout, lane.tile * TILE_PACKETS, 0, stamp) + lane.thread;
  Packet in[DEPTH];
  receive(
      in, stamp, [](int) { return true; }, [&](int i) { return from + lane.THREADS_OF_TEAM * i; });
  unrolled (i, DEPTH) {
    const int n = lane.thread + lane.THREADS_OF_TEAM * i, row = n % ROWS, packet = n / ROWS;
    uint32_t xy[3], z[3];
    split_terms(in[i].x, in[i].y, xy);
    split_terms(in[i].z, 0.0f, z);
    unrolled (k, 3) {
      uint16_t *to = reinterpret_cast<uint16_t *>(&dz1[k][3 * packet][row]);
      to[0] = (uint16_t)xy[k];
      to[DZ_PITCH] = (uint16_t)(xy[k] >> 16);
      to[2 * DZ_PITCH] = (uint16_t)z[k];
    }
  }
}

/* Updates W1 by dW1 = dZ1^T X for this warp's inputs, on the tensor cores, and the momentum rule.
   Where there are registers for it, each term has accumulators of its own: chains of 4 dependent
   products instead of 12. */
template <int DEPTH>
__device__ inline void update_w1(const EpochPlan &plan, const EpochJob &job,
                                 const BlockLayout &layout, const MatrixLane<DEPTH> &lane,
                                 Weights<DEPTH> &weights, const __nv_bfloat16 (*dz1)[16][DZ_PITCH],
                                 const __nv_bfloat16 (*x)[X_PITCH]) {
  const int l = threadIdx.x % 32;
  unrolled (k, DEPTH) {
    constexpr int SUMS = DEPTH == 1 ? 3 : 1;
    float g[SUMS][2][4] = {};
#pragma unroll
    for (int rows = 0; rows < ROWS; rows += 16) {
      uint32_t b[4]; /* inputs 0..7 of the k-step: b[0], b[1]; 8..15: b[2], b[3] */
      ldmatrix_x4_trans(b, &x[rows + l / 8 % 2 * 8 + l % 8][k_step(lane, k) * 16 + l / 16 * 8]);
      unrolled (i, 3) {
        const int term = SUMS == 1 ? 2 - i : i; /* in one sum, the small ones first */
        uint32_t a[4];
        ldmatrix_x4(a, &dz1[term][l % 16][rows + l / 16 * 8]);
        mma_m16n8k16(g[term % SUMS][0], a, b[0], b[1]);
        mma_m16n8k16(g[term % SUMS][1], a, b[2], b[3]);
      }
    }
    unrolled (e, 8) {
      const bool bias = input_of(layout, lane, k, e) == plan.shape.inputs;
      const UpdateRule rule = {job.rule.momentum, bias ? 0.0f : job.rule.weight_decay};
      float sum = g[SUMS - 1][e / 4][e % 4];
#pragma unroll
      for (int i = SUMS - 2; i >= 0; i--) sum += g[i][e / 4][e % 4];
      update_value(weights.w[k][e], weights.v[k][e], sum * PIXEL_SCALE, rule, job.learning_rate);
    }
  }
}

/* Runs all steps of the launch, as a matrix block sees them. Buffers of pixels take turns: in step
   t those of steps t and t + 1 are read. Where there is a third, the pixels of step t + 2, fetched
   in step t - 1, are stored in it meanwhile; else they take the place of those of step t at its
   end.
 */
template <int QUADS, int DEPTH>
__device__ void matrix_block(const EpochPlan &plan, const EpochJob &job, Shared<QUADS, DEPTH> &s) {
  constexpr int BUFFERS = MatrixShared<DEPTH>::BUFFERS;
  const BlockLayout &layout = s.layout;
  MatrixShared<DEPTH> &m = s.matrix;
  const uint32_t batch = plan.shape.batch;
  const MatrixLane<DEPTH> lane = matrix_lane<DEPTH>(plan, layout);
  const bool works = lane.has_tile && k_step(lane, 0) < layout.steps;
  Weights<DEPTH> weights = {};
  for_weights(plan, job, layout, lane, weights, [&](float &w, float &v, size_t offset) {
    w = job.d_parameters[offset];
    v = job.d_momentum[offset];
  });
  for (int i = 0; i < 2; i++)
    keep_pixels(plan, layout, fetch_pixels(plan, job, layout, job.position + i * batch), m.x[i]);
  Pixels pixels = fetch_pixels(plan, job, layout, job.position + 2 * batch);
  matrix_sync();

  uint32_t stamp = job.first_stamp, step = first_step_of(plan, job);
  int now = 0;
  for (uint32_t position = job.position; position < job.end; position += batch) {
    STAMP(STAMP_MATRIX);
    const int next = now == BUFFERS - 1 ? 0 : now + 1, last = next == BUFFERS - 1 ? 0 : next + 1;
    const bool ahead = position + batch < job.end && !is_direct(step + 1);
    /* of this step, where it is a direct one, then of the next one */
#pragma unroll 1
    for (int direct = position == job.position || is_direct(step); direct >= 0; direct--) {
      const bool sends = direct || ahead;
#pragma unroll 1
      for (int first = 0; first < ROWS; first += m.ROUND) {
        if (works && sends)
          multiply_w1(plan, job, layout, lane, weights, direct, first,
                      m.partial[lane.team][lane.warp], m.x[direct ? now : next]);
        matrix_sync();
        STAMP(STAMP_W1_MULTIPLIED);
        if (lane.has_tile && sends) send_z1(layout, lane, m, first, direct ? stamp : stamp + 1);
        if (direct || first + m.ROUND < ROWS) matrix_sync(); /* before the partial sums change */
      }
    }
    STAMP(STAMP_Z1_SENT);
    if (BUFFERS > 2) {
      keep_pixels(plan, layout, pixels, m.x[last]);
      pixels = fetch_pixels(plan, job, layout, position + 3 * batch);
    }
    STAMP(STAMP_PIXELS);
    await_dz1(layout, lane, stamp);
    if (lane.has_tile) receive_dz1(layout, lane, m.dz1[lane.team], stamp);
    matrix_sync();
    STAMP(STAMP_DZ1_RECEIVED);
    if (works) update_w1(plan, job, layout, lane, weights, m.dz1[lane.team], m.x[now]);
    if (BUFFERS == 2) {
      matrix_sync();
      keep_pixels(plan, layout, pixels, m.x[now]);
      pixels = fetch_pixels(plan, job, layout, position + 3 * batch);
      matrix_sync();
    }
    STAMP(STAMP_W1_UPDATED);
    now = next;
    stamp++;
    step++;
  }

  for_weights(plan, job, layout, lane, weights, [&](float &w, float &v, size_t offset) {
    job.d_parameters[offset] = w;
    job.d_momentum[offset] = v;
  });
}

} // namespace epoch
