/* Planes of fp16 terms (kernels.h). An fp16 has 11 significant bits, so two terms hold 22 of a
   float32's 24 bits: x s = hi + lo, where s is a power of two (Ootomo, Yokota, "Recovering single
   precision accuracy from Tensor Cores", 2022). The products hi hi, hi lo and lo hi, added in
   float32, have about the error of a float32 product. */
#pragma once

#include "batch.cuh"
#include "ptx.cuh"

/* How an operand lies in memory: a row has all k of one m or n (ALONG_K), or all m or n of one k
   (ACROSS_K). wgmma uses the same numbers. */
enum Major { ALONG_K = 0, ACROSS_K = 1 };

/* Planes to write: (terms, rows, pitch). d is NULL if no planes are written. */
struct Terms {
  uint16_t *d;
  size_t plane;
  int pitch, columns;
  const float *d_scale;
  uint32_t *d_overflowed;
};

__host__ __device__ inline Terms terms_of(const Planes &p) {
  return {p.d, p.plane, (int)planes_pitch(p.columns), p.columns, p.d_scale, p.d_overflowed};
}

/* Returns the scale of the planes, or 1 if there are no planes. */
__device__ inline float scale_of(const Terms &t) {
  return t.d ? *t.d_scale : 1.0f;
}

/* Returns true if --precision offers this number of terms: one or two fp16 per float32. */
static inline bool valid_fp16_terms(int terms) {
  return terms == 1 || terms == 2;
}

static inline bool valid_planes(const Planes &p, int terms) {
  return p.d && p.d_scale && p.d_overflowed && p.terms == terms && p.rows > 0 && p.columns > 0 &&
         p.plane >= (size_t)p.rows * planes_pitch(p.columns) && p.plane % 64 == 0;
}

/* Splits two scaled floats into TERMS terms each. A word's lower half is the first float's term. */
template <int TERMS>
__device__ inline void split_fp16(float first, float second, uint32_t (&terms)[TERMS]) {
  terms[0] = pack_fp16(first, second);
  if constexpr (TERMS == 2) {
    const float2 hi = unpack_fp16(terms[0]);
    terms[1] = pack_fp16(first - hi.x, second - hi.y);
  }
}

/* Sets *d_overflowed if `pair`, the first terms of two values, has an infinity or a NaN. */
__device__ inline void note_overflow(const Terms &t, uint32_t pair) {
  if (((pair & 0x7fff7fffu) + 0x04000400u) & 0x80008000u) *t.d_overflowed = 1;
}

/* Stores the terms of value * scale, where `scale` is scale_of(t). */
template <int TERMS>
__device__ inline void store_term(const Terms &t, int row, int column, float value, float scale) {
  uint32_t terms[TERMS];
  split_fp16(value * scale, 0.0f, terms);
  note_overflow(t, terms[0]);
  unrolled (term, TERMS)
    t.d[term * t.plane + (size_t)row * t.pitch + column] = (uint16_t)terms[term];
}

struct Quad {
  float value[4];
};

/* Loads and stores four neighbours as one aligned word of 16 bytes. */
__device__ inline Quad load_quad(const float *d) {
  const float4 v = *reinterpret_cast<const float4 *>(d);
  return {{v.x, v.y, v.z, v.w}};
}
__device__ inline void store_quad(float *d, const Quad &q) {
  *reinterpret_cast<float4 *>(d) = {q.value[0], q.value[1], q.value[2], q.value[3]};
}

/* Stores the terms of four neighbours from `column` (a multiple of 4) on. If FULL, all four are in
   the row. */
template <int TERMS, bool FULL>
__device__ inline void store_terms(const Terms &t, int row, int column, Quad q, float scale) {
  uint32_t near[TERMS], far[TERMS];
  unrolled (e, 4) q.value[e] = FULL || column + e < t.columns ? q.value[e] * scale : 0.0f;
  split_fp16(q.value[0], q.value[1], near);
  split_fp16(q.value[2], q.value[3], far);
  note_overflow(t, near[0]);
  note_overflow(t, far[0]);
  uint16_t *to = t.d + (size_t)row * t.pitch + column;
#pragma unroll
  for (int term = 0; term < TERMS; term++, to += t.plane) {
    if (FULL || column + 4 <= t.columns) {
      *reinterpret_cast<uint2 *>(to) = {near[term], far[term]};
    } else { /* do not overwrite the 1 after the row's columns */
      unrolled (e, 4)
        if (column + e < t.columns) to[e] = (uint16_t)((e < 2 ? near : far)[term] >> 16 * (e % 2));
    }
  }
}
