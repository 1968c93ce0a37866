/* The functions that the parts of mlp-lab share. Parts that need the CUDA Toolkit are in cuda/. */
#pragma once

#include "emulator/emulator.h"
#include "lab/lab.h"
#include "measure/record.h"

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

/* Return how many elements an array has, and the bytes of an element (0 if the problem does not use
   the array). `array` is an input's index, or -1 for the output. */
int64_t lab_count(const LabTopic *topic, int problem, LabSize size, int array);
int lab_width(const LabTopic *topic, int problem, int array);
/* Returns the minimum bytes that a problem must move. */
double lab_bytes(const LabTopic *topic, int problem, LabSize size);

/* Returns a size as text, for example "4096x1024". */
ShortText lab_size_text(const LabTopic *topic, LabSize size);
/* Reads such a text. If it fails, *error says how to write sizes, or that the size is too large. */
bool lab_parse_size(const LabTopic *topic, const char *text, LabSize *size, Error *error);

/* Returns a size at which the emulator runs a rung in seconds. */
LabSize lab_small_size(const LabTopic *topic);

/* Returns the reason, as one clause, why the rung cannot run this call, or "" if it can. */
ShortText lab_refusal(const LabRung *rung, const LabCall *call);

/* ---- tables (record.c) ---------------------------------------------------------------------- */

/* The words of the column "check". In a file, a row without a word is right. */
#define LAB_UNCHECKED "-" /* the row was not run, or its rung is a LAB_PART */
#define LAB_RIGHT "right"
#define LAB_WRONG "WRONG"
#define LAB_REFUSED "refused"

/* Returns the line of a table for one problem at one size, before any of its rows has run. */
json_t *lab_table(const LabTopic *topic, int problem, LabSize size);

/* Returns true if no row of a table is wrong. */
bool lab_table_good(const json_t *table);

/* ---- arrays (cuda/arrays.c) --------------------------------------------------------------- */

typedef struct {
  bool times;       /* times the rungs whose results are right */
  const char *rung; /* the only rung to run; NULL means all */
  bool last;        /* runs only the last rung and the libraries (for extra sizes) */
  bool guarded;     /* puts guards before and after the arrays */
  uint64_t seed;    /* seed of the inputs */
} LabHow;

/* Copies of an array between guards. All bytes start as 0xFF, a NaN or the integer 4294967295. */
typedef struct {
  uint8_t *start; /* guard, copy, guard, ... guard; NULL if there is no array */
  size_t bytes;   /* bytes of one copy */
} LabBlock;

/* Indices of blocks: inputs, output, pageable copies of inputs and output, and the work array.
   Inputs and output are in pinned host memory if topic->on_host is true, otherwise on the GPU. */
enum { LAB_OUT = LAB_INPUTS, LAB_PAGEABLE, LAB_WORK = 2 * LAB_PAGEABLE, LAB_BLOCKS };

/* The arrays of a problem for all its rungs. */
typedef struct {
  const LabTopic *topic;
  const LabProblem *problem;
  LabCall call; /* the fields that all calls share: problem, size, gpu, streams and event */
  const LabHow *how;
  GpuLimits gpu;
  size_t guard; /* bytes of a guard */
  int copies;
  LabBlock blocks[LAB_BLOCKS];
  void *h_in[LAB_INPUTS], *h_out; /* values of inputs; output that lab_arrays_fetch copied */
  /* Outputs are checked in ranges of `length`; the last may be shorter. Above 4e9 operations and
     2048 outputs, `sampled` is true: the first 64, the last 64 and 64 random ranges are checked. */
  bool sampled;
  int64_t count, ranges, length; /* outputs; ranges; outputs of a range */
  double *expected, *allowed;    /* (ranges, length) */
} LabArrays;

/* Allocates the arrays and fills the inputs. Sets error->too_large if the GPU's memory is too
   small. */
bool lab_arrays_open(LabArrays *arrays, const LabTopic *topic, int problem, LabSize size,
                     const LabHow *how, Error *error);
void lab_arrays_close(LabArrays *arrays); /* call it even after lab_arrays_open failed */

/* Returns a call of the rung on copy `copy` of the arrays. */
LabCall lab_arrays_call(const LabArrays *arrays, const LabRung *rung, int64_t point, int copy);

/* Poisons the first copy of the output, and the work array. */
bool lab_arrays_poison(const LabArrays *arrays, Error *error);
/* Copies the output to h_out. *outside is NULL, or a clause if the rung wrote anything else. */
bool lab_arrays_fetch(const LabArrays *arrays, const LabRung *rung, const char **outside,
                      Error *error);

/* ---- running (cuda/run.c) -------------------------------------------------------------------- */

/* A row of a table: a rung at a point, and the line of its results. */
typedef struct {
  const LabRung *rung;
  int64_t point;
  json_t *line;
} LabRow;

/* run.c calls these functions. For a GPU they are in cuda/gpu.c. For the emulator there is
   only lab_watch, in emulated/counts.c, and the other functions are NULL. */

/* Starts or ends the watch of a call that is not timed. Returns "" or, on error, a clause. */
ShortText lab_watch(const LabArrays *arrays, const LabRow *row, bool starts);
/* Adds the kernel's registers and its blocks per multiprocessor to the row. */
cudaError_t lab_add_occupancy(const LabRow *row, const LabRecord *record) LAB_CUDA;
/* Times a row. `once` is a first estimate: the seconds of the run that was checked. */
bool lab_time(const LabArrays *arrays, const LabRow *row, double once, Error *error) LAB_CUDA;

/* Runs a table's rungs. Sets its "reason" if the size is refused. Fails if the GPU fails. */
bool lab_measure(json_t *table, const LabTopic *topic, int problem, LabSize size, const LabHow *how,
                 Error *error) LAB_CUDA;

/* Starts the GPU (measure/cuda/rung.h). */
bool gpu_start(Error *error) LAB_CUDA;
/* Adds the GPU to the record and, if `rates` is true, measures its ceilings. */
bool lab_machine(Record *record, bool rates, Error *error) LAB_CUDA;

/* ---- lines (record.c) ----------------------------------------------------------------------- */

/* Adds the line of a topic: its description and its rungs. */
void lab_add_topic(Record *record, const LabTopic *topic);
/* Adds a table after its topic and ceiling. Its rows get further fields in memory only. */
void lab_add_table(Record *record, json_t *table);
/* Adds all topics and the tables of all their problems, without results. */
void lab_add_all(Record *record);
/* Adds the lines of a file that mlp-lab wrote. Needs neither a GPU nor the toolkit. */
bool lab_read(Record *record, const char *path, Error *error);

const json_t *lab_topic_line(const Record *record, const char *topic);

/* Loops over a topic's problems, with the first table of each problem. */
#define foreach_problem(TABLE, RECORD, TOPIC)                                                      \
  foreach_of (TABLE, RECORD, "table", "topic", TOPIC)                                              \
    if (TABLE == record_find(RECORD, "table", "topic", TOPIC, "problem", text_of(TABLE, "problem")))

/* Returns the line of the ceiling for a topic's rates, or NULL. */
const json_t *lab_ceiling(const Record *record, const json_t *topic);

/* ---- reports (report.c) --------------------------------------------------------------------- */

/* Prints the ladder of one topic and problem, then the other sizes. Prints a rung's lesson below
   the topic's first ladder that has the rung. */
void lab_print(const Record *record, const char *topic, const char *problem, bool markdown);
