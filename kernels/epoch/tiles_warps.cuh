/* The work of a block's warps: a MatrixWarp owns weights, a Chain warp owns rows. FIRST is true if
   the tile is in the first hidden layer and has pixels. LAST is true if the tile is in the last
   hidden layer and takes part in the head. */
#pragma once

#include "activation.h"
#include "epoch/tiles_head.cuh"
#include "epoch/tiles_pixels.cuh"
#include "epoch/tiles_slices.cuh"

namespace tiles {

/* The role of a warp with weights. In layer 1, warps 0 to 6 are OWNERs of weights from pixels, and
   warp 7 HELPS. In other layers all eight warps have role ANY, so they share their code. */
enum Role { OWNER, HELPS, ANY };

template <class S, bool FIRST, bool LAST, Role ROLE> struct MatrixWarp : Ground<S> {
  using G = Ground<S>;
  using G::job, G::s, G::layer, G::tile, G::warp, G::g, G::t;
  static constexpr bool HAS_PIXELS = FIRST && ROLE == OWNER, KNOWN = FIRST && S::AHEAD;
  Pixels<S> pixels;
  Slice<S, true, FIRST> in;
  Slice<S, false, FIRST> out;
  Head<S> head;

  __device__ explicit MatrixWarp(const G &ground)
      : G(ground), pixels(ground), in(ground), out(ground), head(ground) {
  }

  __device__ void hand_over(int step, int end) const {
    arrive<Z_READY>(THREADS);
    wait<Z_TAKEN>(THREADS);
    fetch_pixels<S>(*this, step + 1, end);
  }
  __device__ void show_bias(const Weight &bias, int step, bool known) const {
    if (t == 0) s.bias[step & 1][g] = known ? known_of(job.rule.biases, bias.w, bias.m) : bias.w;
  }
  /* Updates the bias of unit g. The unit's four lanes, 4 g + t, add up its dZ over all rows. */
  __device__ __forceinline__ void update_bias(Weight &bias, int step) const {
    float sum = 0.0f;
    unrolled (term, 2)
      unrolled (i, S::ROWS / 32) {
        const auto *rows = &s.dz[step % S::TURNS][term * UNITS + g][(i * 4 + t) * 8];
        const uint4 v = *reinterpret_cast<const uint4 *>(rows);
        unrolled (e, 4) {
          const float2 two = unpack_fp16((&v.x)[e]);
          sum += two.x + two.y;
        }
      }
    sum += __shfl_xor_sync(FULL_WARP, sum, 1);
    sum += __shfl_xor_sync(FULL_WARP, sum, 2);
    const StepNumbers now = this->numbers(step);
    update<S::SECOND>(job.rule, job.rule.biases, now, sum / DZ_SCALE, bias);
    if (job.rule.averages) move_average(now, bias.w, bias.a);
  }

  __device__ __forceinline__ void run() {
    const bool helps = ROLE == HELPS || (ROLE == ANY && warp == HELPER),
               has_last_bias = LAST && (!S::MAIL || tile == 0);
    const int unit = tile * UNITS + g;
    const long long bias_at =
        helps && unit < job.size[layer] ? (long long)job.bias[layer] + unit : -1;
    Weight last[4], last_bias[4], bias;
    if constexpr (HAS_PIXELS) pixels.load();
    if (!FIRST) in.load();
    if (!LAST) out.load();
    if (helps) {
      if (LAST) {
        unrolled (e, 4) last[e] = load_weight<S::SECOND>(job.flat, head.weight_index(e), W_SCALE);
        head.show(last);
      }
      bias = load_weight<S::SECOND>(job.flat, bias_at, 1);
      show_bias(bias, 0, false);
      if (has_last_bias) {
        unrolled (e, 4) last_bias[e] = load_weight<S::SECOND>(job.flat, head.bias_index(e), 1);
        head.show_biases(last_bias, job.stamp);
      }
    }
    if (FIRST && !LAST) arrive<TERMS_READY>(THREADS);
    if (!FIRST) {
      wait<TERMS_READY>(THREADS);
      multiply_part(0);
    }
    for (int step = 0; step < job.steps;) {
      const int end = FIRST ? this->end_of_segment(step) : job.steps;
      if (FIRST) begin_segment(step, end, helps, bias);
      for (; step < end; step++) {
        if (helps)
          wait<DZ_READY>(HELPER_THREADS);
        else
          wait<GO>(GO_THREADS);
        const bool more = step + 1 < job.steps;
        if (helps) {
          if (LAST) {
            head.update_columns(last, step);
            if (more) head.show(last);
          }
          if (has_last_bias) {
            head.update_biases(last_bias, step);
            if (more) head.show_biases(last_bias, job.stamp + step + 1);
          }
          update_bias(bias, step);
          show_bias(bias, step + 1 + KNOWN, KNOWN);
        }
        if (!FIRST) in.template update_all<8>(step);
        if (!LAST) out.template update_all<FIRST ? 4 : 8>(step);
        if (FIRST && !LAST && more) arrive<TERMS_READY>(THREADS);
        if constexpr (HAS_PIXELS) pixels.update_all(step);
        if (FIRST) {
          if constexpr (HAS_PIXELS)
            if (step + 1 + KNOWN < end) pixels.template multiply<KNOWN>(step + 1 + KNOWN);
          hand_over(step + 1 + KNOWN, end);
        } else {
          wait<TERMS_READY>(THREADS);
          if (more) multiply_part(step + 1);
        }
      }
    }
    if constexpr (HAS_PIXELS) pixels.store();
    if (!FIRST) in.store();
    if (helps && LAST)
      unrolled (e, 4) store_weight<S::SECOND>(job.flat, head.weight_index(e), W_SCALE, last[e]);
    if (helps && t == 0) store_weight<S::SECOND>(job.flat, bias_at, 1, bias);
    if (helps && LAST && tile == 0 && g == 0)
      unrolled (e, 4) store_weight<S::SECOND>(job.flat, head.bias_index(e), 1, last_bias[e]);
  }

  /* Multiplies the pixels of the segment's first step by the weights. If KNOWN, also multiplies
     the second step's pixels by the part of the next weights that is known now (known_of). */
  __device__ __forceinline__ void begin_segment(int step, int end, bool helps,
                                                const Weight &bias) const {
    if (helps) {
      show_bias(bias, step, false);
      if (KNOWN) show_bias(bias, step + 1, true);
    }
    fetch_pixels<S>(*this, step, end);
    if constexpr (HAS_PIXELS) pixels.template multiply<false>(step);
    hand_over(step, end);
    if (!KNOWN) return;
    if constexpr (HAS_PIXELS && KNOWN)
      if (step + 1 < end) pixels.template multiply<true>(step + 1);
    hand_over(step + 1, end);
  }
  __device__ __forceinline__ void multiply_part(int step) const {
    in.multiply_part(step);
    arrive<Z_READY>(THREADS);
    wait<Z_TAKEN>(THREADS);
  }
};

/* The chain computes what a step waits for: Z, H, dZ and the next Z. A warp has 8 or 16 rows of the
   batch and all units of the tile, so the chain needs no barrier of the whole block. */
template <class S, bool FIRST, bool LAST> struct Chain : Ground<S> {
  using G = Ground<S>;
  using G::job, G::s, G::layer, G::tile, G::warp, G::lane, G::g, G::t;
  static constexpr int OWN = S::OWN;
  static constexpr bool KNOWN = FIRST && S::AHEAD, GO_IS_LATE = KNOWN && !LAST;
  Slice<S, true, FIRST> in;
  Slice<S, false, FIRST> out;
  Head<S> head;
  float z[OWN][2], next[OWN][2], h[OWN][2]; /* values of unit g, rows 2 t and 2 t + 1 */
  float kept[OWN][2], scale; /* kept: each value's dropout factor, which is `scale` or 0 */
  int products = 0;          /* how often the warp has waited for K */

  __device__ explicit Chain(const G &ground) : G(ground), in(ground), out(ground), head(ground) {
  }

  __device__ int n_tile(int i) const {
    return warp - CHAIN + 8 * i;
  }
  __device__ bool has(int i) const {
    return n_tile(i) < S::N_TILES;
  }
  __device__ bool exists() const {
    return tile < job.tiles[layer];
  }
  __device__ uint4 *mail_of(uint4 *const (&of)[LAYERS], uint32_t stamp, bool of_gradient) const {
    return of[layer] + (2 * of_gradient + (stamp & 1)) * job.mail_size[layer];
  }
  /* Sends terms of H to the next hidden layer or, if not OF_H, terms of dZ to the previous one. */
  template <bool OF_H>
  __device__ void send_terms(uint4 *mail, int n, uint32_t high, uint32_t low,
                             uint32_t stamp) const {
    const uint32_t bit = phase_bit<OF_H>(stamp), of_high = OF_H ? bit : 0, of_low = bit - of_high;
    /* a tile's two numbers are half of a packet */
    uint2 *half = reinterpret_cast<uint2 *>(mail + (tile / 2 * S::N_TILES + n) * 32 + lane);
    store_b64(half + tile % 2, high | of_high, low | of_low);
    if (tile % 2 == 0 && tile + 1 == job.tiles[layer]) store_b64(half + 1, of_high, of_low);
  }
  __device__ void fetch_kept(int step) {
    if (!job.keeps || step >= job.steps || !exists()) return;
    step = anew(step);
    unrolled (i, OWN) {
      if (!has(i)) break;
      const uint32_t rows = *reinterpret_cast<const uint16_t *>(
          job.keeps + ((size_t)step * job.all_tiles + job.first_tile[layer] + tile) * S::ROWS +
          n_tile(i) * 8 + 2 * t);
      unrolled (e, 2) kept[i][e] = rows >> (8 * e + g) & 1 ? scale : 0.0f;
    }
  }
  /* Lets one thread start to copy K (k_kernel). Callers ensure that no warp still reads old K. */
  __device__ void fetch_k(int step, int end) const {
    constexpr int BYTES = S::N_TILES * S::K_STEPS * 512;
    if constexpr (KNOWN) {
      if (step + 1 >= end || warp != CHAIN || lane != 0) return;
      barrier_expect(&s.k_came, BYTES);
      copy_bulk(this->template at<uint4>(job.k_at), job.k + (size_t)step * (BYTES / 16), BYTES,
                &s.k_came);
    }
  }

  /* Waits for COUNT partial sums of Z. z = (z + the sums) * scale + bias. */
  template <int COUNT>
  __device__ __forceinline__ void take_parts(int step, int end, float scale, float (&z)[OWN][2]) {
    wait<Z_READY>(THREADS);
    if (step < end)
      unrolled (i, OWN) {
        if (!has(i)) break;
        const float *from = this->parts(step) + g * S::PITCH + n_tile(i) * 8 + 2 * t;
        float sum[2][2] = {};
        unrolled (w, COUNT) {
          const float2 v = *reinterpret_cast<const float2 *>(from + w * UNITS * S::PITCH);
          sum[w % 2][0] += v.x, sum[w % 2][1] += v.y;
        }
        unrolled (e, 2) z[i][e] = (z[i][e] + (sum[0][e] + sum[1][e])) * scale + s.bias[step & 1][g];
      }
    if constexpr (S::OVERLAY) shared_is_written();
    arrive<Z_TAKEN>(THREADS);
  }
  __device__ void clear(float (&z)[OWN][2]) const {
    unrolled (i, OWN) z[i][0] = z[i][1] = 0.0f;
  }

  __device__ __forceinline__ void run() {
    scale = job.keep_scale[layer];
    unrolled (i, OWN) kept[i][0] = kept[i][1] = 1.0f;
    fetch_kept(0);
    for (int step = 0; step < job.steps;) {
      const int first = step, end = FIRST ? this->end_of_segment(step) : job.steps;
      for (; step < end; step++) {
        make_z(step, first, end);
        const bool begins = step == first;
        forward(step);
        if (GO_IS_LATE && !begins)
          arrive<GO>(GO_THREADS); /* previous step's updates start; an earlier start is slower */
        backward(step, end);
      }
      if (GO_IS_LATE) arrive<GO>(GO_THREADS);
      if (FIRST) {
        wait<Z_READY>(THREADS);
        arrive<Z_TAKEN>(THREADS);
      }
    }
    if (!FIRST) wait<TERMS_READY>(THREADS);
  }

  __device__ __forceinline__ void make_z(int step, int first, int end) {
    if (!FIRST) {
      wait<TERMS_READY>(THREADS);
      unrolled (i, OWN) {
        if (!has(i)) break;
        float c[4];
        in.template multiply<2>(job.stamp + step, n_tile(i), 0, c);
        z[i][0] = c[0] + c[2], z[i][1] = c[1] + c[3];
      }
      take_parts<1>(step, end, 1.0f / (W_SCALE * H_SCALE), z);
    } else if (!S::AHEAD || step == first) {
      clear(z);
      take_parts<MATRIX>(step, end, job.pixel_factor * (PIXEL / W_SCALE), z);
    }
  }

  /* Computes H. Sends H to the next hidden layer or, if LAST, logits to the owners of rows. */
  __device__ __forceinline__ void forward(int step) {
    const uint32_t stamp = job.stamp + step;
    auto &own = s.h[step % S::TURNS];
    uint32_t across[OWN][4];
    unrolled (i, OWN) {
      if (!has(i)) break;
      unrolled (e, 2) h[i][e] = activate(z[i][e]) * kept[i][e];
      const int row = n_tile(i) * 8 + 2 * t;
      uint32_t low, high = split(h[i][0] * H_SCALE, h[i][1] * H_SCALE, low);
      *reinterpret_cast<uint32_t *>(&own[g][row]) = high;
      *reinterpret_cast<uint32_t *>(&own[UNITS + g][row]) = low;
      across[i][0] = transpose_8x8(high), across[i][2] = transpose_8x8(low);
      across[i][1] = across[i][3] = 0;
      if (!LAST)
        send_terms<true>(mail_of(job.h, stamp, false), n_tile(i), across[i][0], across[i][2],
                         stamp);
    }
    fetch_kept(step + 1);
    if (!LAST) return;
    wait<LAST_READY>(HELPER_THREADS);
    if (!S::MAIL && S::TURNS == 1)
      wait<BIASES_READY>(HELPER_THREADS); /* the helper has read the previous gradient of logits */
    unrolled (i, OWN)
      if (has(i)) head.send_logits(stamp, n_tile(i), across[i]);
  }

  /* Computes dZ and sends it to the previous layer. With AHEAD, also computes the next step's Z. */
  __device__ __forceinline__ void backward(int step, int end) {
    const uint32_t stamp = job.stamp + step;
    auto &own = s.dz[step % S::TURNS];
    float dh[OWN][2]; /* the gradient of H times W_SCALE DZ_SCALE */
    if (LAST) {
      fetch_k(step, end);
      if constexpr (!S::MAIL) {
        if (S::TURNS > 1) wait<BIASES_READY>(HELPER_THREADS);
        if (warp - CHAIN < S::ROWS / RANKS) head.own_row(step, warp - CHAIN);
        if (has(0)) {
          await(&s.head_came, step & 1);
          if (warp == CHAIN && lane == 0) barrier_expect(&s.head_came, S::ROWS * 64);
        }
      }
      unrolled (i, OWN)
        if (has(i)) head.take_gradient(step, n_tile(i), dh[i]);
    } else {
      if (FIRST) wait<TERMS_READY>(THREADS);
      fetch_k(step, end);
      unrolled (i, OWN) {
        if (!has(i)) break;
        float c[4];
        out.template multiply<1>(stamp, n_tile(i), 0, c);
        dh[i][0] = c[0] + c[2], dh[i][1] = c[1] + c[3];
      }
    }
    const bool sends = !FIRST && exists();
    unrolled (i, OWN) {
      if (!has(i)) break;
      float dz[2];
      unrolled (e, 2)
        dz[e] = times_slope(activation_slope(h[i][e], scale), dh[i][e] * (scale / W_SCALE));
      uint32_t low, high = split(dz[0], dz[1], low);
      if (!FIRST) low &= g % 2 == 0 ? 0xfffefffeu : 0xfffffffeu; /* clears phase bits */
      const int row = n_tile(i) * 8 + 2 * t;
      *reinterpret_cast<uint32_t *>(&own[g][row]) = high;
      *reinterpret_cast<uint32_t *>(&own[UNITS + g][row]) = low;
      if (!sends) continue;
      send_terms<false>(mail_of(job.dz, stamp, false), n_tile(i), transpose_8x8(high),
                        transpose_8x8(low), stamp);
    }
    if (KNOWN) {
      clear(next);
      /* take_parts() is a barrier for the chain, so correct() can read the dZ of all its warps. */
      take_parts<MATRIX>(step + 1, end, job.pixel_factor * (PIXEL / W_SCALE), next);
    }
    arrive<DZ_READY>(HELPER_THREADS);
    if (FIRST && !GO_IS_LATE) arrive<GO>(GO_THREADS);
    if (sends)
      unrolled (i, OWN) { /* sends dZ again, for gradients: a word has two rows of one unit */
        if (!has(i)) break;
        const int row = n_tile(i) * 8 + 2 * t;
        send_terms<false>(mail_of(job.dz, stamp, true), n_tile(i),
                          *reinterpret_cast<uint32_t *>(&own[g][row]),
                          *reinterpret_cast<uint32_t *>(&own[UNITS + g][row]), stamp);
      }
    if (!FIRST) {
      wait<GO>(GO_THREADS);
      in.template update_all<S::OWN == 1 ? 8 : 4>(step);
      if (!LAST) out.template update_all<S::OWN == 1 ? 8 : 4>(step);
    }
    if constexpr (KNOWN)
      if (step + 1 < end) correct(step);
  }

  /* Computes the next step's Z: its known part minus a multiple of K dZ. */
  __device__ __forceinline__ void correct(int step) {
    uint32_t own[S::K_STEPS][4];
    unrolled (r, S::K_STEPS) ldmatrix_x4(own[r], own_at(s.dz[step % S::TURNS]) + r * 32);
    barrier_wait(&s.k_came, products++ & 1);
    unrolled (i, OWN) {
      if (!has(i)) break;
      const uint4 *k = this->template at<uint4>(job.k_at) + n_tile(i) * S::K_STEPS * 32 + lane;
      float c[4][4] = {};
      unrolled (r, S::K_STEPS) {
        const uint4 q = k[r * 32];
        mma_m16n8k16_fp16(c[r % 2], own[r], q.x, q.y);
        mma_m16n8k16_fp16(c[2 + r % 2], own[r], q.z, q.w);
      }
      unrolled (e, 2) {
        const float sum = ((c[0][e] + c[1][e]) + (c[2][e] + c[3][e])) +
                          ((c[0][e + 2] + c[1][e + 2]) + (c[2][e + 2] + c[3][e + 2]));
        z[i][e] = fmaf(-job.rule.of_gradient / (DZ_SCALE * job.k_scale), sum, next[i][e]);
      }
    }
  }
};

} // namespace tiles
