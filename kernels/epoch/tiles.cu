/* Level `epoch`: one kernel trains on all the steps of a range. It supports up to five hidden
   layers, batches up to 128 and every optimizer, on GPUs from compute capability 8.0 on. Without
   clusters of blocks it supports batches up to 64 and up to 12 classes.

   Who owns weights. A block has a tile of 8 neurons ("units") of one hidden layer. From the first
   step to the last the block keeps the tile's weights from the previous layer (IN), its weights to
   the next layer (OUT), and their moments. Weights from pixels are in registers. Weights between
   hidden layers are in shared memory, as fp16 terms and as float32. In the blocks of layer 1 the
   float32 values of OUT do not fit into shared memory and stay in the L2 cache. On GPUs without
   clusters this is so for all hidden weights. A weight between two hidden layers has two copies:
   one in the block that reads it forward, one in the block that reads it backward. Both copies get
   the same bits. Each block works on all rows of the batch.

   Who owns rows. In the last layer, the head, each row has an owner. The kernel has three variants:

     BY_CLUSTERS      16 blocks form a cluster, and each owns a sixteenth of the rows. Clusters of
                      this size need compute capability 9.0.
     BY_MAIL          Separate blocks own the rows, on multiprocessors that no tile needs. This
                      variant serves networks that need more clusters than the GPU runs at once.
     BY_MAIL_FROM_80  Like BY_MAIL, but for GPUs without such clusters. It has no bulk copies.

   What travels between blocks. Activations and their gradients travel; weights never do:

     tiles of layer 1 --H--> tiles of layer 2 --H--> ... --parts of the logits--> owners of rows
                      <-dZ--                  <-dZ-- ... <--gradient of the logits--

   Between hidden layers a tile writes its 8 values of a row as packets into the L2 cache, and every
   tile of the other layer reads them (tiles_slices.cuh). In the head a tile sends 16 partial sums
   per row, one for each logit (64 bytes), and receives the gradient of the 16 logits (64 bytes).
   The sender writes into the shared memory of the other block, or sends mail (tiles_head.cuh). So a
   step waits for two such trips per hidden layer: one forward, one backward.

   Without hidden layers the tiles have classes (tiles_classes.cuh).

   Who does what. The 16 warps of a block run at the same time (tiles_warps.cuh). Eight warps are
   the chain: a step takes as long as their work. Each has 8 or 16 rows of the batch. The chain
   computes Z, H, logits, dZ and the next Z without a barrier of the whole block. The other eight
   warps hold weights. They compute gradients, updates and the products of pixels and weights. After
   layer 1 the chain helps to update hidden weights while it waits for the next H.

   Z1 before W1 is known (AHEAD; on compute capability 9.0, with sgd or nesterov, for batches up to
   64). A part of W1's update comes from momentum and weight decay, so it is known before the
   gradient. The weight warps multiply the next step's pixels by W1 with this known part applied.
   When the chain has dZ, it corrects this product: it subtracts a multiple of K dZ, the part of the
   update that comes from the gradient. K has the dot products of the next step's inputs with this
   step's inputs (tiles_prepare.cu). So these steps do not wait for W1. The first step of a
   range and every 64th step of a window are direct: they wait for W1 and multiply by it. Cutting a
   window into ranges does not change the bits if every range begins at a 64th step.

   Numbers. The tensor cores multiply fp16. A number is multiplied by a power of two and split into
   a high and a low fp16 term. All four products of two numbers' terms are added in float32, in a
   fixed order. A pixel needs one term. A number beyond fp16's range becomes an infinity. Later
   products turn the infinity into NaN, which reaches a loss or a weight. Then the kernel sets
   *d_overflowed, and the engine trains again by level layer.

   Mail needs no acknowledgement: every packet is read before the next one overwrites it.
   docs/fusion.md has the proof. */
#include "epoch/tiles_head.cuh"

namespace tiles {

static const Variant *variant_of(const TilesShape &shape, Way way) {
  const Variant *const all[] = {variants_first, variants_second, variants_mail, variants_80,
                                variants_classes};
  for (const Variant *of : all)
    for (int i = 0; i < VARIANTS; i++)
      if (of[i].way == way && of[i].second == (shape.second != 0) && shape.batch <= of[i].rows)
        return &of[i];
  return nullptr;
}

/* Lays out the fields of the job that depend only on the shape. Returns the bytes of a block's
   shared memory. If `extra` is true, this memory includes W1's second moments and averages. */
static size_t lay_out(const TilesShape &shape, const Variant &v, bool extra, Job *job) {
  size_t most = 0;
  const size_t part = UNITS * (v.rows + 8) * sizeof(float);
  int blocks = 0;
  *job = {};
  job->layers = shape.layers;
  job->batch = shape.batch;
  job->classes = shape.size[shape.layers];
  job->arrays = 2 + shape.second + shape.average;
  for (int l = 0; l <= shape.layers; l++) job->size[l] = shape.size[l];
  for (int l = 1; l < shape.layers || l == 1; l++) { /* without hidden layers, the classes */
    job->tiles[l] = ceil_div(shape.size[l], UNITS);
    job->first_block[l] = blocks;
    job->first_tile[l] = job->all_tiles;
    job->all_tiles += job->tiles[l];
    job->clusters = ceil_div(job->tiles[l], RANKS); /* the last hidden layer's value remains */
    job->slice = max(job->slice, job->arrays * ceil_div(shape.size[l], 16) * 32);
    blocks += v.way != BY_CLUSTERS ? job->tiles[l] : job->clusters * RANKS;
    job->mail_size[l] = ceil_div(job->tiles[l], 2) * (v.rows / 8) * 32;
    size_t at = v.shared;
    const auto room = [&](size_t bytes) {
      at += bytes;
      return (int)(at - bytes);
    };
    if (l == 1) room(v.pixels);
    if (l == 1 && v.ahead) job->k_at = room((size_t)v.rows * v.rows * 4);
    if (l > 1 || v.rows < 128) job->parts_at[l] = room(l > 1 ? part : MATRIX * part);
    for (int in = 0; in < 2; in++) {
      const int other = in ? l - 1 : l + 1; /* no terms if this is the pixels or the last layer */
      const bool exists = other > 0 && other < shape.layers;
      const size_t terms = exists ? ceil_div(shape.size[other], 16) * (size_t)512 : 0;
      job->terms_at[in][l] = room(terms);
      job->kept_at[in][l] = room(l > 1 && v.way != BY_MAIL_FROM_80 ? job->arrays * terms : 0);
      if (in) job->received_at[l] = room(v.rows / 8 * terms);
    }
    if (l == shape.layers - 1) job->head_at[l] = room((size_t)v.turns * v.rows * 64);
    if (l == 1 && extra)
      job->extra_at = room((size_t)(shape.second + shape.average) * ALL_CHUNKS * 512);
    most = max(most, at);
  }
  job->first_row_block = blocks;
  return most;
}

/* Counts the bytes of the job's arrays, per step and per launch. */
static void count_bytes(TilesPlan *plan, const Job &job, const Variant &v) {
  const bool mail = v.way != BY_CLUSTERS, drops = plan->shape.drops;
  int parts = mail ? 4 * (job.tiles[job.layers - 1] + 1) : 2 * 8 * job.clusters;
  if (v.way == WITHOUT_HIDDEN)
    parts = 2 * 2 * UNITS / 2; /* two buffers, two tiles, two rows per packet */
  plan->logits_bytes = (size_t)v.rows * sizeof(uint4) * parts;
  plan->mail_bytes = plan->logits_bytes + (size_t)REPLICAS * v.rows * 4 * sizeof(uint4);
  for (int l = 1; l < job.layers; l++) /* two buffers of H; four of dZ, which is sent twice */
    plan->mail_bytes += (2 + 4) * (size_t)job.mail_size[l] * sizeof(uint4);
  if (job.layers > 2) plan->slices_bytes = (size_t)2 * plan->blocks * job.slice * sizeof(float4);
  plan->step_bytes = (size_t)ALL_CHUNKS * 16 * v.rows + v.rows + sizeof(float4);
  if (v.ahead) plan->step_bytes += 4 * v.rows * v.rows;
  if (drops) plan->step_bytes += (size_t)job.all_tiles * v.rows;
}

/* Places the job's arrays in d_work (arrays per step, then arrays per block) and in d_mail. */
static void take_work(const TilesPlan &plan, Job *job) {
  uint8_t *at = static_cast<uint8_t *>(plan.d_work);
  const size_t steps = plan.steps, rows = plan.rows;
  const auto take = [&](size_t bytes) {
    uint8_t *array = bytes ? at : nullptr;
    at += bytes;
    return array;
  };
  job->pixels = take(steps * ALL_CHUNKS * 16 * rows);
  job->k = (uint4 *)take(plan.ahead ? steps * 4 * rows * rows : 0);
  job->keeps = take(plan.shape.drops ? steps * job->all_tiles * rows : 0);
  job->numbers = (float4 *)take(steps * sizeof(float4));
  job->labels = take(steps * rows);
  job->slices = (float4 *)take(plan.slices_bytes);
  job->extra = (float4 *)take(plan.extra_bytes);
  at = static_cast<uint8_t *>(plan.d_mail);
  job->logits = (uint4 *)take(plan.logits_bytes);
  job->gradient = (uint4 *)take(REPLICAS * rows * 4 * sizeof(uint4));
  for (int l = 1; l < job->layers; l++) {
    job->h[l] = (uint4 *)take(2 * (size_t)job->mail_size[l] * sizeof(uint4));
    job->dz[l] = (uint4 *)take(4 * (size_t)job->mail_size[l] * sizeof(uint4));
  }
}

/* Returns the largest power of two such that its product with K (k_kernel) stays within fp16. */
static float scale_of_k(const TilesPlan &plan) {
  const float white = fabsf(255 * plan.pixel_factor - plan.pixel_offset),
              largest = fmaxf(white, fabsf(plan.pixel_offset));
  int exponent;
  frexpf((float)plan.shape.size[0] * largest * largest + 1.0f, &exponent);
  return ldexpf(1.0f, 15 - exponent);
}

static Factors factors_of(const OptimizerRule &rule, float rate, float scale, float decay) {
  const OptimizerLinear linear = optimizer_linear(rule, rate);
  Factors by = {};
  by.scale = scale;
  by.m = linear.m * scale;
  by.g = linear.g * scale;
  by.known_m = by.m * rule.momentum;
  by.known_w = (by.m + by.g) / scale * decay;
  const bool couples = optimizer_couples(optimizer_has_second(rule.kind), rule.kind);
  by.decay = couples ? decay / scale : rate * decay;
  return by;
}

static Rule rule_of(const OptimizerRule &is, float rate, bool averages) {
  Rule rule = {};
  rule.is = is;
  rule.weights = factors_of(is, rate, W_SCALE, is.weight_decay);
  rule.biases = factors_of(is, rate, 1, 0);
  rule.of_gradient = rule.biases.m + rule.biases.g;
  rule.averages = averages;
  return rule;
}

} // namespace tiles

using namespace tiles;

int tiles_clusters(void) {
  return ask_once([] {
           int clusters = 0;
           cudaFuncAttributes of;
           const Variant &v = variants_first[1];
           const bool known =
               cudaFuncGetAttributes(&of, v.kernel) == cudaSuccess && of.ptxVersion >= 90 &&
               allow_large_clusters(v.kernel) == cudaSuccess &&
               allow_shared(v.kernel, 232448) == cudaSuccess &&
               ask_clusters(v.kernel, THREADS, 232448, RANKS, &clusters) == cudaSuccess;
           launched(); /* clears the last error */
           return 1 + (known ? clusters : 0);
         }) -
         1;
}

const char *plan_tiles(TilesShape shape, const GpuLimits *limits, TilesPlan *plan) {
  *plan = TilesPlan{};
  plan->shape = shape;
  if (!ACTIVATION_IS_RELU) return "it takes ReLU only"; /* H travels without its sign */
  if (shape.layers > LAYERS) return "it takes up to five hidden layers";
  if (shape.size[0] > INPUTS) return "it takes up to 784 inputs";
  if (shape.size[shape.layers] > CLASSES) return "it takes up to 16 classes";
  if (shape.batch > 128) return "it takes batches up to 128";
  if (limits->capability < 80) return "it needs compute capability 8.0";
  int clusters = 0, blocks = 0;
  for (int l = 1; l < shape.layers; l++) {
    clusters += ceil_div(shape.size[l], UNITS * RANKS);
    blocks += ceil_div(shape.size[l], UNITS);
  }
  const bool small = limits->clusters == 0, mail = clusters > limits->clusters;
  Way way = mail ? BY_MAIL : BY_CLUSTERS;
  if (small) way = BY_MAIL_FROM_80;
  if (shape.layers == 1) way = WITHOUT_HIDDEN, blocks = ceil_div(shape.size[1], UNITS);
  if (shape.layers == 1 && small)
    return "without hidden layers it needs clusters of blocks, so compute capability 9.0";
  const Variant *v = variant_of(shape, way);
  if (mail && blocks + 1 > limits->multiprocessors)
    return "the layers need more multiprocessors than this GPU has";
  if (!v)
    return small ? "without clusters of blocks it takes batches up to 64"
                 : "with this optimizer so large a network takes batches up to 64";
  if (mail && shape.size[shape.layers] > MAIL_CLASSES)
    return small ? "without clusters of blocks it takes up to 12 classes"
                 : "so large a network takes up to 12 classes";
  plan->blocks = mail ? min(limits->multiprocessors, blocks + v->rows) : clusters * RANKS;
  if (way == WITHOUT_HIDDEN) plan->blocks = blocks;
  Job job;
  plan->shared_bytes = lay_out(shape, *v, true, &job);
  if (plan->shared_bytes > limits->shared_bytes) {
    plan->extra_bytes = (size_t)plan->blocks * 2 * ALL_CHUNKS * 512;
    plan->shared_bytes = lay_out(shape, *v, false, &job);
  }
  if (plan->shared_bytes > limits->shared_bytes) {
    plan->blocks = 0;
    return "it needs more shared memory than this GPU has";
  }
  plan->rows = v->rows;
  plan->ahead = v->ahead;
  plan->clusters = mail ? 0 : clusters;
  plan->steps = 65536 / v->rows; /* the steps' pixels are about 52 MB; a multiple of 64 */
  plan->variant = v;
  memcpy(plan->job, &job, sizeof job);
  count_bytes(plan, job, *v);
  return nullptr;
}

size_t tiles_work_bytes(const TilesPlan *plan) {
  return plan->steps * plan->step_bytes + plan->slices_bytes + plan->extra_bytes;
}

cudaError_t open_tiles(TilesPlan *plan) {
  REQUIRE(given(plan) && plan->blocks > 0 &&
          given(plan->d_parameters, plan->d_first, plan->results.d_loss, plan->results.d_correct,
                plan->d_overflowed, plan->d_mail, plan->d_work) &&
          !plan->d_second == !plan->shape.second && !plan->d_average == !plan->shape.average);
  Job job;
  memcpy(&job, plan->job, sizeof job);
  take_work(*plan, &job);
  job.pixel_factor = plan->pixel_factor;
  job.pixel_offset = plan->pixel_offset;
  job.k_scale = scale_of_k(*plan);
  job.other = plan->smoothing / (float)job.classes;
  job.own = 1.0f - plan->smoothing + job.other;
  job.mean = 1.0f / (float)job.batch;
  for (int l = 1; l <= job.layers; l++) {
    job.weight[l] = plan->weight[l - 1];
    job.bias[l] = plan->bias[l - 1];
    job.drop[l] = plan->dropout[l - 1];
    job.keep_scale[l] = plan->shape.drops ? 1.0f / (1.0f - job.drop[l]) : 1.0f;
  }
  job.flat = {plan->d_parameters, plan->d_first, plan->d_second, plan->d_average,
              plan->d_overflowed};
  memcpy(plan->job, &job, sizeof job);
  plan->stamp = FIRST_STAMP;
  return cudaSuccess;
}

cudaError_t launch_tiles(TilesPlan *plan, BatchView batch, StepState state, cudaStream_t stream) {
  REQUIRE(given(plan) && plan->stamp >= FIRST_STAMP &&
          given(batch.d_pixels, batch.d_labels, batch.d_order) && batch.stride % 16 == 0 &&
          state.position < state.end);
  const Variant &v = *static_cast<const Variant *>(plan->variant);
  const uint32_t size = (uint32_t)plan->shape.batch;
  const uint64_t most = (uint64_t)plan->steps * size; /* positions of one launch */
  /* All blocks must run at once, because they wait for each other. */
  cudaLaunchAttribute together = clusters_of(RANKS);
  if (v.way != BY_CLUSTERS) {
    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = 1;
  } else if (plan->blocks > tiles_clusters() * RANKS) {
    return cudaErrorCooperativeLaunchTooLarge;
  } else {
    TRY(allow_large_clusters(v.kernel));
  }
  Job job;
  memcpy(&job, plan->job, sizeof job);
  job.rule = rule_of(state.rule, state.learning_rate, plan->ema > 0.0f);
  for (StepState now = state; now.position < state.end; now.position = now.end) {
    now.end = (uint32_t)min((now.position / most + 1) * most, (uint64_t)state.end);
    job.rows = now.end - now.position;
    job.steps = (int)ceil_div(job.rows, size);
    job.first_step = (int)(now.position / size);
    job.stamp = plan->stamp;
    job.last_mean = 1.0f / (float)(job.rows - (job.steps - 1) * size);
    job.results = {plan->results.d_loss + now.position, plan->results.d_correct + now.position};
    plan->stamp += job.steps;
    TRY(prepare(*plan, job, batch, now, stream));
    TRY(allow_shared(v.kernel, plan->shared_bytes));
    TRY(launch_with(&together, 1, v.kernel, plan->blocks, THREADS, plan->shared_bytes, stream,
                    job));
  }
  return cudaSuccess;
}
