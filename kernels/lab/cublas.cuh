/* Calls cuBLAS, to which several ladders are compared. */
#pragma once

#include <cublas_v2.h>

#include "lab/lab.cuh"

/* Calls function(handle). The handle is on call->stream; the first call creates it. */
template <class Function> cudaError_t lab_cublas(const LabCall *call, Function function) {
  static cublasHandle_t handle = nullptr;
  if (!handle && cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS)
    return cudaErrorInitializationError;
  return cublasSetStream(handle, call->stream) == CUBLAS_STATUS_SUCCESS &&
                 function(handle) == CUBLAS_STATUS_SUCCESS
             ? cudaGetLastError()
             : cudaErrorUnknown;
}
