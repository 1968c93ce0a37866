/* bf16 for the emulator: 16 bits, which only functions of ptx.h look into. */
#ifndef EMULATOR_CUDA_BF16_H
#define EMULATOR_CUDA_BF16_H

#include <stdint.h>

struct __nv_bfloat16 {
  uint16_t bits;
};

#endif
