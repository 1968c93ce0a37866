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
  constexpr dim3 at(unsigned i) const { /* the index of the one with this number */
    return {i % x, i / x % y, i / (x * y)};
  }
};

/* Waits for the lanes of `mask`, which must come with the same `combine`; it is called once
   between, with what each brings. orders: what they did to memory before, all see after. */
__device__ void emulator_meet(unsigned mask, void *mine,
                              void (*combine)(void **lanes, unsigned mask), bool orders);
/* Says that a lane of a shuffle is not there. */
__device__ void emulator_absent(int lane, unsigned mask);
/* Waits for the block; the sum of what its threads bring. It stays at one place of the source:
   threads that come by two ways are at the same barrier (g++: -fno-thread-jumps). */
#ifdef __clang__
__attribute__((convergent, noduplicate))
#endif
__device__ int
emulator_barrier(int value);
/* Arrives at a named barrier of `threads` threads, and waits for the others or goes on. */
__device__ void emulator_arrive(int barrier, int threads, bool waits);
__device__ unsigned emulator_active();
__device__ void emulator_fence();
__device__ void emulator_atomic(const void *at, size_t bytes, void *by);
/* An access that is not the compiler's. */
__device__ void emulator_access(const void *at, size_t bytes, bool write, void *by);
__device__ unsigned char *emulator_dynamic();
extern unsigned char emulator_dynamic_shared[]; /* of the one block that runs */
/* The block may have at most so many threads: of __launch_bounds__. */
void emulator_bounds(unsigned threads, unsigned = 0, unsigned = 0);
/* An atomic operation on floats, which the exercise does not allow. */
__device__ void emulator_unordered();
__device__ uint64_t emulator_clock(); /* more than the last time */
/* A kernel may have so many bytes of dynamic shared memory. */
cudaError_t emulator_allow(const void *kernel, size_t bytes);
/* Shared memory has addresses of 32 bits of its own. */
__device__ uint32_t emulator_shared_address(const void *at);
void *emulator_shared_at(uint32_t address);
/* Copies `size` bytes, at most 16, when somebody waits for their group; zeros from `bytes` on. */
void emulator_copy(void *to, const void *from, int bytes, int size);
void emulator_close_copies();
void emulator_await_copies(int groups);
/* Packets of 16 bytes of mail, and halves, which a test has: tests/support/schedules.cpp. */
void emulator_store_mail(void *to, const void *packet, size_t bytes);
void emulator_load_mail(const void *at, void *packet);
[[noreturn]] __device__ void emulator_trap();
/* Runs function(copy of the arguments) in every thread, to the end. */
cudaError_t emulator_run(dim3 grid, dim3 block, size_t shared, void (*function)(void *arguments),
                         const void *arguments, size_t bytes, const void *kernel = nullptr);
