/* Types of values in CUDA's libraries. The emulator has no such library. */
#pragma once

typedef enum { CUDA_R_32F, CUDA_R_16BF } cudaDataType;
