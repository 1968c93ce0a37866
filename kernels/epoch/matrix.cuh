/* The matrix blocks of the epoch kernel: they hold W1 and do all its work. A block has some tiles
   of 15 neurons and ten k-steps of 16 inputs each. Every tile has a team of warps, every warp DEPTH
   k-steps, whose weights and momentum stay in registers from the first step of the launch to the
   last. DEPTH is 1, two tiles per block, or 2, four tiles, where there are fewer multiprocessors.

   The rows need Z1 = X W1', where W1 is updated by dZ1 of the previous step. Before that gradient
   comes, U = W1 - rate (momentum V + decay W1) is known. So X U' is computed and mailed while the
   rows are still busy with the previous step. The rest is -rate K dZ1, which the rows add
   themselves (rows.cuh). A direct step waits for the update and mails X W1'. */
#pragma once

#include "bf16_split.cuh"
#include "epoch/team.cuh"

namespace epoch {

/* The weights of one warp, of each of its k-steps of 16 inputs. Lane 4 g + t holds value e at
   neuron g + 8 (e / 2 % 2), input 2 t + e % 2 + 8 (e / 4). This is the layout of the A operand
   (forward) and also that of two accumulators side by side (gradient), so a weight never leaves its
   register. */
template <int DEPTH> struct Weights { float w[DEPTH][8], v[DEPTH][8]; };

/* Returns the bytes of 16 inputs from `input` on, with the bias's pixel and zeros after the row. */
__device__ inline uint4 end_of_row(uint4 bytes, int input, int inputs) {
  uint32_t word[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
  unrolled (i, 16) {
    const uint32_t mask = 0xffu << 8 * (i % 4);
    if (input + i >= inputs) word[i / 4] &= ~mask;
    if (input + i == inputs) word[i / 4] |= mask;
  }
  return {word[0], word[1], word[2], word[3]};
}

/* Teams of warps, one for each tile. */
template <class Shared> struct MatrixBlock : Team {
  static constexpr int DEPTH = Shared::DEPTH;
  using Matrix = MatrixShared<DEPTH>;
  static constexpr int BUFFERS = Matrix::BUFFERS, ROUND = Matrix::ROUND;
  static constexpr int WARPS = MATRIX_WARPS / DEPTH; /* of a team */
  static constexpr int THREADS_OF_TEAM = 32 * WARPS;
  static_assert(THREADS_OF_TEAM * DEPTH == ROWS * TILE_PACKETS, "DEPTH packets for each thread");
  Shared &s;
  int team = threadIdx.x / THREADS_OF_TEAM, thread = threadIdx.x % THREADS_OF_TEAM;
  int warp = thread / 32;            /* thread and warp: of the team */
  int tile = layout.tile + team;     /* of the group */
  bool has_tile = tile < plan.tiles; /* the group may have fewer */

  static __device__ void sync() {
    wait<MATRIX>(MATRIX_THREADS);
  }

  /* Returns the number within the split of k-step k of this warp. */
  __device__ int k_step(int k) const {
    return warp * DEPTH + k;
  }

  /* Returns the input of value e of this lane's k-step k. */
  __device__ int input_of(int k, int e) const {
    return (layout.first_step + k_step(k)) * 16 + 2 * (threadIdx.x % 4) + e % 2 + 8 * (e / 4);
  }

  /* Calls use(w, v, offset in the flat arrays) for each existing weight of the warp. */
  template <class Use> __device__ void for_weights(Weights<DEPTH> &weights, const Use &use) const {
    const int inputs = plan.shape.inputs;
    unrolled (k, DEPTH)
      unrolled (e, 8) {
        const int in_tile = threadIdx.x % 32 / 4 + 8 * (e / 2 % 2);
        const int input = input_of(k, e);
        const int neuron = layout.group * layout.neurons + tile * TILE + in_tile;
        if (!has_tile || k_step(k) >= layout.steps || in_tile >= TILE ||
            neuron >= plan.shape.hidden1 || input > inputs)
          continue;
        use(weights.w[k][e], weights.v[k][e],
            input == inputs ? job.layout.bias[0] + neuron
                            : job.layout.weight[0] + (size_t)neuron * inputs + input);
      }
  }

  /* The split's pixels of a step, 64 rows x steps x 16 bytes, on their way from global memory to x:
     one row and k-step per thread. */
  __device__ uint4 fetch_pixels(uint32_t position) const {
    static_assert(MATRIX_THREADS == ROWS * MATRIX_WARPS, "a thread has one row and k-step");
    const int row = threadIdx.x % ROWS, step = threadIdx.x / ROWS;
    const int input = (layout.first_step + step) * 16;
    if (step >= layout.steps || input >= plan.shape.inputs) return {};
    const uint8_t *pixels = job.d_pixels + row_at(job, position, row) * job.stride;
    return *reinterpret_cast<const uint4 *>(pixels + input);
  }

  __device__ void keep_pixels(uint4 bytes, __nv_bfloat16 (*x)[X_PITCH]) const {
    const int row = threadIdx.x % ROWS, step = threadIdx.x / ROWS;
    const int input = (layout.first_step + step) * 16, inputs = plan.shape.inputs;
    if (step >= layout.steps) return;
    if (input + 16 > inputs) bytes = end_of_row(bytes, input, inputs);
    const uint2 a = pixels_to_bf16(bytes.x), b = pixels_to_bf16(bytes.y);
    const uint2 c = pixels_to_bf16(bytes.z), d = pixels_to_bf16(bytes.w);
    uint4 *to = reinterpret_cast<uint4 *>(&x[row][16 * step]);
    to[0] = {a.x, a.y, b.x, b.y};
    to[1] = {c.x, c.y, d.x, d.y};
  }

  /* Computes U of k-step k, the part of the weights that is known before the gradient, or, if
     `direct`, the weights. */
  __device__ void expected_weights(const Weights<DEPTH> &weights, int k, bool direct,
                                   float (&u)[8]) const {
    const float by_v = direct ? 0.0f : job.learning_rate * job.rule.momentum;
    const float by_w = direct ? 1.0f : 1.0f - job.learning_rate * job.rule.weight_decay;
    unrolled (e, 8) {
      const bool bias = input_of(k, e) == plan.shape.inputs;
      u[e] = (bias ? 1.0f : by_w) * weights.w[k][e] - by_v * weights.v[k][e];
    }
  }

  /* Multiplies a round's rows, from `first` on, by this warp's part of U on the tensor cores.
     Stores the product, transposed (neurons, rows), in shared memory. All rounds cost 64 x 16 x 16
     multiply-adds per k-step for each of three bf16 terms. */
  __device__ void multiply_w1(const Weights<DEPTH> &weights, bool direct, int first,
                              float (*partial)[Matrix::PITCH],
                              const __nv_bfloat16 (*x)[X_PITCH]) const {
    const int l = threadIdx.x % 32, g = l / 4, t = l % 4;
    float z[ROUND / 8][4] = {};
    unrolled (k, DEPTH) {
      float u[8];
      uint32_t a[3][4];
      expected_weights(weights, k, direct, u);
      unrolled (i, 4) {
        uint32_t terms[3];
        split_terms(u[2 * i], u[2 * i + 1], terms);
        unrolled (term, 3) a[term][i] = terms[term];
      }
      unrolled (rows, ROUND / 16) {
        uint32_t b[4]; /* rows 16 rows + 0..7: b[0], b[1]; the next eight: b[2], b[3] */
        ldmatrix_x4(b, &x[first + 16 * rows + l / 16 * 8 + l % 8][k_step(k) * 16 + l / 8 % 2 * 8]);
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
  __device__ void send_z1(int first, uint32_t stamp) const {
    const int row = thread % ROUND, packet = thread / ROUND;
    float z[3] = {};
    unrolled (warp, WARPS)
      if (DEPTH == 1 || DEPTH * warp < layout.steps) /* else it has no part, or 0 */
        unrolled (e, 3) z[e] += s.matrix.partial[team][warp][3 * packet + e][row];
    send(z1_at(layout.split, tile * TILE_PACKETS + packet, first + row, stamp), z[0] * PIXEL_SCALE,
         z[1] * PIXEL_SCALE, z[2] * PIXEL_SCALE, stamp);
  }

  /* Waits until the first packet of the tile's dZ1 is there, for which one thread polls. Then all
     threads poll for their own. */
  __device__ void await_dz1() const {
    if (thread == 0 && has_tile) poll_until(dz1_at(tile * TILE_PACKETS, 0, stamp), stamp);
    sync();
  }

  /* Receives the tile's dZ1 and stores its bf16 terms in shared memory, (neuron, row). */
  __device__ void receive_dz1(__nv_bfloat16 (*dz1)[16][DZ_PITCH]) const {
    const Packet *from = dz1_at(tile * TILE_PACKETS, 0, stamp) + thread;
    Packet in[DEPTH];
    receive(
        in, stamp, [](int) { return true; }, [&](int i) { return from + THREADS_OF_TEAM * i; });
    unrolled (i, DEPTH) {
      const int n = thread + THREADS_OF_TEAM * i, row = n % ROWS, packet = n / ROWS;
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
     If registers suffice, each term has its own accumulators, for chains of 4 dependent products
     instead of 12. */
  __device__ void update_w1(Weights<DEPTH> &weights, const __nv_bfloat16 (*dz1)[16][DZ_PITCH],
                            const __nv_bfloat16 (*x)[X_PITCH]) const {
    const int l = threadIdx.x % 32;
    unrolled (k, DEPTH) {
      constexpr int SUMS = DEPTH == 1 ? 3 : 1;
      float g[SUMS][2][4] = {};
      unrolled_by (rows, ROWS, 16) {
        uint32_t b[4]; /* inputs 0..7 of the k-step: b[0], b[1]; 8..15: b[2], b[3] */
        ldmatrix_x4_trans(b, &x[rows + l / 8 % 2 * 8 + l % 8][k_step(k) * 16 + l / 16 * 8]);
        unrolled (i, 3) {
          const int term = SUMS == 1 ? 2 - i : i; /* in one sum, the small ones first */
          uint32_t a[4];
          ldmatrix_x4(a, &dz1[term][l % 16][rows + l / 16 * 8]);
          mma_m16n8k16(g[term % SUMS][0], a, b[0], b[1]);
          mma_m16n8k16(g[term % SUMS][1], a, b[2], b[3]);
        }
      }
      unrolled (e, 8) {
        const bool bias = input_of(k, e) == plan.shape.inputs;
        const UpdateRule rule = {job.rule.momentum, bias ? 0.0f : job.rule.weight_decay};
        float sum = g[SUMS - 1][e / 4][e % 4];
#pragma unroll
        for (int i = SUMS - 2; i >= 0; i--) sum += g[i][e / 4][e % 4];
        update_value(weights.w[k][e], weights.v[k][e], sum * PIXEL_SCALE, rule, job.learning_rate);
      }
    }
  }

  /* Runs all steps of the launch, as a matrix block sees them. Buffers of pixels take turns: in
     step t those of steps t and t + 1 are read. A third one, if there is one, takes those of step
     t + 2, fetched in step t - 1, meanwhile; else they replace those of step t at its end. */
  __device__ void run() {
    const uint32_t batch = plan.shape.batch;
    const bool works = has_tile && k_step(0) < layout.steps;
    Weights<DEPTH> weights = {};
    for_weights(weights, [&](float &w, float &v, size_t offset) {
      w = job.d_parameters[offset];
      v = job.d_momentum[offset];
    });
    for (int i = 0; i < 2; i++) keep_pixels(fetch_pixels(job.position + i * batch), s.matrix.x[i]);
    uint4 pixels = fetch_pixels(job.position + 2 * batch);
    sync();

    int now = 0;
    for (begin(); has_step(); next_step()) {
      const int next = now == BUFFERS - 1 ? 0 : now + 1, last = next == BUFFERS - 1 ? 0 : next + 1;
      const bool ahead = next_position() < job.end && !is_direct(step + 1);
      /* of this step if it is direct, then of the next step */
#pragma unroll 1
      for (int direct = position == job.position || is_direct(step); direct >= 0; direct--) {
        const bool sends = direct || ahead;
#pragma unroll 1
        for (int first = 0; first < ROWS; first += ROUND) {
          if (works && sends)
            multiply_w1(weights, direct, first, s.matrix.partial[team][warp],
                        s.matrix.x[direct ? now : next]);
          sync();
          if (has_tile && sends) send_z1(first, direct ? stamp : stamp + 1);
          if (direct || first + ROUND < ROWS) sync(); /* before the partial sums change */
        }
      }
      if (BUFFERS > 2) {
        keep_pixels(pixels, s.matrix.x[last]);
        pixels = fetch_pixels(position + 3 * batch);
      }
      await_dz1();
      if (has_tile) receive_dz1(s.matrix.dz1[team]);
      sync();
      if (works) update_w1(weights, s.matrix.dz1[team], s.matrix.x[now]);
      if (BUFFERS == 2) {
        sync();
        keep_pixels(pixels, s.matrix.x[now]);
        pixels = fetch_pixels(position + 3 * batch);
        sync();
      }
      now = next;
    }

    for_weights(weights, [&](float &w, float &v, size_t offset) {
      job.d_parameters[offset] = w;
      job.d_momentum[offset] = v;
    });
  }
};

} // namespace epoch
