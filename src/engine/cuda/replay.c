/* Repeats work whose numbers left the range of fp16, which ends at 65504. The scales leave room for
   usual numbers. If a number is too large, a kernel sets ResultSums.overflowed. Then level layer
   repeats all work since the last check from the saved state. */
#include "engine/cuda/cuda_state.h"

/* Saves the parameters, moments, average and sums or, if `back`, restores them. */
static cudaError_t copy_state(CudaEngine *e, bool back) {
  const size_t floats = e->engine.config.network.floats,
               moments = training_moments(&e->engine.config.training) * floats;
  const struct {
    void *now, *before;
    size_t bytes;
  } copies[] = {{e->d_parameters, e->replay.d_before, floats * sizeof(float)},
                {e->d_momentum, e->replay.d_before + floats, moments * sizeof(float)},
                {e->d_average, e->replay.d_before + floats + moments,
                 e->d_average ? floats * sizeof(float) : 0},
                {e->d_sums, e->replay.d_sums, sizeof(ResultSums)}};
  for (size_t i = 0; i < sizeof copies / sizeof *copies; i++)
    if (copies[i].bytes > 0)
      TRY(cudaMemcpyAsync(back ? copies[i].now : copies[i].before,
                          back ? copies[i].before : copies[i].now, copies[i].bytes,
                          cudaMemcpyDeviceToDevice, e->compute));
  return cudaSuccess;
}

bool replay_note(CudaEngine *e, const TrainRange *range, Error *error) {
  if (!has_fp16_terms(e)) return true;
  if (e->replay.count == REPLAY_MOST && !replay_settle(e, error)) return false;
  if (e->replay.count == 0 && !cuda_done(copy_state(e, false), "keeping the parameters", error))
    return false;
  e->replay.work[e->replay.count++] = *range;
  return true;
}

/* Repeats `work` at level layer, from the saved state or, to get logits, from the current state. */
static cudaError_t do_again(CudaEngine *e, const TrainRange *work, int count, float *logits) {
  const Level *level = e->level;
  const Fusion fusion = e->engine.config.training.fusion;
  e->level = &level_layer;
  e->engine.config.training.fusion = FUSION_LAYER;
  cudaError_t status = logits ? cudaSuccess : copy_state(e, true);
  for (; count > 0 && status == cudaSuccess; count--, work++)
    status = work->steps > 0 ? cuda_queue_range(e, work)
                             : cuda_queue_rows(e, work->first_row, work->rows, logits);
  e->level = level;
  e->engine.config.training.fusion = fusion;
  return status;
}

/* Queues a copy of the sums, and waits for it. */
static bool fetch_sums(CudaEngine *e, ResultSums *sums, Error *error) {
  const char *what = "training or evaluating";
  /* without sums_wait, the copy would wait forever for ranks that have ended */
  if (e->engine.config.ranks && !sums_wait(e, NULL, what, error)) return false;
  return cuda_done(
             cudaMemcpyAsync(sums, e->d_sums, sizeof *sums, cudaMemcpyDeviceToHost, e->compute),
             "collecting results", error) &&
         sums_wait(e, NULL, what, error);
}

bool replay_sums(CudaEngine *e, ResultSums *sums, Error *error) {
  if (!fetch_sums(e, sums, error)) return false;
  if (e->replay.count == 0) return true;
  EngineSums any = {sums->overflowed, 0, 0};
  if (!engine_ranks_collect(&e->engine.config, &any, error)) return false;
  const bool again = any.loss > 0;
  if (again && !cuda_done(do_again(e, e->replay.work, e->replay.count, NULL),
                          "training in another way", error))
    return false;
  e->replay.count = 0;
  e->engine.replays += again;
  return !again || fetch_sums(e, sums, error);
}

bool replay_settle(CudaEngine *e, Error *error) {
  ResultSums sums;
  return e->replay.count == 0 || replay_sums(e, &sums, error);
}

cudaError_t replay_logits(CudaEngine *e, uint64_t first_row, uint64_t rows, float *logits) {
  ResultSums sums;
  TRY(cuda_queue_rows(e, first_row, rows, logits));
  if (!e->engine.wide) return cudaSuccess;
  TRY(cudaMemcpy(&sums, e->d_sums, sizeof sums, cudaMemcpyDeviceToHost));
  if (!sums.overflowed) return cudaSuccess;
  e->engine.replays++;
  TRY(do_again(e, &(TrainRange){.first_row = first_row, .rows = rows}, 1, logits));
  return cudaMemsetAsync(&e->d_sums->overflowed, 0, sizeof e->d_sums->overflowed, e->compute);
}
