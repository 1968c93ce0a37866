/* A network without hidden layers. One or two tiles have the classes, and their Z are the logits.
   W1 is as in other networks: the same warps keep it, multiply by it and update it. Only the chain
   is different. It computes softmax and the gradient of the logits itself, so a step has a single
   trip: if there are two tiles, they exchange the logits of each row. Both tiles add a row's
   numbers in the same order, so they get the same sums.

   Two buffers of logits suffice. A chain warp that sends logits of step t has received those of
   step t - 1 from the same warp of the other tile, which had read those of t - 2 before. */
#pragma once

#include "epoch/tiles_warps.cuh"

namespace tiles {

template <class S> struct ClassChain : Chain<S, true, true> {
  using C = Chain<S, true, true>;
  using C::AHEAD, C::OWN;
  using C::job, C::s, C::tile, C::lane, C::g, C::t, C::z, C::next, C::head, C::has, C::n_tile;

  __device__ explicit ClassChain(const Ground<S> &ground) : C(ground) {
  }

  __device__ __forceinline__ void run() {
    for (int step = 0; step < job.steps;) {
      const int first = step, end = this->end_of_segment(step);
      for (; step < end; step++) {
        if (!AHEAD || step == first) this->take_z(step, end, z);
        if (AHEAD) wait<LAST_READY>(32 * CHAINS); /* the chain has read the previous step's K */
        this->fetch_k(step, end);
        make_class_dz(step);
        if (AHEAD) this->take_z(step + 1, end, next);
        arrive<DZ_READY>(HELPER_THREADS);
        arrive<GO>(GO_THREADS);
        if constexpr (AHEAD)
          if (step + 1 < end) this->correct(step);
      }
      wait<Z_READY>(THREADS); /* the other warps hand over once more than there are steps */
      arrive<Z_TAKEN>(THREADS);
    }
  }

  /* Returns this lane's packet of rows 8 n to 8 n + 7: (step's parity, n, tile, lane). */
  __device__ Packet *packet(uint32_t stamp, int n, int of_tile) const {
    return reinterpret_cast<Packet *>(job.logits) +
           (((stamp & 1) * S::N_TILES + n) * 2 + of_tile) * 32 + lane;
  }
  __device__ __forceinline__ void make_class_dz(int step) const {
    auto &own = s.dz[step % S::TURNS];
    const uint32_t stamp = job.stamp + step;
    const int unit = tile * UNITS + g, other_unit = (1 - tile) * UNITS + g;
    const bool both = job.tiles[1] > 1;
    if (both)
      unrolled (i, OWN)
        if (has(i)) send(packet(stamp, n_tile(i), tile), z[i][0], z[i][1], 0.0f, stamp);
    unrolled (i, OWN) {
      if (!has(i)) break;
      float other[2] = {-INFINITY, -INFINITY}, dz[2];
      if (both) {
        Packet in[1];
        receive(
            in, stamp, [](int) { return true; },
            [&](int) { return packet(stamp, n_tile(i), 1 - tile); });
        __syncwarp();
        if (other_unit < job.classes) { /* reads the third word, too (Head::whole) */
          other[0] = __uint_as_float(__float_as_uint(in[0].x) | __float_as_uint(in[0].z));
          other[1] = in[0].y;
        }
      }
      unrolled (e, 2)
        dz[e] = run_row(step, n_tile(i) * 8 + 2 * t + e, unit < job.classes ? z[i][e] : -INFINITY,
                        other[e]);
      const int row = n_tile(i) * 8 + 2 * t;
      uint32_t low, high = split(dz[0], dz[1], low);
      *reinterpret_cast<uint32_t *>(&own[g][row]) = high;
      *reinterpret_cast<uint32_t *>(&own[UNITS + g][row]) = low;
    }
  }

  /* Adds up x, or returns the largest x, over the 8 lanes that have a row. */
  static __device__ __forceinline__ float over_units(float x, bool adds) {
    unrolled (i, 3) {
      const float other = __shfl_xor_sync(FULL_WARP, x, 4 << i);
      x = adds ? x + other : fmaxf(x, other);
    }
    return x;
  }
  /* Returns the share of a class in the sum of the row's logits weighted by their targets. */
  __device__ float wanted_of(float logit, int unit, int label) const {
    if (unit >= job.classes) return 0.0f;
    return (unit == label ? job.own : job.other) * logit;
  }
  /* Returns DZ_SCALE times the gradient of this lane's logit of a row, and stores the row's
     results. `other` is the logit of class g of the other tile; a class that does not exist has
     -infinity. */
  __device__ __forceinline__ float run_row(int step, int row, float own, float other) const {
    const int unit = tile * UNITS + g, other_unit = (1 - tile) * UNITS + g;
    const int label = head.label_of(step, row);
    const float mean = head.mean_of(step, label);
    const float most = over_units(fmaxf(own, other), false);
    const float power = expf(own - most), total = over_units(power + expf(other - most), true);
    const float target = unit == label ? job.own : job.other;
    const float dz = (power * __fdividef(mean, total) - target * mean) * DZ_SCALE;
    if (tile == 0) { /* both tiles have the same numbers */
      const float wanted =
          over_units(wanted_of(own, unit, label) + wanted_of(other, other_unit, label), true);
      int best = CLASSES;
      if (other == most) best = other_unit;
      if (own == most) best = unit;
      unrolled (i, 3) best = min(best, __shfl_xor_sync(FULL_WARP, best, 4 << i));
      if (g == 0 && label >= 0) {
        const uint32_t position = (uint32_t)step * job.batch + row;
        const float loss = logf(total) + (most - wanted);
        job.results.d_loss[position] = loss;
        job.results.d_correct[position] = best == label;
        if (!isfinite(loss)) *job.flat.d_overflowed = 1;
      }
    }
    return unit < job.classes ? dz : 0.0f;
  }
};

} // namespace tiles
