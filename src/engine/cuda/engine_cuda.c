/* The CUDA engine: memory, streams and events. */
#include "engine/cuda/cuda_state.h"

#include <stdio.h>
#include <stdlib.h>

#include <nvtx3/nvToolsExt.h>

#include "base/augment.h"
#include "engine/cuda/gpu_limits.h"

enum { EVALUATE_ROWS = 10240, EVALUATE_FLOATS = 1 << 26 };

static bool failed(cudaError_t status, const char *what, Error *error) {
  return !cuda_done(status, what, error);
}

/* ---- the interface ------------------------------------------------------------------------ */

static bool cuda_staging(Engine *engine, int index, StagingBuffer *out, Error *error) {
  CudaEngine *e = (CudaEngine *)engine;
  if (!sums_wait(e, e->staging[index].copied, "copying rows", error)) return false;
  *out = (StagingBuffer){e->staging[index].h_pixels, e->staging[index].h_labels, e->stride};
  return true;
}

static cudaError_t upload(CudaEngine *e, Staging *staging, uint64_t first_row, uint64_t rows) {
  if (first_row < e->rows_seen) { /* these dataset rows may be in use */
    /* `consumed` tells of the rows that this staging buffer filled last, and of no others */
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
  if (rows > engine->config.staging_rows || first_row + rows > engine->config.dataset_rows)
    return error_set(error, "rows %llu to %llu do not fit the device's dataset of %llu",
                     (unsigned long long)first_row, (unsigned long long)(first_row + rows),
                     (unsigned long long)engine->config.dataset_rows);
  nvtxRangePushA("upload");
  const cudaError_t status = upload(e, &e->staging[index], first_row, rows);
  nvtxRangePop();
  return !failed(status, "uploading rows", error);
}

/* Marks the end of the work queued so far on rows [first_row, first_row + rows). */
static cudaError_t consume(CudaEngine *e, uint64_t first_row, uint64_t rows) {
  for (int s = 0; s < 2; s++) {
    const Staging *staging = &e->staging[s];
    if (first_row < staging->first_row + staging->rows && staging->first_row < first_row + rows)
      TRY(cudaEventRecord(staging->consumed, e->compute));
  }
  return cudaSuccess;
}

/* Makes d_order the range's, unless it is already. */
static cudaError_t order(CudaEngine *e, const TrainRange *range) {
  const TrainRange *o = &e->ordered;
  if (o->first_row == range->first_row && o->rows == range->rows &&
      o->shuffled == range->shuffled && o->key == range->key)
    return cudaSuccess;
  e->ordered = *range;
  return launch_order(e->d_order, (uint32_t)range->first_row, (uint32_t)range->rows,
                      range->shuffled, range->key, e->compute);
}

/* Augments the rows of the range's window into d_augmented, unless they are there. */
static cudaError_t augment(CudaEngine *e, const TrainRange *range) {
  const TrainRange *a = &e->augmented;
  const size_t start = range->first_row * e->stride;
  if (a->first_row == range->first_row && a->rows == range->rows &&
      augment_same(a->augment, range->augment) && a->augment_key == range->augment_key)
    return cudaSuccess;
  e->augmented = *range;
  return launch_augment(e->d_pixels + start, e->d_augmented + start, (uint32_t)range->rows,
                        e->stride, augment_side(e->engine.config.network.size[0]), range->augment,
                        range->augment_key, e->compute);
}

static cudaError_t train(CudaEngine *e, const TrainRange *range) {
  const uint64_t batch = (uint64_t)e->engine.config.training.batch;
  const uint32_t position = (uint32_t)(range->first_step * batch);
  const uint64_t end = (range->first_step + range->steps) * batch;
  const uint32_t last = (uint32_t)(end < range->rows ? end : range->rows);
  if (augment_any(range->augment)) TRY(augment(e, range));
  e->d_train_on = augment_any(range->augment) ? e->d_augmented : e->d_pixels;
  TRY(order(e, range));
  const uint32_t updates = (uint32_t)(range->updates - range->first_step);
  const StepState state = {position, last, range->learning_rate, updates, range->dropout_key};
  TRY(launch_begin(e->d_state, state, e->compute));
  TRY(steps_train(e, state, range));
  TRY(launch_sum(e->d_sums, e->results, position, last, e->share, e->compute));
  return consume(e, range->first_row, range->rows);
}

static bool can_augment(const CudaEngine *e, Error *error) {
  const EngineConfig *c = &e->engine.config;
  if (!augment_side(c->network.size[0]))
    return error_set(error, "pictures of %d pixels are not square: they cannot be augmented",
                     c->network.size[0]);
  return e->d_augmented || error_set(error, "the engine was not opened for augmented rows");
}

static bool cuda_train(Engine *engine, const TrainRange *range, Error *error) {
  const uint64_t batch = (uint64_t)engine->config.training.batch;
  if (range->steps == 0) return true;
  if (range->rows == 0 || range->first_row + range->rows > engine->config.dataset_rows ||
      (range->first_step + range->steps - 1) * batch >= range->rows)
    return error_set(error, "training was asked for steps outside its rows");
  if (augment_any(range->augment) && !can_augment((CudaEngine *)engine, error)) return false;
  nvtxRangePushA("train");
  const cudaError_t status = train((CudaEngine *)engine, range);
  nvtxRangePop();
  return !failed(status, "training", error);
}

/* Queues the forward pass and adds to the sums; or, if `logits` is not NULL, waits for the logits.
 */
static cudaError_t forward(CudaEngine *e, uint64_t first_row, uint64_t rows, float *logits) {
  const Network *n = &e->engine.config.network;
  const size_t classes = (size_t)n->size[n->layers];
  for (uint64_t done = 0; done < rows; done += (uint64_t)e->forward_rows) {
    const uint64_t left = rows - done, chunk = (uint64_t)e->forward_rows;
    const uint32_t count = (uint32_t)(left < chunk ? left : chunk);
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

static bool cuda_evaluate(Engine *engine, uint64_t first_row, uint64_t rows, Error *error) {
  if (first_row + rows > engine->config.dataset_rows)
    return error_set(error, "evaluation was asked for rows outside the dataset");
  engine_own_rows(&engine->config, &first_row, &rows);
  nvtxRangePushA("evaluate");
  const cudaError_t status = forward((CudaEngine *)engine, first_row, rows, NULL);
  nvtxRangePop();
  return !failed(status, "evaluating", error);
}

static bool cuda_predict(Engine *engine, uint64_t first_row, uint64_t rows, float *logits,
                         Error *error) {
  if (first_row + rows > engine->config.dataset_rows)
    return error_set(error, "a prediction was asked for rows outside the dataset");
  nvtxRangePushA("predict");
  const cudaError_t status = forward((CudaEngine *)engine, first_row, rows, logits);
  nvtxRangePop();
  return !failed(status, "predicting", error);
}

static bool cuda_collect(Engine *engine, EngineSums *out, Error *error) {
  CudaEngine *e = (CudaEngine *)engine;
  ResultSums sums;
  const char *what = "training or evaluating";
  if (engine->config.ranks && !sums_wait(e, NULL, what, error)) return false; /* the copy would */
  if (failed(cudaMemcpyAsync(&sums, e->d_sums, sizeof sums, cudaMemcpyDeviceToHost, e->compute),
             "collecting results", error) ||
      failed(cudaMemsetAsync(e->d_sums, 0, sizeof sums, e->compute), "collecting results", error) ||
      !sums_wait(e, NULL, what, error))
    return false;
  *out = (EngineSums){sums.loss, sums.correct, sums.rows};
  return engine_ranks_collect(&engine->config, out, error);
}

/* Copies an array from the device. */
static bool read_array(float *to, const float *d_from, size_t bytes, const char *what,
                       Error *error) {
  return !failed(cudaMemcpy(to, d_from, bytes, cudaMemcpyDeviceToHost), what, error);
}

/* Copies to the device on the compute stream, which does not wait for the default one. */
static bool write_array(const CudaEngine *e, float *d_to, const float *from, size_t bytes,
                        const char *what, Error *error) {
  return !failed(cudaMemcpyAsync(d_to, from, bytes, cudaMemcpyHostToDevice, e->compute), what,
                 error);
}

static bool cuda_read(Engine *engine, float *parameters, float *state, Error *error) {
  CudaEngine *e = (CudaEngine *)engine;
  const size_t floats = engine->config.network.floats, bytes = floats * sizeof(float);
  const size_t moments = training_moments(&engine->config.training);
  const float *d_network = e->d_average ? e->d_average : e->d_parameters;
  if (!sums_wait(e, NULL, "training or evaluating", error)) return false;
  return (!parameters ||
          read_array(parameters, d_network, bytes, "reading the parameters", error)) &&
         (!state ||
          read_array(state, e->d_momentum, moments * bytes, "reading the momentum", error)) &&
         (!state || !e->d_average ||
          read_array(state + moments * floats, e->d_parameters, bytes,
                     "reading the trained parameters", error));
}

static bool cuda_write(Engine *engine, const float *parameters, const float *state, Error *error) {
  CudaEngine *e = (CudaEngine *)engine;
  const size_t floats = engine->config.network.floats, bytes = floats * sizeof(float);
  const size_t moments = training_moments(&engine->config.training);
  const float *trained = state && e->d_average ? state + moments * floats : parameters;
  const char *what = "writing the parameters";
  return (!trained || write_array(e, e->d_parameters, trained, bytes, what, error)) &&
         (!trained || !e->engine.wide || !failed(wide_split_weights(e), what, error)) &&
         (!parameters || !e->d_average ||
          write_array(e, e->d_average, parameters, bytes, what, error)) &&
         (!state ||
          write_array(e, e->d_momentum, state, moments * bytes, "writing the momentum", error)) &&
         !failed(cudaStreamSynchronize(e->compute), "training or evaluating", error);
}

static void cuda_close(Engine *engine) {
  CudaEngine *e = (CudaEngine *)engine;
  e->sums.closes = true;
  if (e->compute) sums_wait(e, NULL, "", NULL);
  if (e->copy) cudaStreamSynchronize(e->copy);
  steps_forget(e);
  sums_close(e);
  if (e->library) e->close_library(e->library);
  cuda_release_all(e);
  free(e);
}

/* ---- opening --------------------------------------------------------------------------------- */

static const EngineOperations OPERATIONS = {
    .staging = cuda_staging,
    .upload = cuda_upload,
    .train = cuda_train,
    .evaluate = cuda_evaluate,
    .predict = cuda_predict,
    .collect = cuda_collect,
    .read = cuda_read,
    .write = cuda_write,
    .close = cuda_close,
};

static bool allocate_staging(CudaEngine *e, Staging *staging, Error *error) {
  const size_t rows = e->engine.config.staging_rows;
  return cuda_pinned(e, &staging->h_pixels, rows * e->stride, error) &&
         cuda_pinned(e, &staging->h_labels, rows * sizeof(uint16_t), error) &&
         cuda_event(e, &staging->copied, error) && cuda_event(e, &staging->consumed, error);
}

static bool allocate_dataset(CudaEngine *e, Error *error) {
  const EngineConfig *c = &e->engine.config;
  const size_t rows =
      c->dataset_rows > (uint64_t)e->forward_rows ? c->dataset_rows : (size_t)e->forward_rows;
  return allocate_staging(e, &e->staging[0], error) && allocate_staging(e, &e->staging[1], error) &&
         cuda_array(e, &e->d_pixels, c->dataset_rows, e->stride, error) &&
         (!augment_any(c->training.augment) ||
          cuda_array(e, &e->d_augmented, c->dataset_rows, e->stride, error)) &&
         cuda_array(e, &e->d_labels, c->dataset_rows, sizeof(uint16_t), error) &&
         cuda_array(e, &e->d_order, c->dataset_rows, sizeof(uint32_t), error) &&
         cuda_array(e, &e->results.d_loss, rows, sizeof(float), error) &&
         cuda_array(e, &e->results.d_correct, rows, 1, error) &&
         cuda_array(e, &e->d_state, 1, sizeof(StepState), error) &&
         cuda_zeros(e, &e->d_sums, 1, sizeof(ResultSums), error);
}

static bool allocate_layers(CudaEngine *e, Error *error) {
  const EngineConfig *c = &e->engine.config;
  const Network *n = &c->network;
  const size_t rows = (size_t)e->forward_rows, batch = (size_t)engine_rows(c);
  size_t widest = 0;
  for (int l = 1; l <= n->layers; l++) {
    const size_t size = (size_t)n->size[l];
    if (size > widest) widest = size;
    if (e->engine.wide && l < n->layers - has_head(e)) continue;
    if (!cuda_array(e, &e->d_activation[l], rows * size, sizeof(float), error) ||
        !cuda_array(e, &e->d_delta[l], batch * size, sizeof(float), error))
      return false;
  }
  const bool unfused = e->level->unfused;
  return ((!unfused && !stores_gradient(e)) || sums_array(e, error)) &&
         ((!unfused && training_pixel_factor(&c->training).is_default) ||
          cuda_array(e, &e->d_x, rows * (size_t)n->size[0], sizeof(float), error)) &&
         (!unfused || cuda_array(e, &e->d_z, rows * widest, sizeof(float), error)) &&
         (e->level != &level_exercise ||
          (cuda_array(e, &e->d_largest, rows, sizeof(float), error) &&
           cuda_array(e, &e->d_sum, rows, sizeof(float), error))) &&
         cuda_zeros(e, &e->d_work, update_work_bytes(), 1, error) &&
         (!e->engine.wide || wide_allocate(e, error));
}

static bool allocate_epoch(CudaEngine *e, Error *error) {
  const EngineConfig *c = &e->engine.config;
  const size_t all_steps = ceil_div(c->dataset_rows, (size_t)c->training.batch);
  const size_t steps = all_steps < EPOCH_STEPS ? all_steps : EPOCH_STEPS;
  if (c->training.fusion != FUSION_EPOCH) return true;
  e->stamp = 1;
  e->engine.aligned = EPOCH_DIRECT;
  return cuda_array(e, &e->d_gram, steps * EPOCH_GRAM, sizeof(float), error) &&
         cuda_zeros(e, &e->d_mail, e->plan.mail_bytes, 1, error);
}

static bool allocate_parameters(CudaEngine *e, Error *error) {
  const EngineConfig *c = &e->engine.config;
  const size_t floats = c->network.floats;
  return cuda_array(e, &e->d_parameters, floats, sizeof(float), error) &&
         cuda_zeros(e, &e->d_momentum, training_moments(&c->training) * floats, sizeof(float),
                    error) &&
         (c->training.ema == 0 || cuda_array(e, &e->d_average, floats, sizeof(float), error));
}

/* Launches one small kernel: a GPU that does not work at all fails here, before anything was read.
 */
static cudaError_t first_launch(CudaEngine *e) {
  TRY(launch_order(e->d_order, 0, 1, false, 0, e->compute));
  return cudaStreamSynchronize(e->compute);
}

static bool initialise(CudaEngine *e, Error *error) {
  const Network *n = &e->engine.config.network;
  float *parameters = malloc(n->floats * sizeof *parameters);
  if (!parameters) return error_set(error, "no memory for the initial parameters");
  network_initialise(n, e->engine.config.training.seed, parameters);
  const bool written = cuda_write(&e->engine, parameters, NULL, error);
  free(parameters);
  return written && !failed(first_launch(e), "the first launch", error);
}

static int rows_to_evaluate_at_once(const EngineConfig *c) {
  size_t floats = (size_t)c->network.size[0]; /* of a row's activations */
  for (int l = 1; l <= c->network.layers; l++) floats += (size_t)c->network.size[l];
  size_t rows = EVALUATE_FLOATS / floats;
  if (rows > EVALUATE_ROWS) rows = EVALUATE_ROWS;
  const int batch = engine_rows(c);
  return rows > (size_t)batch ? (int)rows : batch;
}

static bool choose_level(CudaEngine *e, Error *error) {
  static const Level *const levels[] = {[FUSION_NONE] = &level_none,
                                        [FUSION_LAYER] = &level_layer,
                                        [FUSION_STEP] = &level_layer,
                                        [FUSION_EPOCH] = &level_layer, /* to evaluate */
                                        [FUSION_EXERCISE] = &level_exercise};
  Engine *engine = &e->engine;
  if (e->level) {
    engine->config.training.fusion = FUSION_STEP;
    return engine->config.training.rule.weight_decay == 0 ||
           error_set(error, "with products from a library weight decay must be 0");
  }
  GpuLimits limits;
  if (!gpu_limits_read(&limits, error) || !engine_cuda_choose(engine, &limits, &e->plan, error))
    return false;
  engine_cuda_choose_wide(engine, &limits);
  e->level = engine->wide ? &level_wide : levels[engine->config.training.fusion];
  kernels_start_early(!engine->config.ranks || !engine->wide); /* sums run beside large kernels */
  return true;
}

static bool describe(Engine *engine, Error *error) {
  int device;
  struct cudaDeviceProp properties;
  if (failed(cudaGetDevice(&device), "finding the device", error) ||
      failed(cudaGetDeviceProperties(&properties, device), "finding the device", error))
    return false;
  snprintf(engine->device, sizeof engine->device, "%.127s", properties.name);
  engine->memory = properties.totalGlobalMem;
  return true;
}

bool engine_cuda_available(Error *reason) {
  int devices = 0;
  const char *what = "looking for a GPU";
  return cuda_done(cudaGetDeviceCount(&devices), what, reason) &&
         cuda_done(devices > 0 ? cudaSuccess : cudaErrorNoDevice, what, reason) &&
         cuda_done(kernels_can_run(NULL), what, reason);
}

Engine *engine_cuda_open_with(const EngineConfig *config, const Level *level, void *library,
                              void (*close_library)(void *), Error *error) {
  CudaEngine *e = calloc(1, sizeof *e);
  if (!e) {
    if (library) close_library(library);
    error_set(error, "out of memory for the engine");
    return NULL;
  }
  e->level = level;
  e->library = library;
  e->close_library = close_library;
  e->engine.call = &OPERATIONS;
  e->engine.config = *config;
  e->stride = engine_row_stride(config->network.size[0]);
  e->forward_rows = rows_to_evaluate_at_once(config);
  e->share = (RowShare){(uint32_t)config->training.batch, (uint32_t)ranks_number(config->ranks),
                        config->ranks ? (uint32_t)ranks_count(config->ranks) : 0};
  if (engine_cuda_available(error) && describe(&e->engine, error) && choose_level(e, error) &&
      cuda_stream(e, &e->copy, 0, error) && cuda_stream(e, &e->compute, 0, error) &&
      sums_open(e, error) && allocate_dataset(e, error) && allocate_layers(e, error) &&
      allocate_epoch(e, error) && allocate_parameters(e, error) && initialise(e, error))
    return &e->engine;
  cuda_close(&e->engine);
  return NULL;
}

Engine *engine_cuda_open(const EngineConfig *config, Error *error) {
  return engine_cuda_open_with(config, NULL, NULL, NULL, error);
}
