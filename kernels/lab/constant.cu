/* Constant memory: every thread reads a small table often, in three kinds of memory. Output i is
   x[i] + the sum of the table. Lane l begins at entry l mod `addresses`, so a warp asks for
   `addresses` different words at a time. In one access the constant cache serves one address, the
   first-level cache a line of 128 bytes, and shared memory one word of each bank. */
#include <numeric>

#include "lab/lab.cuh"

namespace {

/* The table has 1 KB and fits into an SM's constant cache (2 KB on Volta; Jia et al. 2018). */
constexpr int TABLE = 256, LANES = 32;
constexpr int STORED = TABLE + LANES; /* repeats the first entries: no index wraps around */
constexpr int BLOCK = 256, UNROLLED = 32;
static_assert(TABLE % UNROLLED == 0, "whole steps");

/* ---- reference -------------------------------------------------------------------------------
   The values are integers, and all sums are below 2^24. So float32 sums are exact in any order. */

constexpr int MOST_OF_X = 1 << 22, MOST_OF_TABLE = 1 << 9;
static_assert(MOST_OF_X + TABLE * MOST_OF_TABLE < 1 << 24, "sums are exact");

void reference(const LabRange *range) {
  const float *x = (const float *)range->h_in[0], *table = (const float *)range->h_in[1];
  const double sum = std::accumulate(table, table + TABLE, 0.0);
  lab_exactly(range, [=](int64_t i) { return x[i] + sum; });
}

/* Makes integers from -most to most. The table (array 1) repeats its first entries at its end. */
void fill(LabSize, int array, void *h_values, int64_t count, uint64_t seed) {
  float *values = (float *)h_values;
  const int64_t most = array ? MOST_OF_TABLE : MOST_OF_X;
  lab_draw(h_values, count, seed, array, [=](int64_t i, uint32_t random) {
    if (i < 2) return (float)(i == 0 ? -most : most);
    return (float)(random % (2 * most + 1) - most);
  });
  for (int64_t i = TABLE; array && i < count; i++) values[i] = values[i - TABLE];
}

/* ---- 1 to 4. a table in any memory -----------------------------------------------------------
   Grid: one thread per output. The type Table names the table's memory. All threads construct it.
   In an unrolled loop the addresses differ only by constants: one load and one addition per k. */

__constant__ float c_table[STORED];

/* Constant memory. Rung uniform has UNROLL = TABLE: the loop is fully unrolled, and each address is
   a constant in the code. The table's word is an operand of the addition or, on Hopper, comes from
   one uniform load for the warp. */
template <int UNROLL_> struct Constant {
  static constexpr int UNROLL = UNROLL_;
  __device__ explicit Constant(const float *) {
  }
  __device__ float read(int k) const {
    return c_table[k];
  }
};

struct ReadOnly {
  static constexpr int UNROLL = UNROLLED;
  const float *d_table;
  __device__ float read(int k) const {
    return __ldg(d_table + k);
  }
};

struct Shared {
  static constexpr int UNROLL = UNROLLED;
  const float *words;
  __device__ explicit Shared(const float *d_table) {
    __shared__ float s_table[STORED];
#pragma unroll 1
    for (int k = threadIdx.x; k < STORED; k += BLOCK) s_table[k] = d_table[k];
    __syncthreads();
    words = s_table;
  }
  __device__ float read(int k) const {
    return words[k];
  }
};

template <class Table>
__global__ void __launch_bounds__(BLOCK)
    add_table(const float *__restrict__ d_x, const float *__restrict__ d_table,
              float *__restrict__ d_out, int64_t n, int addresses) {
  const Table table{d_table};
  const int64_t i = lab_thread(BLOCK);
  if (i >= n) return;
  /* This is threadIdx.x mod `addresses`, because `addresses` is a power of two. */
  const int first = Table::UNROLL < TABLE ? threadIdx.x & (addresses - 1) : 0;
  float sum = d_x[i];
#pragma unroll Table::UNROLL
  for (int k = 0; k < TABLE; k++) sum += table.read(first + k);
  d_out[i] = sum;
}

template <class Table> cudaError_t launch_table(const LabCall *call) {
  return lab_zip(call, add_table<Table>, lab_grid(call, BLOCK), BLOCK, call->point);
}

/* A kernel cannot write constant memory, so the launcher copies 1 KB, which takes about 2 us. */
template <class Table> cudaError_t launch_constant(const LabCall *call) {
  TRY(cudaMemcpyToSymbolAsync(c_table, call->d_in[1], sizeof c_table, 0, cudaMemcpyDeviceToDevice,
                              call->stream));
  return launch_table<Table>(call);
}

const int64_t addresses[] = {1, 2, 4, 8, 16, 32};

const LabProblem problems[] = {
    {"",
     {LAB_FLOAT32, LAB_FLOAT32},
     LAB_FLOAT32,
     lab_each<TABLE>,
     reference,
     fill,
     [](LabSize size) { return 8.0 * (double)size.dim[0] + 4.0 * TABLE; }}};

const LabRung rungs[] = {
    {"constant",
     "Constant memory: one address is broadcast, several addresses are served one after the other",
     launch_constant<Constant<UNROLLED>>, [](const LabCall *call) { return (double)call->point; },
     LAB_ROWS(point, addresses)},
    {"read-only", "Global memory by the read-only path: neighbouring words are one request",
     launch_table<ReadOnly>, lab_value<1>, LAB_ROWS(point, addresses)},
    {"shared",
     "Shared memory: every bank delivers one word at a time, whatever the addresses of the others",
     launch_table<Shared>, lab_value<1>, LAB_ROWS(point, addresses)},
    {"uniform", "Constant memory at an address that the compiler knows: fetched once for the warp",
     launch_constant<Constant<TABLE>>, .points = addresses, .point_count = 1}};

} // namespace

const LabTopic lab_constant = {
    "constant",
    "Constant memory compared with the caches, by how many addresses a warp reads at once",
    "elements",
    LAB_GFLOP_PER_S,
    LAB_LADDER,
    .sizes = {lab_size(1 << 23)},
    .tested = lab_size(3000),
    .refuse = lab_refuse_grid<BLOCK>,
    .count = [](int, LabSize size, int array) { return array == 1 ? STORED : size.dim[0]; },
    .predicted_name = "requests per read",
    .point_name = "addresses per warp",
    .metric = "idc__requests.sum",
    .metric_name = "constant cache requests"};
