#include "bench/cuda/activity.h"

#ifndef HAVE_CUPTI

bool activity_available(Error *error) {
  return error_set(error, "--trace and --timeline need CUPTI, which the CUDA Toolkit did not have "
                          "when this program was built: install libcupti-dev or, of NVIDIA's "
                          "packages, cuda-cupti-dev-13-0 (your release), then `make clean all`");
}

bool activity_start(Error *error) {
  return activity_available(error);
}

bool activity_take(Activities *taken, Error *error) {
  (void)taken;
  return activity_available(error);
}

void activity_free(Activities *activities) {
  (void)activities;
}

#else

#include <cupti.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cuda/cuda_error.h"
#include "measure/cuda/launch_count.h"

/* CUPTI hands buffers over, and launches are watched, by functions that have no context. */
static Activities recorded, recorded_launches;
static Activity *launch; /* that is being made */
static bool out_of_memory;

enum { BUFFER_BYTES = 8 << 20, ALIGNMENT = 8 };

static bool done(CUptiResult result, const char *what, Error *error) {
  const char *text = NULL;
  if (result == CUPTI_SUCCESS) return true;
  cuptiGetResultString(result, &text);
  return error_set(error, "CUPTI cannot %s: %s", what, text ? text : "an unknown error");
}

/* NULL: there is no memory. */
static Activity *add(Activities *to, const Activity *activity) {
  if (to->count == to->room) {
    const int room = to->room ? 2 * to->room : 4096;
    Activity *of = realloc(to->of, (size_t)room * sizeof *of);
    if (!of) {
      out_of_memory = true;
      return NULL;
    }
    to->of = of;
    to->room = room;
  }
  to->of[to->count] = *activity;
  return &to->of[to->count++];
}

/* A LaunchWatch. CUPTI would record the calls, too, but make each of them slower by a microsecond.
 */
static void watch(const char *function, bool after) {
  uint64_t now = 0;
  cuptiGetTimestamp(&now);
  if (after) {
    if (launch) launch->end = (int64_t)now;
    launch = NULL;
    return;
  }
  Activity activity = {.on_host = true, .start = (int64_t)now};
  snprintf(activity.name, sizeof activity.name, "%s", function + strspn(function, "_"));
  launch = add(&recorded_launches, &activity);
}

static void add_kernel(const CUpti_ActivityKernel9 *kernel) {
  Activity activity = {.correlation = kernel->correlationId,
                       .start = (int64_t)kernel->start,
                       .end = (int64_t)kernel->end};
  snprintf(activity.name, sizeof activity.name, "%s", kernel->name ? kernel->name : "a kernel");
  add(&recorded, &activity);
}

static void CUPTIAPI buffer_wanted(uint8_t **buffer, size_t *size, size_t *records) {
  *buffer = aligned_alloc(ALIGNMENT, BUFFER_BYTES);
  *size = *buffer ? BUFFER_BYTES : 0;
  *records = 0;
  if (!*buffer) out_of_memory = true;
}

static void CUPTIAPI buffer_filled(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
                                   size_t filled) {
  CUpti_Activity *record = NULL;
  (void)context, (void)stream, (void)size;
  while (cuptiActivityGetNextRecord(buffer, filled, &record) == CUPTI_SUCCESS)
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
      add_kernel((const CUpti_ActivityKernel9 *)record);
  free(buffer);
}

bool activity_available(Error *error) {
  (void)error;
  return true;
}

bool activity_start(Error *error) {
  launch_watch(watch);
  return done(cuptiActivityRegisterCallbacks(buffer_wanted, buffer_filled), "start", error) &&
         done(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "record kernels", error);
}

static int by_correlation(const void *left, const void *right) {
  const Activity *a = left, *b = right;
  if (a->correlation != b->correlation) return a->correlation < b->correlation ? -1 : 1;
  return a->start < b->start ? -1 : a->start > b->start;
}

static int by_start(const void *left, const void *right) {
  const Activity *a = left, *b = right;
  if (a->start != b->start) return a->start < b->start ? -1 : 1;
  return a->on_host != b->on_host ? (a->on_host ? -1 : 1) : 0;
}

/* CUPTI numbers calls as they come, so the launches have the kernels' numbers in their order. One
   that only a capture saw has no kernel, and then none is given a number. */
static void number_launches(Activities *kernels) {
  int different = 0;
  qsort(kernels->of, (size_t)kernels->count, sizeof *kernels->of, by_correlation);
  for (int i = 0; i < kernels->count; i++)
    different += i == 0 || kernels->of[i].correlation != kernels->of[i - 1].correlation;
  if (different != recorded_launches.count) return;
  for (int i = 0, launches = 0; i < kernels->count; i++)
    if (i == 0 || kernels->of[i].correlation != kernels->of[i - 1].correlation)
      recorded_launches.of[launches++].correlation = kernels->of[i].correlation;
}

bool activity_take(Activities *taken, Error *error) {
  if (!cuda_done(cudaDeviceSynchronize(), "recording", error) ||
      !done(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "hand over its records",
            error))
    return false;
  const Activities old = *taken;
  *taken = recorded;
  recorded = (Activities){old.of, 0, old.room};
  if (taken->count) number_launches(taken);
  for (int i = 0; i < recorded_launches.count; i++) add(taken, &recorded_launches.of[i]);
  recorded_launches.count = 0;
  if (taken->count) qsort(taken->of, (size_t)taken->count, sizeof *taken->of, by_start);
  if (!out_of_memory) return true;
  out_of_memory = false;
  return error_set(error, "no memory for what CUPTI recorded");
}

void activity_free(Activities *activities) {
  free(activities->of);
  *activities = (Activities){0};
}

#endif
