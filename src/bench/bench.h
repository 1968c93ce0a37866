/* The parts of mlp-bench. Whatever is measured, by mlp-bench or by scripts/compare_peers.py,
   becomes a line; tables, Markdown and the picture are made from lines alone, so that they can be
   made again without a GPU. */
#ifndef BENCH_H
#define BENCH_H

#include <stdint.h>
#include <stdio.h>

#include "engine/engine.h"

/* ---- lines (lines.c) ------------------------------------------------------------------ */

/* One JSON object of text and numbers. Text is "" and a number NAN where the line has none; then
   it is not written either. By `kind`, which is the key "case":

     machine  name: network and data; gpu, driver, cores, date, command, sources
     peers    name: the versions of the peers; command
     epoch    fusion or peer, batch, precision, and the times of an epoch; or the reason why not
     wide     likewise of a wide network; name: its hidden layers
     ceiling  name, value, unit: what the GPU can do at most
     floor    batch, precision, value: what an epoch takes at least, ms
     kernel   name, batch, value: one kernel of a step at level layer, us; share of the step, bound
     run      name, value: a part of a whole run of mlp-train, ms; its share, bound
     alone    name, value: the same work with nothing beside it, ms

   bound: how many times faster the whole gets if the part takes no time at all (Amdahl, 1967). */
typedef struct {
  char kind[16];
  char fusion[16], peer[64], precision[16], name[96], unit[16], reason[512];
  char gpu[128], driver[64], date[32], command[512], sources[80];
  double batch, epochs, ms_per_epoch, min_ms, max_ms, us_per_step;
  double launches_per_step; /* by the host, counted while it ran */
  double bytes_per_step;    /* bench_bytes; NAN with the kernels for wide layers */
  double test_accuracy;     /* part of 1, after the timed epochs */
  double chosen;            /* 1: the level that --fusion auto takes */
  double value, share, bound, cores;
} BenchLine;

BenchLine bench_line(const char *kind);

typedef struct {
  BenchLine *lines;
  int count, room;
  FILE *json;                 /* where each line is written as soon as it is added, or NULL */
  char gpu[128], sources[80]; /* of every line that does not say otherwise */
} BenchLog;

bool bench_add(BenchLog *log, const BenchLine *line, Error *error);
/* A line of a kind that has a name, a value and a unit. */
bool bench_add_value(BenchLog *log, const char *kind, const char *name, double value,
                     const char *unit, Error *error);
/* Adds the lines of a file of JSON objects, one a line. Keys that no line has are passed over. */
bool bench_read(BenchLog *log, const char *path, Error *error);
void bench_close(BenchLog *log); /* frees the lines; json stays the caller's */

/* The value of the first line of that kind and name, NAN if there is none. */
double bench_value(const BenchLog *log, const char *kind, const char *name);

/* Names of ceilings, written by one file and read by another. */
#define BENCH_COPY "copy on the GPU, read + write"
#define BENCH_SGEMM_FP32 "SGEMM 4096, fp32"
#define BENCH_SGEMM_TF32 "SGEMM 4096, tf32"
#define BENCH_BARRIER "grid barrier"
#define BENCH_PINNED "copy to the GPU, pinned"

/* ---- counting (model.c) ---------------------------------------------------------------- */

enum { BENCH_CUBLAS = FUSION_EXERCISE + 1 }; /* the level after engine.h's */

/* Multiplications and additions of a row's training step. */
double bench_flops_per_row(const Network *network);

/* The least that the kernels of a step at this level read and write in global memory: each of
   their operands once. `mail`: bytes of the epoch kernel's mail, sent and received once. */
double bench_bytes(int level, const Network *network, int batch, double mail);

/* What an epoch takes at least: the longer of its arithmetic at the GPU's SGEMM rate and of
   reading its pixels and labels once, and two barriers of the whole grid a step, since the first
   layer's outputs must come to the owners of rows and its gradients to the owners of columns. */
typedef struct {
  double flops_per_second, bytes_per_second, barrier_seconds;
} BenchRates;

double bench_floor_seconds(const BenchRates *rates, const Network *network, int batch,
                           uint64_t rows);

/* ---- reports (report.c) ---------------------------------------------------------------- */

/* All tables, as plain text or as Markdown. */
void bench_print(const BenchLog *log, FILE *file, bool markdown);
/* A chart of the epochs at the smallest batch, saved as a PNG. */
bool bench_plot(const BenchLog *log, const char *path, Error *error);

/* ---- measuring ------------------------------------------------------------------------------- */

/* The same training step made of cuBLAS products and the small kernels of level none, captured in
   graphs as level step is: engine_cuda_open_with of cuBLAS. cuda/cublas.c */
Engine *bench_cublas_open(const EngineConfig *config, bool tf32, Error *error);

/* Creates the context. cuda/gpu.c, as what follows */
bool bench_start_gpu(Error *error);
/* The lines `machine` (and log->gpu), `ceiling`, `kernel`. what: network and data. */
bool bench_machine(BenchLog *log, const char *what, const char *command, Error *error);
bool bench_ceilings(BenchLog *log, Error *error);
bool bench_kernels(BenchLog *log, const Network *network, int batch, Error *error);
/* Bytes of the mail of level epoch, 0 where it cannot run. */
double bench_mail(const Network *network, int batch);

/* A whole run of the trainer in a process of its own, from a process that has not touched the GPU
   yet, as --fusion auto, batch 64. Adds the lines `run` and `alone`. cuda/run.c */
typedef struct {
  double total;                  /* from the start of the process to its end */
  double open, close;            /* the engine and the readers; freeing it all */
  double first_epoch, test_file; /* parsing, copies, training; parsing and copying the test file */
  double epochs, evaluation;     /* the other epochs, all evaluations */
  double context;                /* creating a context alone, in another process */
  int count;                     /* epochs */
} BenchRun;

bool bench_run(const char *train, const char *test, int epochs, BenchRun *run, Error *error);

#endif
