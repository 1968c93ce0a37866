/* Makes augmented copies of the dataset's pictures by the rules of augment.h. */
#include "base/augment.h"
#include "batch.cuh"

namespace {

constexpr int AUGMENT_THREADS = 128;
constexpr int CONTROLS = AUGMENT_POINTS * AUGMENT_POINTS;
constexpr int VECTOR = sizeof(uint4), WORD = sizeof(uint32_t);

struct Picture {
  alignas(VECTOR) uint8_t pixels[AUGMENT_MOST_SIDE * AUGMENT_MOST_SIDE];
  AugmentMap map;
  AugmentPoint control[CONTROLS];
  AugmentPoint line[AUGMENT_MOST_SIDE * AUGMENT_POINTS]; /* 6 control points for each line */
};

/* Loads the picture and chooses its control points and its affine map at random. */
__device__ void begin_picture(Picture &picture, const uint8_t *d_from, uint32_t row, int side,
                              AugmentStrengths strengths, uint64_t key) {
  const int t = threadIdx.x;
  for (int v = t; v * VECTOR < side * side; v += AUGMENT_THREADS)
    reinterpret_cast<uint4 *>(picture.pixels)[v] = reinterpret_cast<const uint4 *>(d_from)[v];
  if (t < CONTROLS) picture.control[t] = augment_control(strengths, key, row, side, t);
  if (t == AUGMENT_THREADS - 1) picture.map = augment_map(strengths, key, row, side);
  static_assert(CONTROLS <= AUGMENT_THREADS - 32, "no warp left for the map");
}

/* For each line of pixels, blends each of the 6 columns of control points into one point. */
__device__ void blend_lines(Picture &picture, int side) {
  for (int i = threadIdx.x; i < side * AUGMENT_POINTS; i += AUGMENT_THREADS) {
    const AugmentSpline down = augment_spline(i / AUGMENT_POINTS, side);
    picture.line[i] = augment_blend(&down, picture.control + i % AUGMENT_POINTS, AUGMENT_POINTS);
  }
}

/* Returns pixels `at` to `at + 3` of the augmented copy. Bytes after the last pixel are 0. */
__device__ uint32_t word_of_copy(const Picture &picture, int side, int at) {
  uint32_t word = 0;
  int y = at / side, x = at % side;
  unrolled (i, WORD) {
    if (y < side) {
      const AugmentSpline across = augment_spline(x, side);
      const AugmentPoint displaced = augment_blend(&across, picture.line + y * AUGMENT_POINTS, 1);
      word |= (uint32_t)augment_pixel(&picture.map, displaced, picture.pixels, side, x, y) << 8 * i;
    }
    if (++x == side) x = 0, y++;
  }
  return word;
}

/* Writes an augmented copy of each picture of d_from to d_to, both (rows, stride). Grid: one block
   per picture. The block reads its picture into shared memory, chooses a random map and 6 x 6
   control points, and blends them into 6 points per line. Then each thread makes words of 4 pixels.

   A block moves 2 x stride bytes. For 60,000 pictures of 784 bytes that is 94 MB, 31 us at 3 TB/s.
   About 90 instructions per pixel take 0.25 ms on an H100, 3% of an epoch, so the code stays as
   simple as the host's. state.cu says why there is a fence. */
__global__ void __launch_bounds__(AUGMENT_THREADS)
    augment_kernel(const uint8_t *d_from, uint8_t *d_to, size_t stride, int side,
                   AugmentStrengths strengths, uint64_t key) {
  __shared__ Picture picture;
  const size_t start = blockIdx.x * stride;
  begin_picture(picture, d_from + start, blockIdx.x, side, strengths, key);
  __syncthreads();
  blend_lines(picture, side);
  __syncthreads();
  for (int w = threadIdx.x; w < (int)stride / WORD; w += AUGMENT_THREADS)
    reinterpret_cast<uint32_t *>(d_to + start)[w] = word_of_copy(picture, side, w * WORD);
  __threadfence();
}

/* Returns true if every strength is within its limits. Returns false for a NaN. */
bool in_limits(AugmentStrengths strengths) {
  bool good = true;
  for (int k = 0; k < AUGMENT_KINDS; k++)
    good = good && strengths.most[k] >= 0 && strengths.most[k] <= AUGMENT_GREATEST.most[k];
  return good;
}

} // namespace

cudaError_t launch_augment(const uint8_t *d_from, uint8_t *d_to, uint32_t rows, size_t stride,
                           int side, AugmentStrengths strengths, uint64_t key,
                           cudaStream_t stream) {
  REQUIRE(d_from && d_to && d_from != d_to && rows != 0 && rows <= INT32_MAX && side >= 1 &&
          side <= AUGMENT_MOST_SIDE && stride % VECTOR == 0 && stride >= (size_t)side * side &&
          stride <= INT32_MAX && in_limits(strengths));
  augment_kernel<<<rows, AUGMENT_THREADS, 0, stream>>>(d_from, d_to, stride, side, strengths, key);
  return launched();
}
