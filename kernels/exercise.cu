/* The exercise: four functions to be fused. This file is yours; docs/exercise.md is the handout.

       make exercise                     # right or wrong, kernels, bytes, time: the scorecard
       ./mlp-train --fusion exercise     # trains MNIST with what stands here

   Each function is the unfused one of unfused.cu: right, and slow because every operation is a
   kernel of its own that reads what the last one wrote. Make each of them ONE kernel, and keep it
   right for every shape: 1 row, 1 class, sizes that divide nothing.

   The rules:
   - The faces stay as kernels.h has them. Scratch arrays that you need no more stay arguments.
   - Device code alone: no copies, no synchronising, no allocation, no library.
   - The same bits every time: no floating-point atomics.
   Start with the function that is easiest to count, and write down what you expect before you
   measure. Matrices are (rows, columns), row-major. */
#include "batch.cuh"

namespace {

constexpr int THREADS = 256;

/* ---- 1: forward ----------------------------------------------------------------------------- */

/* Y = relu(X W^T + b): X (rows, in), W (out, in), b (out), Z and Y (rows, out).

   TASK   Fuse the ReLU into the product, then the bias.
   COUNT  How often does a value of Z cross the memory bus between the product and Y? How many
          bytes is that beside those of X and W, for 64 rows of 784 to 300? For 16384 rows?
   HINT   Where is a value of Z when the loop over k ends, and who else needs it?
   HINT   The last layer has no ReLU: `relu` is the same for all threads of a launch.
   HINT   One kernel is not yet a fast kernel. Which of the two loads in the loop over k do
          neighbouring threads share, and which do they scatter? */
__global__ void gemm(const float *d_x, const float *d_w, float *d_z, int rows, int in, int out) {
  const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  if (i >= (size_t)rows * out) return;
  const float *x = d_x + i / out * in, *w = d_w + i % out * in;
  float sum = 0.0f;
  for (int k = 0; k < in; k++) sum += x[k] * w[k];
  d_z[i] = sum;
}

__global__ void add_bias(float *d_z, const float *d_b, int rows, int out) {
  const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  if (i < (size_t)rows * out) d_z[i] += d_b[i % out];
}

__global__ void relu_all(const float *d_z, float *d_y, size_t count) {
  const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  if (i < count) d_y[i] = relu_of(d_z[i]);
}

/* ---- 2: log-softmax ------------------------------------------------------------------------- */

/* P = log-softmax of each row of Z, both (rows, classes), in three passes: the row's maximum, the
   sum of exp(z - maximum), the result. A thread a row.

   TASK   Make it one kernel, a warp a row, with maximum and sum in one pass (online softmax:
          Milakov and Gimelshein, 2018).
   COUNT  How often is Z read now, and how often must it be?
   HINT   A lane that has seen some of the row's logits knows their maximum m and the sum s of
          exp(z - m). The next logit may be above m: by which factor is s then wrong?
   HINT   Two lanes merge (m, s) by the same rule. __shfl_xor_sync(FULL_WARP, value, step) fetches
          another lane's value; every lane of the warp must get there.
   HINT   m starts at -INFINITY. What is exp(m - m) of two lanes that have seen nothing?
   HINT   (z - m) - log(s) is right for a row of millions; z - (m + log(s)) is not. Why? */
__global__ void row_largest(const float *d_z, float *d_largest, int rows, int classes) {
  const int r = blockIdx.x * THREADS + threadIdx.x;
  if (r >= rows) return;
  const float *z = d_z + (size_t)r * classes;
  float largest = -INFINITY;
  for (int c = 0; c < classes; c++) largest = fmaxf(largest, z[c]);
  d_largest[r] = largest;
}

__global__ void row_sum(const float *d_z, const float *d_largest, float *d_sum, int rows,
                        int classes) {
  const int r = blockIdx.x * THREADS + threadIdx.x;
  if (r >= rows) return;
  const float *z = d_z + (size_t)r * classes;
  const float largest = d_largest[r];
  float sum = 0.0f;
  for (int c = 0; c < classes; c++) sum += expf(z[c] - largest);
  d_sum[r] = sum;
}

__global__ void log_probabilities(const float *d_z, const float *d_largest, const float *d_sum,
                                  float *d_p, int rows, int classes) {
  const int r = blockIdx.x * THREADS + threadIdx.x;
  if (r >= rows) return;
  const float *z = d_z + (size_t)r * classes;
  const float largest = d_largest[r], log_sum = logf(d_sum[r]);
  for (int c = 0; c < classes; c++) d_p[(size_t)r * classes + c] = (z[c] - largest) - log_sum;
}

/* ---- 3: softmax, cross-entropy and its gradient --------------------------------------------- */

/* Loss and correctness of each row, and dZ = (softmax(Z) - one-hot(label)) / rows of the step.
   P, Z, dZ (rows, classes). Which rows a step has, and where their labels and results stand, the
   functions of batch.cuh tell: a batch's last rows may lie beyond the end of the data. Those have
   gradient 0 and no result.

   TASK   One kernel from logits to results and gradient; P is never written.
   COUNT  How many matrices of (rows, classes) does the unfused way read and write? And yours?
   HINT   Begin with your kernel of (2): which of its lanes have what the loss needs, and the
          gradient?
   HINT   The loss is log(s) + (m - z[label]): no probability whose logarithm could be of 0.
   HINT   `correct` wants the first class that has the largest logit, also across lanes. */
__global__ void cross_entropy(BatchView batch, const float *d_p, int classes, RowResults results) {
  const int r = blockIdx.x * THREADS + threadIdx.x;
  if (r >= rows_of_step(batch)) return;
  const uint32_t position = position_of(batch, r);
  const float *p = d_p + (size_t)r * classes;
  const int label = batch.d_labels[dataset_row(batch, r)];
  int best = 0;
  for (int c = 1; c < classes; c++)
    if (p[c] > p[best]) best = c;
  results.d_loss[position] = -p[label];
  results.d_correct[position] = best == label;
}

__global__ void cross_entropy_gradient(BatchView batch, const float *d_p, float *d_dz,
                                       int classes) {
  const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  if (i >= (size_t)batch.rows * classes) return;
  const int r = (int)(i / classes), c = (int)(i % classes), rows = rows_of_step(batch);
  const float hot = c == batch.d_labels[dataset_row(batch, r)] ? 1.0f : 0.0f;
  d_dz[i] = r < rows ? (expf(d_p[i]) - hot) / rows : 0.0f;
}

/* ---- 4: gradient and update ----------------------------------------------------------------- */

/* dW (out, in) = dZ^T X and db (out) = the sum of dZ's rows, dZ (rows, out), X (rows, in); then
   v = momentum v + g + weight_decay w, w = w - rate v on W, b and their momenta.

   TASK   One kernel: the gradient is used where it is made and never written.
   COUNT  Bytes a weight now: the gradient written; read again, w and v read, w and v written. And
          fused?
   HINT   Who owns dW[o][i] when the loop over rows ends? What else does that thread need?
   HINT   The bias is the weight of an input that is always 1. It has no weight decay.
   HINT   Each weight and each bias has ONE owner. A bias that the thread of every row or of every
          weight updates is a race, and it passes some tests.
   HINT   rows_of_step(batch) == 0: it is no step, and nothing changes. */
__global__ void weight_gradient(const float *d_dz, const float *d_x, float *d_dw, int rows, int in,
                                int out) {
  const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  if (i >= (size_t)out * in) return;
  const float *dz = d_dz + i / in, *x = d_x + i % in;
  float sum = 0.0f;
  for (int r = 0; r < rows; r++) sum += dz[(size_t)r * out] * x[(size_t)r * in];
  d_dw[i] = sum;
}

__global__ void bias_gradient(const float *d_dz, float *d_db, int rows, int out) {
  const int o = blockIdx.x * THREADS + threadIdx.x;
  if (o >= out) return;
  float sum = 0.0f;
  for (int r = 0; r < rows; r++) sum += d_dz[(size_t)r * out + o];
  d_db[o] = sum;
}

__global__ void update(BatchView batch, UpdateRule rule, float *d_w, float *d_v, const float *d_g,
                       size_t count) {
  const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  if (i < count && rows_of_step(batch) > 0)
    update_value(d_w[i], d_v[i], d_g[i], rule, batch.d_state->learning_rate);
}

} // namespace

/* ---- the four functions ---------------------------------------------------------------------- */

cudaError_t launch_exercise_forward(const float *d_x, const float *d_w, const float *d_b,
                                    float *d_z, float *d_y, int rows, int in, int out, int relu,
                                    cudaStream_t stream) {
  if (!d_x || !d_w || !d_b || !d_z || !d_y || rows < 1 || in < 1 || out < 1)
    return cudaErrorInvalidValue;
  const size_t count = (size_t)rows * out;
  const unsigned blocks = blocks_for(count, THREADS);
  float *d_sum = relu ? d_z : d_y;
  gemm<<<blocks, THREADS, 0, stream>>>(d_x, d_w, d_sum, rows, in, out);
  add_bias<<<blocks, THREADS, 0, stream>>>(d_sum, d_b, rows, out);
  if (relu) relu_all<<<blocks, THREADS, 0, stream>>>(d_z, d_y, count);
  return launched();
}

cudaError_t launch_exercise_softmax(const float *d_z, float *d_largest, float *d_sum, float *d_p,
                                    int rows, int classes, cudaStream_t stream) {
  if (!d_z || !d_largest || !d_sum || !d_p || rows < 1 || classes < 1) return cudaErrorInvalidValue;
  const unsigned blocks = blocks_for(rows, THREADS);
  row_largest<<<blocks, THREADS, 0, stream>>>(d_z, d_largest, rows, classes);
  row_sum<<<blocks, THREADS, 0, stream>>>(d_z, d_largest, d_sum, rows, classes);
  log_probabilities<<<blocks, THREADS, 0, stream>>>(d_z, d_largest, d_sum, d_p, rows, classes);
  return launched();
}

cudaError_t launch_exercise_loss(BatchView batch, const float *d_z, float *d_largest, float *d_sum,
                                 float *d_p, float *d_dz, int classes, RowResults results,
                                 cudaStream_t stream) {
  if (!valid_batch(batch) || !d_dz || !results.d_loss || !results.d_correct)
    return cudaErrorInvalidValue;
  const cudaError_t status =
      launch_exercise_softmax(d_z, d_largest, d_sum, d_p, batch.rows, classes, stream);
  if (status != cudaSuccess) return status;
  const unsigned values = blocks_for((size_t)batch.rows * classes, THREADS);
  cross_entropy<<<blocks_for(batch.rows, THREADS), THREADS, 0, stream>>>(batch, d_p, classes,
                                                                         results);
  cross_entropy_gradient<<<values, THREADS, 0, stream>>>(batch, d_p, d_dz, classes);
  return launched();
}

cudaError_t launch_exercise_update(BatchView batch, UpdateRule rule, LayerUpdate layer, float *d_dw,
                                   float *d_db, cudaStream_t stream) {
  const int rows = batch.rows, in = layer.in, out = layer.out;
  if (!valid_batch(batch) || !layer.d_x || !layer.d_dz || !layer.d_w || !layer.d_b || !layer.d_vw ||
      !layer.d_vb || in < 1 || out < 1 || !d_dw || !d_db)
    return cudaErrorInvalidValue;
  const size_t weights = (size_t)out * in;
  const UpdateRule bias_rule = {rule.momentum, 0.0f};
  const unsigned blocks = blocks_for(weights, THREADS), bias_blocks = blocks_for(out, THREADS);
  weight_gradient<<<blocks, THREADS, 0, stream>>>(layer.d_dz, layer.d_x, d_dw, rows, in, out);
  bias_gradient<<<bias_blocks, THREADS, 0, stream>>>(layer.d_dz, d_db, rows, out);
  update<<<blocks, THREADS, 0, stream>>>(batch, rule, layer.d_w, layer.d_vw, d_dw, weights);
  update<<<bias_blocks, THREADS, 0, stream>>>(batch, bias_rule, layer.d_b, layer.d_vb, d_db, out);
  return launched();
}
