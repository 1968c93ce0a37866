/* Prepares the steps of a launch of level `epoch`. gather_kernel puts pixels into the order in
   which a step reads them, and computes StepNumbers. k_kernel computes products of pixels.
   keeps_kernel computes which units dropout keeps. Each kernel has one block per step. */
#include "epoch/tiles_layout.cuh"

namespace tiles {

constexpr int PREPARE_THREADS = 512;

/* Writes each step's labels, StepNumbers and pixels. Pixels become (chunk of 16 inputs, row, 16
   bytes), with 0 in rows beyond the step's last row and after the last input. */
__global__ void __launch_bounds__(PREPARE_THREADS)
    gather_kernel(BatchView of, StepState state, float ema, int inputs, uint32_t batch, int rows,
                  uint4 *pixels, uint8_t *labels, float4 *numbers) {
  const uint32_t step = blockIdx.x, first = state.position + step * batch;
  const int exist = min(batch, state.end - first);
  for (int i = threadIdx.x; i < ALL_CHUNKS * rows; i += PREPARE_THREADS) {
    const int chunk = i / rows, row = i % rows, left = inputs - chunk * 16;
    uint4 bytes = {};
    if (row < exist && left > 0) {
      bytes = *reinterpret_cast<const uint4 *>(
          of.d_pixels + (size_t)of.d_order[first + row] * of.stride + chunk * 16);
      unrolled (w, 4) {
        const int keep = left - 4 * w; /* how many bytes of this word are inputs */
        if (keep < 4) (&bytes.x)[w] &= keep <= 0 ? 0u : 0xffffffffu >> 8 * (4 - keep);
      }
    }
    pixels[(size_t)step * ALL_CHUNKS * rows + i] = bytes;
  }
  for (int i = threadIdx.x; i < exist; i += PREPARE_THREADS)
    labels[(size_t)step * batch + i] = (uint8_t)of.d_labels[of.d_order[first + i]];
  if (threadIdx.x > 0) return;
  const uint32_t updates = state.updates + first / batch;
  const OptimizerStep now = optimizer_step(state.rule, state.learning_rate, updates);
  const float keeps = ema > 0.0f ? optimizer_average_keeps(ema, updates) : 1.0f;
  numbers[step] = {now.step, now.second_root, 1.0f - keeps, 0.0f};
}

/* k_kernel computes K, the dot product of each row r of the next step with each row s of this step.
   The bias's input, 1, counts as an input. The chain reads K as (r / 8, s / 16, lane), with two
   terms of each dot product. A warp computes 16 rows r times 32 rows s. Dot products of bytes are
   exact integers; `value` converts them to dot products of the network's inputs. */
__global__ void k_kernel(Job job, int rows) {
#if __CUDA_ARCH__ >= 800 /* plan_tiles refuses older GPUs */
  const int step = blockIdx.x;
  if ((job.first_step + step + 1) % EPOCH_DIRECT == 0) return; /* a direct step needs no K */
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int across = rows / 32, m = warp / across, half = warp % across;
  const uint8_t *s_rows = job.pixels + (size_t)step * ALL_CHUNKS * 16 * rows,
                *r_rows = s_rows + (size_t)ALL_CHUNKS * 16 * rows;
  const bool offset = job.pixel_offset != 0.0f;
  int c[4][4] = {}, of_r[4] = {}, of_s[4][4] = {}; /* of_r, of_s: pixel sums of rows r, s */
  constexpr uint32_t ONE = 0x01010101;
  for (int chunk = 0; chunk < ALL_CHUNKS; chunk += 2) {
    const auto at = [&](const uint8_t *of, int row, int more) {
      return chunk + more < ALL_CHUNKS ? *reinterpret_cast<const uint32_t *>(
                                             of + ((chunk + more) * rows + row) * 16 + 4 * t)
                                       : 0u;
    };
    const uint32_t a[4] = {at(r_rows, m * 16 + g, 0), at(r_rows, m * 16 + g + 8, 0),
                           at(r_rows, m * 16 + g, 1), at(r_rows, m * 16 + g + 8, 1)};
    if (offset) mma_m16n8k32(of_r, a, ONE, ONE);
    unrolled (n, 4) {
      const int row = half * 32 + n * 8 + g;
      const uint32_t b[2] = {at(s_rows, row, 0), at(s_rows, row, 1)};
      mma_m16n8k32(c[n], a, b[0], b[1]);
      if (offset) mma_m16n8k32(of_s[n], {ONE, ONE, ONE, ONE}, b[0], b[1]);
    }
  }
  const float f = job.pixel_factor, o = job.pixel_offset;
  const auto value = [&](int n, int e, int i) {
    const float sums = (float)(of_r[2 * e] + of_s[n][i]);
    return (fmaf((float)c[n][2 * e + i], f * f, 1.0f) + o * (job.size[0] * o - f * sums)) *
           job.k_scale;
  };
  uint4 *to = const_cast<uint4 *>(job.k) + (size_t)step * (rows / 8) * (rows / 16) * 32 + lane;
  unrolled (e, 2)
    unrolled (q, 2) {
      uint4 p;
      p.x = split(value(2 * q, e, 0), value(2 * q, e, 1), p.z);
      p.y = split(value(2 * q + 1, e, 0), value(2 * q + 1, e, 1), p.w);
      to[((m * 2 + e) * (rows / 16) + half * 2 + q) * 32] = p;
    }
#endif
}

/* Writes a byte per (step, tile of all layers, row). Bit g is 1 if dropout keeps unit g. */
__global__ void __launch_bounds__(PREPARE_THREADS)
    keeps_kernel(Job job, StepState state, int rows, uint8_t *keeps) {
  const uint32_t step = blockIdx.x, first = state.position + step * job.batch;
  for (int i = threadIdx.x; i < job.all_tiles * rows; i += PREPARE_THREADS) {
    const int row = i % rows, tile = i / rows;
    int layer = 1;
    while (layer + 1 < job.layers && tile >= job.first_tile[layer + 1]) layer++;
    uint32_t kept = 0;
    unrolled (half, 2) {
      const uint32_t group = (tile - job.first_tile[layer]) * 2 + half;
      const RandomWords words = random_dropout(state.dropout_key, layer, first + row, group);
      unrolled (e, 4) kept |= !random_drops(words.word[e], job.drop[layer]) << (4 * half + e);
    }
    keeps[(size_t)step * job.all_tiles * rows + i] = (uint8_t)kept;
  }
}

cudaError_t prepare(const TilesPlan &plan, const Job &job, const BatchView &batch,
                    const StepState &state, cudaStream_t stream) {
  const int rows = plan.rows;
  const auto start = [&](auto kernel, int steps, int threads, const auto &...arguments) {
    return launch_with(nullptr, 0, kernel, steps, threads, 0, stream, arguments...);
  };
  TRY(start(gather_kernel, job.steps, PREPARE_THREADS, batch, state, plan.ema, job.size[0],
            (uint32_t)job.batch, rows, (uint4 *)job.pixels, (uint8_t *)job.labels,
            (float4 *)job.numbers));
  if (job.k && job.steps > 1) TRY(start(k_kernel, job.steps - 1, rows * rows / 16, job, rows));
  if (!job.keeps) return cudaSuccess;
  return start(keeps_kernel, job.steps, PREPARE_THREADS, job, state, rows, (uint8_t *)job.keeps);
}

} // namespace tiles
