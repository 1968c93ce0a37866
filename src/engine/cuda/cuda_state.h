/* The CUDA engine's own state. No level sees it: levels get a Pass (level.h). */
#pragma once

#include "engine/cuda/around.h"

typedef struct {
  uint8_t *h_pixels;
  uint16_t *h_labels;
  cudaEvent_t copied;       /* recorded on `copy` after the upload, when the buffer is free */
  cudaEvent_t consumed;     /* recorded on the pass's stream after the work that reads the rows */
  uint64_t first_row, rows; /* the dataset rows that the buffer's last upload wrote */
} Staging;

/* Holds all work since ResultSums.overflowed was last checked, so that it can be repeated. */
enum { REPLAY_MOST = 64 };
typedef struct {
  TrainRange work[REPLAY_MOST]; /* ranges that trained or, with 0 steps, were evaluated */
  int count;
  float *d_before;    /* parameters, moments and average before `work` */
  ResultSums *d_sums; /* the results' sums before `work` */
} Replay;

typedef struct CudaEngine CudaEngine;
struct CudaEngine {
  Engine engine; /* must be first: an Engine * is cast to CudaEngine * */
  const Level *level;
  Pass pass; /* of training, but without a level and without the rows of a range */
  LayerArrays arrays;
  Around around;
  CudaMemory memory;
  cudaStream_t copy;
  Staging staging[2];
  uint64_t rows_seen; /* 1 + the largest dataset row written so far */
  uint8_t *d_pixels;
  uint16_t *d_labels;
  uint32_t *d_order;
  TrainRange ordered;   /* the range whose order d_order holds; rows == 0 means none */
  uint8_t *d_augmented; /* shaped like d_pixels; NULL if training augments nothing */
  TrainRange augmented; /* the range that d_augmented holds; rows == 0 means none */
  ResultSums *d_sums;
  int forward_rows; /* rows that the activations hold: engine_rows, or more for evaluation */
  Replay replay;

  CudaEngine *first; /* the engine that opened this member (see engine.h), or NULL */
  bool may_join;     /* true if --fusion is auto; only then may the engine have members */
  int device;        /* the device's number in CUDA */
};

/* Waits for the work that queue.c remembers, and repeats it if necessary. Does nothing, and asks no
   other rank, if no work is remembered. */
bool queue_settle(CudaEngine *e, Error *error);

/* ---- the calls of engine.h (engine_cuda.c, queue.c) ------------------------------------------ */

bool cuda_staging(Engine *engine, int index, StagingBuffer *out, Error *error);
bool cuda_upload(Engine *engine, int index, uint64_t first_row, uint64_t rows, Error *error);
bool cuda_train(Engine *engine, const TrainRange *range, Error *error);
bool cuda_predict(Engine *engine, uint64_t first_row, uint64_t rows, float *logits, Error *error);
bool cuda_collect(Engine *engine, EngineSums *out, Error *error);
bool cuda_read(Engine *engine, float *arrays, size_t count, Error *error);
bool cuda_write(Engine *engine, const float *arrays, size_t count, Error *error);
void cuda_close(Engine *engine);

/* ---- opening (engine_cuda_open.c) ------------------------------------------------------------ */

/* Opens an engine. If `level` is NULL, chooses a level. Otherwise uses `level` with the state
   `own`, and weight decay must be 0. Calls level->close(own) when the engine closes or cannot open.
 */
Engine *engine_cuda_open_with(const EngineConfig *config, const Level *level, void *own,
                              Error *error);
/* Sets the fusion and precision of engine->config to what a GPU with these limits can run, and
   writes the reason to engine->reason. Sets *tiles to the plan of level epoch, or to zeros. Fails
   if level epoch or exercise was asked for and cannot run. */
bool engine_cuda_choose(Engine *engine, const GpuLimits *limits, TilesPlan *tiles, Error *error);
/* Returns true if launch_many can train members of this configuration. With a small first layer and
   many classes, launch_many would give other bits than launch_tiles, so members do not use it. */
bool engine_cuda_suits_many(const EngineConfig *config);
/* If the kernels for wide layers are faster, sets engine->wide and says so in engine->reason. */
void engine_cuda_choose_wide(Engine *engine, const GpuLimits *limits);
