/* cuBLAS in the tests of kernels: the three products of a layer in true float32. Kernels are
   compared with these products as well as with the float64 reference, whose mistakes they might
   share. */
#pragma once

#include "support/kernel_tests.h"

#include <cublas_v2.h>

static cublasHandle_t cublas; /* used by one test at a time */

#define CUBLAS_OK(call) assert_int_equal((call), CUBLAS_STATUS_SUCCESS)

/* Skips the running test if cuBLAS is not installed, or with TEST_QUICK. compute-sanitizer would
   check each access of cuBLAS, too. */
static inline void needs_cublas(void) {
#ifdef WITHOUT_CUBLAS
  skip_because(WITHOUT_CUBLAS);
#endif
  if (quick()) skip_because("TEST_QUICK leaves out the comparison with cuBLAS");
}

/* Calls walk(check) between the creation and the end of a handle. Pedantic math means that cuBLAS
   neither rounds a factor to tf32 nor computes with bf16. */
static inline void with_cublas(void (*walk)(CheckShape *check), CheckShape *check) {
  CUBLAS_OK(cublasCreate(&cublas));
  CUBLAS_OK(cublasSetMathMode(cublas, CUBLAS_PEDANTIC_MATH));
  CUBLAS_OK(cublasSetStream(cublas, stream));
  walk(check);
  CUBLAS_OK(cublasDestroy(cublas));
}

/* Returns op(A) op(B), an array (m, n) whose values are sums of `depth` terms. `op` may transpose.
   In memory, A has a_columns columns and B has b_columns. cuBLAS's matrices are column-major and
   ours row-major, so it is asked for op(B)^T op(A)^T, which it stores as our product. */
static inline double *cublas_product(cublasOperation_t op_a, const float *d_a, int a_columns,
                                     cublasOperation_t op_b, const float *d_b, int b_columns, int m,
                                     int n, int depth) {
  const float one = 1, zero = 0;
  const size_t count = area(m, n);
  float *d_c = poisoned_floats(count);
  CUBLAS_OK(cublasGemmEx(cublas, op_b, op_a, n, m, depth, &one, d_b, CUDA_R_32F, b_columns, d_a,
                         CUDA_R_32F, a_columns, &zero, d_c, CUDA_R_32F, n,
                         CUBLAS_COMPUTE_32F_PEDANTIC, CUBLAS_GEMM_DEFAULT));
  double *product = host_doubles(count);
  reference_to_double(fetch_floats(d_c, count), count, product);
  return product;
}

/* A layer's input, weights and output gradient, and their products by cuBLAS. */
typedef struct {
  Values x, w, dz;     /* (rows, in), (out, in), (rows, out) */
  double *z, *dx, *dw; /* x w^T (rows, out); dz w (rows, in); dz^T x (out, in) */
} Products;

static inline Products cublas_products(Shape s, uint64_t seed) {
  Products p = {.x = random_values(x_count(s), seed),
                .w = random_values(w_count(s), seed + 1),
                .dz = random_values(z_count(s), seed + 2)};
  const cublasOperation_t n = CUBLAS_OP_N, t = CUBLAS_OP_T;
  p.z = cublas_product(n, p.x.d, s.in, t, p.w.d, s.in, s.rows, s.out, s.in);
  p.dx = cublas_product(n, p.dz.d, s.out, n, p.w.d, s.in, s.rows, s.in, s.out);
  p.dw = cublas_product(t, p.dz.d, s.out, n, p.x.d, s.in, s.out, s.in, s.rows);
  return p;
}

/* Checks that a kernel's product is near cuBLAS's. `limit` is what the kernel may be off from the
   exact product of `terms` terms; twice the bound of a float32 sum is added for cuBLAS, because it
   may sum up in any order and add partial sums. Both errors are far below tf32's, 2^-12. */
static inline void assert_as_cublas(const char *what, Shape s, const float *d_out,
                                    const double *product, size_t count, int terms, double limit) {
  assert_near(what, s, d_out, product, count, limit + 2 * bound(terms, GEMM_ROUNDING));
}
