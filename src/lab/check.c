#include "lab/harness.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

/* ---- which elements are looked at ----------------------------------------------------------- */

enum { FEW = 65536 };                   /* outputs that are computed in one call */
enum { SAMPLE = 64, SAMPLES = 64 + 2 }; /* elements of a range, ranges */
static const double MANY_OPERATIONS = 4e9;

static int compare(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Ranges in ascending order, so that the first wrong element found is the first there is. */
static bool choose_ranges(LabReference *r) {
  const double operations = r->topic->problems[r->problem].operations(r->size);
  const bool sampled = operations > MANY_OPERATIONS && r->count > FEW;
  r->length = sampled ? SAMPLE : r->count < FEW ? r->count : FEW;
  r->ranges = sampled ? SAMPLES : (r->count + r->length - 1) / r->length;
  r->first = calloc((size_t)r->ranges, sizeof *r->first);
  if (!r->first) return false;
  for (int64_t i = 0; i < r->ranges; i++) {
    const RandomWords words = random_words(1, 0, (uint64_t)i);
    const uint64_t random = (uint64_t)words.word[1] << 32 | words.word[0];
    r->first[i] = !sampled ? i * r->length : (int64_t)(random % (uint64_t)(r->count - SAMPLE + 1));
  }
  if (sampled) {
    r->first[0] = 0;
    r->first[1] = r->count - SAMPLE;
    qsort(r->first, (size_t)r->ranges, sizeof *r->first, compare);
  }
  return true;
}

static int64_t length_of(const LabReference *r, int64_t range) {
  const int64_t left = r->count - r->first[range];
  return left < r->length ? left : r->length;
}

bool lab_reference_open(LabReference *reference, const LabTopic *topic, int problem, LabSize size,
                        const void *const h_in[LAB_INPUTS], Error *error) {
  *reference = (LabReference){
      .topic = topic, .problem = problem, .size = size, .count = topic->count(size, -1)};
  memcpy(reference->h_in, h_in, sizeof reference->h_in);
  LabReference *r = reference;
  if (choose_ranges(r)) {
    const size_t room = (size_t)(r->ranges * r->length);
    r->expected = malloc(room * sizeof(double));
    r->allowed = malloc(room * sizeof(double));
  }
  if (!r->expected || !r->allowed)
    return error_set(error, "no memory for the expected output of %s at %s: give a smaller --size",
                     topic->name, lab_size_text(topic, size).text);
#pragma omp parallel for schedule(dynamic)
  for (int64_t i = 0; i < r->ranges; i++)
    topic->problems[problem].reference(size, r->h_in, r->first[i], length_of(r, i),
                                       r->expected + i * r->length, r->allowed + i * r->length);
  return true;
}

void lab_reference_close(LabReference *reference) {
  free(reference->first);
  free(reference->expected);
  free(reference->allowed);
  *reference = (LabReference){0};
}

/* ---- an output ------------------------------------------------------------------------------ */

static double element(LabType type, const void *h_values, int64_t i) {
  if (type == LAB_INT32) return ((const int32_t *)h_values)[i];
  if (type == LAB_UINT32) return ((const uint32_t *)h_values)[i];
  return (double)((const float *)h_values)[i];
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

/* Range i of the output. `allowed`: of its elements. */
static LabVerdict check_range(const LabReference *r, int64_t i, const double *allowed,
                              const void *h_out) {
  const LabType type = r->topic->problems[r->problem].out;
  const double *expected = r->expected + i * r->length;
  LabVerdict verdict = {.right = true};
  for (int64_t k = 0; k < length_of(r, i); k++) {
    const double got = element(type, h_out, r->first[i] + k);
    verdict.ulp = fmax(verdict.ulp, error_in_ulp(got, expected[k]));
    if (is_right(got, expected[k], allowed[k]) || !verdict.right) continue;
    verdict.right = false;
    verdict.index = r->first[i] + k;
    verdict.expected = expected[k];
    verdict.got = got;
    verdict.allowed = allowed[k];
  }
  return verdict;
}

/* The bound that the rung has instead of the problem's, for range i; the caller frees it. */
static double *allowed_by(const LabRung *rung, const LabReference *r, int64_t i) {
  double *allowed = malloc((size_t)r->length * sizeof *allowed);
  if (allowed)
    rung->allowed(r->problem, r->size, r->h_in, r->first[i], length_of(r, i),
                  r->expected + i * r->length, allowed);
  return allowed;
}

bool lab_check(const LabReference *reference, const LabRung *rung, const void *h_out,
               LabVerdict *verdict, Error *error) {
  const LabReference *r = reference;
  bool good = true;
  *verdict = (LabVerdict){.right = true};
#pragma omp parallel for schedule(dynamic)
  for (int64_t i = 0; i < r->ranges; i++) {
    double *own = rung->allowed ? allowed_by(rung, r, i) : NULL;
    const double *allowed = rung->allowed ? own : r->allowed + i * r->length;
    const LabVerdict found = allowed ? check_range(r, i, allowed, h_out) : (LabVerdict){0};
#pragma omp critical
    {
      if (!allowed) good = false;
      const double ulp = fmax(verdict->ulp, found.ulp);
      if (!found.right && (verdict->right || found.index < verdict->index)) *verdict = found;
      verdict->ulp = ulp;
    }
    free(own);
  }
  return good || error_set(error, "no memory for checking %s", rung->name);
}
