/* Planes of bf16 terms (kernels.h) as kernels write them. */
#pragma once

#include "batch.cuh"
#include "bf16_split.cuh"

/* The layout of an operand of C (m, n) = the sum over k of A(m, k) B(n, k): a row is one m or n
   (ALONG_K), or one k (ACROSS_K). wgmma's instructions number them so. */
enum Major { ALONG_K = 0, ACROSS_K = 1 };

/* Planes to be written: (terms, rows, pitch). d NULL: nobody wants them. */
struct Terms {
  uint16_t *d;
  size_t plane;
  int pitch, columns;
};

__host__ __device__ inline Terms terms_of(const Planes &p) {
  return {p.d, p.plane, (int)planes_pitch(p.columns), p.columns};
}

static inline bool valid_planes(const Planes &p, int terms) {
  return p.d && p.terms == terms && p.rows > 0 && p.columns > 0 &&
         p.plane >= (size_t)p.rows * planes_pitch(p.columns) && p.plane % 64 == 0;
}

/* Stores one value. */
template <int TERMS>
__device__ inline void store_term(const Terms &t, int row, int column, float value) {
  uint32_t terms[TERMS];
  split_terms(value, 0.0f, terms);
  unrolled (term, TERMS)
    t.d[term * t.plane + (size_t)row * t.pitch + column] = (uint16_t)terms[term];
}

/* Four neighbours of a row. */
struct Quad {
  float value[4];
};

/* Loads and stores them as one word of 16 bytes, on which they lie. */
__device__ inline Quad load_quad(const float *d) {
  const float4 v = *reinterpret_cast<const float4 *>(d);
  return {{v.x, v.y, v.z, v.w}};
}
__device__ inline void store_quad(float *d, const Quad &q) {
  *reinterpret_cast<float4 *>(d) = {q.value[0], q.value[1], q.value[2], q.value[3]};
}

/* Stores the terms of those from `column`, a multiple of 4, on. FULL: all of them are columns. */
template <int TERMS, bool FULL>
__device__ inline void store_terms(const Terms &t, int row, int column, const Quad &q) {
  uint32_t near[TERMS], far[TERMS];
  split_terms(q.value[0], q.value[1], near);
  split_terms(q.value[2], q.value[3], far);
  uint16_t *to = t.d + (size_t)row * t.pitch + column;
#pragma unroll
  for (int term = 0; term < TERMS; term++, to += t.plane) {
    if (FULL || column + 4 <= t.columns) {
      *reinterpret_cast<uint2 *>(to) = {near[term], far[term]};
    } else { /* what follows the columns is not ours: the one */
      unrolled (e, 4)
        if (column + e < t.columns) to[e] = (uint16_t)((e < 2 ? near : far)[term] >> 16 * (e % 2));
    }
  }
}
