#include "bench/cuda/recording.h"

#ifdef HAVE_CUPTI

#include <cupti.h>
#include <stdlib.h>
#include <string.h>

#include "measure/cuda/rung.h"

/* CUPTI hands buffers over, on a thread of its own, and launches are watched, by functions that
   have no context. */
static Trace kernels, launches;
static TraceEvent *launch; /* that is being made */

enum { BUFFER_BYTES = 8 << 20, ALIGNMENT = 8 };

static bool done(CUptiResult result, const char *what, Error *error) {
  const char *text = NULL;
  if (result == CUPTI_SUCCESS) return true;
  cuptiGetResultString(result, &text);
  return error_set(error, "CUPTI cannot %s: %s", what, text ? text : "an unknown error");
}

/* A LaunchWatch. CUPTI would record the calls, too, but make each a microsecond slower. */
static void watch(const char *function, bool after) {
  uint64_t now = 0;
  cuptiGetTimestamp(&now);
  if (launch) launch->end = (int64_t)now;
  const TraceEvent event = {.phase = 'X', .track = TRACE_HOST, .start = (int64_t)now};
  launch = after ? NULL : trace_add(&launches, event, function + strspn(function, "_"));
}

static void CUPTIAPI buffer_wanted(uint8_t **buffer, size_t *size, size_t *records) {
  *buffer = aligned_alloc(ALIGNMENT, BUFFER_BYTES);
  *size = *buffer ? BUFFER_BYTES : 0;
  *records = 0;
  kernels.no_memory |= !*buffer;
}

static void CUPTIAPI buffer_filled(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
                                   size_t filled) {
  CUpti_Activity *record = NULL;
  (void)context, (void)stream, (void)size;
  while (cuptiActivityGetNextRecord(buffer, filled, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const CUpti_ActivityKernel9 *kernel = (const CUpti_ActivityKernel9 *)record;
    const TraceEvent event = {.phase = 'X',
                              .track = TRACE_GPU,
                              .arrow = (int)kernel->correlationId,
                              .start = (int64_t)kernel->start,
                              .end = (int64_t)kernel->end};
    trace_add(&kernels, event, kernel->name ? kernel->name : "a kernel");
  }
  free(buffer);
}

bool activity_start(Error *error) {
  launch_watch(watch);
  return done(cuptiActivityRegisterCallbacks(buffer_wanted, buffer_filled), "start", error) &&
         done(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "record kernels", error);
}

/* By number, then by start; launches have none yet and come first. */
static int by_number(const void *left, const void *right) {
  const TraceEvent *a = left, *b = right;
  if (a->arrow != b->arrow) return a->arrow < b->arrow ? -1 : 1;
  return a->start < b->start ? -1 : a->start > b->start;
}

/* CUPTI numbers calls as they come, so the `count` launches, which come first, have the kernels'
   numbers in their order. One that only a capture saw has no kernel, and then none gets one. */
static void number_launches(Trace *all, int count) {
  TraceEvent *e = all->events;
  int different = 0;
  for (int i = count; i < all->count; i++) different += i == count || e[i].arrow != e[i - 1].arrow;
  if (different != count) return;
  for (int i = count, next = 0; i < all->count; i++)
    if (i == count || e[i].arrow != e[i - 1].arrow) e[next++].arrow = e[i].arrow;
}

bool activity_take(Trace *taken, Error *error) {
  if (!cuda_done(cudaDeviceSynchronize(), "recording", error) ||
      !done(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "hand over its records",
            error))
    return false;
  taken->count = 0;
  foreach_event (e, &launches) trace_add(taken, *e, e->name);
  foreach_event (e, &kernels) trace_add(taken, *e, e->name);
  if (taken->count) qsort(taken->events, (size_t)taken->count, sizeof *taken->events, by_number);
  number_launches(taken, launches.count);
  trace_sort(taken);
  launches.count = kernels.count = 0;
  const bool lost = taken->no_memory || launches.no_memory || kernels.no_memory;
  return !lost || error_set(error, "no memory for what CUPTI recorded");
}

#endif
