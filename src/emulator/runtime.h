/* Calls that device.h and ptx.h make to the emulator. */
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

#ifndef __device__
#define __host__
#define __device__
#endif

struct dim3 {
  unsigned x, y, z;
  __host__ __device__ constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1)
      : x(x_), y(y_), z(z_) {
  }
  __host__ __device__ constexpr uint64_t count() const {
    return (uint64_t)x * y * z;
  }
  constexpr dim3 at(unsigned i) const { /* index of the element with number i */
    return {i % x, i / x % y, i / (x * y)};
  }
};

/* Waits for the lanes of `mask`. All must pass the same `combine`. When all have arrived, `combine`
   is called once with the values of all. If `orders`, each lane then sees the earlier memory writes
   of the others. */
__device__ void emulator_meet(unsigned mask, void *mine,
                              void (*combine)(void **lanes, unsigned mask), bool orders);
/* Reports that a lane whose value a shuffle needs is not there. */
__device__ void emulator_absent(int lane, unsigned mask);
/* Waits for the block's threads and returns the sum of their values. The compiler must not copy the
   call, so that threads that come by two ways meet at the same barrier (g++: -fno-thread-jumps). */
#ifdef __clang__
__attribute__((convergent, noduplicate))
#endif
__device__ int
emulator_barrier(int value);
/* Arrives at a named barrier of `threads` threads. If `waits`, waits for the others. */
__device__ void emulator_arrive(int barrier, int threads, bool waits);
__device__ unsigned emulator_active();
__device__ void emulator_fence();
__device__ void emulator_atomic(const void *at, size_t bytes, void *by);
/* Records an access that the compiler does not report. */
__device__ void emulator_access(const void *at, size_t bytes, bool write, void *by);
__device__ unsigned char *emulator_dynamic();
extern unsigned char emulator_dynamic_shared[]; /* dynamic shared memory of the one running block */
/* Refuses blocks of more than `threads` threads, for __launch_bounds__. */
void emulator_bounds(unsigned threads, unsigned = 0, unsigned = 0);
/* Reports an atomic operation on floats, which the exercise does not allow. */
__device__ void emulator_unordered();
__device__ uint64_t emulator_clock(); /* increases with every call */
/* Allows a kernel `bytes` bytes of dynamic shared memory. */
cudaError_t emulator_allow(const void *kernel, size_t bytes);
/* Returns the address in shared memory, which has its own 32-bit addresses. */
__device__ uint32_t emulator_shared_address(const void *at);
void *emulator_shared_at(uint32_t address);
/* Copies `bytes` bytes and sets the rest of `size`, at most 16, to zeros. The copy ends when a lane
   waits for its group. */
void emulator_copy(void *to, const void *from, int bytes, int size);
void emulator_close_copies();
void emulator_await_copies(int groups);
/* Store and load mail: packets of 16 bytes, or half of one. A test provides these
   (tests/support/schedules.cpp). */
void emulator_store_mail(void *to, const void *packet, size_t bytes);
void emulator_load_mail(const void *at, void *packet);
[[noreturn]] __device__ void emulator_trap();
/* Runs function(copy of the arguments) in every thread, and returns after the last has ended. */
cudaError_t emulator_run(dim3 grid, dim3 block, size_t shared, void (*function)(void *arguments),
                         const void *arguments, size_t bytes, const void *kernel = nullptr);
