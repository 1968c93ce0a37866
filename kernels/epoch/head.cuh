/* The head team of a row block: the last layer of the block's 4 rows, forward and backward, one
   warp per row. From H2 it makes the logits, softmax, the row's results, dZ3 and dZ2, which it
   mails to the patch teams and leaves in shared memory for the row team. All sums are within a
   warp. */
#ifndef EPOCH_HEAD_CUH
#define EPOCH_HEAD_CUH

#include "epoch/layout.cuh"

namespace epoch {

/* A lane has four hidden values: 3 lane .. 3 lane + 2, a packet, and 96 + lane, a third of one. */
constexpr int LANE_VALUES = 4;
constexpr int FIRST_THIRD = 96;
static_assert(MAX_HIDDEN2 <= FIRST_THIRD + 32 && HEAD_PITCH >= FIRST_THIRD + 32, "a lane for each");

__device__ inline int head_thread() {
  return threadIdx.x - ROW_THREADS;
}

/* The number of value v of this lane. */
__device__ inline int hidden_of(int v) {
  const int lane = threadIdx.x % 32;
  return v < 3 ? 3 * lane + v : FIRST_THIRD + lane;
}

/* A lane's part of W3, and b3 of class lane / 2: -infinity where there is none. */
struct HeadWeights {
  float w3[MAX_CLASSES][LANE_VALUES], b3;
};

__device__ inline void load_w3(const EpochPlan &plan, const RowShared &s, HeadWeights &weights) {
  const int of = threadIdx.x % 32 / 2;
#pragma unroll
  for (int c = 0; c < MAX_CLASSES; c++)
#pragma unroll
    for (int v = 0; v < LANE_VALUES; v++) weights.w3[c][v] = s.w3[c][hidden_of(v)];
  weights.b3 = of < plan.shape.classes ? s.b3[of] : -INFINITY;
}

/* Adds sum[0 .. 2 HALF) over the warp: in each exchange a lane gives away the half that the lane
   opposite keeps. */
template <int HALF, int STEP> __device__ inline void add_classes(float (&sum)[16], int lane) {
  const bool upper = lane & STEP;
#pragma unroll
  for (int c = 0; c < HALF; c++) {
    const float give = upper ? sum[c] : sum[c + HALF], keep = upper ? sum[c + HALF] : sum[c];
    sum[c] = keep + __shfl_xor_sync(FULL_WARP, give, STEP);
  }
  if constexpr (HALF > 1) add_classes<HALF / 2, STEP / 2>(sum, lane);
}

/* The logit of class lane / 2, for all classes at once. */
__device__ inline float logit(const HeadWeights &weights, const float (&h)[LANE_VALUES]) {
  float sum[16];
#pragma unroll
  for (int c = 0; c < 16; c++) {
    const float *w = weights.w3[c < MAX_CLASSES ? c : 0];
    sum[c] = c < MAX_CLASSES ? (h[0] * w[0] + h[1] * w[1]) + (h[2] * w[2] + h[3] * w[3]) : 0.0f;
  }
  add_classes<8, 16>(sum, threadIdx.x % 32);
  return sum[0] + __shfl_xor_sync(FULL_WARP, sum[0], 1) + weights.b3;
}

/* As trees, whose depth is what a lane waits for. */
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

/* What is known of a row's classes, in every lane, so that the largest and the sum are no exchange.
   Classes that are not there have -infinity and 0. */
struct RowClasses {
  float exponential[MAX_CLASSES];
  float largest, total;
  float own; /* the exponential of class lane / 2 */
};

__device__ inline RowClasses find_classes(float z) {
  RowClasses row;
  float all[MAX_CLASSES];
#pragma unroll
  for (int c = 0; c < MAX_CLASSES; c++) all[c] = __shfl_sync(FULL_WARP, z, 2 * c);
  row.largest = largest_of<MAX_CLASSES>(all);
  row.own = expf(z - row.largest);
#pragma unroll
  for (int c = 0; c < MAX_CLASSES; c++) row.exponential[c] = __shfl_sync(FULL_WARP, row.own, 2 * c);
  row.total = sum_of<MAX_CLASSES>(row.exponential);
  return row;
}

/* Mails dZ2, d of this lane's values, and dZ3, dz3 of class lane / 2, to the patch teams. */
__device__ inline void send_dz2(const BlockLayout &layout, int row, const float (&d)[LANE_VALUES],
                                float dz3, uint32_t stamp) {
  const int lane = threadIdx.x % 32, hidden = layout.hidden_packets;
  if (lane < hidden)
    send(record_at(layout, layout.first_dz2 + lane, row, stamp), d[0], d[1], d[2], stamp);
  float last[3]; /* lanes 0 .. 7: the other packets of dZ2; from 8 on: those of dZ3 */
#pragma unroll
  for (int e = 0; e < 3; e++) {
    last[e] = __shfl_sync(FULL_WARP, d[3], 3 * (lane % 8) + e);
    const float of_class = __shfl_sync(FULL_WARP, dz3, 2 * (3 * (lane % 4) + e));
    if (lane >= 8) last[e] = of_class;
  }
  const int k = lane % 8, left = hidden - FIRST_THIRD / 3;
  if (k < (lane < 8 ? left : lane < 16 ? layout.class_packets : 0))
    send(record_at(layout, k + (lane < 8 ? layout.first_dz2 + FIRST_THIRD / 3 : layout.first_dz3),
                   row, stamp),
         last[0], last[1], last[2], stamp);
}

/* The row's results: its loss, and whether the first of the largest logits is the label's. z: of
   class lane / 2. */
__device__ inline void store_results(const EpochJob &job, uint32_t position, bool exists,
                                     const RowClasses &row, float z, int label) {
  const float of_label = __shfl_sync(FULL_WARP, z, 2 * label);
  const unsigned best = __ballot_sync(FULL_WARP, z == row.largest); /* bits 2 c, 2 c + 1: class c */
  if (!exists || threadIdx.x % 32 != 0) return;
  job.results.d_loss[position] = logf(row.total) + (row.largest - of_label);
  job.results.d_correct[position] = (__ffs(best) - 1) / 2 == label;
}

/* All steps of the launch, as the head team sees them. */
template <class Shared>
__device__ void head_team(const EpochPlan &plan, const EpochJob &job, Shared &s) {
  const BlockLayout &layout = s.layout;
  const int lane = threadIdx.x % 32, r = head_thread() / 32, row = layout.block * OWNED + r;
  HeadWeights weights;
  size_t next_row = row_at(job, job.position, row);

  uint32_t stamp = job.first_stamp;
  for (uint32_t position = job.position; position < job.end; position += plan.shape.batch) {
    STAMP(STAMP_HEAD);
    const int label = job.d_labels[next_row]; /* both come while the team waits */
    next_row = row_at(job, position + plan.shape.batch, row);
    const int rows = (int)min((uint32_t)plan.shape.batch, job.end - position);
    const float mean = row < rows ? __frcp_rn((float)rows) : 0.0f;
    wait<W3_READY>(HEAD_THREADS + PATCH_THREADS);
    load_w3(plan, s.row, weights);
    float of_label[LANE_VALUES]; /* W3 of the row's label */
#pragma unroll
    for (int v = 0; v < LANE_VALUES; v++) of_label[v] = s.row.w3[label][hidden_of(v)];
    STAMP(STAMP_W3_READY);
    wait<H2_READY>(ROW_THREADS + HEAD_THREADS);
    STAMP(STAMP_H2_READY);
    float h[LANE_VALUES], d[LANE_VALUES] = {};
#pragma unroll
    for (int v = 0; v < LANE_VALUES; v++) h[v] = s.row.h2[r][hidden_of(v)];
    const float z = logit(weights, h);
    const RowClasses classes = find_classes(z);
#pragma unroll
    for (int c = 0; c < MAX_CLASSES; c++)
#pragma unroll
      for (int v = 0; v < LANE_VALUES; v++) d[v] += classes.exponential[c] * weights.w3[c][v];
    const float scale = __frcp_rn(classes.total) * mean;
#pragma unroll
    for (int v = 0; v < LANE_VALUES; v++) {
      d[v] = h[v] <= 0.0f ? 0.0f : d[v] * scale - mean * of_label[v];
      reinterpret_cast<float *>(&s.row.dz2[hidden_of(v)])[r] = d[v];
    }
    const float dz3 = classes.own * scale - (lane / 2 == label ? mean : 0.0f);
    send_dz2(layout, row, d, dz3, stamp);
    arrive<DZ2_READY>(ROW_THREADS + HEAD_THREADS);
    arrive<DZ2_SENT>(HEAD_THREADS + PATCH_THREADS);
    STAMP(STAMP_DZ2_SENT);
    if (layout.group == 0) store_results(job, position + row, row < rows, classes, z, label);
    stamp++;
  }
}

} // namespace epoch

#endif
