/* The patch team of a row block updates the block's part of W2 and b2. The gradients are sums over
   the batch's rows, of H1 with dZ2 and of ones with dZ2. A tile's 15 neurons and a column of ones
   are the 16 rows of a tensor-core product, so the same instructions make both.

   The next step waits for this team. So a warp has six hidden values (two packets), or two times
   six, from their arrival until it sends packets of weights. No other warp waits for it. H1 is
   received, and split into bf16 terms, before dZ2 is there. */
#pragma once

#include "bf16_split.cuh"
#include "epoch/team.cuh"

namespace epoch {

static_assert(PATCH_WARPS == TILE_PACKETS && 2 * PATCH_WARPS == RowShared<1>::MAX_SHARE,
              "a warp receives one packet of H1 and QUADS times two of dZ2, of every row");

/* Stores the bf16 terms of a packet of rows l and l + 32, which lane l holds. The rows become
   neighbours, so a sum over rows takes them in this order, 0, 32, 1, 33, ... */
template <int VALUES>
__device__ inline void store_terms(const Packet &first, const Packet &second,
                                   __nv_bfloat16 (*terms)[VALUES][DZ_PITCH], int value) {
  const float a[3] = {first.x, first.y, first.z}, b[3] = {second.x, second.y, second.z};
  unrolled (e, 3) {
    uint32_t term[3];
    split_terms(a[e], b[e], term);
    unrolled (i, 3)
      *reinterpret_cast<uint32_t *>(&terms[i][value + e][2 * (threadIdx.x % 32)]) = term[i];
  }
}

/* Hands each lane the three values of its packet: lane t of four has neuron g + 8 (t / 2), packet t
   % 2. Value v of six is with lane v / 2; each exchange asks for one value of both packets. */
__device__ inline void gather_packet(const float (&of)[4], float (&g)[3]) {
  const int lane = threadIdx.x % 32, t = lane % 4;
  unrolled (e, 3) {
    const int from = lane - t + (3 * (t % 2) + e) / 2;
    const bool gives_second = (t == e / 2 ? e : 3 + e) % 2;
    const float low = __shfl_sync(FULL_WARP, gives_second ? of[1] : of[0], from);
    const float high = __shfl_sync(FULL_WARP, gives_second ? of[3] : of[2], from);
    g[e] = t < 2 ? low : high;
  }
}

template <class Shared> struct PatchTeam : UpdatingTeam {
  static constexpr int QUADS = Shared::QUADS;
  Shared &s;
  RowShared<QUADS> &shared = s.row;

  static __device__ int thread() {
    return threadIdx.x - ROW_THREADS - HEAD_THREADS;
  }
  static __device__ int warp() {
    return thread() / 32;
  }

  /* Returns the first packet of the warp's pair q, within the block's share. */
  static __device__ int first_of_pair(int q) {
    return 2 * (warp() + PATCH_WARPS * q);
  }

  /* Returns the lane's packet of W2, or of b2, which is the tile's 16th neuron in one tile of the
     group. A warp has two packets of each neuron, pair q, a lane one. */
  __device__ OwnPacket own_packet_of_w2(int q) const {
    OwnPacket own = {};
    const int lane = threadIdx.x % 32, neuron = lane / 4 + 8 * (lane % 4 / 2);
    const int n = first_of_pair(q) + lane % 2;
    own.packet = layout.first_packet + n;
    own.exists = n < layout.share && (neuron < TILE || layout.tile == 0);
    own.decays = neuron < TILE;
    own.x = neuron < TILE ? layout.tile * TILE + neuron : layout.neurons;
    return own;
  }

  /* Receives COUNT packets of every row, a warp's own, of which `count` exist, from `first` of the
     records on, into terms. */
  template <int COUNT, int VALUES>
  __device__ void receive_terms(int first, int count, __nv_bfloat16 (*terms)[VALUES][DZ_PITCH],
                                int value) const {
    const Packet *from = record_at(first, threadIdx.x % 32);
    Packet in[2 * COUNT];
    receive(
        in, stamp, [&](int i) { return i / 2 < count; },
        [&](int i) { return from + i / 2 * ROWS + i % 2 * (ROWS / 2); });
    unrolled (i, COUNT)
      if (i < count) store_terms(in[2 * i], in[2 * i + 1], terms, value + 3 * i);
  }

  /* Computes the gradient of the warp's two packets, (neuron, hidden value): 16 x 6 sums over 64
     rows. Six products, as in fragment.cuh, in sums of their own for each size and half: short
     chains of dependent products. Lane 4 g + t holds neurons g, g + 8, values 2 t, 2 t + 1. */
  __device__ void multiply_terms(float (&of)[4]) const {
    const int l = threadIdx.x % 32;
    const int value = min(l % 8, 5); /* of 8 columns the last two are nobody's */
    float sum[3][2][4] = {};         /* of products of 2^-16, of 2^-8, of 1 */
    unrolled_by (rows, ROWS, 32) {
      uint32_t b[3][4]; /* of 16 rows: b[0], b[1]; of the next: b[2], b[3] */
      unrolled (i, 3) ldmatrix_x4(b[i], &shared.dz2_terms[warp()][i][value][rows + l / 8 * 8]);
      unrolled (half, 2) {
        uint32_t a[3][4];
        unrolled (i, 3)
          ldmatrix_x4(a[i], &shared.h1_terms[i][l % 16][rows + 16 * half + l / 16 * 8]);
        unrolled (j, 3)
#pragma unroll
          for (int i = 0; i + j < 3; i++)
            mma_m16n8k16(sum[2 - i - j][half], a[i], b[j][2 * half], b[j][2 * half + 1]);
      }
    }
    unrolled (e, 4) {
      of[e] = 0.0f;
      unrolled (size, 3) of[e] += sum[size][0][e] + sum[size][1][e];
    }
  }

  /* Receives dZ2 of the warp's pair q, updates its packets and mails them. */
  __device__ void update_pair(int q, const OwnPacket &own, OwnWeights &weights) const {
    receive_terms<2>(layout.first_dz2 + layout.first_packet + first_of_pair(q),
                     layout.share - first_of_pair(q), s.row.dz2_terms[warp()], 0);
    __syncwarp();
    float of[4], g[3];
    multiply_terms(of);
    gather_packet(of, g);
    update_packet(own, weights, g);
  }

  /* Runs all steps of the launch, as the patch team sees them. Only a block with a share sends
     packets of P in return, so only such a block may read mail. */
  __device__ void run() {
    const OwnPacket own = own_packet_of_w2(0);
    const OwnPacket second = own_packet_of_w2(1); /* if there are two quads */
    OwnWeights w2 = load_packet(own);
    OwnWeights second_w2 = load_packet(second);
    if (thread() < ROWS / 2) /* the other terms are 0 */
      *reinterpret_cast<uint32_t *>(&shared.h1_terms[0][TILE][2 * thread()]) =
          pack_bf16(1.0f, 1.0f);
    arrive<PARAMETERS_READ>(THREADS_OF_ROW_BLOCK);
    if (layout.share == 0) return;

    for (begin(); has_step(); next_step()) {
      wait<H1_SENT>(PATCH_THREADS + ROW_THREADS);
      receive_terms<1>(layout.tile * TILE_PACKETS + warp(), 1, s.row.h1_terms, 3 * warp());
      wait<DZ2_SENT>(PATCH_THREADS + HEAD_THREADS);
      update_pair(0, own, w2);
      if (QUADS > 1) {
        __syncwarp(); /* before the terms change */
        update_pair(1, second, second_w2);
      }
    }
    store_packet(own, w2);
    if (QUADS > 1) store_packet(second, second_w2);
  }
};

} // namespace epoch
