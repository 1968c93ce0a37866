/* The row team of a row block has 10 warps, one or two quads of the batch's rows, and the group's
   neurons of the first layer. A step begins with dZ1 of the previous step for all 64 rows, which
   the row blocks mail each other. It also begins with Z1 without that gradient, from the matrix
   blocks:

     Z1 = X U' - rate K dZ1,   K = products of the pixels of this step's rows and of the last one's

   The team adds this up, applies ReLU, and multiplies by the group's columns of W2. It mails these
   partial sums of Z2 to the owners of the same rows in the other groups. From the sum it makes H2,
   from which the head team (head.cuh) makes dZ2. Back through W2 dZ2 becomes dZ1.

   W2 is held in registers, three hidden values times eight neurons per lane, because shared memory
   would have to deliver every weight again for only four multiplications. The way back needs W2
   transposed, three neurons times eight hidden values. It is copied while Z2 is on its way. */
#pragma once

#include "epoch/team.cuh"

namespace epoch {

/* The part of a thread in the second hidden layer: its packet of hidden values and its part of the
   neurons, part, part + 8, ... */
struct RowLane {
  int packet, part;
  bool exists;
};

/* A thread's part in the first layer: its packet of neurons and its slice. A slice is rows slice,
   slice + 16, ... of the previous dZ1, or hidden values slice, slice + 16, ... on the way back. The
   sums over the slices end in lanes of four, one for each row of a quad. */
struct SliceLane {
  int packet, slice, row, in_row;
  bool exists;
};

/* A lane's part of W2, b2: forward, neurons part, part + 8, ... of hidden values 3 packet to
   3 packet + 2; backward, hidden values slice, slice + 16, ... of such neurons. */
struct RowWeights {
  float w2[PART][3], b2[3];
};
static_assert(PART == HIDDEN_SLICE, "one array for both ways");

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

template <class Shared> struct RowTeam : Team {
  static constexpr int QUADS = Shared::QUADS;
  Shared &s;

  /* Returns the number in the batch of row r of the block's quad q. */
  __device__ int own_row(int q, int r) const {
    return layout.block * s.row.OWNED + QUAD * q + r;
  }
  static __device__ int thread() {
    return threadIdx.x;
  }
  static __device__ void sync() {
    wait<ROW>(ROW_THREADS);
  }
  __device__ RowLane row_lane() const {
    const int packet = thread() / PARTS;
    return {packet, thread() % PARTS, packet < layout.hidden_packets};
  }
  __device__ SliceLane slice_lane() const {
    const int packet = thread() / SLICES, slice = thread() % SLICES;
    return {packet, slice, slice / QUAD, slice % QUAD, packet < layout.neuron_packets};
  }

  /* ---- the first layer ---------------------------------------------------------------------- */

  /* Receives the first term of Z1, of this lane's splits and its row of each quad, and puts K into
     shared memory. `index` is the step's number in the launch. */
  __device__ void receive_z1(uint32_t stamp, uint32_t index, float (&z)[QUADS][3]) const {
    constexpr int COUNT = MAX_SPLITS / QUAD; /* a lane's splits */
    const SliceLane lane = slice_lane();
    const int splits = plan.splits, pitch = QUAD * layout.neuron_packets * ROWS;
    const Packet *from = z1_at(lane.in_row, lane.packet, own_row(0, lane.row), stamp);
    float4 k[QUADS] = {};
    unrolled (q, QUADS)
      if (thread() < ROWS)
        k[q] = __ldg(reinterpret_cast<const float4 *>(job.d_gram) +
                     ((size_t)index * ROWS + thread()) * (ROWS / QUAD) + layout.block * QUADS + q);
    Packet in[QUADS * COUNT];
    receive(
        in, stamp, [&](int i) { return lane.exists && lane.in_row + QUAD * (i % COUNT) < splits; },
        [&](int i) { return from + i / COUNT * QUAD + i % COUNT * pitch; });
    unrolled (q, QUADS) {
      const Packet &a = in[COUNT * q], &b = in[COUNT * q + 1];
      z[q][0] = a.x + b.x, z[q][1] = a.y + b.y, z[q][2] = a.z + b.z;
      if (thread() < ROWS) s.row.k[turn(stamp)][q][thread()] = k[q];
    }
  }

  /* Computes H1 = relu(Z1) of this lane's rows and neurons. `z` is the lane's part of the first
     term, or all of Z1 if `direct`. Mails H1 to the patch teams. */
  __device__ void make_h1(bool direct, const float (&z)[QUADS][3], float (&h)[QUADS][3]) const {
    const SliceLane lane = slice_lane();
    unrolled (q, QUADS)
      unrolled (e, 3) h[q][e] = z[q][e];
    if (!direct) {
      const Packet *from = dz1_at(lane.packet, lane.slice, stamp - 1);
      Packet in[SLICE];
      receive(
          in, stamp - 1, [&](int) { return lane.exists; },
          [&](int i) { return from + i * SLICES; });
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
    /* a + b is b + a, so all four lanes get the same bits */
    unrolled (q, QUADS)
      unrolled (e, 3) {
        h[q][e] += __shfl_xor_sync(FULL_WARP, h[q][e], 2);
        h[q][e] += __shfl_xor_sync(FULL_WARP, h[q][e], 1);
        h[q][e] = activate(h[q][e]);
      }
    if (!lane.exists || lane.in_row) return;
    unrolled (q, QUADS) {
      unrolled (e, 3)
        reinterpret_cast<float *>(&s.row.h1[q][3 * lane.packet + e])[lane.row] = h[q][e];
      send(record_at(lane.packet, own_row(q, lane.row)), h[q][0], h[q][1], h[q][2], stamp);
    }
  }

  /* ---- the second layer --------------------------------------------------------------------- */

  /* Reads W2 and b2 from the parameters. */
  __device__ void load_w2(RowWeights &weights) const {
    const RowLane lane = row_lane();
    const auto value = [&](int x, int o) {
      const long long offset = lane.exists ? p_offset(x, o) : -1;
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
  __device__ void receive_w2(RowWeights &weights, uint32_t stamp) const {
    const RowLane lane = row_lane();
    const int neurons = layout.neurons, pitch = PARTS * layout.hidden_packets;
    const Packet *from = p_at(lane.part, lane.packet);
    const Packet *bias = p_at(neurons, lane.packet);
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
     are added by shuffles that halve what a lane carries, so that lanes 2 r and 2 r + 1 end with
     row r. */
  static __device__ void multiply_w2(const float4 *h1, const RowWeights &weights, int part,
                                     float (&z)[QUAD][3]) {
    unrolled (k, PART) {
      const float4 h = h1[part + PARTS * k];
      add_product(z, weights.w2[k], h);
    }
    add_lanes<PARTS>(z, part);
    unrolled (e, 3) z[0][e] += __shfl_xor_sync(FULL_WARP, z[0][e], 1);
  }

  /* Puts the lane's part of W2 into shared memory. */
  __device__ void store_w2(const RowWeights &weights) const {
    const RowLane lane = row_lane();
    unrolled (k, PART)
      unrolled (e, 3) s.row.w2[lane.part + PARTS * k][3 * lane.packet + e] = weights.w2[k][e];
  }

  /* Loads the lane's part of W2 for the way back from shared memory. */
  __device__ void load_back(RowWeights &weights) const {
    const SliceLane back = slice_lane();
    unrolled (i, HIDDEN_SLICE)
      unrolled (e, 3) weights.w2[i][e] = s.row.w2[3 * back.packet + e][back.slice + SLICES * i];
  }

  /* Returns where the mail of the group's part of Z2 is, of row `r` of the block; the other groups'
     parts lie beside it. */
  __device__ Packet *z2_at(int group, int r) const {
    const int row = turn(stamp) * ROWS + layout.block * s.row.OWNED + r;
    return layout.z2 + (row * plan.groups + group) * layout.hidden_packets;
  }

  /* Mails the group's part of Z2 to the owners of the same rows in the other groups. */
  __device__ void send_z2(const RowWeights &weights) const {
    const RowLane lane = row_lane();
    unrolled (q, QUADS) {
      float z[QUAD][3] = {};
      multiply_w2(s.row.h1[q], weights, lane.part, z);
      if (lane.exists && lane.part % 2 == 0)
        send(z2_at(layout.group, QUAD * q + lane.part / 2) + lane.packet, z[0][0], z[0][1], z[0][2],
             stamp);
    }
  }

  /* Computes H2 = relu(Z2) of the block's rows. Receives the groups' parts, in lanes 2 r and 2 r +
     1 for row r of a quad, and mails H2 to the other teams. Meanwhile it transposes the weights for
     the way back. */
  __device__ void make_h2(RowWeights &weights) const {
    constexpr int COUNT = MAX_GROUPS<QUADS> / 2; /* a lane's groups */
    const RowLane lane = row_lane();
    const int r = lane.part / 2, odd = lane.part % 2, groups = plan.groups;
    store_w2(weights);
    if (!Shared::IS_LATE) {
      sync();
      load_back(weights);
    }
    const Packet *from = z2_at(odd, r) + lane.packet;
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
        h[q][e] += __shfl_xor_sync(FULL_WARP, h[q][e], 1); /* both lanes get the same bits */
        h[q][e] = activate(h[q][e] + weights.b2[e]);
      }
    }
    if (!lane.exists || odd) return;
    unrolled (q, QUADS) {
      unrolled (e, 3) s.row.h2[QUAD * q + r][3 * lane.packet + e] = h[q][e];
      send(record_at(layout.first_h2 + lane.packet, own_row(q, r)), h[q][0], h[q][1], h[q][2],
           stamp);
    }
  }

  /* Computes dZ1 = dZ2 W2 where H1, h of this lane's rows and neurons, is positive, and mails it to
     the matrix blocks and the row blocks of the group. */
  __device__ void make_dz1(const RowWeights &weights, const float (&h)[QUADS][3]) const {
    const SliceLane lane = slice_lane();
    unrolled (q, QUADS) {
      float z[QUAD][3] = {};
      unrolled (i, HIDDEN_SLICE) {
        const float4 d = s.row.dz2[q][lane.slice + SLICES * i];
        add_product(z, weights.w2[i], d);
      }
      add_lanes<SLICES>(z, lane.slice);
      unrolled (e, 3) {
        z[0][e] += __shfl_xor_sync(FULL_WARP, z[0][e], 2);
        z[0][e] += __shfl_xor_sync(FULL_WARP, z[0][e], 1);
        if (h[q][e] <= 0.0f) z[0][e] = 0.0f;
      }
      if (lane.exists && lane.in_row == 0)
        send(dz1_at(lane.packet, own_row(q, lane.row), stamp), z[0][0], z[0][1], z[0][2], stamp);
    }
  }

  /* Runs all steps of the launch, as the row team sees them. The first term of Z1 of the next step
     comes while the head works; in a direct step it comes only after dZ1 was sent. If matrix blocks
     have four tiles, it always comes late, or dZ1 would wait for the matrix blocks in each step. */
  __device__ void run() {
    RowWeights weights;
    float z[QUADS][3], h[QUADS][3];
    load_w2(weights);
    wait<PARAMETERS_READ>(THREADS_OF_ROW_BLOCK);

    for (begin(); has_step(); next_step()) {
      const bool direct = index == 0 || is_direct(step);
      const bool ahead = next_position() < job.end && !is_direct(step + 1);
      if (direct || Shared::IS_LATE) receive_z1(stamp, index, z);
      if (Shared::IS_LATE) sync(); /* K is there */
      make_h1(direct, z, h);
      if (index > 0) receive_w2(weights, stamp - 1);
      sync();
      /* only now: W2 of the block's patches shows that they have taken the last signal */
      if (layout.share > 0) arrive<H1_SENT>(ROW_THREADS + PATCH_THREADS);
      send_z2(weights);
      if (index > 0) arrive<Z2_SENT>(ROW_THREADS + HEAD_THREADS);
      make_h2(weights);
      sync(); /* racecheck does not know that the arrival alone publishes H2; 0.5% of an epoch */
      arrive<H2_READY>(ROW_THREADS + HEAD_THREADS);
      if (Shared::IS_LATE) load_back(weights); /* only now: registers are short */
      if (ahead && !Shared::IS_LATE) receive_z1(stamp + 1, index + 1, z);
      wait<DZ2_READY>(ROW_THREADS + HEAD_THREADS);
      make_dz1(weights, h);
    }
  }
};

} // namespace epoch
