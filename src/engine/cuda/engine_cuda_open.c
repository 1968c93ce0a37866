/* Opens CUDA engines and members: chooses the level, allocates, and initialises the parameters. */
#include "engine/cuda/cuda_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cuda/gpu_limits.h"

enum { EVALUATE_ROWS = 10240, EVALUATE_FLOATS = 1 << 26 };
enum { FEW_PARAMETERS = 1000000 };

/* ---- the level ------------------------------------------------------------------------------- */

/* Sets e->level, and *tiles to the plan of level epoch. */
static bool choose_level(CudaEngine *e, TilesPlan *tiles, Error *error) {
  static const Level *const levels[] = {[FUSION_NONE] = &level_none,
                                        [FUSION_LAYER] = &level_layer,
                                        [FUSION_STEP] = &level_step,
                                        [FUSION_EPOCH] = &level_epoch,
                                        [FUSION_EXERCISE] = &level_exercise};
  Engine *engine = &e->engine;
  Training *training = &engine->config.training;
  if (e->level) {
    training->fusion = FUSION_STEP;
    return training->rule.weight_decay == 0 ||
           error_set(error, "with products from a library weight decay must be 0");
  }
  GpuLimits limits;
  e->may_join = training->fusion == FUSION_AUTO;
  if (!gpu_limits_read(&limits, error) || !engine_cuda_choose(engine, &limits, tiles, error))
    return false;
  engine_cuda_choose_wide(engine, &limits);
  e->level = engine->wide ? &level_wide : levels[training->fusion];
  return true;
}

static bool describe(CudaEngine *e, Error *error) {
  struct cudaDeviceProp properties;
  if (!cuda_done(cudaGetDevice(&e->device), "finding the device", error) ||
      !cuda_done(cudaGetDeviceProperties(&properties, e->device), "finding the device", error))
    return false;
  snprintf(e->engine.device, sizeof e->engine.device, "%.127s", properties.name);
  e->engine.memory = e->memory.has = properties.totalGlobalMem;
  return true;
}

bool engine_cuda_available(Error *reason) {
  int devices = 0;
  const char *what = "looking for a GPU";
  return cuda_done(cudaGetDeviceCount(&devices), what, reason) &&
         cuda_done(devices > 0 ? cudaSuccess : cudaErrorNoDevice, what, reason) &&
         cuda_done(kernels_can_run(NULL), what, reason);
}

/* ---- arrays ---------------------------------------------------------------------------------- */

static int rows_to_evaluate_at_once(const EngineConfig *c) {
  size_t floats = (size_t)c->network.size[0]; /* floats of one row's pixels and activations */
  for (int l = 1; l <= c->network.layers; l++) floats += (size_t)c->network.size[l];
  return max_int((int)min_size(EVALUATE_FLOATS / floats, EVALUATE_ROWS), engine_rows(c));
}

/* Allocates the arrays of levels that launch kernels for each layer. Level epoch evaluates so. */
static bool allocate_layers(CudaEngine *e, Error *error) {
  const EngineConfig *c = &e->engine.config;
  const Network *n = &c->network;
  const Level *level = e->level;
  const size_t rows = (size_t)e->forward_rows, batch = (size_t)engine_rows(c);
  LayerArrays *a = &e->arrays;
  CudaMemory *m = &e->memory;
  for (int l = 1; l <= n->layers; l++)
    if (!cuda_array(m, &a->d_activation[l], rows * (size_t)n->size[l], sizeof(float), error) ||
        !cuda_array(m, &a->d_delta[l], batch * (size_t)n->size[l], sizeof(float), error))
      return false;
  if ((level->unfused || !training_pixel_factor(&c->training).is_default) &&
      !cuda_array(m, &a->d_x, rows * (size_t)n->size[0], sizeof(float), error))
    return false;
  if ((level->unfused || stores_gradient(c)) &&
      !sums_array(&e->around.sums, m, &a->d_gradient, n->floats, error))
    return false;
  /* launch_updates requires scratch memory, but does not use it for a member's few rows */
  if (e->first) a->d_scratch = e->first->arrays.d_scratch;
  return e->first || !level->scratch ||
         cuda_zeros(m, &a->d_scratch, 1, level->scratch(c, e->forward_rows), error);
}

static bool allocate_staging(CudaEngine *e, Error *error) {
  const EngineConfig *c = &e->engine.config;
  const size_t rows = c->staging_rows, stride = e->pass.batch.stride;
  for (Staging *s = e->staging; s < e->staging + 2; s++) {
    if (!cuda_pinned(&e->memory, &s->h_pixels, rows * stride, error) ||
        !cuda_pinned(&e->memory, &s->h_labels, rows * sizeof *s->h_labels, error) ||
        !cuda_event(&e->memory, &s->copied, error) || !cuda_event(&e->memory, &s->consumed, error))
      return false;
    if (stride > (size_t)c->network.size[0]) /* readers never write the padding of a row */
      memset(s->h_pixels, 0, rows * stride);
  }
  return true;
}

static bool allocate(CudaEngine *e, const TilesPlan *tiles, Error *error) {
  const EngineConfig *c = &e->engine.config;
  const Training *t = &c->training;
  Pass *p = &e->pass;
  const size_t all = c->dataset_rows, stride = p->batch.stride, floats = c->network.floats,
               forward = (size_t)e->forward_rows, results = all > forward ? all : forward;
  const bool member = e->first;
  const struct {
    void *pointer;
    size_t count, size; /* count 0 means that the engine does not need the array */
    bool zeros;
  } arrays[] = {
      {&e->d_pixels, member ? 0 : all, stride, false},
      {&e->d_augmented, augment_any(t->augment) ? all : 0, stride, false},
      {&e->d_labels, member ? 0 : all, sizeof(uint16_t), false},
      {&e->d_order, all, sizeof(uint32_t), false},
      {&p->results.d_loss, results, sizeof(float), false},
      {&p->results.d_correct, results, 1, false},
      {&e->around.d_state, 1, sizeof(StepState), false},
      {&e->d_sums, 1, sizeof(ResultSums), true},
      {&p->d_parameters, floats, sizeof(float), false},
      {&p->d_momentum, training_moments(t) * floats, sizeof(float), true},
      {&p->d_average, t->ema > 0 ? floats : 0, sizeof(float), false},
      {&e->replay.d_before, e->level->again ? (1 + training_states(t)) * floats : 0, sizeof(float),
       true},
      {&e->replay.d_sums, 1, sizeof(ResultSums), false},
  };
  bool good = allocate_layers(e, error) && (member || allocate_staging(e, error));
  for (size_t i = 0; good && i < LENGTH(arrays); i++)
    good = !arrays[i].count ||
           (arrays[i].zeros ? cuda_zeros : cuda_array)(&e->memory, arrays[i].pointer,
                                                       arrays[i].count, arrays[i].size, error);
  if (!good) return false;
  p->batch.d_state = e->around.d_state;
  p->batch.d_labels = e->d_labels;
  p->batch.d_order = e->d_order;
  const Opening opening = {&e->memory, e->forward_rows, &e->d_sums->overflowed, &e->engine.aligned,
                           tiles};
  return !e->level->open || e->level->open(p, &opening, error);
}

/* Initialises the parameters. Then a small kernel finds a broken GPU before data are read. */
static bool initialise(CudaEngine *e, Error *error) {
  const Network *n = &e->engine.config.network;
  const cudaStream_t stream = e->pass.stream;
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
  return written && cuda_done(launch_order(e->d_order, 0, 1, false, 0, stream), what, error) &&
         cuda_done(cudaStreamSynchronize(stream), what, error);
}

/* Returns an engine without arrays or streams. Sets only fields that follow from `config`. */
static CudaEngine *new_engine(const EngineConfig *config, Error *error) {
  CudaEngine *e = calloc(1, sizeof *e);
  if (!e) return error_null(error, "out of memory for the engine");
  e->engine.config = *config;
  e->memory.limit = config->training.device_memory;
  e->forward_rows = rows_to_evaluate_at_once(config);
  e->around.sums.ranks = config->ranks;
  e->pass.config = &e->engine.config;
  e->pass.around = &e->around;
  e->pass.arrays = &e->arrays;
  e->pass.trains = true;
  e->pass.batch.stride = engine_row_stride(config->network.size[0]);
  e->pass.batch.rows = engine_rows(config);
  e->pass.batch.smoothing = config->training.label_smoothing;
  e->pass.batch.share =
      (RowShare){(uint32_t)config->training.batch, (uint32_t)ranks_number(config->ranks),
                 config->ranks ? (uint32_t)ranks_count(config->ranks) : 0};
  return e;
}

/* Creates the stream of the steps. */
static bool open_stream(CudaEngine *e, Error *error) {
  if (!cuda_stream(&e->memory, &e->pass.stream, 0, error)) return false;
  e->memory.stream = e->around.sums.compute = e->pass.stream;
  return true;
}

/* ---- members --------------------------------------------------------------------------------- */

/* A member is an engine with its own parameters, order, results and stream. On Hopper, a small
   network of two hidden layers trains in one cluster (level many). Other members train by
   launch_tiles, like a single network. A member's bits do not depend on the other members. */

/* Maximum number of members if each trains in one cluster. If not all members fit on the GPU at
   once, their kernels take turns, so all members end at nearly the same time. */
enum { MOST_BY_CLUSTERS = 64 };

static bool by_clusters(const CudaEngine *e) {
  const EngineConfig *c = &e->engine.config;
  return e->level == &level_epoch && e->may_join && engine_cuda_suits_many(c) &&
         many_takes(many_shape(c)) && c->dataset_rows < 1 << 28 && many_clusters() > 0;
}

/* The blocks of launch_tiles wait for each other, so the kernels of all members must fit on the GPU
   at once. A kernel of one cluster may wait for room, because a cluster starts as a whole. */
static int cuda_members(Engine *engine) {
  const CudaEngine *e = (const CudaEngine *)engine;
  GpuLimits limits;
  if (by_clusters(e)) return MOST_BY_CLUSTERS;
  if (!e->may_join || e->level != &level_epoch || !gpu_limits_read(&limits, NULL)) return 0;
  const int clusters = epoch_plan(&e->pass)->clusters;
  if (clusters == 1) return MOST_BY_CLUSTERS;
  return clusters > 0 ? limits.clusters / clusters : 0;
}

static Engine *cuda_member(Engine *engine, Error *error) {
  CudaEngine *first = (CudaEngine *)engine;
  const bool clusters = by_clusters(first);
  if (!cuda_done(cudaStreamSynchronize(first->pass.stream), "uploading rows", error)) return NULL;
  if (clusters)
    snprintf(engine->reason, sizeof engine->reason,
             "a network in each cluster of 16 blocks, %d at a time", many_clusters());
  CudaEngine *e = new_engine(&first->engine.config, error);
  if (!e) return NULL;
  e->engine.call = engine->call;
  memcpy(e->engine.device, engine->device, sizeof engine->device);
  memcpy(e->engine.reason, engine->reason, sizeof engine->reason);
  e->engine.memory = e->memory.has = first->engine.memory;
  e->level = clusters ? &level_many : first->level;
  e->first = first;
  e->device = first->device;
  e->d_pixels = first->d_pixels;
  e->d_labels = first->d_labels;
  e->memory.taken = first->memory.taken; /* all members together respect --device-memory */
  e->pass.precision = first->pass.precision;
  if (open_stream(e, error) && allocate(e, epoch_plan(&first->pass), error) &&
      initialise(e, error)) {
    first->memory.taken = e->memory.taken;
    return &e->engine;
  }
  cuda_close(&e->engine);
  return NULL;
}

/* ---- the engine ------------------------------------------------------------------------------ */

Engine *engine_cuda_open_with(const EngineConfig *config, const Level *level, void *own,
                              Error *error) {
  static const EngineOperations operations = {
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
  TilesPlan tiles = {0};
  CudaEngine *e = new_engine(config, error);
  if (!e) {
    if (level) level->close(own);
    return NULL;
  }
  e->engine.call = &operations;
  e->level = level;
  e->pass.own = own;
  const bool chosen =
      engine_cuda_available(error) && describe(e, error) && choose_level(e, &tiles, error);
  e->pass.precision = e->engine.config.training.precision;
  if (chosen && cuda_stream(&e->memory, &e->copy, 0, error) && open_stream(e, error) &&
      sums_open(&e->around.sums, &e->memory, error) && allocate(e, &tiles, error) &&
      initialise(e, error))
    return &e->engine;
  cuda_close(&e->engine);
  return NULL;
}

Engine *engine_cuda_open(const EngineConfig *config, Error *error) {
  return engine_cuda_open_with(config, NULL, NULL, error);
}
