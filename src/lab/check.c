#include "lab/harness.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/random.h"

/* ---- which elements are looked at ----------------------------------------------------------- */

enum { FEW = 65536 };                   /* outputs of a range, at most */
enum { SAMPLE = 64, SAMPLES = 64 + 2 }; /* elements of a range, ranges */
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

bool lab_expect(LabArrays *arrays, Error *error) {
  LabArrays *a = arrays;
  const LabProblem *problem = &a->topic->problems[a->call.problem];
  a->count = lab_count(a->topic, a->call.problem, a->call.size, -1);
  a->sampled =
      problem->operations(a->call.size) > MANY_OPERATIONS && (double)a->count > MANY_OUTPUTS;
  a->length = a->sampled ? SAMPLE : a->count < FEW ? a->count : FEW;
  a->ranges = a->sampled ? SAMPLES : (a->count + a->length - 1) / a->length;
  const size_t room = (size_t)(a->ranges * a->length) * sizeof(double);
  a->expected = malloc(room);
  a->allowed = malloc(room);
  if (!a->expected || !a->allowed)
    return error_set(error, "no memory for the expected output of %s at %s: give a smaller --size",
                     a->topic->name, lab_size_text(a->topic, a->call.size).text);
#pragma omp parallel for schedule(dynamic)
  for (int64_t i = 0; i < a->ranges; i++) {
    const LabRange range = range_of(a, i);
    problem->reference(&range);
  }
  return true;
}

/* ---- an output ------------------------------------------------------------------------------ */

static double element(const LabArrays *a, int64_t i) {
  switch (a->topic->problems[a->call.problem].out) {
  case LAB_INT32:
    return ((const int32_t *)a->h_out)[i];
  case LAB_UINT32:
    return ((const uint32_t *)a->h_out)[i];
  default:
    return ((const float *)a->h_out)[i];
  }
}

/* An output that is expected beyond float32's range must be infinite. */
static bool is_right(double got, double expected, double allowed) {
  if (isnan(expected) || isnan(got)) return isnan(expected) && isnan(got);
  if (got == expected || fabs(got - expected) <= allowed) return true;
  return isinf(got) && fabs(expected) > FLT_MAX && signbit(got) == signbit(expected);
}

/* Returns the error in units of float32's spacing at `expected`, which is 2^-149 below FLT_MIN. */
static double error_in_ulp(double got, double expected) {
  if (!isfinite(got) || !isfinite(expected) || fabs(expected) > FLT_MAX) return 0;
  int exponent;
  frexp(expected, &exponent);
  if (expected == 0 || exponent < FLT_MIN_EXP) exponent = FLT_MIN_EXP;
  return fabs(got - expected) / ldexp(1, exponent - FLT_MANT_DIG);
}

/* Judges range i of the output. */
static LabVerdict check_range(const LabArrays *a, const LabRung *rung, int64_t i) {
  LabRange r = range_of(a, i);
  double own[FEW]; /* the bounds that the rung has instead of the problem's */
  LabVerdict verdict = {.right = true};
  double ulp = 0;
  if (rung->allowed) {
    r.allowed = own;
    rung->allowed(&r);
  }
  for (int64_t k = 0; k < r.count; k++) {
    const double got = element(a, r.first + k);
    ulp = fmax(ulp, error_in_ulp(got, r.expected[k]));
    if (verdict.right && !is_right(got, r.expected[k], r.allowed[k]))
      verdict = (LabVerdict){false, r.first + k, r.expected[k], got, r.allowed[k], 0};
  }
  verdict.ulp = ulp;
  return verdict;
}

LabVerdict lab_check(const LabArrays *arrays, const LabRung *rung) {
  LabVerdict verdict = {.right = true};
#pragma omp parallel for schedule(dynamic)
  for (int64_t i = 0; i < arrays->ranges; i++) {
    const LabVerdict found = check_range(arrays, rung, i);
#pragma omp critical
    {
      const double ulp = fmax(verdict.ulp, found.ulp);
      if (!found.right && (verdict.right || found.index < verdict.index)) verdict = found;
      verdict.ulp = ulp;
    }
  }
  return verdict;
}
