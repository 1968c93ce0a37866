/* Planes of bf16 terms (kernels.h) made of pixels, and of floats that no gemm of wide.cu has
   written. */
#include "batch.cuh"
#include "bf16_split.cuh"

namespace {

constexpr int PLANE_THREADS = 256, PIXELS = 8; /* of a row, a thread */

/* Writes the batch's pixels as one plane, and a one after each row. Thread: 8 neighbours of a row.
   It reads a byte and writes two bytes for each pixel. */
__global__ void pixel_planes(BatchView batch, uint16_t *d, int pitch, int in) {
  const unsigned thread = blockIdx.x * PLANE_THREADS + threadIdx.x, across = pitch / PIXELS;
  const int row = thread / across, column = thread % across * PIXELS;
  pdl_wait();
  if (row >= batch.rows) return;
  const uint8_t *from = batch.d_pixels + dataset_row(batch, row) * batch.stride;
  uint2 bytes = {};
  if (column < in) bytes = *reinterpret_cast<const uint2 *>(from + column);
  const uint2 near = pixels_to_bf16(bytes.x), far = pixels_to_bf16(bytes.y);
  uint32_t words[] = {near.x, near.y, far.x, far.y};
  unrolled (e, PIXELS) {
    const int shift = 16 * (e % 2);
    if (column + e >= in) words[e / 2] &= ~(0xffffu << shift);
    if (column + e == in) words[e / 2] |= pack_bf16(255.0f, 0.0f) << shift;
  }
  *reinterpret_cast<uint4 *>(d + (size_t)row * pitch + column) = {words[0], words[1], words[2],
                                                                  words[3]};
}

/* Splits floats (rows, columns) into planes. Thread: two neighbours of a row. It reads 4 bytes and
   writes 2 TERMS bytes for each. */
template <int TERMS>
__global__ void split_kernel(const float *d_from, uint16_t *d, size_t plane, int pitch, int columns,
                             size_t pairs) {
  const size_t thread = (size_t)blockIdx.x * PLANE_THREADS + threadIdx.x;
  const int across = (columns + 1) / 2;
  pdl_wait();
  if (thread >= pairs) return;
  const size_t row = thread / across;
  const int column = (int)(thread % across) * 2;
  const bool both = column + 1 < columns;
  const float *from = d_from + row * columns + column;
  uint32_t terms[TERMS];
  split_terms(from[0], both ? from[1] : 0.0f, terms);
  unrolled (t, TERMS) {
    uint16_t *to = d + t * plane + row * pitch + column;
    if (both)
      *reinterpret_cast<uint32_t *>(to) = terms[t];
    else
      *to = (uint16_t)terms[t];
  }
}

/* Writes the one after each row. Thread: a row. */
__global__ void ones_kernel(Planes p, size_t pitch) {
  const size_t row = (size_t)blockIdx.x * PLANE_THREADS + threadIdx.x;
  pdl_wait();
  if (row >= (size_t)p.rows) return;
  for (int t = 0; t < p.terms; t++)
    p.d[t * p.plane + row * pitch + p.columns] =
        (uint16_t)(t == 0 ? pack_bf16(p.terms == 1 ? 255.0f : 1.0f, 0.0f) : 0);
}

} // namespace

cudaError_t launch_pixel_planes(BatchView batch, Planes x, cudaStream_t stream) {
  if (!valid_batch(batch) || !x.d || x.terms != 1 || x.rows != batch.rows || x.columns < 1 ||
      (size_t)x.columns > batch.stride)
    return cudaErrorInvalidValue;
  const size_t pitch = planes_pitch(x.columns);
  return launch_pdl(pixel_planes, blocks_for(x.rows * pitch / PIXELS, PLANE_THREADS), PLANE_THREADS,
                    stream, batch, x.d, (int)pitch, x.columns);
}

cudaError_t launch_split(const float *d_from, Planes to, cudaStream_t stream) {
  if (!d_from || !to.d || !valid_terms(to.terms) || to.rows < 1 || to.columns < 1)
    return cudaErrorInvalidValue;
  const size_t pairs = (size_t)to.rows * (((size_t)to.columns + 1) / 2);
  return launch_pdl(to.terms == 3 ? split_kernel<3> : split_kernel<2>,
                    blocks_for(pairs, PLANE_THREADS), PLANE_THREADS, stream, d_from, to.d, to.plane,
                    (int)planes_pitch(to.columns), to.columns, pairs);
}

cudaError_t launch_ones(Planes planes, cudaStream_t stream) {
  if (!planes.d || planes.rows < 1 || planes.columns < 1) return cudaErrorInvalidValue;
  return launch_pdl(ones_kernel, blocks_for(planes.rows, PLANE_THREADS), PLANE_THREADS, stream,
                    planes, planes_pitch(planes.columns));
}
