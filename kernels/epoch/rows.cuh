/* The row team of a row block: a quad of rows of the batch, or two, of the group's neurons of the
   first layer; 10 warps. A step begins with dZ1 of the step before, of all 64 rows, which the row
   blocks mail to each other, and with Z1 as it would be without that gradient, from the matrix
   blocks:

     Z1 = X U' - rate K dZ1,   K = products of the pixels of this step's rows and of the last one's

   The team adds this up, applies ReLU, and multiplies with the group's columns of W2: partial sums
   of Z2, mailed to the owners of the same rows in the other groups. From their sum it forms H2, of
   which the head team (head.cuh) makes dZ2. Back through W2 that becomes dZ1.

   W2 is held in registers, three hidden values times eight neurons per lane, because shared memory
   would have to deliver every weight again for only four multiplications. The way back wants it
   transposed, three neurons times eight hidden values; it is copied while Z2 is on its way. */
#pragma once

#include "epoch/layout.cuh"

namespace epoch {

__device__ inline int row_thread() {
  return threadIdx.x;
}

__device__ inline void row_sync() {
  wait<ROW>(ROW_THREADS);
}

/* The part of a thread in the second hidden layer: its packet of hidden values and its part of the
   neurons, part, part + 8, ... */
struct RowLane {
  int packet, part;
  bool exists;
};

__device__ inline RowLane row_lane(const BlockLayout &layout) {
  const int packet = row_thread() / PARTS;
  return {packet, row_thread() % PARTS, packet < layout.hidden_packets};
}

/* Its part in the first: its packet of neurons, and its slice, which is rows slice, slice +
   16, ... of dZ1 of the step before, or hidden values slice, slice + 16, ... on the way back. The
   sums over the slices end in lanes of four, one for each row of a quad. */
struct SliceLane {
  int packet, slice, row, in_row;
  bool exists;
};

__device__ inline SliceLane slice_lane(const BlockLayout &layout) {
  const int packet = row_thread() / SLICES, slice = row_thread() % SLICES;
  return {packet, slice, slice / QUAD, slice % QUAD, packet < layout.neuron_packets};
}

/* Adds z, three values by 4 rows per lane, over LANES neighbouring lanes, of which this is number
   `lane`, but for the last exchanges: in each exchange a lane gives away the half of the rows that
   the lane opposite keeps. Row lane / (LANES / 4) ends in z[0], in LANES / 4 parts. */
template <int LANES> __device__ inline void add_lanes(float (&z)[QUAD][3], int lane) {
#pragma unroll
  for (int half = QUAD / 2, step = LANES / 2; half > 0; half /= 2, step /= 2)
    unrolled (r, half)
      unrolled (e, 3) {
        const bool upper = lane & step;
        const float give = upper ? z[r][e] : z[r + half][e];
        z[r][e] = (upper ? z[r + half][e] : z[r][e]) + __shfl_xor_sync(FULL_WARP, give, step);
      }
}

/* z += w times x of four rows, for three values. */
__device__ inline void add_product(float (&z)[QUAD][3], const float (&w)[3], const float4 &x) {
  unrolled (e, 3)
    z[0][e] += w[e] * x.x, z[1][e] += w[e] * x.y, z[2][e] += w[e] * x.z, z[3][e] += w[e] * x.w;
}

/* ---- the first layer ------------------------------------------------------------------------ */

/* Receives the first term of Z1, of this lane's splits and its row of each quad, and puts K into
   shared memory. `index`: of the step within the launch. */
template <class Shared, int QUADS>
__device__ inline void receive_z1(const EpochPlan &plan, const EpochJob &job, Shared &s,
                                  uint32_t stamp, uint32_t index, float (&z)[QUADS][3]) {
  constexpr int COUNT = MAX_SPLITS / QUAD; /* a lane's splits */
  const BlockLayout &layout = s.layout;
  const SliceLane lane = slice_lane(layout);
  const int splits = plan.splits, pitch = QUAD * layout.neuron_packets * ROWS;
  const Packet *from =
      z1_at(layout, lane.in_row, lane.packet, layout.block * s.row.OWNED + lane.row, stamp);
  float4 k[QUADS] = {};
  unrolled (q, QUADS)
    if (row_thread() < ROWS)
      k[q] =
          __ldg(reinterpret_cast<const float4 *>(job.d_gram) +
                ((size_t)index * ROWS + row_thread()) * (ROWS / QUAD) + layout.block * QUADS + q);
  Packet in[QUADS * COUNT];
  receive(
      in, stamp, [&](int i) { return lane.exists && lane.in_row + QUAD * (i % COUNT) < splits; },
      [&](int i) { return from + i / COUNT * QUAD + i % COUNT * pitch; });
  unrolled (q, QUADS) {
    const Packet &a = in[COUNT * q], &b = in[COUNT * q + 1];
    z[q][0] = a.x + b.x, z[q][1] = a.y + b.y, z[q][2] = a.z + b.z;
    if (row_thread() < ROWS) s.row.k[turn(stamp)][q][row_thread()] = k[q];
  }
}

/* Computes H1 = relu(Z1) of this lane's rows and neurons. z: the lane's part of the first term;
   direct: that is all. Mails H1 to the patch teams. */
template <class Shared, int QUADS>
__device__ inline void make_h1(const EpochJob &job, Shared &s, uint32_t stamp, bool direct,
                               const float (&z)[QUADS][3], float (&h)[QUADS][3]) {
  const BlockLayout &layout = s.layout;
  const SliceLane lane = slice_lane(layout);
  unrolled (q, QUADS)
    unrolled (e, 3) h[q][e] = z[q][e];
  if (!direct) {
    const Packet *from = dz1_at(layout, lane.packet, lane.slice, stamp - 1);
    Packet in[SLICE];
    receive(
        in, stamp - 1, [&](int) { return lane.exists; }, [&](int i) { return from + i * SLICES; });
    unrolled (q, QUADS) {
      float sum[QUAD][3] = {};
      unrolled (i, SLICE) {
        const float4 k = s.row.k[turn(stamp)][q][lane.slice + SLICES * i];
        add_product(sum, {in[i].x, in[i].y, in[i].z}, k);
      }
      add_lanes<SLICES>(sum, lane.slice);
      unrolled (e, 3) h[q][e] -= job.learning_rate * sum[0][e];
    }
  }
  /* a + b is b + a: all four get the same bits */
  unrolled (q, QUADS)
    unrolled (e, 3) {
      h[q][e] += __shfl_xor_sync(FULL_WARP, h[q][e], 2);
      h[q][e] += __shfl_xor_sync(FULL_WARP, h[q][e], 1);
      h[q][e] = relu_of(h[q][e]);
    }
  if (!lane.exists || lane.in_row) return;
  unrolled (q, QUADS) {
    unrolled (e, 3)
      reinterpret_cast<float *>(&s.row.h1[q][3 * lane.packet + e])[lane.row] = h[q][e];
    send(record_at(layout, lane.packet, layout.block * s.row.OWNED + QUAD * q + lane.row, stamp),
         h[q][0], h[q][1], h[q][2], stamp);
  }
}

/* ---- the second layer ----------------------------------------------------------------------- */

/* A lane's part of W2 and b2: forward, neurons part, part + 8, ... of hidden values 3 packet .. 3
   packet + 2; backward, hidden values slice, slice + 16, ... of neurons 3 packet .. 3 packet + 2.
 */
struct RowWeights {
  float w2[PART][3], b2[3];
};
static_assert(PART == HIDDEN_SLICE, "one array for both ways");

/* Reads W2 and b2 from the parameters. */
__device__ inline void load_w2(const EpochPlan &plan, const EpochJob &job,
                               const BlockLayout &layout, RowWeights &weights) {
  const RowLane lane = row_lane(layout);
  const auto value = [&](int x, int o) {
    const long long offset = lane.exists ? p_offset(plan, job, layout, x, o) : -1;
    return offset < 0 ? 0.0f : job.d_parameters[offset];
  };
  unrolled (e, 3) {
    const int o = 3 * lane.packet + e;
    unrolled (k, PART) {
      const int j = lane.part + PARTS * k;
      weights.w2[k][e] = j < layout.neurons ? value(j, o) : 0.0f;
    }
    weights.b2[e] = value(layout.neurons, o);
  }
}

/* Receives W2 and b2 of a later step from the patch teams. */
__device__ inline void receive_w2(const BlockLayout &layout, RowWeights &weights, uint32_t stamp) {
  const RowLane lane = row_lane(layout);
  const int neurons = layout.neurons, pitch = PARTS * layout.hidden_packets;
  const Packet *from = p_at(layout, lane.part, lane.packet);
  const Packet *bias = p_at(layout, neurons, lane.packet);
  Packet in[PART + 1];
  receive(
      in, stamp,
      [&](int i) { return lane.exists && (i == PART || lane.part + PARTS * i < neurons); },
      [&](int i) { return i < PART ? from + i * pitch : bias; });
  unrolled (k, PART)
    weights.w2[k][0] = in[k].x, weights.w2[k][1] = in[k].y, weights.w2[k][2] = in[k].z;
  weights.b2[0] = in[PART].x, weights.b2[1] = in[PART].y, weights.b2[2] = in[PART].z;
}

/* Computes the group's part of Z2 of a quad. Each lane multiplies its part of W2. The eight parts
   are added by shuffles that halve what a lane carries, so that lanes 2 r and 2 r + 1 end with row
   r. */
__device__ inline void multiply_w2(const float4 *h1, const RowWeights &weights, int part,
                                   float (&z)[QUAD][3]) {
  unrolled (k, PART) {
    const float4 h = h1[part + PARTS * k];
    add_product(z, weights.w2[k], h);
  }
  add_lanes<PARTS>(z, part);
  unrolled (e, 3) z[0][e] += __shfl_xor_sync(FULL_WARP, z[0][e], 1);
}

/* Puts the lane's part of W2 into shared memory. */
__device__ inline void store_w2(const BlockLayout &layout, float (*w2)[W2_PITCH],
                                const RowWeights &weights) {
  const RowLane lane = row_lane(layout);
  unrolled (k, PART)
    unrolled (e, 3) w2[lane.part + PARTS * k][3 * lane.packet + e] = weights.w2[k][e];
}

/* Loads the lane's part of W2 for the way back from there. */
__device__ inline void load_back(const BlockLayout &layout, const float (*w2)[W2_PITCH],
                                 RowWeights &weights) {
  const SliceLane back = slice_lane(layout);
  unrolled (i, HIDDEN_SLICE)
    unrolled (e, 3) weights.w2[i][e] = w2[3 * back.packet + e][back.slice + SLICES * i];
}

/* Returns where the mail of the group's part of Z2 is, of row `r` of the block; the other groups'
   parts lie beside it. */
template <int QUADS>
__device__ inline Packet *z2_at(const EpochPlan &plan, const BlockLayout &layout, int group, int r,
                                uint32_t stamp) {
  const int row = turn(stamp) * ROWS + layout.block * RowShared<QUADS>::OWNED + r;
  return layout.z2 + (row * plan.groups + group) * layout.hidden_packets;
}

/* Mails the group's part of Z2 to the owners of the same rows in the other groups. */
template <class Shared>
__device__ inline void send_z2(const EpochPlan &plan, const Shared &s, const RowWeights &weights,
                               uint32_t stamp) {
  constexpr int QUADS = Shared::QUADS;
  const BlockLayout &layout = s.layout;
  const RowLane lane = row_lane(layout);
  unrolled (q, QUADS) {
    float z[QUAD][3] = {};
    multiply_w2(s.row.h1[q], weights, lane.part, z);
    if (lane.exists && lane.part % 2 == 0)
      send(z2_at<QUADS>(plan, layout, layout.group, QUAD * q + lane.part / 2, stamp) + lane.packet,
           z[0][0], z[0][1], z[0][2], stamp);
  }
}

/* Computes H2 = relu(Z2) of the block's rows. It receives the groups' parts, in lanes 2 r and 2 r +
   1 for row r of a quad; mails H2 to the other teams. Meanwhile the weights are turned for the way
   back. */
template <class Shared>
__device__ inline void make_h2(const EpochPlan &plan, Shared &s, RowWeights &weights,
                               uint32_t stamp) {
  constexpr int QUADS = Shared::QUADS, COUNT = MAX_GROUPS<QUADS> / 2; /* a lane's groups */
  const BlockLayout &layout = s.layout;
  const RowLane lane = row_lane(layout);
  const int r = lane.part / 2, odd = lane.part % 2, groups = plan.groups;
  store_w2(layout, s.row.w2, weights);
  if (!Shared::IS_LATE) {
    row_sync();
    load_back(layout, s.row.w2, weights);
  }
  const Packet *from = z2_at<QUADS>(plan, layout, odd, r, stamp) + lane.packet;
  const int pitch = 2 * layout.hidden_packets, of_quad = QUAD * groups * layout.hidden_packets;
  Packet in[QUADS * COUNT];
  receive(
      in, stamp, [&](int i) { return lane.exists && 2 * (i % COUNT) + odd < groups; },
      [&](int i) { return from + i / COUNT * of_quad + i % COUNT * pitch; });
  float h[QUADS][3] = {};
  unrolled (q, QUADS) {
#pragma unroll
    for (int i = COUNT * q; i < COUNT * (q + 1); i++)
      h[q][0] += in[i].x, h[q][1] += in[i].y, h[q][2] += in[i].z;
    unrolled (e, 3) {
      h[q][e] += __shfl_xor_sync(FULL_WARP, h[q][e], 1); /* as above: both get the same bits */
      h[q][e] = relu_of(h[q][e] + weights.b2[e]);
    }
  }
  if (!lane.exists || odd) return;
  unrolled (q, QUADS) {
    unrolled (e, 3) s.row.h2[QUAD * q + r][3 * lane.packet + e] = h[q][e];
    send(record_at(layout, layout.first_h2 + lane.packet, layout.block * s.row.OWNED + QUAD * q + r,
                   stamp),
         h[q][0], h[q][1], h[q][2], stamp);
  }
}

/* Computes dZ1 = dZ2 W2 where H1, h of this lane's rows and neurons, is positive, and mails it to
   the matrix blocks and the row blocks of the group. */
template <int QUADS>
__device__ inline void make_dz1(const BlockLayout &layout, const RowShared<QUADS> &s,
                                const RowWeights &weights, const float (&h)[QUADS][3],
                                uint32_t stamp) {
  const SliceLane lane = slice_lane(layout);
  unrolled (q, QUADS) {
    float z[QUAD][3] = {};
    unrolled (i, HIDDEN_SLICE) {
      const float4 d = s.dz2[q][lane.slice + SLICES * i];
      add_product(z, weights.w2[i], d);
    }
    add_lanes<SLICES>(z, lane.slice);
    unrolled (e, 3) {
      z[0][e] += __shfl_xor_sync(FULL_WARP, z[0][e], 2);
      z[0][e] += __shfl_xor_sync(FULL_WARP, z[0][e], 1);
      if (h[q][e] <= 0.0f) z[0][e] = 0.0f;
    }
    if (lane.exists && lane.in_row == 0)
      send(dz1_at(layout, lane.packet, layout.block * s.OWNED + QUAD * q + lane.row, stamp),
           z[0][0], z[0][1], z[0][2], stamp);
  }
}

/* Runs all steps of the launch, as the row team sees them. The first term of Z1 of the next step
   comes while the head works; that of a direct step only after dZ1 was sent, as does every one,
   late, where matrix blocks have four tiles: else dZ1 would wait for them within each step. */
template <class Shared>
__device__ void row_team(const EpochPlan &plan, const EpochJob &job, Shared &s) {
  const BlockLayout &layout = s.layout;
  RowWeights weights;
  float z[Shared::QUADS][3], h[Shared::QUADS][3];
  load_w2(plan, job, layout, weights);
  wait<PARAMETERS_READ>(THREADS_OF_ROW_BLOCK);

  uint32_t stamp = job.first_stamp, step = first_step_of(plan, job), index = 0;
  for (uint32_t position = job.position; position < job.end; position += plan.shape.batch) {
    STAMP(STAMP_ROW);
    const bool direct = index == 0 || is_direct(step);
    const bool ahead = position + plan.shape.batch < job.end && !is_direct(step + 1);
    if (direct || Shared::IS_LATE) receive_z1(plan, job, s, stamp, index, z);
    if (Shared::IS_LATE) row_sync(); /* K is there */
    make_h1(job, s, stamp, direct, z, h);
    STAMP(STAMP_H1_SENT);
    if (index > 0) receive_w2(layout, weights, stamp - 1);
    row_sync();
    /* not before: W2 of the block's own patches says that these have taken the last signal */
    if (layout.share > 0) arrive<H1_SENT>(ROW_THREADS + PATCH_THREADS);
    STAMP(STAMP_W2_RECEIVED);
    send_z2(plan, s, weights, stamp);
    if (index > 0) arrive<Z2_SENT>(ROW_THREADS + HEAD_THREADS);
    STAMP(STAMP_Z2_SENT);
    make_h2(plan, s, weights, stamp);
    row_sync(); /* racecheck does not know that the arrival alone publishes H2; 0.5% of an epoch */
    arrive<H2_READY>(ROW_THREADS + HEAD_THREADS);
    if (Shared::IS_LATE) load_back(layout, s.row.w2, weights); /* not before: registers are short */
    STAMP(STAMP_Z2_RECEIVED);
    if (ahead && !Shared::IS_LATE) receive_z1(plan, job, s, stamp + 1, index + 1, z);
    STAMP(STAMP_Z1_RECEIVED);
    wait<DZ2_READY>(ROW_THREADS + HEAD_THREADS);
    STAMP(STAMP_DZ2_READY);
    make_dz1(layout, s.row, weights, h, stamp);
    STAMP(STAMP_DZ1_SENT);
    stamp++;
    step++;
    index++;
  }
}

} // namespace epoch
