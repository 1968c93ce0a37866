/* The last layer, the head. Each tile of the last hidden layer keeps its columns of the head's
   weights. It computes its part of the logits of every row and sends the part to the row's owner, a
   block of the same cluster. The owner adds up 16 parts. If there are several clusters, a row has
   one owner in each cluster, and the owners mail each other their sums. So all owners of a row have
   the same logits. Each owner computes the loss and the gradient of the logits, and sends the
   gradient to the blocks of its cluster. Per row and block, 64 bytes travel in each direction.
   Sending H and the columns instead would take thousands of bytes.

   Each tile uses this gradient to update its columns. Each block also updates its own copy of the
   biases; all copies are equal.

   If S::MAIL is true, separate blocks own the rows, on the multiprocessors that no tile needs. Each
   warp of these blocks owns some rows. Each tile sends its part of a row's logits to the row's
   warp. Only the first tile has the biases. It updates them and sends them as one more part. The
   owner writes the gradient to REPLICAS places, so that not all blocks read from one place. */
#pragma once

#include "epoch/tiles_slices.cuh"

namespace tiles {

/* Waits for a barrier that counts the bytes that other blocks of the cluster send. */
__device__ inline void await(uint64_t *barrier, uint32_t parity) {
  uint32_t done, polls = 0;
  do {
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
    if (!done) check_timeout(polls);
  } while (!done);
}

/* Writes 16 bytes into the cluster's block `rank`, and counts them in that block's `barrier`. */
__device__ inline void send_to_block(const void *to, uint64_t *barrier, int rank, uint32_t x,
                                     uint32_t y, uint32_t z, uint32_t w) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, "
               "%4}, [%5];" ::"r"(address_in(shared_address(to), rank)),
               "r"(x), "r"(y), "r"(z), "r"(w), "r"(address_in(shared_address(barrier), rank))
               : "memory");
}

constexpr int REPLICAS = 8;      /* copies of the logits' gradient; lane 4 g + t writes copy g */
constexpr int MAIL_CLASSES = 12; /* a row has 4 packets with three classes and a stamp each */

template <class S> struct Head : Ground<S> {
  using G = Ground<S>;
  using G::job, G::s, G::layer, G::tile, G::warp, G::lane, G::g, G::t, G::class_of;
  static constexpr bool SECOND = S::SECOND;

  __device__ explicit Head(const G &ground) : G(ground) {
  }

  /* ---- the tile's weights to the last layer: a lane has unit g and 4 classes (class_of) ---- */
  __device__ long long weight_index(int e) const {
    return this->weight_at(job.layers, class_of(e), tile * UNITS + g);
  }
  __device__ long long bias_index(int e) const {
    return class_of(e) < job.classes ? (long long)job.bias[job.layers] + class_of(e) : -1ll;
  }
  __device__ void show(const Weight (&x)[4]) const {
    s.last[0][g][t] = split(x[0].w, x[1].w, s.last[1][g][t]);
    s.last[2][g][t] = split(x[2].w, x[3].w, s.last[3][g][t]);
    arrive<LAST_READY>(HELPER_THREADS);
  }
  /* Gives the last layer's biases to the chain or, with mail, sends them to the rows' owners. */
  __device__ void show_biases(const Weight (&x)[4], uint32_t stamp) const {
    if constexpr (S::MAIL) {
      for (int n = 0; n < S::N_TILES; n++)
        send(logits_at(n * 8 + g, job.tiles[layer]), x[0].w, x[1].w, x[2].w, stamp);
      return;
    }
    if (g == 0)
      unrolled (e, 4) s.last_bias[class_of(e)] = x[e].w;
    arrive<BIASES_READY>(HELPER_THREADS);
  }
  __device__ __forceinline__ void update_columns(Weight (&x)[4], int step) const {
    const StepNumbers now = this->numbers(step);
    float sum[4][4] = {}; /* sum[2 p] uses high terms of class pair p, sum[2 p + 1] low terms */
    unrolled (q, S::K_STEPS / 2) {
      uint32_t a[2][4];
      unrolled (k, 2) ldmatrix_x4(a[k], own_at(s.h[step % S::TURNS]) + (2 * q + k) * 32);
      unrolled (m, 4) {
        uint32_t r[4];
        ldmatrix_x4_trans(
            r, shared_address(this->head(step) + ((q * 4 + lane / 8) * 4 + m) * 8 + lane % 8));
        mma_m16n8k16_fp16(sum[m], a[0], r[0], r[1]);
        mma_m16n8k16_fp16(sum[m], a[1], r[2], r[3]);
      }
    }
    update_four<SECOND>(job.rule, now, sum, x);
  }
  __device__ __forceinline__ void update_biases(Weight (&x)[4], int step) const {
    float sum[4] = {};
    unrolled (n, S::N_TILES) {
      const uint32_t *row =
          reinterpret_cast<const uint32_t *>(this->head(step) + n * 32) + g * 4 + t;
      unrolled (p, 2) {
        const float2 high = unpack_fp16(row[2 * p * 32]), low = unpack_fp16(row[(2 * p + 1) * 32]);
        sum[2 * p] += high.x + low.x, sum[2 * p + 1] += high.y + low.y;
      }
    }
    const StepNumbers now = this->numbers(step);
    add_lanes(sum);
    unrolled (e, 4)
      update<SECOND>(job.rule, job.rule.biases, now, bias_index(e) < 0 ? 0.0f : sum[e] / DZ_SCALE,
                     x[e]);
    if (job.rule.averages)
      unrolled (e, 4) move_average(now, x[e].w, x[e].a);
  }

  /* ---- sending the logits of 8 rows, and receiving their gradient ---- */
  /* Sends the logits of rows 8 n to 8 n + 7. `h` is a left operand with the terms of their H. */
  __device__ __forceinline__ void send_logits(uint32_t stamp, int n, const uint32_t (&h)[4]) const {
    uint32_t w[4];
    float c[4][4] = {};
    ldmatrix_x4_trans(w, shared_address(s.last) + lane * 16);
    unrolled (m, 4) mma_m16n8k16_fp16(c[m], h, w[m], w[m]);
    constexpr float SCALE = 1.0f / (H_SCALE * W_SCALE);
    const int row = n * 8 + g, owner = row / (S::ROWS / RANKS);
    uint32_t part[4];
    unrolled (e, 4)
      part[e] = __float_as_uint((c[e / 2 * 2][e % 2] + c[e / 2 * 2 + 1][e % 2]) * SCALE);
    if constexpr (S::MAIL)
      store_b128(logits_at(row, tile), {part[0], part[1], part[2], stamp});
    else
      send_to_block(&s.logits[row % (S::ROWS / RANKS)][tile % RANKS][t], &s.logits_came, owner,
                    part[0], part[1], part[2], part[3]);
  }
  /* Reads the logits' gradient of rows 8 n to 8 n + 7 and stores it for the updates. With mail, it
     first waits for this gradient. Sets `dh` to W_SCALE DZ_SCALE times the gradient of H, for
     unit g and for rows 8 n + 2 t and 8 n + 2 t + 1. */
  __device__ __forceinline__ void take_gradient(int step, int n, float (&dh)[2]) const {
    const uint4 in =
        S::MAIL ? receive_gradient(job.stamp + step, n) : this->head(step)[n * 32 + lane];
    uint32_t w[4];
    __syncwarp();
    ldmatrix_x4(w, shared_address(s.last) + lane * 16);
    uint32_t *to = reinterpret_cast<uint32_t *>(this->head(step) + n * 32) + g * 4 + t;
    to[0] = in.x, to[32] = in.y, to[64] = in.z, to[96] = in.w;
    float c[4] = {}, d[4] = {};
    mma_m16n8k16_fp16(c, w, in.x, in.z);
    mma_m16n8k16_fp16(d, w, in.y, in.w);
    unrolled (e, 2) dh[e] = (c[e] + d[e]) + (c[e + 2] + d[e + 2]);
  }

  /* For mail. logits_at() returns where the lane's three logits of a row are sent. `producer` is
     the tile that sends them; the biases have the number after the last tile. receive_gradient()
     waits for the gradient of 8 rows. Its packets have the stamp instead of a fourth class. */
  __device__ Packet *logits_at(int row, int producer) const {
    return reinterpret_cast<Packet *>(job.logits) +
           ((size_t)row * (job.tiles[job.layers - 1] + 1) + producer) * 4 + t;
  }
  __device__ __forceinline__ uint4 receive_gradient(uint32_t stamp, int n) const {
    const uint4 *at = job.gradient + (blockIdx.x % REPLICAS * S::N_TILES + n) * 32 + lane;
    uint4 in;
    uint32_t polls = 0;
    do {
      in = load_b128(at);
      check_timeout(polls);
    } while (__byte_perm(in.z, in.w, 0x7632) != stamp);
    __syncwarp();
    in.z &= 0xffffu, in.w &= 0xffffu;
    return in;
  }

  /* ---- rows that the block owns: one warp per row ---- */
  /* Adds up each z[e] over the 8 lanes that have the same t. */
  static __device__ __forceinline__ void add_lanes(float (&z)[4]) {
    unrolled (i, 3)
      unrolled (e, 4) z[e] += __shfl_xor_sync(FULL_WARP, z[e], 4 << i);
  }
  static __device__ __forceinline__ float over_quad(float x, bool adds) {
    unrolled (i, 2) {
      const float other = __shfl_xor_sync(FULL_WARP, x, 1 << i);
      x = adds ? x + other : fmaxf(x, other);
    }
    return x;
  }
  /* Returns the value that a packet holds three times. The result depends on all three words,
     because ptxas splits a load whose words are not all used. A value that is loaded separately
     could be older than the stamp. */
  static __device__ __forceinline__ float whole(const Packet &p) {
    return __uint_as_float(__float_as_uint(p.x) ^ __float_as_uint(p.y) ^ __float_as_uint(p.z));
  }
  /* Adds up the sums of a row's owners in all clusters. More than 12 classes take two packets. Two
     buffers suffice: before an owner sends its sum of step t + 2, it receives the other owners'
     sums of step t + 1. They send these only after they have read the sums of step t. */
  __device__ __forceinline__ void add_clusters(float (&z)[4], uint32_t stamp, int row) const {
    uint4 *at = job.logits + (size_t)((stamp & 1) * S::ROWS + row) * job.clusters * 8;
    const bool more = job.classes > 12;
    float in[4] = {};
    if (g == 0) {
      send(reinterpret_cast<Packet *>(at + tile / RANKS * 8 + t), z[0], z[1], z[2], stamp);
      if (more)
        send(reinterpret_cast<Packet *>(at + tile / RANKS * 8 + 4 + t), z[3], z[3], z[3], stamp);
    }
    if (g < job.clusters) {
      Packet p[2];
      receive(
          p, stamp, [&](int i) { return i == 0 || more; },
          [&](int i) { return reinterpret_cast<Packet *>(at + g * 8 + 4 * i + t); });
      in[0] = p[0].x, in[1] = p[0].y, in[2] = p[0].z, in[3] = whole(p[1]);
    }
    __syncwarp();
    unrolled (e, 4) z[e] = in[e];
    add_lanes(z);
  }
  /* Returns a row's label, or -1 if the step has no such row. mean_of() returns the factor of the
     row's gradient: 1 / (rows of the step), or 0 if the label is -1. */
  __device__ int label_of(int step, int row) const {
    const uint32_t first = (uint32_t)step * job.batch;
    return (uint32_t)row < min((uint32_t)job.batch, job.rows - first) ? job.labels[first + row]
                                                                      : -1;
  }
  __device__ float mean_of(int step, int label) const {
    return label < 0 ? 0.0f : step + 1 < job.steps ? job.mean : job.last_mean;
  }
  /* Computes loss and gradient of row `slot` of the block's own rows, from the partial logits. */
  __device__ __forceinline__ void own_row(int step, int slot) const {
    const int row = cluster_rank() * (S::ROWS / RANKS) + slot, label = label_of(step, row);
    const float mean = mean_of(step, label);
    await(&s.logits_came, step & 1);
    if (warp == CHAIN && lane == 0) barrier_expect(&s.logits_came, S::ROWS * 64);
    const uint4 p = s.logits[slot][g][t], q = s.logits[slot][g + 8][t];
    float z[4] = {
        __uint_as_float(p.x) + __uint_as_float(q.x), __uint_as_float(p.y) + __uint_as_float(q.y),
        __uint_as_float(p.z) + __uint_as_float(q.z), __uint_as_float(p.w) + __uint_as_float(q.w)};
    add_lanes(z);
    if (job.clusters > 1) add_clusters(z, job.stamp + step, row);
    finish_row(step, row, label, mean, z);
  }
  __device__ __forceinline__ void finish_row(int step, int row, int label, float mean,
                                             float (&z)[4]) const {
    float most = -INFINITY, all = 0.0f, wanted = 0.0f;
    unrolled (e, 4) {
      z[e] = class_of(e) < job.classes ? z[e] + s.last_bias[class_of(e)] : -INFINITY;
      most = fmaxf(most, z[e]);
    }
    most = over_quad(most, false);
    float exps[4], total = 0.0f, d[4];
    unrolled (e, 4) total += exps[e] = expf(z[e] - most);
    total = over_quad(total, true);
    const float scale = __fdividef(mean, total);
    unrolled (e, 4) {
      const bool is_label = class_of(e) == label;
      d[e] = class_of(e) < job.classes
                 ? (exps[e] * scale - (is_label ? job.own : job.other) * mean) * DZ_SCALE
                 : 0.0f;
    }
    uint32_t low[2];
    const uint32_t a = split(d[0], d[1], low[0]), b = split(d[2], d[3], low[1]);
    const uint32_t stamp = job.stamp + step;
    if constexpr (S::MAIL)
      store_b128(job.gradient + (g * S::N_TILES + row / 8) * 32 + row % 8 * 4 + t,
                 {a, low[0], b | stamp << 16, low[1] | (stamp & 0xffff0000u)});
    else
      unrolled (k, 2)
        send_to_block(this->head(step) + row * 4 + t, &s.head_came, g + 8 * k, a, low[0], b,
                      low[1]);
    if (label < 0 || (!S::MAIL && tile >= RANKS)) return; /* only cluster 0 stores results */
    const uint32_t position = (uint32_t)step * job.batch + row;
    int best = CLASSES;
    unrolled (e, 4) {
      if (class_of(e) >= job.classes) continue;
      if (class_of(e) == label) wanted = job.own * z[e];
      if (class_of(e) != label && job.other > 0.0f) all += z[e];
      if (z[e] == most) best = min(best, class_of(e));
    }
    wanted = over_quad(fmaf(job.other, all, wanted), true);
    unrolled (i, 2) best = min(best, __shfl_xor_sync(FULL_WARP, best, 1 << i));
    if (lane == 0) {
      const float loss = logf(total) + (most - wanted);
      job.results.d_loss[position] = loss;
      job.results.d_correct[position] = best == label;
      if (!isfinite(loss)) *job.flat.d_overflowed = 1;
    }
  }
};

/* A block that owns rows and receives their logits by mail. */
template <class S> struct RowBlock : Head<S> {
  using G = Ground<S>;
  using G::job, G::warp, G::g, G::t;

  __device__ explicit RowBlock(const G &ground) : Head<S>(ground) {
  }

  __device__ void run() const {
    const int of = blockIdx.x - job.first_row_block, blocks = gridDim.x - job.first_row_block;
    for (int step = 0; step < job.steps; step++)
      for (int row = of + warp * blocks; row < S::ROWS; row += WARPS * blocks) run_row(step, row);
  }
  __device__ void run_row(int step, int row) const {
    const int producers = job.tiles[job.layers - 1] + 1, label = this->label_of(step, row);
    float z[4] = {};
    for (int first = g; first - g < producers; first += 6 * 8) {
      Packet in[6];
      receive(
          in, job.stamp + step, [&](int i) { return first + 8 * i < producers; },
          [&](int i) { return this->logits_at(row, first + 8 * i); });
      unrolled (i, 6) z[0] += in[i].x, z[1] += in[i].y, z[2] += in[i].z;
    }
    __syncwarp();
    this->add_lanes(z);
    this->finish_row(step, row, label, this->mean_of(step, label), z);
  }
};

} // namespace tiles
