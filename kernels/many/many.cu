/* Level `epoch` for training many networks at once: one cluster of 16 blocks trains one network. It
   supports two hidden layers, batches up to 64 and SGD with momentum. tiles.cu trains a single
   network faster, on many clusters. Each network has its own launch in its own stream; 7 or 8
   networks run at a time. Blocks of a cluster can access each other's shared memory, so a step
   needs neither messages through global memory nor a grid barrier.

   - A block has 18 to 20 units of hidden layer 1 for all rows: rows of W1, columns of W2, and b1.
     From Z2 to dZ3 it has four rows of the batch, and seven columns of W3. All blocks have b3; only
     the first block has b2.
   - A warpgroup has 192 of 784 inputs, for Z1 and the update of W1. Warpgroup 0 also has the
     last 16. Each warpgroup has 32 units of hidden layer 2 and one of the block's four rows.
   - A thread has 30 weights of W1 in registers, with 18 of their momenta; the other 12 momenta are
     in shared memory. Its four weights of W2 and their momenta stay in the L2 cache between uses.

     pixels  --->  Z1, H1 of own units  --->  part of Z2 of all rows
     (a row to all blocks)                      |  exchange 1: 1,600 bytes to each block
                                                v
                       sum of 16 parts, H2, logits, softmax, dZ3 of own rows
                                                |  exchange 2: 496 bytes to each block
                                                v
     W1  <---  dZ1 of own units  <---  dZ2 of all rows, made anew by every block from dZ3 and W3

   Exchange 3 sends new columns of W3. It must arrive before the next exchange 1. A block sends
   exchange 3 after it has read the last exchange 1, so the next exchange 1 overwrites nothing
   unread. Blocks send dZ3 and the signs of H2, because dZ2 would take another 1,600 bytes. The
   tensor cores multiply two fp16 terms of each number; three products give float32's accuracy. A
   pixel needs one term: with 0 as its high byte, it is exact as a subnormal fp16. The kernel checks
   for numbers beyond fp16's range before ReLU, in logits, and at the end in the parameters.

   A step of a block takes 19,000 cycles. Counted as if nothing overlapped, it spends 3,300 on
   tensor cores, 5,000 on shared memory, 9,600 on instructions and 3,100 on exchanges.
   docs/fusion.md has the lesson. All sums have a fixed order, so the bits do not depend on how the
   steps are divided into launches. */
#include "many/backward.cuh"

namespace many {

extern __shared__ __align__(128) unsigned char shared_memory[];

/* A block writes the dataset rows and labels of a step. Rows beyond the end get NO_LABEL. */
__global__ void pack_kernel(const __grid_constant__ Job job) {
  const uint32_t batch = job.shape.batch, first = job.position + blockIdx.x * batch,
                 r = threadIdx.x;
  const bool exists = r < batch && first + r < job.end;
  const uint32_t row = job.d_order[exists ? first + r : first];
  const uint32_t label = exists ? job.d_labels[row] : NO_LABEL;
  job.rows[blockIdx.x * ROWS + r] = row | label << ROW_BITS;
}

/* Loads the block's parameters and momenta from global memory if LOADS, else stores them there. */
template <bool LOADS> __device__ inline void move(const Job &job, Shared &s, OwnW1 &own) {
  const int thread = threadIdx.x, rank = cluster_rank();
  const Lanes l = lanes();
  const ManyShape &shape = job.shape;
  const int first = part_start(shape.hidden1, rank, BLOCKS),
            units = part_start(shape.hidden1, rank + 1, BLOCKS) - first;
  const auto move_one = [&](float &w, float &v, bool exists, size_t at, float scale, float v_scale,
                            float end) {
    if (LOADS) {
      w = exists ? __ldcg(job.d_parameters + at) * scale : 0;
      v = exists ? __ldcg(job.d_momentum + at) * v_scale : 0;
    } else if (exists) {
      job.d_parameters[at] = w / scale;
      job.d_momentum[at] = v / v_scale;
      watch(s, end, w);
    }
  };
  const auto move_w1 = [&](float &w, float &v, int unit, int input) {
    move_one(w, v, unit < units && input < shape.inputs,
             job.weight[0] + (size_t)(first + unit) * shape.inputs + input, W1_SCALE,
             W1_SCALE / GRADIENT, FP16_END);
  };
  unrolled (i, TILE) {
    const int k = i % 5, unit = k < 4 ? k / 2 * 8 + 2 * l.q + k % 2 : 16 + l.q;
    const int input = 64 * (3 * l.group + i / 10) + 16 * l.w + 2 * l.g + i / 5 % 2;
    move_w1(own.w[i], i < HELD ? own.v[i] : s.momentum[max(i - HELD, 0)][thread], unit, input);
  }
  for (int i = thread; i < 16 * UNITS; i += THREADS)
    move_w1((&s.last_w1[0][0][0])[i], (&s.last_w1[1][0][0])[i], i % UNITS, LAST_INPUTS + i / UNITS);
  if (thread < UNITS)
    move_one(s.b1[0][thread], s.b1[1][thread], thread < units, job.bias[0] + first + thread, 1, 1,
             INFINITY);
  if (thread < HIDDEN2 * UNITS / 4) {
    float w2[8];
    const int column = thread / 5;
    if (!LOADS) fetch_w2(job, thread, w2);
    unrolled (k, 4) {
      const int unit = thread % 5 * 4 + k;
      move_one(w2[k], w2[4 + k], unit < units && column < shape.hidden2,
               job.weight[1] + (size_t)column * shape.hidden1 + first + unit, 1, 1,
               FP16_END / W2_SCALE);
    }
    if (LOADS) store_w2(job, s, thread, w2);
  }
  if (thread < HIDDEN2)
    move_one(s.b2[0][thread], s.b2[1][thread], rank == 0 && thread < shape.hidden2,
             job.bias[1] + thread, 1, 1, FP16_END / W2_SCALE);
  if (thread < 8 * CLASSES) {
    const int class_ = thread / 8, slot = thread % 8, column = OWN_COLUMNS * rank + slot;
    const bool bias = slot == OWN_COLUMNS, stores = LOADS || !bias || rank == 0;
    move_one(s.own_w3[0][class_][slot], s.own_w3[1][class_][slot],
             class_ < shape.classes && (bias || column < shape.hidden2) && stores,
             bias ? job.bias[2] + class_ : job.weight[2] + (size_t)class_ * shape.hidden2 + column,
             1, 1, bias ? INFINITY : FP16_END / W3_SCALE);
  }
}

template <class T> __device__ inline void clear(T &what) {
  for (int i = threadIdx.x; i < (int)sizeof(T) / 4; i += THREADS) ((uint32_t *)&what)[i] = 0;
}

/* Prepares terms, constants, copies of W3 and row numbers for the first step. */
__device__ inline void prepare(const Job &job, Shared &s, const OwnW1 &own) {
  const int thread = threadIdx.x, rank = cluster_rank();
  const Lanes l = lanes();
  unrolled (i, 6)
    store_w1(w1_at(s, l, 12 * l.group + l.w + 4 * (i / 2)) + i % 2 * 16, own.w + 5 * i);
  for (int i = thread; i < 2 * (HIDDEN2 + 1) * (CLASSES + 2); i += THREADS) {
    const int k = i % (CLASSES + 2), column = i / (CLASSES + 2) % (HIDDEN2 + 1);
    const bool exists = k < job.shape.classes && column < job.shape.hidden2;
    const float *w3 = job.d_parameters + job.weight[2];
    (&s.w3[0][0][0])[i] =
        split(exists ? __ldcg(w3 + (size_t)k * job.shape.hidden2 + column) * W3_SCALE : 0);
  }
  __syncthreads();
  if (l.warp == 0)
    unrolled (i, 2) {
      const float *w = s.last_w1[0][2 * l.g + i];
      const float units[5] = {w[2 * l.q], w[2 * l.q + 1], w[8 + 2 * l.q], w[9 + 2 * l.q],
                              w[16 + l.q]};
      store_w1(w1_at(s, l, K_STEPS - 1) + 16 * i, units);
    }
  if (thread < ROWS) *(uint16_t *)(s.h1 + thread * H1_PITCH + 2 * UNITS) = HALF_64;
  if (rank == 0 && thread < HIDDEN2) store_b2(s, thread);
  if (thread < CLASSES) s.b3[thread] = s.own_w3[0][thread][OWN_COLUMNS];
  if (thread < OWN_COLUMNS * CLASSES)
    s.w3_out[thread / CLASSES][thread % CLASSES] =
        split(s.own_w3[0][thread % CLASSES][thread / CLASSES] * W3_SCALE);
  if (thread < 2 * OWN_ROWS) {
    const int step = thread / OWN_ROWS, r = thread % OWN_ROWS;
    s.rows[step][r] = step < job.steps ? rows_of(job, step)[r] : 0;
  }
  shared_is_written();
}

/* Trains the network on all steps of the job. The grid is one cluster. */
__global__ void __launch_bounds__(THREADS, 1) many_kernel(const __grid_constant__ Job job) {
#ifdef HAVE_SM_90A /* in other builds many_clusters() is 0, so launch_many() fails */
  Shared &s = *reinterpret_cast<Shared *>(shared_memory);
  OwnW1 own;
  pdl_wait();
  if (threadIdx.x == 0) {
    for (uint64_t &barrier : s.came) barrier_init(&barrier, 1);
    barriers_are_ready();
    expect(s, PIXELS), expect(s, PARTS_OF_Z2), expect(s, HEADS), expect(s, NEW_W3);
    s.overflowed = 0;
  }
  clear(s.h1), clear(s.w2), clear(s.heads), clear(s.h2_in), clear(s.head), clear(s.h2_out);
  clear(s.w3_out);
  __syncthreads();
  move<true>(job, s, own);
  prepare(job, s, own);
  cluster_fence();
  if (threadIdx.x % GROUP == 0) copy_row(job, s, 0, 0, threadIdx.x / GROUP);
#pragma unroll 1
  for (int step = 0, turn = 0; step < job.steps; step++, turn ^= 1) {
    make_z1(job, s, step, turn);
    __syncthreads();
    make_h1(s, step, turn);
    __syncthreads();
    multiply_h1(s);
    __syncthreads();
    make_dz3(job, s, step, turn);
    __syncthreads();
    float w2[8];
    {
      uint32_t w3[4][4];
      exchange_heads(job, s, step, turn, w3);
      make_parts(job, s, w3, w2);
    }
    __syncthreads();
    update_upper(job, s, step, w2);
    __syncthreads();
    update_first(job, s, turn, own);
  }
  __syncthreads();
  move<false>(job, s, own);
  __syncthreads();
  if (threadIdx.x == 0 && s.overflowed) atomicOr(job.d_overflowed, 1u);
  cluster_fence(); /* no block may end while others still copy from or to its shared memory */
#endif
}

constexpr size_t W2_BYTES = BLOCKS * 8 * THREADS * sizeof(float);

} // namespace many

using namespace many;

int many_takes(ManyShape shape) {
  return ACTIVATION_IS_RELU &&
         positive(shape.inputs, shape.hidden1, shape.hidden2, shape.classes, shape.batch) &&
         shape.inputs <= INPUTS && shape.hidden1 <= BLOCKS * UNITS && shape.hidden2 <= HIDDEN2 &&
         shape.classes <= CLASSES && shape.batch <= ROWS;
}

int many_clusters(void) {
  if (wide_by() != WIDE_BY_WGMMA) return 0;
  return ask_once([] {
    int clusters = 0;
    const bool known =
        allow_shared(many_kernel, sizeof(Shared)) == cudaSuccess &&
        allow_large_clusters(many_kernel) == cudaSuccess &&
        ask_clusters(many_kernel, THREADS, sizeof(Shared), BLOCKS, &clusters) == cudaSuccess;
    launched(); /* clears the last error */
    return known ? clusters : 0;
  });
}

size_t many_work_bytes(uint32_t steps) {
  return W2_BYTES + (size_t)steps * ROWS * sizeof(uint32_t);
}

cudaError_t launch_many(const ManyJob *of, cudaStream_t stream) {
  REQUIRE(of && many_takes(of->shape) &&
          given(of->d_pixels, of->d_labels, of->d_order, of->d_parameters, of->d_momentum,
                of->results.d_loss, of->results.d_correct, of->d_overflowed, of->d_work) &&
          of->stride % 16 == 0 && of->stride <= INPUTS && of->stride >= (size_t)of->shape.inputs &&
          of->position < of->end && of->position % of->shape.batch == 0);
  if (many_clusters() == 0) return cudaErrorNotSupported;
  const uint32_t batch = of->shape.batch, rows = of->end - of->position, rest = rows % batch;
  uint8_t *d_work = static_cast<uint8_t *>(of->d_work);
  const int last = rest ? (int)(rows / batch) : -1;
  Job job = {*of,
             (int)ceil_div(rows, batch),
             last,
             1.0f / batch,
             1.0f / (rest ? rest : batch),
             reinterpret_cast<float *>(d_work),
             reinterpret_cast<uint32_t *>(d_work + W2_BYTES)};
  job.results.d_loss += of->position;
  job.results.d_correct += of->position;
  pack_kernel<<<job.steps, ROWS, 0, stream>>>(job);
  TRY(launched());
  return launch_pdl_clusters(many_kernel, BLOCKS, THREADS, sizeof(Shared), BLOCKS, stream, job);
}
