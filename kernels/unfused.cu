/* Fusion level `none`: one kernel per operation. Every intermediate result goes through global
   memory. This is the starting point of the course. Its accesses coalesce where the layout allows
   it, so the comparison is fair. But one kernel writes each value and the next kernel reads it, and
   a step costs some thirty launches. Exercise: follow one activation from launch_gemm to
   launch_update. How often does it cross global memory? */
#include "batch.cuh"

namespace {

constexpr int THREADS = 256;

__device__ size_t thread_of_grid() {
  return (size_t)blockIdx.x * THREADS + threadIdx.x;
}

/* X = factor * pixels - offset. One thread per value reads 1 byte and writes 4. */
__global__ void scale_pixels(BatchView batch, float *d_x, int in, float factor, float offset) {
  const size_t i = thread_of_grid();
  if (i >= (size_t)batch.rows * in) return;
  const int r = (int)(i / in), c = (int)(i % in);
  d_x[i] = factor * batch.d_pixels[dataset_row(batch, r) * batch.stride + c] - offset;
}

/* Z = X W^T. One thread per element of Z. Neighbouring threads load from different rows of W. */
__global__ void gemm(const float *d_x, const float *d_w, float *d_z, int rows, int in, int out) {
  const size_t i = thread_of_grid();
  if (i >= (size_t)rows * out) return;
  const float *x = d_x + i / out * in, *w = d_w + i % out * in;
  float sum = 0.0f;
  for (int k = 0; k < in; k++) sum += x[k] * w[k];
  d_z[i] = sum;
}

/* Z += b in every row. One thread per element reads 8 bytes and writes 4. */
__global__ void add_bias(float *d_z, const float *d_b, int rows, int out) {
  const size_t i = thread_of_grid();
  if (i < (size_t)rows * out) d_z[i] += d_b[i % out];
}

/* A = activate(Z). One thread per value reads 4 bytes and writes 4. */
__global__ void activation(const float *d_z, float *d_a, size_t count) {
  const size_t i = thread_of_grid();
  if (i < count) d_a[i] = activate(d_z[i]);
}

/* Applies dropout to A (rows, size). One thread per value reads 4 bytes and writes 4. */
__global__ void drop(BatchView batch, float *d_a, int size, Dropout dropout, float scale) {
  const size_t i = thread_of_grid();
  if (i >= (size_t)batch.rows * size) return;
  const int r = (int)(i / size), n = (int)(i % size);
  const RandomWords words =
      dropout_words(batch.d_state->dropout_key, dropout.layer, position_of(batch, r), n / 4);
  d_a[i] = activation_drop(d_a[i], scale, random_drops(words.word[n % 4], dropout.share));
}

/* P = log-softmax of each row of Z. One thread per row. */
__global__ void log_softmax(const float *d_z, float *d_p, int rows, int classes) {
  const int r = blockIdx.x * THREADS + threadIdx.x;
  if (r >= rows) return;
  const float *z = d_z + (size_t)r * classes;
  float largest = -INFINITY, sum = 0.0f;
  for (int c = 0; c < classes; c++) largest = fmaxf(largest, z[c]);
  for (int c = 0; c < classes; c++) sum += expf(z[c] - largest);
  const float log_sum = logf(sum);
  for (int c = 0; c < classes; c++) d_p[(size_t)r * classes + c] = (z[c] - largest) - log_sum;
}

/* Computes each row's loss and correctness. One thread per row. The loss is minus the sum over
   classes of target times log-probability. Without smoothing, only the label's target is not 0. */
__global__ void cross_entropy(BatchView batch, const float *d_p, int classes, Target target,
                              RowResults results) {
  const int r = blockIdx.x * THREADS + threadIdx.x;
  if (r >= rows_of_step(batch)) return;
  const uint32_t position = position_of(batch, r);
  const float *p = d_p + (size_t)r * classes;
  const int label = batch.d_labels[dataset_row(batch, r)];
  int best = 0;
  float sum = 0.0f;
  for (int c = 0; c < classes; c++) {
    if (p[c] > p[best]) best = c;
    sum += p[c];
  }
  const float smooth = target.other * (sum - p[label]) + target.own * p[label];
  results.d_loss[position] = target.is_smooth() ? -smooth : -p[label];
  results.d_correct[position] = best == label;
}

/* dZ = (exp(P) - target) / n. A step has n rows over all ranks. One thread per element of dZ. */
__global__ void cross_entropy_gradient(BatchView batch, const float *d_p, float *d_dz, int classes,
                                       Target target) {
  const size_t i = thread_of_grid();
  if (i >= (size_t)batch.rows * classes) return;
  const int r = (int)(i / classes), c = (int)(i % classes);
  const float wanted = target.of(c == batch.d_labels[dataset_row(batch, r)]);
  d_dz[i] = r < rows_of_step(batch) ? (expf(d_p[i]) - wanted) / rows_of_all_ranks(batch) : 0.0f;
}

/* dX = dZ W. One thread per element of dX does `out` multiply-adds. Loads of W coalesce. */
__global__ void backward_gemm(const float *d_dz, const float *d_w, float *d_dx, int rows, int in,
                              int out) {
  const size_t i = thread_of_grid();
  if (i >= (size_t)rows * in) return;
  const float *dz = d_dz + i / in * out, *w = d_w + i % in;
  float sum = 0.0f;
  for (int k = 0; k < out; k++) sum += dz[k] * w[(size_t)k * in];
  d_dx[i] = sum;
}

/* dZ = dA times the activation's slope, in place. One thread per value reads 8 bytes, writes 4. */
__global__ void activation_slope_of(float *d_da, const float *d_a, float scale, size_t count) {
  const size_t i = thread_of_grid();
  if (i < count) d_da[i] = times_slope(activation_slope(d_a[i], scale), d_da[i]);
}

/* dW = dZ^T X. One thread per element of dW sums over rows in order: the bits never change. */
__global__ void weight_gradient(const float *d_dz, const float *d_x, float *d_dw, int rows, int in,
                                int out) {
  const size_t i = thread_of_grid();
  if (i >= (size_t)out * in) return;
  const float *dz = d_dz + i / in, *x = d_x + i % in;
  float sum = 0.0f;
  for (int r = 0; r < rows; r++) sum += dz[(size_t)r * out] * x[(size_t)r * in];
  d_dw[i] = sum;
}

/* db = the sum of dZ over rows. Each bias has one thread, so no threads race. */
__global__ void bias_gradient(const float *d_dz, float *d_db, int rows, int out) {
  const int o = blockIdx.x * THREADS + threadIdx.x;
  if (o >= out) return;
  float sum = 0.0f;
  for (int r = 0; r < rows; r++) sum += d_dz[(size_t)r * out + o];
  d_db[o] = sum;
}

/* Applies sgd. One thread per value reads 12 bytes and writes 8. */
__global__ void update(BatchView batch, float *d_w, float *d_v, const float *d_g, size_t count,
                       size_t decayed) {
  const size_t i = thread_of_grid();
  if (i >= count || rows_of_all_ranks(batch) == 0) return;
  const OptimizerRule &rule = batch.d_state->rule;
  const UpdateRule mine = {rule.momentum, i < decayed ? rule.weight_decay : 0.0f};
  update_value(d_w[i], d_v[i], d_g[i], mine, batch.d_state->learning_rate);
}

/* Arguments of kernels that a launcher takes: pointers that are not NULL, sizes above 0, a valid
   batch. Nothing is wrong with the others. */
template <class T> bool valid(const T &) {
  return true;
}
template <class T> bool valid(T *pointer) {
  return pointer;
}
bool valid(int size) {
  return size >= 1;
}
bool valid(const BatchView &batch) {
  return valid_batch(batch);
}
bool valid(const RowResults &results) {
  return given(results.d_loss, results.d_correct);
}
bool valid(Dropout dropout) {
  return valid_dropout(dropout);
}

/* Checks the arguments, and launches a kernel of one thread per value. */
template <class... Parameters, class... Arguments>
cudaError_t launch_each(void (*kernel)(Parameters...), size_t values, cudaStream_t stream,
                        const Arguments &...arguments) {
  REQUIRE(values >= 1 && (... && valid(arguments)));
  kernel<<<blocks_for(values, THREADS), THREADS, 0, stream>>>(arguments...);
  return launched();
}

} // namespace

cudaError_t launch_scale_pixels(BatchView batch, float *d_x, int in, float factor, float offset,
                                cudaStream_t stream) {
  return launch_each(scale_pixels, (size_t)batch.rows * in, stream, batch, d_x, in, factor, offset);
}

cudaError_t launch_gemm(const float *d_x, const float *d_w, float *d_z, int rows, int in, int out,
                        cudaStream_t stream) {
  return launch_each(gemm, (size_t)rows * out, stream, d_x, d_w, d_z, rows, in, out);
}

cudaError_t launch_add_bias(float *d_z, const float *d_b, int rows, int out, cudaStream_t stream) {
  return launch_each(add_bias, (size_t)rows * out, stream, d_z, d_b, rows, out);
}

cudaError_t launch_activation(const float *d_z, float *d_a, size_t count, cudaStream_t stream) {
  return launch_each(activation, count, stream, d_z, d_a, count);
}

cudaError_t launch_dropout(BatchView batch, float *d_a, int size, Dropout dropout,
                           cudaStream_t stream) {
  return launch_each(drop, (size_t)batch.rows * size, stream, batch, d_a, size, dropout,
                     dropout_scale(dropout));
}

cudaError_t launch_log_softmax(const float *d_z, float *d_p, int rows, int classes,
                               cudaStream_t stream) {
  return launch_each(log_softmax, rows, stream, d_z, d_p, rows, classes);
}

cudaError_t launch_cross_entropy(BatchView batch, const float *d_p, int classes, RowResults results,
                                 cudaStream_t stream) {
  return launch_each(cross_entropy, batch.rows, stream, batch, d_p, classes,
                     target_of(batch, classes), results);
}

cudaError_t launch_cross_entropy_gradient(BatchView batch, const float *d_p, float *d_dz,
                                          int classes, cudaStream_t stream) {
  return launch_each(cross_entropy_gradient, (size_t)batch.rows * classes, stream, batch, d_p, d_dz,
                     classes, target_of(batch, classes));
}

cudaError_t launch_backward_gemm(const float *d_dz, const float *d_w, float *d_dx, int rows, int in,
                                 int out, cudaStream_t stream) {
  return launch_each(backward_gemm, (size_t)rows * in, stream, d_dz, d_w, d_dx, rows, in, out);
}

cudaError_t launch_activation_slope(float *d_da, const float *d_a, Dropout dropped, size_t count,
                                    cudaStream_t stream) {
  REQUIRE(valid(dropped)); /* the kernel gets only its scale */
  return launch_each(activation_slope_of, count, stream, d_da, d_a, dropout_scale(dropped), count);
}

cudaError_t launch_weight_gradient(const float *d_dz, const float *d_x, float *d_dw, int rows,
                                   int in, int out, cudaStream_t stream) {
  return launch_each(weight_gradient, (size_t)out * in, stream, d_dz, d_x, d_dw, rows, in, out);
}

cudaError_t launch_bias_gradient(const float *d_dz, float *d_db, int rows, int out,
                                 cudaStream_t stream) {
  return launch_each(bias_gradient, out, stream, d_dz, d_db, rows, out);
}

cudaError_t launch_update(BatchView batch, float *d_w, float *d_v, const float *d_g, size_t count,
                          size_t decayed, cudaStream_t stream) {
  return launch_each(update, count, stream, batch, d_w, d_v, d_g, count, decayed);
}
