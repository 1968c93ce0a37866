/* Asynchronous copies of compute capability 8.0 (cp.async), from global to shared memory without
   registers on the way. */
#ifndef COPIES_CUH
#define COPIES_CUH

#include <stdint.h>

/* Copies the first `bytes` of 16, which lie on 16 bytes; the rest are zeros. With none, nothing is
   read. to: an address in shared memory. */
__device__ inline void copy_16_bytes(uint32_t to, const void *from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}

/* The same of 4 bytes. */
__device__ inline void copy_4_bytes(uint32_t to, const void *from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}

/* Makes a group of this thread's copies since the last one. */
__device__ inline void close_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most GROUPS of this thread's groups are in flight. */
template <int GROUPS> __device__ void await_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
}

#endif
