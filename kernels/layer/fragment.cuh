/* How a warp multiplies. The warp's part of C consists of pieces of 16 x 16. Each lane has eight
   values of a piece in registers; this file says which values, and what a lane loads. There are two
   versions, and nothing outside this file depends on which is compiled:

   TensorCores, from compute capability 8.0 on: `mma` on bf16 terms (bf16_split.cuh).
   FloatCores, below 8.0: fused multiply-adds of float32, for any number of terms. A lane has 2
   rows x 4 columns of a piece. It reads four values that lie side by side as one 16-byte word.
   Lanes read from different banks.

   Both have:

     Stored     the type of a value in shared memory
     PLANES     how many planes a slab has in shared memory
     GAP        unused values between two lines of a slab
     STEP       number of values along k in a Fragment
     store()    writes four fetched neighbours to a slab
     Fragment   a lane's values of 16 rows of A (IS_A) or of 16 columns of B, for STEP k
     load()     loads a fragment from a slab
     multiply() piece += A B
     row(), column()  where the lane's value `e`, piece[e / 4][e % 4], lies in the piece
     SmallStep  multiplies what was fetched for a small or medium tile, which has no slab

   A Slab (gemm.cuh) has lines of LINE values, PITCH apart, and planes PLANE apart. Its lines run
   along k if ALONG_K is true. */
#pragma once

#include "layer/operand.cuh"

__device__ inline int lane_group() {
  return threadIdx.x % 32 / 4;
}
__device__ inline int lane_in_group() {
  return threadIdx.x % 4;
}

/* 16 x 16 values of an operand in a warp's registers, not yet split. If A and B have the same order
   of values along k, any order will do. So each lane takes neighbours: lane 4 g + t has k + 4 t to
   k + 4 t + 3 of the rows index_of(g, 0) and index_of(g, 1). */
template <class Operand> struct RawFragment {
  static __device__ int index_of(int g, int half) {
    return Operand::ALONG_K ? g + 8 * half : 2 * g + half;
  }
  using Line = typename Operand::Line;
  static constexpr int LINES = Operand::ALONG_K ? 2 : 4;
  static constexpr int COUNT = Operand::ALONG_K ? 4 : 2; /* how many neighbours one load fetches */

  /* Finds the lines that this lane reads at (first, k). If ALONG_K, every k has the same lines. */
  static __device__ void seek(const Operand &operand, int first, int k, Line (&lines)[LINES]) {
    const int g = lane_group(), t = lane_in_group();
    unrolled (n, LINES)
      lines[n] = operand.line(Operand::ALONG_K ? first + g + 8 * n : k + 4 * t + n);
  }
  typename Operand::template Raw<COUNT> raw[LINES];
  __device__ void fetch(const Operand &operand, int first, int k, const Line (&lines)[LINES]) {
    const int g = lane_group(), t = lane_in_group();
    unrolled (n, LINES)
      raw[n] = operand.template load<COUNT>(lines[n], Operand::ALONG_K ? k + 4 * t : first + 2 * g);
  }
  __device__ void zero_out_of_bounds(const Operand &operand, int first, int k,
                                     const Line (&lines)[LINES]) {
    const int g = lane_group(), t = lane_in_group();
    const int row = Operand::ALONG_K ? first : k;
    const int column = Operand::ALONG_K ? k : first;
    if (!operand.in_bounds(row, 16, column, 16))
      unrolled (n, LINES)
        operand.zero_out_of_bounds(raw[n], lines[n], Operand::ALONG_K ? k + 4 * t : first + 2 * g);
  }
};

/* ---- tensor cores -------------------------------------------------------------------------- */

struct TensorCores {
  using Stored = __nv_bfloat16;
  template <class Operand> static constexpr int PLANES = Operand::TERMS;
  /* Lines are an odd multiple of 16 bytes apart, so ldmatrix has no bank conflicts. */
  static constexpr int GAP = 8;
  static constexpr int STEP = 16;
  template <bool IS_A, class Operand> struct Fragment { uint32_t words[Operand::TERMS][4]; };

  template <class A> static __device__ int row(int e) {
    return lane_group() + e / 2 % 2 * 8;
  }
  template <class B> static __device__ int column(int e) {
    return e / 4 * 8 + 2 * lane_in_group() + e % 2;
  }

  template <class Slab, class Operand>
  static __device__ void store(const typename Operand::template Raw<4> &raw, Stored *planes,
                               int line, int at) {
    uint32_t words[Operand::TERMS][2];
    Operand::split_raw(raw, words);
    unrolled (term, Operand::TERMS)
      *reinterpret_cast<uint2 *>(planes + term * Slab::PLANE + line * Slab::PITCH +
                                 at) = {words[term][0], words[term][1]};
  }

  template <class Slab, bool IS_A, class Operand>
  static __device__ void load(const Stored *planes, int side, int k, Fragment<IS_A, Operand> &out) {
    const int lane = threadIdx.x % 32, near = lane / 8 % 2 * 8, far = lane / 16 * 8;
    const int s = side + (IS_A ? near : far);
    const int d = k + (IS_A ? far : near);
    const Stored *at = planes + (Operand::ALONG_K ? (s + lane % 8) * Slab::PITCH + d
                                                  : (d + lane % 8) * Slab::PITCH + s);
    unrolled (term, Operand::TERMS)
      if constexpr (Operand::ALONG_K)
        ldmatrix_x4(out.words[term], at + term * Slab::PLANE);
      else
        ldmatrix_x4_trans(out.words[term], at + term * Slab::PLANE);
  }

  template <class A, class B>
  static __device__ void multiply(float (&piece)[2][4], const Fragment<true, A> &a,
                                  const Fragment<false, B> &b) {
    each_product<(A::TERMS > B::TERMS ? A::TERMS : B::TERMS)>([&](int i, int j) {
      if (i >= A::TERMS || j >= B::TERMS) return;
      mma_m16n8k16(piece[0], a.words[i], b.words[j][0], b.words[j][1]);
      mma_m16n8k16(piece[1], a.words[i], b.words[j][2], b.words[j][3]);
    });
  }

  /* Splits fetched values into the terms of a fragment, in the order that load() uses. */
  template <bool IS_A, class Operand>
  static __device__ void split(const RawFragment<Operand> &x, Fragment<IS_A, Operand> &out) {
    if constexpr (Operand::ALONG_K) {
      unrolled (half, 2) {
        uint32_t words[Operand::TERMS][2];
        Operand::split_raw(x.raw[half], words);
        unrolled (term, Operand::TERMS)
          unrolled (e, 2) out.words[term][IS_A ? half + 2 * e : 2 * half + e] = words[term][e];
      }
    } else { /* a line has neighbours of one k, so pairs along k come from two lines */
      unrolled (half, 2)
        unrolled (e, 2) {
          uint32_t terms[Operand::TERMS];
          split_terms(x.raw[2 * e].value[half], x.raw[2 * e + 1].value[half], terms);
          unrolled (term, Operand::TERMS)
            out.words[term][IS_A ? half + 2 * e : 2 * half + e] = terms[term];
        }
    }
  }

  template <class A, class B, int DOWN> struct SmallStep {
    static constexpr int FLOATS = 0; /* floats of shared memory per warp */
    Fragment<true, A> x[DOWN];
    Fragment<false, B> y;
    __device__ explicit SmallStep(float *) {
    }
    static __device__ int row(int e) {
      return RawFragment<A>::index_of(lane_group(), e / 2 % 2);
    }
    static __device__ int column(int e) {
      return RawFragment<B>::index_of(2 * lane_in_group() + e % 2, e / 4);
    }
    /* After take_a() or take_b() the raw fragment may be overwritten. */
    __device__ void take_a(int d, const RawFragment<A> &a) {
      split(a, x[d]);
    }
    __device__ void take_b(const RawFragment<B> &b) {
      split(b, y);
    }
    __device__ void multiply(int d, float (&piece)[2][4]) {
      TensorCores::multiply(piece, x[d], y);
    }
  };
};

/* ---- float32 ------------------------------------------------------------------------------- */

struct FloatCores {
  using Stored = float;
  template <class Operand> static constexpr int PLANES = 1;
  static constexpr int GAP = 0; /* place() avoids bank conflicts without a gap */
  static constexpr int STEP = 4;
  template <bool IS_A, class Operand> struct Fragment { float value[IS_A ? 2 : 4][STEP]; };

  template <class A> static __device__ int row(int e) {
    return RawFragment<A>::index_of(lane_group(), e / 4);
  }
  template <class B> static __device__ int column(int e) {
    return B::ALONG_K ? lane_in_group() + 4 * (e % 4) : 4 * lane_in_group() + e % 4;
  }

  /* Returns where value `at` of a line is. Words are swizzled so that lanes use different banks. */
  template <class Slab> static __device__ int place(int line, int at) {
    const int turn = Slab::LINE >= 32 ? line % 8 : line / 2 % 4;
    return line * Slab::PITCH + (at / 4 ^ (Slab::ALONG_K ? turn : 0)) * 4 + at % 4;
  }

  template <class Slab, class Operand>
  static __device__ void store(const typename Operand::template Raw<4> &raw, float *slab, int line,
                               int at) {
    float f[4];
    Operand::to_floats(raw, f);
    *reinterpret_cast<float4 *>(slab + place<Slab>(line, at)) = {f[0], f[1], f[2], f[3]};
  }

  template <class Slab, bool IS_A, class Operand>
  static __device__ void load(const float *slab, int side, int k, Fragment<IS_A, Operand> &out) {
    constexpr int LINES = IS_A ? 2 : 4;
    const int g = lane_group(), t = lane_in_group();
    if constexpr (Operand::ALONG_K) {
      unrolled (n, LINES)
        load_vector(slab + place<Slab>(side + (IS_A ? g + 8 * n : t + 4 * n), k), out.value[n]);
    } else {
      unrolled (d, STEP) {
        float side_by_side[LINES];
        load_vector(slab + place<Slab>(k + d, side + (IS_A ? 2 * g : 4 * t)), side_by_side);
        unrolled (n, LINES) out.value[n][d] = side_by_side[n];
      }
    }
  }

  template <class A, class B>
  static __device__ void multiply(float (&piece)[2][4], const Fragment<true, A> &a,
                                  const Fragment<false, B> &b) {
    unrolled (d, STEP)
      unrolled (i, 2)
        unrolled (j, 4) piece[i][j] = fmaf(a.value[i][d], b.value[j][d], piece[i][j]);
  }

  /* The lanes of a warp exchange fetched values through a slab of 16 x 16 in shared memory. */
  template <class Operand> struct WarpSlab {
    static constexpr bool ALONG_K = Operand::ALONG_K;
    static constexpr int LINE = 16, PITCH = LINE;
    static __device__ void store(const RawFragment<Operand> &x, float *slab) {
      const int g = lane_group(), t = lane_in_group();
      unrolled (n, RawFragment<Operand>::LINES) {
        float f[RawFragment<Operand>::COUNT];
        Operand::to_floats(x.raw[n], f);
        if constexpr (ALONG_K)
          *reinterpret_cast<float4 *>(slab + place<WarpSlab>(g + 8 * n, 4 * t)) = {f[0], f[1], f[2],
                                                                                   f[3]};
        else
          *reinterpret_cast<float2 *>(slab + place<WarpSlab>(4 * t + n, 2 * g)) = {f[0], f[1]};
      }
    }
  };

  template <class A, class B, int DOWN> struct SmallStep {
    static constexpr int SLAB = 16 * 16, FLOATS = (DOWN + 1) * SLAB;
    float *slabs;
    __device__ explicit SmallStep(float *shared) : slabs(shared) {
    }
    static __device__ int row(int e) {
      return FloatCores::row<A>(e);
    }
    static __device__ int column(int e) {
      return FloatCores::column<B>(e);
    }
    __device__ void take_a(int d, const RawFragment<A> &a) {
      WarpSlab<A>::store(a, slabs + d * SLAB);
    }
    __device__ void take_b(const RawFragment<B> &b) {
      WarpSlab<B>::store(b, slabs + DOWN * SLAB);
    }
    __device__ void multiply(int d, float (&piece)[2][4]) {
      __syncwarp(); /* all lanes have stored */
      unrolled_by (k, 16, STEP) {
        Fragment<true, A> x;
        Fragment<false, B> y;
        load<WarpSlab<A>>(slabs + d * SLAB, 0, k, x);
        load<WarpSlab<B>>(slabs + DOWN * SLAB, 0, k, y);
        FloatCores::multiply(piece, x, y);
      }
      __syncwarp(); /* all lanes have loaded */
    }
  };
};

/* Host code compiles with TensorCores, but does not depend on this choice. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
using Arithmetic = FloatCores;
#else
using Arithmetic = TensorCores;
#endif
