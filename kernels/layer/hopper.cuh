/* Instructions of compute capability 9.0 that CUDA C++ has no function for, one function each. They
   serve clusters of blocks that access each other's shared memory, the copy engine (TMA), barriers
   that count copied bytes (mbarrier), and tensor cores that read shared memory (wgmma). NVIDIA's
   PTX ISA 8.0 describes them. They need code for sm_90a.

   The copy engine copies boxes of a row-major 16-bit matrix, and writes zeros outside the matrix. A
   box consists of patches of 64 x 32 or 32 x 64 values. One thread starts a copy and names the
   mbarrier that counts its bytes. The threads that multiply wait for that mbarrier. After they have
   read the copy, they arrive at a second mbarrier. In a patch the 16-byte words of a row are
   swizzled, so that lanes read from different banks. */
#ifndef HOPPER_CUH
#define HOPPER_CUH

#include <cuda.h>
#include <stdint.h>

#include "layer/planes.cuh"

/* ---- clusters ------------------------------------------------------------------------------- */

/* Returns this block's number in its cluster. */
__device__ inline int cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return (int)rank;
}

/* Waits for all threads of the cluster. */
__device__ inline void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;" ::: "memory");
}

/* Waits for all threads of the cluster, and makes their earlier writes visible. */
__device__ inline void cluster_fence() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

/* Returns the address of the same place as `shared`, but in block `rank` of the cluster. */
__device__ inline uint32_t address_in(uint32_t shared, int rank) {
  uint32_t address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared), "r"(rank));
  return address;
}

__device__ inline float4 load_cluster(uint32_t address) {
  float4 v;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

/* ---- mbarrier ------------------------------------------------------------------------------- */

/* Prepares a barrier. Its phases are numbered 0, 1, 0, 1, ... A phase ends when `arrivals` threads
   have arrived and all expected bytes have been copied. */
__device__ inline void barrier_init(uint64_t *barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals));
}

/* Shows new barriers to the copy engine. Call it between barrier_init() and __syncthreads(). */
__device__ inline void barriers_are_ready() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void barrier_arrive(uint64_t *barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}

/* Arrives at the barrier of block `rank` of the cluster. */
__device__ inline void barrier_arrive_in(uint64_t *barrier, int rank) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(
                   address_in(shared_address(barrier), rank))
               : "memory");
}

/* Arrives at the barrier. The phase cannot end before `bytes` more bytes have been copied. */
__device__ inline void barrier_expect(uint64_t *barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}

/* Waits for the end of phase `parity`. In a new barrier, phase 1 counts as ended. */
__device__ inline void barrier_wait(uint64_t *barrier, uint32_t parity) {
  uint32_t done;
  do {
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
  } while (!done);
}

/* ---- the copy engine ------------------------------------------------------------------------ */

/* A row-major matrix of bf16 or fp16, one plane per term. Rows are aligned to 16 bytes. */
struct MatrixPlanes {
  const void *d;
  int terms, rows, columns; /* columns: without padding */
  size_t pitch, plane;      /* distances between rows and between planes, in values */
};

/* Describes `of` to the copy engine. A box is (terms, high, wide) values; `wide` is 32 or 64. */
static inline cudaError_t describe_planes(const MatrixPlanes &of, int high, int wide, int terms,
                                          CUtensorMap *map) {
  static const auto encode = [] {
    void *function = nullptr;
    cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                     &result);
#else
    cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &result);
#endif
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  if (!encode) return launched(cudaErrorNotSupported);
  const cuuint64_t sizes[] = {(cuuint64_t)of.columns, (cuuint64_t)of.rows, (cuuint64_t)of.terms};
  const cuuint64_t strides[] = {of.pitch * sizeof(uint16_t), of.plane * sizeof(uint16_t)};
  const cuuint32_t box[] = {(cuuint32_t)wide, (cuuint32_t)high, (cuuint32_t)terms};
  const cuuint32_t each[] = {1, 1, 1};
  const CUresult status =
      encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, const_cast<void *>(of.d), sizes, strides,
             box, each, CU_TENSOR_MAP_INTERLEAVE_NONE,
             wide == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return status == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

/* Fetches the description of a matrix early. `map` must be a __grid_constant__ parameter. */
__device__ inline void prefetch_map(const CUtensorMap *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* Lets the copy engine read what previous kernels wrote. */
__device__ inline void writes_are_ready_to_copy() {
  asm volatile("fence.proxy.async;" ::: "memory");
}

/* Starts to copy the box at (plane, row, column) to shared memory that is aligned to 1024 bytes. */
__device__ inline void copy_box(void *shared, const CUtensorMap *map, int plane, int row,
                                int column, uint64_t *barrier) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
               "[%1, {%3, %4, %5}], [%2];" ::"r"(shared_address(shared)),
               "l"(map), "r"(shared_address(barrier)), "r"(column), "r"(row), "r"(plane)
               : "memory");
}

/* Starts to copy a box to the same place in two blocks. Each block's `barrier` counts its bytes. */
__device__ inline void copy_box_to_both(void *shared, const CUtensorMap *map, int plane, int row,
                                        int column, uint64_t *barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(shared_address(shared)),
      "l"(map), "r"(shared_address(barrier)), "r"(column), "r"(row), "r"(plane), "h"((uint16_t)3)
      : "memory");
}

/* Lets the copy engine and wgmma see earlier writes to shared memory. */
__device__ inline void shared_is_written() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Starts to copy to the place of `to` in block `rank`. That block's `barrier` counts the bytes. */
__device__ inline void copy_to_block(const void *to, const void *from, int bytes, uint64_t *barrier,
                                     int rank) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], "
               "%2, [%3];" ::"r"(address_in(shared_address(to), rank)),
               "r"(shared_address(from)), "r"(bytes), "r"(address_in(shared_address(barrier), rank))
               : "memory");
}

/* Starts to copy `bytes` (a multiple of 16) from global to shared memory. `barrier` counts them. */
__device__ inline void copy_bulk(const void *to, const void *from, int bytes, uint64_t *barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
               "[%3];" ::"r"(shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}

/* Starts to copy from global memory to the same place in all 16 blocks of the cluster. */
__device__ inline void copy_to_all(const void *to, const void *from, int bytes, uint64_t *barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1], %2, [%3], %4;" ::"r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier)), "h"((uint16_t)0xffff)
      : "memory");
}

/* ---- tensor cores --------------------------------------------------------------------------- */

/* A patch has SIDE values along m or n, and 32 or 64 (DEPTH) along k. If ALONG_K, a row has all k
   of one m or n; if ACROSS_K, it has all m or n of one k. */
constexpr int SIDE = 64;

/* Returns wgmma's descriptor of an operand. The operand consists of matrices of 8 rows x 16 bytes,
   `leading` bytes apart in one direction and `stride` bytes apart in the other direction. */
__device__ inline uint64_t operand(uint32_t shared, int leading, int stride, uint64_t swizzle = 0) {
  constexpr uint32_t ADDRESSES = 1 << 18; /* higher address bits name the block */
  return (uint64_t)(shared % ADDRESSES >> 4) | (uint64_t)(leading / 16) << 16 |
         (uint64_t)(stride / 16) << 32 | swizzle << 62;
}

/* Returns the descriptor of a patch's first 16 k. If ACROSS_K, patches are NEXT_64 bytes apart. */
template <Major MAJOR, int NEXT_64, int DEPTH>
__device__ inline uint64_t operand_at(uint32_t shared) {
  static_assert(DEPTH == 32 || DEPTH == 64, "rows of 64 or 128 bytes");
  constexpr int ROW_BYTES = 2 * (MAJOR == ALONG_K ? DEPTH : SIDE);
  return operand(shared, NEXT_64, 8 * ROW_BYTES, ROW_BYTES == 128 ? 1 : 2);
}

/* Add this to a descriptor to move on by 16 k, which is 32 bytes (ALONG_K) or 16 rows of 128 bytes
   (ACROSS_K). Descriptors count in units of 16 bytes. */
template <Major MAJOR> constexpr int NEXT_16_K = (MAJOR == ALONG_K ? 32 : 16 * 128) / 16;

/* Call this before multiply_*(). Do not use the accumulators from here to wait_for_groups(). */
__device__ inline void start_multiplying() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void close_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Waits until at most the GROUPS newest groups of multiplications are unfinished. */
template <int GROUPS> __device__ inline void wait_for_groups() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(GROUPS) : "memory");
}

enum Number { BF16, FP16 };

/* Operands for asm: NAMES_n are n placeholders, SUMS_n(i) are n accumulators from d[i] on. */
#define NAMES_10(tens)                                                                             \
  "%" #tens "0, %" #tens "1, %" #tens "2, %" #tens "3, %" #tens "4, "                              \
  "%" #tens "5, %" #tens "6, %" #tens "7, %" #tens "8, %" #tens "9, "
#define NAMES_64                                                                                   \
  NAMES_10() NAMES_10(1) NAMES_10(2) NAMES_10(3) NAMES_10(4) NAMES_10(5) "%60, %61, %62, %63"
#define NAMES_128                                                                                  \
  NAMES_64 ", %64, %65, %66, %67, %68, %69, " NAMES_10(7) NAMES_10(8) NAMES_10(9) NAMES_10(10)     \
      NAMES_10(11) "%120, %121, %122, %123, %124, %125, %126, %127"
#define SUMS_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SUMS_16(i) SUMS_4(i), SUMS_4(i + 4), SUMS_4(i + 8), SUMS_4(i + 12)
#define SUMS_64(i) SUMS_16(i), SUMS_16(i + 16), SUMS_16(i + 32), SUMS_16(i + 48)

/* A warpgroup computes d (64, 128) += A B over 16 k. d starts at element FIRST of its array. In
   lane 4 g + t of warp w, d[4 c + 2 r + e] has row 16 w + g + 8 r and column 8 c + 2 t + e. */
#define MULTIPLY_128(TYPE)                                                                         \
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE " {" NAMES_64          \
               "}, %64, %65, 1, 1, 1, %66, %67;"                                                   \
               : SUMS_64(FIRST)                                                                    \
               : "l"(a), "l"(b), "n"((int)A_MAJOR), "n"((int)B_MAJOR))
template <Number NUMBER, Major A_MAJOR, Major B_MAJOR, int FIRST = 0, int COUNT>
__device__ inline void multiply_128(float (&d)[COUNT], uint64_t a, uint64_t b) {
  static_assert(FIRST + 64 <= COUNT, "64 of them");
  if constexpr (NUMBER == FP16)
    MULTIPLY_128("f16");
  else
    MULTIPLY_128("bf16");
}

/* A warpgroup computes d (64, 256) += A B over 16 k. d is laid out as in multiply_128(). */
#define MULTIPLY_256(TYPE)                                                                         \
  asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32." TYPE "." TYPE " {" NAMES_128         \
               "}, %128, %129, 1, 1, 1, %130, %131;"                                               \
               : SUMS_64(0), SUMS_64(64)                                                           \
               : "l"(a), "l"(b), "n"((int)A_MAJOR), "n"((int)B_MAJOR))
template <Number NUMBER, Major A_MAJOR, Major B_MAJOR>
__device__ inline void multiply_256(float (&d)[128], uint64_t a, uint64_t b) {
  if constexpr (NUMBER == FP16)
    MULTIPLY_256("f16");
  else
    MULTIPLY_256("bf16");
}

/* d (64, N) = A B, or d += A B if `adds`. A (64, 16) is in registers, as for mma.sync. */
#define SUMS_12 SUMS_4(0), SUMS_4(4), SUMS_4(8)
#define SUMS_20 SUMS_16(0), SUMS_4(16)
#define MULTIPLY_REGISTERS(N, B_MAJOR, SUMS, NAMES, A, B, ADDS)                                    \
  __device__ inline void multiply_##N(float(&d)[N / 2], const uint32_t(&a)[4], uint64_t b,         \
                                      bool adds) {                                                 \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ADDS ", 0;\n"                                 \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.f16.f16 {" NAMES_10() NAMES       \
                 "}, {" A "}, " B ", p, 1, 1, " B_MAJOR ";\n}"                                     \
                 : SUMS                                                                            \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)adds));            \
  }
#define NAMES_6 "%10, %11, %12, %13, %14, %15"
MULTIPLY_REGISTERS(24, "1", SUMS_12, "%10, %11", "%12, %13, %14, %15", "%16", "%17")
MULTIPLY_REGISTERS(32, "0", SUMS_16(0), NAMES_6, "%16, %17, %18, %19", "%20", "%21")
MULTIPLY_REGISTERS(40, "1", SUMS_20, NAMES_6 ", %16, %17, %18, %19", "%20, %21, %22, %23", "%24",
                   "%25")

/* ---- registers ------------------------------------------------------------------------------ */

/* keep_registers: a warpgroup gives up registers, until each thread has only COUNT.
   take_registers: a warpgroup gets registers, until each thread has COUNT. */
template <int COUNT> __device__ inline void keep_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT> __device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

#endif
