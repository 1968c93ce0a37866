/* Of cooperative groups the block and its tiles of at most a warp. */
#pragma once

#include "emulator/device.h"

namespace cooperative_groups {

struct thread_block {
  EMULATOR_INLINE static void sync() {
    __syncthreads();
  }
  static unsigned thread_rank() {
    return emulated::thread();
  }
  static unsigned size() {
    return (unsigned)blockDim.count();
  }
};
inline thread_block this_thread_block() {
  return {};
}

template <unsigned SIZE> struct thread_block_tile {
  static_assert(SIZE <= 32 && (SIZE & (SIZE - 1)) == 0, "a power of two, at most a warp");
  static unsigned mask() {
    return (0xffffffffu >> (32 - SIZE)) << (emulated::lane() / SIZE * SIZE);
  }
  static unsigned thread_rank() {
    return thread_block::thread_rank() % SIZE;
  }
  static unsigned meta_group_rank() {
    return thread_block::thread_rank() / SIZE;
  }
  static constexpr unsigned size() {
    return SIZE;
  }
  EMULATOR_INLINE static void sync() {
    __syncwarp(mask());
  }
  template <class T> EMULATOR_INLINE static T shfl(T value, int from) {
    return __shfl_sync(mask(), value, from, SIZE);
  }
  template <class T> EMULATOR_INLINE static T shfl_down(T value, int lanes) {
    return __shfl_down_sync(mask(), value, lanes, SIZE);
  }
  template <class T> EMULATOR_INLINE static T shfl_xor(T value, int lanes) {
    return __shfl_xor_sync(mask(), value, lanes, SIZE);
  }
};
template <unsigned SIZE> thread_block_tile<SIZE> tiled_partition(thread_block) {
  return {};
}

#define EMULATOR_JOINS(name, joined)                                                               \
  template <class T> struct name {                                                                 \
    T operator()(T a, T b) const {                                                                 \
      return joined;                                                                               \
    }                                                                                              \
  };
EMULATOR_JOINS(plus, a + b)
EMULATOR_JOINS(greater, a < b ? b : a) /* CUDA's name for the larger of two */
EMULATOR_JOINS(less, b < a ? b : a)
template <unsigned SIZE, class T, class Operation>
EMULATOR_INLINE T reduce(thread_block_tile<SIZE> tile, T value, Operation join) {
  for (int step = SIZE / 2; step > 0; step /= 2) value = join(value, tile.shfl_xor(value, step));
  return value;
}

} // namespace cooperative_groups
