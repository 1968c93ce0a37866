#include "lab/harness.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

/* ---- which elements are looked at ----------------------------------------------------------- */

enum { FEW = 65536 };                   /* outputs of a range, at most */
enum { SAMPLE = 64, SAMPLES = 64 + 2 }; /* elements of a range, ranges */
static const double MANY_OPERATIONS = 4e9;

static int compare(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Chooses ranges in ascending order, so that the first wrong element found is the first there is.
 */
static void choose_ranges(LabReference *r, bool sampled) {
  for (int64_t i = 0; i < r->ranges; i++) {
    const RandomWords words = random_words(1, 0, (uint64_t)i);
    const uint64_t random = (uint64_t)words.word[1] << 32 | words.word[0];
    r->first[i] = !sampled ? i * r->length : (int64_t)(random % (uint64_t)(r->count - SAMPLE + 1));
  }
  if (!sampled) return;
  r->first[0] = 0;
  r->first[1] = r->count - SAMPLE;
  qsort(r->first, SAMPLES, sizeof *r->first, compare);
}

static int64_t length_of(const LabReference *r, int64_t range) {
  const int64_t left = r->count - r->first[range];
  return left < r->length ? left : r->length;
}

bool lab_reference_open(LabReference *reference, const LabArrays *arrays, Error *error) {
  const LabArrays *a = arrays;
  const LabProblem *problem = &a->topic->problems[a->problem];
  LabReference *r = reference;
  const int64_t count = a->topic->count(a->size, -1);
  const bool sampled = problem->operations(a->size) > MANY_OPERATIONS && count > FEW;
  *r = (LabReference){.arrays = a, .count = count};
  r->length = sampled ? SAMPLE : count < FEW ? count : FEW;
  r->ranges = sampled ? SAMPLES : (count + r->length - 1) / r->length;
  const size_t room = (size_t)(r->ranges * r->length) * sizeof(double);
  r->first = calloc((size_t)r->ranges, sizeof *r->first);
  r->expected = malloc(room);
  r->allowed = malloc(room);
  if (!r->first || !r->expected || !r->allowed)
    return error_set(error, "no memory for the expected output of %s at %s: give a smaller --size",
                     a->topic->name, lab_size_text(a->topic, a->size).text);
  choose_ranges(r, sampled);
#pragma omp parallel for schedule(dynamic)
  for (int64_t i = 0; i < r->ranges; i++)
    problem->reference(a->size, (const void *const *)a->h_in, r->first[i], length_of(r, i),
                       r->expected + i * r->length, r->allowed + i * r->length);
  return true;
}

void lab_reference_close(LabReference *reference) {
  free(reference->first);
  free(reference->expected);
  free(reference->allowed);
}

/* ---- an output ------------------------------------------------------------------------------ */

static double element(const LabArrays *a, int64_t i) {
  switch (a->topic->problems[a->problem].out) {
  case LAB_INT32:
    return ((const int32_t *)a->h_out)[i];
  case LAB_UINT32:
    return ((const uint32_t *)a->h_out)[i];
  default:
    return (double)((const float *)a->h_out)[i];
  }
}

/* Beyond float32's range an output is infinite, where that is what it holds. */
static bool is_right(double got, double expected, double allowed) {
  if (isnan(expected) || isnan(got)) return isnan(expected) && isnan(got);
  if (got == expected || fabs(got - expected) <= allowed) return true;
  return isinf(got) && fabs(expected) > (double)FLT_MAX && signbit(got) == signbit(expected);
}

/* In units of float32's spacing at `expected`, which below FLT_MIN is 2^-149. */
static double error_in_ulp(double got, double expected) {
  if (!isfinite(got) || !isfinite(expected) || fabs(expected) > (double)FLT_MAX) return 0;
  int exponent;
  frexp(expected, &exponent);
  if (expected == 0 || exponent < FLT_MIN_EXP) exponent = FLT_MIN_EXP;
  return fabs(got - expected) / ldexp(1, exponent - FLT_MANT_DIG);
}

/* Judges range i of the output. */
static LabVerdict check_range(const LabReference *r, const LabRung *rung, int64_t i) {
  const LabArrays *a = r->arrays;
  const int64_t first = r->first[i], count = length_of(r, i);
  const double *expected = r->expected + i * r->length, *allowed = r->allowed + i * r->length;
  double own[FEW]; /* the bounds that the rung has instead of the problem's */
  LabVerdict verdict = {.right = true};
  double ulp = 0;
  if (rung->allowed) {
    rung->allowed(a->problem, a->size, (const void *const *)a->h_in, first, count, expected, own);
    allowed = own;
  }
  for (int64_t k = 0; k < count; k++) {
    const double got = element(a, first + k);
    ulp = fmax(ulp, error_in_ulp(got, expected[k]));
    if (verdict.right && !is_right(got, expected[k], allowed[k]))
      verdict = (LabVerdict){false, first + k, expected[k], got, allowed[k], 0};
  }
  verdict.ulp = ulp;
  return verdict;
}

LabVerdict lab_check(const LabReference *reference, const LabRung *rung) {
  LabVerdict verdict = {.right = true};
#pragma omp parallel for schedule(dynamic)
  for (int64_t i = 0; i < reference->ranges; i++) {
    const LabVerdict found = check_range(reference, rung, i);
#pragma omp critical
    {
      const double ulp = fmax(verdict.ulp, found.ulp);
      if (!found.right && (verdict.right || found.index < verdict.index)) verdict = found;
      verdict.ulp = ulp;
    }
  }
  return verdict;
}
