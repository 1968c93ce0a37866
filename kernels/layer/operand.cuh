/* The operands of the fused kernels' gemms. C (M, N) = the sum over k of A(i, k) B(j, k), where i
   is a row of C and j a column. An operand consists of lines in memory. A line has all k of one i
   or j (ALONG_K), or all i or j of one k. Elements out of bounds are 0, so any size will do.

     TERMS     bf16 numbers per value: one for a pixel, two or three for a float32
     SCALE     the factor of the finished sum
     CONSTANT  no kernel of a step writes the operand, so it may be read before pdl_wait()
     VECTOR    the matrix's columns are a multiple of 4, so one load can fetch several neighbours

   load() has no branches: it moves an address that is out of bounds into bounds. When the
   value is used, zero_out_of_bounds() replaces it. So a thread's loads are all in flight. */
#pragma once

#include "batch.cuh"
#include "bf16_split.cuh"

/* Loads COUNT (2 or 4) floats from p on with one instruction. */
template <int COUNT> __device__ inline void load_vector(const float *p, float (&out)[COUNT]) {
  if constexpr (COUNT == 4) {
    const float4 q = *reinterpret_cast<const float4 *>(p);
    out[0] = q.x, out[1] = q.y, out[2] = q.z, out[3] = q.w;
  } else {
    const float2 q = *reinterpret_cast<const float2 *>(p);
    out[0] = q.x, out[1] = q.y;
  }
}

/* A row-major float matrix (rows, columns). A line is a row. It has all k of one i (ALONG), or all
   i of one k (ACROSS). If `one` is true, each line ends with an additional 1, the bias's input. */
enum Reading { ALONG, ACROSS };

template <Reading AS, bool VECTOR, int TERMS_> struct Matrix {
  static constexpr bool ALONG_K = AS == ALONG;
  static constexpr int TERMS = TERMS_;
  static constexpr float SCALE = 1.0f;
  static constexpr bool CONSTANT = false;
  const float *data;
  int rows, columns;
  bool one;

  using Line = int;
  template <int COUNT> struct Raw { float value[COUNT]; };
  __device__ void begin() {
  }
  __device__ Line line(int row) const {
    return row;
  }
  template <int COUNT> __device__ Raw<COUNT> load(Line row, int at) const {
    const float *p = data + (size_t)min(row, rows - 1) * columns;
    Raw<COUNT> raw;
    if constexpr (VECTOR) {
      load_vector(p + min(at, columns - COUNT), raw.value);
    } else {
      unrolled (e, COUNT) raw.value[e] = p[min(at + e, columns - 1)];
    }
    return raw;
  }
  /* Returns true if elements [at, at + length) of lines [first, first + lines) are in bounds. */
  __device__ bool in_bounds(int first, int lines, int at, int length) const {
    return first + lines <= rows && at + length <= columns;
  }
  /* Replaces values that load() read out of bounds: by 1 just after the end of a row if `one`, else
     by 0. */
  template <int COUNT> __device__ void zero_out_of_bounds(Raw<COUNT> &raw, Line row, int at) const {
    unrolled (e, COUNT) {
      if (row >= rows || at + e >= columns) raw.value[e] = 0.0f;
      if (one && row < rows && at + e == columns) raw.value[e] = 1.0f;
    }
  }
  /* Splits neighbours into terms, and packs equal terms of two neighbours into a word. */
  template <int COUNT>
  static __device__ void split_raw(const Raw<COUNT> &raw, uint32_t (&out)[TERMS][COUNT / 2]) {
    unrolled (e, COUNT / 2) {
      uint32_t terms[TERMS];
      split_terms(raw.value[2 * e], raw.value[2 * e + 1], terms);
      unrolled (term, TERMS) out[term][e] = terms[term];
    }
  }
  template <int COUNT>
  static __device__ void to_floats(const Raw<COUNT> &raw, float (&out)[COUNT]) {
    unrolled (e, COUNT) out[e] = raw.value[e];
  }
};

/* The batch's pixels (rows, in), 0 to 255. The sum is scaled later, so the bias's input is 255. */
template <Reading AS> struct Pixels {
  static constexpr bool ALONG_K = AS == ALONG;
  static constexpr int TERMS = 1;
  static constexpr float SCALE = PIXEL_SCALE;
  static constexpr bool CONSTANT = true;
  BatchView batch;
  int in;
  bool one;
  uint32_t first, last; /* positions of the batch's first row and of the last row to train on */

  struct Line {
    uint32_t dataset_row;
    bool exists;
  };
  __device__ void begin() {
    first = first_position(batch);
    last = batch.d_state->end - 1;
  }
  __device__ Line line(int row) const {
    const uint32_t position = min(first + min(row, batch.rows - 1), last);
    return {batch.d_order ? batch.d_order[position] : batch.first_row + position, row < batch.rows};
  }
  template <int COUNT> struct Raw { uint32_t bytes; };
  template <int COUNT> __device__ Raw<COUNT> load(Line line, int at) const {
    const uint8_t *p =
        batch.d_pixels + line.dataset_row * batch.stride + min(at, (int)batch.stride - COUNT);
    return {COUNT == 4 ? *reinterpret_cast<const uint32_t *>(p)
                       : *reinterpret_cast<const uint16_t *>(p)};
  }
  __device__ bool in_bounds(int first_line, int lines, int at, int length) const {
    return first_line + lines <= batch.rows && at + length <= in;
  }
  template <int COUNT>
  __device__ void zero_out_of_bounds(Raw<COUNT> &raw, Line line, int at) const {
    if (at + COUNT > in)
      unrolled (e, COUNT) {
        if (at + e >= in) raw.bytes &= ~(0xffu << 8 * e);
        if (one && at + e == in) raw.bytes |= 0xffu << 8 * e;
      }
    if (!line.exists) raw.bytes = 0;
  }
  template <int COUNT>
  static __device__ void split_raw(const Raw<COUNT> &raw, uint32_t (&out)[1][COUNT / 2]) {
    const uint2 words = pixels_to_bf16(raw.bytes);
    out[0][0] = words.x;
    if constexpr (COUNT == 4) out[0][1] = words.y;
  }
  template <int COUNT>
  static __device__ void to_floats(const Raw<COUNT> &raw, float (&out)[COUNT]) {
    pixels_to_floats(raw.bytes, out);
  }
};
