/* The parts of mlp-bench. Every measurement becomes a line of a record. */
#pragma once

#include "engine/engine.h"
#include "measure/record.h"

/* Functions of src/bench/cuda and src/measure/cuda: NULL without CUDA. */
#define BENCH_CUDA __attribute__((weak))

/* Adds the lines of a file, which mlp-bench or scripts/compare_peers.py must have written. */
bool bench_read(Record *record, const char *path, Error *error);

/* Prints all tables, as plain text or as Markdown. */
void bench_print(const Record *record, FILE *file, bool markdown);
/* Draws the epochs of the first network at the smallest batch as a PNG. */
bool bench_plot(const Record *record, const char *path, Error *error);

enum { BENCH_SHAPES = 64, BENCH_NUMBERS = 8, BENCH_EPOCHS = 1000 };

/* A list of whole numbers. */
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
  int epochs; /* epochs to time of each; slow ones get fewer */
} BenchPlan;

/* Makes all measurements of mlp-bench and adds their lines. levels.c */
bool bench_measure(Record *record, const BenchPlan *plan, Error *error);

/* Opens the same training step, made of cuBLAS products and the small kernels of level none. */
Engine *bench_cublas_open(const EngineConfig *config, Error *error) BENCH_CUDA;
/* Adds the lines of the machine and its ceilings. */
bool bench_gpu(Record *record, const char *name, Error *error) BENCH_CUDA;
/* Returns how many kernels and graphs the host has launched since the program started. */
uint64_t launch_count(void) BENCH_CUDA;
