/* The calls of engine.h that train and evaluate. They queue work, and do it again if numbers left
   the range of fp16, which ends at 65504. The scales leave room for usual numbers. If a number is
   too large, a kernel sets ResultSums.overflowed. Then level layer repeats all work since the last
   check, from the state that was saved before it. */
#include "engine/cuda/cuda_state.h"

#include <nvtx3/nvToolsExt.h>

/* ---- training -------------------------------------------------------------------------------- */

/* Fills d_order with the range's order, unless d_order already holds it. */
static cudaError_t order_rows(CudaEngine *e, const TrainRange *range) {
  const TrainRange *o = &e->ordered;
  if (o->first_row == range->first_row && o->rows == range->rows &&
      o->shuffled == range->shuffled && o->key == range->key)
    return cudaSuccess;
  e->ordered = *range;
  return launch_order(e->d_order, (uint32_t)range->first_row, (uint32_t)range->rows,
                      range->shuffled, range->key, e->pass.stream);
}

/* Sets the batch's pixels. If the range augments, they are d_augmented, which this fills with
   augmented copies of the window's rows, unless it already holds them. */
static cudaError_t augment_rows(CudaEngine *e, const TrainRange *range, BatchView *batch) {
  const size_t start = range->first_row * batch->stride;
  const bool augments = augment_any(range->augment);
  batch->d_pixels = augments ? e->d_augmented : e->d_pixels;
  if (!augments || engine_augments_alike(&e->augmented, range)) return cudaSuccess;
  e->augmented = *range;
  return launch_augment(e->d_pixels + start, e->d_augmented + start, (uint32_t)range->rows,
                        batch->stride, augment_side(e->engine.config.network.size[0]),
                        range->augment, range->augment_key, e->pass.stream);
}

/* Records the event `consumed` of each staging buffer whose last upload wrote any of these rows. */
static cudaError_t consume(CudaEngine *e, uint64_t first_row, uint64_t rows) {
  for (int s = 0; s < 2; s++) {
    const Staging *staging = &e->staging[s];
    if (first_row < staging->first_row + staging->rows && staging->first_row < first_row + rows)
      TRY(cudaEventRecord(staging->consumed, e->pass.stream));
  }
  return cudaSuccess;
}

/* Returns the level that trains if `inner` computes the gradients. */
static Level level_around(const EngineConfig *config, const Level *inner) {
  if (config->ranks) return level_by_ranks(inner);
  return stores_gradient(config) ? level_by_optimizer(inner) : *inner;
}

static cudaError_t train(CudaEngine *e, const Level *level, const TrainRange *range) {
  const Training *t = &e->engine.config.training;
  const uint64_t batch = (uint64_t)t->batch, end = range->first_step + range->steps;
  const Level around = level_around(&e->engine.config, level);
  Pass p = e->pass;
  p.level = &around;
  p.inner = level;
  TRY(augment_rows(e, range, &p.batch));
  TRY(order_rows(e, range));
  p.state = (StepState){.learning_rate = range->learning_rate,
                        .updates = (uint32_t)(range->updates - range->first_step),
                        .dropout_key = range->dropout_key,
                        .rule = t->rule};
  for (uint64_t step = range->first_step, past; step < end; step = past) {
    past = level->end_of_part ? level->end_of_part(&p, range, step) : end;
    p.state.position = (uint32_t)(step * batch);
    p.state.end = (uint32_t)min_size(past * batch, range->rows);
    TRY(launch_begin(e->around.d_state, p.state, p.stream));
    TRY(level->train(&p, past - step));
  }
  TRY(launch_sum(e->d_sums, p.results, (uint32_t)(range->first_step * batch), p.state.end,
                 p.batch.share, p.stream));
  return consume(e, range->first_row, range->rows);
}

/* ---- evaluation ------------------------------------------------------------------------------ */

/* Queues the forward pass. If `logits` is NULL, adds results to the sums; else waits for logits. */
static cudaError_t evaluate(CudaEngine *e, const Level *level, uint64_t first_row, uint64_t rows,
                            float *logits) {
  const Network *n = &e->engine.config.network;
  const size_t classes = (size_t)n->size[n->layers], most = (size_t)e->forward_rows;
  Pass p = e->pass;
  p.level = level->forward ? level : level->again;
  p.trains = false;
  p.batch = (BatchView){.d_pixels = e->d_pixels,
                        .d_labels = e->d_labels,
                        .stride = p.batch.stride,
                        .d_state = e->around.d_state};
  if (p.d_average) p.d_parameters = p.d_average;
  for (uint64_t done = 0; done < rows; done += most) {
    const uint32_t count = (uint32_t)min_size(rows - done, most);
    p.batch.first_row = (uint32_t)(first_row + done);
    p.batch.rows = (int)count;
    TRY(launch_begin(e->around.d_state, (StepState){.end = count}, p.stream));
    TRY(forward_pass(&p));
    if (logits)
      TRY(cudaMemcpyAsync(logits + done * classes, e->arrays.d_activation[n->layers],
                          count * classes * sizeof *logits, cudaMemcpyDeviceToHost, p.stream));
    else
      TRY(launch_sum(e->d_sums, p.results, 0, count, (RowShare){0}, p.stream));
  }
  return logits ? cudaStreamSynchronize(p.stream) : consume(e, first_row, rows);
}

/* ---- what is repeated ------------------------------------------------------------------------ */

/* Saves the parameters, moments, average and sums or, if `back`, restores them. */
static cudaError_t copy_state(CudaEngine *e, bool back) {
  const size_t floats = e->engine.config.network.floats,
               moments = training_moments(&e->engine.config.training) * floats;
  const Pass *p = &e->pass;
  float *d_before = e->replay.d_before;
  const struct {
    void *at[2]; /* the array now, the array before */
    size_t bytes;
  } copies[] = {
      {{p->d_parameters, d_before}, floats * sizeof(float)},
      {{p->d_momentum, d_before + floats}, moments * sizeof(float)},
      {{p->d_average, d_before + floats + moments}, p->d_average ? floats * sizeof(float) : 0},
      {{e->d_sums, e->replay.d_sums}, sizeof(ResultSums)}};
  foreach (of, copies)
    if (of->bytes > 0)
      TRY(cudaMemcpyAsync(of->at[!back], of->at[back], of->bytes, cudaMemcpyDeviceToDevice,
                          p->stream));
  return cudaSuccess;
}

static cudaError_t do_again(CudaEngine *e) {
  TRY(copy_state(e, true));
  for (const TrainRange *work = e->replay.work; work < e->replay.work + e->replay.count; work++)
    TRY(work->steps > 0 ? train(e, e->level->again, work)
                        : evaluate(e, e->level->again, work->first_row, work->rows, NULL));
  return cudaSuccess;
}

/* Queues a copy of the sums, and waits for it. */
static bool fetch_sums(CudaEngine *e, ResultSums *sums, Error *error) {
  const char *what = "training or evaluating";
  RankSums *ranks = &e->around.sums;
  /* without sums_wait, the copy would wait forever for ranks that have ended */
  if (ranks->ranks && !sums_wait(ranks, NULL, what, error)) return false;
  return cuda_done(
             cudaMemcpyAsync(sums, e->d_sums, sizeof *sums, cudaMemcpyDeviceToHost, e->pass.stream),
             "collecting results", error) &&
         sums_wait(ranks, NULL, what, error);
}

/* Waits for the remembered work, repeats it if necessary, returns the sums. All ranks call this. */
static bool settle(CudaEngine *e, ResultSums *sums, Error *error) {
  if (!fetch_sums(e, sums, error)) return false;
  if (e->replay.count == 0) return true;
  EngineSums any = {sums->overflowed, 0, 0};
  if (!engine_ranks_collect(&e->engine.config, &any, error)) return false;
  const bool again = any.loss > 0;
  if (again && !cuda_done(do_again(e), "repeating the work at level layer", error)) return false;
  e->replay.count = 0;
  e->engine.replays += again;
  return !again || fetch_sums(e, sums, error);
}

bool queue_settle(CudaEngine *e, Error *error) {
  ResultSums sums;
  return e->replay.count == 0 || settle(e, &sums, error);
}

/* Remembers work before it is queued. */
static bool note(CudaEngine *e, const TrainRange *range, Error *error) {
  Replay *r = &e->replay;
  if (!e->level->again) return true;
  if (r->count == REPLAY_MOST && !queue_settle(e, error)) return false;
  if (r->count == 0 && !cuda_done(copy_state(e, false), "keeping the parameters", error))
    return false;
  r->work[r->count++] = *range;
  return true;
}

/* ---- the calls of engine.h ------------------------------------------------------------------- */

/* Makes a member's GPU current in the calling thread; every thread has its own current GPU. */
static bool take_gpu(const CudaEngine *e, Error *error) {
  return !e->first || cuda_done(cudaSetDevice(e->device), "taking the GPU", error);
}

bool cuda_train(Engine *engine, const TrainRange *range, Error *error) {
  CudaEngine *e = (CudaEngine *)engine;
  if (!engine_can_train(&engine->config, range, error)) return false;
  if (range->steps == 0) return true;
  if (!take_gpu(e, error) || !note(e, range, error)) return false;
  nvtxRangePushA("train");
  const cudaError_t status = train(e, e->level, range);
  nvtxRangePop();
  return cuda_done(status, "training", error);
}

/* Computes logits, again at level layer if a number left the range. */
static cudaError_t predict(CudaEngine *e, uint64_t first_row, uint64_t rows, float *logits) {
  ResultSums sums;
  TRY(evaluate(e, e->level, first_row, rows, logits));
  if (!e->level->forward || !e->level->again) return cudaSuccess; /* no fp16 terms were used */
  TRY(cudaMemcpy(&sums, e->d_sums, sizeof sums, cudaMemcpyDeviceToHost));
  if (!sums.overflowed) return cudaSuccess;
  e->engine.replays++;
  TRY(evaluate(e, e->level->again, first_row, rows, logits));
  return cudaMemsetAsync(&e->d_sums->overflowed, 0, sizeof e->d_sums->overflowed, e->pass.stream);
}

bool cuda_predict(Engine *engine, uint64_t first_row, uint64_t rows, float *logits, Error *error) {
  CudaEngine *e = (CudaEngine *)engine;
  const TrainRange range = {.first_row = first_row, .rows = rows};
  if (!engine_has_rows(&engine->config, first_row, rows, error) || !take_gpu(e, error) ||
      !(logits ? queue_settle(e, error) : note(e, &range, error)))
    return false;
  nvtxRangePushA(logits ? "predict" : "evaluate");
  const cudaError_t status =
      logits ? predict(e, first_row, rows, logits) : evaluate(e, e->level, first_row, rows, NULL);
  nvtxRangePop();
  return cuda_done(status, logits ? "predicting" : "evaluating", error);
}

bool cuda_collect(Engine *engine, EngineSums *out, Error *error) {
  CudaEngine *e = (CudaEngine *)engine;
  ResultSums sums;
  if (!settle(e, &sums, error) ||
      !cuda_done(cudaMemsetAsync(e->d_sums, 0, sizeof sums, e->pass.stream), "collecting results",
                 error))
    return false;
  *out = (EngineSums){sums.loss, sums.correct, sums.rows};
  return engine_ranks_collect(&engine->config, out, error);
}
