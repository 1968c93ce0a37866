/* cuBLAS beside the ladder of matmul.cu. It is column-major: it is asked for C' = B' A'. */
#include <cublas_v2.h>

#include "lab/matmul_tensor.cuh"

namespace {

/* C in float32, of A and B of that type. */
cudaError_t multiply(const LabCall *call, cudaDataType type, cublasComputeType_t arithmetic) {
  static cublasHandle_t handle = nullptr; /* lives as long as the program */
  if (!handle && cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS)
    return cudaErrorInitializationError;
  const Matrices p = matrices_of(call);
  const float one = 1.0f, zero = 0.0f;
  const bool done = cublasSetMathMode(handle, CUBLAS_DEFAULT_MATH) == CUBLAS_STATUS_SUCCESS &&
                    cublasSetStream(handle, call->stream) == CUBLAS_STATUS_SUCCESS &&
                    cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, p.n, p.m, p.k, &one, p.b, type,
                                 p.n, p.a, type, p.k, &zero, p.c, CUDA_R_32F, p.n, arithmetic,
                                 CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS;
  return done ? cudaGetLastError() : cudaErrorUnknown;
}

} // namespace

cudaError_t launch_matmul_cublas(const LabCall *call) {
  return multiply(call, CUDA_R_32F, CUBLAS_COMPUTE_32F);
}

cudaError_t launch_matmul_cublas_bf16(const LabCall *call) {
  return multiply(call, CUDA_R_16BF, CUBLAS_COMPUTE_32F);
}

cudaError_t launch_matmul_cublas_tf32(const LabCall *call) {
  return multiply(call, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32);
}
