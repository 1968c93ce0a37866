/* The functions that mlp-bench's files share. Every measurement becomes a line of a record. */
#pragma once

#include "engine/engine.h"
#include "measure/record.h"

/* Marks functions of src/bench/cuda and src/measure/cuda. Without CUDA they are NULL. */
#define BENCH_CUDA __attribute__((weak))

/* Adds the lines of a file that mlp-bench or scripts/compare_peers.py wrote. */
bool bench_read(Record *record, const char *path, Error *error);

/* Prints all tables of the record, as plain text or as Markdown. */
void bench_print(const Record *record, FILE *file, bool markdown);
/* Writes a PNG chart of the epochs that agree with the first epoch in network, batch and number of
   networks. */
bool bench_plot(const Record *record, const char *path, Error *error);

enum { BENCH_SHAPES = 64, BENCH_NUMBERS = 8, BENCH_EPOCHS = 1000 };

typedef struct {
  int count, of[BENCH_NUMBERS];
} BenchNumbers;

typedef struct {
  int count;
  HiddenSizes of[BENCH_SHAPES];
} BenchShapes;

typedef struct {
  const char *train, *test; /* CSV files */
  BenchShapes shapes;       /* every shape is timed at every batch and number of networks */
  BenchNumbers batches, networks;
  int epochs; /* timed epochs per case; slow cases get fewer */
} BenchPlan;

/* Makes all measurements of mlp-bench and adds their lines (in levels.c). */
bool bench_measure(Record *record, const BenchPlan *plan, Error *error);

/* Opens an engine in which cuBLAS computes products and level `none`'s kernels do the rest. */
Engine *bench_cublas_open(const EngineConfig *config, Error *error) BENCH_CUDA;
/* Adds the line "machine" and the lines "ceiling" of the GPU to the record. */
bool bench_gpu(Record *record, const char *name, Error *error) BENCH_CUDA;
/* Returns how many kernels and graphs the host has launched since the program started. */
uint64_t launch_count(void) BENCH_CUDA;
