/* Of CUDA's libraries, which the emulator has none of, the types of values. */
#pragma once

typedef enum { CUDA_R_32F, CUDA_R_16BF } cudaDataType;
