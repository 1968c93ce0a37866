/* The parts that the rungs of matmul.cu share: C (m, n) = A (m, k) B (k, n), all row-major. A block
   computes a tile BM x BN of C from slabs of A (BM x BK) and of B (BK x BN) in shared memory. */
#pragma once

#include "bf16_split.cuh"
#include "lab/lab.cuh"
#include "ptx.cuh"

/* C (m, n) = A (m, k) B (k, n). In is float or __nv_bfloat16. */
template <class In> struct MatricesOf {
  const In *a, *b; /* each matrix has fewer than 2^32 elements */
  float *c;
  int m, n, k; /* up to 2^30, so indices fit an int even in a tile that ends beyond C */
};

using Matrices = MatricesOf<float>;
/* k and n are multiples of 8, so that rows are aligned to 16 bytes. */
using Bf16Matrices = MatricesOf<__nv_bfloat16>;

template <class In = float> MatricesOf<In> matrices_of(const LabCall *call) {
  const LabSize &size = call->size;
  return {(const In *)call->d_in[0], (const In *)call->d_in[1], (float *)call->d_out,
          (int)size.dim[0],          (int)size.dim[1],          (int)size.dim[2]};
}

/* The first row and column of a tile. Neighbouring blocks have neighbouring tiles. */
using Corner = LabCorner<int>;

/* Loads COUNT floats from shared memory, in groups of four that start `gap` floats apart. */
template <int COUNT> __device__ void load_fragment(float (&to)[COUNT], const float *from, int gap) {
  unrolled_by (q, COUNT, 4) {
    const auto v = *reinterpret_cast<const LabWord<4> *>(from + q / 4 * gap);
    unrolled (i, 4) to[q + i] = v.value[i];
  }
}

/* acc (TM, TN) += a (TM) b (TN). The register file has two banks, one for even and one for odd
   register numbers (Huerta et al., Analyzing Modern NVIDIA GPU Cores, 2025). The loop goes down one
   column and up the next. In each column it takes the even rows, then the odd rows. Of the orders
   tried, this order has the fewest bank conflicts in SASS. */
template <int TM, int TN>
__device__ void add_outer_product(float (&acc)[TM][TN], const float (&a)[TM],
                                  const float (&b)[TN]) {
  constexpr int EVEN = (TM + 1) / 2;
  unrolled (j, TN)
    unrolled (step, TM) {
      const int up = j % 2 ? TM - 1 - step : step;
      const int i = up < EVEN ? 2 * up : 2 * (up - EVEN) + 1;
      acc[i][j] = fmaf(a[i], b[j], acc[i][j]);
    }
}

/* Writes the TM x TN elements of a thread, in squares of at most 4 x 4, which start row_gap rows
   and column_gap columns apart. Writes single floats, so that the same code serves every n. */
template <bool WHOLE = false, int TM, int TN>
__device__ void store_tile(const Matrices &p, const float (&acc)[TM][TN], int row, int column,
                           int row_gap, int column_gap) {
  unrolled (i, TM)
    unrolled (j, TN) {
      const int r = row + i / 4 * row_gap + i % 4, s = column + j / 4 * column_gap + j % 4;
      if (WHOLE || (r < p.m && s < p.n)) p.c[(int64_t)r * p.n + s] = acc[i][j];
    }
}

/* Writes the part of v that is within C (m, n) to (row, column). WIDTH divides `column`. */
template <int WIDTH>
__device__ void store_word(float *c, int m, int n, int row, int column, LabWord<WIDTH> v) {
  if (row >= m || column >= n) return;
  float *to = c + (int64_t)row * n + column;
  if (n % WIDTH == 0) /* rows are aligned and end with a whole word */
    *reinterpret_cast<LabWord<WIDTH> *>(to) = v;
  else
    unrolled (i, WIDTH)
      if (column + i < n) to[i] = v.value[i];
}

/* Starts to copy WIDTH floats (1 or 4) from global to shared memory, bypassing registers. If
   `in_bounds` is false, it writes zeros and reads nothing. */
template <int WIDTH> __device__ void copy_async(float *to, const float *from, bool in_bounds) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(to);
  if constexpr (WIDTH == 4)
    copy_16_bytes(at, from, in_bounds ? 16 : 0);
  else
    copy_4_bytes(at, from, in_bounds ? 4 : 0);
}

/* The rungs on tensor cores. The first two (matmul_mma.cu) need compute capability 8.0, the others
   (matmul_hopper.cu) 9.0. The clusters of launch_matmul_hopper have BLOCKS blocks.
   matmul_hopper_refuses() returns why a GPU cannot run the rungs of 9.0, or NULL. */
cudaError_t launch_matmul_tensor_cores(const LabCall *call);
cudaError_t launch_matmul_stages(const LabCall *call);
cudaError_t launch_matmul_tma(const LabCall *call);
cudaError_t launch_matmul_wgmma(const LabCall *call);
template <int BLOCKS> cudaError_t launch_matmul_hopper(const LabCall *call);
const char *matmul_hopper_refuses(const LabCall *call);
