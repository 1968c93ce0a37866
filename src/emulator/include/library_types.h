/* The value types of CUDA's libraries. The emulator lacks the libraries themselves. */
#pragma once

typedef enum { CUDA_R_32F, CUDA_R_16BF } cudaDataType;
