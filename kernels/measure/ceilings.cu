/* Kernels that do only one thing. mlp-bench and mlp-lab measure a GPU's limits with them. */
#include <cooperative_groups.h>

#include "epoch/mail.cuh"

namespace {

constexpr int BARRIER_THREADS = 256;

/* Does nothing. Its time is the cost of a launch. */
__global__ void nothing() {
}

/* Waits at `count` barriers of the whole grid, one after the other. The grid must be resident. */
__global__ void __launch_bounds__(BARRIER_THREADS) barriers(int count) {
  const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
  for (int i = 0; i < count; i++) grid.sync();
}

/* Round trips use LINES cache lines in turn. Some are in near, some in far parts of the L2. */
constexpr int LINES = 64, PACKETS_OF_LINE = 128 / sizeof(Packet);
static_assert(sizeof(Packet) * PACKETS_OF_LINE * LINES == PING_PONG_BYTES, "as kernels.h has it");

/* Two blocks, each of one thread, send each other packets. A round trip is one packet each way. */
__global__ void ping_pong(Packet *mail, uint32_t first_stamp, int round_trips) {
  for (int i = 0; i < round_trips; i++) {
    Packet *at = mail + i % LINES * PACKETS_OF_LINE;
    const uint32_t ping = first_stamp + 2 * i, pong = ping + 1;
    if (blockIdx.x == 0) {
      send(at, 0.0f, 0.0f, 0.0f, ping);
      poll_until(at, pong);
    } else {
      poll_until(at, ping);
      send(at, 0.0f, 0.0f, 0.0f, pong);
    }
  }
}

/* Keeps the arithmetic units busy with chains of fused multiply-adds. The grid can have any size.
   The store never happens, but keeps the compiler from removing the chains. */
constexpr int FMA_THREADS = 256, FMA_CHAINS = 8, FMA_STEPS = 32;
static_assert(FMA_OPERATIONS == 2.0 * FMA_THREADS * FMA_CHAINS * FMA_STEPS, "as kernels.h has it");

__global__ void __launch_bounds__(FMA_THREADS)
    multiply_adds(float *d_out, float x, float y, int rounds) {
  float chain[FMA_CHAINS];
  for (int c = 0; c < FMA_CHAINS; c++) chain[c] = static_cast<float>(threadIdx.x + c);
  for (int r = 0; r < rounds; r++) {
    unrolled (s, FMA_STEPS)
      unrolled (c, FMA_CHAINS) chain[c] = fmaf(chain[c], x, y);
  }
  float sum = 0.0f;
  for (int c = 0; c < FMA_CHAINS; c++) sum += chain[c];
  if (sum == -1.0f) *d_out = sum;
}

} // namespace

cudaError_t launch_nothing(int blocks, int threads, cudaStream_t stream) {
  REQUIRE(blocks >= 1 && threads >= 1 && threads <= 1024);
  nothing<<<blocks, threads, 0, stream>>>();
  return launched();
}

cudaError_t launch_barriers(int blocks, int count, cudaStream_t stream) {
  REQUIRE(blocks >= 1 && count >= 0);
  void *arguments[] = {&count};
  return launched(cudaLaunchCooperativeKernel((const void *)barriers, dim3(blocks),
                                              dim3(BARRIER_THREADS), arguments, 0, stream));
}

cudaError_t launch_ping_pong(void *d_mail, uint32_t first_stamp, int round_trips,
                             cudaStream_t stream) {
  REQUIRE(d_mail && first_stamp != 0 && round_trips >= 0);
  void *arguments[] = {&d_mail, &first_stamp, &round_trips};
  return launched(
      cudaLaunchCooperativeKernel((const void *)ping_pong, dim3(2), dim3(1), arguments, 0, stream));
}

cudaError_t launch_fma(float *d_out, int blocks, int rounds, cudaStream_t stream) {
  REQUIRE(d_out && blocks >= 1 && rounds >= 0);
  multiply_adds<<<blocks, FMA_THREADS, 0, stream>>>(d_out, -0.9999f, 1.0f, rounds);
  return launched();
}
