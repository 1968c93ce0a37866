#include "bench/cuda/recording.h"

#include <stdlib.h>
#include <string.h>

#include "measure/table.h"

enum { PARALLEL = TRACE_TEAM - TRACE_GPU };

/* A range of one level. */
typedef struct {
  Trace *trace, *list;
  int level;          /* of the trace */
  bool one_kernel;    /* for all steps */
  bool overlap;       /* some kernel starts before the one before it ends */
  int64_t first, end; /* the start of the first step to keep, and of the step after the last */
  RangeFacts facts;
} Range;

static bool is_launch(const TraceEvent *e) {
  return e->track == TRACE_HOST;
}

char *__cxa_demangle(const char *mangled, char *buffer, size_t *size, int *status);

static ShortText name_of(const TraceEvent *kernel) {
  char *demangled = __cxa_demangle(kernel->name, NULL, NULL, NULL);
  ShortText name;
  trace_kernel_name(demangled ? demangled : kernel->name, name.text, sizeof name.text);
  free(demangled);
  return name;
}

/* True if the kernel is of a range of steps and of none of them. */
static bool is_of_a_range(const TraceEvent *kernel) {
  return strstr(" order begin advance sum augment ",
                text_format(" %s ", name_of(kernel).text).text);
}

static TraceEvent *launch_of(const Range *range, const TraceEvent *kernel) {
  foreach_event (e, range->list)
    if (is_launch(e) && e->arrow == kernel->arrow) return e;
  return NULL;
}

/* The range begins with the last launch of the kernel that begins one: at 0 from now on. */
static bool find_start(Range *range, Error *error) {
  const TraceEvent *launch = NULL;
  foreach_event (e, range->list)
    if (!is_launch(e) && strcmp(name_of(e).text, "begin") == 0) launch = launch_of(range, e);
  const int64_t zero = launch ? launch->start : 0;
  foreach_event (e, range->list) {
    e->start -= zero;
    e->end -= zero;
  }
  return launch || error_set(error, "CUPTI has not recorded the kernels that the host launched");
}

/* A step begins where its first kernel comes again. */
static void find_steps(Range *range) {
  const char *first = NULL;
  int step = -1;
  int64_t ended = 0, shown = 0;
  range->first = range->end = INT64_MAX;
  foreach_event (e, range->list) {
    e->step = -1;
    if (is_launch(e) || e->start < 0 || is_of_a_range(e)) continue;
    if (range->facts.begin < 0) range->facts.begin = e->start;
    if (range->one_kernel) continue;
    if (!first) first = e->name;
    if (strcmp(e->name, first) == 0) {
      step++;
      if (step == TRACE_SHOWN) shown = e->start;
      if (step == TRACE_FIRST) range->first = e->start;
      if (step == TRACE_END) range->end = e->start;
      if (step > TRACE_SHOWN)
        range->facts.us = 1e-3 * (double)(e->start - shown) / (step - TRACE_SHOWN);
    }
    e->step = step;
    range->overlap |= e->start < ended;
    ended = e->end;
  }
}

/* A launch belongs to the step of its kernel, if it has but one. */
static void find_launched(Range *range) {
  foreach_event (launch, range->list) {
    int kernels = 0;
    if (!is_launch(launch)) continue;
    foreach_event (e, range->list)
      if (!is_launch(e) && e->arrow == launch->arrow) launch->step = kernels++ == 0 ? e->step : -1;
  }
}

/* The kernels of the same step that start before `kernel`, or all of them; name not NULL: those of
   that name alone. */
static int kernels_beside(const Range *range, const TraceEvent *kernel, const char *name,
                          bool before) {
  int count = 0;
  foreach_event (e, range->list)
    count += !is_launch(e) && e->step >= 0 && e->step == kernel->step && (!before || e < kernel) &&
             (!name || strcmp(name_of(e).text, name) == 0);
  return count;
}

/* A kernel that starts before the last one of its track has ended is cut. Where kernels overlap, a
   track is a place in the step. The second gemm of three in a step is "gemm 2". The first kernel of
   a launch has an arrow from it, and then the launch's number is forgotten. */
static void add_kernel(Range *range, const TraceEvent *kernel, int64_t busy[PARALLEL]) {
  const int lane = range->overlap ? kernels_beside(range, kernel, NULL, true) % PARALLEL : 0,
            track = TRACE_GPU + lane;
  const int64_t start = kernel->start < busy[lane] ? busy[lane] : kernel->start;
  if (kernel->end <= start) return;
  busy[lane] = kernel->end;
  ShortText name = name_of(kernel);
  if (kernels_beside(range, kernel, name.text, false) > 1)
    name = text_format("%.30s %d", name.text, kernels_beside(range, kernel, name.text, true) + 1);
  trace_add_slice(range->trace, range->level, track, kernel->step, start, kernel->end, name.text);
  TraceEvent *launch = launch_of(range, kernel);
  if (!launch) return;
  trace_add_arrow(range->trace, range->level, TRACE_HOST, launch->start, track, kernel->start,
                  "launch");
  launch->arrow = 0;
}

/* Launches of other steps are kept if the host makes them meanwhile. */
static bool is_kept(const Range *range, const TraceEvent *e) {
  if (e->start < 0) return false;
  if (e->step < 0) return e->start < range->end;
  return (e->step >= TRACE_FIRST && e->step < TRACE_END) ||
         (is_launch(e) && e->start >= range->first && e->start < range->end);
}

bool range_add(Trace *trace, int level, Trace *list, bool one_kernel, RangeFacts *facts,
               Error *error) {
  Range range = {
      .trace = trace, .list = list, .level = level, .one_kernel = one_kernel, .facts = {0, -1}};
  int64_t busy[PARALLEL] = {0};
  if (!find_start(&range, error)) return false;
  find_steps(&range);
  find_launched(&range);
  *facts = range.facts;
  if (facts->begin < 0) return error_set(error, "CUPTI has recorded no kernel of a step");
  foreach_event (e, list) {
    if (!is_kept(&range, e)) continue;
    if (is_launch(e))
      trace_add_slice(trace, level, TRACE_HOST, e->step, e->start, e->end, e->name);
    else
      add_kernel(&range, e, busy);
  }
  trace_add_track(trace, level, TRACE_HOST, "host: launches");
  for (int lane = 0; lane < PARALLEL && busy[lane] > 0; lane++) {
    const ShortText name =
        text_format(range.overlap ? "GPU: kernel %d of a step" : "GPU: kernels", lane + 1);
    trace_add_track(trace, level, TRACE_GPU + lane, name.text);
  }
  return true;
}
