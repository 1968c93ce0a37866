/* Transpose: out (columns x rows) = in (rows x columns), both row-major, any shape. No transpose is
   faster than a copy. Shared memory transposes a tile, so that global memory has no strided
   accesses. If lanes need different words of one of the 32 banks, they wait for each other. */
#include <climits>

#include "lab/cublas.cuh"

namespace {

void reference(const LabRange *range) {
  const float *in = (const float *)range->h_in[0];
  const int64_t rows = range->size.dim[0], columns = range->size.dim[1];
  lab_exactly(range, [=](int64_t i) { return in[i % rows * columns + i / rows]; });
}

/* A kernel takes input, output, rows and columns. It reads and writes 4 bytes per element. */
using Kernel = void(const float *__restrict__, float *__restrict__, int64_t, int64_t);

/* Launches one block of X x Y threads per tile of HEIGHT x WIDTH of the input. */
template <Kernel KERNEL, int HEIGHT, int WIDTH, int X, int Y = 1>
cudaError_t launch(const LabCall *call) {
  const int64_t columns = call->size.dim[1];
  return lab_map(call, KERNEL, lab_tiles<HEIGHT, WIDTH>(call->size.dim[0], columns), dim3(X, Y),
                 columns);
}

/* ---- 1. one thread ------------------------------------------------------------------------------
   One thread does everything, as a program for one core would: it waits for memory again and again
   while the rest of the GPU has nothing to do. Refused for large matrices. */
__global__ void __launch_bounds__(1)
    one_thread(const float *__restrict__ in, float *__restrict__ out, int64_t rows,
               int64_t columns) {
  for (int64_t row = 0; row < rows; row++)
    for (int64_t column = 0; column < columns; column++)
      out[column * rows + row] = in[row * columns + column];
}

const char *refuse_one_thread(const LabCall *call) {
  return call->size.dim[0] * call->size.dim[1] > 1 << 20
             ? "one thread would take seconds: it takes at most 2^20 elements"
             : nullptr;
}

/* ---- 2. one thread per row ----------------------------------------------------------------------
   Thread: a row of the input. Lanes write neighbours but read values that are a row apart: a load
   touches 32 sectors and uses 4 bytes of each. Small blocks spread over many multiprocessors. */
constexpr int ROW_BLOCK = 64;

__global__ void __launch_bounds__(ROW_BLOCK)
    row_a_thread(const float *__restrict__ in, float *__restrict__ out, int64_t rows,
                 int64_t columns) {
  const int64_t row = lab_thread(ROW_BLOCK);
  for (int64_t column = 0; row < rows && column < columns; column++)
    out[column * rows + row] = in[row * columns + column];
}

/* ---- 3. one thread per element ------------------------------------------------------------------
   Block: 8 x 32 elements. Warp: 32 neighbours of a row. Loads now use whole sectors. But a store
   writes 4 bytes in each of 32 sectors. It costs more than a load of 32 sectors, because the
   first-level cache passes all writes on. */
constexpr int ELEMENT_ROWS = 8, ELEMENT_COLUMNS = 32;

__global__ void __launch_bounds__(ELEMENT_ROWS *ELEMENT_COLUMNS)
    element_a_thread(const float *__restrict__ in, float *__restrict__ out, int64_t rows,
                     int64_t columns) {
  const auto corner = lab_corner<ELEMENT_ROWS, ELEMENT_COLUMNS>(columns);
  const int64_t row = corner.row + threadIdx.y, column = corner.column + threadIdx.x;
  if (row < rows && column < columns) out[column * rows + row] = in[row * columns + column];
}

/* ---- 4. to 7. a tile in shared memory -----------------------------------------------------------
   Block: a tile of SIDE x SIDE elements. Warp: loads neighbours of a row, then stores a column as
   neighbours of a row of the output. Thread: SIDE / DOWN elements, all in flight. To read a column,
   <SIDE, PADDING, DOWN> = <32, 0, 32> takes 32 wavefronts, <16, 0, 16> takes 8, <32, 1, 32> takes
   1. In <32, 1, 32> 1024 threads wait at one barrier; in <32, 1, 8> only 256 threads do. */
template <int SIDE, int PADDING, int DOWN>
__global__ void __launch_bounds__(SIDE *DOWN)
    tile(const float *__restrict__ in, float *__restrict__ out, int64_t rows, int64_t columns) {
  __shared__ float shared[SIDE][SIDE + PADDING];
  const auto corner = lab_corner<SIDE, SIDE>(columns);
  const int x = threadIdx.x, y = threadIdx.y;
  float loaded[SIDE / DOWN];
  unrolled (k, SIDE / DOWN) {
    const int64_t row = corner.row + y + k * DOWN, column = corner.column + x;
    loaded[k] = row < rows && column < columns ? in[row * columns + column] : 0.0f;
  }
  unrolled (k, SIDE / DOWN) shared[y + k * DOWN][x] = loaded[k];
  __syncthreads();
  unrolled (k, SIDE / DOWN) {
    const int64_t row = corner.row + x, column = corner.column + y + k * DOWN;
    if (row < rows && column < columns) out[column * rows + row] = shared[x][y + k * DOWN];
  }
}

template <int SIDE, int PADDING, int DOWN>
constexpr auto launch_tile = launch<tile<SIDE, PADDING, DOWN>, SIDE, SIDE, SIDE, DOWN>;

/* ---- 8. words of 16 bytes -----------------------------------------------------------------------
   Block: a tile of 64 x 64, 256 threads. Thread: a patch of 4 x 4, which it transposes in its
   registers. Patches go through shared memory, so that half a warp stores 256 neighbouring bytes.
   The tile is swizzled instead of padded: word w of row r is at place w ^ (r / 4 % 16). So the
   16-byte words of eight lanes are in 32 different banks. If a side is not a multiple of 4, rows
   are not aligned to words, and the kernel of rung 7 runs instead. */
constexpr int SIDE = 64, WORD = 4, WORDS = SIDE / WORD; /* words per row of the tile */

__global__ void __launch_bounds__(WORDS *WORDS)
    words(const float *__restrict__ in, float *__restrict__ out, int64_t rows, int64_t columns) {
  __shared__ LabWord<4> shared[SIDE]
                              [WORDS]; /* [column of the input][word along the rows], swizzled */
  const auto corner = lab_corner<SIDE, SIDE>(columns);
  const int x = threadIdx.x, y = threadIdx.y;

  LabWord<4> patch[WORD] = {}; /* rows 4 y .. 4 y + 3, columns 4 x .. 4 x + 3 */
  unrolled (k, WORD) {
    const int64_t row = corner.row + WORD * y + k, column = corner.column + WORD * x;
    if (row < rows && column < columns)
      patch[k] = *reinterpret_cast<const LabWord<4> *>(in + row * columns + column);
  }
  const int place = y ^ x; /* where word y is in rows 4 x to 4 x + 3 of `shared` */
  unrolled (k, WORD) {
    const LabWord<4> word = {patch[0].value[k], patch[1].value[k], patch[2].value[k],
                             patch[3].value[k]};
    shared[WORD * x + k][place] = word;
  }
  __syncthreads();
  unrolled (k, WORD) {
    const int across = y + k * WORDS; /* column of the tile: a row of the output */
    const int64_t row = corner.row + WORD * x, column = corner.column + across;
    if (row < rows && column < columns)
      *reinterpret_cast<LabWord<4> *>(out + column * rows + row) =
          shared[across][x ^ across / WORD];
  }
}

cudaError_t launch_words(const LabCall *call) {
  if (call->size.dim[0] % WORD || call->size.dim[1] % WORD) return launch_tile<32, 1, 8>(call);
  return launch<words, SIDE, SIDE, WORDS, WORDS>(call);
}

/* cuBLAS is column-major, so it sees our input as columns x rows. It adds a second matrix times 0.
   The pointer to that matrix must be valid, so it is `in`. */
cudaError_t launch_cublas_geam(const LabCall *call) {
  return lab_cublas(call, [=](cublasHandle_t handle) {
    const int rows = (int)call->size.dim[0], columns = (int)call->size.dim[1];
    const float *in = (const float *)call->d_in[0], one = 1.0f, zero = 0.0f;
    return cublasSgeam(handle, CUBLAS_OP_T, CUBLAS_OP_N, rows, columns, &one, in, columns, &zero,
                       in, rows, (float *)call->d_out, rows);
  });
}

const LabProblem problems[] = {{LAB_FLOATS, lab_each<0>, reference}};

/* Predicts wavefronts per request to the tile; the rung `words` predicts them per eight lanes. */
const LabRung rungs[] = {
    {"one-thread", "One thread for the whole matrix: nothing hides the latency of its loads",
     launch<one_thread, INT_MAX, INT_MAX, 1>, .refuse = refuse_one_thread},
    {"thread-a-row",
     "One thread per row: too few threads, and each load of a warp touches 32 sectors",
     launch<row_a_thread, ROW_BLOCK, INT_MAX, ROW_BLOCK>},
    {"thread-an-element",
     "One thread per element: loads are whole sectors, but each store touches 32 sectors, which "
     "costs more than such loads",
     launch<element_a_thread, ELEMENT_ROWS, ELEMENT_COLUMNS, ELEMENT_COLUMNS, ELEMENT_ROWS>},
    {"tile-32",
     "A tile is transposed in shared memory: loads and stores are whole sectors, but 32 lanes want "
     "one bank",
     launch_tile<32, 0, 32>, lab_value<32>},
    {"tile-16", "A smaller tile: fewer lanes per bank, but half a line of memory per row",
     launch_tile<16, 0, 16>, lab_value<8>},
    {"padded",
     "An unused column puts a column's words into 32 different banks; a block of 1024 threads "
     "still waits at its barrier",
     launch_tile<32, 1, 32>, lab_value<1>},
    {"four-a-thread",
     "Four elements per thread: smaller blocks, and each thread has four loads in flight",
     launch_tile<32, 1, 8>, lab_value<1>},
    {"words",
     "Words of 16 bytes everywhere: registers transpose patches of 4 x 4, and a swizzle replaces "
     "the padding",
     launch_words, lab_value<1>},
    {"cublas-geam", "cublasSgeam with the second matrix times 0", launch_cublas_geam,
     .kind = LAB_LIBRARY, .refuse = [](const LabCall *call) {
       const int64_t longer = std::max(call->size.dim[0], call->size.dim[1]);
       return longer > INT32_MAX ? "it counts in 32 bits" : nullptr;
     }}};

} // namespace

const LabTopic lab_transpose = {
    "transpose",
    "Transpose: shared memory transposes a tile, and lanes must spread over its banks",
    "rows x columns",
    LAB_GB_PER_S,
    LAB_LADDER,
    .sizes = {lab_size(8192, 8192), lab_size(1024, 1024), lab_size(2048, 2048),
              lab_size(4096, 4096), lab_size(16384, 16384)},
    .tested = lab_size(300, 300),
    .predicted_name = "turns of the banks",
    .counted = LAB_COUNTS_TILE,
    .metric = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    .metric_name = "bank conflicts of loads"};
