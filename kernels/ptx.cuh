/* Instructions that CUDA C++ has no function for. src/emulator/ptx.h has versions for the CPU. */
#ifndef PTX_CUH
#define PTX_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

/* Writes 16 bytes in one access, to global memory. */
__device__ inline void store_b128(void *to, uint4 packet) {
  asm volatile("{\n\t.reg .b128 q;\n\t.reg .b64 lo, hi;\n\t"
               "mov.b64 lo, {%1, %2};\n\tmov.b64 hi, {%3, %4};\n\tmov.b128 q, {lo, hi};\n\t"
               "st.relaxed.gpu.global.b128 [%0], q;\n\t}" ::"l"(to),
               "r"(packet.x), "r"(packet.y), "r"(packet.z), "r"(packet.w)
               : "memory");
}

/* Reads 16 bytes from global memory, in one access if the caller uses all four values. */
__device__ inline uint4 load_b128(const void *at) {
  uint4 packet;
  asm volatile("{\n\t.reg .b128 q;\n\t.reg .b64 lo, hi;\n\t"
               "ld.relaxed.gpu.global.b128 q, [%4];\n\tmov.b128 {lo, hi}, q;\n\t"
               "mov.b64 {%0, %1}, lo;\n\tmov.b64 {%2, %3}, hi;\n\t}"
               : "=r"(packet.x), "=r"(packet.y), "=r"(packet.z), "=r"(packet.w)
               : "l"(at)
               : "memory");
  return packet;
}

/* Writes 8 bytes in one access, to global memory. */
__device__ inline void store_b64(void *to, uint32_t x, uint32_t y) {
  const uint64_t both = (uint64_t)y << 32 | x;
  asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(to), "l"(both) : "memory");
}

/* Waits at barrier BARRIER (1 to 15) of the block for `threads` threads (whole warps) to arrive. */
template <auto BARRIER> __device__ inline void wait(int threads) {
  __syncwarp();
  asm volatile("bar.sync %0, %1;" ::"n"((int)BARRIER), "r"(threads) : "memory");
}

/* Arrives at barrier BARRIER of the block without waiting. */
template <auto BARRIER> __device__ inline void arrive(int threads) {
  __syncwarp();
  asm volatile("bar.arrive %0, %1;" ::"n"((int)BARRIER), "r"(threads) : "memory");
}

/* Rounds two floats to bf16, the first into the lower half. */
__device__ inline uint32_t pack_bf16(float first, float second) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
  return packed;
}

/* Rounds two floats to fp16, the first into the lower half. Overflow gives infinity. */
__device__ inline uint32_t pack_fp16(float first, float second) {
  const __half2 pair = __floats2half2_rn(first, second);
  return *reinterpret_cast<const uint32_t *>(&pair);
}

/* Converts a packed pair of halves to two floats. */
__device__ inline float2 unpack_fp16(uint32_t packed) {
  return __half22float2(*reinterpret_cast<const __half2 *>(&packed));
}

/* One warp computes d (16 x 8) += a (16 x 16) b (16 x 8); a and b are bf16 or fp16. Lane 4 g + t
   holds columns 2 t and 2 t + 1 of d: row g in d[0] and d[1], row g + 8 in d[2] and d[3]. */
#define MMA_M16N8K16(NAME, TYPE)                                                                   \
  __device__ inline void NAME(float(&d)[4], const uint32_t(&a)[4], uint32_t b0, uint32_t b1) {     \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 {%0, %1, %2, %3}, "           \
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                            \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                           \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                           \
  }
MMA_M16N8K16(mma_m16n8k16, "bf16")
MMA_M16N8K16(mma_m16n8k16_fp16, "f16")

/* One warp computes d (16 x 8) += a (16 x 32) b (32 x 8); a and b are bytes, d is as in
   mma_m16n8k16. Lane 4 g + t has row g of a in a[0] and a[2], row g + 8 in a[1] and a[3], column g
   of b in b0 and b1. Each pair has bytes 4 t to 4 t + 3, then 16 + 4 t to 19 + 4 t. */
__device__ inline void mma_m16n8k32(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Loads four 8 x 8 matrices. Lane l gives the address of row l % 8 of matrix l / 8. */
#define LDMATRIX_X4(NAME, TRANS)                                                                   \
  __device__ inline void NAME(uint32_t(&out)[4], uint32_t row) {                                   \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" TRANS ".shared.b16 {%0, %1, %2, %3}, [%4];"       \
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])                          \
                 : "r"(row)                                                                        \
                 : "memory");                                                                      \
  }                                                                                                \
  __device__ inline void NAME(uint32_t(&out)[4], const __nv_bfloat16 *row) {                       \
    NAME(out, (uint32_t)__cvta_generic_to_shared(row));                                            \
  }
LDMATRIX_X4(ldmatrix_x4, "")
LDMATRIX_X4(ldmatrix_x4_trans, ".trans")

/* Transposes an 8 x 8 matrix of halves. Lane 4 g + t holds numbers 2 t and 2 t + 1 of row g. */
__device__ inline uint32_t transpose_8x8(uint32_t matrix) {
  uint32_t transposed;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(matrix));
  return transposed;
}

/* Returns the square root of x, correct to about 22 bits. */
__device__ inline float sqrt_approximate(float x) {
  float root;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
  return root;
}

/* Returns the shared-memory address of p, in the form that PTX instructions take. */
__device__ inline uint32_t shared_address(const void *p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}

/* ---- copies from global to shared memory in the background (cp.async) --------------------- */

/* Copies the first `bytes` (0 to 16) of 16 bytes, and sets the others to 0. `to` is aligned. */
__device__ inline void copy_16_bytes(uint32_t to, const void *from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}

/* Copies the first `bytes` (0 to 4) of 4 bytes, and sets the others to 0. `to` is aligned. */
__device__ inline void copy_4_bytes(uint32_t to, const void *from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}

/* Makes one group of all copies that this thread began since its previous group. */
__device__ inline void close_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits for all of this thread's groups of copies except the newest GROUPS groups. */
template <int GROUPS> __device__ void await_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
}

#endif
