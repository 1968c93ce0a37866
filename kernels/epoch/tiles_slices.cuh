/* The weights between a tile and a neighbouring hidden layer. A slice IN has the tile's weights
   from all units of the previous layer. A slice OUT (IN is false) has the tile's weights to all
   units of the next layer. So a hidden weight has two copies: one in the slice IN of the tile that
   reads it forward, one in the slice OUT of the tile that reads it backward. Both tiles add up the
   same gradient in the same order, so both copies keep the same bits.

   Mail. A layer sends H to the next layer and dZ to the previous layer. A packet of 16 bytes is a
   lane's part of a tensor-core operand. It has high and low terms of two numbers of a tile and of
   two numbers of the next tile, or zeros if there is no next tile. A packet has no room for a
   stamp. Instead it has the step's phase, a bit that changes every second step. The phase replaces
   the sign of H, or the last bit of dZ's low term. H has no sign: level epoch takes ReLU only. dZ
   is sent twice. For the next product a word has two units of one row; for gradients it has two
   rows of one unit. H is sent once, and the tile that reads H transposes it. Steps use two buffers
   alternately.

   A k-step is 16 units of the other layer. A slice has its fp16 terms in shared memory. kept() says
   whether float32 weights and moments are in shared memory or in the L2 cache. Their layout is
   (array, k-step, lane) with four weights in each float4. */
#pragma once

#include "epoch/mail.cuh"
#include "epoch/tiles_layout.cuh"

namespace tiles {

constexpr int LOOKS = 10; /* number of packets that a lane waits for at once */

__device__ inline uint32_t phase_of(uint32_t stamp) {
  return (stamp >> 1 & 1) ^ 1;
}
/* Returns a word that has the step's phase in the sign bit of H or, if not IN, in dZ's last bit. */
template <bool IN> __device__ inline uint32_t phase_bit(uint32_t stamp) {
  return IN ? phase_of(stamp) << 31 : phase_of(stamp);
}
/* Returns a word whose phase bit is 1 if the packet's phase is wrong. Other bits mean nothing. */
template <bool IN> __device__ inline uint32_t wrong_phase(const uint4 &p, uint32_t bit) {
  return IN ? (p.x ^ bit) | (p.z ^ bit) : (p.y ^ bit) | (p.w ^ bit);
}
/* Waits for `count` packets, STRIDE packets apart, and clears their phase bits. Each round polls
   only the packets that are still missing. */
template <bool IN, int STRIDE, int MOST>
__device__ __forceinline__ void receive_packets(const uint4 *from, int count, uint32_t stamp,
                                                uint4 (&in)[MOST]) {
  constexpr uint32_t MASK = IN ? 0x80000000u : 1u;
  const uint32_t bit = phase_bit<IN>(stamp);
  unrolled (i, MOST)
    if (i < count) in[i] = load_b128(from + i * STRIDE);
  for (uint32_t polls = 0;;) {
    uint32_t wrong = 0;
    unrolled (i, MOST)
      if (i < count) wrong |= wrong_phase<IN>(in[i], bit);
    if (!(wrong & MASK)) break;
    check_timeout(polls);
    unrolled (i, MOST)
      if (i < count && wrong_phase<IN>(in[i], bit) & MASK) in[i] = load_b128(from + i * STRIDE);
  }
  __syncwarp();
  unrolled (i, MOST) {
    if (IN)
      in[i].x &= ~MASK, in[i].z &= ~MASK;
    else
      in[i].y &= ~MASK, in[i].w &= ~MASK;
  }
}

/* A tile's weights from the previous hidden layer (IN) or to the next one. FIRST is true in hidden
   layer 1, where pixels fill the shared memory. */
template <class S, bool IN, bool FIRST> struct Slice : Ground<S> {
  using G = Ground<S>;
  using G::job, G::s, G::layer, G::tile, G::warp, G::lane, G::g, G::t;
  static constexpr bool SECOND = S::SECOND;
  static constexpr int N_TILES = S::N_TILES;
  /* How many warps update a slice. In layer 1 they are the warps that hold weights. In later layers
     the chain helps, because it is idle until the next H arrives. */
  static constexpr int UPDATERS = FIRST ? WEIGHT_WARPS : WARPS;

  __device__ explicit Slice(const G &ground) : G(ground) {
  }

  __device__ int other() const { /* the layer that the slice connects to */
    return IN ? layer - 1 : layer + 1;
  }
  __device__ int k_steps() const {
    return (job.size[other()] + 15) / 16;
  }
  __device__ uint4 *terms() const {
    return this->template at<uint4>(job.terms_at[IN][layer]) + lane;
  }
  /* Returns four values of k-step k: array 0 has weights, 1 and 2 moments, the last averages. */
  __device__ float4 &kept(int array, int k) const {
    float4 *all = FIRST || S::FROM_80 ? job.slices + (size_t)(2 * blockIdx.x + IN) * job.slice
                                      : this->template at<float4>(job.kept_at[IN][layer]);
    return all[(array * k_steps() + k) * 32 + lane];
  }
  /* Returns the other layer's packets. If `of_gradient`, a word has two rows of one unit. */
  __device__ const uint4 *mail(uint32_t stamp, bool of_gradient) const {
    return (IN ? job.h : job.dz)[other()] +
           (2 * of_gradient + (stamp & 1)) * job.mail_size[other()] + lane;
  }
  /* Returns the received packets of k-step k and rows 8 n to 8 n + 7, as (word, lane). */
  __device__ uint32_t *received(int k, int n) const {
    return this->template at<uint32_t>(job.received_at[layer]) + (k * N_TILES + n) * 128;
  }
  /* Returns a received packet, transposed: a word has two rows of one unit. The 32 lanes' words
     of a packet are an 8 x 8 matrix of fp16, which ldmatrix transposes. */
  __device__ uint4 across(int k, int n) const {
    uint32_t words[4];
    ldmatrix_x4_trans(words, shared_address(received(k, n)) + lane * 16);
    return {words[0], words[1], words[2], words[3]};
  }
  /* Returns where the flat arrays have the lane's weight number e of k-step k. */
  __device__ long long index(int k, int e) const {
    const int theirs = k * 16 + e / 2 * 8 + 2 * t + e % 2, own = tile * UNITS + g;
    return IN ? this->weight_at(layer, own, theirs) : this->weight_at(layer + 1, theirs, own);
  }

  __device__ __forceinline__ void keep(const Weight (&x)[4], int k) const {
    kept(0, k) = {x[0].w, x[1].w, x[2].w, x[3].w};
    kept(1, k) = {x[0].m, x[1].m, x[2].m, x[3].m};
    if (SECOND) kept(2, k) = {x[0].v, x[1].v, x[2].v, x[3].v};
    if (IN && job.rule.averages) kept(2 + SECOND, k) = {x[0].a, x[1].a, x[2].a, x[3].a};
    uint4 a;
    a.x = split(x[0].w, x[1].w, a.y);
    a.z = split(x[2].w, x[3].w, a.w);
    terms()[k * 32] = a;
  }
  __device__ __forceinline__ void take(Weight (&x)[4], int k) const {
    float4 of[4] = {kept(0, k), kept(1, k)};
    if (SECOND) of[2] = kept(2, k);
    if (IN && job.rule.averages) of[3] = kept(2 + SECOND, k);
    unrolled (e, 4) x[e] = {(&of[0].x)[e], (&of[1].x)[e], (&of[2].x)[e], (&of[3].x)[e]};
  }
  __device__ void load() const {
    for (int k = warp; k < k_steps(); k += WEIGHT_WARPS) {
      Weight x[4];
      unrolled (e, 4) x[e] = load_weight<SECOND>(job.flat, index(k, e), W_SCALE);
      keep(x, k);
    }
  }
  /* Stores a slice IN. A slice OUT is not stored: its weights are also in other tiles' slices. */
  __device__ void store() const {
    for (int k = warp; IN && k < k_steps(); k += WEIGHT_WARPS) {
      Weight x[4];
      take(x, k);
      unrolled (e, 4) store_weight<SECOND>(job.flat, index(k, e), W_SCALE, x[e]);
    }
  }

  /* Computes gradients from own and received values. Updates the weights of the warp's k-steps. */
  template <int ONCE> __device__ __forceinline__ void update_all(int step) const {
    Slice(this->again()).template update_k_steps<(N_TILES < ONCE ? N_TILES : ONCE)>(step);
  }
  template <int ONCE> __device__ __forceinline__ void update_k_steps(int step) const {
    const auto &own = IN ? s.dz[step % S::TURNS] : s.h[step % S::TURNS];
    const uint32_t stamp = job.stamp + step;
    for (int k = warp; k < k_steps(); k += UPDATERS) {
      const uint4 *from = mail(stamp, true) + k * N_TILES * 32;
      float sum[4][4] = {}; /* sum[i]: products with word i of the packets */
      unrolled_by (first, N_TILES, ONCE) {
        uint4 in[ONCE];
        if constexpr (IN)
          unrolled (i, ONCE) in[i] = across(k, first + i);
        else
          receive_packets<IN, 32>(from + first * 32, ONCE, stamp, in);
        unrolled_by (i, ONCE, 2) {
          uint32_t a[4];
          ldmatrix_x4(a, own_at(own) + (first + i) * 16);
          mma_m16n8k16_fp16(sum[0], a, in[i].x, in[i + 1].x);
          mma_m16n8k16_fp16(sum[1], a, in[i].y, in[i + 1].y);
          mma_m16n8k16_fp16(sum[2], a, in[i].z, in[i + 1].z);
          mma_m16n8k16_fp16(sum[3], a, in[i].w, in[i + 1].w);
        }
      }
      const StepNumbers now = this->numbers(step);
      Weight x[4];
      take(x, k);
      update_four<SECOND>(job.rule, now, sum, x);
      keep(x, k);
    }
  }

  /* Multiplies received values of rows 8 n to 8 n + 7 by the weights of k-steps group, group +
     GROUPS, and so on. c[0] and c[1] become the sums with the weights' high terms for rows 2 t and
     2 t + 1 of the eight; c[2] and c[3] become the sums with their low terms. */
  template <int GROUPS>
  __device__ __forceinline__ void multiply(uint32_t stamp, int n, int group, float (&c)[4]) const {
    Slice(this->again()).template multiply_k_steps<GROUPS>(stamp, n, group, c);
  }
  template <int GROUPS>
  __device__ __forceinline__ void multiply_k_steps(uint32_t stamp, int n, int group,
                                                   float (&c)[4]) const {
    constexpr int STRIDE = GROUPS * N_TILES * 32;
    float low[4] = {};
    unrolled (e, 4) c[e] = 0.0f;
    for (int first = group; first < k_steps(); first += LOOKS * GROUPS) {
      uint4 in[LOOKS];
      const int count = (k_steps() - first + GROUPS - 1) / GROUPS;
      const uint4 *weights = terms() + first * 32;
      receive_packets<IN, STRIDE>(mail(stamp, false) + (first * N_TILES + n) * 32, count, stamp,
                                  in);
      unrolled (i, LOOKS) {
        if (i >= count) break;
        const uint4 w = weights[i * GROUPS * 32];
        const uint32_t a[4] = {w.x, w.y, w.z, w.w};
        mma_m16n8k16_fp16(c, a, in[i].x, in[i].z);
        mma_m16n8k16_fp16(low, a, in[i].y, in[i].w);
        if (IN) {
          uint32_t *to = received(first + i * GROUPS, n) + lane;
          to[0] = in[i].x, to[32] = in[i].y, to[64] = in[i].z, to[96] = in[i].w;
        }
      }
    }
    unrolled (e, 4) c[e] += low[e];
  }

  /* Computes the warp's partial sum of Z, over odd k-steps. The chain computes the even k-steps. */
  __device__ __forceinline__ void multiply_part(int step) const {
    unrolled (i, S::OWN) {
      const int n = warp + CHAINS * i;
      if (n >= N_TILES) break;
      float c[4];
      multiply<2>(job.stamp + step, n, 1, c);
      *reinterpret_cast<float2 *>(this->parts(step) + g * S::PITCH + n * 8 + 2 * t) = {c[0] + c[2],
                                                                                       c[1] + c[3]};
    }
  }
};

} // namespace tiles
