/* The layout of the epoch kernel: each block's part, its shared memory, and the place of its mail.
   epoch.cu explains the whole. */
#pragma once

#include <cuda_bf16.h>

#include "epoch/mail.cuh"

namespace epoch {

/* The named barriers of a block. MATRIX, ROW and HEAD belong to one team each.

   Once per launch, head and patch team tell the row team that they have read the parameters. So a
   row block sends Z2 only after it has read everything. A step ends only with Z2 of every row
   block. So parameters are written only after every block has read them.

   The others hand a step from team to team of a row block. Some of them only say that it is time to
   poll: polling for mail long before it comes keeps the port busy that shared memory uses too. So a
   team first waits, at no cost, until another team of its block has sent its share of the round.
   Mail of the other blocks comes at about the same time. */
enum Barrier {
  MATRIX = 1,
  ROW,
  HEAD,
  PARAMETERS_READ,
  H1_SENT,   /* row to patch: poll for H1 */
  Z2_SENT,   /* row to head: poll for W3 */
  H2_READY,  /* row to head: H2 of the block's rows is in shared memory */
  DZ2_READY, /* head to row: dZ2 of the block's rows is in shared memory */
  DZ2_SENT   /* head to patch: poll for dZ2 */
};

constexpr int ROWS = 64; /* rows of a batch */
constexpr int QUAD = 4;  /* rows that share a load, four floats; a row block owns QUADS, 1 or 2 */
constexpr int TILE = 15; /* neurons: a tensor-core tile has 16, packets carry 3 */
constexpr int TILE_PACKETS = TILE / 3;
constexpr int MAX_TILES = 4, MAX_SPLITS = 8;
template <int QUADS> constexpr int OWNERS = ROWS / (QUAD * QUADS); /* row blocks of a group */
template <int QUADS> constexpr int MAX_GROUPS = QUADS == 1 ? 8 : 10;
constexpr int MAX_NEURONS = MAX_TILES * TILE; /* neurons of a group */
constexpr int MAX_HIDDEN2 = 120, MAX_CLASSES = 12;
constexpr int CLASS_PACKETS = ceil_div(MAX_CLASSES, 3);

/* A matrix block has a team of warps for each of its tiles. */
constexpr int MATRIX_WARPS = 10; /* times the tiles of a block, over the k-steps of a warp */
constexpr int MATRIX_THREADS = 2 * 32 * MATRIX_WARPS;

constexpr int ROW_THREADS = 320;
constexpr int HEAD_THREADS = 32 * QUAD; /* a warp for each row of a quad */
constexpr int PATCH_WARPS = 5;          /* one for each packet of a tile */
constexpr int PATCH_THREADS = 32 * PATCH_WARPS;

/* Both kinds of blocks have as many threads. With 20 warps, five for each quarter of the
   multiprocessor, a thread has 96 registers; one warp more would leave it 80. */
constexpr int THREADS = MATRIX_THREADS;
constexpr int THREADS_OF_ROW_BLOCK = ROW_THREADS + HEAD_THREADS + PATCH_THREADS;
static_assert(THREADS_OF_ROW_BLOCK <= THREADS, "room for every team");

constexpr int X_PITCH = 16 * MATRIX_WARPS + 8; /* bf16; 16 bytes an odd number of times: no bank
                                                  conflicts for ldmatrix */
constexpr int DZ_PITCH = ROWS + 8;             /* bf16, as X_PITCH */
constexpr int COLUMN_PITCH = ROWS + 8; /* floats: four columns times eight rows of a half-warp */
constexpr int HEAD_PITCH = 128;        /* floats: four for each lane */
constexpr int W2_PITCH = 140; /* floats, 12 mod 32: eight neurons times four packets of a warp */
constexpr int PARTS = 8;      /* lanes that share a packet of hidden values */
constexpr int PART = ceil_div(MAX_NEURONS, PARTS); /* neurons of each lane */
constexpr int SLICES = 16;           /* lanes that share a packet of the first layer's neurons */
constexpr int SLICE = ROWS / SLICES; /* rows of dZ1 of each lane */
constexpr int HIDDEN_SLICE = ceil_div(MAX_HIDDEN2, SLICES); /* hidden values of each lane */
static_assert(ROW_THREADS / PARTS * 3 >= MAX_HIDDEN2, "a lane for every packet and part");
static_assert(ROW_THREADS / SLICES * 3 >= MAX_NEURONS, "a lane for every packet and slice");

/* n / d for n < 4096 and d < 256, by one multiplication with divisor_of(d). */
__host__ __device__ constexpr int divisor_of(int d) {
  return ceil_div(1 << 20, d);
}
__device__ inline int divide(int n, int divisor) {
  return n * divisor >> 20;
}

/* The part of the work that a block has, and the mail of its group. */
struct BlockLayout {
  bool is_row_block;
  int group, tile, split; /* tile: of a matrix block the first one; split: of a row block which
                             share of the rows of P it updates */
  int block;              /* of a row block, within the group: it owns quads of rows from QUADS
                             times this on */
  int neurons;            /* of the group: tiles * TILE */
  int first_step, steps;  /* the split's k-steps */
  int hidden_packets, class_packets, neuron_packets; /* a row of P, of classes, of H1 */
  int first_packet, share;                           /* of a row of P: what this block updates */
  int p_rows; /* of P, without b3's. P is what row blocks need of the parameters, in rows of
                 packets: W2 transposed (the group's neurons, hidden2), b2, W3 (classes,
                 hidden2), b3. p_at() has their order */
  int first_dz2, first_h2, first_dz3;  /* kinds of a record, after H1 */
  int by_hidden;                       /* divisor */
  int z1_size, dz1_size, records_size; /* packets of one of the two buffers */
  Packet *z1, *z2, *dz1, *records, *p;

  BlockLayout() = default;
  __device__ BlockLayout(const EpochPlan &plan, Packet *mail, int owners);
};

template <int QUADS> struct RowShared {
  static constexpr int OWNED = QUAD * QUADS;
  static constexpr int MAX_SHARE = MAX_HIDDEN2 / 3 / 4 * QUADS; /* packets of a row of P */
  /* row team */
  float4 h1[QUADS][PARTS * PART];           /* (neuron) x 4 rows */
  float4 dz2[QUADS][HIDDEN_SLICE * SLICES]; /* (hidden2) x 4 rows */
  float w2[PARTS * PART][W2_PITCH];         /* (neuron, hidden2) */
  float4 k[2][QUADS][ROWS];                 /* products of pixels, (row of the step before) x 4 */
  /* head team; columns over the batch's rows, of the gradient */
  float h2[OWNED][HEAD_PITCH], w3[MAX_CLASSES][HEAD_PITCH], b3[16];
  alignas(16) float h2_column[3 * MAX_SHARE][COLUMN_PITCH];
  float dz3_column[3 * CLASS_PACKETS][COLUMN_PITCH], ones[ROWS];
  /* patch team: bf16 terms of columns */
  alignas(16) __nv_bfloat16 h1_terms[3][TILE + 1][DZ_PITCH]; /* the last one: ones */
  __nv_bfloat16 dz2_terms[PATCH_WARPS][3][6][DZ_PITCH];      /* of each warp */
};

/* DEPTH is the k-steps of a warp. `partial` is Z1 of each warp's inputs for the rows that are
   mailed at once; its pitch is 8 mod 32 floats, for pairs of floats. `dz1` is bf16 terms of each
   tile's dZ1; results of its 16th neuron are not used. */
template <int DEPTH> struct MatrixShared {
  static constexpr int BUFFERS = 3, ROUND = ROWS, PITCH = ROUND + 8;
  alignas(16) __nv_bfloat16 x[BUFFERS][ROWS][X_PITCH]; /* pixels of a step, see MatrixBlock */
  alignas(16) float partial[2][MATRIX_WARPS][TILE][PITCH];
  alignas(16) __nv_bfloat16 dz1[2][3][TILE + 1][DZ_PITCH];
};

/* The part of a matrix block of four tiles, as far as 99 KB have room: two buffers, half of the
   rows at once, and dZ1 where the sums were. */
template <> struct MatrixShared<2> {
  static constexpr int BUFFERS = 2, ROUND = ROWS / 2, PITCH = ROUND + 8;
  alignas(16) __nv_bfloat16 x[BUFFERS][ROWS][X_PITCH];
  union {
    alignas(16) float partial[4][MATRIX_WARPS / 2][TILE][PITCH];
    alignas(16) __nv_bfloat16 dz1[4][3][TILE + 1][DZ_PITCH];
  };
};

template <int QUADS_, int DEPTH_> struct Shared {
  static constexpr int QUADS = QUADS_, DEPTH = DEPTH_;
  static constexpr bool IS_LATE = DEPTH > 1; /* see RowTeam::run() */
  BlockLayout layout;                        /* here, to save each thread thirty registers */
  union {
    RowShared<QUADS> row;
    MatrixShared<DEPTH> matrix;
  };
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
          (round_up(neurons * 3, (size_t)PARTS) + 1 + plan.shape.classes) * hidden + classes};
}

/* Z1, dZ1 and the records have two buffers, which steps take in turn. */
__host__ __device__ inline size_t group_mail(const MailSizes &s) {
  return 2 * (s.z1 + s.dz1 + ROWS * s.record) + s.p;
}

/* Returns this block's part. `owners` is the row blocks of a group. */
__device__ inline BlockLayout::BlockLayout(const EpochPlan &plan, Packet *mail, int owners)
    : BlockLayout() {
  const int all_steps = k_steps(plan.shape), row_blocks = plan.groups * owners;
  const MailSizes s = mail_sizes(plan);
  is_row_block = (int)blockIdx.x < row_blocks;
  hidden_packets = packets_of(plan.shape.hidden2);
  if (is_row_block) {
    group = blockIdx.x / owners;
    block = blockIdx.x % owners;
    tile = block % plan.tiles;
    split = block / plan.tiles;
    /* a row of P is shared by the row blocks of a tile */
    const int most = ceil_div(hidden_packets, owners / plan.tiles);
    first_packet = min(split * most, hidden_packets);
    if (split < owners / plan.tiles) share = min(most, hidden_packets - first_packet);
  } else {
    const int unit = (int)blockIdx.x - row_blocks;
    split = unit % plan.splits;
    tile = 2 * plan.depth * (unit / plan.splits % plan.sets);
    group = unit / plan.splits / plan.sets;
    first_step = split * all_steps / plan.splits;
    steps = (split + 1) * all_steps / plan.splits - first_step;
  }
  neurons = plan.tiles * TILE;
  class_packets = packets_of(plan.shape.classes);
  neuron_packets = plan.tiles * TILE_PACKETS;
  p_rows = neurons + 1 + plan.shape.classes;
  first_dz2 = neuron_packets;
  first_h2 = first_dz2 + hidden_packets;
  first_dz3 = first_h2 + hidden_packets;
  by_hidden = divisor_of(hidden_packets);
  z1_size = (int)s.z1;
  dz1_size = (int)s.dz1;
  records_size = (int)(ROWS * s.record);
  z2 = mail;
  z1 = mail + s.z2 + group * group_mail(s);
  dz1 = z1 + 2 * s.z1;
  records = dz1 + 2 * s.dz1;
  p = records + 2 * ROWS * s.record;
}

/* Returns the buffer, 0 or 1, of the step with this stamp. */
__device__ inline int turn(uint32_t stamp) {
  return (int)(stamp % 2);
}

/* Returns the dataset row of row r of the step at `position`, or the last row if r is past the end.
 */
__device__ inline size_t row_at(const EpochJob &job, uint32_t position, int r) {
  return job.d_order[min(position + (uint32_t)r, job.end - 1)];
}

} // namespace epoch
