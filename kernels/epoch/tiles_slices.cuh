/* The weights between a tile and a neighbouring hidden layer: IN, from all of the layer before, and
   not IN (OUT), to all of the layer behind. A hidden weight lives twice, in the IN slice of the
   tile that reads it forward and in the OUT slice of the tile that reads it backward; both add up
   the same gradient in the same order, so that both stay equal, bit by bit.

   Mail: H of a layer goes to the layer behind, dZ to the layer before. A packet of 16 bytes is what
   a lane of a tensor-core operand has: high and low terms of two numbers of a tile, and the same of
   the next tile. One bit of it that numbers can spare, the sign of H or the last bit of dZ's low
   term, is the phase of the step, which changes every second step. Each of H and dZ is sent twice:
   with units side by side, which the next product wants, and with rows side by side, for gradients,
   which nobody waits for. Each lies in two buffers that steps take in turn.

   A k-step is 16 units of the other layer. Terms of weights are in shared memory, weights with
   moments in the L2 cache: slices (array, block, IN, k-step, lane), four weights in each float4. */
#pragma once

#include "epoch/mail.cuh"
#include "epoch/tiles_layout.cuh"

namespace tiles {

constexpr int SLICE_WARPS = CHAIN; /* that update slices; k-steps go round */
constexpr int LOOKS = 8;           /* packets under way at once */

__device__ inline uint32_t phase_of(uint32_t stamp) {
  return (stamp >> 1 & 1) ^ 1;
}
__device__ inline uint4 look(const uint4 *at) {
  uint4 p;
  float x, y, z;
  load_b128(at, x, y, z, p.w);
  p.x = __float_as_uint(x), p.y = __float_as_uint(y), p.z = __float_as_uint(z);
  return p;
}
/* Writes half of a packet: two numbers of a tile. */
__device__ inline void send_half(uint4 *packet, int half, uint32_t high, uint32_t low) {
  store_b64(reinterpret_cast<uint2 *>(packet) + half, high, low);
}

template <class S, bool IN> struct Slice : Ground<S> {
  using G = Ground<S>;
  using G::job, G::s, G::layer, G::tile, G::warp, G::lane, G::g, G::t;
  static constexpr bool SECOND = S::SECOND;
  static constexpr int N_TILES = S::N_TILES;

  __device__ explicit Slice(const G &ground) : G(ground) {
  }

  __device__ int other() const { /* layer */
    return IN ? layer - 1 : layer + 1;
  }
  __device__ int k_steps() const {
    return (job.size[other()] + 15) / 16;
  }
  __device__ uint4 *terms() const {
    return this->template at<uint4>(job.terms_at[IN][layer]) + lane;
  }
  __device__ float4 &kept(int array, int k) const {
    const size_t blocks = gridDim.x;
    return job.slices[(((array * blocks + blockIdx.x) * 2 + IN) * job.slice_steps + k) * 32 + lane];
  }
  /* Returns the mail of the other layer. The mail of gradients has rows side by side. */
  __device__ const uint4 *mail(uint32_t stamp, bool of_gradient) const {
    return (IN ? job.h : job.dz)[other()] +
           (2 * of_gradient + (stamp & 1)) * job.mail_size[other()] + lane;
  }
  static __device__ uint32_t mask() {
    return IN ? 0x80000000u : 1u;
  }
  static __device__ uint32_t phase_bit(uint32_t stamp) {
    return IN ? phase_of(stamp) << 31 : phase_of(stamp);
  }
  /* Returns the bits that are wrong in the phases of a packet, whose second tile may not exist. */
  static __device__ uint32_t missing(const uint4 &p, uint32_t bit, bool half) {
    return (((IN ? p.x : p.y) ^ bit) | (half ? 0u : (IN ? p.z : p.w) ^ bit)) & mask();
  }
  static __device__ uint4 without_phase(uint4 p) {
    if (IN)
      p.x &= ~mask(), p.z &= ~mask();
    else
      p.y &= ~mask(), p.w &= ~mask();
    return p;
  }
  /* The offset in the flat arrays of the lane's weight e of k-step k. */
  __device__ long long index(int k, int e) const {
    const int theirs = k * 16 + e / 2 * 8 + 2 * t + e % 2, own = tile * UNITS + g;
    return IN ? this->weight_at(layer, own, theirs) : this->weight_at(layer + 1, theirs, own);
  }

  __device__ __forceinline__ void keep(const Weight (&x)[4], int k) const {
    kept(0, k) = {x[0].w, x[1].w, x[2].w, x[3].w};
    kept(1, k) = {x[0].m, x[1].m, x[2].m, x[3].m};
    if (SECOND) kept(2, k) = {x[0].v, x[1].v, x[2].v, x[3].v};
    if (IN && job.rule.averages) kept(3, k) = {x[0].a, x[1].a, x[2].a, x[3].a};
    uint4 a;
    a.x = split(x[0].w, x[1].w, a.y);
    a.z = split(x[2].w, x[3].w, a.w);
    terms()[k * 32] = a;
  }
  __device__ __forceinline__ void take(Weight (&x)[4], int k) const {
    float4 of[4] = {kept(0, k), kept(1, k)};
    if (SECOND) of[2] = kept(2, k);
    if (IN && job.rule.averages) of[3] = kept(3, k);
    unrolled (e, 4) x[e] = {(&of[0].x)[e], (&of[1].x)[e], (&of[2].x)[e], (&of[3].x)[e]};
  }
  __device__ void load() const {
    for (int k = warp; k < k_steps(); k += SLICE_WARPS) {
      Weight x[4];
      unrolled (e, 4) x[e] = load_weight<SECOND>(job.flat, index(k, e), W_SCALE);
      keep(x, k);
    }
  }
  /* Stores the weights. The copy IN of a weight is stored; the copy OUT has the same bits. */
  __device__ void store() const {
    for (int k = warp; IN && k < k_steps(); k += SLICE_WARPS) {
      Weight x[4];
      take(x, k);
      unrolled (e, 4) store_weight<SECOND>(job.flat, index(k, e), W_SCALE, x[e]);
    }
  }

  /* Gradient, the tile's own numbers times what came, and update. */
  __device__ __forceinline__ void update_all(int step) const {
    const StepNumbers now = this->numbers(step);
    constexpr int PAIRS = S::K_STEPS < 4 || SECOND ? 2 : 4; /* of packets, received at once */
    const auto &own = IN ? s.dz[step % S::TURNS] : s.h[step % S::TURNS];
    const uint4 *from = mail(job.stamp + step, true);
    const uint32_t bit = phase_bit(job.stamp + step);
    for (int k = warp; k < k_steps(); k += SLICE_WARPS) {
      Weight x[4];
      take(x, k);
      const bool half = 2 * k + 1 >= job.tiles[other()];
      float sum[4][4] = {}; /* of the first tile high and low, of the second */
      unrolled_by (first, S::K_STEPS, PAIRS) {
        uint4 in[2 * PAIRS];
        uint32_t wrong, polls = 0;
        do {
          wrong = 0;
          unrolled (i, 2 * PAIRS) in[i] = look(from + (k * N_TILES + 2 * first + i) * 32);
          unrolled (i, 2 * PAIRS) wrong |= missing(in[i], bit, half);
          check_timeout(polls);
        } while (wrong);
        __syncwarp();
        unrolled (r, PAIRS) {
          uint32_t a[4];
          ldmatrix_x4(a, own_at(own) + (first + r) * 32);
          const uint4 p = without_phase(in[2 * r]), q = without_phase(in[2 * r + 1]);
          mma_m16n8k16_fp16(sum[0], a, p.x, q.x);
          mma_m16n8k16_fp16(sum[1], a, p.y, q.y);
          mma_m16n8k16_fp16(sum[2], a, p.z, q.z);
          mma_m16n8k16_fp16(sum[3], a, p.w, q.w);
        }
      }
      constexpr float SCALE = W_SCALE / (DZ_SCALE * H_SCALE);
      unrolled (e, 4)
        update<SECOND>(job.rule, now, W_SCALE, true,
                       add_terms(sum[e / 2 * 2], sum[e / 2 * 2 + 1], e % 2) * SCALE, x[e]);
      if (IN && job.rule.averages)
        unrolled (e, 4) move_average(now, x[e].w, x[e].a);
      keep(x, k);
    }
  }

  /* Sums of 8 rows, number n, over k-steps group, group + groups, ...: what came times the slice.
     c: of the slice's high terms rows 2 t, 2 t + 1, then of its low ones. */
  __device__ __forceinline__ void multiply(uint32_t stamp, int n, int group, int groups,
                                           float (&c)[4]) const {
    const int steps = k_steps(), half_k = job.tiles[other()] % 2 ? steps - 1 : -1;
    const uint4 *from = mail(stamp, false) + n * 32, *weights = terms();
    const uint32_t bit = phase_bit(stamp);
    float low[4] = {};
    unrolled (e, 4) c[e] = 0.0f;
    for (int first = group; first < steps; first += LOOKS * groups) {
      uint4 in[LOOKS];
      const int count = (steps - first + groups - 1) / groups,
                half = half_k >= 0 ? half_k - first : -1;
      unrolled (i, LOOKS) in[i].x = in[i].y = in[i].z = in[i].w = i < count ? ~bit & mask() : bit;
      uint32_t wrong, polls = 0;
      do {
        wrong = 0;
        unrolled (i, LOOKS)
          if (missing(in[i], bit, i * groups == half))
            in[i] = look(from + (size_t)(first + i * groups) * N_TILES * 32);
        unrolled (i, LOOKS) wrong |= missing(in[i], bit, i * groups == half);
        check_timeout(polls);
      } while (wrong);
      __syncwarp();
      unrolled (i, LOOKS) {
        if (i >= count) break;
        const uint4 w = weights[(first + i * groups) * 32], p = without_phase(in[i]);
        const uint32_t a[4] = {w.x, w.y, w.z, w.w};
        mma_m16n8k16_fp16(c, a, p.x, p.z);
        mma_m16n8k16_fp16(low, a, p.y, p.w);
      }
    }
    unrolled (e, 4) c[e] += low[e];
  }

  /* A warp's part of Z of a step, of k-steps that the chain leaves: groups 1 and 2 of three. */
  __device__ __forceinline__ void multiply_part(int step) const {
    const int group = 1 + warp / 8;
    unrolled (i, S::OWN) {
      const int n = warp % 8 + 8 * i;
      if (n >= N_TILES) break;
      float c[4];
      multiply(job.stamp + step, n, group, 3, c);
      *reinterpret_cast<float2 *>(this->parts(step) + ((group - 1) * UNITS + g) * S::PITCH + n * 8 +
                                  2 * t) = {c[0] + c[2], c[1] + c[3]};
    }
  }
};

} // namespace tiles
