/* Traces: what the host and the GPU did when, at every level of fusion.

   A trace is saved as the JSON object of Chrome's Trace Event Format, which ui.perfetto.dev and
   chrome://tracing show: a process per level, slices (complete events, "X") on its tracks, and flow
   arrows ("s" to "f") from a launch to its kernel and from a sender of mail to its receiver. Every
   level begins at 0, with its first launch. */
#pragma once

#include "measure/record.h"

/* Tracks of a level. Slices of one track never overlap, so kernels that do lie on TRACE_GPU and the
   tracks after it; those of the epoch kernel's teams are TRACE_TEAM + TRACE_TEAMS * block + team,
   where row blocks and matrix blocks are counted from 0 each. */
enum { TRACE_HOST = 1, TRACE_GPU, TRACE_TEAM = 10, TRACE_TEAMS = 4 };
typedef enum { TEAM_ROW, TEAM_HEAD, TEAM_PATCH, TEAM_MATRIX } TraceTeam;

/* Also what activity.c records, at level 0: launches on TRACE_HOST, and kernels by their mangled
   names on TRACE_GPU, with the launch's number as their arrow. */
typedef struct {
  char phase; /* 'X': a slice; 's', 'f': tail and head of an arrow; 'M': the name of a track */
  int level, track;
  int step;           /* of a slice: within its range, from 0; -1: it belongs to no step */
  int arrow;          /* its number, from 1, in both of its events; 0: none */
  int64_t start, end; /* ns; equal but for a slice */
  char name[240];
} TraceEvent;

enum { TRACE_LEVELS = 4 }; /* at most */

typedef struct {
  TraceEvent *events;
  int count, room, arrows;
  bool no_memory;    /* some event is missing: trace_whole says so */
  json_t *head;      /* gpu, driver, date, network, command, sources; levels: see trace_add_level */
  int backwards;     /* arrows that are left out, for the clocks of two blocks disagree on them */
  char missing[320]; /* which levels do not run on this GPU, and why; "": all do */
} Trace;

#define foreach_event(E, TRACE)                                                                    \
  for (TraceEvent *E = (TRACE)->events; E < (TRACE)->events + (TRACE)->count; E++)

/* Adds a level, whose ranges queue so many steps at once. us_per_step: as ever, and while it is
   recorded. */
void trace_add_level(Trace *trace, const char *name, int range, double us_per_step,
                     double recorded_us_per_step);
/* Its line, with keys of these names; NULL behind the last. And how many there are. */
json_t *trace_level(const Trace *trace, int level);
int trace_levels(const Trace *trace);

/* Adds an event under that name. Returns it, or NULL if there is no memory. */
TraceEvent *trace_add(Trace *trace, TraceEvent event, const char *name);
void trace_add_track(Trace *trace, int level, int track, const char *name);
/* A slice that ends when it starts is left out. */
void trace_add_slice(Trace *trace, int level, int track, int step, int64_t start, int64_t end,
                     const char *name);
/* From a time in a slice of one track to a time in one of another. */
void trace_add_arrow(Trace *trace, int level, int from_track, int64_t from, int to_track,
                     int64_t to, const char *name);
/* False if there was no memory for some event. */
bool trace_whole(const Trace *trace, Error *error);
/* The next slice of a level on tracks [from, to) behind event e, NULL: the first of all; NULL:
   there is none. And how many of them are of a step. */
const TraceEvent *trace_next(const Trace *trace, const TraceEvent *e, int level, int from, int to);
int trace_slices(const Trace *trace, int level, int from, int to, int step);
void trace_close(Trace *trace); /* one of zeros is allowed */

/* Sorts the events: tracks first, then by their start, a slice before what it holds. */
void trace_sort(Trace *trace);
/* Sorts the events and replaces the file. */
bool trace_save(Trace *trace, const char *path, Error *error);
/* Reads what trace_save has written, gzipped or not; *trace is zeros before. */
bool trace_load(Trace *trace, const char *path, Error *error);

/* A table of what a step takes, as ever and while it is recorded. */
void trace_print(const Trace *trace, FILE *file);

/* Steps TRACE_FIRST to TRACE_END - 1 of a recorded range are kept. They come long after its
   launch, when host and GPU have found their pace. Step TRACE_SHOWN is drawn. */
enum { TRACE_FIRST = 31, TRACE_SHOWN, TRACE_END = 34 };

/* Draws step TRACE_SHOWN of all levels, one above the other, on one axis of time, as a PNG. */
bool trace_draw(const Trace *trace, const char *path, Error *error);

/* The name of a kernel, given as a C++ compiler prints it, as a reader wants it: "void (anonymous
   namespace)::forward_kernel<Pixels, Floats>(Pixels, int)" is "forward". */
void trace_kernel_name(const char *demangled, char *name, size_t size);

/* Records a range of 64 steps of 784-300-100-10 at batch 64, on random rows, at every level:
   cuda/record.c. */
__attribute__((weak)) bool trace_record(Trace *trace, const char *command, const char *sources,
                                        Error *error);
