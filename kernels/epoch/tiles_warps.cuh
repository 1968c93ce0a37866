/* The work of a block's warps. A block has one tile of a hidden layer. FIRST is true if this is the
   first hidden layer, which has pixels; LAST is true if it is the last one, which takes part in the
   head. With one hidden layer both are true.

   A step, as each team of warps runs it. NAME! arrives at a barrier, NAME? waits there. "Mailed"
   values are waited for, too. Lines that begin with FIRST, LAST, later or AHEAD hold only there.

     the chain: Chain::run_first() in layer 1, Chain::run_later() in later layers
       FIRST: Z_READY?  Z = parts of Z + bias  Z_TAKEN!        if AHEAD, only in a direct step
       later: TERMS_READY?  Z = even k-steps of IN (mailed H)
              Z_READY?  Z = Z + part of Z + bias  Z_TAKEN!
       H = activate(Z)
       not LAST: mail H
       LAST: LAST_READY?  send this tile's part of the logits  to the owners of rows
       FIRST, go_late: GO!                                     for the updates of the step before
       FIRST, not LAST: TERMS_READY?
       not LAST: dH = OUT (mailed dZ)
       LAST, in a cluster: BIASES_READY?  softmax of own rows, send the gradient of their logits
       LAST: dH = columns of the head (gradient of the logits)
       dZ = dH slope(H)
       later: mail dZ, for the previous layer's chain
       FIRST, AHEAD: Z_READY?  known = parts of Z + bias  Z_TAKEN!
       DZ_READY!
       FIRST, not go_late: GO!
       FIRST, AHEAD: Z of the next step = known - rate K dZ
       later: mail dZ again, for the previous layer's gradients
              GO?  update a share of IN and OUT

     warps 0 to 6 of layer 1: PixelWarp                warps 0 to 7 of later layers: LaterWarp
       GO?                                               GO?    (the helper: DZ_READY?  its work)
       not LAST: update OUT  TERMS_READY!                update IN and OUT
       update W1                                         TERMS_READY?
       part of Z = W1 (pixels), of the next step,        part of Z = odd k-steps of IN (mailed H),
         if AHEAD of the step after it                     of the next step
       Z_READY!  Z_TAKEN?                                Z_READY!  Z_TAKEN?

     warp 7 of layer 1: HelperWarp                     the helper's own work: Helper
       DZ_READY?  its work                               LAST: update the columns  LAST_READY!
       not LAST: update OUT  TERMS_READY!                LAST: update the last biases  BIASES_READY!
       Z_READY!  Z_TAKEN?                                update the tile's biases

   What each barrier guards (docs/fusion.md says why none of them collects arrivals of two steps):

     barrier       arrives              waits              so that the one that waits
     DZ_READY      chain                helper             reads dZ and the gradient of the logits
     GO            chain                other warps, in    reads dZ; in layer 1 with AHEAD, does not
                                        later layers all   slow down the chain before H is sent
     LAST_READY    helper               chain              reads the step's columns of the head
     BIASES_READY  helper               chain              reads the step's last biases; replaces a
                                                           gradient of logits that has been read
     Z_READY       other warps          chain              reads parts of Z and biases, and the dZ
                                                           of the chain's other warps (correct())
     Z_TAKEN       chain                other warps        replaces parts of Z, biases, old pixels
     TERMS_READY   layer 1: others      layer 1: chain     reads the step's fp16 weights IN and OUT
                   later: all           later: all
     MATRIX_ONLY   warps 0 to 6         warps 0 to 6       replaces old pixels (only at 128 rows) */
#pragma once

#include "activation.h"
#include "epoch/tiles_head.cuh"
#include "epoch/tiles_pixels.cuh"
#include "epoch/tiles_slices.cuh"

namespace tiles {

/* ---- warps with weights --------------------------------------------------------------------- */

/* The helper's own weights: the biases of the tile's units and, if LAST, the tile's columns of the
   head and the biases of the last layer. With mail only the first tile has the latter. */
template <class S, bool FIRST, bool LAST> struct Helper : Head<S> {
  using G = Ground<S>;
  using G::job, G::s, G::layer, G::tile, G::g, G::t;
  static constexpr bool AHEAD = FIRST && S::AHEAD;
  Weight last[4], last_bias[4], bias;

  __device__ explicit Helper(const G &ground) : Head<S>(ground) {
  }

  __device__ bool has_last_bias() const {
    return LAST && (!S::MAIL || tile == 0);
  }
  __device__ long long bias_at() const {
    const int unit = tile * UNITS + g;
    return unit < job.size[layer] ? (long long)job.bias[layer] + unit : -1;
  }
  /* Loads the weights and shows the chain those that it needs for step 0. */
  __device__ __forceinline__ void load() {
    if (LAST) {
      unrolled (e, 4) last[e] = load_weight<S::SECOND>(job.flat, this->weight_index(e), W_SCALE);
      this->show(last);
    }
    bias = load_weight<S::SECOND>(job.flat, bias_at(), 1);
    show_bias(0);
    if (!has_last_bias()) return;
    unrolled (e, 4) last_bias[e] = load_weight<S::SECOND>(job.flat, this->bias_index(e), 1);
    this->show_biases(last_bias, job.stamp);
  }
  __device__ __forceinline__ void store() const {
    if (LAST)
      unrolled (e, 4) store_weight<S::SECOND>(job.flat, this->weight_index(e), W_SCALE, last[e]);
    if (t == 0) store_weight<S::SECOND>(job.flat, bias_at(), 1, bias);
    if (LAST && tile == 0 && g == 0)
      unrolled (e, 4) store_weight<S::SECOND>(job.flat, this->bias_index(e), 1, last_bias[e]);
  }
  __device__ void show_bias(int step) const {
    if (t == 0) s.bias[step & 1][g] = bias.w;
  }
  /* Shows the part of a bias that is known before the update (known_of). */
  __device__ void show_known_bias(int step) const {
    if (t == 0) s.bias[step & 1][g] = known_of(job.rule.biases, bias.w, bias.m);
  }
  /* Updates the weights by the step's gradients and shows them for the steps to come. */
  __device__ __forceinline__ void update_all(int step) {
    const bool more = step + 1 < job.steps;
    if (LAST) {
      this->update_columns(last, step);
      if (more) this->show(last);
    }
    if (has_last_bias()) {
      this->update_biases(last_bias, step);
      if (more) this->show_biases(last_bias, job.stamp + step + 1);
    }
    update_bias(step);
    if (AHEAD)
      show_known_bias(step + 2);
    else
      show_bias(step + 1);
  }
  /* Updates the bias of unit g. The unit's four lanes, 4 g + t, add up its dZ over all rows. */
  __device__ __forceinline__ void update_bias(int step) {
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
};

/* What the eight warps of a tile of layer 1 share: they update OUT, if there is a
   next hidden layer (HAS_OUT), and hand over parts of Z. */
template <class S, bool HAS_OUT> struct FirstWarp : Ground<S> {
  using G = Ground<S>;
  using G::job;
  static constexpr bool AHEAD = S::AHEAD; /* parts of Z are those of a step later */
  Slice<S, false, true> out;

  __device__ explicit FirstWarp(const G &ground) : G(ground), out(ground) {
  }

  __device__ __forceinline__ void load_out() const {
    if (!HAS_OUT) return;
    out.load();
    arrive<TERMS_READY>(THREADS);
  }
  __device__ __forceinline__ void update_out(int step) const {
    if (!HAS_OUT) return;
    out.template update_all<4>(step);
    if (step + 1 < job.steps) arrive<TERMS_READY>(THREADS);
  }
  __device__ void hand_over(int step, int end) const {
    arrive<Z_READY>(THREADS);
    wait<Z_TAKEN>(THREADS);
    fetch_pixels<S>(*this, step + 1, end);
  }
};

/* Warps 0 to 6 of a tile of layer 1, which own W1. */
template <class S, bool HAS_OUT> struct PixelWarp : FirstWarp<S, HAS_OUT> {
  using Base = FirstWarp<S, HAS_OUT>;
  using Base::job, Base::AHEAD;
  Pixels<S> pixels;

  __device__ explicit PixelWarp(const Ground<S> &ground) : Base(ground), pixels(ground) {
  }

  __device__ __forceinline__ void run() {
    pixels.load();
    this->load_out();
    for (int step = 0; step < job.steps;) {
      const int end = this->end_of_segment(step);
      begin_segment(step, end);
      for (; step < end; step++) {
        wait<GO>(GO_THREADS);
        this->update_out(step);
        pixels.update_all(step);
        if (step + 1 + AHEAD < end) pixels.template multiply<AHEAD>(step + 1 + AHEAD);
        this->hand_over(step + 1 + AHEAD, end);
      }
    }
    pixels.store();
  }
  /* Multiplies the pixels of the segment's first step by the weights. If AHEAD, also multiplies the
     second step's pixels by the part of the next weights that is known now (known_of). */
  __device__ __forceinline__ void begin_segment(int step, int end) const {
    fetch_pixels<S>(*this, step, end);
    pixels.template multiply<false>(step);
    this->hand_over(step, end);
    if constexpr (AHEAD) {
      if (step + 1 < end) pixels.template multiply<true>(step + 1);
      this->hand_over(step + 1, end);
    }
  }
};

/* Warp 7 of a tile of layer 1. It keeps the pace of the warps with pixels. */
template <class S, bool HAS_OUT, bool LAST> struct HelperWarp : FirstWarp<S, HAS_OUT> {
  using Base = FirstWarp<S, HAS_OUT>;
  using Base::job, Base::AHEAD;
  Helper<S, true, LAST> helper;

  __device__ explicit HelperWarp(const Ground<S> &ground) : Base(ground), helper(ground) {
  }

  __device__ __forceinline__ void run() {
    this->load_out();
    helper.load();
    for (int step = 0; step < job.steps;) {
      const int end = this->end_of_segment(step);
      helper.show_bias(step);
      if (AHEAD) helper.show_known_bias(step + 1);
      this->hand_over(step, end);
      if (AHEAD) this->hand_over(step + 1, end);
      for (; step < end; step++) {
        wait<DZ_READY>(HELPER_THREADS);
        helper.update_all(step);
        this->update_out(step);
        this->hand_over(step + 1 + AHEAD, end);
      }
    }
    helper.store();
  }
};

/* Warps 0 to 7 of a tile of a later layer. Warp 7 also helps; all eight share their code. */
template <class S, bool LAST> struct LaterWarp : Ground<S> {
  using G = Ground<S>;
  using G::job, G::warp;
  Slice<S, true, false> in;
  Slice<S, false, false> out;
  Helper<S, false, LAST> helper;

  __device__ explicit LaterWarp(const G &ground)
      : G(ground), in(ground), out(ground), helper(ground) {
  }

  __device__ __forceinline__ void run() {
    const bool helps = warp == HELPER;
    in.load();
    if (!LAST) out.load();
    if (helps) helper.load();
    wait<TERMS_READY>(THREADS);
    multiply_part(0);
    for (int step = 0; step < job.steps; step++) {
      if (helps) {
        wait<DZ_READY>(HELPER_THREADS);
        helper.update_all(step);
      } else {
        wait<GO>(GO_THREADS);
      }
      in.template update_all<8>(step);
      if (!LAST) out.template update_all<8>(step);
      wait<TERMS_READY>(THREADS);
      if (step + 1 < job.steps) multiply_part(step + 1);
    }
    in.store();
    if (helps) helper.store();
  }
  __device__ __forceinline__ void multiply_part(int step) const {
    in.multiply_part(step);
    arrive<Z_READY>(THREADS);
    wait<Z_TAKEN>(THREADS);
  }
};

/* ---- the chain ------------------------------------------------------------------------------ */

/* The chain computes what a step waits for: Z, H, dZ and the next Z. A warp has 8 or 16 rows of the
   batch and all units of the tile, so the chain needs no barrier of the whole block. */
template <class S, bool FIRST, bool LAST> struct Chain : Ground<S> {
  using G = Ground<S>;
  using G::job, G::s, G::layer, G::tile, G::warp, G::lane, G::g, G::t;
  static constexpr int OWN = S::OWN;
  static constexpr bool AHEAD = FIRST && S::AHEAD;
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
    if constexpr (AHEAD) {
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
  __device__ __forceinline__ void start() {
    scale = job.keep_scale[layer];
    unrolled (i, OWN) kept[i][0] = kept[i][1] = 1.0f;
    fetch_kept(0);
  }

  /* Runs the chain of layer 1. A segment starts with a direct step. */
  __device__ __forceinline__ void run_first() {
    /* Updates that start at once take issue slots from the chain. So they start only after the next
       H, except in a network of one cluster, where a step waits for the updates. */
    const bool go_late = AHEAD && (!LAST || job.clusters > 1);
    start();
    for (int step = 0; step < job.steps;) {
      const int first = step, end = this->end_of_segment(step);
      for (; step < end; step++) {
        if (!AHEAD || step == first) take_z(step, end, z);
        forward(step);
        if (go_late && step > first) arrive<GO>(GO_THREADS); /* for updates of the step before */
        if (!LAST) wait<TERMS_READY>(THREADS);
        fetch_k(step, end);
        float dh[OWN][2];
        await_gradient(step, dh);
        make_dz(step, dh);
        /* take_z() is a barrier for the chain, so correct() can read the dZ of all its warps. */
        if (AHEAD) take_z(step + 1, end, next);
        arrive<DZ_READY>(HELPER_THREADS);
        if (!go_late) arrive<GO>(GO_THREADS);
        if constexpr (AHEAD)
          if (step + 1 < end) correct(step);
      }
      if (go_late) arrive<GO>(GO_THREADS);
      wait<Z_READY>(THREADS); /* the other warps hand over once more than there are steps */
      arrive<Z_TAKEN>(THREADS);
    }
  }

  /* Runs the chain of a later layer. It updates hidden weights while it waits for the next H. */
  __device__ __forceinline__ void run_later() {
    constexpr int ONCE = S::OWN == 1 ? 8 : 4;
    start();
    for (int step = 0; step < job.steps; step++) {
      await_h(step);
      forward(step);
      float dh[OWN][2];
      await_gradient(step, dh);
      make_dz(step, dh);
      arrive<DZ_READY>(HELPER_THREADS);
      if (exists()) send_dz_again(step);
      wait<GO>(GO_THREADS);
      in.template update_all<ONCE>(step);
      if (!LAST) out.template update_all<ONCE>(step);
    }
    wait<TERMS_READY>(THREADS);
  }

  /* Layer 1: takes Z or, if AHEAD, its known part, from the warps with pixels. */
  __device__ __forceinline__ void take_z(int step, int end, float (&z)[OWN][2]) {
    unrolled (i, OWN) z[i][0] = z[i][1] = 0.0f;
    take_parts<MATRIX>(step, end, job.pixel_factor * (PIXEL / W_SCALE), z);
  }
  /* Later layers: waits for H of the previous layer, and computes Z. */
  __device__ __forceinline__ void await_h(int step) {
    wait<TERMS_READY>(THREADS);
    unrolled (i, OWN) {
      if (!has(i)) break;
      float c[4];
      in.template multiply<2>(job.stamp + step, n_tile(i), 0, c);
      z[i][0] = c[0] + c[2], z[i][1] = c[1] + c[3];
    }
    take_parts<1>(step, job.steps, 1.0f / (W_SCALE * H_SCALE), z);
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

  /* Waits for the gradient of H, which comes from the head if LAST, else from the next layer. Sets
     `dh` to W_SCALE DZ_SCALE times this gradient. */
  __device__ __forceinline__ void await_gradient(int step, float (&dh)[OWN][2]) {
    if (LAST) {
      if constexpr (!S::MAIL) run_own_rows(step);
      unrolled (i, OWN)
        if (has(i)) head.take_gradient(step, n_tile(i), dh[i]);
    } else {
      unrolled (i, OWN) {
        if (!has(i)) break;
        float c[4];
        out.template multiply<1>(job.stamp + step, n_tile(i), 0, c);
        dh[i][0] = c[0] + c[2], dh[i][1] = c[1] + c[3];
      }
    }
  }
  /* In a cluster: runs the head for the block's own rows, then waits for the gradient of all. */
  __device__ __forceinline__ void run_own_rows(int step) const {
    if (S::TURNS > 1) wait<BIASES_READY>(HELPER_THREADS);
    if (warp - CHAIN < S::ROWS / RANKS) head.own_row(step, warp - CHAIN);
    if (!has(0)) return;
    await(&s.head_came, step & 1);
    if (warp == CHAIN && lane == 0) barrier_expect(&s.head_came, S::ROWS * 64);
  }
  /* Computes dZ. In later layers, sends it to the previous layer. */
  __device__ __forceinline__ void make_dz(int step, const float (&dh)[OWN][2]) const {
    auto &own = s.dz[step % S::TURNS];
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
      const uint32_t stamp = job.stamp + step;
      send_terms<false>(mail_of(job.dz, stamp, false), n_tile(i), transpose_8x8(high),
                        transpose_8x8(low), stamp);
    }
  }
  /* Sends dZ again, for gradients: a word has two rows of one unit. */
  __device__ __forceinline__ void send_dz_again(int step) const {
    const uint32_t stamp = job.stamp + step;
    const auto &own = s.dz[step % S::TURNS];
    unrolled (i, OWN) {
      if (!has(i)) break;
      const int row = n_tile(i) * 8 + 2 * t;
      send_terms<false>(mail_of(job.dz, stamp, true), n_tile(i),
                        *reinterpret_cast<const uint32_t *>(&own[g][row]),
                        *reinterpret_cast<const uint32_t *>(&own[UNITS + g][row]), stamp);
    }
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
