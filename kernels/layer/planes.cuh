/* Planes of bf16 terms (kernels.h) as kernels write them. */
#ifndef LAYER_PLANES_CUH
#define LAYER_PLANES_CUH

#include "batch.cuh"
#include "bf16_split.cuh"

/* Planes to be written: (terms, rows, pitch). d NULL: nobody wants them. */
struct Terms {
  uint16_t *d;
  size_t plane;
  int pitch, columns;
};

static inline Terms terms_of(const Planes &p) {
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
#pragma unroll
  for (int term = 0; term < TERMS; term++)
    t.d[term * t.plane + (size_t)row * t.pitch + column] = (uint16_t)terms[term];
}

#endif
