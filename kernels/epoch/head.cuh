/* The head team of a row block: the last layer of the block's rows, forward and backward, one
   warp per row of a quad, and its part of W3 and b3. From H2 it makes the logits, softmax, the
   row's results, dZ3 and dZ2, which it mails to the patch teams and leaves in shared memory for the
   row team. All these sums are within a warp.

   Then, while the other teams go back and forth, it updates W3 and b3, the gradients of which are
   sums over the batch's rows, dZ3 with H2 and dZ3 with ones: in float32, as patches of 3 x 3
   values. */
#pragma once

#include "epoch/weights.cuh"

namespace epoch {

/* ---- forward and backward ------------------------------------------------------------------- */

/* A lane has four hidden values: 3 lane .. 3 lane + 2, a packet, and 96 + lane, a third of one. */
constexpr int LANE_VALUES = 4;
constexpr int FIRST_THIRD = 96;
static_assert(MAX_HIDDEN2 <= FIRST_THIRD + 32 && HEAD_PITCH >= FIRST_THIRD + 32, "a lane for each");

__device__ inline int head_thread() {
  return threadIdx.x - ROW_THREADS;
}

__device__ inline void head_sync() {
  wait<HEAD>(HEAD_THREADS);
}

/* Returns the number of value v of this lane. */
__device__ inline int hidden_of(int v) {
  const int lane = threadIdx.x % 32;
  return v < 3 ? 3 * lane + v : FIRST_THIRD + lane;
}

/* A lane's part of W3, and b3 of class lane / 2: -infinity where there is none. */
struct HeadWeights {
  float w3[MAX_CLASSES][LANE_VALUES], b3;
};

template <int QUADS>
__device__ inline void load_w3(const EpochPlan &plan, const RowShared<QUADS> &s,
                               HeadWeights &weights) {
  const int of = threadIdx.x % 32 / 2;
  unrolled (c, MAX_CLASSES)
    unrolled (v, LANE_VALUES) weights.w3[c][v] = s.w3[c][hidden_of(v)];
  weights.b3 = of < plan.shape.classes ? s.b3[of] : -INFINITY;
}

/* Adds sum[0 .. 2 HALF) over the warp: in each exchange a lane gives away the half that the lane
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

/* The largest and the sum of COUNT values, as trees: their depth is what a lane waits for. */
template <int COUNT> __device__ inline float largest_of(const float *v) {
  if constexpr (COUNT == 1)
    return v[0];
  else
    return fmaxf(largest_of<COUNT / 2>(v), largest_of<COUNT - COUNT / 2>(v + COUNT / 2));
}

template <int COUNT> __device__ inline float sum_of(const float *v) {
  if constexpr (COUNT == 1)
    return v[0];
  else
    return sum_of<COUNT / 2>(v) + sum_of<COUNT - COUNT / 2>(v + COUNT / 2);
}

/* The classes of a row, known to every lane, so that the largest and the sum take no exchange.
   Classes that are not there have -infinity and 0. */
struct RowClasses {
  float exponential[MAX_CLASSES];
  float largest, total;
  float own; /* the exponential of class lane / 2 */
};

__device__ inline RowClasses find_classes(float z) {
  RowClasses row;
  float all[MAX_CLASSES];
  unrolled (c, MAX_CLASSES) all[c] = __shfl_sync(FULL_WARP, z, 2 * c);
  row.largest = largest_of<MAX_CLASSES>(all);
  row.own = expf(z - row.largest);
  unrolled (c, MAX_CLASSES) row.exponential[c] = __shfl_sync(FULL_WARP, row.own, 2 * c);
  row.total = sum_of<MAX_CLASSES>(row.exponential);
  return row;
}

/* Mails to the patch teams the packets of dZ2 that a lane has whole. d: dZ2 of its values. */
__device__ inline void send_dz2(const BlockLayout &layout, int row, const float (&d)[LANE_VALUES],
                                uint32_t stamp) {
  const int lane = threadIdx.x % 32;
  if (lane < layout.hidden_packets)
    send(record_at(layout, layout.first_dz2 + lane, row, stamp), d[0], d[1], d[2], stamp);
}

/* Mails them the packets of dZ2 of which a lane has a third, and dZ3. dz3: of class lane / 2. */
__device__ inline void send_rest(const BlockLayout &layout, int row, const float (&d)[LANE_VALUES],
                                 float dz3, uint32_t stamp) {
  const int lane = threadIdx.x % 32, k = lane % 8;
  float last[3]; /* lanes 0 .. 7: packets of dZ2; from 8 on: those of dZ3 */
  unrolled (e, 3) {
    last[e] = __shfl_sync(FULL_WARP, d[3], 3 * k + e);
    const float of_class = __shfl_sync(FULL_WARP, dz3, 2 * (3 * (lane % 4) + e));
    if (lane >= 8) last[e] = of_class;
  }
  const int left = layout.hidden_packets - FIRST_THIRD / 3;
  if (k < (lane < 8 ? left : lane < 16 ? layout.class_packets : 0))
    send(record_at(layout, k + (lane < 8 ? layout.first_dz2 + FIRST_THIRD / 3 : layout.first_dz3),
                   row, stamp),
         last[0], last[1], last[2], stamp);
}

/* Stores the row's results: its loss, and whether the first of the largest logits is the label's.
   z: of class lane / 2. */
__device__ inline void store_results(const EpochJob &job, uint32_t position, bool exists,
                                     const RowClasses &row, float z, int label) {
  const float of_label = __shfl_sync(FULL_WARP, z, 2 * label);
  const unsigned best = __ballot_sync(FULL_WARP, z == row.largest); /* bits 2 c, 2 c + 1: class c */
  if (!exists || threadIdx.x % 32 != 0) return;
  job.results.d_loss[position] = logf(row.total) + (row.largest - of_label);
  job.results.d_correct[position] = (__ffs(best) - 1) / 2 == label;
}

/* ---- W3 and b3 ------------------------------------------------------------------------------ */

/* Receives `count` packets of every row, at most MOST, from `first` of the records on, into
   columns. */
template <int MOST>
__device__ inline void receive_columns(const BlockLayout &layout, int first, int count,
                                       float (*columns)[COLUMN_PITCH], uint32_t stamp) {
  constexpr int COUNT = ceil_div(ROWS * MOST, HEAD_THREADS);
  const Packet *from = record_at(layout, first, 0, stamp) + head_thread();
  Packet in[COUNT];
  receive(
      in, stamp, [&](int i) { return head_thread() + HEAD_THREADS * i < ROWS * count; },
      [&](int i) { return from + HEAD_THREADS * i; });
  unrolled (i, COUNT) {
    const int n = head_thread() + HEAD_THREADS * i, row = n % ROWS, packet = n / ROWS;
    if (packet >= count) break;
    float(*to)[COLUMN_PITCH] = columns + 3 * packet;
    to[0][row] = in[i].x, to[1][row] = in[i].y, to[2][row] = in[i].z;
  }
}

template <int QUADS> constexpr int PATCH_LANES = 8 / QUADS;
template <int QUADS> constexpr int PATCH_ROWS = ROWS / PATCH_LANES<QUADS>;

/* A lane's part of a patch: the sums of a few rows. Then some lanes own a row of the patch each,
   one packet. */
struct Patch {
  bool computes;             /* this lane adds */
  const float *left, *right; /* columns, from this lane's rows on */
  int left_pitch;            /* 0: the same column three times */
  OwnPacket own;
};

/* Finds the lane's patch. The patches of a block are those of W3 (share) in the first tiles, one
   for three classes each, then b3's in the first block of all. */
template <int QUADS>
__device__ inline Patch find_patch(const EpochPlan &plan, const BlockLayout &layout,
                                   const RowShared<QUADS> &s) {
  static_assert(PATCH_LANES<QUADS> * (RowShared<QUADS>::MAX_SHARE + CLASS_PACKETS) <= HEAD_THREADS,
                "lanes for every patch");
  Patch patch = {};
  const int n = head_thread() / PATCH_LANES<QUADS>, part = head_thread() % PATCH_LANES<QUADS>;
  const int of_b3 = n - layout.share, c = 3 * layout.tile + part;
  patch.left = patch.right = s.ones;
  if (of_b3 < 0) {
    patch.computes = layout.tile < layout.class_packets;
    patch.own.exists = patch.computes && part < 3 && c < plan.shape.classes;
    patch.own.decays = true;
    patch.own.x = layout.neurons + 1 + c;
    patch.own.packet = layout.first_packet + n;
    patch.left = s.dz3_column[3 * min(layout.tile, layout.class_packets - 1)];
    patch.left_pitch = COLUMN_PITCH;
    patch.right = s.h2_column[3 * n];
  } else if (layout.block == 0 && of_b3 < layout.class_packets) {
    patch.computes = true;
    patch.own.exists = part == 0;
    patch.own.x = layout.p_rows;
    patch.own.packet = of_b3;
    patch.right = s.dz3_column[3 * of_b3];
  }
  patch.left += part * PATCH_ROWS<QUADS>;
  patch.right += part * PATCH_ROWS<QUADS>;
  return patch;
}

/* Computes the patch's gradient and updates it. Lane: 3 x 3 sums over some rows, then one packet.
 */
template <int QUADS>
__device__ inline void update_patch(const EpochJob &job, const BlockLayout &layout,
                                    const Patch &patch, OwnWeights &weights, uint32_t stamp) {
  if (!__any_sync(FULL_WARP, patch.computes)) return;
  float g[3][3] = {};
  if (patch.computes)
#pragma unroll 1 /* other teams need the room for instructions */
    for (int rows = 0; rows < PATCH_ROWS<QUADS> / 4; rows++) {
      float4 right[3];
      unrolled (e, 3)
        right[e] = reinterpret_cast<const float4 *>(patch.right + e * COLUMN_PITCH)[rows];
      unrolled (i, 3) {
        const float4 left =
            reinterpret_cast<const float4 *>(patch.left + i * patch.left_pitch)[rows];
        unrolled (e, 3)
          g[i][e] +=
              left.x * right[e].x + left.y * right[e].y + left.z * right[e].z + left.w * right[e].w;
      }
    }
  const int part = head_thread() % PATCH_LANES<QUADS>;
  float mine[3] = {};
  unrolled (e, 3)
    unrolled (i, 3) {
      float sum = g[i][e];
#pragma unroll
      for (int step = 1; step < PATCH_LANES<QUADS>; step *= 2)
        sum += __shfl_xor_sync(FULL_WARP, sum, step);
      mine[e] = part == i ? sum : mine[e];
    }
  update_packet(job, layout, patch.own, weights, mine, stamp);
}

/* Receives W3 and b3 of the next step, for the head team of this block. */
template <int QUADS>
__device__ inline void receive_w3(const EpochPlan &plan, const BlockLayout &layout,
                                  RowShared<QUADS> &s, uint32_t stamp) {
  constexpr int COUNT = ceil_div(MAX_CLASSES * MAX_HIDDEN2 / 3 + MAX_CLASSES / 3, HEAD_THREADS);
  const int in_w3 = plan.shape.classes * layout.hidden_packets,
            packets = in_w3 + layout.class_packets;
  const Packet *from = p_at(layout, layout.neurons + 1, 0) + head_thread();
  Packet in[COUNT];
  receive(
      in, stamp, [&](int i) { return head_thread() + HEAD_THREADS * i < packets; },
      [&](int i) { return from + HEAD_THREADS * i; });
  unrolled (i, COUNT) {
    const int n = head_thread() + HEAD_THREADS * i, c = divide(n, layout.by_hidden);
    if (n >= packets) break;
    float *to = n < in_w3 ? &s.w3[c][3 * (n - c * layout.hidden_packets)] : &s.b3[3 * (n - in_w3)];
    to[0] = in[i].x, to[1] = in[i].y, to[2] = in[i].z;
  }
}

/* Reads W3 and b3 of the launch's first step from the parameters. */
template <int QUADS>
__device__ inline void load_w3_and_b3(const EpochPlan &plan, const EpochJob &job,
                                      const BlockLayout &layout, RowShared<QUADS> &s) {
  const int classes = plan.shape.classes, hidden2 = plan.shape.hidden2;
  for (int i = head_thread(); i < classes * hidden2; i += HEAD_THREADS) {
    const int c = i / hidden2, o = i % hidden2;
    s.w3[c][o] = job.d_parameters[p_offset(plan, job, layout, layout.neurons + 1 + c, o)];
  }
  if (head_thread() < classes)
    s.b3[head_thread()] =
        job.d_parameters[p_offset(plan, job, layout, layout.p_rows, head_thread())];
}

/* ---- a step, stage by stage ----------------------------------------------------------------- */

/* The rows of a warp, one of each quad, as far as they are known before H2 is there. */
template <int QUADS> struct HeadRows {
  int first;                          /* the warp's row of the first quad */
  size_t next_row[QUADS];             /* of the dataset, of the next step */
  int label[QUADS], rows;             /* rows: of the step */
  float mean[QUADS];                  /* one over that; 0 for a row beyond the end */
  float of_label[QUADS][LANE_VALUES]; /* W3 of the rows' labels */
};

/* Reads labels, W3 and b3 for the step at `position`, and finds the rows of the one after; labels
   and rows come while the team waits. */
template <int QUADS>
__device__ inline void prepare_step(const EpochPlan &plan, const EpochJob &job,
                                    const RowShared<QUADS> &s, uint32_t position,
                                    HeadRows<QUADS> &of, HeadWeights &weights) {
  const uint32_t next = position + plan.shape.batch;
  unrolled (q, QUADS) {
    of.label[q] = job.d_labels[of.next_row[q]];
    of.next_row[q] = row_at(job, next, of.first + QUAD * q);
  }
  of.rows = (int)min((uint32_t)plan.shape.batch, job.end - position);
  unrolled (q, QUADS) of.mean[q] = of.first + QUAD * q < of.rows ? __frcp_rn((float)of.rows) : 0.0f;
  load_w3(plan, s, weights);
  unrolled (q, QUADS)
    unrolled (v, LANE_VALUES) of.of_label[q][v] = s.w3[of.label[q]][hidden_of(v)];
}

/* The results of a warp's rows: H2 and dZ2 of this lane's values, z and dZ3 of class lane / 2. */
template <int QUADS> struct HeadValues {
  float h[QUADS][LANE_VALUES], d[QUADS][LANE_VALUES] = {};
  float z[QUADS], dz3[QUADS];
  RowClasses classes[QUADS];
};

/* Goes forward, from H2 to the classes. */
template <int QUADS>
__device__ inline void make_classes(const RowShared<QUADS> &s, const HeadWeights &weights,
                                    HeadValues<QUADS> &values) {
  const int r = head_thread() / 32;
  unrolled (q, QUADS)
    unrolled (v, LANE_VALUES) values.h[q][v] = s.h2[QUAD * q + r][hidden_of(v)];
  make_logits(weights, values.h, values.z);
  unrolled (q, QUADS) values.classes[q] = find_classes(values.z[q]);
}

/* Goes backward, from the classes to dZ3 and dZ2, and hands dZ2 to the row team and the patch
   teams. */
template <int QUADS>
__device__ inline void make_dz2(const BlockLayout &layout, RowShared<QUADS> &s,
                                const HeadWeights &weights, const HeadRows<QUADS> &of,
                                HeadValues<QUADS> &values, uint32_t stamp) {
  const int lane = threadIdx.x % 32, r = head_thread() / 32;
  unrolled (c, MAX_CLASSES)
    unrolled (v, LANE_VALUES)
      unrolled (q, QUADS) values.d[q][v] += values.classes[q].exponential[c] * weights.w3[c][v];
  unrolled (q, QUADS) {
    const float mean = of.mean[q], scale = __frcp_rn(values.classes[q].total) * mean;
    float(&d)[LANE_VALUES] = values.d[q];
    unrolled (v, LANE_VALUES) {
      d[v] = values.h[q][v] <= 0.0f ? 0.0f : d[v] * scale - mean * of.of_label[q][v];
      reinterpret_cast<float *>(&s.dz2[q][hidden_of(v)])[r] = d[v];
    }
    values.dz3[q] = values.classes[q].own * scale - (lane / 2 == of.label[q] ? mean : 0.0f);
    send_dz2(layout, of.first + QUAD * q, d, stamp);
  }
}

/* Receives what W3 and b3 of this block's patches need of all rows, and updates them. */
template <int QUADS>
__device__ inline void update_w3(const EpochPlan &plan, const EpochJob &job,
                                 const BlockLayout &layout, RowShared<QUADS> &s, OwnWeights &w3,
                                 uint32_t stamp) {
  if (layout.share > 0) {
    receive_columns<RowShared<QUADS>::MAX_SHARE>(layout, layout.first_h2 + layout.first_packet,
                                                 layout.share, s.h2_column, stamp);
    receive_columns<CLASS_PACKETS>(layout, layout.first_dz3, layout.class_packets, s.dz3_column,
                                   stamp);
  }
  head_sync();
  update_patch<QUADS>(job, layout, find_patch(plan, layout, s), w3, stamp);
}

/* Runs all steps of the launch, as the head team sees them. */
template <class Shared>
__device__ void head_team(const EpochPlan &plan, const EpochJob &job, Shared &s) {
  const BlockLayout &layout = s.layout;
  constexpr int QUADS = Shared::QUADS;
  HeadRows<QUADS> of;
  of.first = layout.block * s.row.OWNED + head_thread() / 32;
  HeadWeights weights;
  OwnWeights w3 = load_packet(plan, job, layout, find_patch(plan, layout, s.row).own);
  load_w3_and_b3(plan, job, layout, s.row);
  if (head_thread() < ROWS) s.row.ones[head_thread()] = 1.0f;
  head_sync();
  arrive<PARAMETERS_READ>(THREADS_OF_ROW_BLOCK);
  unrolled (q, QUADS) of.next_row[q] = row_at(job, job.position, of.first + QUAD * q);

  uint32_t stamp = job.first_stamp;
  for (uint32_t position = job.position; position < job.end; position += plan.shape.batch) {
    STAMP(STAMP_HEAD);
    prepare_step(plan, job, s.row, position, of, weights);
    wait<H2_READY>(ROW_THREADS + HEAD_THREADS);
    STAMP(STAMP_H2_READY);
    HeadValues<QUADS> values;
    make_classes(s.row, weights, values);
    make_dz2(layout, s.row, weights, of, values, stamp);
    arrive<DZ2_READY>(ROW_THREADS + HEAD_THREADS);
    unrolled (q, QUADS) send_rest(layout, of.first + QUAD * q, values.d[q], values.dz3[q], stamp);
    if (layout.share > 0) arrive<DZ2_SENT>(HEAD_THREADS + PATCH_THREADS);
    STAMP(STAMP_DZ2_SENT);
    if (layout.group == 0)
      unrolled (q, QUADS) {
        const int row = of.first + QUAD * q;
        store_results(job, position + row, row < of.rows, values.classes[q], values.z[q],
                      of.label[q]);
      }
    update_w3(plan, job, layout, s.row, w3, stamp);
    STAMP(STAMP_W3_SENT);
    if (position + plan.shape.batch < job.end) {
      wait<Z2_SENT>(HEAD_THREADS + ROW_THREADS);
      receive_w3(plan, layout, s.row, stamp);
      head_sync();
    }
    STAMP(STAMP_W3_RECEIVED);
    stamp++;
  }
  store_packet(plan, job, layout, find_patch(plan, layout, s.row).own, w3);
}

} // namespace epoch
