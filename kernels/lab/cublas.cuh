/* cuBLAS, with which several ladders are compared. */
#ifndef LAB_CUBLAS_CUH
#define LAB_CUBLAS_CUH

#include <cublas_v2.h>

#include "lab/lab.cuh"

/* Returns the handle of the file that includes this, on call->stream, or NULL. It is made at the
   first call, for the rest of the program. */
static inline cublasHandle_t lab_cublas(const LabCall *call) {
  static cublasHandle_t handle = nullptr;
  if (!handle && cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS) handle = nullptr;
  return handle && cublasSetStream(handle, call->stream) == CUBLAS_STATUS_SUCCESS ? handle
                                                                                  : nullptr;
}

#endif
