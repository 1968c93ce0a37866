/* The functions of the emulator that device.h and ptx.h call. */
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
  constexpr dim3 at(unsigned i) const { /* returns the index (x, y, z) of element i */
    return {i % x, i / x % y, i / (x * y)};
  }
};

/* Waits for the lanes of `mask`, which must all pass the same `combine`. Once all have arrived,
   `combine` is called once with the lanes' values. If `orders`, each lane then sees the other
   lanes' earlier writes to memory. */
__device__ void emulator_meet(unsigned mask, void *mine,
                              void (*combine)(void **lanes, unsigned mask), bool orders);
/* Reports a shuffle that asks for the value of a lane which does not take part. */
__device__ void emulator_absent(int lane, unsigned mask);
/* Waits for the block's threads and returns the sum of their values. `place` is the barrier's file
   and line, because the compiler may make one call of the calls in two branches. It must not copy
   the call, because each copy would count as another barrier (g++: -fno-thread-jumps). */
#ifdef __clang__
__attribute__((convergent, noduplicate))
#endif
__device__ int
emulator_barrier(int value, const char *place);
/* Arrives at a named barrier of `threads` threads. If `waits`, waits for the other threads. */
__device__ void emulator_arrive(int barrier, int threads, bool waits);
__device__ unsigned emulator_active();
__device__ void emulator_fence();
__device__ void emulator_atomic(const void *at, size_t bytes, void *by);
/* Records an access that the compiler does not report. `by` is the access's address in the code. */
__device__ void emulator_access(const void *at, size_t bytes, bool write, void *by);
__device__ unsigned char *emulator_dynamic();
extern unsigned char emulator_dynamic_shared[]; /* dynamic shared memory of the running block */
/* Implements __launch_bounds__: refuses blocks of more than `threads` threads. */
void emulator_bounds(unsigned threads, unsigned = 0, unsigned = 0);
/* Reports an atomic operation on floats, which an exercise must not use. */
__device__ void emulator_unordered();
__device__ uint64_t emulator_clock(); /* increases with every call */
/* Allows launches of the kernel with up to `bytes` bytes of dynamic shared memory. */
cudaError_t emulator_allow(const void *kernel, size_t bytes);
/* Returns the 32-bit address that PTX uses for `at`, which lies in shared memory. */
__device__ uint32_t emulator_shared_address(const void *at);
void *emulator_shared_at(uint32_t address);
/* Starts an asynchronous copy of `bytes` bytes, padded with zeros to `size` bytes (at most 16).
   emulator_await_copies completes it. */
void emulator_copy(void *to, const void *from, int bytes, int size);
void emulator_close_copies();
void emulator_await_copies(int groups);
/* Store and load packets of 16 or 8 bytes of mail, the messages between blocks
   (kernels/epoch/tiles_mail.cu). Tests define both functions (tests/support/schedules.cpp). */
void emulator_store_mail(void *to, const void *packet, size_t bytes);
void emulator_load_mail(const void *at, void *packet);
[[noreturn]] __device__ void emulator_trap();
/* Runs `function` in every thread with a copy of the arguments. Returns when all have ended. */
cudaError_t emulator_run(dim3 grid, dim3 block, size_t shared, void (*function)(void *arguments),
                         const void *arguments, size_t bytes, const void *kernel = nullptr,
                         cudaStream_t stream = nullptr);
