/* The picture of a trace: one step of every level on one axis of time. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measure/table.h"
#include "bench/trace.h"
#include "plot/timeline.h"

static const Colour LAUNCH = 0x8250df, KERNEL = 0x0969da, EARLY = 0xb6d4f8, WORK = 0x1a7f37,
                    WAIT = 0xd0d7de;

enum { SLICES = 4096, WIDEST = 4 /* times the shortest row: what is longer has a break */ };

/* One level's step, and the slices of its lanes one after the other. */
typedef struct {
  const Trace *trace;
  int level;
  int64_t start, end; /* of the step, ns */
  TimelineSlice slices[SLICES];
  TableCell brief[SLICES]; /* of the labels */
  int count;
  TableCell below[2], note;
} Step;

/* Returns when a slice of the GPU begins to work: a kernel may start early, but then waits until
   the one that was launched before it has ended. */
static int64_t begin_of(const Trace *trace, const TraceEvent *slice) {
  const TraceEvent *before = NULL, *e = NULL;
  if (slice->track >= TRACE_TEAM) return slice->start;
  while ((e = trace_next(trace, e, slice->level, TRACE_GPU, TRACE_TEAM)))
    if (e->start < slice->start && (!before || e->start > before->start)) before = e;
  const int64_t ready = before && before->end > slice->start ? before->end : slice->start;
  return ready < slice->end ? ready : slice->end;
}

/* Returns when the GPU begins a step; -1 if the trace does not have it. */
static int64_t start_of(const Trace *trace, int level, int step) {
  const TraceEvent *first = NULL, *e = NULL;
  while ((e = trace_next(trace, e, level, TRACE_GPU, TRACE_TEAM + TEAM_ROW + 1)))
    if (e->step == step && (!first || e->start < first->start)) first = e;
  return first ? begin_of(trace, first) : -1;
}

/* A shorter label: "Z1" of "wait for Z1" and of "Z1 = W1 X", "W1" of "update W1", "update" of
   "update 5". */
static TableCell brief_of(const char *name) {
  const char *space = strchr(name, ' '), *equals = strstr(name, " ="), *last = strrchr(name, ' ');
  if (!space) return table_cell("%s", "");
  if (equals || (last[1] >= '0' && last[1] <= '9'))
    return table_cell("%.*s", (int)((equals ? equals : space) - name), name);
  return table_cell("%s", strncmp(name, "wait for ", 9) == 0 ? name + 9 : space + 1);
}

static void add_slice(TimelineLane *lane, Step *step, int64_t start, int64_t end, const char *label,
                      Colour colour) {
  if (end <= step->start || start >= step->end || end <= start || step->count == SLICES) return;
  step->brief[step->count] = brief_of(label);
  step->slices[step->count] = (TimelineSlice){.start = 1e-3 * (double)(start - step->start),
                                              .end = 1e-3 * (double)(end - step->start),
                                              .label = label,
                                              .brief = step->brief[step->count].text,
                                              .colour = colour};
  step->count++;
  lane->count++;
}

/* Adds a lane with what is on the track during the step: of kernels those of this step, of launches
   those that are of a step. */
static void add_lane(TimelineRow *row, Step *step, const char *name, int track) {
  TimelineLane *lane = &row->lane[row->lanes++];
  *lane = (TimelineLane){.name = name, .slices = step->slices + step->count};
  const bool kernel = track > TRACE_HOST && track < TRACE_TEAM;
  for (const TraceEvent *e = NULL;
       (e = trace_next(step->trace, e, step->level, track, track + 1));) {
    if (e->step < 0 || (kernel && e->step != TRACE_SHOWN)) continue;
    const int64_t works = kernel ? begin_of(step->trace, e) : e->start;
    const Colour colour = kernel                              ? KERNEL
                          : track == TRACE_HOST               ? LAUNCH
                          : strncmp(e->name, "wait ", 5) == 0 ? WAIT
                                                              : WORK;
    add_slice(lane, step, e->start, works, "", EARLY);
    add_slice(lane, step, works, e->end, track == TRACE_HOST ? "launch" : e->name, colour);
  }
}

static void add_lanes(TimelineRow *row, Step *step, int range) {
  const int launches = trace_slices(step->trace, step->level, TRACE_HOST, TRACE_GPU, TRACE_SHOWN);
  step->below[0] = table_cell(launches ? "%d launches a step" : "no launch", launches);
  add_lane(row, step, "host", TRACE_HOST);
  if (launches == 0) {
    step->note = table_cell("idle: %d steps are queued", range);
    row->lane[0].note = step->note.text;
  }
  static const char *const teams[TRACE_TEAMS] = {
      [TEAM_ROW] = "row", [TEAM_HEAD] = "head", [TEAM_PATCH] = "patch", [TEAM_MATRIX] = "matrix"};
  if (trace_slices(step->trace, step->level, TRACE_TEAM, INT_MAX, TRACE_SHOWN) > 0) {
    for (int team = 0; team < TRACE_TEAMS; team++)
      add_lane(row, step, teams[team], TRACE_TEAM + team);
    return;
  }
  for (int track = TRACE_GPU; row->lanes < TIMELINE_LANES && track < TRACE_TEAM; track++) {
    add_lane(row, step, track == TRACE_GPU ? "GPU" : "", track);
    if (row->lane[row->lanes - 1].count == 0) row->lanes--;
  }
}

static bool make_row(const Trace *trace, int level, Step *step, TimelineRow *row, Error *error) {
  const TraceLevel *l = &trace->level[level];
  step->trace = trace;
  step->level = level;
  step->start = start_of(trace, level, TRACE_SHOWN);
  step->end = start_of(trace, level, TRACE_SHOWN + 1);
  if (step->start < 0 || step->end <= step->start)
    return error_set(error, "the trace has no whole step %d of level %s", TRACE_SHOWN, l->name);
  step->below[1] = table_cell("%.3g us unrecorded", l->us);
  *row = (TimelineRow){.name = l->name,
                       .below = {step->below[0].text, step->below[1].text},
                       .length = 1e-3 * (double)(step->end - step->start)};
  add_lanes(row, step, l->range);
  return true;
}

/* As long as the longest row that is not very much longer than the shortest. */
static double span_of(const TimelineRow *rows, int count) {
  double shortest = INFINITY, longest = 0;
  for (int i = 0; i < count; i++) shortest = fmin(shortest, rows[i].length);
  for (int i = 0; i < count; i++)
    if (rows[i].length <= WIDEST * shortest) longest = fmax(longest, rows[i].length);
  return longest;
}

bool trace_draw(const Trace *trace, const char *path, Error *error) {
  TimelineRow rows[TRACE_LEVELS] = {0};
  if (trace->levels < 1) return error_set(error, "the trace has no levels to draw in %s", path);
  Step *steps = calloc(TRACE_LEVELS, sizeof *steps);
  if (!steps) return error_set(error, "no memory for a timeline");
  bool good = true;
  for (int i = 0; good && i < trace->levels; i++)
    good = make_row(trace, i, &steps[i], &rows[i], error);
  const TableCell subtitle = table_cell("%.50s, %s. Of level epoch: the teams of two blocks",
                                        trace->machine.name, trace->network);
  const Timeline chart = {
      .title = "One training step at each level of fusion",
      .subtitle = subtitle.text,
      .unit = "us",
      .span = span_of(rows, trace->levels),
      .row = rows,
      .rows = trace->levels,
      .key = {{LAUNCH, "the host launches"},
              {KERNEL, "a kernel runs"},
              {EARLY, "it waits for the one before"},
              {WORK, "a team of a block works"},
              {WAIT, "it waits for mail"}},
      .keys = 5,
  };
  good = good && timeline_draw(&chart, path, error);
  free(steps);
  return good;
}
