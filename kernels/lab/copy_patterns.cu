/* Copy patterns: what an address costs. Every rung copies the same array to the same place, element
   for element; only which thread copies which element changes, and how wide its word is.

   GB/s counts the useful traffic, 8 bytes per element. Memory moves in sectors of 32 bytes. A warp
   with words of w bytes wants w sectors if these contain nothing else:

   - offset: the words lie side by side, but start some bytes off a sector's edge. A request touches
     w + 1 sectors; the neighbouring warp wants the extra one, too, and the caches give most of it
     back.
   - stride: neighbouring lanes are s words apart. A request touches min(32, w s) sectors. The rest
     of a sector is asked for a whole pass over the array later, when no cache has it any more. Wide
     words waste less: 4 bytes end at 1/8, 8 bytes at 1/4, 16 bytes at 1/2.

   A stride can cost more than the sectors say: before a sector written in part goes back to memory,
   the rest of it may have to be read. dram__bytes.sum tells what was really moved. */
#include "lab/lab.cuh"

namespace {

constexpr int BLOCK = 256;

template <int WIDTH> __device__ void copy_word(const float *in, float *out, int64_t i) {
  reinterpret_cast<LabWord<WIDTH> *>(out)[i] = reinterpret_cast<const LabWord<WIDTH> *>(in)[i];
}

/* The last elements, fewer than a word, by threads of the first block. */
template <int WIDTH> __device__ void copy_tail(const float *in, float *out, int64_t count) {
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x < count % WIDTH)
    copy_word<1>(in, out, count - 1 - threadIdx.x);
}

/* ---- words side by side, from an offset on ---------------------------------------------------
   Grid: all words, one thread each. Lane: the word next to its neighbour's. Every warp starts
   `offset` words later than it otherwise would; the words before that are copied by the last
   threads. */
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

/* The point is the offset in bytes, a multiple of the word. */
template <int WIDTH> cudaError_t launch_shifted(const LabCall *call) {
  const int64_t count = call->size.dim[0], words = count / WIDTH;
  const int64_t offset = words > 0 ? call->point / (4 * WIDTH) % words : 0;
  return lab_map(call, shifted<WIDTH>, lab_blocks(count, BLOCK * WIDTH), BLOCK, count, offset);
}

template <int WIDTH> double shifted_sectors(const LabCall *call) {
  return 4 * WIDTH + (call->point % 32 != 0);
}

/* ---- words some strides apart ----------------------------------------------------------------
   The words are the cells of a table `stride` wide. Grid: blockIdx.y is the column, blockIdx.x goes
   down the rows; blocks start in the order of x, so the table is copied column after column. Lane:
   the row below its neighbour's. A pass down one column touches more lines than the caches have. */
template <int WIDTH>
__global__ void __launch_bounds__(BLOCK)
    strided(const float *__restrict__ in, float *__restrict__ out, int64_t count) {
  const int64_t words = count / WIDTH, row = lab_thread(BLOCK);
  const int64_t i = row * gridDim.y + blockIdx.y;
  if (i < words) copy_word<WIDTH>(in, out, i);
  copy_tail<WIDTH>(in, out, count);
}

/* The point is the stride in words. */
template <int WIDTH> cudaError_t launch_strided(const LabCall *call) {
  const int64_t count = call->size.dim[0], stride = call->point;
  return lab_map(call, strided<WIDTH>, dim3(lab_blocks(count, BLOCK * WIDTH * stride), stride),
                 BLOCK, count);
}

/* As words are aligned to their size, a lane never needs two sectors. */
template <int WIDTH> double strided_sectors(const LabCall *call) {
  return (double)std::min<int64_t>(4 * WIDTH * call->point, 32);
}

cudaError_t launch_memcpy(const LabCall *call) {
  return cudaMemcpyAsync(call->d_out, call->d_in[0], sizeof(float) * (size_t)call->size.dim[0],
                         cudaMemcpyDeviceToDevice, call->stream);
}

float same(float x) {
  return x;
}

const LabProblem problems[] = {{LAB_FLOATS, lab_each<0>, lab_exactly<same>}};

/* Bytes. 0, 32, 64, 96 and 128 are on a sector's edge. */
const int64_t OFFSETS[] = {0, 16, 32, 48, 64, 80, 96, 112, 128};
const int64_t OFFSETS_4[] = {0, 4, 8, 12, 16, 20, 24, 28, 32, 48, 64, 80, 96, 112, 124, 128};
const int64_t STRIDES[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};

const LabRung rungs[] = {
    {"offset-4",
     "Off a sector's edge a request touches five sectors instead of four, and the "
     "caches give the fifth back",
     launch_shifted<1>, shifted_sectors<1>, LAB_ROWS(point, OFFSETS_4)},
    {"offset-8", "Words of 8 bytes: nine sectors instead of eight", launch_shifted<2>,
     shifted_sectors<2>, LAB_ROWS(point, OFFSETS)},
    {"offset-16",
     "Words of 16 bytes: seventeen instead of sixteen, not worth a thought as long as "
     "words are aligned to their size",
     launch_shifted<4>, shifted_sectors<4>, LAB_ROWS(point, OFFSETS)},
    {"stride-4", "From a stride of 8 on each lane moves a sector of 32 bytes for 4 of them",
     launch_strided<1>, strided_sectors<1>, LAB_ROWS(point, STRIDES)},
    {"stride-8", "Words of 8 bytes use a quarter of what is moved", launch_strided<2>,
     strided_sectors<2>, LAB_ROWS(point, STRIDES)},
    {"stride-16", "Words of 16 bytes use half: if the pattern must be bad, let the words be wide",
     launch_strided<4>, strided_sectors<4>, LAB_ROWS(point, STRIDES)},
    {"memcpy", "cudaMemcpyAsync from device to device", launch_memcpy, .kind = LAB_LIBRARY}};

} // namespace

const LabTopic lab_copy_patterns = {
    "copy_patterns",
    "Copy patterns: what an offset, a stride and the width of a word cost",
    "elements",
    LAB_GB_PER_S,
    LAB_LADDER,
    .sizes = {{{1 << 28, 1, 1}}},
    .tested = {{100000, 1, 1}},
    .predicted_name = "sectors per request",
    .point_name = "offset, bytes; stride, words",
    .metric = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
    .metric_name = "sectors per load"};
