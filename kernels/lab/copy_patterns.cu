/* Copy patterns: how the pattern of addresses changes the speed. Every rung copies the same array.
   The rungs differ only in which thread copies which element and in the width of the copied words.
   GB/s counts 8 bytes per element. Memory moves sectors of 32 bytes; the prediction is how many
   sectors a request touches (docs/lab/copy_patterns.md). Rungs loads-N vary the loads in flight. */
#include "lab/lab.cuh"

#include <cmath>

namespace {

constexpr int BLOCK = 256;

template <int WIDTH> __device__ void copy_word(const float *in, float *out, int64_t i) {
  reinterpret_cast<LabWord<WIDTH> *>(out)[i] = reinterpret_cast<const LabWord<WIDTH> *>(in)[i];
}

/* Threads of the first block copy the last elements, if these do not fill a word. */
template <int WIDTH> __device__ void copy_tail(const float *in, float *out, int64_t count) {
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x < count % WIDTH)
    copy_word<1>(in, out, count - 1 - threadIdx.x);
}

/* ---- words side by side, from an offset on ---------------------------------------------------
   Grid: one thread per word. Every thread copies the word that is `offset` words after its own. The
   last threads copy the first `offset` words instead. */
template <int WIDTH>
__global__ void __launch_bounds__(BLOCK)
    shifted(const float *__restrict__ in, float *__restrict__ out, int64_t count, int64_t offset) {
  const int64_t words = count / WIDTH, thread = lab_thread(BLOCK);
  if (thread < words) {
    const int64_t i = thread + offset; /* offset < words */
    copy_word<WIDTH>(in, out, i < words ? i : i - words);
  }
  copy_tail<WIDTH>(in, out, count);
}

/* call->point, the swept value, is the offset in bytes: a multiple of a word's size. */
template <int WIDTH> cudaError_t launch_shifted(const LabCall *call) {
  const int64_t words = call->size.dim[0] / WIDTH;
  const int64_t offset = words > 0 ? call->point / (4 * WIDTH) % words : 0;
  return lab_map(call, shifted<WIDTH>, lab_grid(call, BLOCK * WIDTH), BLOCK, offset);
}

template <int WIDTH> double shifted_sectors(const LabCall *call) {
  return 4 * WIDTH + (call->point % 32 != 0);
}

/* ---- words that are `stride` apart -----------------------------------------------------------
   The words are the cells of a table that is `stride` words wide. Grid: one thread per row in x;
   blockIdx.y is the column. Neighbouring lanes have neighbouring rows. */
template <int WIDTH>
__global__ void __launch_bounds__(BLOCK)
    strided(const float *__restrict__ in, float *__restrict__ out, int64_t count) {
  const int64_t words = count / WIDTH, row = lab_thread(BLOCK);
  const int64_t i = row * gridDim.y + blockIdx.y;
  if (i < words) copy_word<WIDTH>(in, out, i);
  copy_tail<WIDTH>(in, out, count);
}

/* call->point, the swept value, is the stride in words. */
template <int WIDTH> cudaError_t launch_strided(const LabCall *call) {
  const int64_t stride = call->point;
  return lab_map(call, strided<WIDTH>, dim3(lab_grid(call, BLOCK * WIDTH * stride), stride), BLOCK);
}

/* Words are aligned to their size, so a lane never needs two sectors. */
template <int WIDTH> double strided_sectors(const LabCall *call) {
  return (double)std::min<int64_t>(4 * WIDTH * call->point, 32);
}

/* ---- words in random order ---------------------------------------------------------------------
   Grid: one thread per word. Thread i copies word shuffled(i), so neighbouring lanes have words
   that lie anywhere in the array. */

/* Returns a permutation of [0, words) at i. A multiplication by an odd number and x ^= x >> shift
   permute [0, 2^bits), where 2^bits < 2 words. A result of `words` or more is permuted again: the
   results in between belong to no other i (cycle walking; Black and Rogaway 2002). */
__device__ int64_t shuffled(uint64_t i, uint64_t words, int bits) {
  const uint64_t mask = ((uint64_t)1 << bits) - 1;
  do {
    i = i * 0x9e3779b97f4a7c15u & mask;
    i ^= i >> (bits / 2 + 1);
    i = i * 0xbf58476d1ce4e5b9u & mask;
    i ^= i >> (bits / 2 + 1);
  } while (i >= words);
  return (int64_t)i;
}

template <int WIDTH>
__global__ void __launch_bounds__(BLOCK)
    random_words_copy(const float *__restrict__ in, float *__restrict__ out, int64_t count,
                      int bits) {
  const int64_t words = count / WIDTH, thread = lab_thread(BLOCK);
  if (thread < words) copy_word<WIDTH>(in, out, shuffled(thread, words, bits));
  copy_tail<WIDTH>(in, out, count);
}

template <int WIDTH> cudaError_t launch_random(const LabCall *call) {
  int bits = 0;
  while ((int64_t)1 << bits < call->size.dim[0] / WIDTH) bits++;
  return lab_map(call, random_words_copy<WIDTH>, lab_grid(call, BLOCK * WIDTH), BLOCK, bits);
}

/* Returns how many different sectors 32 random words touch. In a long array it is 32. */
template <int WIDTH> double random_sectors(const LabCall *call) {
  const double sectors = std::max((double)call->size.dim[0] / 8, 1.0);
  return sectors * (1 - std::pow(1 - 1 / sectors, 32));
}

/* ---- an image in blocks of two dimensions ------------------------------------------------------
   The array is an image with COLUMNS columns, whose last row may be shorter. A block of `wide` x
   `high` threads copies a rectangle, a thread per pixel. Blocks at the right and lower border hang
   over the image: a thread must check its column and its row, or it would copy a pixel of the next
   row, too. The rows are along x, because a grid has at most 65535 blocks along y. */
constexpr int COLUMNS = 1000;

__global__ void __launch_bounds__(BLOCK)
    image(const float *__restrict__ in, float *__restrict__ out, int64_t count) {
  const int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
  const int column = blockIdx.y * blockDim.x + threadIdx.x;
  const int64_t i = row * COLUMNS + column;
  if (column < COLUMNS && i < count) out[i] = in[i];
}

/* call->point, the swept value, is the width of a block. */
cudaError_t launch_image(const LabCall *call) {
  const unsigned wide = (unsigned)call->point, high = BLOCK / wide;
  const int64_t rows = ceil_div(call->size.dim[0], COLUMNS);
  return lab_map(call, image, dim3(lab_blocks(rows, high), lab_blocks(COLUMNS, wide)),
                 dim3(wide, high));
}

/* A warp has 32 / wide rows of a block. Each begins in a sector, as COLUMNS is a multiple of 8. */
double image_sectors(const LabCall *call) {
  const double wide = (double)std::min<int64_t>(call->point, 32);
  return 32 / wide * std::max(wide / 8, 1.0);
}

/* ---- LOADS loads in flight per thread ---------------------------------------------------------
   The next address depends on all loaded values, because (their bits & `zero`) is added.
   `zero` is 0, but the compiler does not know that. So a thread cannot load ahead. */
template <int LOADS>
__global__ void __launch_bounds__(1024)
    in_flight(const float *__restrict__ in, float *__restrict__ out, int64_t count, unsigned zero) {
  const int64_t threads = (int64_t)gridDim.x * blockDim.x;
#pragma unroll 1
  for (int64_t i = lab_thread(blockDim.x); i < count;) {
    float value[LOADS] = {};
    unsigned all = 0;
    unrolled (n, LOADS)
      if (i + n * threads < count) value[n] = in[i + n * threads];
    unrolled (n, LOADS) all |= __float_as_uint(value[n]);
    unrolled (n, LOADS)
      if (i + n * threads < count) out[i + n * threads] = value[n];
    i += LOADS * threads + (all & zero);
  }
}

/* call->point, the swept value, is the number of threads per multiprocessor. */
template <int LOADS> cudaError_t launch_in_flight(const LabCall *call) {
  const int64_t block = std::min<int64_t>(call->point, 1024);
  return lab_map(call, in_flight<LOADS>,
                 lab_resident_grid(call, block * LOADS, call->point / block), block, 0);
}

template <int LOADS> double kilobytes_in_flight(const LabCall *call) {
  return (double)call->point * LOADS * 4 / 1024;
}

/* ---- small kernels in streams -------------------------------------------------------------------
   PARTS kernels, each with FEW blocks, copy a part of the array each. In one stream they run one
   after the other, and most multiprocessors have nothing to do. In call->point streams, so many run
   at the same time. */
constexpr int FEW = 4, PARTS = 64;

cudaError_t launch_small_kernels(const LabCall *call) {
  const int64_t count = call->size.dim[0], each = ceil_div(count, PARTS);
  const auto after = [=](cudaStream_t later, cudaStream_t earlier) {
    TRY(cudaEventRecord(call->event, earlier));
    return cudaStreamWaitEvent(later, call->event, 0);
  };
  for (int s = 0; s < call->point; s++) TRY(after(call->streams[s], call->stream));
  for (int64_t part = 0; part * each < count; part++) {
    LabCall there = *call;
    there.stream = call->streams[part % call->point];
    TRY(lab_launch(&there, in_flight<8>, FEW, 1024, 0, (const float *)call->d_in[0] + part * each,
                   (float *)call->d_out + part * each, std::min(each, count - part * each), 0));
  }
  for (int s = 0; s < call->point; s++) TRY(after(call->stream, call->streams[s]));
  return cudaSuccess;
}

cudaError_t launch_memcpy(const LabCall *call) {
  return cudaMemcpyAsync(call->d_out, call->d_in[0], sizeof(float) * (size_t)call->size.dim[0],
                         cudaMemcpyDeviceToDevice, call->stream);
}

float same(float x) {
  return x;
}

const LabProblem problems[] = {{LAB_FLOATS, lab_each<0>, lab_exactly<same>}};

/* Offsets in bytes. Sectors start at 0, 32, 64, 96 and 128. */
const int64_t OFFSETS[] = {0, 16, 32, 48, 64, 80, 96, 112, 128};
const int64_t OFFSETS_4[] = {0, 4, 8, 12, 16, 20, 24, 28, 32, 48, 64, 80, 96, 112, 124, 128};
const int64_t THREADS[] = {32, 64, 128, 256, 512, 1024, 2048};
const int64_t WIDTHS[] = {1, 2, 4, 8, 16, 32, 64, 256};
const int64_t STREAMS[] = {1, 2, LAB_STREAMS};
const int64_t STRIDES[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};

constexpr char RANDOM[] =
    "the prediction is the mean of all random orders, and this is one of them";
constexpr char CUT[] =
    "the array ends within the last rows of the table, so some lanes have no word";

const LabRung rungs[] = {
    {"offset-4",
     "A request that starts inside a sector touches five sectors instead of four, and the caches "
     "deliver the fifth",
     launch_shifted<1>, shifted_sectors<1>, LAB_ROWS(point, OFFSETS_4)},
    {"offset-8", "Words of 8 bytes: nine sectors instead of eight", launch_shifted<2>,
     shifted_sectors<2>, LAB_ROWS(point, OFFSETS)},
    {"offset-16",
     "Words of 16 bytes: 17 sectors instead of 16, a small loss if words are aligned to their size",
     launch_shifted<4>, shifted_sectors<4>, LAB_ROWS(point, OFFSETS)},
    {"stride-4",
     "From a stride of 8 on, each lane moves a sector of 32 bytes and uses 4 bytes of it",
     launch_strided<1>, strided_sectors<1>, LAB_ROWS(point, STRIDES), .differs = CUT},
    {"stride-8", "Words of 8 bytes use a quarter of each sector", launch_strided<2>,
     strided_sectors<2>, LAB_ROWS(point, STRIDES), .differs = CUT},
    {"stride-16",
     "Words of 16 bytes use half of each sector: wide words lose less by a bad pattern",
     launch_strided<4>, strided_sectors<4>, LAB_ROWS(point, STRIDES), .differs = CUT},
    {"random-4", "Words in random order: each lane moves a sector, and no cache has it for later",
     launch_random<1>, random_sectors<1>, .differs = RANDOM},
    {"random-16", "Words of 16 bytes in random order use half of each sector", launch_random<4>,
     random_sectors<4>, .differs = RANDOM},
    {"blocks-2d",
     "Threads in two dimensions fit an image, but threads beyond its border must copy nothing, and "
     "blocks narrower than 8 pixels waste sectors",
     launch_image, image_sectors, LAB_ROWS(point, WIDTHS),
     .differs = "lanes beyond the image's border copy nothing, so their warps need fewer sectors"},
    {"loads-1", "With one load per thread, full speed takes all the threads that fit",
     launch_in_flight<1>, kilobytes_in_flight<1>, LAB_ROWS(point, THREADS), .uncounted = true},
    {"loads-4", "Four loads per thread do as much as four times the threads", launch_in_flight<4>,
     kilobytes_in_flight<4>, LAB_ROWS(point, THREADS), .uncounted = true},
    {"loads-8", "With eight loads per thread a few warps are enough: the bytes in flight count",
     launch_in_flight<8>, kilobytes_in_flight<8>, LAB_ROWS(point, THREADS), .uncounted = true},
    {"small-kernels",
     "Kernels of four blocks leave the other multiprocessors idle, until streams let several run",
     launch_small_kernels, LAB_ROWS(point, STREAMS)},
    {"memcpy", "cudaMemcpyAsync from device to device", launch_memcpy, .kind = LAB_LIBRARY}};

} // namespace

const LabTopic lab_copy_patterns = {
    "copy_patterns",
    "Copy patterns: what an offset, a stride, random order, narrow words and too few loads cost",
    "elements",
    LAB_GB_PER_S,
    LAB_LADDER,
    .sizes = {lab_size(1 << 28)},
    .tested = lab_size(100000),
    .predicted_name = "sectors per request; for loads, KB in flight per multiprocessor",
    .counted = LAB_COUNTS_SECTORS,
    .point_name =
        "offset, bytes; stride, words; width of a block; threads per multiprocessor; streams",
    .metric = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
    .metric_name = "sectors per load"};
