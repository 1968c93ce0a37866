/* The patch team of a row block: the part of W2, W3, b2 and b3 that this block updates, while the
   other teams go on. A gradient is a product of columns over the batch's rows:
     W2  H1 with dZ2      W3  dZ3 with H2      b2  ones with dZ2      b3  ones with dZ3
   W2 and b2 are what the next step waits for. A tile's 15 neurons and a column of ones are the 16
   rows of a tensor-core product, so both come of the same instructions. A warp has six hidden
   values, two packets, from their arrival to the packets of weights that it sends: no other warp
   waits for it. H1 is received, and split into bf16 terms, before dZ2 is there.

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

__device__ inline int patch_warp() {
  return patch_thread() / 32;
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

/* ---- W2 and b2 ------------------------------------------------------------------------------ */

static_assert(PATCH_WARPS == TILE_PACKETS && 2 * PATCH_WARPS == MAX_SHARE,
              "a warp receives one packet of H1 and two of dZ2, of every row");

/* The packet of W2, or of b2, which is the tile's 16th neuron in one tile of the group. A warp has
   two packets of each neuron, a lane one. */
__device__ inline OwnPacket own_packet_of_w2(const BlockLayout &layout) {
  OwnPacket own = {};
  const int lane = threadIdx.x % 32, neuron = lane / 4 + 8 * (lane % 4 / 2);
  const int n = 2 * patch_warp() + lane % 2;
  own.packet = layout.first_packet + n;
  own.exists = n < layout.share && (neuron < TILE || layout.tile == 0);
  own.decays = neuron < TILE;
  own.x = neuron < TILE ? layout.tile * TILE + neuron : layout.neurons;
  return own;
}

/* Stores the bf16 terms of a packet of rows l and l + 32, which lane l holds: as neighbours, so a
   sum over rows takes them in this order, 0, 32, 1, 33, ... */
template <int VALUES>
__device__ inline void store_terms(const Packet &first, const Packet &second,
                                   __nv_bfloat16 (*terms)[VALUES][DZ_PITCH], int value) {
  const float a[3] = {first.x, first.y, first.z}, b[3] = {second.x, second.y, second.z};
#pragma unroll
  for (int e = 0; e < 3; e++) {
    const Bf16Split pair = split(a[e], b[e]);
    const uint32_t term[3] = {pair.hi, pair.mid, pair.lo};
#pragma unroll
    for (int i = 0; i < 3; i++)
      *reinterpret_cast<uint32_t *>(&terms[i][value + e][2 * (threadIdx.x % 32)]) = term[i];
  }
}

/* Receives COUNT packets of every row, a warp's own, of which `count` exist, from `first` of the
   records on, into terms. */
template <int COUNT, int VALUES>
__device__ inline void receive_terms(const BlockLayout &layout, int first, int count,
                                     __nv_bfloat16 (*terms)[VALUES][DZ_PITCH], int value,
                                     uint32_t stamp) {
  const Packet *from = record_at(layout, first, threadIdx.x % 32, stamp);
  Packet in[2 * COUNT];
  receive(
      in, stamp, [&](int i) { return i / 2 < count; },
      [&](int i) { return from + i / 2 * ROWS + i % 2 * (ROWS / 2); });
#pragma unroll
  for (int i = 0; i < COUNT; i++)
    if (i < count) store_terms(in[2 * i], in[2 * i + 1], terms, value + 3 * i);
}

/* The gradient of the warp's two packets, (neuron, hidden value): 16 x 6 sums over 64 rows. Six
   products, as in fragment.cuh, in sums of their own for each size and half: short chains of
   dependent products. Lane 4 g + t holds neurons g and g + 8, values 2 t and 2 t + 1. */
__device__ inline void multiply_terms(const RowShared &s, float (&of)[4]) {
  const int l = threadIdx.x % 32;
  const int value = min(l % 8, 5); /* of 8 columns the last two are nobody's */
  float sum[3][2][4] = {};         /* of products of 2^-16, of 2^-8, of 1 */
#pragma unroll
  for (int rows = 0; rows < ROWS; rows += 32) {
    uint32_t b[3][4]; /* of 16 rows: b[0], b[1]; of the next: b[2], b[3] */
#pragma unroll
    for (int i = 0; i < 3; i++)
      ldmatrix_x4(b[i], &s.dz2_terms[patch_warp()][i][value][rows + l / 8 * 8]);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      uint32_t a[3][4];
#pragma unroll
      for (int i = 0; i < 3; i++)
        ldmatrix_x4(a[i], &s.h1_terms[i][l % 16][rows + 16 * half + l / 16 * 8]);
#pragma unroll
      for (int j = 0; j < 3; j++)
#pragma unroll
        for (int i = 0; i + j < 3; i++)
          mma_m16n8k16(sum[2 - i - j][half], a[i], b[j][2 * half], b[j][2 * half + 1]);
    }
  }
#pragma unroll
  for (int e = 0; e < 4; e++) {
    of[e] = 0.0f;
#pragma unroll
    for (int size = 0; size < 3; size++) of[e] += sum[size][0][e] + sum[size][1][e];
  }
}

/* Hands each lane the three values of its packet: lane t of four has neuron g + 8 (t / 2), packet t
   % 2. Value v of six is with lane v / 2; each exchange asks for one value of both packets. */
__device__ inline void gather_packet(const float (&of)[4], float (&g)[3]) {
  const int lane = threadIdx.x % 32, t = lane % 4;
#pragma unroll
  for (int e = 0; e < 3; e++) {
    const int from = lane - t + (3 * (t % 2) + e) / 2;
    const bool gives_second = (t == e / 2 ? e : 3 + e) % 2;
    const float low = __shfl_sync(FULL_WARP, gives_second ? of[1] : of[0], from);
    const float high = __shfl_sync(FULL_WARP, gives_second ? of[3] : of[2], from);
    g[e] = t < 2 ? low : high;
  }
}

/* ---- W3 and b3 ------------------------------------------------------------------------------ */

/* Receives this block's share of H2 and all of dZ3, of every row, into columns. */
__device__ inline void receive_columns(const BlockLayout &layout, RowShared &s, uint32_t stamp) {
  constexpr int COUNT = ceil_div(ROWS * (MAX_SHARE + CLASS_PACKETS), PATCH_THREADS);
  const int packets = ROWS * (layout.share + layout.class_packets);
  const Packet *h2 = record_at(layout, layout.first_h2 + layout.first_packet, 0, stamp);
  const Packet *dz3 = record_at(layout, layout.first_dz3 - layout.share, 0, stamp);
  Packet in[COUNT];
  receive(
      in, stamp, [&](int i) { return patch_thread() + PATCH_THREADS * i < packets; },
      [&](int i) {
        const int n = patch_thread() + PATCH_THREADS * i;
        return (n < ROWS * layout.share ? h2 : dz3) + n;
      });
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    const int n = patch_thread() + PATCH_THREADS * i, row = n % ROWS, packet = n / ROWS;
    if (n >= packets) break;
    float(*to)[COLUMN_PITCH] = packet < layout.share ? &s.h2_column[3 * packet]
                                                     : &s.dz3_column[3 * (packet - layout.share)];
    to[0][row] = in[i].x, to[1][row] = in[i].y, to[2][row] = in[i].z;
  }
}

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
  patch.left = patch.right = s.ones;
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
  load_packet(plan, job, layout, w2);
  load_packet(plan, job, layout, patch.own);
  load_w3_and_b3(plan, job, layout, s.row);
  if (patch_thread() < ROWS) s.row.ones[patch_thread()] = 1.0f;
  if (patch_thread() < ROWS / 2) /* the other terms are 0 */
    *reinterpret_cast<uint32_t *>(&s.row.h1_terms[0][TILE][2 * patch_thread()]) =
        pack_bf16(1.0f, 1.0f);
  patch_sync();
  arrive<PATCH_READ>(PATCH_THREADS + ROW_THREADS);
  arrive<W3_READY>(PATCH_THREADS + HEAD_THREADS);

  uint32_t stamp = job.first_stamp;
  for (uint32_t position = job.position; position < job.end; position += plan.shape.batch) {
    STAMP(STAMP_PATCH);
    /* only a block with a share sends packets of P in return, so only such a block may read mail */
    if (share > 0) {
      wait<H1_SENT>(PATCH_THREADS + ROW_THREADS);
      receive_terms<1>(layout, layout.tile * TILE_PACKETS + patch_warp(), 1, s.row.h1_terms,
                       3 * patch_warp(), stamp);
      patch_sync();
      STAMP(STAMP_H1_RECEIVED);
      wait<DZ2_SENT>(PATCH_THREADS + HEAD_THREADS);
      receive_terms<2>(layout, layout.first_dz2 + layout.first_packet + 2 * patch_warp(),
                       share - 2 * patch_warp(), s.row.dz2_terms[patch_warp()], 0, stamp);
      __syncwarp();
      STAMP(STAMP_DZ2_RECEIVED);
      float of[4], g[3];
      multiply_terms(s.row, of);
      gather_packet(of, g);
      update_packet(job, layout, w2, g, stamp);
      STAMP(STAMP_P_SENT);
      receive_columns(layout, s.row, stamp); /* by now all of this is there */
      patch_sync();
      update_patch(job, layout, patch, stamp);
    } else {
      wait<DZ2_SENT>(PATCH_THREADS + HEAD_THREADS); /* the head has read W3 */
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
