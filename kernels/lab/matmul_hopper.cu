/* The rungs of matmul with Hopper's own instructions (layer/hopper.cuh), which add one after the
   other: the copy engine (TMA), tensor cores that read shared memory (wgmma), warp specialisation,
   clusters of two blocks. The Makefile compiles this file for sm_90a. On other GPUs these rungs are
   refused. */
#include "lab/matmul_warp.cuh"

#ifdef HAVE_SM_90A

#include <cooperative_groups.h>

#include "layer/hopper.cuh"

namespace {

constexpr int PATCH = 64; /* values per side of a patch */
constexpr int SQUARE_BYTES = PATCH * PATCH * 2;
constexpr Major A_MAJOR = ALONG_K, B_MAJOR = ACROSS_K; /* B is (k, n): each row is one k */
constexpr int GROUP = 128;                             /* threads of a warpgroup */
constexpr int ALIGNMENT = 1024;                        /* alignment of patches in shared memory */

/* The tuned sizes of the last two rungs. A block computes 128 x 256 elements of C. A thread has 128
   of them (SUMS). */
constexpr int A_PATCHES = 2, B_PATCHES = 4, BM = A_PATCHES * PATCH, BN = B_PATCHES * PATCH;
constexpr int STAGE_BYTES = (A_PATCHES + B_PATCHES) * SQUARE_BYTES, SUMS = BN / 2;
constexpr int ROOM = 227 * 1024 - ALIGNMENT - 256; /* bytes for stages; 256 remain for barriers */
constexpr int STAGES = ROOM / STAGE_BYTES;
constexpr int THREADS = 3 * GROUP, CONSUMER_WARPS = 2 * GROUP / 32;

/* One product C (m, n) = A (m, k) B (k, n). */
struct Job {
  CUtensorMap a, b;
  float *c;
  int m, n, k;
  int down, across; /* rows and columns of units in C; a unit is the tiles of a cluster. Not used by
                       the rungs `tma` and `wgmma`. */
};

__device__ unsigned char *aligned_shared() {
  extern __shared__ unsigned char shared[];
  return shared + (ALIGNMENT - shared_address(shared) % ALIGNMENT) % ALIGNMENT;
}

/* Waits for the sums. The asm statements keep the compiler from reading the sums earlier. */
template <int COUNT> __device__ void finish_multiplying(float (&sum)[COUNT]) {
  wait_for_groups<0>();
  unrolled (i, COUNT) asm volatile("" : "+f"(sum[i])::"memory");
}

/* Writes the sums of a warpgroup: 64 rows from `row` on, and 2 COUNT columns. Neighbouring lanes
   exchange pairs of sums, so that each lane stores four columns at once. */
template <int COUNT>
__device__ void store_sums(const Job &p, const float (&sum)[COUNT], int row, int column) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x % GROUP / 32, odd = lane % 2;
  unrolled (r, 2)
    unrolled_by (j, COUNT / 4, 2) {
      const float *first = &sum[4 * j + 2 * r],
                  *second = first + 4; /* the same pair, 8 columns to the right */
      const float x = __shfl_xor_sync(0xffffffffu, odd ? first[0] : second[0], 1);
      const float y = __shfl_xor_sync(0xffffffffu, odd ? first[1] : second[1], 1);
      store_word<4>(p.c, p.m, p.n, row + 16 * warp + 8 * r + lane / 4,
                    column + 8 * (j + odd) + lane % 4 / 2 * 4,
                    odd ? LabWord<4>{x, y, second[0], second[1]}
                        : LabWord<4>{first[0], first[1], x, y});
    }
}

/* Multiplies 64 rows of A by 2 COUNT columns of B (128 or 256), over the 64 k of a slab. For every
   16 k of 256 columns, tensor cores read 64 x 16 + 16 x 256 values: 80 wavefronts for 8192
   warp-wide multiply-adds. For 128 columns it is 48 wavefronts for 4096. */
template <int COUNT, class Ring>
__device__ void multiply_slab(float (&sum)[COUNT], const Ring &ring, int s, int group) {
  uint64_t a = operand_at<A_MAJOR, SQUARE_BYTES, PATCH>(shared_address(ring.a[s][group]));
  uint64_t b = operand_at<B_MAJOR, SQUARE_BYTES, PATCH>(shared_address(ring.b[s]));
  start_multiplying();
  unrolled_by (k, PATCH, 16) {
    if constexpr (COUNT == 128)
      multiply_256<BF16, A_MAJOR, B_MAJOR>(sum, a, b);
    else
      multiply_128<BF16, A_MAJOR, B_MAJOR>(sum, a, b);
    a += NEXT_16_K<A_MAJOR>, b += NEXT_16_K<B_MAJOR>;
  }
  close_group();
}

/* ---- tma and wgmma ------------------------------------------------------------------------------
   C = A B. Block: 128 x 128 of C, as in `stages`, two blocks per multiprocessor: one multiplies
   while the other waits or stores. One thread makes four requests per slab of 64 k, and the copy
   engine does the rest: addresses, zeros outside the matrices, and the swizzle that keeps reads
   free of bank conflicts. In `stages` each thread starts four copies per 32 k and computes their
   addresses. docs/lab/matmul.md draws how slabs move. */
constexpr int SMALL_STAGES = 3;

struct SmallRing {
  unsigned char a[SMALL_STAGES][2][SQUARE_BYTES]; /* two patches, one below the other */
  unsigned char b[SMALL_STAGES][2][SQUARE_BYTES]; /* two patches, side by side */
  uint64_t filled[SMALL_STAGES];

  __device__ void copy(const Job &p, const Corner &corner, int slab) {
    const int s = slab % SMALL_STAGES, k = slab * PATCH;
    barrier_expect(&filled[s], 4 * SQUARE_BYTES);
    for (int half = 0; half < 2; half++) {
      copy_box(a[s][half], &p.a, 0, corner.row + half * PATCH, k, &filled[s]);
      copy_box(b[s][half], &p.b, 0, k, corner.column + half * PATCH, &filled[s]);
    }
  }
};

/* Rung `tma` multiplies by mma.sync. Its ldmatrix must look for 16 bytes where the swizzle has put
   them: word w of row r of a patch is at w ^ r % 8. */
struct FromRegisters {
  mma::WarpTile tile = {};

  static __device__ const __nv_bfloat16 *at(const unsigned char *patch, int row, int column) {
    const int word = column / 8 ^ row % 8;
    return reinterpret_cast<const __nv_bfloat16 *>(patch) + row * PATCH + word * 8;
  }
  __device__ void multiply(const SmallRing &ring, int s) {
    unrolled_by (k, PATCH, 16)
      tile.multiply(
          [&](int row, int column) { return at(ring.a[s][row / PATCH], row % PATCH, k + column); },
          [&](int row, int column) {
            return at(ring.b[s][column / PATCH], k + row, column % PATCH);
          });
  }
  __device__ void store(const Job &p, const Corner &corner) const {
    tile.store(p.c, p.m, p.n, corner);
  }
};

/* Rung `wgmma` multiplies by wgmma: no operand passes through registers any more. A warpgroup names
   64 rows of A (one patch) and 128 columns of B, and the tensor cores read them from shared memory,
   each value once for the whole warpgroup instead of once per warp that needs it. */
struct FromShared {
  float sum[64] = {};

  __device__ void multiply(const SmallRing &ring, int s) {
    multiply_slab(sum, ring, s, threadIdx.x / GROUP);
    finish_multiplying(sum);
  }
  __device__ void store(const Job &p, const Corner &corner) const {
    store_sums(p, sum, corner.row + threadIdx.x / GROUP * PATCH, corner.column);
  }
};

template <class Multiplier>
__global__ void __launch_bounds__(mma::THREADS, 2) tma_kernel(const __grid_constant__ Job p) {
  SmallRing &ring = *reinterpret_cast<SmallRing *>(aligned_shared());
  const Corner corner = lab_corner<mma::BM, mma::BN>(p.n);
  const int slabs = ceil_div(p.k, PATCH);
  if (threadIdx.x == 0) {
    for (int s = 0; s < SMALL_STAGES; s++) barrier_init(&ring.filled[s], 1);
    barriers_are_ready();
    writes_are_ready_to_copy();
    for (int slab = 0; slab < SMALL_STAGES && slab < slabs; slab++) ring.copy(p, corner, slab);
  }
  __syncthreads();
  Multiplier sums;
#pragma unroll 1
  for (int slab = 0; slab < slabs; slab++) {
    const int s = slab % SMALL_STAGES;
    barrier_wait(&ring.filled[s], slab / SMALL_STAGES % 2);
    sums.multiply(ring, s);
    __syncthreads(); /* all threads have read the slab */
    if (threadIdx.x == 0 && slab + SMALL_STAGES < slabs) ring.copy(p, corner, slab + SMALL_STAGES);
  }
  sums.store(p, corner);
}

/* ---- specialised and clusters -------------------------------------------------------------------
   Stages in shared memory. A block numbers its slabs from 0; slab p is in stage p % STAGES. */
template <int BLOCKS> struct Ring {
  unsigned char a[STAGES][A_PATCHES][SQUARE_BYTES], b[STAGES][B_PATCHES][SQUARE_BYTES];
  uint64_t filled[STAGES], free[STAGES];

  __device__ void init() {
    for (int s = 0; s < STAGES; s++) {
      barrier_init(&filled[s], 1);
      barrier_init(&free[s], BLOCKS * CONSUMER_WARPS);
    }
    barriers_are_ready();
  }
  /* Lane 0 tells the producers that this warp has read slab `position`. */
  __device__ void release(unsigned position) {
    uint64_t *barrier = &free[position % STAGES];
    if (threadIdx.x % 32 != 0) return;
    if (BLOCKS == 2) {
      barrier_arrive_in(barrier, 0);
      barrier_arrive_in(barrier, 1);
    } else {
      barrier_arrive(barrier);
    }
  }
};

__device__ int rank_in_pair() {
  return blockIdx.x % 2;
}

/* A band is 8 rows of units. Units are numbered band by band, and column by column within a band.
   So units that run together form a square. */
constexpr int BAND = 8;

template <int BLOCKS> struct Block {
  const Job &p;
  Ring<BLOCKS> &ring;

  __device__ int slabs() const {
    return ceil_div(p.k, PATCH);
  }

  /* Calls work(tile) for each of this block's tiles. */
  template <class Work> __device__ void each_tile(const Work &work) const {
    for (int unit = blockIdx.x / BLOCKS; unit < p.down * p.across; unit += gridDim.x / BLOCKS) {
      const int band = unit / (BAND * p.across) * BAND, in_band = unit % (BAND * p.across);
      const int high = min(BAND, p.down - band), row = (band + in_band % high) * BLOCKS * BM;
      work(Corner{row + (BLOCKS == 2 ? rank_in_pair() * BM : 0), in_band / high * BN});
    }
  }

  /* Run by one thread, the producer: copies each slab as soon as a stage is free. */
  __device__ void produce() const {
    unsigned position = 0;
    each_tile([&](const Corner &tile) {
      for (int slab = 0; slab < slabs(); slab++, position++) {
        const int s = position % STAGES, k = slab * PATCH;
        barrier_wait(&ring.free[s], position / STAGES % 2 ^ 1);
        barrier_expect(&ring.filled[s], STAGE_BYTES);
        for (int i = 0; i < A_PATCHES; i++)
          copy_box(ring.a[s][i], &p.a, 0, tile.row + i * PATCH, k, &ring.filled[s]);
        for (int i = 0; i < B_PATCHES; i++) {
          const int column = tile.column + i * PATCH;
          if (BLOCKS == 1)
            copy_box(ring.b[s][i], &p.b, 0, k, column, &ring.filled[s]);
          else if (i % 2 == rank_in_pair())
            copy_box_to_both(ring.b[s][i], &p.b, 0, k, column, &ring.filled[s]);
        }
      }
    });
  }

  /* Computes the sums of a tile. `position` is the number of its first slab. A slab is released
     when the multiplication of the next slab has started. */
  __device__ void multiply_tile(float (&sum)[SUMS], unsigned position, int group) const {
    unrolled (i, SUMS) sum[i] = 0.0f;
#pragma unroll 1
    for (int slab = 0; slab < slabs(); slab++, position++) {
      const int s = position % STAGES;
      barrier_wait(&ring.filled[s], position / STAGES % 2);
      multiply_slab(sum, ring, s, group);
      wait_for_groups<1>();
      if (slab > 0) ring.release(position - 1);
    }
    finish_multiplying(sum);
    ring.release(position - 1);
  }

  /* Run by each consumer warpgroup: computes and stores 64 rows of every tile of this block. */
  __device__ void consume(int group) const {
    unsigned position = 0;
    each_tile([&](const Corner &tile) {
      float sum[SUMS];
      multiply_tile(sum, position, group);
      position += slabs();
      store_sums(p, sum, tile.row + group * PATCH, tile.column);
    });
  }
};

/* C = A B. Each multiprocessor has one block, which computes tile after tile of 128 x 256. One
   thread copies. Two warpgroups multiply and store. The third warpgroup gives them registers.
   A stage has two mbarriers: one says that its slab has arrived, the other that its slab may be
   overwritten. BLOCKS is 1 in the rung `specialised` and 2 in the rung `clusters`. In `clusters`,
   two blocks have tiles in the same columns, and each copies half of B's slab to both blocks. */
template <int BLOCKS>
__global__ void __cluster_dims__(BLOCKS, 1, 1) __launch_bounds__(THREADS, 1)
    specialised_kernel(const __grid_constant__ Job p) {
  Ring<BLOCKS> &ring = *reinterpret_cast<Ring<BLOCKS> *>(aligned_shared());
  const Block<BLOCKS> block = {p, ring};
  const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
  const int group = __shfl_sync(0xffffffffu, threadIdx.x / GROUP, 0); /* the same in all lanes */
  if (threadIdx.x == 0) {
    ring.init();
    prefetch_map(&p.a);
    prefetch_map(&p.b);
  }
  cluster.sync(); /* the barriers of both blocks are ready */
  if (group == 0) {
    keep_registers<40>();
    if (threadIdx.x == 0) {
      writes_are_ready_to_copy();
      block.produce();
    }
    __syncwarp();
    if (BLOCKS == 2) cluster.sync();
  } else {
    take_registers<232>();
    block.consume(group - 1);
    if (BLOCKS == 2) cluster.sync(); /* the other block may still use this block's barriers */
  }
}

cudaError_t make_job(const LabCall *call, Job *job) {
  const Bf16Matrices p = matrices_of<__nv_bfloat16>(call);
  *job = {.c = p.c, .m = p.m, .n = p.n, .k = p.k};
  TRY(describe_planes({p.a, 1, p.m, p.k, (size_t)p.k, (size_t)p.m * p.k}, PATCH, PATCH, 1,
                      &job->a));
  return describe_planes({p.b, 1, p.k, p.n, (size_t)p.n, (size_t)p.k * p.n}, PATCH, PATCH, 1,
                         &job->b);
}

template <class Multiplier> cudaError_t launch_small(const LabCall *call) {
  Job job;
  TRY(make_job(call, &job));
  return lab_launch(call, tma_kernel<Multiplier>, lab_tiles<mma::BM, mma::BN>(job.m, job.n),
                    mma::THREADS, sizeof(SmallRing) + ALIGNMENT, job);
}

} // namespace

cudaError_t launch_matmul_tma(const LabCall *call) {
  return launch_small<FromRegisters>(call);
}

cudaError_t launch_matmul_wgmma(const LabCall *call) {
  return launch_small<FromShared>(call);
}

template <int BLOCKS> cudaError_t launch_matmul_hopper(const LabCall *call) {
  Job job;
  TRY(make_job(call, &job));
  job.down = ceil_div(job.m, BLOCKS * BM), job.across = ceil_div(job.n, BN);
  const int clusters = call->gpu->multiprocessors / BLOCKS, units = job.down * job.across;
  return lab_launch(call, specialised_kernel<BLOCKS>, std::min(units, clusters) * BLOCKS, THREADS,
                    sizeof(Ring<BLOCKS>) + ALIGNMENT, job);
}

const char *matmul_hopper_refuses(const LabCall *call) {
  return call->gpu->capability == 90 ? nullptr
                                     : "its instructions are those of compute capability 9.0";
}

#else

const char *matmul_hopper_refuses(const LabCall *) {
  return "it needs code for compute capability 9.0a, which nvcc makes from release 12 on";
}

/* Never called, because the rungs are refused. */
cudaError_t launch_matmul_tma(const LabCall *) {
  return cudaErrorUnknown;
}
cudaError_t launch_matmul_wgmma(const LabCall *) {
  return cudaErrorUnknown;
}
template <int> cudaError_t launch_matmul_hopper(const LabCall *) {
  return cudaErrorUnknown;
}

#endif

template cudaError_t launch_matmul_hopper<1>(const LabCall *);
template cudaError_t launch_matmul_hopper<2>(const LabCall *);
