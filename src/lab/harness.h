/* The parts of mlp-lab: what it does with the topics of kernels/lab/lab.h. What needs the CUDA
   Toolkit is in cuda/; sizes, checks, reports and what was recorded do without. */
#pragma once

#include "base/stats.h"
#include "emulator/emulator.h"
#include "lab/lab.h"
#include "measure/table.h"

/* Functions of src/lab/cuda. A program that was built without CUDA lacks them: NULL. */
#define LAB_CUDA __attribute__((weak))

/* ---- topics and sizes (sizes.c) --------------------------------------------------------- */

/* Returns the topic of that name, or NULL if there is none. */
const LabTopic *lab_find(const char *name);

/* Returns how many dimensions the topic's sizes have: the words of topic->dims. */
int lab_dims(const LabTopic *topic);

#define foreach_rung(RUNG, TOPIC)                                                                  \
  for (const LabRung *RUNG = (TOPIC)->rungs; RUNG < (TOPIC)->rungs + (TOPIC)->rung_count; RUNG++)

/* Returns true if the rung belongs to the ladder of that problem. */
bool lab_belongs(const LabRung *rung, int problem);

/* Return the elements of input `array` of a problem, or of its output (-1), and the bytes of an
   element, which are 0 if there is no such array. */
int64_t lab_count(const LabTopic *topic, int problem, LabSize size, int array);
int lab_width(const LabTopic *topic, int problem, int array);
/* Returns the bytes that a problem must at least move. */
double lab_bytes(const LabTopic *topic, int problem, LabSize size);

/* Returns a size as text: "4096x1024". */
ShortText lab_size_text(const LabTopic *topic, LabSize size);
/* Reads such a text. Returns false if it is not written as the topic's sizes are. */
bool lab_read_size(const LabTopic *topic, const char *text, LabSize *size);
/* Reads --size. *error says how the topic's sizes are written, or that memory has no such size. */
bool lab_parse_size(const LabTopic *topic, const char *text, LabSize *size, Error *error);

/* Returns a size that the emulator runs in seconds. */
LabSize lab_small_size(const LabTopic *topic);

/* Returns why the rung cannot serve a call of that problem, size and GPU, as one clause; "" if it
   can. */
ShortText lab_refusal(const LabRung *rung, const LabCall *call);

/* ---- rows of a table (sizes.c) ------------------------------------------------------------ */

typedef enum {
  LAB_UNCHECKED, /* it was not run, is a part, or was only profiled */
  LAB_RIGHT,
  LAB_WRONG,
  LAB_CAUGHT, /* a mistake that was found wrong, as it should be */
  LAB_MISSED, /* a mistake that the check took for right: the lesson failed */
  LAB_REFUSED,
} LabOutcome;

/* The words for LabKind and LabOutcome in tables and in records. */
enum { LAB_KINDS = LAB_MISTAKE + 1, LAB_OUTCOMES = LAB_REFUSED + 1 };
extern const char *const lab_kinds[LAB_KINDS];
extern const char *const lab_outcomes[LAB_OUTCOMES];

/* How many blocks of a kernel a multiprocessor holds at once. */
typedef struct {
  int blocks;        /* 0 if they are not known, as of a library */
  const char *limit; /* what keeps it from holding more: "registers", "shared", ... */
  int registers;     /* per thread */
  size_t local;      /* bytes per thread that have no room in registers */
  size_t shared;     /* bytes per block, static and dynamic */
  int threads;       /* per block */
} LabOccupancy;

/* A rung at one of its points. */
typedef struct {
  const LabRung *rung;
  int64_t point;
  LabOutcome outcome;
  char note[256]; /* one clause that says what is wrong or why it is refused; else "" */
  double ulp;     /* NAN if it was not checked */
  Stats seconds;  /* NAN if it was not timed */
  double predicted, counted, measured; /* the lesson's columns; NAN if there is no value */
  LabOccupancy occupancy;
  EmulatorCounts counts; /* of all its launches; without sectors it did not run on the emulator */
} LabRow;

enum { LAB_ROWS = 128 }; /* of a table, at most */

/* The ladder of one problem at one size. */
typedef struct {
  const LabTopic *topic;
  int problem;
  LabSize size;
  bool extra; /* the size is not the first one: only the last rung and the libraries run */
  LabRow rows[LAB_ROWS];
  int count;
  char reason[256]; /* one sentence that says why there are no rows; else "" */
} LabTable;

/* Returns a table with a row for every rung of the problem and point; none of them has run. */
LabTable lab_table(const LabTopic *topic, int problem, LabSize size, bool extra);

/* Returns true if everything in the table is there and right. */
bool lab_table_good(const LabTable *table);

/* ---- arrays (cuda/arrays.c) --------------------------------------------------------------- */

typedef enum { LAB_TIMES, LAB_CHECKS, LAB_PROFILE } LabMode;

typedef struct {
  LabMode mode;     /* LAB_PROFILE runs each rung once and checks nothing */
  const char *rung; /* the only one to run; NULL means all */
  bool guarded;     /* the arrays lie between guards */
  uint64_t seed;    /* of the inputs */
} LabHow;

/* An array in several copies between guards, all of it poisoned with 0xFF (NaN or -1). */
typedef struct {
  uint8_t
      *start; /* guard bytes, a copy, guard bytes, a copy, guard bytes ...; NULL if there is none */
  size_t bytes; /* of a copy */
} LabBlock;

/* The blocks are the inputs and the output, in pinned memory if topic->on_host, else on the GPU;
   the same in pageable memory, if a rung wants them there; then the work, always on the GPU. */
enum { LAB_OUT = LAB_INPUTS, LAB_PAGEABLE, LAB_WORK = 2 * LAB_PAGEABLE, LAB_BLOCKS };
enum { LAB_GUARD = 1024 }; /* bytes */

/* The arrays of a problem, while its rungs run. */
typedef struct {
  const LabTopic *topic;
  LabCall call; /* what all calls have in common: problem, size, gpu, streams and event */
  const LabHow *how;
  GpuLimits gpu;
  size_t guard; /* bytes: 0 or LAB_GUARD */
  int copies;
  LabBlock blocks[LAB_BLOCKS];
  void *h_in[LAB_INPUTS], *h_out; /* the inputs' values; the output that lab_arrays_fetch copied */
  /* Every element is checked if the problem has at most 4e9 operations or 2048 outputs. Otherwise
     the first 64, the last 64 and 64 times 64 others are. They lie in ranges of `length` elements,
     of which the last may be shorter. */
  bool sampled;
  int64_t count, ranges, length; /* count: elements of the output */
  double *expected, *allowed;    /* (ranges, length) */
} LabArrays;

/* Makes room that is large enough for every rung, and fills the inputs. For times there are so many
   copies, if memory allows, that they do not fit the cache. Returns false with error->too_large if
   the GPU has not enough memory. */
bool lab_arrays_open(LabArrays *arrays, const LabTable *table, const LabHow *how, Error *error);
void lab_arrays_close(LabArrays *arrays); /* whatever lab_arrays_open returned */

/* Returns a call of the row on copy `copy` of the arrays. */
LabCall lab_arrays_call(const LabArrays *arrays, const LabRow *row, int copy);

/* Poisons the first copy of the output, and the work. */
bool lab_arrays_poison(const LabArrays *arrays, Error *error);
/* Copies the rung's output to h_out. Sets *outside, to one clause or NULL, if something was written
   that is not the rung's to write. */
bool lab_arrays_fetch(const LabArrays *arrays, const LabRung *rung, const char **outside,
                      Error *error);

/* ---- checking (check.c) ----------------------------------------------------------------- */

/* Fills in the expected output, by the topic, problem, size and h_in. lab_arrays_close frees it. */
bool lab_expect(LabArrays *arrays, Error *error);

typedef struct {
  bool right;
  int64_t index; /* the first wrong element */
  double expected, got, allowed;
  double ulp; /* the largest error of a float32 output, in units in the last place */
} LabVerdict;

/* Compares h_out with what is expected, at rung->allowed where the rung has that. */
LabVerdict lab_check(const LabArrays *arrays, const LabRung *rung);

/* ---- running (cuda/run.c) -------------------------------------------------------------------- */

/* run.c asks these of a GPU (cuda/times.c) or of the emulator (emulated/counts.c). lab_watch is
   called before and after a call that is not timed; afterwards it sets row->note if something was
   found wrong. lab_time times a row; `once` is the seconds of the run that was checked. */
void lab_watch(const LabArrays *arrays, LabRow *row, bool starts);
cudaError_t lab_find_occupancy(const LabRecord *record, LabOccupancy *occupancy);
bool lab_time(const LabArrays *arrays, LabRow *row, double once, Error *error);

/* Returns the name of what keeps a multiprocessor from holding more blocks of the kernel; among
   equals it is threads. */
struct cudaDeviceProp;
const char *lab_limit(const struct cudaDeviceProp *gpu, const LabOccupancy *kernel);

/* Runs the rungs of a table that lab_table made and removes the rows that are not wanted. Wrong
   results are in the rows. Returns false if the GPU failed for good or memory is short. */
bool lab_measure(LabTable *table, const LabHow *how, Error *error) LAB_CUDA;

/* ---- lines (record.c) ----------------------------------------------------------------------- */

/* Adds what is known of a topic before it is run: itself and its rungs. */
void lab_add_topic(Record *record, const LabTopic *topic);
/* Adds a table and its rows. The ceilings and the topic come before it. */
void lab_add_table(Record *record, const LabTable *table);
/* Adds all topics and the tables of all their problems, without results. */
void lab_add_all(Record *record);

/* Adds the lines of a file that mlp-lab has written. Needs neither GPU nor toolkit. A row in memory
   has more than its line: kind and lesson of its rung, rates, and comparisons with other rows. */
bool lab_read(Record *record, const char *path, Error *error);

const json_t *lab_topic_line(const Record *record, const char *topic);
/* Returns the line of the ceiling that a topic's rates are compared with, or NULL if it was not
   measured. */
const json_t *lab_ceiling(const Record *record, const json_t *topic);

enum { LAB_PROBLEMS = 16 };
/* Sets the problems of a topic that the record has tables of, in their order; returns how many. */
int lab_problems(const Record *record, const char *topic, const char *problems[LAB_PROBLEMS]);

/* ---- reports (report.c, plot.c) ------------------------------------------------------------- */

/* The tables of one topic and problem. The first one's size is that of the ladder. */
typedef struct {
  const Record *record;
  const json_t *topic, *ceiling, *table; /* table: the first one, NULL if there is none */
  const char *problem;
  Lines rows, others, tables; /* of the ladder, of the other sizes, all tables */
} LabLadder;

LabLadder lab_ladder_open(const Record *record, const char *topic, const char *problem);
void lab_ladder_close(LabLadder *ladder);

/* Prints the ladder of one topic and problem with its lessons, then the other sizes. */
void lab_print(const Record *record, const char *topic, const char *problem, FILE *file,
               bool markdown);

/* Draws a topic, or only one problem of it unless that is NULL, as a PNG: curves if rungs have
   points, else dots. */
bool lab_plot(const Record *record, const char *topic, const char *only, const char *path,
              Error *error);

/* ---- the device (cuda/device.c, emulated/counts.c) ------------------------------------------- */

/* Starts the GPU. */
bool lab_start(Error *error) LAB_CUDA;
/* Describes the GPU in the record; measures its ceilings, if rates are wanted. */
bool lab_machine(Record *record, const char *command, const char *sources, bool rates,
                 Error *error) LAB_CUDA;
/* Prints what `mlp-lab device` shows. */
bool lab_device(Error *error) LAB_CUDA;
