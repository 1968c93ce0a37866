/* One product of cuBLAS, by plain loops. */
#pragma once
#include <cuda_runtime_api.h>
typedef struct cublasContext *cublasHandle_t;
typedef enum { CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_NOT_SUPPORTED } cublasStatus_t;
typedef enum { CUBLAS_OP_N, CUBLAS_OP_T } cublasOperation_t;
enum { CUBLAS_PEDANTIC_MATH };
#define cublasCreate(handle) (*(handle) = 0, CUBLAS_STATUS_SUCCESS)
#define cublasDestroy(handle) ((void)(handle), CUBLAS_STATUS_SUCCESS)
#define cublasSetStream(handle, stream) ((void)(handle), (void)(stream), CUBLAS_STATUS_SUCCESS)
#define cublasSetMathMode(handle, mode) ((void)(handle), (void)(mode), CUBLAS_STATUS_SUCCESS)
static inline cublasStatus_t cublasSgemm(cublasHandle_t h, cublasOperation_t ta,
                                         cublasOperation_t tb, int m, int n, int k,
                                         const float *alpha, const float *a, int lda,
                                         const float *b, int ldb, const float *beta, float *c,
                                         int ldc) {
  (void)h;
  for (int j = 0; j < n; j++)
    for (int i = 0; i < m; i++) {
      float sum = 0;
      for (int l = 0; l < k; l++)
        sum += (ta == CUBLAS_OP_N ? a[i + (size_t)l * lda] : a[l + (size_t)i * lda]) *
               (tb == CUBLAS_OP_N ? b[l + (size_t)j * ldb] : b[j + (size_t)l * ldb]);
      float *at = &c[i + (size_t)j * ldc];
      *at = *alpha * sum + (*beta == 0 ? 0 : *beta * *at);
    }
  return CUBLAS_STATUS_SUCCESS;
}
#ifdef __cplusplus /* libraries of the lab's ladders, which are left out */
typedef enum { CUDA_R_32F, CUDA_R_16BF } cudaDataType;
typedef enum { CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32 } cublasComputeType_t;
enum { CUBLAS_GEMM_DEFAULT, CUBLAS_POINTER_MODE_DEVICE };
#define EMULATOR_NO_LIBRARY(name)                                                                  \
  template <class... Given> cublasStatus_t name(Given...) {                                        \
    return CUBLAS_STATUS_NOT_SUPPORTED;                                                            \
  }
EMULATOR_NO_LIBRARY(cublasSaxpy)
EMULATOR_NO_LIBRARY(cublasSdot)
EMULATOR_NO_LIBRARY(cublasSetPointerMode)
EMULATOR_NO_LIBRARY(cublasSgeam)
EMULATOR_NO_LIBRARY(cublasGemmEx)
#endif
