/* As much of CUDA's header as the sources of level epoch use, for the emulator: a test of them
   needs no CUDA Toolkit. The calls are in device.h. */
#ifndef EMULATOR_CUDA_RUNTIME_API_H
#define EMULATOR_CUDA_RUNTIME_API_H

typedef enum { cudaSuccess, cudaErrorInvalidValue, cudaErrorLaunchFailure } cudaError_t;

typedef struct CUstream_st *cudaStream_t;

#endif
