/* The row team of the epoch kernel: 4 rows of the batch from Z1 to dZ1, in the first 16 blocks of
   every group. 10 warps. Eight lanes share a packet of hidden values, each with one of the PARTS of
   the neurons. W2 is held in registers, three hidden values times eight neurons per lane, because
   shared memory would have to deliver every weight again for only four multiplications. */
#ifndef EPOCH_ROWS_CUH
#define EPOCH_ROWS_CUH

#include "epoch/layout.cuh"

namespace epoch {

__device__ inline int row_thread() {
  return threadIdx.x - MATRIX_THREADS;
}

__device__ inline void row_sync() {
  wait<ROW>(ROW_THREADS);
}

/* A lane's part of P: neurons part, part + 8, ... of hidden values 3 packet .. 3 packet + 2. */
struct RowWeights {
  float w2[PART][3], b2[3];
};

/* What a thread does for the second hidden layer: its packet of hidden values and its part of the
   neurons. */
struct RowLane {
  int packet, part;
  bool exists;
};

__device__ inline RowLane row_lane(const BlockLayout &layout) {
  const int packet = row_thread() / PARTS;
  return {packet, row_thread() % PARTS, packet < layout.hidden_packets};
}

/* Reads P of the first step from the parameters. */
__device__ void load_p(const EpochPlan &plan, const EpochJob &job, const BlockLayout &layout,
                       Shared &s, RowWeights &weights) {
  const RowLane lane = row_lane(layout);
  const auto value = [&](int x, int o) {
    const long long offset = p_offset(plan, job, layout, x, o);
    return offset < 0 ? 0.0f : job.d_parameters[offset];
  };
#pragma unroll
  for (int e = 0; e < 3; e++) {
    const int o = 3 * lane.packet + e;
#pragma unroll
    for (int k = 0; k < PART; k++) {
      const int j = lane.part + PARTS * k;
      weights.w2[k][e] = lane.exists && j < layout.neurons ? value(j, o) : 0.0f;
    }
    weights.b2[e] = lane.exists ? value(layout.neurons, o) : 0.0f;
  }
  for (int i = row_thread(); i < plan.shape.classes * MAX_HIDDEN2; i += ROW_THREADS)
    s.w3[i / MAX_HIDDEN2][i % MAX_HIDDEN2] =
        value(layout.neurons + 1 + i / MAX_HIDDEN2, i % MAX_HIDDEN2);
  if (row_thread() < MAX_CLASSES) s.b3[row_thread()] = value(layout.p_rows, row_thread());
}

/* Receives W2 and b2 of a later step from the patch teams. */
__device__ void receive_w2(const BlockLayout &layout, RowWeights &weights, uint32_t stamp) {
  const RowLane lane = row_lane(layout);
  const Packet *from = layout.p + lane.part * layout.hidden_packets + lane.packet;
  Packet in[PART + 1];
  receive(
      in, stamp,
      [&](int i) { return lane.exists && (i == PART || lane.part + PARTS * i < layout.neurons); },
      [&](int i) {
        return i < PART ? from + PARTS * i * layout.hidden_packets
                        : layout.p + layout.neurons * layout.hidden_packets + lane.packet;
      });
#pragma unroll
  for (int k = 0; k < PART; k++)
    weights.w2[k][0] = in[k].x, weights.w2[k][1] = in[k].y, weights.w2[k][2] = in[k].z;
  weights.b2[0] = in[PART].x, weights.b2[1] = in[PART].y, weights.b2[2] = in[PART].z;
}

/* H1 = relu(Z1) for the 4 rows and the group's neurons, Z1 being the sum of the splits. Thread: one
   packet of one row; it receives one packet per split, then mails H1 to the patch teams. */
__device__ void receive_z1(const EpochPlan &plan, const BlockLayout &layout, Shared &s,
                           uint32_t stamp) {
  const int r = row_thread() % OWNED, packet = row_thread() / OWNED;
  if (packet >= layout.neuron_packets) return;
  const Packet *from =
      layout.z1 + (layout.block * OWNED + r) * plan.splits * layout.neuron_packets + packet;
  Packet in[MAX_SPLITS];
  receive(
      in, stamp, [&](int i) { return i < plan.splits; },
      [&](int i) { return from + i * layout.neuron_packets; });
  float h[3] = {};
#pragma unroll
  for (int i = 0; i < MAX_SPLITS; i++) h[0] += in[i].x, h[1] += in[i].y, h[2] += in[i].z;
#pragma unroll
  for (int e = 0; e < 3; e++) {
    h[e] = relu_of(h[e]);
    reinterpret_cast<float *>(&s.h1[3 * packet + e])[r] = h[e];
  }
  send(record_of(layout, r) + packet, h[0], h[1], h[2], stamp);
}

/* H2 = relu(Z2) of the 4 rows. Each lane multiplies its part of W2. The eight parts are added by
   shuffles that halve what a lane carries, so that lanes 2 r and 2 r + 1 end with row r. These mail
   it to the other groups' owners of the row and receive theirs, each lane from every other
   group. */
__device__ void multiply_w2(const EpochPlan &plan, const BlockLayout &layout, Shared &s,
                            const RowWeights &weights, uint32_t stamp) {
  const RowLane lane = row_lane(layout);
  float z[OWNED][3] = {};
#pragma unroll
  for (int k = 0; k < PART; k++) {
    const float4 h = s.h1[lane.part + PARTS * k];
#pragma unroll
    for (int e = 0; e < 3; e++) {
      const float w = weights.w2[k][e];
      z[0][e] += w * h.x, z[1][e] += w * h.y, z[2][e] += w * h.z, z[3][e] += w * h.w;
    }
  }
#pragma unroll
  for (int half = OWNED / 2, step = PARTS / 2; half > 0; half /= 2, step /= 2)
#pragma unroll
    for (int r = 0; r < half; r++)
#pragma unroll
      for (int e = 0; e < 3; e++) {
        const bool upper = lane.part & step;
        const float give = upper ? z[r][e] : z[r + half][e];
        z[r][e] = (upper ? z[r + half][e] : z[r][e]) + __shfl_xor_sync(FULL_WARP, give, step);
      }
#pragma unroll
  for (int e = 0; e < 3; e++) z[0][e] += __shfl_xor_sync(FULL_WARP, z[0][e], 1);

  const int r = lane.part / 2, odd = lane.part % 2;
  Packet *mail =
      layout.z2 + lane.packet +
      (stamp % 2 * ROWS + layout.block * OWNED + r) * plan.groups * layout.hidden_packets;
  if (lane.exists && !odd)
    send(mail + layout.group * layout.hidden_packets, z[0][0], z[0][1], z[0][2], stamp);
  STAMP(STAMP_Z2_SENT);
  Packet in[MAX_GROUPS / 2];
  receive(
      in, stamp, [&](int i) { return lane.exists && 2 * i + odd < plan.groups; },
      [&](int i) { return mail + (2 * i + odd) * layout.hidden_packets; });
  float h[3] = {};
#pragma unroll
  for (int i = 0; i < MAX_GROUPS / 2; i++) h[0] += in[i].x, h[1] += in[i].y, h[2] += in[i].z;
#pragma unroll
  for (int e = 0; e < 3; e++) {
    h[e] += __shfl_xor_sync(FULL_WARP, h[e], 1); /* a + b is b + a: both get the same bits */
    h[e] = relu_of(h[e] + weights.b2[e]);
  }
  if (!lane.exists || odd) return;
#pragma unroll
  for (int e = 0; e < 3; e++) s.h2[r][3 * lane.packet + e] = h[e];
  send(record_of(layout, r) + layout.neuron_packets + layout.hidden_packets + lane.packet, h[0],
       h[1], h[2], stamp);
}

/* The logits, eight lanes per row and class. */
__device__ void multiply_w3(const EpochPlan &plan, Shared &s) {
  const int lane = row_thread() % 8;
#pragma unroll 1
  for (int d = row_thread() / 8; d < OWNED * plan.shape.classes; d += ROW_THREADS / 8) {
    const int r = d % OWNED, c = d / OWNED; /* a warp has one class and four rows */
    const float *w3 = &s.w3[c][lane], *h2 = &s.h2[r][lane];
    float sum = 0.0f;
#pragma unroll
    for (int o = 0; o < MAX_HIDDEN2; o += 8) sum += h2[o] * w3[o];
    for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(FULL_WARP, sum, step);
    if (lane == 0) s.logits[r][c] = sum + s.b3[c];
  }
}

/* The result of a row, held by lane 0 until there is time to write it. */
struct RowResult {
  float loss;
  bool correct;
};

/* Softmax, cross-entropy and its gradient of one row, by one warp, one lane per class. mean: 1 /
   rows of the step, 0 in rows beyond the end. */
__device__ RowResult softmax_row(const EpochPlan &plan, Shared &s, int label, float mean) {
  const int r = row_thread() / 32, c = row_thread() % 32;
  const float z = c < plan.shape.classes ? s.logits[r][c] : -INFINITY;
  float largest = z;
#pragma unroll
  for (int step = 8; step > 0; step /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(FULL_WARP, largest, step));
  const float exponential = expf(z - largest);
  float total = exponential;
#pragma unroll
  for (int step = 8; step > 0; step /= 2) total += __shfl_xor_sync(FULL_WARP, total, step);
  if (c < MAX_CLASSES)
    s.dz3[r][c] = exponential * __frcp_rn(total) * mean - (c == label ? mean : 0.0f);
  const float of_label = __shfl_sync(FULL_WARP, z, label);
  const unsigned best = __ballot_sync(FULL_WARP, z == largest); /* bit c: class c is largest */
  return {logf(total) + (largest - of_label), __ffs(best) - 1 == label};
}

/* dZ2 = dZ3 W3 where H2 is positive: thread (r, i) has values i and i + 80 of row r. */
__device__ void multiply_w3_back(const EpochPlan &plan, Shared &s) {
  const int r = row_thread() / ROW_LANES, i = row_thread() % ROW_LANES;
  float dh[2] = {};
#pragma unroll
  for (int c = 0; c < MAX_CLASSES; c++)
    if (c < plan.shape.classes) {
      const float dz3 = s.dz3[r][c];
      dh[0] += dz3 * s.w3[c][i];
      dh[1] += dz3 * s.w3[c][i + ROW_LANES];
    }
#pragma unroll
  for (int k = 0; k < 2; k++) {
    const int o = i + ROW_LANES * k;
    if (o < MAX_HIDDEN2)
      reinterpret_cast<float *>(&s.dz2[o])[r] = s.h2[r][o] <= 0.0f ? 0.0f : dh[k];
  }
}

/* Mails dZ2 and dZ3 to the patch teams. */
__device__ void send_dz2(const BlockLayout &layout, const Shared &s, uint32_t stamp) {
  const RowLane lane = row_lane(layout);
  const int r = lane.part / 2, n = row_thread();
  if (lane.exists && lane.part % 2 == 0) {
    const float *dz2 = reinterpret_cast<const float *>(&s.dz2[3 * lane.packet]) + r;
    send(record_of(layout, r) + layout.neuron_packets + lane.packet, dz2[0], dz2[4], dz2[8], stamp);
  }
  if (n < OWNED * layout.class_packets) {
    const int of = n % OWNED, k = n / OWNED;
    const float *dz3 = &s.dz3[of][3 * k];
    send(record_of(layout, of) + layout.neuron_packets + 2 * layout.hidden_packets + k, dz3[0],
         dz3[1], dz3[2], stamp);
  }
}

/* dH1 = dZ2 W2 for the 4 rows. Each lane multiplies its part of W2. The four packets of a warp are
   added by shuffles, lane group r ending with row r, the warps through shared memory. */
__device__ void multiply_w2_back(const BlockLayout &layout, Shared &s, const RowWeights &weights) {
  const int lane = row_thread() % 32, warp = row_thread() / 32, part = row_lane(layout).part;
  const int packet = row_lane(layout).packet;
  float4 dz[3];
#pragma unroll
  for (int e = 0; e < 3; e++) dz[e] = s.dz2[3 * packet + e];
  constexpr int AT_ONCE = PART / 2; /* 16 sums in registers, not 32 */
#pragma unroll
  for (int k0 = 0; k0 < PART; k0 += AT_ONCE) {
    float sum[OWNED][AT_ONCE] = {};
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++)
#pragma unroll
      for (int e = 0; e < 3; e++) {
        const float w = weights.w2[k0 + k][e];
        sum[0][k] += w * dz[e].x, sum[1][k] += w * dz[e].y;
        sum[2][k] += w * dz[e].z, sum[3][k] += w * dz[e].w;
      }
#pragma unroll
    for (int half = OWNED / 2, step = 16; half > 0; half /= 2, step /= 2)
#pragma unroll
      for (int r = 0; r < half; r++)
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
          const bool upper = lane & step;
          const float give = upper ? sum[r][k] : sum[r + half][k];
          sum[r][k] =
              (upper ? sum[r + half][k] : sum[r][k]) + __shfl_xor_sync(FULL_WARP, give, step);
        }
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++)
      s.da1[warp][lane / PARTS][part + PARTS * (k0 + k)] = sum[0][k];
  }
}

/* dZ1 = dH1 where H1 is positive, mailed to the group's matrix teams. Thread: one packet of one
   row. */
__device__ void send_dz1(const BlockLayout &layout, const Shared &s, uint32_t stamp) {
  const int r = row_thread() % OWNED, packet = row_thread() / OWNED;
  if (packet >= layout.neuron_packets) return;
  float dz[3] = {};
#pragma unroll
  for (int warp = 0; warp < ROW_WARPS; warp++)
#pragma unroll
    for (int e = 0; e < 3; e++) dz[e] += s.da1[warp][r][3 * packet + e];
#pragma unroll
  for (int e = 0; e < 3; e++)
    if (reinterpret_cast<const float *>(&s.h1[3 * packet + e])[r] <= 0.0f) dz[e] = 0.0f;
  send(layout.dz1 + (layout.block * OWNED + r) * layout.neuron_packets + packet, dz[0], dz[1],
       dz[2], stamp);
}

/* All steps of the launch, as the row team sees them. */
__device__ void row_team(const EpochPlan &plan, const EpochJob &job, Shared &s) {
  const BlockLayout &layout = s.layout;
  RowWeights weights;
  if (layout.owner) load_p(plan, job, layout, s, weights);
  wait<PATCH_READ>(ROW_THREADS + PATCH_THREADS);
  arrive<ALL_READ>(ROW_THREADS + MATRIX_THREADS);
  if (!layout.owner) return;
  const int warp = row_thread() / 32, row = layout.block * OWNED + warp; /* of the softmax */
  size_t next_row = row_at(job, job.position, row);

  uint32_t stamp = job.first_stamp;
  for (uint32_t position = job.position; position < job.end; position += plan.shape.batch) {
    STAMP(STAMP_ROW);
    const int label = job.d_labels[next_row]; /* both come while the team waits for mail */
    next_row = row_at(job, position + plan.shape.batch, row);
    const int rows = (int)min((uint32_t)plan.shape.batch, job.end - position);
    const float mean = row < rows ? 1.0f / rows : 0.0f;

    wait<Z1_SENT>(ROW_THREADS + MATRIX_THREADS);
    receive_z1(plan, layout, s, stamp);
    row_sync();
    STAMP(STAMP_Z1_RECEIVED);
    multiply_w2(plan, layout, s, weights, stamp);
    arrive<H2_SENT>(ROW_THREADS + PATCH_THREADS);
    STAMP(STAMP_Z2_RECEIVED);
    if (position != job.position)
      wait<W3_READY>(ROW_THREADS + PATCH_THREADS);
    else
      row_sync();
    STAMP(STAMP_W3_READY);
    multiply_w3(plan, s);
    row_sync();
    RowResult result = {};
    if (warp < OWNED) result = softmax_row(plan, s, label, mean);
    row_sync();
    STAMP(STAMP_SOFTMAX);
    multiply_w3_back(plan, s);
    row_sync();
    send_dz2(layout, s, stamp);
    arrive<DZ2_SENT>(ROW_THREADS + PATCH_THREADS);
    STAMP(STAMP_DZ2_SENT);
    multiply_w2_back(layout, s, weights);
    row_sync();
    send_dz1(layout, s, stamp);
    arrive<DZ1_SENT>(ROW_THREADS + MATRIX_THREADS);
    STAMP(STAMP_DZ1_SENT);
    if (layout.group == 0 && row_thread() % 32 == 0 && warp < OWNED && row < rows) {
      job.results.d_loss[position + row] = result.loss;
      job.results.d_correct[position + row] = result.correct;
    }
    wait<P_SENT>(ROW_THREADS + PATCH_THREADS);
    if (position + plan.shape.batch < job.end) receive_w2(layout, weights, stamp);
    STAMP(STAMP_W2_RECEIVED);
    stamp++;
  }
}

} // namespace epoch

#endif
