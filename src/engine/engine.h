/* The interface of an engine: what the trainer asks of a device. Nothing above it knows of CUDA or
   OpenMP. An engine owns a dataset on its device (pixels as bytes, and labels), the parameters and
   the optimizer's state. Rows reach the dataset through two staging buffers on the host. Work runs
   in the order of the calls. upload, train and engine_evaluate may return before it has run;
   predict, collect and read wait for all of it. Every call returns false with *error set on
   failure; an error of queued work is reported at the latest by collect. */
#pragma once

#include <string.h>

#include "base/sizes.h"
#include "engine/training.h"
#include "ranks/ranks.h"

typedef struct {
  Training training;
  Network network;
  Ranks *ranks;          /* processes that train this network; NULL means one */
  int engines;           /* engines that share this process's memory; 0 means one */
  uint64_t dataset_rows; /* capacity of the dataset, in rows */
  uint64_t staging_rows; /* rows a staging buffer holds: a multiple of the batch */
} EngineConfig;

/* Returns the most rows that a rank has of one step, which ranks divide equally (part_start). */
static inline int engine_rows(const EngineConfig *config) {
  return (int)ceil_div((size_t)config->training.batch, (size_t)ranks_count(config->ranks));
}

/* Narrows rows [*first_row, *first_row + *rows) to this rank's part of them. */
static inline void engine_own_rows(const EngineConfig *config, uint64_t *first_row,
                                   uint64_t *rows) {
  const size_t rank = (size_t)ranks_number(config->ranks),
               ranks = (size_t)ranks_count(config->ranks), all = *rows,
               begin = part_start(all, rank, ranks);
  *first_row += begin;
  *rows = part_start(all, rank + 1, ranks) - begin;
}

/* Returns the bytes from one row of pixels to the next. Rows start at multiples of 16 bytes. */
static inline size_t engine_row_stride(int inputs) {
  return round_up((size_t)inputs, 16);
}

/* One of the two host buffers. Its memory is pinned if the device is a GPU. */
typedef struct {
  uint8_t *pixels;  /* (staging_rows, stride): row r starts at r * stride */
  uint16_t *labels; /* (staging_rows) */
  size_t stride;    /* engine_row_stride */
} StagingBuffer;

/* A range of training steps over a window of the dataset. Step s trains on positions [s * batch,
   min((s + 1) * batch, rows)) of the window; position p is row first_row + p, or, shuffled,
   first_row + random_permute(p, rows, key). The gradient is the mean over the step's rows. If it
   augments, a step reads copies, which take as much memory again. augment.h makes the copy of the
   window's row r from (augment, augment_key, r). Inputs that are not a square are refused. */
typedef struct {
  uint64_t first_row, rows; /* the window; rows below 2^32 */
  bool shuffled;
  uint64_t key;
  uint64_t first_step, steps; /* within the window; the last step may be short */
  uint64_t updates;           /* updates of the run before first_step: adam's t - 1 */
  float learning_rate;
  AugmentStrengths augment; /* all 0 means no augmentation */
  uint64_t augment_key;
  uint64_t dropout_key; /* key of random_dropout, with the position in the window */
} TrainRange;

/* Sums over the rows trained or evaluated since the last collect. Results of training rows are from
   the forward pass of their step, before its update. Their loss uses smoothed targets. */
typedef struct {
  double loss; /* sum of the cross-entropies, natural logarithm */
  uint64_t correct;
  uint64_t rows;
} EngineSums;

typedef struct Engine Engine;

typedef struct {
  /* Waits until staging buffer `index`, 0 or 1, is free, and describes it. Its content stays. */
  bool (*staging)(Engine *engine, int index, StagingBuffer *out, Error *error);
  /* Queues a copy of the buffer's first `rows` rows to dataset rows [first_row, first_row + rows).
     The copy waits for work queued earlier that uses these dataset rows. The engine owns the
     buffer until the next `staging` for it returns. */
  bool (*upload)(Engine *engine, int index, uint64_t first_row, uint64_t rows, Error *error);
  bool (*train)(Engine *engine, const TrainRange *range, Error *error);
  /* Waits, then returns the logits (rows, classes) of dataset rows [first_row, first_row + rows).
     If logits is NULL, queues the forward pass and adds its results to the sums. */
  bool (*predict)(Engine *engine, uint64_t first_row, uint64_t rows, float *logits, Error *error);
  /* Waits for all queued work, then returns the sums since the last collect. */
  bool (*collect)(Engine *engine, EngineSums *sums, Error *error);
  /* read waits, then copies the first `count` arrays, (count, network.floats): the parameters, then
     the training_states. Parameters that are written alone become the trained ones, too. */
  bool (*read)(Engine *engine, float *arrays, size_t count, Error *error);
  bool (*write)(Engine *engine, const float *arrays, size_t count, Error *error);
  void (*close)(Engine *engine);
  /* Returns how many members the engine may have. A member is an engine that trains another network
     on the same rows. 0, or a NULL function, means that networks train one after the other. */
  int (*members)(Engine *engine);
  /* Opens a member. Close `engine` after its members. Each member may have its own thread. */
  Engine *(*member)(Engine *engine, Error *error);
} EngineOperations;

struct Engine {
  const EngineOperations *call;
  bool synchronous; /* train and predict do the work before they return */
  uint32_t aligned; /* 0 or 1: cutting an epoch into calls never changes the bits. Above 1: it does
                       not if every call except a window's first starts at a multiple of this */
  EngineConfig config; /* once open, holds the fusion and precision in use, never FUSION_AUTO */
  char device[128];    /* "NVIDIA H100 80GB HBM3", "CPU" and its threads */
  char reason[160];    /* why this fusion level (and precision, if tf32 was asked for) */
  bool wide;           /* uses the kernels for wide layers, which also keep numbers in planes */
  int replays;         /* times that numbers exceeded the planes' range and work was repeated */
  uint64_t memory;     /* bytes of the device's memory, 0 if unknown */
  double taken;        /* bytes of the host's memory that the CPU engine takes */
};

/* Queues the forward pass over this rank's part of dataset rows [first_row, first_row + rows). */
static inline bool engine_evaluate(Engine *engine, uint64_t first_row, uint64_t rows,
                                   Error *error) {
  engine_own_rows(&engine->config, &first_row, &rows);
  return engine->call->predict(engine, first_row, rows, NULL, error);
}

/* Returns how much of `left`, in steps or rows of `rows` rows, one call should take, so that the
   caller can check for signals: some tenths of a second of work if the engine is synchronous, else
   everything. */
static inline uint64_t engine_piece(const Engine *engine, uint64_t left, uint64_t rows) {
  const double operations = 4e9, per_row = 6.0 * (double)engine->config.network.parameters;
  const uint64_t most = (uint64_t)(operations / per_row) / rows;
  return !engine->synchronous || left < most ? left : most > 0 ? most : 1;
}

/* Opens an engine, with parameters initialised from config->training.seed, or returns NULL. Every
   rank opens one, uploads all rows and makes the same calls of train. It trains on its share of the
   rows of each step, and the ranks add their gradients. Other calls concern this process alone. */
Engine *engine_cpu_open(const EngineConfig *config, Error *error);

/* Does the same on the current CUDA device. A build without CUDA fails with one sentence. */
Engine *engine_cuda_open(const EngineConfig *config, Error *error);

/* Makes one of the host's GPUs the current device, if there are any. Each rank gets its own GPU. */
bool engine_cuda_take(Ranks *ranks, Error *error);

/* Replaces *sums by the sums over all ranks. All ranks call this. */
bool engine_ranks_collect(const EngineConfig *config, EngineSums *sums, Error *error);

/* These return false with one sentence if the engine has no such rows or steps. */
bool engine_has_rows(const EngineConfig *config, uint64_t first_row, uint64_t rows, Error *error);
bool engine_can_upload(const EngineConfig *config, uint64_t first_row, uint64_t rows, Error *error);
bool engine_can_train(const EngineConfig *config, const TrainRange *range, Error *error);

/* Returns true if both ranges have the same augmented rows. */
bool engine_augments_alike(const TrainRange *a, const TrainRange *b);

/* Returns true if there is a GPU that this program has code for. It may initialise the driver. */
bool engine_cuda_available(Error *reason);

/* ---- the device that --device asks for ------------------------------------------------------- */

typedef enum { DEVICE_AUTO, DEVICE_CUDA, DEVICE_CPU } DeviceChoice;

typedef struct {
  DeviceChoice choice; /* the first engine that is opened decides DEVICE_AUTO */
  bool looked;         /* for a GPU */
  Error reason;        /* why `auto` took the CPU, "" if it did not */
} Device;

/* A TrainerOpenEngine, whose context is the Device. Either all ranks take a GPU, or all the CPU. */
Engine *device_open(void *context, const EngineConfig *config, Error *error);

/* Decides whether a failed run continues without the GPU. `able`: the run can start again. Returns
   true if the GPU failed and --device is auto; engines opened from now on are then CPU engines.
   Otherwise returns false, and if the GPU failed, *error says how to run without it. */
bool device_fall_back(Device *device, bool able, Error *error);
