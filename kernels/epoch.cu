/* Fusion level `epoch`: every step of an epoch in one kernel, two hidden layers, batch up to 64.

   A step at batch 64 is 72 MFLOP, one microsecond of this kind of GPU; what costs is talking.
   The layout is chosen so that a step talks three times, and by mail (epoch.cuh), never at a
   barrier of the whole grid:

     neurons    first hidden layer, in tiles of 15 (five packets); `tiles` tiles make a group
     group      owns its neurons' rows of W1 and columns of W2, and works on every row; the group's
                blocks split the inputs of W1 among them
     block      a tile times a split: 15 neurons, some 130 inputs. Its part of W1 stays in
                registers for the whole launch. Each of a group's first 16 blocks owns 4 rows.

   1. Matrix teams multiply their part of W1 with the pixels: partial Z1, mailed to the owners of
      the rows. 2. The owners add the parts, apply ReLU, multiply with the group's columns of W2:
      a partial Z2, mailed to the owners of the same rows in the other groups. 3. Every owner adds
      the groups' parts and does the rest of its rows alone, forward and backward, down to dZ1,
      mailed to the group's matrix teams, which update W1 in their registers.

   W2, W3 and the biases are updated by the row teams, a patch a block, in the shadow of 3 and 1,
   and mailed to the owners before they need them. The bias of the first layer is the weight of
   one more input, a pixel that is always 255.

   Each block runs two teams that never wait for each other but through mail: 4 matrix warps on
   the tensor cores, 12 row warps on everything else. All sums have a fixed order: the same bits
   every time. Mail is never overwritten unread: whoever sends the packet of step t + 1 has
   received something of step t that the reader sent after reading (Z2, where the groups run
   freely, takes two buffers in turns). */
#include <cooperative_groups.h>

#include "epoch.cuh"

namespace {

constexpr int ROWS = 64;             /* of a batch */
constexpr int OWNED = 4;             /* rows a block owns: four floats, one load */
constexpr int OWNERS = ROWS / OWNED; /* blocks of a group that own rows */
constexpr int TILE = 15;             /* neurons: a tensor-core tile has 16, packets carry 3 */
constexpr int TILE_PACKETS = TILE / 3;
constexpr int MAX_TILES = 4, MAX_GROUPS = 8, MAX_SPLITS = 8;
constexpr int MAX_NEURONS = MAX_TILES * TILE; /* of a group */
constexpr int MAX_HIDDEN2 = 128, MAX_CLASSES = 16;
constexpr int CLASS_PACKETS = (MAX_CLASSES + 2) / 3;

constexpr int MATRIX_WARPS = 10; /* each multiplies one k-step: 16 inputs of the block's split */
constexpr int MATRIX_THREADS = 32 * MATRIX_WARPS;
constexpr int ROW_THREADS = 320;
constexpr int THREADS = MATRIX_THREADS + ROW_THREADS;
static_assert(MATRIX_THREADS == ROWS * TILE_PACKETS, "a thread sends and receives one packet");

constexpr int X_PITCH = 16 * MATRIX_WARPS + 8; /* bf16; 16 bytes an odd number of times: no bank
                                                  conflicts for ldmatrix */
constexpr int PARTIAL_PITCH = 20;              /* floats: lanes (row 2 t, neuron g) hit 32 banks */
constexpr int DZ_PITCH = 24;                   /* bf16, as X_PITCH */
constexpr int P_PITCH = MAX_HIDDEN2 + 1;       /* floats: odd, conflict-free along both sides */
constexpr int H2_PITCH = MAX_HIDDEN2 + 8;      /* floats: four rows' eights in different banks */
constexpr int COLUMN_PITCH = ROWS + 4;         /* floats: columns start 4 banks apart */
constexpr int MAX_SHARE = (MAX_HIDDEN2 / 3 + 1 + 3) / 4; /* packets of a row of P a block updates */
constexpr int MAX_Z2_PARTS = 8, DA1_PARTS = ROW_THREADS / 64;
constexpr int ROW_LANES = ROW_THREADS / OWNED; /* threads for each of the 4 rows */
constexpr int PATCH_THREADS = 2;               /* each adds half of the batch */

/* Rows of P, the group's copy of what the row teams need: W2 transposed (neurons, hidden2), then
   b2, then W3 (classes, hidden2), then b3. */
constexpr int MAX_P_ROWS = MAX_NEURONS + 1 + MAX_CLASSES + 1;

/* A row's mail for those who update: H1, dZ2, H2, dZ3, one after the other. */
constexpr int RECORD_KINDS = TILE_PACKETS + 2 * MAX_SHARE + CLASS_PACKETS;

/* n / d for n < 4096 and d < 256 by one multiplication with divisor_of(d). */
__host__ __device__ constexpr int divisor_of(int d) {
  return ((1 << 20) + d - 1) / d;
}
__device__ inline int divide(int n, int divisor) {
  return n * divisor >> 20;
}

/* Where a block stands, and its group's mail. */
struct Place {
  int group, tile, split, block; /* block: within the group */
  int first_neuron;              /* of the tile */
  int neurons;                   /* of the group: tiles * TILE */
  int first_step, steps;         /* the split's k-steps */
  int hidden_packets, class_packets, neuron_packets; /* a row of P, of classes, of H1 */
  int first_packet, share;       /* of a row of P: what this block updates */
  int p_rows;                    /* without b3 */
  int record;                    /* packets of a row's record */
  int columns, by_columns, by_hidden; /* packets of a record this block needs; divisors */
  Packet *z1, *z2, *dz1, *records, *p;
};

struct Shared {
  Place place; /* here and not in thirty registers of every thread */
  /* matrix team */
  alignas(16) __nv_bfloat16 x[2][ROWS][X_PITCH];    /* pixels, this step's and the next one's */
  float partial[MATRIX_WARPS][ROWS][PARTIAL_PITCH]; /* Z1 of each warp's inputs */
  alignas(16) __nv_bfloat16 dz1[3][ROWS][DZ_PITCH]; /* thirds of the tile's dZ1 */
  /* row team, owner of rows */
  float p[MAX_P_ROWS][P_PITCH];
  float4 h1[64];                               /* (neuron) x 4 rows */
  float z2[MAX_Z2_PARTS][OWNED][MAX_HIDDEN2];  /* parts of the sum over neurons */
  float h2[OWNED][H2_PITCH];
  float4 logits[OWNED][MAX_CLASSES / 4];       /* -infinity beyond the last class */
  float4 dz2[MAX_HIDDEN2];                     /* (hidden2) x 4 rows */
  float da1[DA1_PARTS][OWNED][64];             /* parts of the sum over hidden2 */
  /* row team, owner of a patch: columns over the batch's rows */
  alignas(16) float h1_column[TILE][COLUMN_PITCH];
  float dz2_column[3 * MAX_SHARE][COLUMN_PITCH];
  float h2_column[3 * MAX_SHARE][COLUMN_PITCH];
  float dz3_column[3 * CLASS_PACKETS][COLUMN_PITCH];
  float ones[COLUMN_PITCH];
  short from[RECORD_KINDS], to[RECORD_KINDS]; /* packet of the record -> float of the columns */
};

__host__ __device__ constexpr int packets_of(int values) {
  return (values + 2) / 3;
}

__host__ __device__ inline int k_steps(const EpochShape &shape) {
  return (shape.inputs + 1 + 15) / 16; /* and the pixel of the bias */
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
  return (packets_of(plan.shape.hidden2) + plan.splits - 1) / plan.splits;
}

__device__ Place find_place(const EpochPlan &plan, Packet *mail) {
  Place at;
  const int blocks = plan.tiles * plan.splits, all_steps = k_steps(plan.shape);
  const MailSizes s = mail_sizes(plan);
  at.group = blockIdx.x / blocks;
  at.block = blockIdx.x % blocks;
  at.tile = at.block % plan.tiles;
  at.split = at.block / plan.tiles;
  at.neurons = plan.tiles * TILE;
  at.first_neuron = at.group * at.neurons + at.tile * TILE;
  at.first_step = at.split * all_steps / plan.splits;
  at.steps = (at.split + 1) * all_steps / plan.splits - at.first_step;
  at.hidden_packets = packets_of(plan.shape.hidden2);
  at.class_packets = packets_of(plan.shape.classes);
  at.neuron_packets = plan.tiles * TILE_PACKETS;
  at.first_packet = min(at.split * share_of(plan), at.hidden_packets);
  at.share = min(share_of(plan), at.hidden_packets - at.first_packet);
  at.p_rows = at.neurons + 1 + plan.shape.classes;
  at.record = (int)s.record;
  at.columns = TILE_PACKETS + 2 * at.share + at.class_packets;
  at.by_columns = divisor_of(at.columns);
  at.by_hidden = divisor_of(at.hidden_packets);
  at.z2 = mail;
  at.z1 = mail + s.z2 + at.group * group_mail(s);
  at.dz1 = at.z1 + s.z1;
  at.records = at.dz1 + s.dz1;
  at.p = at.records + ROWS * s.record;
  return at;
}

/* The store row of row r of the step that starts at `position`; beyond the end, the last one. */
__device__ inline size_t row_at(const EpochJob &job, uint32_t position, int r) {
  return job.d_order[min(position + (uint32_t)r, job.end - 1)];
}

/* Both teams, once, when they have read the parameters: as no step ends without mail from every
   block, no block writes parameters back before every block has read them. */
__device__ inline void all_have_read() {
  team_sync<3, THREADS>();
}

/* ---- the matrix team -------------------------------------------------------------------------- */

/* The weights of one warp, its k-step of 16 inputs. Lane 4 g + t holds value e at neuron
   g + 8 (e / 2 % 2), input 2 t + e % 2 + 8 (e / 4): at once the layout of the A operand (forward)
   and of two accumulators side by side (gradient), so a weight never leaves its register. */
struct Weights {
  float w[8], v[8];
};

/* The input of value e of this lane. */
__device__ inline int input_of(const Place &at, int e) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  return (at.first_step + warp) * 16 + 2 * (lane % 4) + e % 2 + 8 * (e / 4);
}

/* Calls use(w, v, offset in the flat arrays) for each weight of the warp that exists. */
template <class Use>
__device__ inline void for_weights(const EpochPlan &plan, const EpochJob &job, const Place &at,
                                   Weights &weights, const Use &use) {
  if ((int)threadIdx.x / 32 >= at.steps) return;
  const int inputs = plan.shape.inputs;
#pragma unroll
  for (int e = 0; e < 8; e++) {
    const int in_tile = threadIdx.x % 32 / 4 + 8 * (e / 2 % 2), input = input_of(at, e);
    const int neuron = at.first_neuron + in_tile;
    if (in_tile >= TILE || neuron >= plan.shape.hidden1 || input > inputs) continue;
    use(weights.w[e], weights.v[e],
        input == inputs ? job.layout.bias[0] + neuron
                        : job.layout.weight[0] + (size_t)neuron * inputs + input);
  }
}

/* Four pixels of `word` as bf16: 2^23 + pixel is a float32 whose last byte is the pixel. */
__device__ inline uint2 pixels_to_bf16(uint32_t word) {
  float f[4];
#pragma unroll
  for (int i = 0; i < 4; i++)
    f[i] = __uint_as_float(__byte_perm(word, 0x4B000000u, 0x7440 + i)) - 8388608.0f;
  return {pack_bf16(f[0], f[1]), pack_bf16(f[2], f[3])};
}

/* The bytes of 16 inputs from `input` on, with the bias's pixel and zeros where the row ends. */
__device__ inline uint4 end_of_row(uint4 bytes, int input, int inputs) {
  uint32_t word[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
#pragma unroll
  for (int i = 0; i < 16; i++) {
    const uint32_t mask = 0xffu << 8 * (i % 4);
    if (input + i >= inputs) word[i / 4] &= ~mask;
    if (input + i == inputs) word[i / 4] |= mask;
  }
  return {word[0], word[1], word[2], word[3]};
}

/* Fetches the split's pixels of the step at `position` into x: 64 rows x steps x 16 bytes. */
__device__ void fetch_pixels(const EpochPlan &plan, const EpochJob &job, const Place &at,
                             uint32_t position, __nv_bfloat16 (*x)[X_PITCH]) {
  constexpr int AT_ONCE = MATRIX_THREADS / ROWS, COUNT = MATRIX_WARPS / AT_ONCE;
  const int row = threadIdx.x % ROWS, first = threadIdx.x / ROWS, inputs = plan.shape.inputs;
  const uint8_t *pixels = job.d_pixels + row_at(job, position, row) * job.stride;
  uint4 bytes[COUNT];
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    const int step = first + AT_ONCE * i, input = (at.first_step + step) * 16;
    bytes[i] = step < at.steps && input < inputs
                   ? *reinterpret_cast<const uint4 *>(pixels + input)
                   : uint4{0, 0, 0, 0};
  }
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    const int step = first + AT_ONCE * i, input = (at.first_step + step) * 16;
    if (step >= at.steps) continue;
    if (input + 16 > inputs) bytes[i] = end_of_row(bytes[i], input, inputs);
    const uint2 a = pixels_to_bf16(bytes[i].x), b = pixels_to_bf16(bytes[i].y);
    const uint2 c = pixels_to_bf16(bytes[i].z), d = pixels_to_bf16(bytes[i].w);
    uint4 *to = reinterpret_cast<uint4 *>(&x[row][16 * step]);
    to[0] = {a.x, a.y, b.x, b.y};
    to[1] = {c.x, c.y, d.x, d.y};
  }
}

/* This warp's part of Z1 transposed, (neurons, rows), on the tensor cores, to shared memory. */
__device__ void multiply_w1(const Weights &weights, float (*partial)[PARTIAL_PITCH],
                            const __nv_bfloat16 (*x)[X_PITCH]) {
  const int lane = threadIdx.x % 32, first_input = threadIdx.x / 32 * 16;
  uint32_t a[3][4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const Thirds thirds = split(weights.w[2 * i], weights.w[2 * i + 1]);
    a[0][i] = thirds.hi, a[1][i] = thirds.mid, a[2][i] = thirds.lo;
  }
  float z[ROWS / 8][4] = {};
#pragma unroll
  for (int rows = 0; rows < ROWS / 16; rows++) {
    uint32_t b[4]; /* rows 16 rows + 0..7: b[0], b[1]; the next eight: b[2], b[3] */
    load_matrices(b, &x[16 * rows + lane / 16 * 8 + lane % 8][first_input + lane / 8 % 2 * 8]);
#pragma unroll
    for (int third = 2; third >= 0; third--) {
      multiply(z[2 * rows], a[third], b[0], b[1]);
      multiply(z[2 * rows + 1], a[third], b[2], b[3]);
    }
  }
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int n = 0; n < ROWS / 8; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) partial[8 * n + 2 * t + e % 2][g + e / 2 * 8] = z[n][e];
}

/* Adds the warps' parts and mails the tile's Z1 to the owners of the rows: a packet a thread. */
__device__ void send_z1(const EpochPlan &plan, const Place &at, const Shared &s, uint32_t stamp) {
  const int row = threadIdx.x / TILE_PACKETS, packet = threadIdx.x % TILE_PACKETS;
  float z[3] = {};
#pragma unroll
  for (int warp = 0; warp < MATRIX_WARPS; warp++)
#pragma unroll
    for (int e = 0; e < 3; e++) z[e] += s.partial[warp][row][3 * packet + e];
  send(at.z1 + (row * plan.splits + at.split) * at.neuron_packets + at.tile * TILE_PACKETS +
           packet,
       z[0] * PIXEL_SCALE, z[1] * PIXEL_SCALE, z[2] * PIXEL_SCALE, stamp);
}

/* Takes in the tile's dZ1, a packet a thread, and keeps it as thirds, (row, neuron). */
__device__ void receive_dz1(const Place &at, Shared &s, uint32_t stamp) {
  const int row = threadIdx.x / TILE_PACKETS, packet = threadIdx.x % TILE_PACKETS;
  const Packet *from = at.dz1 + row * at.neuron_packets + at.tile * TILE_PACKETS + packet;
  Packet in[1];
  receive(in, 1, stamp, [&](int) { return from; });
  const Thirds xy = split(in[0].x, in[0].y), z = split(in[0].z, 0.0f);
  const uint32_t third[3][2] = {{xy.hi, z.hi}, {xy.mid, z.mid}, {xy.lo, z.lo}};
#pragma unroll
  for (int k = 0; k < 3; k++) {
    uint16_t *to = reinterpret_cast<uint16_t *>(&s.dz1[k][row][3 * packet]);
    to[0] = (uint16_t)third[k][0];
    to[1] = (uint16_t)(third[k][0] >> 16);
    to[2] = (uint16_t)third[k][1];
  }
}

/* dW1 = dZ1^T X for this warp's inputs on the tensor cores, then the momentum rule. Each third
   has accumulators of its own: chains of 4 dependent products instead of 12. */
__device__ void update_w1(const EpochPlan &plan, const EpochJob &job, const Place &at,
                          Weights &weights, const __nv_bfloat16 (*dz1)[ROWS][DZ_PITCH],
                          const __nv_bfloat16 (*x)[X_PITCH]) {
  const int lane = threadIdx.x % 32, first_input = threadIdx.x / 32 * 16;
  float g[3][2][4] = {};
#pragma unroll
  for (int rows = 0; rows < ROWS / 16; rows++) {
    uint32_t b[4]; /* inputs 0..7 of the step: b[0], b[1]; 8..15: b[2], b[3] */
    load_transposed(b, &x[16 * rows + lane / 8 % 2 * 8 + lane % 8][first_input + lane / 16 * 8]);
#pragma unroll
    for (int third = 0; third < 3; third++) {
      uint32_t a[4];
      load_transposed(a, &dz1[third][16 * rows + lane / 16 * 8 + lane % 8][lane / 8 % 2 * 8]);
      multiply(g[third][0], a, b[0], b[1]);
      multiply(g[third][1], a, b[2], b[3]);
    }
  }
#pragma unroll
  for (int e = 0; e < 8; e++) {
    const bool bias = input_of(at, e) == plan.shape.inputs;
    const UpdateRule rule = {job.rule.momentum, bias ? 0.0f : job.rule.weight_decay};
    const float sum = g[2][e / 4][e % 4] + g[1][e / 4][e % 4] + g[0][e / 4][e % 4];
    update_value(weights.w[e], weights.v[e], sum * PIXEL_SCALE, rule, job.learning_rate);
  }
}

__device__ void matrix_team(const EpochPlan &plan, const EpochJob &job, Shared &s) {
  const Place &at = s.place;
  const int warp = threadIdx.x / 32;
  const bool multiplies = warp < at.steps;
  Weights weights = {};
  for_weights(plan, job, at, weights, [&](float &w, float &v, size_t offset) {
    w = job.d_parameters[offset];
    v = job.d_momentum[offset];
  });
  fetch_pixels(plan, job, at, job.position, s.x[0]);
  all_have_read();

  uint32_t stamp = job.first_stamp;
  int now = 0;
  for (uint32_t position = job.position; position < job.end; position += plan.shape.batch) {
    if (multiplies) multiply_w1(weights, s.partial[warp], s.x[now]);
    team_sync<1, MATRIX_THREADS>();
    send_z1(plan, at, s, stamp);
    fetch_pixels(plan, job, at, position + plan.shape.batch, s.x[1 - now]);
    receive_dz1(at, s, stamp);
    team_sync<1, MATRIX_THREADS>();
    if (multiplies) update_w1(plan, job, at, weights, s.dz1, s.x[now]);
    now = 1 - now;
    stamp++;
  }

  for_weights(plan, job, at, weights, [&](float &w, float &v, size_t offset) {
    job.d_parameters[offset] = w;
    job.d_momentum[offset] = v;
  });
}

/* ---- the row team: the rows it owns ------------------------------------------------------------ */

__device__ inline int row_thread() {
  return threadIdx.x - MATRIX_THREADS;
}

__device__ inline void row_sync() {
  team_sync<2, ROW_THREADS>();
}

/* The record of row r of the block's four. */
__device__ inline Packet *record_of(const Place &at, int r) {
  return at.records + (at.block * OWNED + r) * at.record;
}

/* The offset in the flat arrays of value o of row x of P, or -1 where there is none. */
__device__ inline long long p_offset(const EpochPlan &plan, const EpochJob &job, const Place &at,
                                     int x, int o) {
  const EpochShape &shape = plan.shape;
  if (x == at.p_rows) return o < shape.classes ? (long long)job.layout.bias[2] + o : -1;
  if (o >= shape.hidden2) return -1;
  if (x < at.neurons) {
    const int neuron = at.group * at.neurons + x;
    if (neuron >= shape.hidden1) return -1;
    return (long long)(job.layout.weight[1] + (size_t)o * shape.hidden1 + neuron);
  }
  if (x == at.neurons) return (long long)job.layout.bias[1] + o;
  return (long long)(job.layout.weight[2] + (size_t)(x - at.neurons - 1) * shape.hidden2 + o);
}

/* P of the first step, from the parameters. */
__device__ void load_p(const EpochPlan &plan, const EpochJob &job, const Place &at, Shared &s) {
  for (int i = row_thread(); i < (at.p_rows + 1) * MAX_HIDDEN2; i += ROW_THREADS) {
    const int x = i / MAX_HIDDEN2, o = i % MAX_HIDDEN2;
    const long long offset = p_offset(plan, job, at, x, o);
    s.p[x][o] = offset < 0 ? 0.0f : job.d_parameters[offset];
  }
}

/* P of a later step, from its patches' owners. */
__device__ void receive_p(const Place &at, Shared &s, uint32_t stamp) {
  constexpr int COUNT = 8; /* all of a network of 300 and 100 */
  const int packets = at.p_rows * at.hidden_packets + at.class_packets;
  for (int first = row_thread(); first < packets; first += COUNT * ROW_THREADS) {
    const int count = (packets - first + ROW_THREADS - 1) / ROW_THREADS;
    Packet in[COUNT];
    receive(in, count, stamp, [&](int i) { return at.p + first + ROW_THREADS * i; });
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
      const int n = first + ROW_THREADS * i, x = divide(n, at.by_hidden);
      if (n >= packets) break;
      float *to = &s.p[x][3 * (n - x * at.hidden_packets)];
      to[0] = in[i].x, to[1] = in[i].y, to[2] = in[i].z;
    }
  }
}

/* H1 = relu(the splits' parts of Z1), for the 4 rows and the group's neurons. */
__device__ void receive_z1(const EpochPlan &plan, const Place &at, Shared &s, uint32_t stamp) {
  const int r = row_thread() % OWNED, packet = row_thread() / OWNED;
  if (packet >= at.neuron_packets) return;
  const Packet *from =
      at.z1 + (at.block * OWNED + r) * plan.splits * at.neuron_packets + packet;
  Packet in[MAX_SPLITS];
  receive(in, plan.splits, stamp, [&](int i) { return from + i * at.neuron_packets; });
  float h[3] = {};
#pragma unroll
  for (int i = 0; i < MAX_SPLITS; i++) h[0] += in[i].x, h[1] += in[i].y, h[2] += in[i].z;
#pragma unroll
  for (int e = 0; e < 3; e++) {
    h[e] = fmaxf(h[e], 0.0f);
    reinterpret_cast<float *>(&s.h1[3 * packet + e])[r] = h[e];
  }
  send(record_of(at, r) + packet, h[0], h[1], h[2], stamp);
}

/* The group's part of Z2 for the 4 rows: thread (o, part) adds a part of the neurons. */
__device__ void multiply_w2(const Place &at, Shared &s, int o, int part, int parts) {
  if (part >= parts) return;
  const int length = (at.neurons + parts - 1) / parts, end = min((part + 1) * length, at.neurons);
  float4 z = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 5
  for (int j = part * length; j < end; j++) {
    const float w = s.p[j][o];
    const float4 h = s.h1[j];
    z.x += w * h.x, z.y += w * h.y, z.z += w * h.z, z.w += w * h.w;
  }
  s.z2[part][0][o] = z.x, s.z2[part][1][o] = z.y, s.z2[part][2][o] = z.z, s.z2[part][3][o] = z.w;
}

/* Exchanges parts of Z2 with the other groups' owners of the same rows; H2 = relu(Z2). */
__device__ void exchange_z2(const EpochPlan &plan, const Place &at, Shared &s, int r, int packet,
                            int parts, uint32_t stamp) {
  if (r >= OWNED) return;
  float z[3] = {};
  for (int part = 0; part < parts; part++)
#pragma unroll
    for (int e = 0; e < 3; e++) z[e] += s.z2[part][r][3 * packet + e];
  Packet *mail = at.z2 + packet +
                 (stamp % 2 * ROWS + at.block * OWNED + r) * plan.groups * at.hidden_packets;
  send(mail + at.group * at.hidden_packets, z[0], z[1], z[2], stamp);
  Packet in[MAX_GROUPS];
  receive(in, plan.groups, stamp, [&](int i) { return mail + i * at.hidden_packets; });
  const float *b2 = &s.p[at.neurons][3 * packet];
  float h[3] = {b2[0], b2[1], b2[2]};
#pragma unroll
  for (int i = 0; i < MAX_GROUPS; i++) h[0] += in[i].x, h[1] += in[i].y, h[2] += in[i].z;
#pragma unroll
  for (int e = 0; e < 3; e++) s.h2[r][3 * packet + e] = h[e] = fmaxf(h[e], 0.0f);
  send(record_of(at, r) + at.neuron_packets + at.hidden_packets + packet, h[0], h[1], h[2], stamp);
}

/* The logits: eight lanes a row and class. */
__device__ void multiply_w3(const EpochPlan &plan, const Place &at, Shared &s) {
  const int lane = row_thread() % 8;
  for (int d = row_thread() / 8; d < OWNED * plan.shape.classes; d += ROW_THREADS / 8) {
    const int r = d % OWNED, c = d / OWNED;
    const float *w3 = s.p[at.neurons + 1 + c], *h2 = s.h2[r];
    float sum = 0.0f;
#pragma unroll 4
    for (int o = lane; o < plan.shape.hidden2; o += 8) sum += h2[o] * w3[o];
    const unsigned mask = __activemask();
    for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(mask, sum, step);
    if (lane == 0) reinterpret_cast<float *>(s.logits[r])[c] = sum + s.p[at.p_rows][c];
  }
}

/* Softmax, loss, and the gradient down to dZ2, for the row r of this thread. Its 80 threads all
   compute the same softmax, cheaper than to share it; then each has two values of dZ2, or three.
   Rows beyond the step's get gradient 0. */
__device__ void finish_row(const EpochPlan &plan, const EpochJob &job, const Place &at, Shared &s,
                           uint32_t position, int r, int i, int label, uint32_t stamp) {
  const int row = at.block * OWNED + r, classes = plan.shape.classes;
  const int rows = (int)min((uint32_t)plan.shape.batch, job.end - position);
  const float *logits = reinterpret_cast<const float *>(s.logits[r]);
  float p[MAX_CLASSES], largest = -INFINITY, total = 0.0f;
#pragma unroll
  for (int q = 0; q < MAX_CLASSES / 4; q++) {
    const float4 four = s.logits[r][q];
    p[4 * q] = four.x, p[4 * q + 1] = four.y, p[4 * q + 2] = four.z, p[4 * q + 3] = four.w;
    largest = fmaxf(largest, fmaxf(fmaxf(four.x, four.y), fmaxf(four.z, four.w)));
  }
#pragma unroll
  for (int c = 0; c < MAX_CLASSES; c++)
    if (c < classes) total += p[c] = expf(p[c] - largest);
  const float mean = row < rows ? 1.0f / rows : 0.0f, inverse = mean / total;
  float dh[2] = {};
#pragma unroll
  for (int c = 0; c < MAX_CLASSES; c++)
    if (c < classes) {
      const float dz = p[c] * inverse - (c == label ? mean : 0.0f);
      const float *w3 = s.p[at.neurons + 1 + c];
      dh[0] += dz * w3[i];
      if (i + ROW_LANES < MAX_HIDDEN2) dh[1] += dz * w3[i + ROW_LANES];
    }
#pragma unroll
  for (int k = 0; k < 2; k++) {
    const int o = i + ROW_LANES * k;
    if (o < MAX_HIDDEN2)
      reinterpret_cast<float *>(&s.dz2[o])[r] = s.h2[r][o] > 0.0f ? dh[k] : 0.0f;
  }

  if (i < at.class_packets) { /* dZ3 to those who update W3 and b3 */
    float dz[3];
#pragma unroll
    for (int e = 0; e < 3; e++) {
      const int c = 3 * i + e;
      dz[e] = c < classes
                  ? expf(logits[c] - largest) * inverse - (c == label ? mean : 0.0f)
                  : 0.0f;
    }
    send(record_of(at, r) + at.neuron_packets + 2 * at.hidden_packets + i, dz[0], dz[1], dz[2],
         stamp);
  }
  if (at.group == 0 && i == ROW_LANES - 1 && row < rows) {
    int best = 0;
    for (int c = 1; c < classes; c++)
      if (logits[c] > logits[best]) best = c;
    job.results.d_loss[position + row] = logf(total) + (largest - logits[label]);
    job.results.d_correct[position + row] = best == label;
  }
}

/* Mails dZ2, then adds up dH1 = dZ2 W2 for the 4 rows: thread (neuron, part) a part of it. */
__device__ void multiply_back(const EpochPlan &plan, const Place &at, Shared &s, int r, int packet,
                              uint32_t stamp) {
  if (r < OWNED) {
    const float *dz2 = reinterpret_cast<const float *>(&s.dz2[3 * packet]) + r;
    send(record_of(at, r) + at.neuron_packets + packet, dz2[0], dz2[4], dz2[8], stamp);
  }
  const int j = row_thread() % 64, part = row_thread() / 64;
  const int length = (plan.shape.hidden2 + DA1_PARTS - 1) / DA1_PARTS;
  const int end = min((part + 1) * length, plan.shape.hidden2);
  float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
  if (j < at.neurons)
#pragma unroll 5
    for (int o = part * length; o < end; o++) {
      const float w = s.p[j][o];
      const float4 dz = s.dz2[o];
      sum.x += w * dz.x, sum.y += w * dz.y, sum.z += w * dz.z, sum.w += w * dz.w;
    }
  s.da1[part][0][j] = sum.x, s.da1[part][1][j] = sum.y;
  s.da1[part][2][j] = sum.z, s.da1[part][3][j] = sum.w;
}

/* dZ1 = dH1 where H1 is positive, mailed to the group's matrix teams. */
__device__ void send_dz1(const Place &at, Shared &s, uint32_t stamp) {
  const int r = row_thread() % OWNED, packet = row_thread() / OWNED;
  if (packet >= at.neuron_packets) return;
  float dz[3];
#pragma unroll
  for (int e = 0; e < 3; e++) {
    float sum = 0.0f;
#pragma unroll
    for (int part = 0; part < DA1_PARTS; part++) sum += s.da1[part][r][3 * packet + e];
    dz[e] = reinterpret_cast<const float *>(&s.h1[3 * packet + e])[r] > 0.0f ? sum : 0.0f;
  }
  send(at.dz1 + (at.block * OWNED + r) * at.neuron_packets + packet, dz[0], dz[1], dz[2], stamp);
}

/* ---- the row team: the patch it updates ---------------------------------------------------------

   Three neighbouring values of one row x of P, owned for the whole launch by two neighbouring
   lanes, which add one half of the batch each. Their gradient is the product of three columns
   over the batch with a fourth:
     W2  dZ2[o..] with H1[x]      b2  dZ2[o..] with ones
     W3  H2[o..]  with dZ3[c]     b3  dZ3[c..] with ones */
struct Patch {
  bool exists, decays;
  int x, packet;            /* row of P, packet within the row */
  const float *three, *one; /* columns, from this lane's half on */
  float w[3], v[3];
};

__host__ __device__ inline int w3_rows_of(int tile, int classes, int tiles) {
  return (classes - tile + tiles - 1) / tiles; /* classes tile, tile + tiles, ... */
}

__device__ Patch find_patch(const EpochPlan &plan, const Place &at, const Shared &s) {
  Patch patch = {};
  const int n = row_thread() / PATCH_THREADS;
  const int in_rows = (TILE + 1 + w3_rows_of(at.tile, plan.shape.classes, plan.tiles)) * at.share;
  if (n < in_rows) {
    const int k = n / at.share, in_share = n % at.share;
    const int c = at.tile + (k - TILE - 1) * plan.tiles; /* from k = TILE + 1 on */
    patch.packet = at.first_packet + in_share;
    patch.exists = k != TILE || at.tile == 0; /* b2 once a group */
    patch.decays = k != TILE;
    patch.x = k < TILE ? at.tile * TILE + k : k == TILE ? at.neurons : at.neurons + 1 + c;
    patch.three = k <= TILE ? s.dz2_column[3 * in_share] : s.h2_column[3 * in_share];
    patch.one = k < TILE ? s.h1_column[k] : k == TILE ? s.ones : s.dz3_column[c];
  } else if (at.block == 0 && n - in_rows < at.class_packets) {
    patch.exists = true;
    patch.x = at.p_rows;
    patch.packet = n - in_rows;
    patch.three = s.dz3_column[3 * patch.packet];
    patch.one = s.ones;
  }
  const int half = row_thread() % PATCH_THREADS * (ROWS / PATCH_THREADS);
  patch.three += half;
  patch.one += half;
  return patch;
}

/* The offset of value e of the patch, or -1. */
__device__ inline long long patch_offset(const EpochPlan &plan, const EpochJob &job,
                                         const Place &at, const Patch &patch, int e) {
  return patch.exists ? p_offset(plan, job, at, patch.x, 3 * patch.packet + e) : -1;
}

/* Which packets of every row's record the patches need, and to which column they go. */
__device__ void find_columns(const Place &at, Shared &s) {
  for (int k = row_thread(); k < at.columns; k += ROW_THREADS) {
    const float *columns = s.h1_column[0];
    const int dz2 = k - TILE_PACKETS, h2 = dz2 - at.share, dz3 = h2 - at.share;
    const float *to = dz2 < 0   ? s.h1_column[3 * k]
                      : h2 < 0  ? s.dz2_column[3 * dz2]
                      : dz3 < 0 ? s.h2_column[3 * h2]
                                : s.dz3_column[3 * dz3];
    s.to[k] = (short)(to - columns);
    s.from[k] = (short)(dz2 < 0   ? at.tile * TILE_PACKETS + k
                        : h2 < 0  ? at.neuron_packets + at.first_packet + dz2
                        : dz3 < 0 ? at.neuron_packets + at.hidden_packets + at.first_packet + h2
                                  : at.neuron_packets + 2 * at.hidden_packets + dz3);
  }
}

/* Takes in the columns: all 64 rows of H1 for the tile, of dZ2 and H2 for the share, of dZ3. */
__device__ void receive_columns(const Place &at, Shared &s, uint32_t stamp) {
  constexpr int COUNT = (ROWS * RECORD_KINDS + ROW_THREADS - 1) / ROW_THREADS;
  const int packets = ROWS * at.columns;
  const int count = (packets - row_thread() + ROW_THREADS - 1) / ROW_THREADS;
  Packet in[COUNT];
  receive(in, count, stamp, [&](int i) {
    const int n = row_thread() + ROW_THREADS * i, row = divide(n, at.by_columns);
    return at.records + row * at.record + s.from[n - row * at.columns];
  });
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    const int n = row_thread() + ROW_THREADS * i, row = divide(n, at.by_columns);
    if (n >= packets) break;
    float *to = s.h1_column[0] + s.to[n - row * at.columns] + row;
    to[0] = in[i].x;
    to[COLUMN_PITCH] = in[i].y;
    to[2 * COLUMN_PITCH] = in[i].z;
  }
}

/* The patch's gradient, its update, and the new values to the group's owners of rows. */
__device__ void update_patch(const EpochJob &job, const Place &at, Patch &patch, uint32_t stamp) {
  const unsigned mask = __ballot_sync(FULL_WARP, patch.exists);
  if (!patch.exists) return;
  const float4 *one = reinterpret_cast<const float4 *>(patch.one);
  float g[3] = {};
#pragma unroll 2
  for (int rows = 0; rows < ROWS / PATCH_THREADS / 4; rows++) {
    const float4 b = one[rows];
#pragma unroll
    for (int e = 0; e < 3; e++) {
      const float4 a = reinterpret_cast<const float4 *>(patch.three + e * COLUMN_PITCH)[rows];
      g[e] += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
    }
  }
  const UpdateRule rule = {job.rule.momentum, patch.decays ? job.rule.weight_decay : 0.0f};
#pragma unroll
  for (int e = 0; e < 3; e++) {
    g[e] += __shfl_xor_sync(mask, g[e], 1);
    update_value(patch.w[e], patch.v[e], g[e], rule, job.learning_rate);
  }
  if (row_thread() % PATCH_THREADS == 0)
    send(at.p + patch.x * at.hidden_packets + patch.packet, patch.w[0], patch.w[1], patch.w[2],
         stamp);
}

/* The parameters of the patch, in or out. Every group has the same b2, W3 and b3: the first one
   writes them. */
__device__ void load_patch(const EpochPlan &plan, const EpochJob &job, const Place &at,
                           Patch &patch) {
  for (int e = 0; e < 3; e++) {
    const long long offset = patch_offset(plan, job, at, patch, e);
    patch.w[e] = offset < 0 ? 0.0f : job.d_parameters[offset];
    patch.v[e] = offset < 0 ? 0.0f : job.d_momentum[offset];
  }
}

__device__ void store_patch(const EpochPlan &plan, const EpochJob &job, const Place &at,
                            const Patch &patch) {
  if (patch.x >= at.neurons && at.group > 0) return;
  for (int e = 0; e < 3; e++) {
    const long long offset = patch_offset(plan, job, at, patch, e);
    if (offset < 0 || row_thread() % PATCH_THREADS != 0) continue;
    job.d_parameters[offset] = patch.w[e];
    job.d_momentum[offset] = patch.v[e];
  }
}

__device__ void row_team(const EpochPlan &plan, const EpochJob &job, Shared &s) {
  const Place &at = s.place;
  const bool owner = at.block < OWNERS;
  /* The thread's part of each job on rows: (o, part) of Z2, (r, packet) of the mail of hidden
     values, (r, i) of the softmax. */
  const int values = 3 * at.hidden_packets, o = row_thread() % values;
  const int part = row_thread() / values, parts = min(ROW_THREADS / values, MAX_Z2_PARTS);
  const int mail_r = row_thread() / at.hidden_packets, packet = row_thread() % at.hidden_packets;
  const int r = row_thread() / ROW_LANES, i = row_thread() % ROW_LANES;
  Patch patch = find_patch(plan, at, s);
  find_columns(at, s);
  load_patch(plan, job, at, patch);
  if (owner) load_p(plan, job, at, s);
  all_have_read();

  uint32_t stamp = job.first_stamp;
  for (uint32_t position = job.position; position < job.end; position += plan.shape.batch) {
    if (owner) {
      const int label = job.d_labels[row_at(job, position, at.block * OWNED + r)];
      if (position != job.position) receive_p(at, s, stamp - 1);
      receive_z1(plan, at, s, stamp);
      row_sync();
      multiply_w2(at, s, o, part, parts);
      row_sync();
      exchange_z2(plan, at, s, mail_r, packet, parts, stamp);
      row_sync();
      multiply_w3(plan, at, s);
      row_sync();
      finish_row(plan, job, at, s, position, r, i, label, stamp);
      row_sync();
      multiply_back(plan, at, s, mail_r, packet, stamp);
      row_sync();
      send_dz1(at, s, stamp);
    }
    receive_columns(at, s, stamp);
    row_sync();
    update_patch(job, at, patch, stamp);
    row_sync();
    stamp++;
  }
  store_patch(plan, job, at, patch);
}

/* ---- the kernel --------------------------------------------------------------------------------- */

extern __shared__ __align__(16) unsigned char shared_bytes[];

__global__ void __launch_bounds__(THREADS, 1) epoch_kernel(EpochPlan plan, EpochJob job) {
  Shared &s = *reinterpret_cast<Shared *>(shared_bytes);
  for (size_t i = threadIdx.x; i < sizeof(Shared) / 4; i += THREADS)
    reinterpret_cast<uint32_t *>(shared_bytes)[i] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < ROWS; i += THREADS) s.ones[i] = 1.0f;
  for (int i = threadIdx.x; i < OWNED * MAX_CLASSES; i += THREADS)
    reinterpret_cast<float *>(s.logits)[i] = -INFINITY;
  if (threadIdx.x == 0) s.place = find_place(plan, static_cast<Packet *>(job.d_mail));
  __syncthreads();
  if (threadIdx.x < MATRIX_THREADS)
    matrix_team(plan, job, s);
  else
    row_team(plan, job, s);
}

} // namespace

const char *plan_epoch(EpochShape shape, EpochPlan *plan) {
  int device, processors, major, shared;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) !=
          cudaSuccess)
    return "the device does not answer";
  const int tiles = (shape.hidden1 + TILE - 1) / TILE;
  *plan = EpochPlan{shape, 0, tiles < MAX_TILES ? tiles : MAX_TILES, 0, 0};
  plan->groups = (tiles + plan->tiles - 1) / plan->tiles;
  plan->splits = processors / (plan->groups * plan->tiles);
  if (plan->splits > MAX_SPLITS) plan->splits = MAX_SPLITS;
  plan->mail_bytes = sizeof(Packet) * (mail_sizes(*plan).z2 +
                                       plan->groups * group_mail(mail_sizes(*plan)));
  if (major < 8) return "it needs compute capability 8.0";
  if (shape.batch > ROWS) return "it takes batches up to 64";
  if (shape.hidden2 > MAX_HIDDEN2) return "it takes second hidden layers up to 128";
  if (shape.classes > MAX_CLASSES) return "it takes up to 16 classes";
  if (plan->groups > MAX_GROUPS || plan->splits * plan->tiles < OWNERS)
    return "the first hidden layer needs more multiprocessors than this GPU has";
  if ((k_steps(shape) + plan->splits - 1) / plan->splits > MATRIX_WARPS ||
      (TILE + 1 + w3_rows_of(0, shape.classes, plan->tiles)) * share_of(*plan) + CLASS_PACKETS >
          ROW_THREADS / PATCH_THREADS)
    return "the layers need more multiprocessors than this GPU has";
  if (sizeof(Shared) > (size_t)shared) return "it needs more shared memory than this GPU has";
  return nullptr;
}

cudaError_t launch_epoch(const EpochPlan *plan, const EpochJob *job, cudaStream_t stream) {
  if (!plan || !job || !job->d_pixels || !job->d_labels || !job->d_order || !job->d_parameters ||
      !job->d_momentum || !job->results.d_loss || !job->results.d_correct || !job->d_mail ||
      job->stride % 16 != 0 || job->position >= job->end || job->first_stamp == 0)
    return cudaErrorInvalidValue;
  cudaError_t status = cudaFuncSetAttribute(
      epoch_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared));
  if (status != cudaSuccess) return status;
  EpochPlan plan_copy = *plan;
  EpochJob job_copy = *job;
  void *arguments[] = {&plan_copy, &job_copy};
  status = cudaLaunchCooperativeKernel((const void *)epoch_kernel,
                                       dim3(plan->groups * plan->tiles * plan->splits),
                                       dim3(THREADS), arguments, sizeof(Shared), stream);
  return status == cudaSuccess ? launched() : status;
}
