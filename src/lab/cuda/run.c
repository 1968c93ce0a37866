/* Runs rungs, on a GPU or on the emulator, and judges their output. */
#include "lab/harness.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "engine/cuda/cuda_error.h"

enum { FEW = 65536 };                   /* maximum number of outputs in a range */
enum { SAMPLE = 64, SAMPLES = 64 + 2 }; /* outputs per sampled range; number of sampled ranges */
static const double MANY_OPERATIONS = 4e9, MANY_OUTPUTS = 2048;

static int64_t first_of(const LabArrays *a, int64_t range) {
  if (!a->sampled || range == 0) return range * a->length;
  if (range == 1) return a->count - SAMPLE;
  const RandomWords words = random_words(1, 0, (uint64_t)range);
  const uint64_t random = (uint64_t)words.word[1] << 32 | words.word[0];
  return (int64_t)(random % (uint64_t)(a->count - SAMPLE + 1));
}

static LabRange range_of(const LabArrays *a, int64_t i) {
  const int64_t first = first_of(a, i), left = a->count - first;
  return (LabRange){.problem = a->call.problem,
                    .size = a->call.size,
                    .h_in = (const void *const *)a->h_in,
                    .first = first,
                    .count = left < a->length ? left : a->length,
                    .expected = a->expected + i * a->length,
                    .allowed = a->allowed + i * a->length};
}

/* Computes the expected output. lab_arrays_close frees it. */
static bool expect(LabArrays *a, Error *error) {
  a->count = lab_count(a->topic, a->call.problem, a->call.size, -1);
  a->sampled =
      a->problem->operations(a->call.size) > MANY_OPERATIONS && (double)a->count > MANY_OUTPUTS;
  a->length = a->count < FEW ? a->count : FEW;
  if (a->sampled) a->length = SAMPLE;
  a->ranges = a->sampled ? SAMPLES : (a->count + a->length - 1) / a->length;
  const size_t room = (size_t)(a->ranges * a->length) * sizeof(double);
  a->expected = malloc(room);
  a->allowed = malloc(room);
  if (!a->expected || !a->allowed)
    return error_set(error, "no memory for the expected output of %s at %s: give a smaller --size",
                     a->topic->name, lab_size_text(a->topic, a->call.size).text);
    /* The reference of a single range may itself use all cores (lab_in_parts). */
#pragma omp parallel for schedule(dynamic) if (a->ranges > 1)
  for (int64_t i = 0; i < a->ranges; i++) {
    const LabRange range = range_of(a, i);
    a->problem->reference(&range);
  }
  return true;
}

static double element(const LabArrays *a, int64_t i) {
  return a->problem->out == LAB_UINT32 ? ((const uint32_t *)a->h_out)[i]
                                       : (double)((const float *)a->h_out)[i];
}

/* An output may be infinite if the expected value is beyond float32's range. */
static bool is_right(double got, double expected, double allowed) {
  if (isnan(expected) || isnan(got)) return isnan(expected) && isnan(got);
  if (got == expected || fabs(got - expected) <= allowed) return true;
  return isinf(got) && fabs(expected) > FLT_MAX && signbit(got) == signbit(expected);
}

/* Returns the error in ulps. An ulp is float32's spacing at `expected` (2^-149 if subnormal). It is
   called for every output of every rung, where frexp() and ldexp() would take most of the time. */
static double error_in_ulp(double got, double expected) {
  static const uint64_t EXPONENT = (uint64_t)0x7ff << 52;
  if (got == expected || !isfinite(got) || !(fabs(expected) <= FLT_MAX)) return 0;
  uint64_t bits;
  double power; /* the largest power of two that is not above |expected| */
  memcpy(&bits, &expected, sizeof bits);
  bits &= EXPONENT;
  memcpy(&power, &bits, sizeof power);
  const double ulp = FLT_EPSILON * power;
  return fabs(got - expected) / (ulp > FLT_TRUE_MIN ? ulp : FLT_TRUE_MIN);
}

typedef struct {
  int64_t wrong; /* index of the first wrong element, or INT64_MAX */
  double expected, got, allowed;
  double ulp; /* the largest error of a float32 output, in units in the last place */
} Verdict;

static Verdict check(const LabArrays *a, const LabRung *rung) {
  Verdict verdict = {.wrong = INT64_MAX};
#pragma omp parallel for schedule(dynamic)
  for (int64_t i = 0; i < a->ranges; i++) {
    LabRange r = range_of(a, i);
    double own[FEW]; /* the rung's own allowed errors, if rung->allowed is set */
    Verdict found = {.wrong = INT64_MAX};
    if (rung->allowed) {
      r.allowed = own;
      rung->allowed(&r);
    }
    for (int64_t k = 0; k < r.count; k++) {
      const double got = element(a, r.first + k), ulp = error_in_ulp(got, r.expected[k]);
      if (found.wrong == INT64_MAX && !is_right(got, r.expected[k], r.allowed[k]))
        found = (Verdict){r.first + k, r.expected[k], got, r.allowed[k], found.ulp};
      if (ulp > found.ulp) found.ulp = ulp; /* fmax() would be a call */
    }
#pragma omp critical
    {
      const double ulp = fmax(verdict.ulp, found.ulp);
      if (found.wrong < verdict.wrong) verdict = found;
      verdict.ulp = ulp;
    }
  }
  return verdict;
}

/* Sets the row's "check" to the outcome or, if the outcome is LAB_RIGHT, removes "check". Sets the
   row's "note", unless `note` is "". */
static void set_outcome(const LabRow *row, const char *outcome, const char *note) {
  json_object_del(row->line, "check");
  if (strcmp(outcome, LAB_RIGHT) != 0) record_text(row->line, "check", outcome);
  record_text(row->line, "note", *note ? note : NULL);
}

static bool is_wrong(const LabRow *row) {
  return text_is(row->line, "check", LAB_WRONG);
}

/* Runs a row's rung once. The returned error may come from an earlier kernel. */
static cudaError_t run_once(const LabArrays *a, const LabRow *row, LabRecord *record,
                            ShortText *note, double *seconds) {
  LabCall call = lab_arrays_call(a, row->rung, row->point, 0);
  call.record = record;
  const double start = seconds_now();
  lab_watch(a, row, true);
  const cudaError_t launched = row->rung->launch(&call);
  *note = lab_watch(a, row, false);
  TRY(launched);
  TRY(cudaStreamSynchronize(call.stream));
  *seconds = seconds_now() - start;
  return cudaDeviceSynchronize(); /* waits for the rung's work on other streams */
}

/* Records a failed call as the row's outcome. Returns false if the GPU is no longer usable. */
static bool take_failure(const LabArrays *a, const LabRow *row, cudaError_t status,
                         const ShortText *note, Error *error) {
  cudaGetLastError(); /* clears the error, so that the next launch does not report it again */
  const cudaError_t after = cudaDeviceSynchronize();
  if (after != cudaSuccess)
    return error_set(
        error, "rung %s of topic %s stopped the GPU (%s): nothing more can run in this process",
        row->rung->name, a->topic->name, cudaGetErrorString(status));
  set_outcome(row, LAB_WRONG,
              *note->text ? note->text
                          : text_format("its launch failed: %s", cudaGetErrorString(status)).text);
  return true;
}

/* Copies the outputs that are checked to the host. Sampled ones can be few of billions. */
static bool fetch(const LabArrays *a, const LabRung *rung, Error *error) {
  if (!a->sampled) return lab_arrays_fetch(a, rung, 0, a->count, error);
  for (int64_t i = 0; i < a->ranges; i++)
    if (!lab_arrays_fetch(a, rung, first_of(a, i), a->length, error)) return false;
  return true;
}

/* Judges the output of the row's latest run. `note` is the result of lab_watch. */
static bool judge(const LabArrays *a, const LabRow *row, const ShortText *note, Error *error) {
  const char *outside;
  if (!lab_arrays_inspect(a, &outside, error) || !fetch(a, row->rung, error)) return false;
  if (!outside && *note->text) outside = note->text;
  if (outside || row->rung->kind == LAB_PART) {
    if (outside)
      set_outcome(row, LAB_WRONG, outside);
    else
      set_outcome(row, LAB_UNCHECKED, "");
    return true;
  }
  const Verdict v = check(a, row->rung);
  record_number(row->line, "ulp", v.ulp);
  if (v.wrong == INT64_MAX)
    set_outcome(row, LAB_RIGHT, "");
  else
    set_outcome(row, LAB_WRONG,
                text_format("element %lld is %.9g, expected %.9g (allowed %.3g)",
                            (long long)v.wrong, v.got, v.expected, v.allowed)
                    .text);
  return true;
}

/* Runs the row's rung, judges its output, and sets *seconds to the time of the run. */
static bool check_once(const LabArrays *a, const LabRow *row, double *seconds, Error *error) {
  LabRecord record = {0};
  ShortText note;
  if (!lab_arrays_poison(a, error)) return false;
  const cudaError_t status = run_once(a, row, &record, &note, seconds);
  if (status != cudaSuccess) return take_failure(a, row, status, &note, error);
  return (!lab_add_occupancy ||
          cuda_done(lab_add_occupancy(row, &record), "asking for the occupancy", error)) &&
         judge(a, row, &note, error);
}

static bool run_row(const LabArrays *a, const LabRow *row, Error *error) {
  const LabRung *rung = row->rung;
  const LabCall call = lab_arrays_call(a, rung, row->point, 0);
  const ShortText refused = lab_refusal(rung, &call);
  double seconds = 0;
  if (rung->predicted) record_number(row->line, "predicted", rung->predicted(&call));
  if (*refused.text) {
    set_outcome(row, LAB_REFUSED, refused.text);
    return true;
  }
  if (!check_once(a, row, &seconds, error)) return false;
  return !lab_time || !a->how->times || is_wrong(row) || lab_time(a, row, seconds, error);
}

static bool is_refused(const LabArrays *a, const LabRung *rung) {
  const LabCall call = lab_arrays_call(a, rung, 0, 0);
  return *lab_refusal(rung, &call).text != '\0';
}

/* With how->last, libraries are wanted, rungs of all sizes, and the last rung that can run this
   size. So is a rung that refuses the ladder's size, or the record would have no time of it. */
static bool is_wanted(const LabArrays *a, const LabRung *rung) {
  const LabTopic *topic = a->topic;
  if (a->how->rung) return strcmp(rung->name, a->how->rung) == 0;
  if (!a->how->last || rung->kind == LAB_LIBRARY || rung->all_sizes) return true;
  if (rung->kind != LAB_RUNG || is_refused(a, rung)) return false;
  LabArrays ladder = *a;
  ladder.call.size = topic->sizes[0];
  if (is_refused(&ladder, rung)) return true;
  for (const LabRung *later = rung + 1; later < topic->rungs + topic->rung_count; later++)
    if (later->kind == LAB_RUNG && lab_belongs(later, a->call.problem) && !is_refused(a, later))
      return false;
  return true;
}

/* Runs the rows, which lab_table made, in their order. Removes rows that are not wanted. */
static bool run_rows(const LabArrays *a, json_t *rows, Error *error) {
  size_t i = 0;
  foreach_rung (rung, a->topic)
    for (int p = 0;
         lab_belongs(rung, a->call.problem) && p < (rung->points ? rung->point_count : 1); p++) {
      const LabRow row = {rung, rung->points ? rung->points[p] : 0, json_array_get(rows, i)};
      if (!is_wanted(a, rung))
        json_array_remove(rows, i);
      else if (i++, !run_row(a, &row, error))
        return false;
    }
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

/* Replaces a table's rows by the reason why they did not run. */
static bool set_reason(json_t *table, const char *reason) {
  json_array_clear(json_object_get(table, "rows"));
  record_text(table, "reason", reason);
  return true;
}

bool lab_measure(json_t *table, const LabTopic *topic, int problem, LabSize size, const LabHow *how,
                 Error *error) {
  const char *refused = topic->refuse ? topic->refuse(problem, size) : NULL;
  LabArrays a;
  if (refused)
    return set_reason(
        table,
        text_format("%s at %s: %s", topic->name, lab_size_text(topic, size).text, refused).text);
  bool good = lab_arrays_open(&a, topic, problem, size, how, error) && expect(&a, error) &&
              cuda_done(open_streams(&a.call), "creating streams", error);
  good = good ? run_rows(&a, json_object_get(table, "rows"), error)
              : error->too_large && set_reason(table, error->text);
  close_streams(&a.call);
  lab_arrays_close(&a);
  return good;
}
