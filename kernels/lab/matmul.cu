/* Matrix multiplication (gemm): C (m, n) = A (m, k) B (k, n), row-major, any m, n, k. Each rung
   reads more operands of its multiply-adds from nearer memory: from shared memory, then from
   registers. Rungs predict wavefronts of shared memory (docs/lab/matmul.md). The rungs for `bf16`
   are in matmul_mma.cu and matmul_hopper.cu, and use tensor cores. */
#include "lab/cublas.cuh"
#include "lab/matmul_tile.cuh"

#include <math.h>

namespace {

int64_t count(int, LabSize size, int array) {
  const int64_t m = size.dim[0], n = size.dim[1], k = size.dim[2];
  if (array == 0) return m * k;
  return array == 1 ? k * n : m * n;
}

double operations(LabSize size) {
  return 2.0 * (double)size.dim[0] * (double)size.dim[1] * (double)size.dim[2];
}

enum { FLOAT32 = 1, BF16 = 2 }; /* problems, as bits */

const char *refuse(int problem, LabSize size) {
  for (int d = 0; d < LAB_DIMS; d++)
    if (size.dim[d] > 1 << 30) return "a side is longer than 2^30";
  for (int array = -1; array < 2; array++)
    if (count(problem, size, array) >= (int64_t)1 << 32)
      return "a matrix has 2^32 elements or more";
  if (1 << problem == BF16 && (size.dim[1] % 8 || size.dim[2] % 8))
    return "N and K must be multiples of 8, so that rows of bf16 numbers start on 16 bytes";
  return nullptr;
}

/* Error bounds are in units of 2^-24 times the sum of |a b|. In float32 a sum of K products has an
   error of at most K units, in any order (Jeannerod and Rump, 2013). A tensor core adds 16 exact
   products to a sum: it aligns the 17 numbers and truncates them one bit after the last bit of
   float32 (Fasi, Higham, Mikaitis and Pranesh, 2021). So K products have an error of at most 2 K +
   2 units. Flushing each number below 2^-126 to zero is allowed, too. */
/* Computes elements of C in float64. The allowed error is (PER_K K + MORE) 2^-24 times the sum of
   |a b|. */
template <class In, int PER_K, int MORE> void reference(const LabRange *r) {
  const In *a = (const In *)r->h_in[0], *b = (const In *)r->h_in[1];
  const int64_t n = r->size.dim[1], depth = r->size.dim[2];
  for (int64_t done = 0; done < r->count;) { /* each pass computes part of one row of C */
    const int64_t row = (r->first + done) / n, column = (r->first + done) % n;
    const int64_t width = std::min(n - column, r->count - done);
    double *sum = r->expected + done, *bound = r->allowed + done;
    for (int64_t j = 0; j < width; j++) sum[j] = bound[j] = 0.0;
    for (int64_t k = 0; k < depth; k++) {
      const double left = (float)a[row * depth + k];
      for (int64_t j = 0; j < width; j++) {
        const double product = left * (float)b[k * n + column + j];
        sum[j] += product;
        bound[j] += fabs(product);
      }
    }
    for (int64_t j = 0; j < width; j++)
      bound[j] =
          (PER_K * (double)depth + MORE) * ldexp(bound[j], -24) + (double)depth * ldexp(1.0, -126);
    done += width;
  }
}

/* Launches KERNEL with one block of THREADS threads per tile of BM x BN of C. */
template <void (*KERNEL)(Matrices), int BM, int BN, int THREADS>
cudaError_t launch_tiles(const LabCall *call) {
  const Matrices p = matrices_of(call);
  return lab_launch(call, KERNEL, lab_tiles<BM, BN>(p.m, p.n), THREADS, 0, p);
}

/* C = A B. Block: 256 elements of C. Thread: one element. If ACROSS is false, the lanes of a warp
   have different rows of C: a load of A touches 32 cache lines and uses 4 bytes of each. If ACROSS
   is true, the lanes have 32 neighbours in a row of C: they load the same element of A and 32
   neighbours of B, which are four sectors. */
template <bool ACROSS> __global__ void __launch_bounds__(256) element_kernel(Matrices p) {
  const Corner corner = ACROSS ? lab_corner<8, 32>(p.n) : lab_corner<32, 8>(p.n);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int i = corner.row + (ACROSS ? warp : lane);
  const int j = corner.column + (ACROSS ? lane : warp);
  if (i >= p.m || j >= p.n) return;
  const float *a = p.a + (int64_t)i * p.k, *b = p.b + j;
  float sum = 0.0f;
  for (int k = 0; k < p.k; k++) sum = fmaf(a[k], b[(int64_t)k * p.n], sum);
  p.c[(int64_t)i * p.n + j] = sum;
}

/* Copies HIGH x WIDE elements of x (rows, columns) from (row, column) on. Elements outside x become
   0. A thread copies every THREADS-th element. */
template <int THREADS, int HIGH, int WIDE>
__device__ void copy_slab(float (&to)[HIGH][WIDE], const float *x, int row, int column, int rows,
                          int columns) {
  unrolled_by (i, HIGH * WIDE, THREADS) {
    const int r = (threadIdx.x + i) / WIDE, c = (threadIdx.x + i) % WIDE;
    to[r][c] = row + r < rows && column + c < columns ? x[(int64_t)(row + r) * columns + column + c]
                                                      : 0.0f;
  }
}

/* C = A B. Block: BM x BN of C, in slabs of BK along k. Thread: TM x TN neighbouring elements, with
   sums in registers. For each k a thread loads TM + TN words from shared memory for TM TN
   multiply-adds: 2 words for 1 multiply-add, 9 words for 8, or 16 words for 64. */
template <int BM, int BN, int BK, int TM, int TN>
__global__ void __launch_bounds__(BM / TM * (BN / TN)) register_kernel(Matrices p) {
  constexpr int ACROSS = BN / TN, THREADS = BM / TM * ACROSS;
  __shared__ float slab_a[BM][BK], slab_b[BK][BN];
  const Corner corner = lab_corner<BM, BN>(p.n);
  const int row = threadIdx.x / ACROSS * TM, column = threadIdx.x % ACROSS * TN;
  float acc[TM][TN] = {}, a[TM], b[TN];
  for (int k0 = 0; k0 < p.k; k0 += BK) {
    copy_slab<THREADS>(slab_a, p.a, corner.row, k0, p.m, p.k);
    copy_slab<THREADS>(slab_b, p.b, k0, corner.column, p.k, p.n);
    __syncthreads();
    unrolled (k, BK) {
      unrolled (i, TM) a[i] = slab_a[row + i][k];
      unrolled (j, TN) b[j] = slab_b[k][column + j];
      add_outer_product(acc, a, b);
    }
    __syncthreads();
  }
  store_tile(p, acc, corner.row + row, corner.column + column, 4, 4);
}

template <int BM, int BN, int BK, int TM, int TN> cudaError_t launch_register(const LabCall *call) {
  return launch_tiles<register_kernel<BM, BN, BK, TM, TN>, BM, BN, BM / TM *(BN / TN)>(call);
}

constexpr int BM = 128, BN = 128, BK = 8, TM = 8, TN = 8, THREADS = 256;

/* Loads four neighbours of a line of `columns` values, with zeros after its end. QUADS is true if
   `columns` is a multiple of 4. */
template <bool QUADS> __device__ LabWord<4> load_quad(const float *line, int column, int columns) {
  LabWord<4> v = {};
  if (QUADS && column < columns) v = *reinterpret_cast<const LabWord<4> *>(line + column);
  unrolled (i, 4)
    if (!QUADS && column + i < columns) v.value[i] = line[column + i];
  return v;
}

/* C = A B. Block: 128 x 128 of C, in slabs of 8 along k. Thread: 8 x 8 of C, as four squares of 4 x
   4. The top left square starts at (Place::row(), Place::column()). The others start ROW_GAP rows
   below, COLUMN_GAP columns to the right, or both. Global memory is read in words of 16 bytes. A is
   transposed on the way to shared memory, so that a fragment is two 16-byte loads. The rung
   `warp-tiles` has another Place than `wide-loads`; the rung `spilled` has more BLOCKS. */
template <class Place, bool QUADS, int BLOCKS>
__global__ void __launch_bounds__(THREADS, BLOCKS) wide_kernel(Matrices p) {
  __shared__ __align__(16) float slab_a[BK][Place::PITCH], slab_b[BK][BN];
  const Corner corner = lab_corner<BM, BN>(p.n);
  const int a_row = threadIdx.x / (BK / 4), a_k = threadIdx.x % (BK / 4) * 4;
  const int b_k = threadIdx.x / (BN / 4), b_column = threadIdx.x % (BN / 4) * 4;
  const int row = Place::row(), column = Place::column();
  float acc[TM][TN] = {}, a[TM], b[TN];
  for (int k0 = 0; k0 < p.k; k0 += BK) {
    LabWord<4> x = {}, y = {};
    if (corner.row + a_row < p.m)
      x = load_quad<QUADS>(p.a + (int64_t)(corner.row + a_row) * p.k, k0 + a_k, p.k);
    if (k0 + b_k < p.k)
      y = load_quad<QUADS>(p.b + (int64_t)(k0 + b_k) * p.n, corner.column + b_column, p.n);
    __syncthreads();
    unrolled (i, 4) slab_a[a_k + i][a_row] = x.value[i];
    *reinterpret_cast<LabWord<4> *>(&slab_b[b_k][b_column]) = y;
    __syncthreads();
    unrolled (k, BK) {
      load_fragment(a, &slab_a[k][row], Place::ROW_GAP);
      load_fragment(b, &slab_b[k][column], Place::COLUMN_GAP);
      add_outer_product(acc, a, b);
    }
  }
  store_tile(p, acc, corner.row + row, corner.column + column, Place::ROW_GAP, Place::COLUMN_GAP);
}

template <class Place, int BLOCKS = 2> cudaError_t launch_wide(const LabCall *call) {
  const Matrices p = matrices_of(call);
  const bool quads = p.k % 4 == 0 && p.n % 4 == 0; /* every row is aligned to 16 bytes */
  return lab_launch(call,
                    quads ? wide_kernel<Place, true, BLOCKS> : wide_kernel<Place, false, BLOCKS>,
                    lab_tiles<BM, BN>(p.m, p.n), THREADS, 0, p);
}

/* A thread has 8 x 8 neighbours of C. A load of B by a quarter warp has 2-way bank conflicts. */
struct Neighbours {
  static constexpr int PITCH = BM, ROW_GAP = 4, COLUMN_GAP = 4;
  static __device__ int row() {
    return threadIdx.x / 16 * 8;
  }
  static __device__ int column() {
    return threadIdx.x % 16 * 8;
  }
};

/* A thread has two groups of four columns and two groups of four rows. So a quarter warp has no
   bank conflicts. A warp has 64 x 32 of C, and reads 96 different words per k (144 with
   Neighbours). Lanes n and n ^ 1 share columns, lanes n and n ^ 2 share rows. So every load takes
   only 2 wavefronts. */
struct Warps {
  static constexpr int PITCH = BM + 4, ROW_GAP = 32, COLUMN_GAP = 16;
  static __device__ int row() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return warp / 4 * 64 + (lane / 8 * 2 + lane % 2) * 4;
  }
  static __device__ int column() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return warp % 4 * 32 + lane / 2 % 4 * 4;
  }
};

/* ---- async-copies -------------------------------------------------------------------------- */

namespace pipelined {

/* More sizes to tune. A lane has TM x TN of C in squares of 4 x 4. The next square of a lane is
   LANES_DOWN squares below or LANES_ACROSS squares to the right. Shared memory holds STAGES slabs.
   A multiprocessor holds BLOCKS blocks, so that one can multiply while another waits or writes.
   docs/lab/matmul.md has the times of other sizes. */
constexpr int TN = 16, STAGES = 4, BLOCKS = 2;
constexpr int LANES_DOWN = 4, LANES_ACROSS = 32 / LANES_DOWN;
constexpr int WM = LANES_DOWN * TM, WN = LANES_ACROSS * TN; /* rows and columns of a warp's tile */
constexpr int WARPS_ACROSS = BN / WN, THREADS = 32 * (BM / WM) * WARPS_ACROSS;
/* A slab of A is transposed while it is copied. A warp copies OCTET neighbours of each of four rows
   of A; PITCH puts these values into 32 different banks. */
constexpr int PITCH = BM + 4, OCTET = 8, ROWS_AT_ONCE = THREADS / OCTET;
constexpr int A_FLOATS = BK * PITCH, SLAB_FLOATS = A_FLOATS + BK * BN;
static_assert(BM % WM == 0 && BN % WN == 0 && TM % 4 == 0 && TN % 4 == 0, "whole warps");
static_assert(BM % ROWS_AT_ONCE == 0 && BK % OCTET == 0 && BK * BN % (4 * THREADS) == 0,
              "each thread copies as much");
static_assert(STAGES >= 2 && BK % 2 == 0, "two fragments in turns");

/* Starts one thread's copies of slabs. WHOLE is true if no slab extends beyond the matrices. */
template <int WIDTH, bool WHOLE> struct SlabCopy {
  static constexpr int PER_LINE = BN / WIDTH; /* copies per line of B's slab */
  static constexpr int ROWS = BM / ROWS_AT_ONCE, LINES = BK * PER_LINE / THREADS;
  const Matrices &p;
  const Corner corner;
  const int eighth, row;                /* k and row of this thread's first value in A's slab */
  const float *slab_a, *slab_b;         /* start addresses of the next slabs */
  uint32_t from_a[ROWS], from_b[LINES]; /* this thread's offsets from slab_a, slab_b */
  int k;                                /* first k of the next slabs */

  static __device__ int line(int i) {
    return (threadIdx.x + i * THREADS) / PER_LINE;
  }
  static __device__ int column(int i) {
    return (threadIdx.x + i * THREADS) % PER_LINE * WIDTH;
  }
  __device__ SlabCopy(const Matrices &matrices, Corner tile)
      : p(matrices), corner(tile), eighth(threadIdx.x % OCTET), row(threadIdx.x / OCTET),
        slab_a(p.a + (int64_t)tile.row * p.k), slab_b(p.b + tile.column), k(0) {
    unrolled (r, ROWS) from_a[r] = (uint32_t)(row + r * ROWS_AT_ONCE) * p.k + eighth;
    unrolled (i, LINES) from_b[i] = (uint32_t)line(i) * p.n + column(i);
  }
  /* Starts to copy the next slabs, as one group of copies. Values outside the matrices become 0. */
  __device__ void next(float *to) {
    unrolled_by (e, BK, OCTET)
      unrolled (r, ROWS)
        copy_async<1>(to + (eighth + e) * PITCH + row + r * ROWS_AT_ONCE, slab_a + from_a[r] + e,
                      k + (WHOLE ? 0 : eighth + e) < p.k &&
                          (WHOLE || corner.row + row + r * ROWS_AT_ONCE < p.m));
    unrolled (i, LINES)
      copy_async<WIDTH>(to + A_FLOATS + line(i) * BN + column(i), slab_b + from_b[i],
                        k + (WHOLE ? 0 : line(i)) < p.k &&
                            (WHOLE || corner.column + column(i) < p.n));
    close_copies();
    slab_a += BK;
    slab_b += (int64_t)p.n * BK;
    k += BK;
  }
};

/* C = A B. Block: a tile of BM x BN of C. Warp: WM x WN of the tile. Lane: TM x TN elements, with
   sums in registers. Lanes n and n ^ 1 share columns, lanes n and n ^ 2 share rows, so a 16-byte
   load takes 2 wavefronts. For each k, the 6 loads of a warp occupy shared memory for 12 cycles.
   Its multiply-adds occupy one of the four schedulers for 128 cycles.

   Asynchronous copies fill the last of STAGES slabs while the block multiplies the first. So one
   barrier per slab is enough. Fragments are loaded one k ahead. The copies need no registers, so a
   lane has room for 8 x 16 sums. The limit is now how fast schedulers start instructions. */
template <int WIDTH, bool WHOLE>
__global__ void __launch_bounds__(THREADS, BLOCKS) kernel(Matrices p) {
#if __CUDA_ARCH__ >= 800 /* the rung is refused on older GPUs */
  extern __shared__ float4 slabs[];
  float *const shared = reinterpret_cast<float *>(slabs);
  const Corner corner = lab_corner<BM, BN>(p.n);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int lane_row = lane % 2 + lane / (2 * LANES_ACROSS) * 2;
  const int lane_column = lane / 2 % LANES_ACROSS;
  const int row = warp / WARPS_ACROSS * WM + 4 * lane_row;
  const int column = warp % WARPS_ACROSS * WN + 4 * lane_column;
  constexpr int ROW_GAP = 4 * LANES_DOWN, COLUMN_GAP = 4 * LANES_ACROSS;

  SlabCopy<WIDTH, WHOLE> copy(p, corner);
  unrolled (s, STAGES - 1) copy.next(shared + s * SLAB_FLOATS);
  await_groups<STAGES - 2>();
  __syncthreads();

  float acc[TM][TN] = {}, a[2][TM], b[2][TN];
  int slab = 0, free_slab = (STAGES - 1) * SLAB_FLOATS;
  load_fragment(a[0], shared + row, ROW_GAP);
  load_fragment(b[0], shared + A_FLOATS + column, COLUMN_GAP);
#pragma unroll 1
  for (int k0 = 0; k0 < p.k; k0 += BK) {
    unrolled (k, BK) {
      const int now = k % 2, then = 1 - now, next = (k + 1) % BK;
      if (next == 0) { /* wait until all threads have read this slab and the next has arrived */
        await_groups<STAGES - 2>();
        __syncthreads();
        free_slab = slab;
        slab = slab == (STAGES - 1) * SLAB_FLOATS ? 0 : slab + SLAB_FLOATS;
      }
      load_fragment(a[then], shared + row + slab + next * PITCH, ROW_GAP);
      load_fragment(b[then], shared + column + slab + A_FLOATS + next * BN, COLUMN_GAP);
      if (k == 0) copy.next(shared + free_slab);
      add_outer_product(acc, a[now], b[now]);
    }
  }

  await_groups<0>(); /* a block must not end while its copies are in flight */
  store_tile<WHOLE>(p, acc, corner.row + row, corner.column + column, ROW_GAP, COLUMN_GAP);
#endif
}

/* Copies A in words of 4 bytes, and B in words of 16 bytes if the rows of B are aligned. */
cudaError_t launch(const LabCall *call) {
  const Matrices p = matrices_of(call);
  const bool whole = p.m % BM == 0 && p.n % BN == 0 && p.k % BK == 0;
  const auto part = p.n % 4 == 0 ? kernel<4, false> : kernel<1, false>;
  return lab_launch(call, whole ? kernel<4, true> : part, lab_tiles<BM, BN>(p.m, p.n), THREADS,
                    STAGES * SLAB_FLOATS * sizeof(float), p);
}

} // namespace pipelined

/* cuBLAS is column-major, so it computes C^T = B^T A^T. C is float32; A and B have type TYPE. */
template <cudaDataType TYPE> cudaError_t launch_cublas(const LabCall *call) {
  return lab_cublas(call, [=](cublasHandle_t handle) {
    const Matrices p = matrices_of(call);
    const float one = 1.0f, zero = 0.0f;
    return cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, p.n, p.m, p.k, &one, p.b, TYPE, p.n, p.a,
                        TYPE, p.k, &zero, p.c, CUDA_R_32F, p.n, CUBLAS_COMPUTE_32F,
                        CUBLAS_GEMM_DEFAULT);
  });
}

/* Returns a rung with instructions of compute capability 9.0. */
constexpr LabRung hopper(const char *name, const char *lesson,
                         cudaError_t (*launch)(const LabCall *),
                         double (*predicted)(const LabCall *)) {
  return {name,
          lesson,
          launch,
          predicted,
          .problems = BF16,
          .capability = 90,
          .refuse = matmul_hopper_refuses};
}

/* Each rung predicts wavefronts of loads from shared memory per warp-wide multiply-add. */
const LabRung rungs[] = {
    {"element-down",
     "One thread per element of C, neighbouring threads in a column: each load of A touches 32 "
     "lines of the cache",
     launch_tiles<element_kernel<false>, 32, 8, 256>, .problems = FLOAT32},
    {"element-across",
     "Neighbouring threads in a row of C: loads of B coalesce, and all lanes load the same word of "
     "A",
     launch_tiles<element_kernel<true>, 8, 32, 256>, .problems = FLOAT32},
    {"shared-tiles", "A block fetches each word once for 32 threads, into shared memory",
     launch_register<32, 32, 32, 1, 1>, lab_value<6, 4>, .problems = FLOAT32,
     .differs = LAB_JOINED},
    {"register-1d", "8 rows per thread: a word of B from shared memory serves 8 multiply-adds",
     launch_register<64, 64, 8, 8, 1>, lab_value<16 * 2 + 8 * 1, 64>, .problems = FLOAT32,
     .differs = LAB_JOINED},
    {"register-2d", "8 x 8 per thread: 16 words serve 64 multiply-adds",
     launch_register<128, 128, 8, 8, 8>, lab_value<16 * 2 + 16 * 8, 512>, .problems = FLOAT32,
     .differs = LAB_JOINED},
    {"wide-loads",
     "16 bytes per load, and A is transposed on its way to shared memory: fewer loads leave more "
     "time to multiply",
     launch_wide<Neighbours>, lab_value<2 * 2 + 2 * 8, 64>, .problems = FLOAT32},
    {"warp-tiles",
     "A warp computes 64 x 32 instead of 16 x 128: it loads fewer different words, each for more "
     "lanes, and without bank conflicts",
     launch_wide<Warps>, lab_value<2 * 2 + 2 * 2, 64>, .problems = FLOAT32},
    {"spilled",
     "Four blocks per multiprocessor leave a thread 64 registers, too few for its 64 sums: some "
     "sums lie in local memory, and each use is a load and a store",
     launch_wide<Warps, 4>, lab_value<2 * 2 + 2 * 2, 64>, .problems = FLOAT32},
    {"async-copies",
     "Copies and fragments are fetched ahead of the arithmetic, and the freed registers hold 8 x "
     "16 sums per thread",
     pipelined::launch, lab_value<2 * 2 + 4 * 2, 128>, .problems = FLOAT32, .capability = 80,
     .differs =
         "fetching ahead loads one fragment after the last, too, which a longer K makes rare"},
    {"tensor-cores",
     "mma.sync: one instruction of a warp does 64 multiply-adds per lane, on bf16 numbers",
     launch_matmul_tensor_cores, lab_value<24, 1024>, .problems = BF16, .capability = 80},
    {"stages",
     "cp.async and a ring of four stages: three slabs arrive while one is multiplied, and no "
     "register carries them",
     launch_matmul_stages, lab_value<24, 1024>, .problems = BF16, .capability = 80},
    hopper("tma",
           "The copy engine brings a slab for four requests of one thread, and an mbarrier counts "
           "its bytes",
           launch_matmul_tma, lab_value<24, 1024>),
    hopper("wgmma",
           "Tensor cores read both operands from shared memory, 128 threads at a time: no register "
           "holds an operand",
           launch_matmul_wgmma, lab_value<48, 4096>),
    hopper("specialised",
           "One thread only asks the copy engine for slabs, and two warpgroups only multiply: no "
           "barrier stops the whole block",
           launch_matmul_hopper<1>, lab_value<80, 8192>),
    hopper("clusters",
           "Each of two blocks copies half of B's slabs to both blocks: the L2 cache delivers a "
           "third less",
           launch_matmul_hopper<2>, lab_value<80, 8192>),
    {"cublas", "cublasGemmEx, float32 arithmetic", launch_cublas<CUDA_R_32F>, .kind = LAB_LIBRARY,
     .problems = FLOAT32},
    {"cublas-bf16", "cublasGemmEx on bf16 matrices, sums and C in float32",
     launch_cublas<CUDA_R_16BF>, .kind = LAB_LIBRARY, .problems = BF16, .capability = 80}};

template <class In, int PER_K, int MORE> constexpr LabProblem problem(const char *name) {
  constexpr LabType IN = sizeof(In) == 2 ? LAB_BFLOAT16 : LAB_FLOAT32;
  return {name, {IN, IN}, LAB_FLOAT32, operations, reference<In, PER_K, MORE>};
}

const LabProblem problems[] = {problem<float, 1, 0>("float32"),
                               problem<__nv_bfloat16, 2, 2>("bf16")};

} // namespace

extern "C" const LabTopic lab_matmul = {
    "matmul",
    "Matrix product: from one thread per element to tensor cores at the library's pace",
    "M x N x K",
    LAB_GFLOP_PER_S,
    LAB_LADDER,
    .sizes = {lab_size(4096, 4096, 4096), lab_size(1024, 1024, 1024), lab_size(2048, 2048, 2048),
              lab_size(8192, 8192, 8192)},
    .tested = lab_size(400, 400, 200),
    .refuse = refuse,
    .count = count,
    .predicted_name =
        "wavefronts of shared loads per multiply-add (1/4 can be served, 1/64 for wgmma)",
    .counted = LAB_COUNTS_MULTIPLY_ADDS,
    .metric = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    .metric_name = "wavefronts of shared loads"};
