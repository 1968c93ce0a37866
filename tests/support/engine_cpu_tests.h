/* Shared by the tests of the CPU engine: rows that can be learned from, and an engine on them. For
   tests only: what goes wrong here fails the running cmocka test. */
#ifndef ENGINE_CPU_TESTS_H
#define ENGINE_CPU_TESTS_H

#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"

typedef struct {
  int inputs, classes;
  uint64_t rows;
  uint8_t *pixels; /* (rows, inputs) */
  uint16_t *labels;
} Rows;

/* Makes rows of which about the share `lit` of the pixels is not black. Labels follow a few pixels,
   so that there is something to learn. */
Rows make_rows(int inputs, int classes, uint64_t rows, double lit);
void free_rows(Rows *data);

/* Makes the configuration of an engine with two threads and buffers that hold all the rows. */
EngineConfig make_config(const Rows *data, const int *hidden, int count, int batch);

/* An engine that has all the rows. */
Engine *open_engine(const EngineConfig *config, const Rows *data);

/* Puts rows [from, from + rows) of the data into buffer `buffer`, and that to dataset row `to`. */
void upload(Engine *engine, const Rows *data, int buffer, uint64_t from, uint64_t to,
            uint64_t rows);

void train_steps(Engine *engine, const TrainRange *range);
EngineSums collect(Engine *engine);

/* Parameters, then the optimizer's state: (1 + training_states) * floats values, malloc'ed. */
float *weights_of(Engine *engine);

uint64_t steps_of(const EngineConfig *config, uint64_t rows);

/* Trains some epochs on all the data and returns the weights. */
float *run(const EngineConfig *config, const Rows *data, uint64_t epochs, EngineSums *sums);

#endif
