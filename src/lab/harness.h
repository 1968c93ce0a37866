/* The parts of mlp-lab. The parts that need the CUDA Toolkit are in cuda/. */
#pragma once

#include "base/stats.h"
#include "emulator/emulator.h"
#include "lab/lab.h"
#include "measure/record.h"

/* Functions of src/lab/cuda. They are NULL in a program that was built without CUDA. */
#define LAB_CUDA __attribute__((weak))

/* ---- topics and sizes (record.c) --------------------------------------------------------- */

/* Returns the topic of that name, or NULL if there is none. */
const LabTopic *lab_find(const char *name);

/* Returns how many dimensions the topic's sizes have: the words of topic->dims. */
int lab_dims(const LabTopic *topic);

#define foreach_rung(RUNG, TOPIC)                                                                  \
  for (const LabRung *RUNG = (TOPIC)->rungs; RUNG < (TOPIC)->rungs + (TOPIC)->rung_count; RUNG++)

/* Returns true if the rung belongs to the ladder of that problem. */
bool lab_belongs(const LabRung *rung, int problem);

/* Return the elements of an input, or of the output (-1), and an element's bytes, or 0. */
int64_t lab_count(const LabTopic *topic, int problem, LabSize size, int array);
int lab_width(const LabTopic *topic, int problem, int array);
/* Returns the bytes that a problem must at least move. */
double lab_bytes(const LabTopic *topic, int problem, LabSize size);

/* Returns a size as text: "4096x1024". */
ShortText lab_size_text(const LabTopic *topic, LabSize size);
/* Reads such a text. *error says how the topic's sizes are written, or that memory cannot hold this
   size. */
bool lab_parse_size(const LabTopic *topic, const char *text, LabSize *size, Error *error);

/* Returns a size that the emulator runs in seconds. */
LabSize lab_small_size(const LabTopic *topic);

/* Returns the reason, as one clause, why the rung cannot serve a call, or "" if it can. */
ShortText lab_refusal(const LabRung *rung, const LabCall *call);

/* ---- tables (record.c) ---------------------------------------------------------------------- */

/* The words of the column "check". In a file, a row without one is right. */
#define LAB_UNCHECKED "-" /* the row was not run, or its rung is a LAB_PART */
#define LAB_RIGHT "right"
#define LAB_WRONG "WRONG"
#define LAB_REFUSED "refused"

/* Returns the line of a table for one problem at one size. None of its rows has run yet. */
json_t *lab_table(const LabTopic *topic, int problem, LabSize size);

/* Returns true if no row of a table is wrong. */
bool lab_table_good(const json_t *table);

/* ---- arrays (cuda/arrays.c) --------------------------------------------------------------- */

typedef struct {
  bool times;       /* time the rungs that are right */
  const char *rung; /* the only rung to run; NULL means all */
  bool last;        /* run only the last rung and the libraries, as is done at extra sizes */
  bool guarded;     /* the arrays lie between guards */
  uint64_t seed;    /* of the inputs */
} LabHow;

/* An array in several copies between guards. All of it is poisoned with 0xFF, which is NaN or
   -1. */
typedef struct {
  uint8_t *start; /* guard, copy, guard, copy, ... guard; NULL if there is none */
  size_t bytes;   /* of a copy */
} LabBlock;

/* Inputs and output, pinned if topic->on_host, else on the GPU; their pageable copies; the work
   array. */
enum { LAB_OUT = LAB_INPUTS, LAB_PAGEABLE, LAB_WORK = 2 * LAB_PAGEABLE, LAB_BLOCKS };

/* The arrays of a problem, while its rungs run. */
typedef struct {
  const LabTopic *topic;
  const LabProblem *problem;
  LabCall call; /* the fields that all calls share: problem, size, gpu, streams and event */
  const LabHow *how;
  GpuLimits gpu;
  size_t guard; /* bytes */
  int copies;
  LabBlock blocks[LAB_BLOCKS];
  void *h_in[LAB_INPUTS], *h_out; /* the inputs' values; the output that lab_arrays_fetch copied */
  /* If the problem has more than 4e9 operations and 2048 outputs, only some outputs are checked:
     the first 64, the last 64 and 64 times 64 others, as ranges of `length` elements. The last
     range may be shorter. */
  bool sampled;
  int64_t count, ranges, length; /* count: elements of the output */
  double *expected, *allowed;    /* (ranges, length) */
} LabArrays;

/* Allocates memory for every rung and fills the inputs. Sets error->too_large if the GPU has too
   little. */
bool lab_arrays_open(LabArrays *arrays, const LabTopic *topic, int problem, LabSize size,
                     const LabHow *how, Error *error);
void lab_arrays_close(LabArrays *arrays); /* call it even if lab_arrays_open failed */

/* Returns a call of the rung on copy `copy` of the arrays. */
LabCall lab_arrays_call(const LabArrays *arrays, const LabRung *rung, int64_t point, int copy);

/* Poisons the first copy of the output, and the work. */
bool lab_arrays_poison(const LabArrays *arrays, Error *error);
/* Copies the output to h_out. *outside is a clause if anything else was written, or else NULL. */
bool lab_arrays_fetch(const LabArrays *arrays, const LabRung *rung, const char **outside,
                      Error *error);

/* ---- running (cuda/run.c) -------------------------------------------------------------------- */

/* A row of a table, while it runs. */
typedef struct {
  const LabRung *rung;
  int64_t point;
  json_t *line;
} LabRow;

/* run.c calls these, for a GPU (cuda/gpu.c) or for the emulator (emulated/counts.c). The emulator
   lacks the last two, which are then NULL. */

/* Called before and after a call that is not timed. Returns what is wrong, or "". */
ShortText lab_watch(const LabArrays *arrays, const LabRow *row, bool starts);
/* Adds to the row how many blocks of a kernel a multiprocessor holds. */
cudaError_t lab_add_occupancy(const LabRow *row, const LabRecord *record) LAB_CUDA;
/* Times a row. `once`, the seconds of the run that was checked, is a first guess. */
bool lab_time(const LabArrays *arrays, const LabRow *row, double once, Error *error) LAB_CUDA;

/* Runs the rungs of a table. If a size is refused, the table has the "reason". Returns false if the
   GPU failed. */
bool lab_measure(json_t *table, const LabTopic *topic, int problem, LabSize size, const LabHow *how,
                 Error *error) LAB_CUDA;

/* Starts the GPU (measure/cuda/rung.h). */
bool gpu_start(Error *error) LAB_CUDA;
/* Describes the GPU in the record; measures its ceilings, if rates are wanted. */
bool lab_machine(Record *record, bool rates, Error *error) LAB_CUDA;

/* ---- lines (record.c) ----------------------------------------------------------------------- */

/* Adds what is known of a topic before it runs: the topic and its rungs. */
void lab_add_topic(Record *record, const LabTopic *topic);
/* Adds a table, after the ceilings and its topic. Its rows have more fields in memory than in a
   file. */
void lab_add_table(Record *record, json_t *table);
/* Adds all topics and the tables of all their problems, without results. */
void lab_add_all(Record *record);
/* Adds the lines of a file that mlp-lab has written. Needs neither GPU nor toolkit. */
bool lab_read(Record *record, const char *path, Error *error);

const json_t *lab_topic_line(const Record *record, const char *topic);

/* Loops over the tables of a topic, taking the first table of each problem. */
#define foreach_problem(TABLE, RECORD, TOPIC)                                                      \
  foreach_of (TABLE, RECORD, "table", "topic", TOPIC)                                              \
    if (TABLE == record_find(RECORD, "table", "topic", TOPIC, "problem", text_of(TABLE, "problem")))

/* Returns the line of the ceiling that a topic's rates are compared with, or NULL. */
const json_t *lab_ceiling(const Record *record, const json_t *topic);

/* ---- reports (report.c) -------------------------------------------------------------------------
 */

/* Prints the ladder of one topic and problem, then the other sizes. A rung's lesson stands below
   the topic's first ladder with that rung. */
void lab_print(const Record *record, const char *topic, const char *problem, FILE *file,
               bool markdown);
