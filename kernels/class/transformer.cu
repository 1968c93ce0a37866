/* A second exercise: four functions of a transformer to fuse. This file is yours;
   docs/exercise.md#transformer is the handout.

       make exercise SET=transformer                 # the scorecard
       make exercise SET=transformer ONLY=2 HINT=1   # one function; its first hint

   Each function is right but slow, because every operation is a separate kernel that reads what the
   previous kernel wrote. Make each function ONE kernel, and keep it right for every shape: 1 row,
   1 column, odd sizes. The rules are those of kernels/exercise.cu: keep the signatures, write
   device code only, and get the same bits every time. Matrices are (rows, columns), row-major.

   Do you know a formula already? Read it here all the same: transformer.h has the constants of your
   class, and another class may have others. */
#include "batch.cuh"
#include "class/transformer.h"

namespace {

constexpr int THREADS = 256;

/* ---- 1: gelu -------------------------------------------------------------------------------- */

/* Y = gelu(X + b): X, Y (rows, columns), b (columns). gelu(z) = z Phi(GELU_SCALE z), where Phi is
   the distribution function of the standard normal distribution (Hendrycks and Gimpel, 2016). Phi
   is exact, by erf. The common approximation by tanh is off by up to 0.0005, which is wrong here.

   TASK   Make it one kernel. It never writes Z.
   COUNT  How many matrices do these kernels read and write? How many does yours?
   HINT   Which thread has a value of X + b, and who else needs it?
   HINT   One thread per value asks for as many bytes of b as of X. Which values of Y need the same
          value of b, and how can one thread own several of them? */
__global__ void add_bias(const float *d_x, const float *d_b, float *d_z, int rows, int columns) {
  const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  if (i < (size_t)rows * columns) d_z[i] = d_x[i] + d_b[i % columns];
}

__global__ void gelu(const float *d_z, float *d_y, size_t count) {
  const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  if (i >= count) return;
  const float z = d_z[i], root_half = 0.70710678f;
  d_y[i] = 0.5f * z * (1.0f + erff(GELU_SCALE * z * root_half));
}

/* ---- 2: norm -------------------------------------------------------------------------------- */

/* Layer normalisation (Ba, Kiros and Hinton, 2016) of each row of X:
   y = (GAIN_OFFSET + gain) (x - mean) / sqrt(variance + NORM_EPS) + b. X, Y (rows, columns); gain
   and b (columns). The variance is the mean of (x - mean)^2. One thread per row finds the row's
   mean and scale = 1 / sqrt(variance + NORM_EPS).

   TASK   Make it one kernel with a warp per row.
   COUNT  How often is X read now, and how often must it be?
   HINT   Lane l of the row's warp adds up columns l, l + 32, l + 64 and so on. How do 32 lanes get
          the sum of their sums?
   HINT   variance = E[x^2] - E[x]^2 needs one pass, and is wrong: some rows have values near 1024
          that hardly differ. How many digits of float32 are left of the difference?
   HINT   Mean and variance in one pass: count, mean and sum of (x - mean)^2 of some values can be
          updated by one more value (Welford, 1962), and merged with those of other values (Chan,
          Golub and LeVeque, 1983). Two passes are right, too, and read the row once more.
   HINT   In a row of 10 columns, 22 lanes have seen no value. What do they merge? */
__global__ void row_mean(const float *d_x, float *d_mean, int rows, int columns) {
  const int r = blockIdx.x * THREADS + threadIdx.x;
  if (r >= rows) return;
  const float *x = d_x + (size_t)r * columns;
  float sum = 0.0f;
  for (int c = 0; c < columns; c++) sum += x[c];
  d_mean[r] = sum / columns;
}

__global__ void row_scale(const float *d_x, const float *d_mean, float *d_scale, int rows,
                          int columns) {
  const int r = blockIdx.x * THREADS + threadIdx.x;
  if (r >= rows) return;
  const float *x = d_x + (size_t)r * columns;
  const float mean = d_mean[r];
  float sum = 0.0f;
  for (int c = 0; c < columns; c++) sum += (x[c] - mean) * (x[c] - mean);
  d_scale[r] = 1.0f / sqrtf(sum / columns + NORM_EPS);
}

__global__ void normalise(const float *d_x, const float *d_mean, const float *d_scale,
                          const float *d_gain, const float *d_b, float *d_y, int rows,
                          int columns) {
  const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  if (i >= (size_t)rows * columns) return;
  const size_t r = i / columns, c = i % columns;
  d_y[i] = (GAIN_OFFSET + d_gain[c]) * ((d_x[i] - d_mean[r]) * d_scale[r]) + d_b[c];
}

/* ---- 3: residual ---------------------------------------------------------------------------- */

/* Z = RESIDUAL_SCALE X + R, and Y = the layer normalisation of Z. Both are results: the next
   residual needs Z. X, R, Z, Y (rows, columns); gain and b (columns).

   TASK   Make it one kernel that reads X and R and writes Z and Y.
   COUNT  How many matrices do these kernels read and write? How many does yours?
   HINT   Begin with your kernel of function 2. Where does it load x?
   HINT   The kernel writes Z, but must not read it again: a matrix that is read counts, even if the
          same kernel wrote it. From what can a lane get its values of Z a second time? */
__global__ void add(const float *d_x, const float *d_r, float *d_z, size_t count) {
  const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  if (i < count) d_z[i] = RESIDUAL_SCALE * d_x[i] + d_r[i];
}

/* ---- 4: adam -------------------------------------------------------------------------------- */

/* A step of Adam (Kingma and Ba, 2015) for `count` weights w with gradients g and moments m, v:
   m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2, and
   w = w - rate (mh / (sqrt(vh) + eps) + ADAM_DECAY w), where mh = m / (1 - beta1^step) and
   vh = v / (1 - beta2^step) correct the bias of moments that began at 0. step counts from 1.

   TASK   Make it one kernel. It never writes mh and vh.
   COUNT  Bytes per weight now? Bytes per weight of one kernel?
   HINT   Every weight has one owner, which needs no other weight. What does it read and write?
   HINT   beta1^step and beta2^step are the same for all weights. Where can they be computed once?
 */
__global__ void first_moment(const float *d_g, float *d_m, size_t count, float beta1) {
  const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  if (i < count) d_m[i] = beta1 * d_m[i] + (1.0f - beta1) * d_g[i];
}

__global__ void second_moment(const float *d_g, float *d_v, size_t count, float beta2) {
  const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  if (i < count) d_v[i] = beta2 * d_v[i] + (1.0f - beta2) * d_g[i] * d_g[i];
}

__global__ void correct(const float *d_m, const float *d_v, float *d_mh, float *d_vh, size_t count,
                        float beta1, float beta2, int step) {
  const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  if (i >= count) return;
  d_mh[i] = d_m[i] / (1.0f - powf(beta1, (float)step));
  d_vh[i] = d_v[i] / (1.0f - powf(beta2, (float)step));
}

__global__ void change(const float *d_mh, const float *d_vh, float *d_w, size_t count, float rate,
                       float eps) {
  const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  if (i < count) d_w[i] -= rate * (d_mh[i] / (sqrtf(d_vh[i]) + eps) + ADAM_DECAY * d_w[i]);
}

} // namespace

/* ---- the four functions ---------------------------------------------------------------------- */

cudaError_t launch_transformer_gelu(const float *d_x, const float *d_b, float *d_z, float *d_y,
                                    int rows, int columns, cudaStream_t stream) {
  const size_t count = (size_t)rows * columns;
  const unsigned blocks = blocks_for(count, THREADS);
  add_bias<<<blocks, THREADS, 0, stream>>>(d_x, d_b, d_z, rows, columns);
  gelu<<<blocks, THREADS, 0, stream>>>(d_z, d_y, count);
  return launched();
}

cudaError_t launch_transformer_norm(const float *d_x, const float *d_gain, const float *d_b,
                                    float *d_mean, float *d_scale, float *d_y, int rows,
                                    int columns, cudaStream_t stream) {
  const unsigned values = blocks_for((size_t)rows * columns, THREADS);
  const unsigned blocks = blocks_for(rows, THREADS);
  row_mean<<<blocks, THREADS, 0, stream>>>(d_x, d_mean, rows, columns);
  row_scale<<<blocks, THREADS, 0, stream>>>(d_x, d_mean, d_scale, rows, columns);
  normalise<<<values, THREADS, 0, stream>>>(d_x, d_mean, d_scale, d_gain, d_b, d_y, rows, columns);
  return launched();
}

cudaError_t launch_transformer_residual(const float *d_x, const float *d_r, const float *d_gain,
                                        const float *d_b, float *d_mean, float *d_scale, float *d_z,
                                        float *d_y, int rows, int columns, cudaStream_t stream) {
  const size_t count = (size_t)rows * columns;
  const unsigned values = blocks_for(count, THREADS), blocks = blocks_for(rows, THREADS);
  add<<<values, THREADS, 0, stream>>>(d_x, d_r, d_z, count);
  row_mean<<<blocks, THREADS, 0, stream>>>(d_z, d_mean, rows, columns);
  row_scale<<<blocks, THREADS, 0, stream>>>(d_z, d_mean, d_scale, rows, columns);
  normalise<<<values, THREADS, 0, stream>>>(d_z, d_mean, d_scale, d_gain, d_b, d_y, rows, columns);
  return launched();
}

cudaError_t launch_transformer_adam(const float *d_g, float *d_m, float *d_v, float *d_w,
                                    float *d_mh, float *d_vh, size_t count, float rate, float beta1,
                                    float beta2, float eps, int step, cudaStream_t stream) {
  const unsigned blocks = blocks_for(count, THREADS);
  first_moment<<<blocks, THREADS, 0, stream>>>(d_g, d_m, count, beta1);
  second_moment<<<blocks, THREADS, 0, stream>>>(d_g, d_v, count, beta2);
  correct<<<blocks, THREADS, 0, stream>>>(d_m, d_v, d_mh, d_vh, count, beta1, beta2, step);
  change<<<blocks, THREADS, 0, stream>>>(d_mh, d_vh, d_w, count, rate, eps);
  return launched();
}
