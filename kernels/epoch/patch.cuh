/* The patch team of a row block: the part of W2, W3, b2 and b3 that this block updates, while the
   other teams go on. A gradient is a product of columns over the batch's rows:
     W2  H1 with dZ2      W3  dZ3 with H2      b2  ones with dZ2      b3  ones with dZ3
   W2 and b2 are what the next step waits for. A tile's 15 neurons and a column of ones are the 16
   rows of a tensor-core product, so both come of the same instructions; a warp has 8 hidden values
   and half of the batch's rows. H1 is split into bf16 terms before dZ2 is there.

   W3 and b3 come after that, in float32, as patches of 3 x 3 values. Four lanes share a patch: each
   adds a quarter of the rows, then owns one row of it, one packet. All weights and momenta stay in
   registers from the first step of the launch to the last. */
#ifndef EPOCH_PATCH_CUH
#define EPOCH_PATCH_CUH

#include "bf16_split.cuh"
#include "epoch/layout.cuh"

namespace epoch {

__device__ inline int patch_thread() {
  return threadIdx.x - ROW_THREADS - HEAD_THREADS;
}

__device__ inline void patch_sync() {
  wait<PATCH>(PATCH_THREADS);
}

/* A packet of P that a lane owns. */
struct OwnPacket {
  bool exists, decays;
  int x, packet; /* row of P, packet within the row */
  float w[3], v[3];
};

/* The offset in the flat arrays of value e of the packet, or -1. */
__device__ inline long long offset_of(const EpochPlan &plan, const EpochJob &job,
                                      const BlockLayout &layout, const OwnPacket &own, int e) {
  return own.exists ? p_offset(plan, job, layout, own.x, 3 * own.packet + e) : -1;
}

__device__ inline void load_packet(const EpochPlan &plan, const EpochJob &job,
                                   const BlockLayout &layout, OwnPacket &own) {
  for (int e = 0; e < 3; e++) {
    const long long offset = offset_of(plan, job, layout, own, e);
    own.w[e] = offset < 0 ? 0.0f : job.d_parameters[offset];
    own.v[e] = offset < 0 ? 0.0f : job.d_momentum[offset];
  }
}

/* b2, W3 and b3 are the same in every group: the first one writes them. */
__device__ inline void store_packet(const EpochPlan &plan, const EpochJob &job,
                                    const BlockLayout &layout, const OwnPacket &own) {
  if (own.x >= layout.neurons && layout.group > 0) return;
  for (int e = 0; e < 3; e++) {
    const long long offset = offset_of(plan, job, layout, own, e);
    if (offset < 0) continue;
    job.d_parameters[offset] = own.w[e];
    job.d_momentum[offset] = own.v[e];
  }
}

/* Updates the packet by its gradient and mails it to the group's row blocks. */
__device__ inline void update_packet(const EpochJob &job, const BlockLayout &layout, OwnPacket &own,
                                     const float (&g)[3], uint32_t stamp) {
  const UpdateRule rule = {job.rule.momentum, own.decays ? job.rule.weight_decay : 0.0f};
#pragma unroll
  for (int e = 0; e < 3; e++) update_value(own.w[e], own.v[e], g[e], rule, job.learning_rate);
  if (own.exists) send(p_at(layout, own.x, own.packet), own.w[0], own.w[1], own.w[2], stamp);
}

/* ---- columns -------------------------------------------------------------------------------- */

/* Receives `count` packets of every row, at most MOST, from kind `first` of the records on, into
   columns. All threads call await() once, when addresses are computed. */
template <int MOST, class Await>
__device__ inline void receive_columns(const BlockLayout &layout, float (*columns)[COLUMN_PITCH],
                                       int first, int count, uint32_t stamp, const Await &await) {
  constexpr int STRIDE = PATCH_THREADS / ROWS; /* packets of a row at once */
  const int row = patch_thread() % ROWS, start = patch_thread() / ROWS;
  const Packet *from = record_at(layout, first + start, row, stamp);
  await();
  Packet in[ceil_div(MOST, STRIDE)];
  receive(
      in, stamp, [&](int i) { return start + STRIDE * i < count; },
      [&](int i) { return from + STRIDE * ROWS * i; });
#pragma unroll
  for (int i = 0; i < ceil_div(MOST, STRIDE); i++) {
    if (start + STRIDE * i >= count) break;
    float(*to)[COLUMN_PITCH] = columns + 3 * (start + STRIDE * i);
    to[0][row] = in[i].x, to[1][row] = in[i].y, to[2][row] = in[i].z;
  }
}

/* ---- W2 and b2 ------------------------------------------------------------------------------ */

constexpr int VALUE_TILES = ceil_div(3 * MAX_SHARE, 8);  /* of 8 hidden values */
constexpr int HALVES = PATCH_THREADS / 32 / VALUE_TILES; /* of the rows */
constexpr int K_STEPS = ROWS / HALVES / 16;              /* of 16 rows each */
static_assert(PATCH_THREADS == 32 * VALUE_TILES * HALVES && ROWS == HALVES * K_STEPS * 16 &&
                  3 * MAX_SHARE <= 8 * VALUE_TILES && SUM_PITCH >= 8 * VALUE_TILES,
              "a warp for every tile and half");
static_assert(16 * MAX_SHARE <= PATCH_THREADS, "a thread for every packet");

/* The packet of W2, or of b2, that is the tile's 16th neuron in one tile of the group. Neighbouring
   lanes have neighbouring neurons, as they lie in P. */
__device__ inline OwnPacket own_packet_of_w2(const BlockLayout &layout) {
  OwnPacket own = {};
  const int neuron = patch_thread() % (TILE + 1), n = patch_thread() / (TILE + 1);
  own.packet = layout.first_packet + n;
  own.exists = n < layout.share && (neuron < TILE || layout.tile == 0);
  own.decays = neuron < TILE;
  own.x = neuron < TILE ? layout.tile * TILE + neuron : layout.neurons;
  return own;
}

/* The first of the two values of a row pair that this lane has of k-step k, in any column: lane 4 g
   + t holds rows 2 t, 2 t + 1 and 2 t + 8, 2 t + 9 of the step. */
__device__ inline int first_row(int k) {
  return (patch_thread() / 32 / VALUE_TILES * K_STEPS + k) * 16 + 2 * (threadIdx.x % 4);
}

__device__ inline Bf16Split split_at(const float *column) {
  const float2 pair = *reinterpret_cast<const float2 *>(column);
  return split(pair.x, pair.y);
}

/* bf16 terms of H1 and of the ones, of this warp's rows: the A operand. */
struct LeftTerms {
  uint32_t term[K_STEPS][3][4];
};

__device__ inline void split_h1(const RowShared &s, LeftTerms &left) {
  const int g = threadIdx.x % 32 / 4;
#pragma unroll
  for (int k = 0; k < K_STEPS; k++)
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const Bf16Split terms = split_at(&s.h1_column[g + i % 2 * 8][first_row(k) + i / 2 * 8]);
      left.term[k][0][i] = terms.hi, left.term[k][1][i] = terms.mid, left.term[k][2][i] = terms.lo;
    }
}

/* This warp's part of the gradient, (neuron, hidden value), to shared memory. Six products, as in
   fragment.cuh, in sums of their own for each size and k-step: short chains of dependent products.
 */
__device__ inline void multiply_columns(RowShared &s, const LeftTerms &left) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const int warp = patch_thread() / 32, first = warp % VALUE_TILES * 8;
  float sum[3][K_STEPS][4] = {}; /* of products of 2^-16, of 2^-8, of 1 */
#pragma unroll
  for (int k = 0; k < K_STEPS; k++) {
    const float *column = &s.dz2_column[first + g][first_row(k)];
    const Bf16Split b0 = split_at(column), b1 = split_at(column + 8);
    const uint32_t(&a)[3][4] = left.term[k];
    mma_m16n8k16(sum[0][k], a[2], b0.hi, b1.hi);
    mma_m16n8k16(sum[1][k], a[1], b0.hi, b1.hi);
    mma_m16n8k16(sum[2][k], a[0], b0.hi, b1.hi);
    mma_m16n8k16(sum[0][k], a[1], b0.mid, b1.mid);
    mma_m16n8k16(sum[1][k], a[0], b0.mid, b1.mid);
    mma_m16n8k16(sum[0][k], a[0], b0.lo, b1.lo);
  }
#pragma unroll
  for (int i = 0; i < 2; i++) {
    float of[2] = {};
#pragma unroll
    for (int size = 0; size < 3; size++)
#pragma unroll
      for (int k = 0; k < K_STEPS; k++)
#pragma unroll
        for (int e = 0; e < 2; e++) of[e] += sum[size][k][2 * i + e];
    *reinterpret_cast<float2 *>(&s.sum[warp / VALUE_TILES][g + 8 * i][first + 2 * t]) = {of[0],
                                                                                         of[1]};
  }
}

/* Adds the halves of this thread's packet and updates it. */
__device__ inline void update_w2(const EpochJob &job, const BlockLayout &layout, const RowShared &s,
                                 OwnPacket &own, uint32_t stamp) {
  if (!own.exists) return;
  const int neuron = own.decays ? own.x - layout.tile * TILE : TILE;
  const int first = 3 * (own.packet - layout.first_packet);
  float g[3] = {};
#pragma unroll
  for (int half = 0; half < HALVES; half++)
#pragma unroll
    for (int e = 0; e < 3; e++) g[e] += s.sum[half][neuron][first + e];
  update_packet(job, layout, own, g, stamp);
}

/* ---- W3 and b3 ------------------------------------------------------------------------------ */

constexpr int QUARTERS = 4, QUARTER = ROWS / QUARTERS;
static_assert(MAX_SHARE + CLASS_PACKETS <= PATCH_THREADS / QUARTERS, "four lanes for every patch");

/* A lane's part of a patch. */
struct Patch {
  bool computes;             /* this lane adds a quarter */
  const float *left, *right; /* columns, from this lane's quarter on */
  int left_pitch;            /* 0: the same column three times */
  OwnPacket own;
};

/* The patches of a block: of W3 (share) in the first tiles, one for three classes each, then b3's
   in the first block of all. */
__device__ inline Patch find_patch(const EpochPlan &plan, const BlockLayout &layout,
                                   const RowShared &s) {
  Patch patch = {};
  const int n = patch_thread() / QUARTERS, quarter = patch_thread() % QUARTERS;
  const int of_b3 = n - layout.share, c = 3 * layout.tile + quarter;
  patch.left = patch.right = s.h1_column[TILE]; /* ones */
  if (of_b3 < 0) {
    patch.computes = layout.tile < layout.class_packets;
    patch.own.exists = patch.computes && quarter < 3 && c < plan.shape.classes;
    patch.own.decays = true;
    patch.own.x = layout.neurons + 1 + c;
    patch.own.packet = layout.first_packet + n;
    patch.left = s.dz3_column[3 * min(layout.tile, layout.class_packets - 1)];
    patch.left_pitch = COLUMN_PITCH;
    patch.right = s.h2_column[3 * n];
  } else if (layout.block == 0 && of_b3 < layout.class_packets) {
    patch.computes = true;
    patch.own.exists = quarter == 0;
    patch.own.x = layout.p_rows;
    patch.own.packet = of_b3;
    patch.right = s.dz3_column[3 * of_b3];
  }
  patch.left += quarter * QUARTER;
  patch.right += quarter * QUARTER;
  return patch;
}

/* The patch's gradient and its update. Lane: 3 x 3 sums over 16 rows, then one packet. */
__device__ inline void update_patch(const EpochJob &job, const BlockLayout &layout, Patch &patch,
                                    uint32_t stamp) {
  if (!__any_sync(FULL_WARP, patch.computes)) return;
  float g[3][3] = {};
  if (patch.computes)
#pragma unroll 1 /* nobody waits for it, and other teams need the room for instructions */
    for (int rows = 0; rows < QUARTER / 4; rows++) {
      float4 right[3];
#pragma unroll
      for (int e = 0; e < 3; e++)
        right[e] = reinterpret_cast<const float4 *>(patch.right + e * COLUMN_PITCH)[rows];
#pragma unroll
      for (int i = 0; i < 3; i++) {
        const float4 left =
            reinterpret_cast<const float4 *>(patch.left + i * patch.left_pitch)[rows];
#pragma unroll
        for (int e = 0; e < 3; e++)
          g[i][e] +=
              left.x * right[e].x + left.y * right[e].y + left.z * right[e].z + left.w * right[e].w;
      }
    }
  const int quarter = patch_thread() % QUARTERS;
  float mine[3] = {};
#pragma unroll
  for (int e = 0; e < 3; e++)
#pragma unroll
    for (int i = 0; i < 3; i++) {
      float sum = g[i][e];
      sum += __shfl_xor_sync(FULL_WARP, sum, 1);
      sum += __shfl_xor_sync(FULL_WARP, sum, 2);
      mine[e] = quarter == i ? sum : mine[e];
    }
  update_packet(job, layout, patch.own, mine, stamp);
}

/* Receives W3 and b3 of the next step, for the head team of this block. */
__device__ inline void receive_w3(const EpochPlan &plan, const BlockLayout &layout, RowShared &s,
                                  uint32_t stamp) {
  constexpr int COUNT = ceil_div(MAX_CLASSES * MAX_HIDDEN2 / 3 + MAX_CLASSES / 3, PATCH_THREADS);
  const int in_w3 = plan.shape.classes * layout.hidden_packets,
            packets = in_w3 + layout.class_packets;
  const Packet *from = p_at(layout, layout.neurons + 1, 0) + patch_thread();
  Packet in[COUNT];
  receive(
      in, stamp, [&](int i) { return patch_thread() + PATCH_THREADS * i < packets; },
      [&](int i) { return from + PATCH_THREADS * i; });
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    const int n = patch_thread() + PATCH_THREADS * i, c = divide(n, layout.by_hidden);
    if (n >= packets) break;
    float *to = n < in_w3 ? &s.w3[c][3 * (n - c * layout.hidden_packets)] : &s.b3[3 * (n - in_w3)];
    to[0] = in[i].x, to[1] = in[i].y, to[2] = in[i].z;
  }
}

/* Reads W3 and b3 of the launch's first step from the parameters. */
__device__ inline void load_w3_and_b3(const EpochPlan &plan, const EpochJob &job,
                                      const BlockLayout &layout, RowShared &s) {
  const int classes = plan.shape.classes, hidden2 = plan.shape.hidden2;
  for (int i = patch_thread(); i < classes * hidden2; i += PATCH_THREADS) {
    const int c = i / hidden2, o = i % hidden2;
    s.w3[c][o] = job.d_parameters[p_offset(plan, job, layout, layout.neurons + 1 + c, o)];
  }
  if (patch_thread() < classes)
    s.b3[patch_thread()] =
        job.d_parameters[p_offset(plan, job, layout, layout.p_rows, patch_thread())];
}

/* All steps of the launch, as the patch team sees them. */
template <class Shared>
__device__ void patch_team(const EpochPlan &plan, const EpochJob &job, Shared &s) {
  const BlockLayout &layout = s.layout;
  const int share = layout.share;
  OwnPacket w2 = own_packet_of_w2(layout);
  Patch patch = find_patch(plan, layout, s.row);
  LeftTerms h1;
  load_packet(plan, job, layout, w2);
  load_packet(plan, job, layout, patch.own);
  load_w3_and_b3(plan, job, layout, s.row);
  for (int i = patch_thread(); i < ROWS; i += PATCH_THREADS) s.row.h1_column[TILE][i] = 1.0f;
  patch_sync();
  arrive<PATCH_READ>(PATCH_THREADS + ROW_THREADS);
  arrive<W3_READY>(PATCH_THREADS + HEAD_THREADS);

  uint32_t stamp = job.first_stamp;
  for (uint32_t position = job.position; position < job.end; position += plan.shape.batch) {
    STAMP(STAMP_PATCH);
    const auto h1_sent = [] { wait<H1_SENT>(PATCH_THREADS + ROW_THREADS); };
    const auto dz2_sent = [] { wait<DZ2_SENT>(PATCH_THREADS + HEAD_THREADS); };
    const auto at_once = [] {};
    /* only a block with a share sends packets of P in return, so only such a block may read mail */
    if (share > 0) {
      receive_columns<TILE_PACKETS>(layout, s.row.h1_column, layout.tile * TILE_PACKETS,
                                    TILE_PACKETS, stamp, h1_sent);
      patch_sync();
      split_h1(s.row, h1);
      STAMP(STAMP_H1_RECEIVED);
      receive_columns<MAX_SHARE>(layout, s.row.dz2_column, layout.first_dz2 + layout.first_packet,
                                 share, stamp, dz2_sent);
      patch_sync();
      STAMP(STAMP_DZ2_RECEIVED);
      multiply_columns(s.row, h1);
      patch_sync();
      update_w2(job, layout, s.row, w2, stamp);
      STAMP(STAMP_P_SENT);
      /* by now all of this is there */
      receive_columns<MAX_SHARE>(layout, s.row.h2_column, layout.first_h2 + layout.first_packet,
                                 share, stamp, at_once);
      receive_columns<CLASS_PACKETS>(layout, s.row.dz3_column, layout.first_dz3,
                                     layout.class_packets, stamp, at_once);
      patch_sync();
      update_patch(job, layout, patch, stamp);
    } else {
      dz2_sent(); /* the head has read W3 */
    }
    const bool more = position + plan.shape.batch < job.end;
    if (more) receive_w3(plan, layout, s.row, stamp);
    patch_sync(); /* before the columns change; and all of W3 is there, so the head has taken the
                     last signal */
    if (more) arrive<W3_READY>(PATCH_THREADS + HEAD_THREADS);
    STAMP(STAMP_W3_RECEIVED);
    stamp++;
  }

  store_packet(plan, job, layout, w2);
  store_packet(plan, job, layout, patch.own);
}

} // namespace epoch

#endif
