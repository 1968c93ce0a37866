/* The head team of a row block makes the last layer of the block's rows, forward and backward, one
   warp per row of a quad. It has its part of W3 and b3. From H2 it makes the logits, softmax, the
   row's results, dZ3 and dZ2, which it mails to the patch teams and leaves in shared memory for the
   row team. All these sums are within a warp.

   Then, while the other teams go back and forth, it updates W3 and b3 in float32, in 3 x 3 patches.
   Their gradients are sums over the batch's rows, of dZ3 with H2 and of dZ3 with ones. */
#pragma once

#include "epoch/team.cuh"

namespace epoch {

/* ---- forward and backward ------------------------------------------------------------------- */

/* A lane has four hidden values: 3 lane .. 3 lane + 2, a packet, and 96 + lane, a third of one. */
constexpr int LANE_VALUES = 4;
constexpr int FIRST_THIRD = 96;
static_assert(MAX_HIDDEN2 <= FIRST_THIRD + 32 && HEAD_PITCH >= FIRST_THIRD + 32, "a lane for each");

/* Returns the number of value v of this lane. */
__device__ inline int hidden_of(int v) {
  const int lane = threadIdx.x % 32;
  return v < 3 ? 3 * lane + v : FIRST_THIRD + lane;
}

/* A lane's part of W3, and b3 of class lane / 2: -infinity if there is no such class. */
struct HeadWeights {
  float w3[MAX_CLASSES][LANE_VALUES], b3;
};

/* Adds sum[0 .. 2 HALF) over the warp. In each exchange a lane gives away the half that the lane
   opposite keeps. */
template <int HALF, int STEP> __device__ inline void add_classes(float (&sum)[16], int lane) {
  const bool upper = lane & STEP;
  unrolled (c, HALF) {
    const float give = upper ? sum[c] : sum[c + HALF], keep = upper ? sum[c + HALF] : sum[c];
    sum[c] = keep + __shfl_xor_sync(FULL_WARP, give, STEP);
  }
  if constexpr (HALF > 1) add_classes<HALF / 2, STEP / 2>(sum, lane);
}

/* Makes the logits z, of class lane / 2 and a row each, for all classes at once. */
template <int QUADS>
__device__ inline void make_logits(const HeadWeights &weights, const float (&h)[QUADS][LANE_VALUES],
                                   float (&z)[QUADS]) {
  float sum[QUADS][16];
  unrolled (c, 16)
    unrolled (q, QUADS) {
      const float *w = weights.w3[c < MAX_CLASSES ? c : 0];
      sum[q][c] = c < MAX_CLASSES
                      ? (h[q][0] * w[0] + h[q][1] * w[1]) + (h[q][2] * w[2] + h[q][3] * w[3])
                      : 0.0f;
    }
  unrolled (q, QUADS) {
    add_classes<8, 16>(sum[q], threadIdx.x % 32);
    z[q] = sum[q][0] + __shfl_xor_sync(FULL_WARP, sum[q][0], 1) + weights.b3;
  }
}

/* Combines COUNT values as a tree: its depth is what a lane waits for. */
template <int COUNT, class Combine>
__device__ inline float combine_tree(const float *v, const Combine &combine) {
  if constexpr (COUNT == 1)
    return v[0];
  else
    return combine(combine_tree<COUNT / 2>(v, combine),
                   combine_tree<COUNT - COUNT / 2>(v + COUNT / 2, combine));
}

/* The classes of a row, known to every lane, so that the largest and the sum take no exchange.
   Absent classes have -infinity and 0. */
struct RowClasses {
  float exponential[MAX_CLASSES];
  float largest, total;
  float own; /* the exponential of class lane / 2 */
};

__device__ inline RowClasses find_classes(float z) {
  RowClasses row;
  float all[MAX_CLASSES];
  unrolled (c, MAX_CLASSES) all[c] = __shfl_sync(FULL_WARP, z, 2 * c);
  row.largest = combine_tree<MAX_CLASSES>(all, [](float a, float b) { return fmaxf(a, b); });
  row.own = expf(z - row.largest);
  unrolled (c, MAX_CLASSES) row.exponential[c] = __shfl_sync(FULL_WARP, row.own, 2 * c);
  row.total = combine_tree<MAX_CLASSES>(row.exponential, [](float a, float b) { return a + b; });
  return row;
}

/* A lane's part of a patch: sums of a few rows. Then some lanes own a row of it, one packet. */
struct Patch {
  bool computes;             /* this lane adds */
  const float *left, *right; /* columns, from this lane's rows on */
  int left_pitch;            /* 0 repeats one column three times */
  OwnPacket own;
};

/* The rows of a warp, one of each quad, as far as they are known before H2 is there. */
template <int QUADS> struct HeadRows {
  int first;                          /* the warp's row of the first quad */
  size_t next_row[QUADS];             /* dataset rows of the next step */
  int label[QUADS], rows;             /* rows: rows of the step */
  float mean[QUADS];                  /* 1 / rows; 0 for a row beyond the end */
  float of_label[QUADS][LANE_VALUES]; /* W3 of the rows' labels */
};

/* The results of a warp's rows: H2 and dZ2 of this lane's values, z and dZ3 of class lane / 2. */
template <int QUADS> struct HeadValues {
  float h[QUADS][LANE_VALUES], d[QUADS][LANE_VALUES] = {};
  float z[QUADS], dz3[QUADS];
  RowClasses classes[QUADS];
};

template <class Shared> struct HeadTeam : UpdatingTeam {
  static constexpr int QUADS = Shared::QUADS, MAX_SHARE = RowShared<QUADS>::MAX_SHARE;
  static constexpr int PATCH_LANES = 8 / QUADS, PATCH_ROWS = ROWS / PATCH_LANES;
  Shared &s;
  RowShared<QUADS> &shared = s.row;

  static __device__ int thread() {
    return threadIdx.x - ROW_THREADS;
  }
  static __device__ void sync() {
    wait<HEAD>(HEAD_THREADS);
  }

  __device__ void load_w3(HeadWeights &weights) const {
    const int of = threadIdx.x % 32 / 2;
    unrolled (c, MAX_CLASSES)
      unrolled (v, LANE_VALUES) weights.w3[c][v] = shared.w3[c][hidden_of(v)];
    weights.b3 = of < plan.shape.classes ? shared.b3[of] : -INFINITY;
  }

  /* Mails the patch teams the packets of dZ2 that a lane has whole. `d` is dZ2 of the lane's
     values. */
  __device__ void send_dz2(int row, const float (&d)[LANE_VALUES]) const {
    const int lane = threadIdx.x % 32;
    if (lane < layout.hidden_packets)
      send(record_at(layout.first_dz2 + lane, row), d[0], d[1], d[2], stamp);
  }

  /* Mails the patch teams dZ3 and the packets of dZ2 of which lanes have a third each. */
  __device__ void send_rest(int row, const float (&d)[LANE_VALUES], float dz3) const {
    const int lane = threadIdx.x % 32, k = lane % 8;
    float last[3]; /* lanes 0 .. 7: packets of dZ2; from 8 on: those of dZ3 */
    unrolled (e, 3) {
      last[e] = __shfl_sync(FULL_WARP, d[3], 3 * k + e);
      const float of_class = __shfl_sync(FULL_WARP, dz3, 2 * (3 * (lane % 4) + e));
      if (lane >= 8) last[e] = of_class;
    }
    const int left = layout.hidden_packets - FIRST_THIRD / 3;
    if (k < (lane < 8 ? left : lane < 16 ? layout.class_packets : 0))
      send(record_at(k + (lane < 8 ? layout.first_dz2 + FIRST_THIRD / 3 : layout.first_dz3), row),
           last[0], last[1], last[2], stamp);
  }

  /* Stores the row's results: its loss, and whether the first of the largest logits is the label's.
     `z` is of class lane / 2. */
  __device__ void store_results(uint32_t position, bool exists, const RowClasses &classes, float z,
                                int label) const {
    const float of_label = __shfl_sync(FULL_WARP, z, 2 * label);
    const unsigned best =
        __ballot_sync(FULL_WARP, z == classes.largest); /* bits 2 c, 2 c + 1: class c */
    if (!exists || threadIdx.x % 32 != 0) return;
    job.results.d_loss[position] = logf(classes.total) + (classes.largest - of_label);
    job.results.d_correct[position] = (__ffs(best) - 1) / 2 == label;
  }

  /* ---- W3 and b3 ---------------------------------------------------------------------------- */

  /* Receives `count` packets of every row, at most MOST, from record `first` on, into columns. */
  template <int MOST>
  __device__ void receive_columns(int first, int count, float (*columns)[COLUMN_PITCH]) const {
    constexpr int COUNT = ceil_div(ROWS * MOST, HEAD_THREADS);
    const Packet *from = record_at(first, 0) + thread();
    Packet in[COUNT];
    receive(
        in, stamp, [&](int i) { return thread() + HEAD_THREADS * i < ROWS * count; },
        [&](int i) { return from + HEAD_THREADS * i; });
    unrolled (i, COUNT) {
      const int n = thread() + HEAD_THREADS * i, row = n % ROWS, packet = n / ROWS;
      if (packet >= count) break;
      float(*to)[COLUMN_PITCH] = columns + 3 * packet;
      to[0][row] = in[i].x, to[1][row] = in[i].y, to[2][row] = in[i].z;
    }
  }

  /* Finds the lane's patch. The patches of a block are those of W3 (share) in the first tiles, one
     for three classes each, then b3's in the first block of all. */
  __device__ Patch find_patch() const {
    static_assert(PATCH_LANES * (MAX_SHARE + CLASS_PACKETS) <= HEAD_THREADS,
                  "lanes for every patch");
    Patch patch = {};
    const int n = thread() / PATCH_LANES, part = thread() % PATCH_LANES;
    const int of_b3 = n - layout.share, c = 3 * layout.tile + part;
    patch.left = patch.right = shared.ones;
    if (of_b3 < 0) {
      patch.computes = layout.tile < layout.class_packets;
      patch.own.exists = patch.computes && part < 3 && c < plan.shape.classes;
      patch.own.decays = true;
      patch.own.x = layout.neurons + 1 + c;
      patch.own.packet = layout.first_packet + n;
      patch.left = shared.dz3_column[3 * min(layout.tile, layout.class_packets - 1)];
      patch.left_pitch = COLUMN_PITCH;
      patch.right = shared.h2_column[3 * n];
    } else if (layout.block == 0 && of_b3 < layout.class_packets) {
      patch.computes = true;
      patch.own.exists = part == 0;
      patch.own.x = layout.p_rows;
      patch.own.packet = of_b3;
      patch.right = shared.dz3_column[3 * of_b3];
    }
    patch.left += part * PATCH_ROWS;
    patch.right += part * PATCH_ROWS;
    return patch;
  }

  /* Computes the patch's gradient, updates it. Lane: 3 x 3 sums over some rows, then a packet. */
  __device__ void update_patch(const Patch &patch, OwnWeights &weights) const {
    if (!__any_sync(FULL_WARP, patch.computes)) return;
    float g[3][3] = {};
    if (patch.computes)
#pragma unroll 1 /* leaves the other teams room in the instruction cache */
      for (int rows = 0; rows < PATCH_ROWS / 4; rows++) {
        float4 right[3];
        unrolled (e, 3)
          right[e] = reinterpret_cast<const float4 *>(patch.right + e * COLUMN_PITCH)[rows];
        unrolled (i, 3) {
          const float4 left =
              reinterpret_cast<const float4 *>(patch.left + i * patch.left_pitch)[rows];
          unrolled (e, 3)
            g[i][e] += left.x * right[e].x + left.y * right[e].y + left.z * right[e].z +
                       left.w * right[e].w;
        }
      }
    const int part = thread() % PATCH_LANES;
    float mine[3] = {};
    unrolled (e, 3)
      unrolled (i, 3) {
        float sum = g[i][e];
#pragma unroll
        for (int step = 1; step < PATCH_LANES; step *= 2)
          sum += __shfl_xor_sync(FULL_WARP, sum, step);
        mine[e] = part == i ? sum : mine[e];
      }
    update_packet(patch.own, weights, mine);
  }

  /* Receives W3 and b3 of the next step, for the head team of this block. */
  __device__ void receive_w3() const {
    constexpr int COUNT = ceil_div(MAX_CLASSES * MAX_HIDDEN2 / 3 + MAX_CLASSES / 3, HEAD_THREADS);
    const int in_w3 = plan.shape.classes * layout.hidden_packets,
              packets = in_w3 + layout.class_packets;
    const Packet *from = p_at(layout.neurons + 1, 0) + thread();
    Packet in[COUNT];
    receive(
        in, stamp, [&](int i) { return thread() + HEAD_THREADS * i < packets; },
        [&](int i) { return from + HEAD_THREADS * i; });
    unrolled (i, COUNT) {
      const int n = thread() + HEAD_THREADS * i, c = divide(n, layout.by_hidden);
      if (n >= packets) break;
      float *to = n < in_w3 ? &shared.w3[c][3 * (n - c * layout.hidden_packets)]
                            : &shared.b3[3 * (n - in_w3)];
      to[0] = in[i].x, to[1] = in[i].y, to[2] = in[i].z;
    }
  }

  /* Reads W3 and b3 of the launch's first step from the parameters. */
  __device__ void load_w3_and_b3() const {
    const int classes = plan.shape.classes, hidden2 = plan.shape.hidden2;
    for (int i = thread(); i < classes * hidden2; i += HEAD_THREADS) {
      const int c = i / hidden2, o = i % hidden2;
      shared.w3[c][o] = job.d_parameters[p_offset(layout.neurons + 1 + c, o)];
    }
    if (thread() < classes)
      shared.b3[thread()] = job.d_parameters[p_offset(layout.p_rows, thread())];
  }

  /* Reads labels, W3 and b3 for the step at `position`, and finds the rows of the one after; labels
     and rows come while the team waits. */
  __device__ void prepare_step(HeadRows<QUADS> &of, HeadWeights &weights) const {
    unrolled (q, QUADS) {
      of.label[q] = job.d_labels[of.next_row[q]];
      of.next_row[q] = row_at(job, next_position(), of.first + QUAD * q);
    }
    of.rows = (int)min((uint32_t)plan.shape.batch, job.end - position);
    unrolled (q, QUADS)
      of.mean[q] = of.first + QUAD * q < of.rows ? __frcp_rn((float)of.rows) : 0.0f;
    load_w3(weights);
    unrolled (q, QUADS)
      unrolled (v, LANE_VALUES) of.of_label[q][v] = shared.w3[of.label[q]][hidden_of(v)];
  }

  /* Goes forward, from H2 to the classes. */
  __device__ void make_classes(const HeadWeights &weights, HeadValues<QUADS> &values) const {
    const int r = thread() / 32;
    unrolled (q, QUADS)
      unrolled (v, LANE_VALUES) values.h[q][v] = shared.h2[QUAD * q + r][hidden_of(v)];
    make_logits(weights, values.h, values.z);
    unrolled (q, QUADS) values.classes[q] = find_classes(values.z[q]);
  }

  /* Goes backward, from the classes to dZ3 and dZ2, and hands dZ2 to row team and patch teams. */
  __device__ void make_dz2(const HeadWeights &weights, const HeadRows<QUADS> &of,
                           HeadValues<QUADS> &values) const {
    const int lane = threadIdx.x % 32, r = thread() / 32;
    unrolled (c, MAX_CLASSES)
      unrolled (v, LANE_VALUES)
        unrolled (q, QUADS) values.d[q][v] += values.classes[q].exponential[c] * weights.w3[c][v];
    unrolled (q, QUADS) {
      const float mean = of.mean[q], scale = __frcp_rn(values.classes[q].total) * mean;
      float(&d)[LANE_VALUES] = values.d[q];
      unrolled (v, LANE_VALUES) {
        d[v] = values.h[q][v] <= 0.0f ? 0.0f : d[v] * scale - mean * of.of_label[q][v];
        reinterpret_cast<float *>(&shared.dz2[q][hidden_of(v)])[r] = d[v];
      }
      values.dz3[q] = values.classes[q].own * scale - (lane / 2 == of.label[q] ? mean : 0.0f);
      send_dz2(of.first + QUAD * q, d);
    }
  }

  /* Receives H2 and dZ3 of all rows for this block's patches of W3 and b3, and updates these. */
  __device__ void update_w3(OwnWeights &w3) const {
    if (layout.share > 0) {
      receive_columns<MAX_SHARE>(layout.first_h2 + layout.first_packet, layout.share,
                                 shared.h2_column);
      receive_columns<CLASS_PACKETS>(layout.first_dz3, layout.class_packets, shared.dz3_column);
    }
    sync();
    update_patch(find_patch(), w3);
  }

  /* Runs all steps of the launch, as the head team sees them. */
  __device__ void run() {
    HeadRows<QUADS> of;
    of.first = layout.block * shared.OWNED + thread() / 32;
    HeadWeights weights;
    OwnWeights w3 = load_packet(find_patch().own);
    load_w3_and_b3();
    if (thread() < ROWS) shared.ones[thread()] = 1.0f;
    sync();
    arrive<PARAMETERS_READ>(THREADS_OF_ROW_BLOCK);
    unrolled (q, QUADS) of.next_row[q] = row_at(job, job.position, of.first + QUAD * q);

    for (begin(); has_step(); next_step()) {
      prepare_step(of, weights);
      wait<H2_READY>(ROW_THREADS + HEAD_THREADS);
      HeadValues<QUADS> values;
      make_classes(weights, values);
      make_dz2(weights, of, values);
      arrive<DZ2_READY>(ROW_THREADS + HEAD_THREADS);
      unrolled (q, QUADS) send_rest(of.first + QUAD * q, values.d[q], values.dz3[q]);
      if (layout.share > 0) arrive<DZ2_SENT>(HEAD_THREADS + PATCH_THREADS);
      if (layout.group == 0)
        unrolled (q, QUADS) {
          const int row = of.first + QUAD * q;
          store_results(position + row, row < of.rows, values.classes[q], values.z[q], of.label[q]);
        }
      update_w3(w3);
      if (next_position() < job.end) {
        wait<Z2_SENT>(HEAD_THREADS + ROW_THREADS);
        receive_w3();
        sync();
      }
    }
    store_packet(find_patch().own, w3);
  }
};

} // namespace epoch
