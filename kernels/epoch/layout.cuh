/* The layout of the epoch kernel: which part each block has, what it holds in shared memory, where
   its mail lies. epoch.cu explains the whole. */
#ifndef EPOCH_LAYOUT_CUH
#define EPOCH_LAYOUT_CUH

#include <cuda_bf16.h>

#include "epoch/mail.cuh"

namespace epoch {

/* The block's barriers. Each team meets at its own: MATRIX, ROW, PATCH.

   Once per launch the patch team tells the row team that it has read the parameters (PATCH_READ),
   and the row team tells the matrix team that both have (ALL_READ). So no block sends Z1 before it
   has read everything, no step ends without Z1 of every block, and no block writes parameters back
   that another has not read.

   The others are signals between the teams of a block. Polling for mail long before it comes keeps
   the port busy that shared memory uses too. So a team first waits, at no cost, until another team
   of its own block has sent its share of the same round, and only then polls: what the other blocks
   send comes at about the same time. */
enum Barrier {
  MATRIX = 1,
  ROW,
  PATCH,
  PATCH_READ,
  ALL_READ,
  Z1_SENT,
  H2_SENT,
  DZ2_SENT,
  DZ1_SENT,
  P_SENT,
  W3_READY
};

template <Barrier B> __device__ inline void wait(int threads) {
  __syncwarp(); /* a warp counts once, so it must arrive as a whole */
  bar_sync<(int)B>(threads);
}

template <Barrier B> __device__ inline void arrive(int threads) {
  __syncwarp();
  bar_arrive<(int)B>(threads);
}

constexpr int ROWS = 64;             /* of a batch */
constexpr int OWNED = 4;             /* rows that a block owns: four floats, one load */
constexpr int OWNERS = ROWS / OWNED; /* blocks of a group that own rows */
constexpr int TILE = 15;             /* neurons: a tensor-core tile has 16, packets carry 3 */
constexpr int TILE_PACKETS = TILE / 3;
constexpr int MAX_TILES = 4, MAX_GROUPS = 8, MAX_SPLITS = 8;
constexpr int MAX_NEURONS = MAX_TILES * TILE; /* of a group */
constexpr int MAX_HIDDEN2 = 120, MAX_CLASSES = 12;
constexpr int CLASS_PACKETS = ceil_div(MAX_CLASSES, 3);

constexpr int MATRIX_WARPS = 10; /* each multiplies one k-step: 16 inputs of the block's split */
constexpr int MATRIX_THREADS = 32 * MATRIX_WARPS;
constexpr int ROW_THREADS = 320;
constexpr int PATCH_THREADS = 256;
constexpr int THREADS = MATRIX_THREADS + ROW_THREADS + PATCH_THREADS;
static_assert(MATRIX_THREADS == ROWS * TILE_PACKETS, "a thread sends and receives one packet");

} // namespace epoch

#include "epoch/stamps.cuh"

namespace epoch {

constexpr int X_PITCH = 16 * MATRIX_WARPS + 8;  /* bf16; 16 bytes an odd number of times: no bank
                                                   conflicts for ldmatrix */
constexpr int PARTIAL_PITCH = 4 * TILE_PACKETS; /* floats: a packet's three and a gap */
constexpr int DZ_PITCH = 24;                    /* bf16, as X_PITCH */
constexpr int W3_PITCH = 2 * 80;                /* floats; 80 lanes per row read two values each */
constexpr int DA1_PITCH = 72;                   /* floats: four rows' eights in different banks */
constexpr int H2_PITCH = MAX_HIDDEN2 + 16;      /* floats, likewise */
constexpr int COLUMN_PITCH = ROWS + 4;          /* floats: columns start 4 banks apart */
constexpr int MAX_SHARE = MAX_HIDDEN2 / 3 / 4;  /* packets of a row of P that a block updates */
constexpr int ROW_WARPS = ROW_THREADS / 32;
constexpr int ROW_LANES = ROW_THREADS / OWNED;     /* threads per row, of the block's 4 */
constexpr int PARTS = 8;                           /* lanes that share a packet of hidden values */
constexpr int PART = ceil_div(MAX_NEURONS, PARTS); /* neurons of each */
static_assert(ROW_THREADS / PARTS * 3 >= MAX_HIDDEN2, "a lane for every packet and part");

/* A row's mail for the patch teams is a record: H1, dZ2, H2, dZ3, one after the other. */
constexpr int RECORD_KINDS = TILE_PACKETS + 2 * MAX_SHARE + CLASS_PACKETS;

/* n / d for n < 4096 and d < 256, by one multiplication with divisor_of(d). */
__host__ __device__ constexpr int divisor_of(int d) {
  return ceil_div(1 << 20, d);
}
__device__ inline int divide(int n, int divisor) {
  return n * divisor >> 20;
}

/* The part of the work that a block has, and the mail of its group. */
struct BlockLayout {
  int group, tile, split, block;                     /* block: within the group */
  bool owner;                                        /* of four rows */
  int first_neuron;                                  /* of the tile */
  int neurons;                                       /* of the group: tiles * TILE */
  int first_step, steps;                             /* the split's k-steps */
  int hidden_packets, class_packets, neuron_packets; /* a row of P, of classes, of H1 */
  int first_packet, share;                           /* of a row of P: what this block updates */
  int p_rows;      /* of P, without b3's. P is what the owners of rows need of the parameters, in
                      rows of packets: W2 transposed (the group's neurons, hidden2), b2, W3
                      (classes, hidden2), b3 */
  int record;      /* packets of a row's record */
  int early, late; /* packets of a record this block needs: H1, H2; dZ2, dZ3 */
  int by_early, by_late, by_hidden; /* divisors */
  Packet *z1, *z2, *dz1, *records, *p;
};

struct Shared {
  BlockLayout layout; /* here and not in thirty registers of every thread */
  WITH_STAMPS(EpochStamps stamps;)
  /* matrix team */
  alignas(16) __nv_bfloat16 x[2][ROWS][X_PITCH]; /* pixels of this step and of the next */
  alignas(16) float partial[MATRIX_WARPS][ROWS][PARTIAL_PITCH]; /* Z1 of each warp's inputs */
  alignas(16) __nv_bfloat16 dz1[3][ROWS][DZ_PITCH];             /* bf16 terms of the tile's dZ1 */
  /* row team, owner of rows */
  float w3[MAX_CLASSES][W3_PITCH], b3[MAX_CLASSES];
  float4 h1[PARTS * PART]; /* (neuron) x 4 rows */
  float h2[OWNED][H2_PITCH];
  float logits[OWNED][MAX_CLASSES], dz3[OWNED][MAX_CLASSES];
  float4 dz2[MAX_HIDDEN2 + 40];           /* (hidden2) x 4 rows */
  float da1[ROW_WARPS][OWNED][DA1_PITCH]; /* each warp's part of the sum over hidden2 */
  /* patch team: columns over the batch's rows */
  alignas(16) float h1_column[TILE][COLUMN_PITCH];
  float dz2_column[3 * MAX_SHARE][COLUMN_PITCH];
  float h2_column[3 * MAX_SHARE][COLUMN_PITCH];
  float dz3_column[3 * CLASS_PACKETS][COLUMN_PITCH];
  float ones[COLUMN_PITCH];
  short from[RECORD_KINDS], to[RECORD_KINDS]; /* packet of the record -> float of the columns */
};

__host__ __device__ constexpr int packets_of(int values) {
  return ceil_div(values, 3);
}

__host__ __device__ inline int k_steps(const EpochShape &shape) {
  return ceil_div(shape.inputs + 1, 16); /* + 1: the pixel of the bias */
}

struct MailSizes { /* packets of a group; z2 belongs to all groups */
  size_t z1, z2, dz1, record, p;
};

__host__ __device__ inline MailSizes mail_sizes(const EpochPlan &plan) {
  const size_t neurons = (size_t)plan.tiles * TILE_PACKETS;
  const size_t hidden = packets_of(plan.shape.hidden2), classes = packets_of(plan.shape.classes);
  return {ROWS * plan.splits * neurons, 2 * ROWS * plan.groups * hidden, ROWS * neurons,
          neurons + 2 * hidden + classes,
          (size_t)(plan.tiles * TILE + 1 + plan.shape.classes) * hidden + classes};
}

__host__ __device__ inline size_t group_mail(const MailSizes &s) {
  return s.z1 + s.dz1 + ROWS * s.record + s.p;
}

__host__ __device__ inline int share_of(const EpochPlan &plan) {
  return ceil_div(packets_of(plan.shape.hidden2), plan.splits);
}

__device__ BlockLayout find_layout(const EpochPlan &plan, Packet *mail) {
  BlockLayout layout;
  const int blocks = plan.tiles * plan.splits, all_steps = k_steps(plan.shape);
  const MailSizes s = mail_sizes(plan);
  layout.group = blockIdx.x / blocks;
  layout.block = blockIdx.x % blocks;
  layout.owner = layout.block < OWNERS;
  layout.tile = layout.block % plan.tiles;
  layout.split = layout.block / plan.tiles;
  layout.neurons = plan.tiles * TILE;
  layout.first_neuron = layout.group * layout.neurons + layout.tile * TILE;
  layout.first_step = layout.split * all_steps / plan.splits;
  layout.steps = (layout.split + 1) * all_steps / plan.splits - layout.first_step;
  layout.hidden_packets = packets_of(plan.shape.hidden2);
  layout.class_packets = packets_of(plan.shape.classes);
  layout.neuron_packets = plan.tiles * TILE_PACKETS;
  layout.first_packet = min(layout.split * share_of(plan), layout.hidden_packets);
  layout.share = min(share_of(plan), layout.hidden_packets - layout.first_packet);
  layout.p_rows = layout.neurons + 1 + plan.shape.classes;
  layout.record = (int)s.record;
  layout.early = TILE_PACKETS + layout.share;
  layout.late = layout.share + layout.class_packets;
  layout.by_early = divisor_of(layout.early);
  layout.by_late = divisor_of(layout.late);
  layout.by_hidden = divisor_of(layout.hidden_packets);
  layout.z2 = mail;
  layout.z1 = mail + s.z2 + layout.group * group_mail(s);
  layout.dz1 = layout.z1 + s.z1;
  layout.records = layout.dz1 + s.dz1;
  layout.p = layout.records + ROWS * s.record;
  return layout;
}

/* The dataset row of row r of the step that starts at `position`; beyond the end, the last one. */
__device__ inline size_t row_at(const EpochJob &job, uint32_t position, int r) {
  return job.d_order[min(position + (uint32_t)r, job.end - 1)];
}

/* The record of the block's row r, of four. */
__device__ inline Packet *record_of(const BlockLayout &layout, int r) {
  return layout.records + (layout.block * OWNED + r) * layout.record;
}

/* The offset in the flat arrays of value o of row x of P, or -1 where there is none. */
__device__ inline long long p_offset(const EpochPlan &plan, const EpochJob &job,
                                     const BlockLayout &layout, int x, int o) {
  const EpochShape &shape = plan.shape;
  if (x == layout.p_rows) return o < shape.classes ? (long long)job.layout.bias[2] + o : -1;
  if (o >= shape.hidden2) return -1;
  if (x < layout.neurons) {
    const int neuron = layout.group * layout.neurons + x;
    if (neuron >= shape.hidden1) return -1;
    return (long long)(job.layout.weight[1] + (size_t)o * shape.hidden1 + neuron);
  }
  if (x == layout.neurons) return (long long)job.layout.bias[1] + o;
  return (long long)(job.layout.weight[2] + (size_t)(x - layout.neurons - 1) * shape.hidden2 + o);
}

} // namespace epoch

#endif
