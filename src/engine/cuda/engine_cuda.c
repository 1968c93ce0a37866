/* The CUDA engine: the calls of engine.h that move rows and parameters. queue.c has the others. */
#include "engine/cuda/cuda_state.h"

#include <stdlib.h>

#include <nvtx3/nvToolsExt.h>

bool cuda_staging(Engine *engine, int index, StagingBuffer *out, Error *error) {
  CudaEngine *e = (CudaEngine *)engine;
  const Staging *s = &e->staging[index];
  if (!sums_wait(&e->around.sums, s->copied, "copying rows", error)) return false;
  *out = (StagingBuffer){s->h_pixels, s->h_labels, e->pass.batch.stride};
  return true;
}

static cudaError_t upload(CudaEngine *e, Staging *staging, uint64_t first_row, uint64_t rows) {
  const size_t stride = e->pass.batch.stride;
  const cudaStream_t compute = e->pass.stream;
  if (first_row < e->rows_seen) { /* work on `compute` may still read these dataset rows */
    /* `consumed` covers only the rows of this staging buffer's last upload */
    if (first_row != staging->first_row || rows > staging->rows)
      TRY(cudaEventRecord(staging->consumed, compute));
    TRY(cudaStreamWaitEvent(e->copy, staging->consumed, 0));
  }
  TRY(cudaMemcpyAsync(e->d_pixels + first_row * stride, staging->h_pixels, rows * stride,
                      cudaMemcpyHostToDevice, e->copy));
  TRY(cudaMemcpyAsync(e->d_labels + first_row, staging->h_labels, rows * sizeof(uint16_t),
                      cudaMemcpyHostToDevice, e->copy));
  TRY(cudaEventRecord(staging->copied, e->copy));
  staging->first_row = first_row;
  staging->rows = rows;
  e->augmented.rows = 0;
  if (first_row + rows > e->rows_seen) e->rows_seen = first_row + rows;
  return cudaStreamWaitEvent(compute, staging->copied, 0);
}

bool cuda_upload(Engine *engine, int index, uint64_t first_row, uint64_t rows, Error *error) {
  CudaEngine *e = (CudaEngine *)engine;
  if (!engine_can_upload(&engine->config, first_row, rows, error) ||
      (first_row < e->rows_seen && !queue_settle(e, error)))
    return false;
  nvtxRangePushA("upload");
  const cudaError_t status = upload(e, &e->staging[index], first_row, rows);
  nvtxRangePop();
  return cuda_done(status, "uploading rows", error);
}

/* Returns array number `a` of the operations `read` and `write` (engine.h). */
static float *array_of(const CudaEngine *e, size_t a) {
  if (a == 0 && e->pass.d_average) return e->pass.d_average;
  return a > 0 && a <= training_moments(&e->engine.config.training)
             ? e->pass.d_momentum + (a - 1) * e->engine.config.network.floats
             : e->pass.d_parameters;
}

bool cuda_read(Engine *engine, float *arrays, size_t count, Error *error) {
  CudaEngine *e = (CudaEngine *)engine;
  const size_t floats = engine->config.network.floats;
  bool good =
      queue_settle(e, error) && sums_wait(&e->around.sums, NULL, "training or evaluating", error);
  for (size_t a = 0; good && a < count; a++)
    good = cuda_done(cudaMemcpy(arrays + a * floats, array_of(e, a), floats * sizeof *arrays,
                                cudaMemcpyDeviceToHost),
                     "reading the parameters", error);
  return good;
}

/* Copies on the stream of the steps, because it does not wait for copies on the default stream. */
static cudaError_t write_arrays(CudaEngine *e, const float *arrays, size_t count) {
  const size_t floats = e->engine.config.network.floats, bytes = floats * sizeof *arrays;
  for (size_t a = 0; a < count; a++)
    TRY(cudaMemcpyAsync(array_of(e, a), arrays + a * floats, bytes, cudaMemcpyHostToDevice,
                        e->pass.stream));
  if (count == 1 && e->pass.d_average)
    TRY(cudaMemcpyAsync(e->pass.d_parameters, arrays, bytes, cudaMemcpyHostToDevice,
                        e->pass.stream));
  return cudaStreamSynchronize(e->pass.stream);
}

bool cuda_write(Engine *engine, const float *arrays, size_t count, Error *error) {
  CudaEngine *e = (CudaEngine *)engine;
  graphs_forget(&e->around.graphs); /* the graphs hold the last run's settings */
  return queue_settle(e, error) &&
         cuda_done(write_arrays(e, arrays, count), "writing the parameters", error);
}

void cuda_close(Engine *engine) {
  CudaEngine *e = (CudaEngine *)engine;
  e->around.sums.closes = true;
  if (e->pass.stream) sums_wait(&e->around.sums, NULL, "", NULL);
  if (e->copy) cudaStreamSynchronize(e->copy);
  graphs_forget(&e->around.graphs);
  sums_close(&e->around.sums, false);
  if (e->level && e->level->close) e->level->close(e->pass.own);
  cuda_release_all(&e->memory);
  free(e);
}
