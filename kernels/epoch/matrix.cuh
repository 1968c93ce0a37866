/* The matrix team of the epoch kernel: the block's part of W1 and everything done to it. 10 warps,
   each with one k-step of 16 inputs and 15 neurons, whose weights and momentum stay in registers
   from the first step of the launch to the last. */
#ifndef EPOCH_MATRIX_CUH
#define EPOCH_MATRIX_CUH

#include "epoch/layout.cuh"
#include "bf16_split.cuh"

namespace epoch {

/* The weights of one warp, its k-step of 16 inputs. Lane 4 g + t holds value e at neuron g + 8 (e /
   2 % 2), input 2 t + e % 2 + 8 (e / 4). This is the layout of the A operand (forward) and also
   that of two accumulators side by side (gradient), so a weight never leaves its register. */
struct Weights {
  float w[8], v[8];
};

/* The input of value e of this lane. */
__device__ inline int input_of(const BlockLayout &layout, int e) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  return (layout.first_step + warp) * 16 + 2 * (lane % 4) + e % 2 + 8 * (e / 4);
}

/* Calls use(w, v, offset in the flat arrays) for each existing weight of the warp. */
template <class Use>
__device__ inline void for_weights(const EpochPlan &plan, const EpochJob &job,
                                   const BlockLayout &layout, Weights &weights, const Use &use) {
  if ((int)threadIdx.x / 32 >= layout.steps) return;
  const int inputs = plan.shape.inputs;
#pragma unroll
  for (int e = 0; e < 8; e++) {
    const int in_tile = threadIdx.x % 32 / 4 + 8 * (e / 2 % 2), input = input_of(layout, e);
    const int neuron = layout.first_neuron + in_tile;
    if (in_tile >= TILE || neuron >= plan.shape.hidden1 || input > inputs) continue;
    use(weights.w[e], weights.v[e],
        input == inputs ? job.layout.bias[0] + neuron
                        : job.layout.weight[0] + (size_t)neuron * inputs + input);
  }
}

/* The bytes of 16 inputs from `input` on, with the bias's pixel and zeros after the end of the
   row. */
__device__ inline uint4 end_of_row(uint4 bytes, int input, int inputs) {
  uint32_t word[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
#pragma unroll
  for (int i = 0; i < 16; i++) {
    const uint32_t mask = 0xffu << 8 * (i % 4);
    if (input + i >= inputs) word[i / 4] &= ~mask;
    if (input + i == inputs) word[i / 4] |= mask;
  }
  return {word[0], word[1], word[2], word[3]};
}

/* Fetches the split's pixels of the step at `position` into x: 64 rows x steps x 16 bytes, as bf16.
   Thread: one row, every AT_ONCE-th k-step of it, all loads in flight at once. */
__device__ void fetch_pixels(const EpochPlan &plan, const EpochJob &job, const BlockLayout &layout,
                             uint32_t position, __nv_bfloat16 (*x)[X_PITCH]) {
  constexpr int AT_ONCE = MATRIX_THREADS / ROWS, COUNT = MATRIX_WARPS / AT_ONCE;
  const int row = threadIdx.x % ROWS, first = threadIdx.x / ROWS, inputs = plan.shape.inputs;
  const uint8_t *pixels = job.d_pixels + row_at(job, position, row) * job.stride;
  uint4 bytes[COUNT];
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    const int step = first + AT_ONCE * i, input = (layout.first_step + step) * 16;
    bytes[i] = step < layout.steps && input < inputs
                   ? *reinterpret_cast<const uint4 *>(pixels + input)
                   : uint4{0, 0, 0, 0};
  }
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    const int step = first + AT_ONCE * i, input = (layout.first_step + step) * 16;
    if (step >= layout.steps) continue;
    if (input + 16 > inputs) bytes[i] = end_of_row(bytes[i], input, inputs);
    const uint2 a = pixels_to_bf16(bytes[i].x), b = pixels_to_bf16(bytes[i].y);
    const uint2 c = pixels_to_bf16(bytes[i].z), d = pixels_to_bf16(bytes[i].w);
    uint4 *to = reinterpret_cast<uint4 *>(&x[row][16 * step]);
    to[0] = {a.x, a.y, b.x, b.y};
    to[1] = {c.x, c.y, d.x, d.y};
  }
}

/* Where neuron n of the tile lies in a row of partial sums: four floats for each three, so that the
   three of a packet are one load. */
__device__ inline int partial_index(int n) {
  return n / 3 * 4 + n % 3;
}

/* This warp's part of Z1, transposed (neurons, rows), on the tensor cores, to shared memory: 64 x
   16 x 16 multiply-adds, three times (bf16 terms). */
__device__ void multiply_w1(const Weights &weights, float (*partial)[PARTIAL_PITCH],
                            const __nv_bfloat16 (*x)[X_PITCH]) {
  const int lane = threadIdx.x % 32, first_input = threadIdx.x / 32 * 16;
  uint32_t a[3][4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const Bf16Split terms = split(weights.w[2 * i], weights.w[2 * i + 1]);
    a[0][i] = terms.hi, a[1][i] = terms.mid, a[2][i] = terms.lo;
  }
  float z[ROWS / 8][4] = {};
#pragma unroll
  for (int rows = 0; rows < ROWS / 16; rows++) {
    uint32_t b[4]; /* rows 16 rows + 0..7: b[0], b[1]; the next eight: b[2], b[3] */
    ldmatrix_x4(b, &x[16 * rows + lane / 16 * 8 + lane % 8][first_input + lane / 8 % 2 * 8]);
#pragma unroll
    for (int term = 2; term >= 0; term--) {
      mma_m16n8k16(z[2 * rows], a[term], b[0], b[1]);
      mma_m16n8k16(z[2 * rows + 1], a[term], b[2], b[3]);
    }
  }
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int n = 0; n < ROWS / 8; n++)
#pragma unroll
    for (int e = 0; e < 4; e++)
      if (g + e / 2 * 8 < TILE)
        partial[8 * n + 2 * t + e % 2][partial_index(g + e / 2 * 8)] = z[n][e];
}

/* Adds the warps' parts and mails the tile's Z1 to the owners of the rows, one packet per
   thread. */
__device__ void send_z1(const EpochPlan &plan, const BlockLayout &layout, const Shared &s,
                        uint32_t stamp) {
  const int row = threadIdx.x / TILE_PACKETS, packet = threadIdx.x % TILE_PACKETS;
  float z[3] = {};
#pragma unroll
  for (int warp = 0; warp < MATRIX_WARPS; warp++) {
    const float4 part = *reinterpret_cast<const float4 *>(&s.partial[warp][row][4 * packet]);
    z[0] += part.x, z[1] += part.y, z[2] += part.z;
  }
  send(layout.z1 + (row * plan.splits + layout.split) * layout.neuron_packets +
           layout.tile * TILE_PACKETS + packet,
       z[0] * PIXEL_SCALE, z[1] * PIXEL_SCALE, z[2] * PIXEL_SCALE, stamp);
}

/* Receives the tile's dZ1, one packet per thread, and stores its bf16 terms in shared memory, (row,
   neuron). */
__device__ void receive_dz1(const BlockLayout &layout, Shared &s, uint32_t stamp) {
  const int row = threadIdx.x / TILE_PACKETS, packet = threadIdx.x % TILE_PACKETS;
  const Packet *from =
      layout.dz1 + row * layout.neuron_packets + layout.tile * TILE_PACKETS + packet;
  Packet in[1];
  receive(
      in, stamp, [](int) { return true; }, [&](int) { return from; });
  const Bf16Split xy = split(in[0].x, in[0].y), z = split(in[0].z, 0.0f);
  const uint32_t term[3][2] = {{xy.hi, z.hi}, {xy.mid, z.mid}, {xy.lo, z.lo}};
#pragma unroll
  for (int k = 0; k < 3; k++) {
    uint16_t *to = reinterpret_cast<uint16_t *>(&s.dz1[k][row][3 * packet]);
    to[0] = (uint16_t)term[k][0];
    to[1] = (uint16_t)(term[k][0] >> 16);
    to[2] = (uint16_t)term[k][1];
  }
}

/* dW1 = dZ1^T X for this warp's inputs on the tensor cores, then the momentum rule. Each term has
   accumulators of its own: chains of 4 dependent products instead of 12. */
__device__ void update_w1(const EpochPlan &plan, const EpochJob &job, const BlockLayout &layout,
                          Weights &weights, const __nv_bfloat16 (*dz1)[ROWS][DZ_PITCH],
                          const __nv_bfloat16 (*x)[X_PITCH]) {
  const int lane = threadIdx.x % 32, first_input = threadIdx.x / 32 * 16;
  float g[3][2][4] = {};
#pragma unroll
  for (int rows = 0; rows < ROWS / 16; rows++) {
    uint32_t b[4]; /* inputs 0..7 of the step: b[0], b[1]; 8..15: b[2], b[3] */
    ldmatrix_x4_trans(b, &x[16 * rows + lane / 8 % 2 * 8 + lane % 8][first_input + lane / 16 * 8]);
#pragma unroll
    for (int term = 0; term < 3; term++) {
      uint32_t a[4];
      ldmatrix_x4_trans(a, &dz1[term][16 * rows + lane / 16 * 8 + lane % 8][lane / 8 % 2 * 8]);
      mma_m16n8k16(g[term][0], a, b[0], b[1]);
      mma_m16n8k16(g[term][1], a, b[2], b[3]);
    }
  }
#pragma unroll
  for (int e = 0; e < 8; e++) {
    const bool bias = input_of(layout, e) == plan.shape.inputs;
    const UpdateRule rule = {job.rule.momentum, bias ? 0.0f : job.rule.weight_decay};
    const float sum = g[2][e / 4][e % 4] + g[1][e / 4][e % 4] + g[0][e / 4][e % 4];
    update_value(weights.w[e], weights.v[e], sum * PIXEL_SCALE, rule, job.learning_rate);
  }
}

/* All steps of the launch, as the matrix team sees them. */
__device__ void matrix_team(const EpochPlan &plan, const EpochJob &job, Shared &s) {
  const BlockLayout &layout = s.layout;
  const int warp = threadIdx.x / 32;
  const bool multiplies = warp < layout.steps;
  Weights weights = {};
  for_weights(plan, job, layout, weights, [&](float &w, float &v, size_t offset) {
    w = job.d_parameters[offset];
    v = job.d_momentum[offset];
  });
  fetch_pixels(plan, job, layout, job.position, s.x[0]);
  wait<ALL_READ>(MATRIX_THREADS + ROW_THREADS);

  uint32_t stamp = job.first_stamp;
  int now = 0;
  for (uint32_t position = job.position; position < job.end; position += plan.shape.batch) {
    STAMP(STAMP_MATRIX);
    if (multiplies) multiply_w1(weights, s.partial[warp], s.x[now]);
    wait<MATRIX>(MATRIX_THREADS);
    STAMP(STAMP_W1_MULTIPLIED);
    send_z1(plan, layout, s, stamp);
    if (layout.owner) arrive<Z1_SENT>(MATRIX_THREADS + ROW_THREADS);
    STAMP(STAMP_Z1_SENT);
    fetch_pixels(plan, job, layout, position + plan.shape.batch, s.x[1 - now]);
    STAMP(STAMP_PIXELS);
    wait<DZ1_SENT>(MATRIX_THREADS + (layout.owner ? ROW_THREADS : PATCH_THREADS));
    receive_dz1(layout, s, stamp);
    wait<MATRIX>(MATRIX_THREADS);
    STAMP(STAMP_DZ1_RECEIVED);
    if (multiplies) update_w1(plan, job, layout, weights, s.dz1, s.x[now]);
    STAMP(STAMP_W1_UPDATED);
    now = 1 - now;
    stamp++;
  }

  for_weights(plan, job, layout, weights, [&](float &w, float &v, size_t offset) {
    job.d_parameters[offset] = w;
    job.d_momentum[offset] = v;
  });
}

} // namespace epoch

#endif
