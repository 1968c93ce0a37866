/* The parts of mlp-lab: what it does with the topics of kernels/lab/lab.h. What needs the CUDA
   Toolkit is in cuda/; sizes, checks, reports and what was recorded do without. */
#ifndef LAB_HARNESS_H
#define LAB_HARNESS_H

#include "base/error.h"
#include "base/stats.h"
#include "lab/lab.h"
#include "measure/record.h"

/* ---- topics and sizes (sizes.c) --------------------------------------------------------- */

/* The topic of that name, NULL if there is none. topics: lab_topics, or those of a record. */
const LabTopic *lab_find(const LabTopic *const *topics, const char *name);

/* How many sizes the topic has: the words of topic->dims. */
int lab_dims(const LabTopic *topic);

/* The rung is one of the ladder of that problem. */
bool lab_belongs(const LabRung *rung, int problem);

typedef struct {
  char text[72];
} LabText;

/* "4096x1024" */
LabText lab_size_text(const LabTopic *topic, LabSize size);
/* The reverse; false if it is not written as the topic's sizes are. */
bool lab_read_size(const LabTopic *topic, const char *text, LabSize *size);
/* Reads --size. *error says how the topic's sizes are written, or that memory has no such size. */
bool lab_parse_size(const LabTopic *topic, const char *text, LabSize *size, Error *error);

/* ---- checking (check.c) ----------------------------------------------------------------- */

/* The expected output at the elements that are checked: all of them where the problem has at
   most 4e9 operations or 65536 outputs, else the first 64, the last 64 and 64 times 64 others. */
typedef struct {
  const LabTopic *topic;
  int problem;
  LabSize size;
  const void *h_in[LAB_INPUTS];
  int64_t *first;             /* (ranges + 1): a range's first element; behind the last: the end */
  int64_t length;             /* of a range; the last may be shorter */
  int64_t ranges, count;      /* count: of the output */
  double *expected, *allowed; /* (ranges, length) */
} LabReference;

/* h_in must outlive it. */
bool lab_reference_open(LabReference *reference, const LabTopic *topic, int problem, LabSize size,
                        const void *const h_in[LAB_INPUTS], Error *error);
void lab_reference_close(LabReference *reference); /* one of zeros is allowed */

typedef struct {
  bool right;
  int64_t index; /* the first wrong element */
  double expected, got, allowed;
  double ulp; /* the largest error of a float32 output, in units in the last place */
} LabVerdict;

/* Compares the whole output h_out with the reference, at rung->allowed where the rung has that. */
bool lab_check(const LabReference *reference, const LabRung *rung, const void *h_out,
               LabVerdict *verdict, Error *error);

/* ---- what a GPU cannot do (cuda/refusal.c) --------------------------------------------------- */

typedef struct {
  char text[256];
} LabNote;

/* Says why the rung cannot serve that problem and size on a GPU of these limits: one clause, "" if
   it can. */
LabNote lab_refusal(const LabRung *rung, const GpuLimits *gpu, int problem, LabSize size);

/* ---- arrays (cuda/arrays.c) --------------------------------------------------------------- */

/* An array in several copies between guards, all of it poisoned with 0xFF (NaN or -1). */
typedef struct {
  uint8_t *start; /* guard bytes, a copy, guard bytes, a copy, guard bytes ...; NULL: none */
  size_t bytes;   /* of a copy */
  bool on_host, pageable;
} LabBlock;

enum { LAB_PINNED, LAB_PAGEABLE, LAB_PLACES };

/* The arrays of a problem. */
typedef struct {
  const LabTopic *topic;
  int problem;
  LabSize size;
  GpuLimits gpu;
  size_t guard; /* bytes, 0 or a multiple of 256 */
  int copies;
  LabBlock in[LAB_PLACES][LAB_INPUTS], out[LAB_PLACES]; /* LAB_PAGEABLE for on_host alone */
  LabBlock work;
  void *h_in[LAB_INPUTS], *h_out; /* what was filled in; where lab_arrays_fetch puts the output */
} LabArrays;

/* Room that is large enough for every rung, with inputs from `seed`. rotated: in so many copies,
   if there is memory, that they do not fit the cache. Returns false with *fits set to false if
   there is not enough memory on the GPU. */
bool lab_arrays_open(LabArrays *arrays, const LabTopic *topic, int problem, LabSize size,
                     size_t guard, bool rotated, uint64_t seed, bool *fits, Error *error);
void lab_arrays_close(LabArrays *arrays); /* one of zeros is allowed */

/* Copy `copy` of the block; NULL if there is no block. */
void *lab_block_copy(const LabArrays *arrays, const LabBlock *block, int copy);

/* Poisons the first copy of the output, and the work. */
bool lab_arrays_poison(const LabArrays *arrays, const LabRung *rung, Error *error);
/* Copies that output to h_out. Sets *outside, to one clause or NULL, if something was written that
   is not the rung's to write. */
bool lab_arrays_fetch(const LabArrays *arrays, const LabRung *rung, const char **outside,
                      Error *error);

/* ---- running (cuda/run.c) -------------------------------------------------------------------- */

typedef enum {
  LAB_UNCHECKED, /* a part, or a rung that was only profiled */
  LAB_RIGHT,
  LAB_WRONG,
  LAB_CAUGHT, /* a mistake that was found wrong, as it should be */
  LAB_MISSED, /* a mistake that turned out right: the lesson failed */
  LAB_REFUSED,
} LabOutcome;

/* Their words, by LabKind and LabOutcome, in tables and in records. sizes.c */
enum { LAB_KINDS = LAB_MISTAKE + 1, LAB_OUTCOMES = LAB_REFUSED + 1 };
extern const char *const lab_kinds[LAB_KINDS];
extern const char *const lab_outcomes[LAB_OUTCOMES];

/* How many blocks of a kernel a multiprocessor holds at once. */
typedef struct {
  int blocks;        /* 0: not known, a library's */
  const char *limit; /* what keeps it from holding more: "registers", "shared", ... */
  int registers;     /* a thread */
  size_t shared;     /* bytes a block, static and dynamic */
  int threads;       /* a block */
} LabOccupancy;

/* The resources of a multiprocessor. */
typedef struct {
  int threads, blocks, registers;
  size_t shared, reserved; /* bytes; reserved: of every block for the system */
} LabLimits;

/* The scarcest of what a kernel needs; threads first among equals. */
const char *lab_limit(const LabLimits *limits, const LabOccupancy *kernel);

/* A rung at one of its points. */
typedef struct {
  const LabRung *rung;
  int number; /* of the rung in the topic, from 1 */
  int64_t point;
  LabOutcome outcome;
  char note[256];             /* what is wrong, or why it is refused: one clause, else "" */
  double ulp;                 /* NAN: not checked */
  Stats seconds;              /* NAN: not timed */
  int samples;                /* that it is the median of */
  double predicted, measured; /* of the lesson's columns, NAN: nothing */
  LabOccupancy occupancy;
} LabRow;

/* The ladder of one problem at one size. */
typedef struct {
  const LabTopic *topic;
  int problem;
  LabSize size;
  bool extra;               /* one of topic->sizes: the last rung and the libraries alone */
  double bytes, operations; /* as LabProblem has them, at this size */
  LabRow *rows;
  int count;
  char reason[256]; /* why there are no rows: one sentence, else "" */
} LabTable;

typedef enum { LAB_TIMES, LAB_CHECKS, LAB_PROFILE } LabMode;

typedef struct {
  LabMode mode;     /* LAB_PROFILE: runs each rung once and checks nothing */
  const char *rung; /* this one alone, NULL: all */
  size_t guard;     /* as LabArrays has it */
  uint64_t seed;
} LabHow;

/* One without rows (sizes.c). */
LabTable lab_table(const LabTopic *topic, int problem, LabSize size, bool extra);

/* Runs the rungs and fills *table, which the caller closes in any case. Wrong results are in the
   rows; false: the GPU failed for good, or memory is short. */
bool lab_measure(LabTable *table, const LabTopic *topic, int problem, LabSize size, bool extra,
                 const LabHow *how, Error *error);
void lab_table_close(LabTable *table);

/* Nothing in the table is wrong or missing. */
bool lab_table_good(const LabTable *table);

/* ---- lines (report.c) ----------------------------------------------------------------------- */

/* Adds what is known of a topic before it is run: itself and its rungs. */
bool lab_add_topic(Record *record, const LabTopic *topic, Error *error);
/* Adds a table and its rows, behind the machine and the topic. */
bool lab_add_table(Record *record, const LabTable *table, Error *error);

/* Adds the lines of a file that mlp-lab has written. Needs neither GPU nor toolkit. replay.c */
bool lab_read(Record *record, const char *path, Error *error);

enum { LAB_PROBLEMS = 16 };
/* The problems of a topic that the record has results of, in their order; returns their number.
   replay.c */
int lab_problems(const Record *record, const char *topic, const char *problems[LAB_PROBLEMS]);

/* ---- reports (report.c, plot.c) ------------------------------------------------------------- */

/* The lines of one topic and problem. The first size is that of the ladder. */
typedef struct {
  const json_t *machine, *topic, *table; /* lab-machine, lab-topic, lab-problem of the ladder */
  const char *problem, *size;            /* size NULL: there is nothing */
  const char *reason;                    /* why there is no ladder, NULL: there is one */
  Lines rungs, rows, others;             /* of the topic; of the ladder; of the other sizes */
} LabLadder;

LabLadder lab_ladder_open(const Record *record, const char *topic, const char *problem);
void lab_ladder_close(LabLadder *ladder);

int lab_rung_number(const LabLadder *ladder, const json_t *row); /* in the topic, from 1 */
bool lab_is_sweep(const LabLadder *ladder, const json_t *row);
const char *lab_kind(const LabLadder *ladder, const json_t *row);

/* The rate that those of a topic are compared with, NAN: not measured. */
typedef struct {
  const char *name; /* "copy on the GPU, read + write" */
  const char *unit; /* "GB/s" */
  double value;     /* in that unit */
} LabCeiling;

LabCeiling lab_ceiling(const json_t *machine, const json_t *topic);

/* The heading of a document, for Markdown; one line of text else. */
void lab_print_machine(const Record *record, FILE *file, bool markdown);
/* The ladder of one topic and problem with its lessons, then the other sizes. */
void lab_print(const Record *record, const char *topic, const char *problem, FILE *file,
               bool markdown);

/* A PNG of one topic, or of one problem only (NULL: all): curves where rungs have points, else
   dots. */
bool lab_plot(const Record *record, const char *topic, const char *only, const char *path,
              Error *error);

/* ---- the device (cuda/device.c) -------------------------------------------------------------- */

/* A GPU is there and a context on it. */
bool lab_start(Error *error);
/* Describes the GPU in a line of the record; measures its rates, if they are wanted. */
bool lab_machine(Record *record, const char *command, bool rates, Error *error);
/* `mlp-lab device` */
bool lab_device(FILE *file, Error *error);

#endif
