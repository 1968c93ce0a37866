#include "lab/harness.h"

#include <string.h>

#include "base/clock.h"
#include "engine/cuda/cuda_error.h"

/* ---- one call ------------------------------------------------------------------------------- */

/* Runs a row once, waits for it, and sets *seconds by the host's clock. Returns the launch's
   status, which may be that of an earlier kernel. */
static cudaError_t run_once(const LabArrays *a, LabRow *row, LabRecord *record, double *seconds) {
  LabCall call = lab_arrays_call(a, row, 0);
  call.record = record;
  const double start = seconds_now();
  lab_watch(a, row, true);
  const cudaError_t launched = row->rung->launch(&call);
  lab_watch(a, row, false);
  TRY(launched);
  TRY(cudaStreamSynchronize(call.stream));
  *seconds = seconds_now() - start;
  return cudaDeviceSynchronize(); /* what it queued elsewhere and did not wait for */
}

/* Makes a failure the outcome of the row, unless the GPU will run nothing more in this process. */
static bool take_failure(const LabArrays *a, LabRow *row, cudaError_t status, Error *error) {
  cudaGetLastError(); /* told now: the next launch must not report it again */
  const cudaError_t after = cudaDeviceSynchronize();
  if (after != cudaSuccess)
    return error_set(
        error, "rung %s of topic %s stopped the GPU (%s): nothing more can run in this process",
        row->rung->name, a->topic->name, cudaGetErrorString(status));
  row->outcome = LAB_WRONG;
  if (!*row->note)
    snprintf(row->note, sizeof row->note, "its launch failed: %s", cudaGetErrorString(status));
  return true;
}

/* ---- checks --------------------------------------------------------------------------------- */

/* Judges the row's last run. */
static bool judge(const LabArrays *a, LabRow *row, Error *error) {
  const char *outside;
  const bool is_part = row->rung->kind == LAB_PART;
  if (!lab_arrays_fetch(a, row->rung, &outside, error)) return false;
  if (outside) snprintf(row->note, sizeof row->note, "%s", outside);
  row->outcome = *row->note ? LAB_WRONG : is_part ? LAB_UNCHECKED : LAB_RIGHT;
  if (row->outcome != LAB_RIGHT) return true;
  const LabVerdict v = lab_check(a, row->rung);
  row->ulp = v.ulp;
  if (v.right) return true;
  row->outcome = LAB_WRONG;
  snprintf(row->note, sizeof row->note, "element %lld is %.9g, expected %.9g (allowed %.3g)",
           (long long)v.index, v.got, v.expected, v.allowed);
  return true;
}

/* Runs the row, judges it unless it is only profiled, and sets the seconds of the run. */
static bool check_once(const LabArrays *a, LabRow *row, double *seconds, Error *error) {
  const bool checks = a->how->mode != LAB_PROFILE;
  LabRecord record = {0};
  *row->note = '\0';
  if (checks && !lab_arrays_poison(a, error)) return false;
  const cudaError_t status = run_once(a, row, &record, seconds);
  if (status != cudaSuccess) return take_failure(a, row, status, error);
  return !checks || (cuda_done(lab_find_occupancy(&record, &row->occupancy),
                               "asking for the occupancy", error) &&
                     judge(a, row, error));
}

enum { TRIES = 5 }; /* what a race makes may be right by chance */

static bool check_mistake(const LabArrays *a, LabRow *row, Error *error) {
  double seconds;
  for (int i = 0; i < TRIES; i++) {
    if (!check_once(a, row, &seconds, error)) return false;
    if (row->outcome != LAB_WRONG) continue;
    row->outcome = LAB_CAUGHT;
    return true;
  }
  row->outcome = LAB_MISSED;
  snprintf(row->note, sizeof row->note, "an intended mistake that passed the check");
  return true;
}

/* ---- a row ---------------------------------------------------------------------------------- */

static bool run_row(const LabArrays *a, LabRow *row, Error *error) {
  const LabRung *rung = row->rung;
  const LabCall call = lab_arrays_call(a, row, 0);
  const ShortText refused = lab_refusal(rung, &call);
  double seconds = 0;
  if (rung->predicted) row->predicted = rung->predicted(&call);
  if (*refused.text) {
    row->outcome = LAB_REFUSED;
    snprintf(row->note, sizeof row->note, "%.255s", refused.text);
    return true;
  }
  if (rung->kind == LAB_MISTAKE && a->how->mode != LAB_PROFILE) return check_mistake(a, row, error);
  if (!check_once(a, row, &seconds, error)) return false;
  if (a->how->mode != LAB_TIMES || row->outcome == LAB_WRONG) return true;
  return lab_time(a, row, seconds, error);
}

/* ---- a table -------------------------------------------------------------------------------- */

/* Returns true if the row is to run. At extra sizes only the last rung and the libraries are. */
static bool is_wanted(const LabTable *table, const LabHow *how, const LabRow *row) {
  if (how->rung) return strcmp(row->rung->name, how->rung) == 0;
  if (!table->extra || row->rung->kind == LAB_LIBRARY) return true;
  const LabRung *end = table->topic->rungs + table->topic->rung_count;
  for (const LabRung *later = row->rung + 1; later < end; later++)
    if (later->kind == LAB_RUNG && lab_belongs(later, table->problem)) return false;
  return row->rung->kind == LAB_RUNG;
}

/* Runs the rows that are wanted, makes the lesson's measured column from the times of all, and then
   removes the other rows. */
static bool run_rows(const LabArrays *a, LabTable *table, Error *error) {
  const LabTopic *topic = table->topic;
  double seconds[LAB_ROWS];
  int kept = 0;
  for (int i = 0; i < table->count; i++) {
    LabRow *row = &table->rows[i];
    if (is_wanted(table, a->how, row) && !run_row(a, row, error)) return false;
    seconds[i] = row->seconds.median;
  }
  for (int i = 0; i < table->count; i++) {
    LabRow *row = &table->rows[i];
    if (topic->measured) row->measured = topic->measured(seconds, table->count, i);
    if (is_wanted(table, a->how, row)) table->rows[kept++] = *row;
  }
  table->count = kept;
  return true;
}

static cudaError_t open_streams(LabCall *call) {
  TRY(cudaStreamCreateWithFlags(&call->stream, cudaStreamNonBlocking));
  for (int i = 0; i < LAB_STREAMS; i++)
    TRY(cudaStreamCreateWithFlags(&call->streams[i], cudaStreamNonBlocking));
  return cudaEventCreateWithFlags(&call->event, cudaEventDisableTiming);
}

static void close_streams(const LabCall *call) {
  if (call->event) cudaEventDestroy(call->event);
  for (int i = 0; i < LAB_STREAMS; i++)
    if (call->streams[i]) cudaStreamDestroy(call->streams[i]);
  if (call->stream) cudaStreamDestroy(call->stream);
}

bool lab_measure(LabTable *table, const LabHow *how, Error *error) {
  const LabTopic *topic = table->topic;
  const char *refused = topic->refuse ? topic->refuse(table->problem, table->size) : NULL;
  if (refused) {
    const ShortText size =
        text_format(topic->rung_count ? " at %.72s" : "", lab_size_text(topic, table->size).text);
    snprintf(table->reason, sizeof table->reason, "%s%.80s: %.150s", topic->name, size.text,
             refused);
    return true;
  }
  LabArrays a;
  const bool opened = lab_arrays_open(&a, table, how, error) &&
                      (how->mode == LAB_PROFILE || lab_expect(&a, error)) &&
                      cuda_done(open_streams(&a.call), "creating streams", error),
             too_large = !opened && error->too_large;
  if (too_large) snprintf(table->reason, sizeof table->reason, "%.255s", error->text);
  const bool good = opened ? run_rows(&a, table, error) : too_large;
  close_streams(&a.call);
  lab_arrays_close(&a);
  return good;
}
