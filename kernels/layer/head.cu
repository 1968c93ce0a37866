/* The last layer (the head), forward and backward in one kernel: logits, softmax, cross-entropy,
   the gradient of the logits, and the gradient of the layer's input times the slope of the previous
   activation.

   With 10 classes, separate kernels for forward, softmax and backward would compute very little.
   Each would mostly wait for its launch and for the L2 cache. In this kernel a row's input stays in
   registers. The weights are in shared memory or, with few rows of many inputs, in registers.
   Logits are sums of float32 products, because 10 columns would not fill a tile of the tensor
   cores. Gradients are floats, or planes for wide.cu. Exercise: count the bytes saved. */
#include "layer/planes.cuh"

namespace {

constexpr int WARPS = 4; /* warps per block, one row each; 64 rows use 16 multiprocessors */
constexpr int MAX_CLASSES = 16, MAX_INPUTS = 1024;
constexpr int AS_FLOATS = 0; /* TERMS of a kernel that writes gradients as floats, not as planes */

/* Sums partial[c] over the warp, for all c. Lanes 2 c and 2 c + 1 return the sum of class c. */
__device__ float sum_by_class(float (&partial)[MAX_CLASSES], int lane) {
#pragma unroll
  for (int half = MAX_CLASSES / 2, bit = 16; half > 0; half /= 2, bit /= 2) {
    const bool upper = lane & bit;
    unrolled (c, half) {
      const float given = upper ? partial[c] : partial[c + half];
      const float own = upper ? partial[c + half] : partial[c];
      partial[c] = own + __shfl_xor_sync(FULL_WARP, given, bit);
    }
  }
  return partial[0] + __shfl_xor_sync(FULL_WARP, partial[0], 1);
}

/* Copies `count` weights to shared memory, four at a time, with AHEAD loads in flight. */
__device__ void load_weights(const float *d_w, int count, float *w) {
  constexpr int AHEAD = 5, THREADS = 32 * WARPS;
  const int fours = count / 4;
  const float4 *from = reinterpret_cast<const float4 *>(d_w);
  float4 *to = reinterpret_cast<float4 *>(w);
  for (int first = threadIdx.x; first < fours; first += AHEAD * THREADS) {
    float4 value[AHEAD];
    unrolled (i, AHEAD) value[i] = from[min(first + i * THREADS, fours - 1)];
    unrolled (i, AHEAD)
      if (first + i * THREADS < fours) to[first + i * THREADS] = value[i];
  }
  if ((int)threadIdx.x < count % 4) w[4 * fours + threadIdx.x] = d_w[4 * fours + threadIdx.x];
}

/* Adds up `own` over the block's warps, in order. `sums` (WARPS, MAX_CLASSES) is scratch memory. */
__device__ float sum_of_warps(float own, float *sums) {
  const int mine = threadIdx.x % 32 / 2;
  if (threadIdx.x % 2 == 0) sums[threadIdx.x / 32 * MAX_CLASSES + mine] = own;
  __syncthreads();
  float sum = 0.0f;
  unrolled (warp, WARPS) sum += sums[warp * MAX_CLASSES + mine];
  return sum;
}

/* Adds up a value over a row's classes. Each lane has the value of class lane / 2. */
__device__ float add_classes(float value) {
#pragma unroll
  for (int bit = 16; bit > 1; bit /= 2) value += __shfl_xor_sync(FULL_WARP, value, bit);
  return value;
}

struct RowSoftmax {
  float largest, sum; /* sum: the sum of exp(z - largest) */
  int best;           /* the first class with the largest logit */
};

/* Returns a row's softmax. z is the logit of class lane / 2, or -infinity beyond the last class. */
__device__ RowSoftmax row_softmax(float z, int lane) {
  RowSoftmax row = {z, 0.0f, lane / 2};
#pragma unroll
  for (int bit = 16; bit > 1; bit /= 2) {
    const float other = __shfl_xor_sync(FULL_WARP, row.largest, bit);
    const int other_best = __shfl_xor_sync(FULL_WARP, row.best, bit);
    if (other > row.largest || (other == row.largest && other_best < row.best))
      row.best = other_best;
    row.largest = fmaxf(row.largest, other);
  }
  row.sum = add_classes(expf(z - row.largest));
  return row;
}

/* The layer's arrays. The kernel does not write arrays that are NULL. */
struct Head {
  const float *d_x, *d_w, *d_b;                           /* (rows, in), (classes, in), (classes) */
  float *d_z = nullptr, *d_dz = nullptr, *d_dx = nullptr; /* (rows, classes) twice, (rows, in) */
  Terms dz = {}, dx = {}; /* planes to write instead of d_dz and d_dx */
  int in = 0, classes = 0;
  float scale = 1.0f; /* dropout's factor: X contains it, dX is multiplied by it */
  Target target = {};
};

/* Computes the layer forward and backward. Block: WARPS / SHARERS rows. SHARERS warps share a row.
   Thread: every (32 * SHARERS)-th input of the row, at most VALUES. A row reads 4 bytes per input,
   a block 4 bytes per weight. A row writes 4 bytes per class and per input, or 2 TERMS bytes if it
   writes planes (TERMS is not AS_FLOATS). A row takes 4 * in * classes operations. */
template <int VALUES, int TERMS, int SHARERS>
__global__ void __launch_bounds__(32 * WARPS)
    head_kernel(BatchView batch, Head head, RowResults results) {
  /* Prologue: find this warp's row. Labels are read before pdl_wait(), as no kernel writes them. */
  static_assert(SHARERS == 1 || SHARERS == WARPS, "a warp or a block per row");
  constexpr bool ALONE = SHARERS == 1;
  constexpr int STEP = 32 * SHARERS;
  __shared__ alignas(16) float shared[ALONE ? MAX_CLASSES * 32 * VALUES : WARPS * MAX_CLASSES];
  const int r = (blockIdx.x * WARPS + threadIdx.x / 32) / SHARERS, lane = threadIdx.x % 32;
  const int first = threadIdx.x % STEP; /* first input of this thread */
  const int in = head.in, classes = head.classes;
  const int rows = rows_of_step(batch), all_rows = rows_of_all_ranks(batch);
  const int label = batch.d_labels[dataset_row(batch, min(r, batch.rows - 1))];
  pdl_wait();

  /* Fetch the row's input into registers, and the weights into shared memory or registers. */
  float x[VALUES], partial[MAX_CLASSES] = {};
  int input[VALUES]; /* this thread's inputs. Beyond the last input: index in - 1, and x is 0 */
  const float *row = head.d_x + (size_t)min(r, batch.rows - 1) * in;
  unrolled (v, VALUES) {
    input[v] = min(first + STEP * v, in - 1);
    x[v] = row[input[v]];
  }
  float own[ALONE ? 1 : MAX_CLASSES][VALUES] = {};
  if constexpr (ALONE) {
    load_weights(head.d_w, classes * in, shared);
  } else {
    unrolled (c, MAX_CLASSES)
      unrolled (v, VALUES)
        if (c < classes) own[c][v] = head.d_w[c * in + input[v]];
  }
  const auto weight = [&](int c, int v) { return ALONE ? shared[c * in + input[v]] : own[c][v]; };
  const float bias = head.d_b[min(lane / 2, classes - 1)];
  if (ALONE) __syncthreads();

  /* Multiply forward: the lane's part of every logit, then the sums over all lanes. */
  if (r >= batch.rows) return; /* a whole warp returns, so full-warp shuffles below are safe */
  unrolled (v, VALUES)
    if (first + STEP * v >= in) x[v] = 0.0f;
  unrolled (c, MAX_CLASSES)
    if (c < classes)
      unrolled (v, VALUES) partial[c] += x[v] * weight(c, v);
  const int mine = lane / 2;
  const bool exists = mine < classes, writes = exists && lane % 2 == 0 && first < 32;
  float sum = sum_by_class(partial, lane);
  if constexpr (!ALONE) sum = sum_of_warps(sum, shared);
  const float z = exists ? sum + bias : -INFINITY;

  /* Softmax and cross-entropy. Store the logits and the results. */
  const RowSoftmax softmax = row_softmax(z, lane);
  const float target = head.target.of(mine == label);
  const float wanted = /* with smoothing, the mean of the logits weighted by the target */
      head.target.is_smooth() ? add_classes((exists ? z : 0.0f) * target) : z;
  const size_t at = (size_t)r * classes + mine;
  if (head.d_z && writes) head.d_z[at] = z;
  const uint32_t position = position_of(batch, r);
  if (r < rows && writes && mine == label && results.d_loss)
    results.d_loss[position] = logf(softmax.sum) + (softmax.largest - wanted);
  if (r < rows && first == 0 && results.d_correct)
    results.d_correct[position] = softmax.best == label;
  constexpr bool PLANES = TERMS != AS_FLOATS;
  if (!PLANES && !head.d_dx) return;

  /* Multiply backward: the gradient of the logits, then the gradient of the input. */
  const float p = expf(z - softmax.largest) / softmax.sum;
  const float dz = exists && r < rows ? (p - target) / all_rows : 0.0f;
  if constexpr (PLANES) {
    if (writes) store_term<TERMS>(head.dz, r, mine, dz, scale_of(head.dz));
  } else {
    if (writes) head.d_dz[at] = dz;
  }
  float dx[VALUES] = {};
  unrolled (c, MAX_CLASSES) {
    if (c >= classes) continue; /* the same branch for all lanes */
    const float of_class = __shfl_sync(FULL_WARP, dz, 2 * c);
    unrolled (v, VALUES) dx[v] += of_class * weight(c, v);
  }

  /* Epilogue: multiply by the previous layer's activation slope and by its dropout factor. */
  const float scale = PLANES ? scale_of(head.dx) : 1.0f;
  unrolled (v, VALUES) {
    if (first + STEP * v >= in) continue;
    const float masked = times_slope(activation_slope(x[v], head.scale), dx[v] * head.scale);
    if constexpr (PLANES)
      store_term<TERMS>(head.dx, r, input[v], masked, scale);
    else
      head.d_dx[(size_t)r * in + input[v]] = masked;
  }
}

/* A form of the kernel, the most inputs and rows that it takes, and the rows of a block. */
struct Form {
  int inputs, rows, rows_per_block;
  void (*kernel)(BatchView, Head, RowResults);
};

/* With a warp per row, WARPS rows share the weights in shared memory. With a block per row, four
   times as many threads load a row, which is faster if there are few rows of many inputs. It is
   also the only form beyond 512 inputs, whose weights would need more than 48 KB of shared memory.
 */
template <int TERMS>
cudaError_t launch(const BatchView &batch, Head head, const RowResults &results,
                   cudaStream_t stream) {
  static const Form forms[] = {{128, INT_MAX, WARPS, head_kernel<4, TERMS, 1>},
                               {512, 512, 1, head_kernel<4, TERMS, WARPS>},
                               {256, INT_MAX, WARPS, head_kernel<8, TERMS, 1>},
                               {512, INT_MAX, WARPS, head_kernel<16, TERMS, 1>},
                               {MAX_INPUTS, INT_MAX, 1, head_kernel<8, TERMS, WARPS>}};
  const Form *form = forms; /* the first that takes the batch */
  while (head.in > form->inputs || batch.rows > form->rows) form++;
  head.target = target_of(batch, head.classes);
  return launch_pdl(form->kernel, blocks_for(batch.rows, form->rows_per_block), 32 * WARPS, stream,
                    batch, head, results);
}

} // namespace

int head_takes(int in, int classes) {
  return in >= 1 && in <= MAX_INPUTS && classes >= 1 && classes <= MAX_CLASSES;
}

cudaError_t launch_head(BatchView batch, const float *d_x, const float *d_w, const float *d_b,
                        float *d_z, float *d_dz, float *d_dx, int in, int classes, Dropout dropped,
                        RowResults results, cudaStream_t stream) {
  REQUIRE(valid_batch(batch) && given(d_x, d_w, d_b) && !d_dz == !d_dx && head_takes(in, classes) &&
          valid_dropout(dropped));
  const Head head = {d_x, d_w, d_b, d_z, d_dz, d_dx, {}, {}, in, classes, dropout_scale(dropped)};
  return launch<AS_FLOATS>(batch, head, results, stream);
}

cudaError_t launch_wide_head(BatchView batch, const float *d_x, const float *d_w, const float *d_b,
                             Planes dz, Planes dx, RowResults results, cudaStream_t stream) {
  REQUIRE(valid_batch(batch) && given(d_x, d_w, d_b) && valid_fp16_terms(dx.terms) &&
          valid_planes(dx, dx.terms) && valid_planes(dz, dx.terms) && dx.rows == batch.rows &&
          dz.rows == batch.rows && head_takes(dx.columns, dz.columns));
  Head head = {d_x, d_w, d_b};
  head.dz = terms_of(dz), head.dx = terms_of(dx), head.in = dx.columns, head.classes = dz.columns;
  return (dx.terms == 2 ? launch<2> : launch<1>)(batch, head, results, stream);
}
