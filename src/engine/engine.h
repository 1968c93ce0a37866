/* The interface of an engine: what the trainer asks of a device. Nothing above it knows of CUDA or
   OpenMP.

   An engine owns a dataset on its device (rows of pixels as bytes, and their labels), the
   parameters and the state of their optimizer. Rows get there through two staging buffers on the
   host. Work is queued: upload, train and engine_evaluate may return before they have run, and run
   in the order in which they were called; predict, collect and read wait for all of it. Every call
   returns false with *error set on failure; an error of queued work is reported by a later call, at
   the latest by collect. */
#pragma once

#include <string.h>

#include "base/sizes.h"
#include "engine/training.h"
#include "ranks/ranks.h"

typedef struct {
  Training training;
  Network network;
  Ranks *ranks;          /* that train this network together, NULL: one process does */
  int engines;           /* that this process opens and that share its memory; 0: this one alone */
  uint64_t dataset_rows; /* capacity of the dataset, in rows */
  uint64_t staging_rows; /* rows a staging buffer holds: a multiple of the batch */
} EngineConfig;

/* Most rows of a step that a rank has: it takes part `rank` of `ranks` equal ones (part_start) of
   the step's rows, of a short last step too. */
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

/* Bytes from one row of pixels to the next: rows start on 16 bytes. */
static inline size_t engine_row_stride(int inputs) {
  return round_up((size_t)inputs, 16);
}

/* One of the two host buffers: pinned memory where the device is a GPU. */
typedef struct {
  uint8_t *pixels;  /* (staging_rows, stride): row r starts at r * stride */
  uint16_t *labels; /* (staging_rows) */
  size_t stride;    /* engine_row_stride */
} StagingBuffer;

/* A range of training steps over a window of the dataset. Step s trains on positions
   [s * batch, min((s + 1) * batch, rows)) of the window; position p is row first_row + p, or,
   shuffled, first_row + random_permute(p, rows, key). The gradient is the mean over the step's
   rows, so a last short step weighs its rows as much as any. Augmented, a step reads augmented
   copies instead, which take as much memory again; row r of the window becomes what augment.h
   makes of (augment, augment_key, r), so an epoch may be trained in parts. Inputs that are not a
   square are refused. */
typedef struct {
  uint64_t first_row, rows; /* the window; rows below 2^32 */
  bool shuffled;
  uint64_t key;
  uint64_t first_step, steps; /* within the window; the last step may be short */
  uint64_t updates;           /* of the run before first_step: adam's t - 1 */
  float learning_rate;
  AugmentStrengths augment; /* all 0: none */
  uint64_t augment_key;
  uint64_t dropout_key; /* random_dropout's, by position in the window */
} TrainRange;

/* Sums over the rows trained or evaluated since the last collect. Training rows are judged by the
   forward pass of their own step, before its update, and their loss is with the smoothed target. */
typedef struct {
  double loss; /* sum of the cross-entropies, natural logarithm */
  uint64_t correct;
  uint64_t rows;
} EngineSums;

typedef struct Engine Engine;

typedef struct {
  /* Waits until staging buffer `index`, 0 or 1, is free to be filled, and describes it. Its content
     is that of the last time. */
  bool (*staging)(Engine *engine, int index, StagingBuffer *out, Error *error);
  /* Queues a copy of the buffer's first `rows` rows to dataset rows [first_row, first_row + rows).
     The buffer is the engine's until the next `staging` call for it returns. Safe when those
     dataset rows are still being trained on: the copy waits for that. */
  bool (*upload)(Engine *engine, int index, uint64_t first_row, uint64_t rows, Error *error);
  bool (*train)(Engine *engine, const TrainRange *range, Error *error);
  /* Waits for queued work, then the logits (rows, classes) of the forward pass over dataset rows
     [first_row, first_row + rows). logits NULL: queues that forward pass, and its results go to the
     sums. */
  bool (*predict)(Engine *engine, uint64_t first_row, uint64_t rows, float *logits, Error *error);
  /* Waits for all queued work; the sums since the last collect. */
  bool (*collect)(Engine *engine, EngineSums *sums, Error *error);
  /* Waits, then copies the first `count` arrays, (count, network.floats): 1, the network's
     parameters, or with them the training_states. Parameters that are written alone are those that
     are trained, too. */
  bool (*read)(Engine *engine, float *arrays, size_t count, Error *error);
  bool (*write)(Engine *engine, const float *arrays, size_t count, Error *error);
  void (*close)(Engine *engine);
  /* Makes ready for up to `wanted` members that train at once, each a network of its own. Returns
     how many it can have; 0: none. NULL: 0. */
  int (*members)(Engine *engine, int wanted);
  /* Opens one of them: an engine for the rows of this one, which stays open longer and gets no
     others. Each member belongs to a thread. Their calls of train wait for each other, so a member
     may be waited for from now on until it leaves. */
  Engine *(*member)(Engine *engine, Error *error);
  /* A member leaves, or comes again and serves the calling thread. NULL: nobody waits. */
  bool (*attend)(Engine *engine, bool attends, Error *error);
} EngineOperations;

struct Engine {
  const EngineOperations *call;
  bool synchronous;    /* train and predict do the work before they return */
  uint32_t aligned;    /* above 1: the bits do not depend on how steps are cut into ranges if every
                          range but a window's first begins at a multiple of this; else on no cut */
  EngineConfig config; /* once opened: fusion and precision are those in use, never FUSION_AUTO */
  char device[128];    /* "NVIDIA H100 80GB HBM3", "CPU" and its threads */
  char reason[160];    /* why this fusion level (and precision, if tf32 was asked for) */
  bool wide;           /* by the kernels for wide layers, which keep numbers in planes, too */
  int replays;         /* times that numbers were beyond these and work was done again */
  uint64_t memory;     /* bytes of the device's memory, 0 if unknown */
};

/* What a log says of an engine: fields of it as it was. */
typedef struct {
  char device[sizeof((Engine *)NULL)->device], reason[sizeof((Engine *)NULL)->reason];
  Fusion fusion;
} InUse;

static inline InUse engine_in_use(const Engine *engine) {
  InUse in_use = {.fusion = engine->config.training.fusion};
  memcpy(in_use.device, engine->device, sizeof in_use.device);
  memcpy(in_use.reason, engine->reason, sizeof in_use.reason);
  return in_use;
}

/* Queues the forward pass over this rank's part of dataset rows [first_row, first_row + rows). */
static inline bool engine_evaluate(Engine *engine, uint64_t first_row, uint64_t rows,
                                   Error *error) {
  engine_own_rows(&engine->config, &first_row, &rows);
  return engine->call->predict(engine, first_row, rows, NULL, error);
}

/* How much of what is left, in steps or rows of `rows` rows each, one call of train or predict is
   to take, so that the caller can look for a signal between two of them: some tenths of
   a second of a synchronous engine, but at least 1. */
static inline uint64_t engine_piece(const Engine *engine, uint64_t left, uint64_t rows) {
  const double operations = 4e9, per_row = 6.0 * (double)engine->config.network.parameters;
  const uint64_t most = (uint64_t)(operations / per_row) / rows;
  return !engine->synchronous || left < most ? left : most > 0 ? most : 1;
}

/* Parameters are initialised from config->training.seed. NULL on failure.

   With ranks, every rank opens an engine, uploads all rows and makes the same calls of train in the
   same order. The engine trains on its share of the rows of each step; between gradient and update
   the ranks add their gradients. Its other calls are about this process alone. */
Engine *engine_cpu_open(const EngineConfig *config, Error *error);

/* Returns the bytes that engine_cpu_open would take for it, or INFINITY if memory ends. */
double engine_cpu_bytes(const EngineConfig *config);

/* Does the same on the current CUDA device. A build without CUDA fails with one sentence. */
Engine *engine_cuda_open(const EngineConfig *config, Error *error);

/* Makes the GPU of this rank's number on its host the current device, if it has GPUs at all. False
   where two ranks would share one. All ranks call this, before anything else of CUDA. */
bool engine_cuda_take(Ranks *ranks, Error *error);

/* Makes an engine, one rank's, that of a run of ranks: says so in engine->device. All ranks call
   this, with NULL for `engine` where one could not be opened: then all fail, *error saying why, and
   the others' engines are closed. */
Engine *engine_ranks_open(Engine *engine, Ranks *ranks, Error *error);

/* Makes *sums the sums over all ranks. All of them call this; one process alone keeps its own. */
bool engine_ranks_collect(const EngineConfig *config, EngineSums *sums, Error *error);

/* Check what an engine of this configuration is asked for: rows of the dataset, an upload of them
   from one staging buffer, training. False with one sentence if it has no such rows or steps. */
bool engine_has_rows(const EngineConfig *config, uint64_t first_row, uint64_t rows, Error *error);
bool engine_can_upload(const EngineConfig *config, uint64_t first_row, uint64_t rows, Error *error);
bool engine_can_train(const EngineConfig *config, const TrainRange *range, Error *error);

/* Returns true if the rows of two ranges are augmented to the same ones. */
bool engine_augments_alike(const TrainRange *a, const TrainRange *b);

/* True if there is a CUDA device that can run what this program has for it; otherwise false with
   the reason. Slow the first time: it initialises the driver. */
bool engine_cuda_available(Error *reason);

/* ---- the device that --device asks for (device.c) ---------------------------------------------
 */

typedef enum { DEVICE_AUTO, DEVICE_CUDA, DEVICE_CPU } DeviceChoice;

typedef struct {
  DeviceChoice choice; /* the first engine that is opened turns DEVICE_AUTO into DEVICE_CPU where
                          there is no GPU */
  bool looked;         /* for one */
  Error reason;        /* why `auto` took the CPU, "" if it did not */
} Device;

/* A TrainerOpenEngine; context: the Device. With ranks all of them take a GPU, or all the CPU. */
Engine *device_open(void *context, const EngineConfig *config, Error *error);

/* After a failure. True if it was the GPU's, --device auto stands and `able`, that is, what was
   begun can be begun again: then what is opened from now on is the CPU, and the reason is the
   failure. Else false, and *error says what does without a GPU if that was what failed. */
bool device_fall_back(Device *device, bool able, Error *error);
