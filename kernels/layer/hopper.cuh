/* Instructions of compute capability 9.0 that CUDA C++ has no word for, each as one small function:
   clusters of blocks that reach each other's shared memory, the copy engine of a multiprocessor
   (TMA), barriers that count its bytes (mbarrier), and tensor cores that read shared memory by
   themselves (wgmma). Names and rules are those of NVIDIA's PTX ISA 8.0. They need code for
   sm_90a.

   How they work together. A patch is a piece of a row-major bf16 matrix, 64 x 32 or 32 x 64 values.
   One thread asks the copy engine for boxes of patches, and for each says which mbarrier is to
   count its bytes; the engine replaces values outside the matrix by 0. Whoever multiplies waits for
   that barrier, and tells another one when the patch may be overwritten. In a patch, the 16-byte
   words of a row change places, by exclusive or with bits of the row's number (a "swizzle"), so
   that neither rows nor columns meet in a bank; copy engine and tensor cores both know of it. */
#ifndef LAYER_HOPPER_CUH
#define LAYER_HOPPER_CUH

#include <cuda.h>
#include <stdint.h>

__device__ inline uint32_t shared_address(const void *p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}

/* ---- clusters ------------------------------------------------------------------------------- */

/* The number of this block in its cluster. */
__device__ inline int cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return (int)rank;
}

/* Waits for all threads of the cluster. */
__device__ inline void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.relaxed;\n"
               "barrier.cluster.wait;" ::
                   : "memory");
}

/* Likewise; what they wrote before can be seen after. */
__device__ inline void cluster_fence() {
  asm volatile("barrier.cluster.arrive.release;\n"
               "barrier.cluster.wait.acquire;" ::
                   : "memory");
}

/* Where block `rank` of the cluster has what is at `shared` in this one. */
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

/* A barrier's phase ends when `arrivals` threads have arrived and all bytes that were expected have
   come. Phases count 0, 1, 0, 1, ... */
__device__ inline void barrier_init(uint64_t *barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals));
}

/* After barrier_init, before a __syncthreads(): the copy engine sees the barriers. */
__device__ inline void barriers_are_ready() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void barrier_arrive(uint64_t *barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}

/* At the barrier of block `rank` of the cluster. */
__device__ inline void barrier_arrive_in(uint64_t *barrier, int rank) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(
                   address_in(shared_address(barrier), rank))
               : "memory");
}

/* Arrives, and lets the phase wait for `bytes` from the copy engine. */
__device__ inline void barrier_expect(uint64_t *barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}

/* Waits for the end of the phase `parity`; that of the phase before counts as ended from the
   start. */
__device__ inline void barrier_wait(uint64_t *barrier, uint32_t parity) {
  uint32_t done;
  do {
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n"
                 "}"
                 : "=r"(done)
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
  } while (!done);
}

/* ---- the copy engine ------------------------------------------------------------------------ */

/* Fetches the description of a matrix, which is a __grid_constant__ parameter. */
__device__ inline void prefetch_map(const CUtensorMap *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* What kernels before this one have written may be read by the copy engine from here on. */
__device__ inline void writes_are_ready_to_copy() {
  asm volatile("fence.proxy.async;" ::: "memory");
}

/* Begins to copy the box at (row, column) from this plane on to shared memory, on 1024 bytes. The
   map tells how large a box is; each plane's part of it follows the one before. */
__device__ inline void copy_box(void *shared, const CUtensorMap *map, int plane, int row,
                                int column, uint64_t *barrier) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
               "[%1, {%3, %4, %5}], [%2];" ::"r"(shared_address(shared)),
               "l"(map), "r"(shared_address(barrier)), "r"(column), "r"(row), "r"(plane)
               : "memory");
}

/* The same to both blocks of a pair, to the same place, and told to the same barrier in each. */
__device__ inline void copy_box_to_both(void *shared, const CUtensorMap *map, int plane, int row,
                                        int column, uint64_t *barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(shared_address(shared)),
      "l"(map), "r"(shared_address(barrier)), "r"(column), "r"(row), "r"(plane), "h"((uint16_t)3)
      : "memory");
}

/* ---- tensor cores --------------------------------------------------------------------------- */

/* How an operand lies in its patches. Operands of C (m, n) = the sum over k of A(m, k) B(n, k): a
   row of the patch is one m or n with 32 k (ALONG_K), or one k with 64 m or n (ACROSS_K). */
enum Major { ALONG_K = 0, ACROSS_K = 1 };

constexpr int SIDE = 64, BLOCK = 32; /* m or n, and k, of a patch */
constexpr int PATCH_BYTES = SIDE * BLOCK * 2;

/* Tells the tensor cores of an operand: the first 16 k of 64 m or n, or of 128. Then ALONG_K it is
   two patches that follow each other, and ACROSS_K two that lie NEXT_64 bytes apart. Addresses
   count 16 bytes. */
template <Major MAJOR, int NEXT_64> __device__ inline uint64_t operand_at(uint32_t shared) {
  constexpr uint64_t SWIZZLE = MAJOR == ALONG_K ? 2 : 1; /* 64 bytes, 128 bytes: a row */
  constexpr uint64_t NEXT_8_ROWS = (MAJOR == ALONG_K ? 8 * 64 : 8 * 128) / 16;
  constexpr uint32_t ADDRESSES = 1 << 18; /* beyond it they tell the block of a cluster */
  return (uint64_t)(shared % ADDRESSES >> 4) | (uint64_t)(NEXT_64 / 16) << 16 | NEXT_8_ROWS << 32 |
         SWIZZLE << 62;
}

/* From one 16 k to the next, in the same unit: half a row, or 16 rows. */
template <Major MAJOR> constexpr int NEXT_16_K = (MAJOR == ALONG_K ? 32 : 16 * 128) / 16;

/* Around a run of multiply() of a warpgroup: from start to wait the accumulators belong to the
   tensor cores. */
__device__ inline void start_multiplying() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void close_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Waits until at most `GROUPS` of the last groups are unfinished. */
template <int GROUPS> __device__ inline void wait_for_groups() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(GROUPS) : "memory");
}

/* d (64, 128) += A B of 16 k, by the four warps of a warpgroup. Lane 4 g + t of warp w holds of
   rows 16 w + g and 16 w + g + 8: d[4 c + 2 r + e] is row g + 8 r, column 8 c + 2 t + e. */
template <Major A_MAJOR, Major B_MAJOR>
__device__ inline void multiply(float (&d)[64], uint64_t a, uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
               "%0, %1, %2, %3, %4, %5, %6, %7, "
               "%8, %9, %10, %11, %12, %13, %14, %15, "
               "%16, %17, %18, %19, %20, %21, %22, %23, "
               "%24, %25, %26, %27, %28, %29, %30, %31, "
               "%32, %33, %34, %35, %36, %37, %38, %39, "
               "%40, %41, %42, %43, %44, %45, %46, %47, "
               "%48, %49, %50, %51, %52, %53, %54, %55, "
               "%56, %57, %58, %59, %60, %61, %62, %63 "
               "}, %64, %65, 1, 1, 1, %66, %67;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
                 "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]),
                 "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),
                 "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
                 "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]),
                 "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]),
                 "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]),
                 "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
                 "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]),
                 "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]),
                 "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
               : "l"(a), "l"(b), "n"((int)A_MAJOR), "n"((int)B_MAJOR));
}

/* (left, right) (64, 256) += A B of 16 k, likewise: left has columns 0 to 127. B is four times 64
   columns, as two above. */
template <Major A_MAJOR, Major B_MAJOR>
__device__ inline void multiply(float (&left)[64], float (&right)[64], uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, "
      "%72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, "
      "%88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, "
      "%104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, "
      "%120, %121, %122, %123, %124, %125, %126, %127 "
      "}, %128, %129, 1, 1, 1, %130, %131;"
      : "+f"(left[0]), "+f"(left[1]), "+f"(left[2]), "+f"(left[3]), "+f"(left[4]), "+f"(left[5]),
        "+f"(left[6]), "+f"(left[7]), "+f"(left[8]), "+f"(left[9]), "+f"(left[10]), "+f"(left[11]),
        "+f"(left[12]), "+f"(left[13]), "+f"(left[14]), "+f"(left[15]), "+f"(left[16]),
        "+f"(left[17]), "+f"(left[18]), "+f"(left[19]), "+f"(left[20]), "+f"(left[21]),
        "+f"(left[22]), "+f"(left[23]), "+f"(left[24]), "+f"(left[25]), "+f"(left[26]),
        "+f"(left[27]), "+f"(left[28]), "+f"(left[29]), "+f"(left[30]), "+f"(left[31]),
        "+f"(left[32]), "+f"(left[33]), "+f"(left[34]), "+f"(left[35]), "+f"(left[36]),
        "+f"(left[37]), "+f"(left[38]), "+f"(left[39]), "+f"(left[40]), "+f"(left[41]),
        "+f"(left[42]), "+f"(left[43]), "+f"(left[44]), "+f"(left[45]), "+f"(left[46]),
        "+f"(left[47]), "+f"(left[48]), "+f"(left[49]), "+f"(left[50]), "+f"(left[51]),
        "+f"(left[52]), "+f"(left[53]), "+f"(left[54]), "+f"(left[55]), "+f"(left[56]),
        "+f"(left[57]), "+f"(left[58]), "+f"(left[59]), "+f"(left[60]), "+f"(left[61]),
        "+f"(left[62]), "+f"(left[63]), "+f"(right[0]), "+f"(right[1]), "+f"(right[2]),
        "+f"(right[3]), "+f"(right[4]), "+f"(right[5]), "+f"(right[6]), "+f"(right[7]),
        "+f"(right[8]), "+f"(right[9]), "+f"(right[10]), "+f"(right[11]), "+f"(right[12]),
        "+f"(right[13]), "+f"(right[14]), "+f"(right[15]), "+f"(right[16]), "+f"(right[17]),
        "+f"(right[18]), "+f"(right[19]), "+f"(right[20]), "+f"(right[21]), "+f"(right[22]),
        "+f"(right[23]), "+f"(right[24]), "+f"(right[25]), "+f"(right[26]), "+f"(right[27]),
        "+f"(right[28]), "+f"(right[29]), "+f"(right[30]), "+f"(right[31]), "+f"(right[32]),
        "+f"(right[33]), "+f"(right[34]), "+f"(right[35]), "+f"(right[36]), "+f"(right[37]),
        "+f"(right[38]), "+f"(right[39]), "+f"(right[40]), "+f"(right[41]), "+f"(right[42]),
        "+f"(right[43]), "+f"(right[44]), "+f"(right[45]), "+f"(right[46]), "+f"(right[47]),
        "+f"(right[48]), "+f"(right[49]), "+f"(right[50]), "+f"(right[51]), "+f"(right[52]),
        "+f"(right[53]), "+f"(right[54]), "+f"(right[55]), "+f"(right[56]), "+f"(right[57]),
        "+f"(right[58]), "+f"(right[59]), "+f"(right[60]), "+f"(right[61]), "+f"(right[62]),
        "+f"(right[63])
      : "l"(a), "l"(b), "n"((int)A_MAJOR), "n"((int)B_MAJOR));
}

/* ---- registers ------------------------------------------------------------------------------ */

/* A warpgroup gives registers back, or takes them; COUNT per thread. */
template <int COUNT> __device__ inline void keep_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT> __device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

#endif
