/* The weights of a tile of hidden layer 1: 8 units times 784 pixels. The weights stay in
   registers from the first step of a launch to the last. A warp has 7 chunks of 16 inputs.

   Pixels stay bytes. A byte with a zero byte above it is an exact, subnormal fp16 number. Lane
   4 g + t has unit g's weights of inputs 4 t to 4 t + 3 of a chunk. The forward product needs its
   left operand in this layout. That operand has the units' high terms in 8 rows and their low terms
   in 8 more, so one instruction computes both products. The gradient's accumulators have the same
   layout, so a weight never leaves its register. */
#pragma once

#include "epoch/tiles_layout.cuh"

namespace tiles {

template <class S> struct Pixels : Ground<S> {
  using G = Ground<S>;
  using G::job, G::s, G::tile, G::warp, G::lane, G::g, G::t;
  static constexpr bool SECOND = S::SECOND;
  static constexpr int N = CHUNKS, PIECE = 3; /* PIECE: how many chunks are updated at once */
  float w[N][4], m[N][4];

  __device__ explicit Pixels(const G &ground) : G(ground) {
  }

  __device__ int chunk_of(int i) const {
    return warp + MATRIX * i;
  }
  /* Returns the warp's place for load() and store(). Without again(), the compiler keeps the
     addresses of 28 weights between the two, and spills them. At 128 rows an epoch then takes 5%
     longer. At fewer rows it takes up to 2% less (docs/records/fusion-log.md). */
  __device__ __forceinline__ G place() const {
    if constexpr (!S::AHEAD) return this->again();
    return *this;
  }
  /* Returns where the flat arrays have the lane's weight number e of chunk i. */
  static __device__ long long index(const G &of, int i, int e) {
    return of.weight_at(1, of.tile * UNITS + of.g, input_of(of, i, e));
  }
  static __device__ int input_of(const G &of, int i, int e) {
    return (of.warp + MATRIX * i) * 16 + 4 * of.t + e;
  }
  /* Returns the lane's second moments of chunk i or, if `average` is 1, its averages. */
  __device__ float4 *extra(int average, int i) const {
    const int chunk = anew(warp) + MATRIX * i;
    float4 *all = job.extra ? job.extra + blockIdx.x * 2 * ALL_CHUNKS * 32
                            : this->template at<float4>(job.extra_at);
    return all + ((average && SECOND ? ALL_CHUNKS : 0) + chunk) * 32 + anew(lane);
  }
  __device__ uint32_t pixels_at(int step, int i) const { /* address of the lane's row in chunk i */
    return shared_address(this->pixels(step)) + (chunk_of(i) * S::ROWS + lane) * 16;
  }

  /* Starts to copy the step's pixels for this warp's chunks. No other warp reads these chunks. */
  __device__ __forceinline__ void fetch(int step) const {
    __syncwarp(); /* all lanes have read the previous pixels */
    const uint8_t *from = job.pixels + (size_t)step * S::PIXEL_BYTES;
    unrolled (i, N)
      for (int row = 0; row < S::ROWS; row += 32)
        copy_16_bytes(pixels_at(step, i) + row * 16,
                      from + (chunk_of(i) * S::ROWS + lane + row) * 16, 16);
    close_copies();
  }

  __device__ void load() {
    const G of = place();
    unrolled (i, N) {
      Weight x[4];
      unrolled (e, 4) {
        x[e] = load_weight<SECOND>(job.flat, index(of, i, e), W_SCALE);
        w[i][e] = x[e].w, m[i][e] = x[e].m;
      }
      if (SECOND) *extra(0, i) = {x[0].v, x[1].v, x[2].v, x[3].v};
      if (job.rule.averages) *extra(1, i) = {x[0].a, x[1].a, x[2].a, x[3].a};
    }
  }
  __device__ void store() const {
    const G of = place();
    unrolled (i, N) {
      float4 v = {}, a = {};
      if (SECOND) v = *extra(0, i);
      if (job.rule.averages) a = *extra(1, i);
      const float *vs = &v.x, *as = &a.x;
      unrolled (e, 4)
        store_weight<SECOND>(job.flat, index(of, i, e), W_SCALE, {w[i][e], m[i][e], vs[e], as[e]});
    }
  }

  /* Computes the warp's partial sum of the step's Z. If KNOWN, it uses the part of the next weights
     that is known without the gradient (known_of). The network reads pixel p as p f - o, so Z
     includes -o times the sum of a unit's weights. */
  template <bool KNOWN> __device__ __forceinline__ void multiply(int step) const {
    uint32_t a[N][4];
    if constexpr (S::FROM_80)
      fetch(step);
    else
      barrier_wait(&s.pixels_came[step % S::BUFFERS], step / S::BUFFERS & 1);
    unrolled (i, N) {
      float u[4];
      unrolled (e, 4) u[e] = KNOWN ? known_of(job.rule.weights, w[i][e], m[i][e]) : w[i][e];
      a[i][0] = split(u[0], u[1], a[i][1]);
      a[i][2] = split(u[2], u[3], a[i][3]);
    }
    if constexpr (S::FROM_80) {
      await_groups<0>();
      __syncwarp();
    }
    float offset = 0.0f;
    if (job.pixel_offset != 0.0f) {
      float sum[4] = {};
      unrolled (i, N) mma_m16n8k16_fp16(sum, a[i], ONES, ONES);
      offset = (sum[0] + sum[2]) * (-job.pixel_offset / (job.pixel_factor * PIXEL));
    }
    if (S::OVERLAY) wait<MATRIX_ONLY>(32 * MATRIX); /* warps 0 to 6 have read the old pixels */
    float *part = this->parts(step) + (warp * UNITS + g) * S::PITCH + 2 * t;
    unrolled (q, S::ROWS / 32) {
      float c[4][4] = {};
      unrolled (i, N) {
        uint32_t r[4];
        ldmatrix_x4(r, pixels_at(step, i) + q * 32 * 16);
        unrolled (n, 4)
          mma_m16n8k16_fp16(c[n], a[i], halves(r[n], BYTES_01), halves(r[n], BYTES_23));
      }
      unrolled (n, 4)
        *reinterpret_cast<float2 *>(part + (q * 4 + n) * 8) = {c[n][0] + c[n][2] + offset,
                                                               c[n][1] + c[n][3] + offset};
    }
    if constexpr (S::OVERLAY) shared_is_written();
  }

  /* Computes the gradient dZ^T X over the rows and updates the weights. */
  __device__ __forceinline__ void update_all(int step) {
    const uint32_t own = own_at(s.dz[step % S::TURNS]);
    const float off = job.pixel_offset != 0.0f ? offset_of(own) : 0.0f;
    const StepNumbers now = this->numbers(step);
    update_piece<0, PIECE>(step, own, off, now);
    update_piece<PIECE, PIECE>(step, own, off, now);
    update_piece<2 * PIECE, N - 2 * PIECE>(step, own, off, now);
    if (!job.rule.averages) return;
    unrolled (i, N) {
      float4 a = *extra(1, i);
      unrolled (e, 4) move_average(now, w[i][e], (&a.x)[e]);
      *extra(1, i) = a;
    }
  }
  template <int FIRST, int COUNT>
  __device__ __forceinline__ void update_piece(int step, uint32_t own, float off,
                                               const StepNumbers &now) {
    const float scale = job.pixel_factor * (PIXEL / DZ_SCALE);
    float even[COUNT][4] = {}, odd[COUNT][4] = {};
    unrolled (q, S::K_STEPS / 2) {
      uint32_t a[2][4], r[COUNT][4];
      ldmatrix_x4(a[0], own + q * 64);
      ldmatrix_x4(a[1], own + q * 64 + 32);
      unrolled (i, COUNT) ldmatrix_x4_trans(r[i], pixels_at(step, FIRST + i) + q * 32 * 16);
      unrolled (k, 2)
        unrolled (i, COUNT) {
          const uint32_t first = r[i][2 * k], second = r[i][2 * k + 1];
          mma_m16n8k16_fp16(even[i], a[k], halves(first, BYTES_02), halves(second, BYTES_02));
          mma_m16n8k16_fp16(odd[i], a[k], halves(first, BYTES_13), halves(second, BYTES_13));
        }
    }
    float sum[COUNT][4];
    unrolled (i, COUNT)
      unrolled (e, 4)
        sum[i][e] = (e % 2 ? odd : even)[i][e / 2] + (e % 2 ? odd : even)[i][e / 2 + 2];
    if (job.pixel_offset != 0.0f) {
      const G of = this->again();
      unrolled (i, COUNT)
        unrolled (e, 4)
          if (input_of(of, FIRST + i, e) < job.size[0]) sum[i][e] -= off;
    }
    unrolled (i, COUNT) {
      float *const ws = w[FIRST + i], *const ms = m[FIRST + i];
      float4 v = {};
      if (SECOND) v = *extra(0, FIRST + i);
      unrolled (e, 4) {
        Weight x = {ws[e], ms[e], (&v.x)[e], 0.0f};
        update<SECOND>(job.rule, job.rule.weights, now, sum[i][e] * scale, x);
        ws[e] = x.w, ms[e] = x.m, (&v.x)[e] = x.v;
      }
      if (SECOND) *extra(0, FIRST + i) = v;
    }
  }
  /* Returns the pixel offset times the sum of dZ. The caller subtracts it from gradients. */
  __device__ __forceinline__ float offset_of(uint32_t own) const {
    float rows[4] = {};
    unrolled (k, S::K_STEPS) {
      uint32_t a[4];
      ldmatrix_x4(a, own + k * 32);
      mma_m16n8k16_fp16(rows, a, ONES, ONES);
    }
    return (rows[0] + rows[2]) * (job.pixel_offset / (job.pixel_factor * PIXEL));
  }
};

/* Lets one thread start to copy a step's pixels, if the step is before `end`. */
template <class S> __device__ inline void fetch_pixels(const Ground<S> &of, int step, int end) {
  if constexpr (!S::FROM_80) {
    if (of.warp != 0 || of.lane != 0 || step >= end) return;
    uint64_t *came = &of.s.pixels_came[step % S::BUFFERS];
    barrier_expect(came, S::PIXEL_BYTES);
    copy_bulk(of.pixels(step), of.job.pixels + (size_t)step * S::PIXEL_BYTES, S::PIXEL_BYTES, came);
  }
}

} // namespace tiles
