/* What a GPU can do at most, for mlp-bench: kernels that do one thing and nothing else. */
#include <cooperative_groups.h>

#include "mail.cuh"

namespace {

constexpr int BARRIER_THREADS = 256;

__global__ void nothing() {
}

/* Crosses barriers of the whole grid, one after the other. */
__global__ void __launch_bounds__(BARRIER_THREADS) barriers(int count) {
  const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
  for (int i = 0; i < count; i++) grid.sync();
}

/* Packets lie on lines of their own, and take turns over several: each line belongs to another
   part of the L2 cache, nearer to one block or the other. */
constexpr int LINES = 64, PACKETS_OF_LINE = 128 / sizeof(Packet);
static_assert(sizeof(Packet) * PACKETS_OF_LINE * LINES == PING_PONG_BYTES, "as kernels.h has it");

__device__ void wait_for(const Packet *at, uint32_t stamp) {
  uint32_t looks = 0;
  while (look(at).stamp != stamp) lose_patience(looks);
}

/* Two blocks of one thread: the first sends, the second answers. A line is written by both in
   turns, so a round trip is two packets through the L2 and nothing else. */
__global__ void ping_pong(Packet *mail, uint32_t first_stamp, int round_trips) {
  for (int i = 0; i < round_trips; i++) {
    Packet *at = mail + i % LINES * PACKETS_OF_LINE;
    const uint32_t ping = first_stamp + 2 * i, pong = ping + 1;
    if (blockIdx.x == 0) {
      send(at, 0.0f, 0.0f, 0.0f, ping);
      wait_for(at, pong);
    } else {
      wait_for(at, ping);
      send(at, 0.0f, 0.0f, 0.0f, pong);
    }
  }
}

} // namespace

cudaError_t launch_nothing(int blocks, int threads, cudaStream_t stream) {
  if (blocks < 1 || threads < 1 || threads > 1024) return cudaErrorInvalidValue;
  nothing<<<blocks, threads, 0, stream>>>();
  return launched();
}

cudaError_t launch_barriers(int blocks, int count, cudaStream_t stream) {
  if (blocks < 1 || count < 0) return cudaErrorInvalidValue;
  void *arguments[] = {&count};
  const cudaError_t status = cudaLaunchCooperativeKernel(
      (const void *)barriers, dim3(blocks), dim3(BARRIER_THREADS), arguments, 0, stream);
  return launched(status);
}

cudaError_t launch_ping_pong(void *d_mail, uint32_t first_stamp, int round_trips,
                             cudaStream_t stream) {
  if (!d_mail || first_stamp == 0 || round_trips < 0) return cudaErrorInvalidValue;
  void *arguments[] = {&d_mail, &first_stamp, &round_trips};
  const cudaError_t status =
      cudaLaunchCooperativeKernel((const void *)ping_pong, dim3(2), dim3(1), arguments, 0, stream);
  return launched(status);
}
