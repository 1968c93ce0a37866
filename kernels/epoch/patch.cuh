/* The patch team of the epoch kernel: the part of W2, W3, b2 and b3 that this block updates, while
   the other teams go on. A patch is 3 x 3 values, the product of three columns over the batch's
   rows with three others:
     W2  H1 with dZ2      W3  dZ3 with H2      b2  ones with dZ2      b3  ones with dZ3
   Four lanes share a patch: each adds a quarter of the rows, then owns one row of the patch, one
   packet, with its momentum in registers from the first step of the launch to the last. */
#ifndef EPOCH_PATCH_CUH
#define EPOCH_PATCH_CUH

#include "epoch/layout.cuh"

namespace epoch {

constexpr int QUARTERS = 4, QUARTER = ROWS / QUARTERS;

__device__ inline int patch_thread() {
  return threadIdx.x - MATRIX_THREADS - ROW_THREADS;
}

__device__ inline void patch_sync() {
  wait<PATCH>(PATCH_THREADS);
}

/* A lane's part of a patch. */
struct Patch {
  bool computes, owns; /* this lane adds a quarter; it owns a packet of P */
  bool decays;
  int x, packet;             /* row of P, packet within the row */
  const float *left, *right; /* columns, from this lane's quarter on */
  int left_pitch;            /* 0: the same column three times */
  float w[3], v[3];
};

__host__ __device__ inline int patches_of(int share, int class_packets) {
  return (TILE_PACKETS + 2) * share + class_packets;
}

/* The patches of a block, in this order: W2 (5 x share), W3, b2 (share each), b3. */
__device__ Patch find_patch(const EpochPlan &plan, const BlockLayout &layout, const Shared &s) {
  Patch patch = {};
  const int n = patch_thread() / QUARTERS, quarter = patch_thread() % QUARTERS;
  const int in_w2 = TILE_PACKETS * layout.share,
            kind = n < in_w2 ? 0 : 1 + (n - in_w2) / max(layout.share, 1);
  const int in_share = layout.share > 0 ? n % layout.share : 0;
  patch.packet = layout.first_packet + in_share;
  patch.left_pitch = COLUMN_PITCH;
  if (layout.share > 0 && kind == 0) {
    const int neuron = 3 * (n / layout.share);
    patch.computes = true;
    patch.decays = true;
    patch.x = layout.tile * TILE + neuron + quarter;
    patch.owns = quarter < 3;
    patch.left = s.h1_column[neuron];
    patch.right = s.dz2_column[3 * in_share];
  } else if (layout.share > 0 && kind == 1) {
    const int c = 3 * layout.tile + quarter;
    patch.computes = layout.tile < layout.class_packets;
    patch.decays = true;
    patch.x = layout.neurons + 1 + c;
    patch.owns = quarter < 3 && c < plan.shape.classes;
    patch.left = s.dz3_column[3 * layout.tile];
    patch.right = s.h2_column[3 * in_share];
  } else if (layout.share > 0 && kind == 2) {
    patch.computes = layout.tile == 0; /* once per group */
    patch.x = layout.neurons;
    patch.owns = quarter == 0;
    patch.left = s.ones;
    patch.left_pitch = 0;
    patch.right = s.dz2_column[3 * in_share];
  } else if (layout.block == 0) {
    const int k = n - (TILE_PACKETS + 2) * layout.share;
    patch.computes = k < layout.class_packets;
    patch.x = layout.p_rows;
    patch.packet = k;
    patch.owns = quarter == 0;
    patch.left = s.ones;
    patch.left_pitch = 0;
    patch.right = s.dz3_column[3 * min(k, layout.class_packets - 1)];
  }
  patch.owns = patch.owns && patch.computes;
  patch.left += quarter * QUARTER;
  patch.right += quarter * QUARTER;
  return patch;
}

/* The offset in the flat arrays of value e of the lane's packet, or -1. */
__device__ inline long long patch_offset(const EpochPlan &plan, const EpochJob &job,
                                         const BlockLayout &layout, const Patch &patch, int e) {
  return patch.owns ? p_offset(plan, job, layout, patch.x, 3 * patch.packet + e) : -1;
}

/* Which packets of every row's record the patches need, and to which column they go: H1, H2, then
   dZ2, dZ3. */
__device__ void find_columns(const BlockLayout &layout, Shared &s) {
  for (int k = patch_thread(); k < layout.early + layout.late; k += PATCH_THREADS) {
    const float *columns = s.h1_column[0];
    const int h2 = k - TILE_PACKETS, dz2 = h2 - layout.share, dz3 = dz2 - layout.share;
    const float *to = h2 < 0    ? s.h1_column[3 * k]
                      : dz2 < 0 ? s.h2_column[3 * h2]
                      : dz3 < 0 ? s.dz2_column[3 * dz2]
                                : s.dz3_column[3 * dz3];
    s.to[k] = (short)(to - columns);
    s.from[k] =
        (short)(h2 < 0    ? layout.tile * TILE_PACKETS + k
                : dz2 < 0 ? layout.neuron_packets + layout.hidden_packets + layout.first_packet + h2
                : dz3 < 0 ? layout.neuron_packets + layout.first_packet + dz2
                          : layout.neuron_packets + 2 * layout.hidden_packets + dz3);
  }
}

/* Waits until it is time to poll for H1 and H2. A block that owns no rows has no row team to signal
   it: one thread polls, with pauses, for the first row's packet. */
__device__ void await_early(const BlockLayout &layout, uint32_t stamp) {
  if (layout.owner) {
    wait<H2_SENT>(PATCH_THREADS + ROW_THREADS);
  } else if (layout.share > 0) {
    if (patch_thread() == 0)
      poll_with_sleep(layout.records + layout.neuron_packets + layout.hidden_packets, stamp);
    patch_sync();
  }
}

/* Likewise for dZ2 and dZ3. In a block that owns no rows the patch team then signals the matrix
   team. */
__device__ void await_late(const BlockLayout &layout, uint32_t stamp) {
  if (layout.owner) {
    wait<DZ2_SENT>(PATCH_THREADS + ROW_THREADS);
    return;
  }
  if (patch_thread() == 0) poll_with_sleep(layout.records + layout.neuron_packets, stamp);
  patch_sync();
  arrive<DZ1_SENT>(PATCH_THREADS + MATRIX_THREADS);
}

/* Receives columns k0 to k0 + count - 1 of all 64 rows; by: divisor_of(count). */
__device__ void receive_columns(const BlockLayout &layout, Shared &s, int k0, int count, int by,
                                uint32_t stamp) {
  constexpr int AT_ONCE = 3; /* in flight together: all of a network of 300 and 100 */
  const int packets = ROWS * count;
  for (int first = patch_thread(); first < packets; first += AT_ONCE * PATCH_THREADS) {
    /* ceil_div() written out: with it, nvcc 13.0 schedules the whole kernel another way. */
    const int left = (packets - first + PATCH_THREADS - 1) / PATCH_THREADS;
    const auto from = [&](int i) {
      const int n = first + PATCH_THREADS * i, row = divide(n, by);
      return layout.records + row * layout.record + s.from[k0 + n - row * count];
    };
    Packet in[AT_ONCE];
    receive(
        in, stamp, [&](int i) { return i < left; }, from);
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
      const int n = first + PATCH_THREADS * i, row = divide(n, by);
      if (n >= packets) break;
      float *to = s.h1_column[0] + s.to[k0 + n - row * count] + row;
      to[0] = in[i].x;
      to[COLUMN_PITCH] = in[i].y;
      to[2 * COLUMN_PITCH] = in[i].z;
    }
  }
}

/* The patch's gradient and its update; mails the new values to the group's owners of rows. Lane: 3
   x 3 sums over 16 rows, then one packet. */
__device__ void update_patch(const EpochJob &job, const BlockLayout &layout, Patch &patch,
                             uint32_t stamp) {
  if (!__any_sync(FULL_WARP, patch.computes)) return;
  float g[3][3] = {};
  if (patch.computes)
#pragma unroll
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
  const UpdateRule rule = {job.rule.momentum, patch.decays ? job.rule.weight_decay : 0.0f};
#pragma unroll
  for (int e = 0; e < 3; e++) {
    float mine = 0.0f;
#pragma unroll
    for (int i = 0; i < 3; i++) {
      float sum = g[i][e];
      sum += __shfl_xor_sync(FULL_WARP, sum, 1);
      sum += __shfl_xor_sync(FULL_WARP, sum, 2);
      mine = quarter == i ? sum : mine;
    }
    update_value(patch.w[e], patch.v[e], mine, rule, job.learning_rate);
  }
  if (patch.owns)
    send(layout.p + patch.x * layout.hidden_packets + patch.packet, patch.w[0], patch.w[1],
         patch.w[2], stamp);
}

/* Receives W3 and b3 of the next step, for the row team of this block. */
__device__ void receive_w3(const EpochPlan &plan, const BlockLayout &layout, Shared &s,
                           uint32_t stamp) {
  constexpr int COUNT = ceil_div(MAX_CLASSES * MAX_HIDDEN2 / 3 + MAX_CLASSES / 3, PATCH_THREADS);
  const int in_w3 = plan.shape.classes * layout.hidden_packets,
            packets = in_w3 + layout.class_packets;
  const Packet *from = layout.p + (layout.neurons + 1) * layout.hidden_packets + patch_thread();
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

/* All steps of the launch, as the patch team sees them. */
__device__ void patch_team(const EpochPlan &plan, const EpochJob &job, Shared &s) {
  const BlockLayout &layout = s.layout;
  Patch patch = find_patch(plan, layout, s);
  find_columns(layout, s);
  for (int e = 0; e < 3; e++) {
    const long long offset = patch_offset(plan, job, layout, patch, e);
    patch.w[e] = offset < 0 ? 0.0f : job.d_parameters[offset];
    patch.v[e] = offset < 0 ? 0.0f : job.d_momentum[offset];
  }
  arrive<PATCH_READ>(PATCH_THREADS + ROW_THREADS);

  uint32_t stamp = job.first_stamp;
  for (uint32_t position = job.position; position < job.end; position += plan.shape.batch) {
    STAMP(STAMP_PATCH);
    /* only a block with a share sends packets of P in return, so only such a block may read mail */
    await_early(layout, stamp);
    if (layout.share > 0) receive_columns(layout, s, 0, layout.early, layout.by_early, stamp);
    STAMP(STAMP_EARLY_RECEIVED);
    await_late(layout, stamp);
    if (layout.share > 0) {
      receive_columns(layout, s, layout.early, layout.late, layout.by_late, stamp);
      patch_sync();
      STAMP(STAMP_LATE_RECEIVED);
      update_patch(job, layout, patch, stamp);
      STAMP(STAMP_P_SENT);
    }
    if (layout.owner) {
      arrive<P_SENT>(PATCH_THREADS + ROW_THREADS);
      if (position + plan.shape.batch < job.end) {
        receive_w3(plan, layout, s, stamp);
        arrive<W3_READY>(PATCH_THREADS + ROW_THREADS);
        STAMP(STAMP_W3_RECEIVED);
      }
    }
    patch_sync(); /* before the columns change */
    stamp++;
  }

  if (patch.x >= layout.neurons && layout.group > 0)
    return; /* b2, W3, b3 are the same in every group */
  for (int e = 0; e < 3; e++) {
    const long long offset = patch_offset(plan, job, layout, patch, e);
    if (offset < 0) continue;
    job.d_parameters[offset] = patch.w[e];
    job.d_momentum[offset] = patch.v[e];
  }
}

} // namespace epoch

#endif
