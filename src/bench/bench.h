/* The parts of mlp-bench. Whatever is measured, by mlp-bench or by scripts/compare_peers.py,
   becomes a line of a record. */
#pragma once

#include "engine/engine.h"
#include "measure/record.h"

/* ---- reports (report.c) ---------------------------------------------------------------- */

/* Adds the lines of a file, which must be mlp-bench's, scripts/compare_peers.py's or
   scripts/scaling.sh's. */
bool bench_read(Record *record, const char *path, Error *error);

/* All tables, as plain text or as Markdown. */
void bench_print(const Record *record, FILE *file, bool markdown);
/* A chart of the epochs at the smallest batch or, of ranks, of how they scale, saved as a PNG. */
bool bench_plot(const Record *record, const char *path, Error *error);

/* ---- counting (model.c) ---------------------------------------------------------------- */

enum { BENCH_CUBLAS = FUSION_EXERCISE + 1 }; /* the level after engine.h's */

/* Multiplications and additions of a row's training step. */
double bench_flops_per_row(const Network *network);

/* The least that the kernels of a step at this level read and write in global memory: each of
   their operands once. `mail`: bytes of the epoch kernel's mail, sent and received once. */
double bench_bytes(int level, const Network *network, int batch, double mail);

/* The rates that bound an epoch. It takes at least the longer of its arithmetic at the GPU's SGEMM
   rate and of reading its pixels and labels once, and two barriers of the whole grid a step, since
   the first layer's outputs must come to the owners of rows and its gradients to the owners of
   columns. */
typedef struct {
  double flops_per_second, bytes_per_second, barrier_seconds;
} BenchRates;

double bench_floor_seconds(const BenchRates *rates, const Network *network, int batch,
                           uint64_t rows);

/* ---- measuring ------------------------------------------------------------------------------- */

/* The same training step made of cuBLAS products and the small kernels of level none, captured in
   graphs as level step is, at the config's precision: engine_cuda_open_with of cuBLAS.
   cuda/cublas.c */
Engine *bench_cublas_open(const EngineConfig *config, Error *error);

/* Rows of the training file, then of the test file, in memory; without pixels: random ones. */
typedef struct {
  uint8_t *pixels; /* (rows, inputs) */
  uint16_t *labels;
  int inputs;
  uint64_t train_rows, test_rows;
  double seconds; /* that reading both files took */
} BenchRows;

typedef struct {
  const char *name; /* its hidden layers, as --hidden has them; NULL: the one of all levels */
  int hidden[5], layers;
} BenchNetwork;

typedef struct {
  const char *name, *precision;
  int level; /* a Fusion, or BENCH_CUBLAS */
} BenchLevel;

extern const BenchNetwork bench_usual;  /* 300, 100 */
extern const BenchLevel bench_levels[]; /* those of mlp-train at fp32, and more. cuda/levels.c */

/* An engine at a level with the rows in its dataset; and what copies them there. */
Engine *bench_open(const BenchLevel *level, const BenchRows *rows, const BenchNetwork *network,
                   int batch, Error *error);
bool bench_fill(Engine *engine, const BenchRows *rows, Error *error);
/* Trains so many steps of an epoch, shuffled by its own key; sets the seconds until they are done.
   Fails if the loss is not finite. */
bool bench_train(Engine *engine, const BenchRows *rows, uint64_t epoch, uint64_t steps, float rate,
                 double *seconds, Error *error);

/* These add lines: `machine`, and the GPU's name to the record; `ceiling`; `kernel`. what: network
   and data. cuda/gpu.c */
bool bench_machine(Record *record, const char *what, const char *command, Error *error);
bool bench_ceilings(Record *record, Error *error);
bool bench_kernels(Record *record, const EngineConfig *config, Error *error);
/* Adds a line with a value and a unit, a name and a precision unless they are NULL, and a batch and
   a share unless they are NAN. */
void bench_add(Record *record, const char *kind, const char *name, const char *precision,
               double value, const char *unit, double batch, double share);

enum { BENCH_BATCHES = 8, BENCH_EPOCHS = 1000 };

typedef struct {
  const char *train, *test;            /* CSV files */
  int epochs, run_epochs, wide_epochs; /* timed ones of a level, a run, a wide network; 0: none */
  int batches[BENCH_BATCHES], batch_count;
} BenchPlan;

/* Measures all that mlp-bench does and adds its lines. NULL: the program was built without CUDA.
   cuda/levels.c */
__attribute__((weak)) bool bench_measure(Record *record, const BenchPlan *plan, const char *command,
                                         Error *error);

/* A whole run of the trainer in a process of its own, from a process that has not touched the GPU
   yet, as --fusion auto, batch 64. cuda/run.c */
typedef struct {
  double total;                  /* from the start of the process to its end */
  double open, close;            /* the engine and the readers; freeing it all */
  double first_epoch, test_file; /* parsing, copies, training; parsing and copying the test file */
  double epochs, evaluation;     /* the other epochs, all evaluations */
  double context;                /* creating a context alone, in another process */
  int count;                     /* epochs */
} BenchRun;

bool bench_run(const char *train, const char *test, int epochs, BenchRun *run, Error *error);
