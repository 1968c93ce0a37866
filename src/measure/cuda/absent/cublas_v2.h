/* Replaces cuBLAS's header if cuBLAS is not installed. Every function fails. */
/* The Makefile sets WITHOUT_CUBLAS to a text that says how to install cuBLAS. */
#pragma once
#include <library_types.h>

typedef struct cublasContext *cublasHandle_t;
typedef enum { CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_NOT_INITIALIZED } cublasStatus_t;
typedef enum { CUBLAS_OP_N, CUBLAS_OP_T } cublasOperation_t;
typedef enum { CUBLAS_DEFAULT_MATH, CUBLAS_PEDANTIC_MATH, CUBLAS_TF32_TENSOR_OP_MATH } cublasMath_t;
typedef enum { CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_PEDANTIC } cublasComputeType_t;
enum { CUBLAS_GEMM_DEFAULT, CUBLAS_POINTER_MODE_DEVICE };

static inline cublasStatus_t cublas_absent(const void *handle, ...) {
  (void)handle;
  return CUBLAS_STATUS_NOT_INITIALIZED;
}
#define cublasGetStatusString(status) ((void)(status), WITHOUT_CUBLAS)
#define cublasCreate cublas_absent
#define cublasDestroy cublas_absent
#define cublasGemmEx cublas_absent
#define cublasSdot cublas_absent
#define cublasSetMathMode cublas_absent
#define cublasSetPointerMode cublas_absent
#define cublasSetStream cublas_absent
#define cublasSetWorkspace cublas_absent
#define cublasSgeam cublas_absent
#define cublasSgemm cublas_absent
