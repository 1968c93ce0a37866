/* The functions that the parts of mlp-lab share. Parts that need the CUDA Toolkit are in cuda/. */
#pragma once

#include "emulator/emulator.h"
#include "lab/lab.h"
#include "measure/record.h"
#include "model/network.h"

/* Marks functions of src/lab/cuda. They are NULL in a program that was built without CUDA. */
#define LAB_CUDA __attribute__((weak))

/* ---- topics and sizes (record.c) --------------------------------------------------------- */

/* Returns the topic of that name, or NULL if there is none. */
const LabTopic *lab_find(const char *name);

/* Returns the number of dimensions of the topic's sizes. topic->dims names the dimensions. */
int lab_dims(const LabTopic *topic);

#define foreach_rung(RUNG, TOPIC)                                                                  \
  for (const LabRung *RUNG = (TOPIC)->rungs; RUNG < (TOPIC)->rungs + (TOPIC)->rung_count; RUNG++)

/* Returns true if the problem's ladder has the rung. */
bool lab_belongs(const LabRung *rung, int problem);

/* lab_count returns the number of elements in an array. lab_width returns the bytes of an element,
   or 0 if the problem does not use the array. `array` is an input's index, or -1 for the output. */
int64_t lab_count(const LabTopic *topic, int problem, LabSize size, int array);
int lab_width(const LabTopic *topic, int problem, int array);
/* Returns the minimum bytes that a problem must move. */
double lab_bytes(const LabTopic *topic, int problem, LabSize size);

/* Returns a size as text, for example "4096x1024". */
ShortText lab_size_text(const LabTopic *topic, LabSize size);
/* Reads a size such as "4096x1024". If it fails, *error tells the required form or the limit. */
bool lab_parse_size(const LabTopic *topic, const char *text, LabSize *size, Error *error);

/* Returns a size so small that the emulator can run a rung within seconds. Its dimensions are
   powers of two, so that all warps and tiles are full, as in predictions. */
LabSize lab_small_size(const LabTopic *topic);

/* Returns a clause that says why the rung cannot run this call, or "" if it can. */
ShortText lab_refusal(const LabRung *rung, const LabCall *call);

/* ---- occupancy (record.c) ------------------------------------------------------------------- */

/* What a multiprocessor has, or what a block takes of it. A block takes `registers` per thread.
   Shared memory is in bytes. */
typedef struct {
  int threads, registers, shared, blocks;
} LabRoom;

/* Returns how many blocks would fit if only threads, only registers, ... were counted. Registers
   are given to warps, 256 at a time, in each of four quarters of a multiprocessor; shared memory is
   given to blocks, 128 bytes at a time (CUDA's occupancy calculator, from 7.5 on). */
LabRoom lab_fitting(const LabRoom *has, const LabRoom *takes);
/* Returns the names of what lets the fewest blocks fit, such as "registers" or "threads, shared".
 */
ShortText lab_limit(const LabRoom *has, const LabRoom *takes);
/* Returns the warps of `blocks` blocks in percent of all warps that a multiprocessor can hold. */
double lab_occupancy(const LabRoom *has, const LabRoom *takes, int blocks);

/* ---- tables (record.c) ---------------------------------------------------------------------- */

/* The words of the column "check". In a file, a row without a word is right. */
#define LAB_UNCHECKED "-" /* the row was not run, or its rung is a LAB_PART */
#define LAB_RIGHT "right"
#define LAB_WRONG "WRONG"
#define LAB_REFUSED "refused"

/* Returns a new record line for a table: one problem at one size, without results yet. */
json_t *lab_table(const LabTopic *topic, int problem, LabSize size);

/* Returns true if no row of a table is wrong. */
bool lab_table_good(const json_t *table);

/* ---- arrays (cuda/arrays.c) --------------------------------------------------------------- */

typedef struct {
  bool times;       /* if true, times each rung whose result is not wrong */
  const char *rung; /* the only rung to run; NULL means all */
  bool last;     /* if true, runs only the last rung that can run this size, rungs that refuse the
                    ladder's size, rungs of all sizes, and the libraries */
  bool guarded;  /* if true, puts guard bytes around each array, to detect writes out of bounds */
  uint64_t seed; /* seed of the inputs */
} LabHow;

/* Several copies of an array, with guard bytes around each copy. All bytes start as 0xFF. */
typedef struct {
  uint8_t *start; /* memory: guard, copy, guard, ..., copy, guard; NULL if the array is unused */
  size_t bytes;   /* bytes of one copy */
} LabBlock;

/* Indices of LabArrays.blocks: inputs, output, pageable copies of inputs and output, work array. If
   topic->on_host, inputs and output are in pinned host memory, otherwise in GPU memory. */
enum { LAB_OUT = LAB_INPUTS, LAB_PAGEABLE, LAB_WORK = 2 * LAB_PAGEABLE, LAB_BLOCKS };

/* The arrays that all rungs of a problem share. */
typedef struct {
  const LabTopic *topic;
  const LabProblem *problem;
  LabCall call; /* the fields that all calls share: problem, size, gpu, streams and event */
  const LabHow *how;
  GpuLimits gpu;
  size_t guard; /* bytes of a guard */
  int copies;
  LabBlock blocks[LAB_BLOCKS];
  void *h_in[LAB_INPUTS], *h_out; /* the inputs; the outputs that lab_arrays_fetch copied */
  /* Outputs are checked in ranges of `length`; the last may be shorter. With over 4e9 operations
     and 2048 outputs, `sampled` is set: only first, last and 64 random ranges are checked. */
  bool sampled;
  int64_t count, ranges, length; /* number of outputs; number of ranges; outputs per range */
  double *expected, *allowed;    /* (ranges, length) */
} LabArrays;

/* Allocates the arrays and fills the inputs. Sets error->too_large if the GPU's memory is too
   small. */
bool lab_arrays_open(LabArrays *arrays, const LabTopic *topic, int problem, LabSize size,
                     const LabHow *how, Error *error);
void lab_arrays_close(LabArrays *arrays); /* call it even after lab_arrays_open failed */

/* Returns a call of the rung on copy `copy` of the arrays. */
LabCall lab_arrays_call(const LabArrays *arrays, const LabRung *rung, int64_t point, int copy);

/* Fills the output's first copy and the work array with bytes 0xFF. */
bool lab_arrays_poison(const LabArrays *arrays, Error *error);
/* Sets *outside to what the rung changed beside the output; NULL means nothing. May use h_out. */
bool lab_arrays_inspect(const LabArrays *arrays, const char **outside, Error *error);
/* Copies `count` outputs from output `first` on to their places in h_out. */
bool lab_arrays_fetch(const LabArrays *arrays, const LabRung *rung, int64_t first, int64_t count,
                      Error *error);

/* ---- running (cuda/run.c) -------------------------------------------------------------------- */

/* A row of a table: a rung, one of the rung's points, and a JSON object for the results. */
typedef struct {
  const LabRung *rung;
  int64_t point;
  json_t *line;
} LabRow;

/* cuda/gpu.c defines the next three functions. On the emulator, the last two are NULL. */

/* Call this before an untimed call (`starts` is true) and after it (`starts` is false). Returns ""
   or what the emulator found. */
ShortText lab_watch(const LabArrays *arrays, const LabRow *row, bool starts);
/* Adds the kernel's numbers of registers and of blocks per multiprocessor to the row. */
cudaError_t lab_add_occupancy(const LabRow *row, const LabRecord *record) LAB_CUDA;
/* Times a row's rung. `once` is the time of the checked run, which serves as a first estimate. */
bool lab_time(const LabArrays *arrays, const LabRow *row, double once, Error *error) LAB_CUDA;

/* Runs a table's rungs or, if the size is refused, sets "reason". Fails if the GPU fails. */
bool lab_measure(json_t *table, const LabTopic *topic, int problem, LabSize size, const LabHow *how,
                 Error *error) LAB_CUDA;

/* Starts the GPU (measure/cuda/rung.h). */
bool gpu_start(Error *error) LAB_CUDA;
/* Adds the GPU to the record and, if `rates` is true, its properties and measured ceilings. */
bool lab_machine(Record *record, bool rates, Error *error) LAB_CUDA;

/* Counts what a training step asks of memory at each level of fusion (emulated/levels.c). Adds a
   line "level" for each level. NULL in a program that does not run on the emulator. */
bool lab_count_levels(Record *record, const HiddenSizes *hidden, int batch, Error *error) LAB_CUDA;

/* ---- lines (record.c) ----------------------------------------------------------------------- */

/* Adds the line of a topic: its description and its rungs. */
void lab_add_topic(Record *record, const LabTopic *topic);
/* Adds a table and computes the fields that files lack. The record must have the table's topic. */
void lab_add_table(Record *record, json_t *table);
/* Adds all topics and the tables of all their problems, without results. */
void lab_add_all(Record *record);
/* Adds the lines of a file that mlp-lab wrote. Needs neither a GPU nor the toolkit. */
bool lab_read(Record *record, const char *path, Error *error);

const json_t *lab_topic_line(const Record *record, const char *topic);

/* Loops over a topic's problems. TABLE is the first table of a problem. */
#define foreach_problem(TABLE, RECORD, TOPIC)                                                      \
  foreach_of (TABLE, RECORD, "table", "topic", TOPIC)                                              \
    if (TABLE == record_find(RECORD, "table", "topic", TOPIC, "problem", text_of(TABLE, "problem")))

/* Returns the ceiling that limits the topic's rates, or NULL if the record lacks it. */
const json_t *lab_ceiling(const Record *record, const json_t *topic);
/* Returns the ceiling of moved bytes (`moves` is true) or of operations, or NULL. */
const json_t *lab_roof(const Record *record, const json_t *topic, bool moves);

/* ---- reports (report.c) --------------------------------------------------------------------- */

/* Prints a problem's ladder with the rungs' lessons, then the other sizes. Skips lessons that an
   earlier ladder of the topic has. */
void lab_print(const Record *record, const char *topic, const char *problem, bool markdown);

/* Prints the lines "level": the levels, then the kernels of each. */
void lab_print_levels(const Record *record, bool markdown);

/* Returns true if no level is wrong. */
bool lab_levels_good(const Record *record);

/* Prints the device's properties, and its ceilings in theory and as measured. */
void lab_print_device(const Record *record, bool markdown);

/* ---- pictures (plot.c) ------------------------------------------------------------------------
 */

/* Draws the rates of the topic's sweeps as the PNG file `path`: a panel per family of rungs, such
   as offset-4 and offset-8. Takes the first table of the problem, or of all if `problem` is NULL.
   Fails if no sweep was timed. */
bool lab_plot(const Record *record, const char *topic, const char *problem, const char *path,
              Error *error);
