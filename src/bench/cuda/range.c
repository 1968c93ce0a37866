#include "bench/cuda/range.h"

#include <stdlib.h>
#include <string.h>

enum { PARALLEL = TRACE_TEAM - TRACE_GPU };

/* A range of one level, and of each of its activities the step that it belongs to. */
typedef struct {
  const Activities *list;
  int *step;          /* -1: none */
  bool *drawn;        /* the launch has its arrow */
  bool one_kernel;    /* for all steps */
  bool overlap;       /* some kernel starts before the one before it ends */
  int64_t zero;       /* on CUPTI's clock: the first launch */
  int64_t first, end; /* the start of the first step to keep, and of the step after the last */
  RangeFacts facts;
} Range;

static bool is_of_a_range(const char *name) {
  static const char *const those[] = {"order", "begin", "advance", "sum", "augment"};
  for (size_t i = 0; i < sizeof those / sizeof *those; i++)
    if (strcmp(name, those[i]) == 0) return true;
  return false;
}

char *__cxa_demangle(const char *mangled, char *buffer, size_t *size, int *status);

static void name_of(const Activity *kernel, char *name, size_t size) {
  char *demangled = __cxa_demangle(kernel->name, NULL, NULL, NULL);
  trace_kernel_name(demangled ? demangled : kernel->name, name, size);
  free(demangled);
}

static int launch_of(const Range *range, const Activity *kernel) {
  for (int i = 0; i < range->list->count; i++)
    if (range->list->of[i].on_host && range->list->of[i].correlation == kernel->correlation)
      return i;
  return -1;
}

/* The range begins with the last launch of the kernel that begins one. */
static bool find_start(Range *range, Error *error) {
  for (int i = range->list->count - 1; i >= 0; i--) {
    const Activity *a = &range->list->of[i];
    char name[48];
    if (a->on_host) continue;
    name_of(a, name, sizeof name);
    if (strcmp(name, "begin") != 0) continue;
    const int launch = launch_of(range, a);
    if (launch < 0) break;
    range->zero = range->list->of[launch].start;
    return true;
  }
  return error_set(error, "CUPTI has not recorded the kernels that the host launched");
}

/* A step begins where its first kernel comes again. */
static void find_steps(Range *range) {
  const char *first = NULL;
  int step = -1;
  int64_t ended = 0, shown = 0;
  char name[48];
  range->first = range->end = INT64_MAX;
  for (int i = 0; i < range->list->count; i++) {
    const Activity *a = &range->list->of[i];
    range->step[i] = -1;
    if (a->on_host || a->start < range->zero) continue;
    name_of(a, name, sizeof name);
    if (is_of_a_range(name)) continue;
    if (range->facts.begin < 0) range->facts.begin = a->start - range->zero;
    if (range->one_kernel) continue;
    if (!first) first = a->name;
    if (strcmp(a->name, first) == 0) {
      step++;
      if (step == TRACE_SHOWN) shown = a->start;
      if (step == TRACE_FIRST) range->first = a->start;
      if (step == TRACE_END) range->end = a->start;
      if (step > TRACE_SHOWN)
        range->facts.us = 1e-3 * (double)(a->start - shown) / (step - TRACE_SHOWN);
    }
    range->step[i] = step;
    range->overlap |= a->start < ended;
    ended = a->end;
  }
}

/* A launch belongs to the step of its kernel, if it has but one. */
static void find_launched(Range *range) {
  for (int i = 0; i < range->list->count; i++) {
    const Activity *launch = &range->list->of[i];
    int kernels = 0;
    if (!launch->on_host) continue;
    for (int k = 0; k < range->list->count && kernels < 2; k++) {
      const Activity *a = &range->list->of[k];
      if (a->on_host || a->correlation != launch->correlation) continue;
      range->step[i] = kernels++ == 0 ? range->step[k] : -1;
    }
  }
}

/* "gemm 2": the second gemm of three in a step. */
static void number(const Range *range, int i, char *name, size_t size) {
  char other[48], alone[48];
  int before = 0, all = 0;
  snprintf(alone, sizeof alone, "%s", name);
  for (int k = 0; range->step[i] >= 0 && k < range->list->count; k++) {
    if (range->step[k] != range->step[i] || range->list->of[k].on_host) continue;
    name_of(&range->list->of[k], other, sizeof other);
    if (strcmp(alone, other) != 0) continue;
    all++;
    before += k < i;
  }
  if (all > 1) snprintf(name, size, "%.30s %d", alone, before + 1);
}

/* Returns the track of a kernel: its place in the step where kernels overlap, else the first. */
static int lane_of(const Range *range, int i) {
  int before = 0;
  for (int k = i - 1; range->overlap && range->step[i] >= 0 && k >= 0; k--)
    before += range->step[k] == range->step[i] && !range->list->of[k].on_host;
  return before % PARALLEL;
}

/* The first kernel of a launch has an arrow from it. */
static bool add_launch_arrow(Trace *trace, int level, Range *range, const Activity *kernel,
                             int track, Error *error) {
  const int launch = launch_of(range, kernel);
  if (launch < 0 || range->drawn[launch]) return true;
  range->drawn[launch] = true;
  return trace_add_arrow(trace, level, TRACE_HOST, range->list->of[launch].start - range->zero,
                         track, kernel->start - range->zero, "launch", error);
}

/* A kernel that starts before the last one of its track has ended is cut. */
static bool add_kernel(Trace *trace, int level, Range *range, int i, int64_t busy[PARALLEL],
                       Error *error) {
  const Activity *a = &range->list->of[i];
  const int lane = lane_of(range, i), track = TRACE_GPU + lane;
  int64_t start = a->start - range->zero;
  const int64_t end = a->end - range->zero;
  char name[48];
  if (start < busy[lane]) start = busy[lane];
  if (end <= start) return true;
  busy[lane] = end;
  name_of(a, name, sizeof name);
  number(range, i, name, sizeof name);
  return trace_add_slice(trace, level, track, range->step[i], start, end, name, error) &&
         add_launch_arrow(trace, level, range, a, track, error);
}

/* Launches of other steps are kept if the host makes them meanwhile. */
static bool is_kept(const Range *range, int i) {
  const Activity *a = &range->list->of[i];
  if (a->start < range->zero) return false;
  if (range->step[i] < 0) return a->start < range->end;
  return (range->step[i] >= TRACE_FIRST && range->step[i] < TRACE_END) ||
         (a->on_host && a->start >= range->first && a->start < range->end);
}

static bool add_activities(Trace *trace, int level, Range *range, Error *error) {
  int64_t busy[PARALLEL] = {0};
  for (int i = 0; i < range->list->count; i++) {
    const Activity *a = &range->list->of[i];
    if (!is_kept(range, i)) continue;
    if (!(a->on_host ? trace_add_slice(trace, level, TRACE_HOST, range->step[i],
                                       a->start - range->zero, a->end - range->zero, a->name, error)
                     : add_kernel(trace, level, range, i, busy, error)))
      return false;
  }
  if (!trace_add_track(trace, level, TRACE_HOST, "host: launches", error)) return false;
  for (int lane = 0; lane < PARALLEL && busy[lane] > 0; lane++) {
    char name[48] = "GPU: kernels";
    if (range->overlap) snprintf(name, sizeof name, "GPU: kernel %d of a step", lane + 1);
    if (!trace_add_track(trace, level, TRACE_GPU + lane, name, error)) return false;
  }
  return true;
}

static bool add_range(Trace *trace, int level, Range *range, Error *error) {
  if (!find_start(range, error)) return false;
  find_steps(range);
  find_launched(range);
  if (range->facts.begin < 0) return error_set(error, "CUPTI has recorded no kernel of a step");
  return add_activities(trace, level, range, error);
}

bool range_add(Trace *trace, int level, const Activities *list, bool one_kernel, RangeFacts *facts,
               Error *error) {
  Range range = {.list = list,
                 .one_kernel = one_kernel,
                 .step = calloc((size_t)list->count + 1, sizeof *range.step),
                 .drawn = calloc((size_t)list->count + 1, sizeof *range.drawn),
                 .facts = {0, -1}};
  bool good = false;
  if (!range.step || !range.drawn)
    error_set(error, "no memory for a range of %d activities", list->count);
  else
    good = add_range(trace, level, &range, error);
  *facts = range.facts;
  free(range.step);
  free(range.drawn);
  return good;
}
