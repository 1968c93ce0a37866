/* Types of values in CUDA's libraries, which the emulator lacks. */
#pragma once

typedef enum { CUDA_R_32F, CUDA_R_16BF } cudaDataType;
