/* The CUDA engine: the calls of engine.h, opening, closing, and members. */
#include "engine/cuda/cuda_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nvtx3/nvToolsExt.h>

#include "base/augment.h"
#include "engine/cuda/gpu_limits.h"

enum { EVALUATE_ROWS = 10240, EVALUATE_FLOATS = 1 << 26 };
enum { FEW_PARAMETERS = 1000000 };

/* ---- the interface ------------------------------------------------------------------------ */

static bool cuda_staging(Engine *engine, int index, StagingBuffer *out, Error *error) {
  CudaEngine *e = (CudaEngine *)engine;
  if (!sums_wait(e, e->staging[index].copied, "copying rows", error)) return false;
  *out = (StagingBuffer){e->staging[index].h_pixels, e->staging[index].h_labels, e->stride};
  return true;
}

static cudaError_t upload(CudaEngine *e, Staging *staging, uint64_t first_row, uint64_t rows) {
  if (first_row < e->rows_seen) { /* queued work may still read these dataset rows */
    /* `consumed` covers only the rows of this staging buffer's last upload */
    if (first_row != staging->first_row || rows > staging->rows)
      TRY(cudaEventRecord(staging->consumed, e->compute));
    TRY(cudaStreamWaitEvent(e->copy, staging->consumed, 0));
  }
  TRY(cudaMemcpyAsync(e->d_pixels + first_row * e->stride, staging->h_pixels, rows * e->stride,
                      cudaMemcpyHostToDevice, e->copy));
  TRY(cudaMemcpyAsync(e->d_labels + first_row, staging->h_labels, rows * sizeof(uint16_t),
                      cudaMemcpyHostToDevice, e->copy));
  TRY(cudaEventRecord(staging->copied, e->copy));
  staging->first_row = first_row;
  staging->rows = rows;
  e->augmented.rows = 0;
  if (first_row + rows > e->rows_seen) e->rows_seen = first_row + rows;
  return cudaStreamWaitEvent(e->compute, staging->copied, 0);
}

static bool cuda_upload(Engine *engine, int index, uint64_t first_row, uint64_t rows,
                        Error *error) {
  CudaEngine *e = (CudaEngine *)engine;
  if (!engine_can_upload(&engine->config, first_row, rows, error) ||
      (first_row < e->rows_seen && !replay_settle(e, error)))
    return false;
  nvtxRangePushA("upload");
  const cudaError_t status = upload(e, &e->staging[index], first_row, rows);
  nvtxRangePop();
  return cuda_done(status, "uploading rows", error);
}

/* Records the event `consumed` of each staging buffer whose last upload wrote any of these rows. */
static cudaError_t consume(CudaEngine *e, uint64_t first_row, uint64_t rows) {
  for (int s = 0; s < 2; s++) {
    const Staging *staging = &e->staging[s];
    if (first_row < staging->first_row + staging->rows && staging->first_row < first_row + rows)
      TRY(cudaEventRecord(staging->consumed, e->compute));
  }
  return cudaSuccess;
}

/* Fills d_order with the range's order, unless d_order already holds it. */
static cudaError_t order(CudaEngine *e, const TrainRange *range) {
  const TrainRange *o = &e->ordered;
  if (o->first_row == range->first_row && o->rows == range->rows &&
      o->shuffled == range->shuffled && o->key == range->key)
    return cudaSuccess;
  e->ordered = *range;
  return launch_order(e->d_order, (uint32_t)range->first_row, (uint32_t)range->rows,
                      range->shuffled, range->key, e->compute);
}

/* Fills d_augmented with augmented copies of the window's rows, unless it already holds them. */
static cudaError_t augment(CudaEngine *e, const TrainRange *range) {
  const size_t start = range->first_row * e->stride;
  if (engine_augments_alike(&e->augmented, range)) return cudaSuccess;
  e->augmented = *range;
  return launch_augment(e->d_pixels + start, e->d_augmented + start, (uint32_t)range->rows,
                        e->stride, augment_side(e->engine.config.network.size[0]), range->augment,
                        range->augment_key, e->compute);
}

/* A range is queued in parts. Returns the end of the part that begins with `step`. A wide network
   sets its scales once per part, so a part has few steps. A last step with less than half a batch
   gets its own part, because fewer rows mean larger gradients. */
static uint64_t end_of_part(const CudaEngine *e, const TrainRange *range, uint64_t step) {
  const uint64_t batch = (uint64_t)e->engine.config.training.batch,
                 end = range->first_step + range->steps;
  const uint64_t whole = range->rows / batch;
  uint64_t part = (step / WIDE_STEPS + 1) * WIDE_STEPS;
  if (e->level != &level_wide) return end;
  if (step < whole && whole < part && 2 * (range->rows % batch) < batch) part = whole;
  return part < end ? part : end;
}

cudaError_t cuda_queue_range(CudaEngine *e, const TrainRange *range) {
  const uint64_t batch = (uint64_t)e->engine.config.training.batch;
  const uint32_t position = (uint32_t)(range->first_step * batch);
  const uint64_t end = range->first_step + range->steps;
  const uint32_t last = (uint32_t)min_size(end * batch, range->rows);
  if (augment_any(range->augment)) TRY(augment(e, range));
  e->d_train_on = augment_any(range->augment) ? e->d_augmented : e->d_pixels;
  TRY(order(e, range));
  StepState state = {.learning_rate = range->learning_rate,
                     .updates = (uint32_t)(range->updates - range->first_step),
                     .dropout_key = range->dropout_key,
                     .rule = e->engine.config.training.rule};
  for (uint64_t step = range->first_step, past; step < end; step = past) {
    past = end_of_part(e, range, step);
    state.position = (uint32_t)(step * batch);
    state.end = (uint32_t)min_size(past * batch, last);
    TRY(launch_begin(e->d_state, state, e->compute));
    if (e->level == &level_wide) TRY(steps_rescale(e, state));
    TRY(steps_train(e, state, past - step));
  }
  TRY(launch_sum(e->d_sums, e->results, position, last, e->share, e->compute));
  return consume(e, range->first_row, range->rows);
}

/* Makes a member's GPU current in the calling thread; every thread has its own current GPU. */
static bool take_gpu(const CudaEngine *e, Error *error) {
  return !e->first || cuda_done(cudaSetDevice(e->device), "taking the GPU", error);
}

static bool cuda_train(Engine *engine, const TrainRange *range, Error *error) {
  CudaEngine *e = (CudaEngine *)engine;
  if (!engine_can_train(&engine->config, range, error)) return false;
  if (range->steps == 0) return true;
  if (!take_gpu(e, error) || !replay_note(e, range, error)) return false;
  nvtxRangePushA("train");
  const cudaError_t status = cuda_queue_range(e, range);
  nvtxRangePop();
  return cuda_done(status, "training", error);
}

/* Queues the forward pass. If `logits` is NULL, adds results to the sums; else waits for logits. */
cudaError_t cuda_queue_rows(CudaEngine *e, uint64_t first_row, uint64_t rows, float *logits) {
  const Network *n = &e->engine.config.network;
  const size_t classes = (size_t)n->size[n->layers];
  for (uint64_t done = 0; done < rows; done += (uint64_t)e->forward_rows) {
    const uint32_t count = (uint32_t)min_size(rows - done, (size_t)e->forward_rows);
    TRY(launch_begin(e->d_state, (StepState){.end = count}, e->compute));
    TRY(steps_evaluate(e, (uint32_t)(first_row + done), (int)count));
    if (logits)
      TRY(cudaMemcpyAsync(logits + done * classes, e->d_activation[n->layers],
                          count * classes * sizeof *logits, cudaMemcpyDeviceToHost, e->compute));
    else
      TRY(launch_sum(e->d_sums, e->results, 0, count, (RowShare){0}, e->compute));
  }
  return logits ? cudaStreamSynchronize(e->compute) : consume(e, first_row, rows);
}

static bool cuda_predict(Engine *engine, uint64_t first_row, uint64_t rows, float *logits,
                         Error *error) {
  CudaEngine *e = (CudaEngine *)engine;
  const TrainRange evaluated = {.first_row = first_row, .rows = rows};
  if (!engine_has_rows(&engine->config, first_row, rows, error) || !take_gpu(e, error) ||
      !(logits ? replay_settle(e, error) : replay_note(e, &evaluated, error)))
    return false;
  nvtxRangePushA(logits ? "predict" : "evaluate");
  const cudaError_t status = (logits ? replay_logits : cuda_queue_rows)(e, first_row, rows, logits);
  nvtxRangePop();
  return cuda_done(status, logits ? "predicting" : "evaluating", error);
}

static bool cuda_collect(Engine *engine, EngineSums *out, Error *error) {
  CudaEngine *e = (CudaEngine *)engine;
  ResultSums sums;
  if (!replay_sums(e, &sums, error) ||
      !cuda_done(cudaMemsetAsync(e->d_sums, 0, sizeof sums, e->compute), "collecting results",
                 error))
    return false;
  *out = (EngineSums){sums.loss, sums.correct, sums.rows};
  return engine_ranks_collect(&engine->config, out, error);
}

/* Returns array number `a` of the operations `read` and `write` (engine.h). */
static float *array_of(const CudaEngine *e, size_t a) {
  if (a == 0 && e->d_average) return e->d_average;
  return a > 0 && a <= training_moments(&e->engine.config.training)
             ? e->d_momentum + (a - 1) * e->engine.config.network.floats
             : e->d_parameters;
}

static bool cuda_read(Engine *engine, float *arrays, size_t count, Error *error) {
  CudaEngine *e = (CudaEngine *)engine;
  const size_t floats = engine->config.network.floats;
  bool good = replay_settle(e, error) && sums_wait(e, NULL, "training or evaluating", error);
  for (size_t a = 0; good && a < count; a++)
    good = cuda_done(cudaMemcpy(arrays + a * floats, array_of(e, a), floats * sizeof *arrays,
                                cudaMemcpyDeviceToHost),
                     "reading the parameters", error);
  return good;
}

/* Copies on e->compute, because this stream does not wait for copies on the default stream. */
static cudaError_t write_arrays(CudaEngine *e, const float *arrays, size_t count) {
  const size_t floats = e->engine.config.network.floats, bytes = floats * sizeof *arrays;
  for (size_t a = 0; a < count; a++)
    TRY(cudaMemcpyAsync(array_of(e, a), arrays + a * floats, bytes, cudaMemcpyHostToDevice,
                        e->compute));
  if (count == 1 && e->d_average)
    TRY(cudaMemcpyAsync(e->d_parameters, arrays, bytes, cudaMemcpyHostToDevice, e->compute));
  return cudaStreamSynchronize(e->compute);
}

static bool cuda_write(Engine *engine, const float *arrays, size_t count, Error *error) {
  CudaEngine *e = (CudaEngine *)engine;
  steps_forget(e); /* the graphs use the previous run's rule */
  return replay_settle(e, error) &&
         cuda_done(write_arrays(e, arrays, count), "writing the parameters", error);
}

static void cuda_close(Engine *engine) {
  CudaEngine *e = (CudaEngine *)engine;
  e->sums.closes = true;
  if (e->compute) sums_wait(e, NULL, "", NULL);
  if (e->copy) cudaStreamSynchronize(e->copy);
  steps_forget(e);
  sums_close(e, false);
  if (e->library) e->close_library(e->library);
  cuda_release_all(e);
  free(e);
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool allocate(CudaEngine *e, Error *error) {
  const EngineConfig *c = &e->engine.config;
  const Training *t = &c->training;
  const Network *n = &c->network;
  const Level *level = e->level;
  const size_t rows = (size_t)e->forward_rows, batch = (size_t)engine_rows(c);
  const size_t all = c->dataset_rows, results = all > rows ? all : rows;
  const size_t steps = ceil_div(all, (size_t)t->batch);
  const bool member = e->first, tiles = has_tiles(e), cluster = has_cluster(e),
             exercise = level == &level_exercise;
  const bool scaled = level->unfused || !training_pixel_factor(t).is_default;
  size_t widest = 0;
  for (int l = 1; l <= n->layers; l++) {
    const size_t size = (size_t)n->size[l];
    if (size > widest) widest = size;
    if (!cuda_array(e, &e->d_activation[l], rows * size, sizeof(float), error) ||
        !cuda_array(e, &e->d_delta[l], batch * size, sizeof(float), error))
      return false;
  }
  const struct {
    void *pointer;
    size_t count, size; /* count 0 means that the engine does not need the array */
    bool zeros;
  } arrays[] = {
      {&e->d_pixels, member ? 0 : all, e->stride, false},
      {&e->d_augmented, augment_any(t->augment) ? all : 0, e->stride, false},
      {&e->d_labels, member ? 0 : all, sizeof(uint16_t), false},
      {&e->d_order, all, sizeof(uint32_t), false},
      {&e->results.d_loss, results, sizeof(float), false},
      {&e->results.d_correct, results, 1, false},
      {&e->d_state, 1, sizeof(StepState), false},
      {&e->d_sums, 1, sizeof(ResultSums), true},
      {&e->d_x, scaled ? rows * (size_t)n->size[0] : 0, sizeof(float), false},
      {&e->d_z, level->unfused ? rows * widest : 0, sizeof(float), false},
      {&e->d_largest, exercise ? rows : 0, sizeof(float), false},
      {&e->d_sum, exercise ? rows : 0, sizeof(float), false},
      {&e->d_work, !member, update_work_bytes(), true},
      {&e->d_mail, tiles, e->tiles.mail_bytes, true},
      {&e->d_steps, tiles, tiles ? tiles_work_bytes(&e->tiles) : 0, false},
      {&e->d_steps, cluster, many_work_bytes((uint32_t)steps), false},
      {&e->d_parameters, n->floats, sizeof(float), false},
      {&e->d_momentum, training_moments(t) * n->floats, sizeof(float), true},
      {&e->d_average, t->ema > 0 ? n->floats : 0, sizeof(float), false},
      {&e->replay.d_before, has_fp16_terms(e) ? (1 + training_states(t)) * n->floats : 0,
       sizeof(float), true},
      {&e->replay.d_sums, 1, sizeof(ResultSums), false},
  };
  bool good = true;
  for (Staging *s = e->staging; good && !member && s < e->staging + 2; s++) {
    good = cuda_pinned(e, &s->h_pixels, c->staging_rows * e->stride, error) &&
           cuda_pinned(e, &s->h_labels, c->staging_rows * sizeof(uint16_t), error) &&
           cuda_event(e, &s->copied, error) && cuda_event(e, &s->consumed, error);
    if (good && e->stride > (size_t)n->size[0]) /* readers never write the padding of a row */
      memset(s->h_pixels, 0, c->staging_rows * e->stride);
  }
  good = good && ((!level->unfused && !stores_gradient(e)) || sums_array(e, error));
  for (size_t i = 0; good && i < sizeof arrays / sizeof *arrays; i++)
    good = !arrays[i].count || (arrays[i].zeros ? cuda_zeros : cuda_array)(
                                   e, arrays[i].pointer, arrays[i].count, arrays[i].size, error);
  return good && (!e->engine.wide || wide_allocate(e, error));
}

/* Initialises the parameters. Then a small kernel finds a broken GPU before data are read. */
static bool initialise(CudaEngine *e, Error *error) {
  const Network *n = &e->engine.config.network;
  float *parameters = malloc(n->floats * sizeof *parameters);
  if (!parameters) return error_set(error, "no memory for the initial parameters");
  network_initialise(n, e->engine.config.training.seed, parameters);
  /* A kernel that starts early takes room from the kernel that runs. Large kernels and NCCL's
     kernels need this room. */
  kernels_start_early(!e->engine.wide ||
                      (n->parameters < FEW_PARAMETERS && !e->engine.config.ranks));
  const bool written = cuda_write(&e->engine, parameters, 1, error);
  const char *what = "the first launch";
  free(parameters);
  return written && cuda_done(launch_order(e->d_order, 0, 1, false, 0, e->compute), what, error) &&
         cuda_done(cudaStreamSynchronize(e->compute), what, error);
}

static int rows_to_evaluate_at_once(const EngineConfig *c) {
  size_t floats = (size_t)c->network.size[0]; /* floats of one row's pixels and activations */
  for (int l = 1; l <= c->network.layers; l++) floats += (size_t)c->network.size[l];
  return max_int((int)min_size(EVALUATE_FLOATS / floats, EVALUATE_ROWS), engine_rows(c));
}

static bool choose_level(CudaEngine *e, Error *error) {
  Engine *engine = &e->engine;
  if (e->level) {
    engine->config.training.fusion = FUSION_STEP;
    return engine->config.training.rule.weight_decay == 0 ||
           error_set(error, "with products from a library weight decay must be 0");
  }
  GpuLimits limits;
  e->may_join = engine->config.training.fusion == FUSION_AUTO;
  if (!gpu_limits_read(&limits, error) || !engine_cuda_choose(engine, &limits, &e->tiles, error))
    return false;
  engine_cuda_choose_wide(engine, &limits);
  const Fusion fusion = engine->config.training.fusion;
  if (has_tiles(e) && e->tiles.ahead) engine->aligned = EPOCH_DIRECT;
  if (has_tiles(e))
    e->tiles.steps = (int)min_size(
        (size_t)e->tiles.steps,
        round_up(ceil_div(engine->config.dataset_rows, (size_t)engine->config.training.batch),
                 EPOCH_DIRECT));
  if (engine->wide) engine->aligned = WIDE_STEPS;
  e->level = engine->wide                ? &level_wide
             : fusion == FUSION_NONE     ? &level_none
             : fusion == FUSION_EXERCISE ? &level_exercise
                                         : &level_layer; /* level epoch evaluates at level layer */
  return true;
}

static bool describe(CudaEngine *e, Error *error) {
  struct cudaDeviceProp properties;
  if (!cuda_done(cudaGetDevice(&e->device), "finding the device", error) ||
      !cuda_done(cudaGetDeviceProperties(&properties, e->device), "finding the device", error))
    return false;
  snprintf(e->engine.device, sizeof e->engine.device, "%.127s", properties.name);
  e->engine.memory = properties.totalGlobalMem;
  return true;
}

bool engine_cuda_available(Error *reason) {
  int devices = 0;
  const char *what = "looking for a GPU";
  return cuda_done(cudaGetDeviceCount(&devices), what, reason) &&
         cuda_done(devices > 0 ? cudaSuccess : cudaErrorNoDevice, what, reason) &&
         cuda_done(kernels_can_run(NULL), what, reason);
}

/* Returns an engine without arrays or streams. Sets only fields that follow from `config`. */
static CudaEngine *new_engine(const EngineConfig *config, Error *error) {
  CudaEngine *e = calloc(1, sizeof *e);
  if (!e) return error_null(error, "out of memory for the engine");
  e->engine.config = *config;
  e->stride = engine_row_stride(config->network.size[0]);
  e->forward_rows = rows_to_evaluate_at_once(config);
  e->stamp = TILES_FIRST_STAMP;
  e->share = (RowShare){(uint32_t)config->training.batch, (uint32_t)ranks_number(config->ranks),
                        config->ranks ? (uint32_t)ranks_count(config->ranks) : 0};
  return e;
}

/* ---- members --------------------------------------------------------------------------------- */

/* A member is an engine with its own parameters, order, results and stream. On Hopper, a small
   network of two hidden layers trains in one cluster (kernels/many/). Other members train by
   launch_tiles, like a single network. A member's bits do not depend on the other members. */

/* Maximum number of members if each trains in one cluster. If not all members fit on the GPU at
   once, their kernels take turns, so all members end at nearly the same time. */
enum { MOST_BY_CLUSTERS = 64 };

static bool by_clusters(const CudaEngine *e) {
  const EngineConfig *c = &e->engine.config;
  return c->training.fusion == FUSION_EPOCH && e->may_join && engine_cuda_suits_many(c) &&
         many_takes(many_shape(e)) && c->dataset_rows < 1 << 28 && many_clusters() > 0;
}

/* The blocks of launch_tiles wait for each other, so the kernels of all members must fit on the GPU
   at once. A kernel of one cluster may wait for room, because a cluster starts as a whole. */
static int cuda_members(Engine *engine) {
  const CudaEngine *e = (const CudaEngine *)engine;
  GpuLimits limits;
  if (by_clusters(e)) return MOST_BY_CLUSTERS;
  if (!e->may_join || !has_tiles(e) || e->tiles.clusters == 0 || !gpu_limits_read(&limits, NULL))
    return 0;
  return e->tiles.clusters == 1 ? MOST_BY_CLUSTERS : limits.clusters / e->tiles.clusters;
}

static Engine *cuda_member(Engine *engine, Error *error) {
  CudaEngine *first = (CudaEngine *)engine;
  const bool clusters = by_clusters(first);
  if (!cuda_done(cudaStreamSynchronize(first->compute), "uploading rows", error)) return NULL;
  if (clusters)
    snprintf(engine->reason, sizeof engine->reason,
             "a network in each cluster of 16 blocks, %d at a time", many_clusters());
  CudaEngine *e = new_engine(&first->engine.config, error);
  if (!e) return NULL;
  e->engine.call = engine->call;
  memcpy(e->engine.device, engine->device, sizeof engine->device);
  memcpy(e->engine.reason, engine->reason, sizeof engine->reason);
  e->engine.memory = first->engine.memory;
  e->level = first->level;
  e->first = first;
  if (!clusters) e->tiles = first->tiles;
  if (has_tiles(e)) e->engine.aligned = first->engine.aligned;
  e->d_pixels = first->d_pixels;
  e->d_labels = first->d_labels;
  e->d_work = first->d_work; /* launch_updates requires it, but does not use it for few rows */
  e->taken = first->taken;   /* all members together must stay within --device-memory */
  e->device = first->device;
  if (cuda_stream(e, &e->compute, 0, error) && allocate(e, error) && initialise(e, error)) {
    first->taken = e->taken;
    return &e->engine;
  }
  cuda_close(&e->engine);
  return NULL;
}

static const EngineOperations OPERATIONS = {
    .staging = cuda_staging,
    .upload = cuda_upload,
    .train = cuda_train,
    .predict = cuda_predict,
    .collect = cuda_collect,
    .read = cuda_read,
    .write = cuda_write,
    .close = cuda_close,
    .members = cuda_members,
    .member = cuda_member,
};

/* ---- the engine ------------------------------------------------------------------------------ */

Engine *engine_cuda_open_with(const EngineConfig *config, const Level *level, void *library,
                              void (*close_library)(void *), Error *error) {
  CudaEngine *e = new_engine(config, error);
  if (!e) {
    if (library) close_library(library);
    return NULL;
  }
  e->engine.call = &OPERATIONS;
  e->level = level;
  e->library = library;
  e->close_library = close_library;
  if (engine_cuda_available(error) && describe(e, error) && choose_level(e, error) &&
      cuda_stream(e, &e->copy, 0, error) && cuda_stream(e, &e->compute, 0, error) &&
      sums_open(e, error) && allocate(e, error) && initialise(e, error))
    return &e->engine;
  cuda_close(&e->engine);
  return NULL;
}

Engine *engine_cuda_open(const EngineConfig *config, Error *error) {
  return engine_cuda_open_with(config, NULL, NULL, NULL, error);
}
