/* The interface of an engine, which hides CUDA and OpenMP from the trainer. An engine owns a
   dataset on its device (pixels as bytes, and labels), the parameters and the optimizer's state.
   Rows reach the dataset through two staging buffers on the host. Work runs in the order of the
   calls. upload, train and engine_evaluate may return before their work has run; predict, collect
   and read wait for all queued work. A call that fails returns false with *error set; collect
   reports errors of queued work at the latest. */
#pragma once

#include <string.h>

#include "base/sizes.h"
#include "engine/training.h"
#include "ranks/ranks.h"

typedef struct {
  Training training;
  Network network;
  Ranks *ranks; /* the processes that train this network; NULL if there is only one process */
  int engines;  /* number of engines that share this process's memory; 0 means one */
  uint64_t dataset_rows; /* capacity of the dataset, in rows */
  uint64_t staging_rows; /* rows that a staging buffer holds, a multiple of the batch */
} EngineConfig;

/* Returns the largest number of rows that a rank gets when the ranks divide one step equally. */
static inline int engine_rows(const EngineConfig *config) {
  return (int)ceil_div((size_t)config->training.batch, (size_t)ranks_count(config->ranks));
}

/* Narrows the range [*first_row, *first_row + *rows) to this rank's part of the range. */
static inline void engine_own_rows(const EngineConfig *config, uint64_t *first_row,
                                   uint64_t *rows) {
  const size_t rank = (size_t)ranks_number(config->ranks),
               ranks = (size_t)ranks_count(config->ranks), all = *rows,
               begin = part_start(all, rank, ranks);
  *first_row += begin;
  *rows = part_start(all, rank + 1, ranks) - begin;
}

/* Returns the bytes between the starts of adjacent rows of pixels, a multiple of 16. */
static inline size_t engine_row_stride(int inputs) {
  return round_up((size_t)inputs, 16);
}

/* One of the two staging buffers on the host. Its memory is pinned if the device is a GPU. */
typedef struct {
  uint8_t *pixels;  /* (staging_rows, stride): row r starts at r * stride */
  uint16_t *labels; /* (staging_rows) */
  size_t stride;    /* bytes between the starts of adjacent rows (see engine_row_stride) */
} StagingBuffer;

/* A range of training steps over a window of the dataset. Step s trains on positions [s * batch,
   min((s + 1) * batch, rows)) of the window; position p is row first_row + p or, if `shuffled`, row
   first_row + random_permute(p, rows, key). The gradient is the mean over the step's rows. With
   augmentation, steps read augmented copies, which double the memory of the rows. augment.h makes
   the copy of the window's row r from (augment, augment_key, r). Pictures must then be square. */
typedef struct {
  uint64_t first_row, rows; /* the window; `rows` is below 2^32 */
  bool shuffled;
  uint64_t key;
  uint64_t first_step, steps;
  uint64_t updates; /* number of updates in the run before first_step (t - 1 in adam) */
  float learning_rate;
  AugmentStrengths augment; /* all 0 means no augmentation */
  uint64_t augment_key;
  uint64_t dropout_key; /* the argument `key` of random_dropout */
} TrainRange;

/* Sums over the rows trained or evaluated since the last collect. A training row's results come
   from the forward pass of its step; its loss uses smoothed targets. */
typedef struct {
  double loss; /* sum of the cross-entropies, natural logarithm */
  uint64_t correct;
  uint64_t rows;
} EngineSums;

typedef struct Engine Engine;

typedef struct {
  /* Waits until staging buffer `index`, 0 or 1, is free, then describes it in *out. */
  bool (*staging)(Engine *engine, int index, StagingBuffer *out, Error *error);
  /* Queues a copy of the buffer's first `rows` rows to dataset rows [first_row, first_row + rows).
     The copy waits for work queued earlier that uses these dataset rows. The engine owns the buffer
     until the next `staging` with this index returns. */
  bool (*upload)(Engine *engine, int index, uint64_t first_row, uint64_t rows, Error *error);
  bool (*train)(Engine *engine, const TrainRange *range, Error *error);
  /* Waits for queued work, then writes the logits (rows, classes) of dataset rows first_row to
     first_row + rows - 1. If logits is NULL, only queues the forward pass and adds to the sums. */
  bool (*predict)(Engine *engine, uint64_t first_row, uint64_t rows, float *logits, Error *error);
  /* Waits for all queued work, then returns the sums of all work since the last collect. */
  bool (*collect)(Engine *engine, EngineSums *sums, Error *error);
  /* read waits for queued work, then copies the first `count` arrays, (count, network.floats).
     Array 0 is the network's parameters; training_states returns the number of other arrays. write
     copies `arrays` to the engine; if count is 1, write also sets the trained parameters. */
  bool (*read)(Engine *engine, float *arrays, size_t count, Error *error);
  bool (*write)(Engine *engine, const float *arrays, size_t count, Error *error);
  void (*close)(Engine *engine);
  /* Returns how many members the engine may have. A member is an engine that trains another network
     on the same rows. If `members` returns 0 or is NULL, networks train in sequence. */
  int (*members)(Engine *engine);
  /* Opens a member. Close all members before `engine`. Each member may have its own thread. */
  Engine *(*member)(Engine *engine, Error *error);
} EngineOperations;

struct Engine {
  const EngineOperations *call;
  bool synchronous;    /* train and predict finish their work before they return */
  uint32_t aligned;    /* if 0 or 1, cutting an epoch into calls never changes the bits; if larger,
                          only cuts at multiples of `aligned` steps surely keep the bits */
  EngineConfig config; /* opening sets fusion and precision to those in use, never FUSION_AUTO */
  char device[128];    /* the device's name; on the CPU, also the number of threads */
  char reason[160]; /* why this fusion level is used; if tf32 was asked for, also which precision */
  bool wide;        /* true if the engine uses the wide-layer kernels (kernels/layer/wide.cu) */
  int replays;      /* number of times that work was repeated because a number left fp16's range */
  uint64_t memory;  /* bytes of the device's memory; 0 means unknown */
  double taken;     /* bytes of the host's memory that the CPU engine takes */
};

/* Closes the engine. Does nothing if `engine` is NULL. */
static inline void engine_close(Engine *engine) {
  if (engine) engine->call->close(engine);
}

/* Queues the forward pass over this rank's part of dataset rows [first_row, first_row + rows). */
static inline bool engine_evaluate(Engine *engine, uint64_t first_row, uint64_t rows,
                                   Error *error) {
  engine_own_rows(&engine->config, &first_row, &rows);
  return engine->call->predict(engine, first_row, rows, NULL, error);
}

/* Returns how many of `left` units, each of `rows` rows, one call should process. A unit is a step
   or a row. For a synchronous engine, a call gets some tenths of a second of work, so that the
   caller can check for signals between calls. For other engines, a call gets all units. */
uint64_t engine_piece(const Engine *engine, uint64_t left, uint64_t rows);

/* Opens an engine with parameters initialised from config->training.seed. Returns NULL on failure.
   Every rank opens an engine, uploads all rows and makes the same calls of train and collect. train
   uses this rank's part of each step's rows and adds all ranks' gradients; collect adds all ranks'
   sums. Other calls do not involve other ranks. */
Engine *engine_cpu_open(const EngineConfig *config, Error *error);

/* Like engine_cpu_open, but on the current CUDA device. Fails in a build without CUDA. */
Engine *engine_cuda_open(const EngineConfig *config, Error *error);

/* If the host has GPUs, makes one of them the current device. Each rank gets its own GPU. */
bool engine_cuda_take(Ranks *ranks, Error *error);

/* Replaces *sums by the total over all ranks' *sums. All ranks must call this function. */
bool engine_ranks_collect(const EngineConfig *config, EngineSums *sums, Error *error);

/* The next three functions return false with *error set if the engine has no such rows or steps. */
bool engine_has_rows(const EngineConfig *config, uint64_t first_row, uint64_t rows, Error *error);
bool engine_can_upload(const EngineConfig *config, uint64_t first_row, uint64_t rows, Error *error);
bool engine_can_train(const EngineConfig *config, const TrainRange *range, Error *error);

/* Returns true if both ranges use the same augmented rows. */
bool engine_augments_alike(const TrainRange *a, const TrainRange *b);

/* Returns true if this program has code for a GPU of this host. May initialise the driver. */
bool engine_cuda_available(Error *reason);

/* ---- the device that --device asks for ------------------------------------------------------- */

typedef enum { DEVICE_AUTO, DEVICE_CUDA, DEVICE_CPU } DeviceChoice;

typedef struct {
  DeviceChoice choice; /* DEVICE_AUTO becomes DEVICE_CPU if a rank lacks a GPU or a GPU fails */
  bool looked;         /* true once device_open has looked for a GPU */
  Error reason;        /* why DEVICE_AUTO became DEVICE_CPU; "" if it did not */
} Device;

/* Opens the engine that `context`, a Device, asks for. Either all ranks use GPUs, or none does. */
Engine *device_open(void *context, const EngineConfig *config, Error *error);

/* Decides whether a failed run restarts on the CPU. Returns true if the GPU failed, --device is
   auto and `able` is true; later engines are then CPU engines. Otherwise returns false. If the GPU
   failed, *error then says how to run without a GPU. */
bool device_fall_back(Device *device, bool able, Error *error);
