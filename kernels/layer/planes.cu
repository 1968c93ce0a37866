/* Makes planes (kernels.h) from pixels and from floats that no gemm wrote, and computes scales. */
#include "bf16_split.cuh"
#include "layer/planes.cuh"

namespace {

constexpr int PLANE_THREADS = 256, PIXELS = 8; /* a thread copies PIXELS pixels of a row */
constexpr uint32_t ONE = 0x3c00;               /* 1 in fp16 */

/* Writes the batch's pixels as one plane, with a 1 after each row. A thread writes 8 values. */
__global__ void pixel_planes(BatchView batch, uint16_t *d, int pitch, int in) {
  const unsigned thread = blockIdx.x * PLANE_THREADS + threadIdx.x, across = pitch / PIXELS;
  const int row = thread / across, column = thread % across * PIXELS;
  pdl_wait();
  if (row >= batch.rows) return;
  const uint8_t *from = batch.d_pixels + dataset_row(batch, row) * batch.stride;
  uint2 bytes = {};
  if (column < in) bytes = *reinterpret_cast<const uint2 *>(from + column);
  float near[4], far[4];
  pixels_to_floats(bytes.x, near);
  pixels_to_floats(bytes.y, far);
  uint32_t words[] = {pack_fp16(near[0], near[1]), pack_fp16(near[2], near[3]),
                      pack_fp16(far[0], far[1]), pack_fp16(far[2], far[3])};
  unrolled (e, PIXELS) {
    const int shift = 16 * (e % 2);
    if (column + e >= in) words[e / 2] &= ~(0xffffu << shift);
    if (column + e == in) words[e / 2] |= ONE << shift;
  }
  *reinterpret_cast<uint4 *>(d + (size_t)row * pitch + column) = {words[0], words[1], words[2],
                                                                  words[3]};
}

/* Splits two floats per thread into planes: reads 4 bytes per float, writes 2 TERMS bytes. */
template <int TERMS> __global__ void split_kernel(const float *d_from, Terms of, size_t pairs) {
  const size_t thread = (size_t)blockIdx.x * PLANE_THREADS + threadIdx.x;
  const int across = (of.columns + 1) / 2;
  pdl_wait();
  if (thread >= pairs) return;
  const size_t row = thread / across;
  const int column = (int)(thread % across) * 2;
  const bool both = column + 1 < of.columns;
  const float *from = d_from + row * of.columns + column;
  const float scale = scale_of(of);
  uint32_t terms[TERMS];
  split_fp16(from[0] * scale, both ? from[1] * scale : 0.0f, terms);
  note_overflow(of, terms[0]);
  unrolled (t, TERMS) {
    uint16_t *to = of.d + t * of.plane + row * of.pitch + column;
    if (both)
      *reinterpret_cast<uint32_t *>(to) = terms[t];
    else
      *to = (uint16_t)terms[t];
  }
}

/* Writes the 1 that follows each row of a plane. One thread per row. */
__global__ void ones_kernel(Planes p, size_t pitch) {
  const size_t row = (size_t)blockIdx.x * PLANE_THREADS + threadIdx.x;
  pdl_wait();
  if (row >= (size_t)p.rows) return;
  for (int t = 0; t < p.terms; t++)
    p.d[t * p.plane + row * pitch + p.columns] = (uint16_t)(t == 0 ? ONE : 0);
}

struct ScaledArrays {
  ScaledArray of[MAX_SCALED];
};

/* Finds the largest magnitude of array blockIdx.y, as a float's bits. The larger of two magnitudes
   has the larger bit pattern, so atomicMax works. */
__global__ void largest_kernel(__grid_constant__ const ScaledArrays arrays, uint32_t *d_largest) {
  const ScaledArray &a = arrays.of[blockIdx.y];
  const size_t step = (size_t)gridDim.x * PLANE_THREADS, quads = a.count / 4;
  size_t i = (size_t)blockIdx.x * PLANE_THREADS + threadIdx.x;
  uint32_t largest = 0;
  const auto look = [&](float value) { largest = max(largest, __float_as_uint(fabsf(value))); };
  pdl_wait();
  if (i < a.count % 4) look(a.d[4 * quads + i]);
  for (; i < quads; i += step) {
    const Quad q = load_quad(a.d + 4 * i);
    unrolled (e, 4) look(q.value[e]);
  }
#pragma unroll
  for (int bit = 16; bit > 0; bit /= 2)
    largest = max(largest, __shfl_xor_sync(FULL_WARP, largest, bit));
  if (threadIdx.x % 32 == 0) atomicMax(&d_largest[blockIdx.y], largest);
}

/* Computes scales from the largest magnitudes. One thread per array. Scales are limited, so that
   the product of two scales has an inverse in float32. */
__global__ void scales_kernel(__grid_constant__ const ScaledArrays arrays, int count, float bound,
                              const uint32_t *d_largest) {
  constexpr int BIAS = 127, LARGEST = 11, FARTHEST = 60; /* LARGEST, FARTHEST: exponents of 2 */
  const int i = threadIdx.x;
  pdl_wait();
  if (i >= count) return;
  const float logits = __uint_as_float(d_largest[count - 1]);
  float largest = __uint_as_float(d_largest[i]);
  const bool is_gradient = arrays.of[i].is_gradient;
  if (largest == 0.0f || (is_gradient && logits == 0.0f))
    largest = is_gradient ? bound : 1.0f;
  else if (is_gradient)
    largest = largest / logits * bound;
  const int exponent = LARGEST + BIAS - (int)(__float_as_uint(largest) >> 23);
  const int scale = max(-FARTHEST, min(exponent, FARTHEST));
  *arrays.of[i].d_scale = __uint_as_float((uint32_t)(BIAS + scale) << 23);
}

} // namespace

cudaError_t launch_pixel_planes(BatchView batch, Planes x, cudaStream_t stream) {
  REQUIRE(valid_batch(batch) && x.d && x.terms == 1 && x.rows == batch.rows && x.columns >= 1 &&
          (size_t)x.columns <= batch.stride);
  const size_t pitch = planes_pitch(x.columns);
  return launch_pdl(pixel_planes, blocks_for(x.rows * pitch / PIXELS, PLANE_THREADS), PLANE_THREADS,
                    stream, batch, x.d, (int)pitch, x.columns);
}

cudaError_t launch_split(const float *d_from, Planes to, cudaStream_t stream) {
  REQUIRE(d_from && valid_fp16_terms(to.terms) && valid_planes(to, to.terms));
  const size_t pairs = (size_t)to.rows * (((size_t)to.columns + 1) / 2);
  return launch_pdl(to.terms == 2 ? split_kernel<2> : split_kernel<1>,
                    blocks_for(pairs, PLANE_THREADS), PLANE_THREADS, stream, d_from, terms_of(to),
                    pairs);
}

cudaError_t launch_ones(Planes planes, cudaStream_t stream) {
  REQUIRE(planes.d && planes.rows >= 1 && planes.columns >= 1);
  return launch_pdl(ones_kernel, blocks_for(planes.rows, PLANE_THREADS), PLANE_THREADS, stream,
                    planes, planes_pitch(planes.columns));
}

cudaError_t launch_scales(const ScaledArray *arrays, int count, float bound, uint32_t *d_largest,
                          cudaStream_t stream) {
  constexpr int BLOCKS = 256;
  ScaledArrays all = {};
  REQUIRE(arrays && count >= 1 && count <= MAX_SCALED && d_largest);
  for (int i = 0; i < count; i++) all.of[i] = arrays[i];
  TRY(launched(cudaMemsetAsync(d_largest, 0, count * sizeof *d_largest, stream)));
  TRY(launch_pdl(largest_kernel, dim3(BLOCKS, count), PLANE_THREADS, stream, all, d_largest));
  return launch_pdl(scales_kernel, 1, PLANE_THREADS, stream, all, count, bound, d_largest);
}
