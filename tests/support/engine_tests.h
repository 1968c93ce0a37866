/* Shared by the tests of the engines: the levels of fusion, networks and rows to train on, and an
   engine driven through engine.h alone. For tests only: an error fails the running cmocka test.

   TEST_QUICK in the environment keeps the small networks only, for compute-sanitizer. */
#pragma once

#include "support/cuda.h"

/* ---- levels --------------------------------------------------------------------------------- */

/* One row per level and precision; STEP and EPOCH number two of them. */
enum { LEVELS = 7, STEP = 2, EPOCH };
typedef struct {
  Fusion fusion;
  Precision precision;
  const char *name;
  bool selective; /* may refuse a network: then there is nothing to test */
} TestedLevel;

extern const TestedLevel *const levels;

/* The number of the CPU engine wherever a level is asked for. */
enum { CPU = -1 };

/* How many of them, the first ones, are tested. */
int tested_levels(void);

/* A test after which its engines are closed. */
#define ENGINE_TEST(name) TEST_WITH(name, NULL, close_engines)

/* Defines a check of one level, and two tests that run it: on the CPU engine, and on the first
   `count` levels of a GPU. The check returns where open_level returns NULL. */
#define CONTRACT(name, count)                                                                      \
  static void name(int level);                                                                     \
  ENGINE_TEST(name##_of_the_cpu) {                                                                 \
    name(CPU);                                                                                     \
  }                                                                                                \
  ENGINE_TEST(name##_of_cuda) {                                                                    \
    needs_gpu();                                                                                   \
    for (int l = 0; l < (count); l++) name(l);                                                     \
  }                                                                                                \
  static void name(int level)

/* ---- what is trained on --------------------------------------------------------------------- */

typedef struct {
  const char *name;
  int inputs, hidden[3], hidden_count, classes;
  int batch;
  uint64_t rows;
  float learning_rate, momentum, weight_decay;
  uint64_t steps; /* to be trained */
  uint64_t seed;  /* of the initial parameters */
  bool flips;     /* a ReLU may open on one side only: see assert_near of test_engine_results.c */
  bool quick;
  int lit; /* eighths of all pixels that are not 0 beside the usual one: from -1 to 7 */
} Case;

enum { CASES = 11, MNIST = 0, SHORT = 3 };
extern const Case cases[CASES];

/* A network that every level serves. A GPU that trains it for long on few rows falls behind the
   host. */
const Case *busy_case(int level);

Network network_of(const Case *c);

/* Rows without gaps that can be learned from: a row is brighter where its label says. With `lit` 0
   a sixth of the pixels is not 0, as in MNIST. */
typedef struct {
  uint8_t *pixels; /* (rows, inputs) */
  uint16_t *labels;
  size_t inputs;
} Data;

Data make_data(const Case *c);

/* The smallest buffer that holds `rows`, and its steps. */
uint64_t whole_batches(const Case *c, uint64_t rows);
uint64_t steps_of(const Case *c, uint64_t rows);

/* Epoch `epoch` over all the rows. */
TrainRange epoch_of(const Case *c, uint64_t epoch);

/* Calls `use` with the ranges of the case's steps, one epoch each but for the last. */
void for_steps(const Case *c, void (*use)(void *context, TrainRange range), void *context);

/* A fixture: closes the engines that open_config() and others opened, but for those that are
   closed, and frees what was allocated. */
int close_engines(void **state);

/* ---- driving an engine ---------------------------------------------------------------------- */

EngineConfig config_of(const Case *c, Fusion fusion, uint64_t dataset_rows, uint64_t staging_rows);

/* Opens an engine of the level. NULL where a selective level refuses the network, with a reason. */
Engine *open_config(EngineConfig config, int level);
Engine *open_level(const Case *c, int level, uint64_t dataset_rows, uint64_t staging_rows);

/* Does the same, with all rows of the case in the dataset. */
Engine *open_loaded(const Case *c, int level, const Data *d);

/* Rows [from, from + rows) of the data go to dataset row first_row. */
void send_rows(Engine *engine, int buffer, const Data *d, uint64_t from, uint64_t rows,
               uint64_t first_row);
void send_all(Engine *engine, const Data *d, uint64_t rows);

void close_engine(Engine *engine);

void train(Engine *engine, TrainRange range);
EngineSums collect(Engine *engine);

/* The results of training; outcome_of collects the sums. */
typedef struct {
  float *parameters;     /* and behind them: */
  float *momentum;       /* and behind it what else the optimizer keeps */
  size_t floats, states; /* training_states */
  EngineSums sums;
} Outcome;

Outcome outcome_of(Engine *engine);
Outcome close_with_outcome(Engine *engine);

/* For for_steps: trains the range in one call, or in calls of one step, two, three and so on, or
   of as many times what ranges are to be aligned to. */
void train_whole(void *engine, TrainRange range);
void train_in_parts(void *engine, TrainRange range);

/* Trains the case's steps on all its rows; closes the engine. */
Outcome train_on(Engine *engine, const Case *c, const Data *d);

/* Parameters and momentum. */
void assert_same_bits(const Outcome *a, const Outcome *b);
/* And the sums; the losses may be off by that part, where float64 was added in another order. */
void assert_same_outcome(const Outcome *a, const Outcome *b, double off);

/* ---- the reference -------------------------------------------------------------------------- */

/* The same numbers in float64. */
double *doubles_of(const float *values, size_t count);

/* The case's steps in float64. */
typedef struct {
  EngineConfig config;
  const Data *data;
  double *start, *parameters, *momentum; /* start: before the first step; momentum as of Outcome */
  EngineSums sums;
} Reference;

Reference run_reference(const Case *c, EngineConfig config, const Data *d);

/* Returns ||out - expected|| / ||expected - start||: the error in parts of the way that training
   went. NULL for `start`: zeros. */
double way_error(const float *out, const double *expected, const double *start, size_t count);
