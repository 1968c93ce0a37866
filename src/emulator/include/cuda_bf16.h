/* bf16 for the emulator: 16 bits, the upper half of a float. */
#pragma once

#include <stdint.h>

struct __nv_bfloat16 {
  uint16_t bits;
  operator float() const {
    const uint32_t upper = (uint32_t)bits << 16;
    float value;
    __builtin_memcpy(&value, &upper, sizeof value);
    return value;
  }
};
