/* A record of measurements: one JSON object a line, each with its kind under "case". Programs add
   lines while they measure, and print tables and draw charts from lines alone, so that both can be
   made again without a GPU.

   Kinds of mlp-bench and scripts/compare_peers.py; "bound" says how many times faster the whole
   gets if the part takes no time at all (Amdahl, 1967):

     machine  name: network and data; driver, cores, date, command
     peers    name: the versions of the peers; command
     epoch    fusion or peer, batch, precision, and the times of an epoch; or the reason why not
     many     networks that train at once, fusion or peer; ms_per_epoch is a network's share
     wide     the same of a wide network; name: its hidden layers
     ceiling  name, value, unit: what the GPU can do at most
     floor    batch, precision, value: what an epoch takes at least, ms
     kernel   name, batch, value: one kernel of a step at level layer, us; share of the step, bound
     run      name, value: a part of a whole run of mlp-train, ms; its share, bound
     alone    name, value: the same work with nothing beside it, ms

   Kinds of mlp-lab: lab-machine, lab-topic, lab-rung, lab-problem, and lab for a rung at a point.
   Lines of scripts/scaling.sh have no kind: who, network, precision, batch, ranks, rows, ms. */
#pragma once

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

/* Where something was measured, and when. */
typedef struct {
  char name[128];  /* of the GPU */
  char driver[64]; /* "580.95.05, CUDA 13.0": the driver, and the CUDA version that it serves */
  char date[32];   /* today */
} GpuMachine;

typedef struct {
  json_t *lines;       /* array of objects; NULL: none */
  FILE *file;          /* where each line is written when it is added; NULL: nowhere */
  const char *path;    /* of that file, the caller's */
  GpuMachine machine;  /* its name is in every measured line */
  const char *sources; /* digest of the sources, of every measured line; NULL: not known */
  bool failed;         /* a line is missing, here or in the file */
  Error failure;       /* why the first one is */
} Record;

/* ---- lines ---------------------------------------------------------------------------------- */

json_t *record_line(const char *kind);
/* Set a key of a line. Without a text (NULL) or a finite number they leave it out. */
void record_text(json_t *line, const char *key, const char *text);
void record_number(json_t *line, const char *key, double value);

/* "" where the line has no such text. */
const char *text_of(const json_t *line, const char *key);
/* NAN where the line has no such number; true is 1. */
double number_of(const json_t *line, const char *key);
bool text_is(const json_t *line, const char *key, const char *text);
/* Both lines have the same text or number, or neither has one. */
bool line_same(const json_t *a, const json_t *b, const char *key);
bool line_is(const json_t *line, const char *kind);

/* ---- records -------------------------------------------------------------------------------- */

/* Makes a file for the lines that will be added. */
bool record_create(Record *record, const char *path, Error *error);
/* Takes the line and writes it to the file. measured: it gets the record's GPU and sources. As with
   a stream, what failed is asked for later. */
void record_add(Record *record, json_t *line, bool measured);
/* False if a line could not be added. */
bool record_good(const Record *record, Error *error);

/* Says why a line is none of the program's, one clause. */
typedef bool RecordCheck(const Record *record, json_t *line, Error *error);
/* Adds the lines of a file that `program` has written. check: called for each, with those before it
   in the record; NULL: all are taken. */
bool record_read(Record *record, const char *path, const char *program, RecordCheck *check,
                 Error *error);
/* Closes the file, frees the lines. Returns good, or false if anything was not written. */
bool record_close(Record *record, bool good, Error *error);

/* ---- choosing lines ------------------------------------------------------------------------- */

/* Returns the next line of that kind from *at on, which moves behind it; NULL: there is none.
   pairs: keys and the texts that the line must have there, NULL: any text; NULL behind the last. */
const json_t *record_next(const Record *record, size_t *at, const char *kind,
                          const char *const *pairs);

#define RECORD_PAIRS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The first such line; the first of that kind. NULL: there is none. */
#define record_find(RECORD, KIND, ...)                                                             \
  record_next(RECORD, &(size_t){0}, KIND, RECORD_PAIRS(__VA_ARGS__))
const json_t *record_first(const Record *record, const char *kind);

/* Walks over such lines. */
#define foreach_of(LINE, RECORD, KIND, ...)                                                        \
  for (size_t LINE##_at = 0; LINE##_at < SIZE_MAX; LINE##_at = SIZE_MAX)                           \
    for (const json_t *LINE;                                                                       \
         (LINE = record_next(RECORD, &LINE##_at, KIND, RECORD_PAIRS(__VA_ARGS__)));)

/* Lines in an order of their own. */
typedef struct {
  const json_t **of;
  int count;
} Lines;

#define foreach_line(LINE, LINES)                                                                  \
  for (const json_t **LINE = (LINES)->of; LINE < (LINES)->of + (LINES)->count; LINE++)

/* Room for all lines of the record, without one yet. Free `of`. */
Lines lines_open(const Record *record);
void lines_add(Lines *lines, const json_t *line);
/* The lines of a kind that have no reason to be missing. */
Lines lines_of(const Record *record, const char *kind);
/* Sets the numbers above `above` that lines have of a key, ascending and each once; returns how
   many, at most `most`. */
int lines_values(const Lines *lines, const char *key, double above, double *values, int most);

/* ---- text files ----------------------------------------------------------------------------- */

/* Creates a file; path NULL: none, and *file is NULL. */
bool file_create(const char *path, FILE **file, Error *error);
/* Closes it unless it is NULL. Returns good, or false if it cannot be written. */
bool file_close(const char *path, FILE *file, bool good, Error *error);
