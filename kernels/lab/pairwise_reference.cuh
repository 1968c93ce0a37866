/* The pairs of pairwise.cu: their numbers, and what its rungs are checked against. */
#pragma once

#include <cmath>

#include "lab/lab.cuh"

namespace {

constexpr double UNIT = 0x1p-24; /* half the distance of float32 neighbours at 1 */

/* The pair index is proved for these; beyond them an error of d roundings would not be small. */
constexpr int64_t MOST = 65536;

__host__ __device__ int64_t pairs_of(int64_t n) {
  return n * (n - 1) / 2;
}

/* Pair (i, j) of n vectors lies at row_start(i, n) + j. */
__host__ __device__ int64_t row_start(int64_t i, int64_t n) {
  return i * (2 * n - i - 1) / 2 - i - 1;
}

/* ---- reference ----------------------------------------------------------------------------------

   Rounding, to first order in u = 2^-24: the difference has an error of u, its square 2 u, and the
   sum of d positive terms rounds each at most d times: (d + 2) u of the result, exactly gamma(d +
   2) with gamma(m) = m u / (1 - m u) (Higham 2002, lemma 3.1). It holds in any order. There is no
   cancellation; equal vectors are 0 apart. */

double gamma_of(double roundings) {
  return roundings * UNIT / (1.0 - roundings * UNIT);
}

double squared_difference(double a, double b) {
  return (a - b) * (a - b);
}

/* Returns the sum of term(a[k], b[k]) over d elements. */
template <class Term> double sum_terms(const float *a, const float *b, int64_t d, Term term) {
  double sum = 0.0;
  for (int64_t k = 0; k < d; k++) sum += term((double)a[k], (double)b[k]);
  return sum;
}

/* sums[pair - first] = the sum of term(a[k], b[k]) over the elements of each pair of a range. */
template <class Term> void sum_pairs(const LabRange *r, double *sums, Term term) {
  const int64_t n = r->size.dim[0], d = r->size.dim[1];
  const float *x = (const float *)r->h_in[0];
  int64_t i = 0, skipped = r->first;
  for (; i < n - 1 && skipped >= n - 1 - i; i++) skipped -= n - 1 - i;
  for (int64_t pair = 0, j = i + 1 + skipped; pair < r->count; pair++) {
    sums[pair] = sum_terms(x + i * d, x + j * d, d, term);
    if (++j == n) i++, j = i + 1;
  }
}

/* allowed = gamma(d + more) of the sums. */
void allow(const LabRange *r, int more, const double *sums) {
  for (int64_t pair = 0; pair < r->count; pair++)
    r->allowed[pair] = gamma_of((double)(r->size.dim[1] + more)) * sums[pair];
}

void reference(const LabRange *r) {
  sum_pairs(r, r->expected, squared_difference);
  allow(r, 2, r->expected);
}

/* |a|^2 + |b|^2 - 2 a.b: the squared norms are off by gamma(d) each, the product by gamma(d) times
   the sum of |a[k] b[k]|, two additions round what is at most the sum of all. Together gamma(d + 2)
   times the sum of (|a[k]| + |b[k]|)^2, the distance with magnitudes added where it subtracts: far
   more than the distance itself for near vectors far from the origin. */
void allowed_product(const LabRange *r) {
  sum_pairs(r, r->allowed, [](double a, double b) {
    const double both = fabs(a) + fabs(b);
    return both * both;
  });
  allow(r, 2, r->allowed);
}

/* With three vectors or more the last equals the first: 0 apart, which a product hardly ever finds.
 */
void fill(LabSize size, int, void *h_values, int64_t count, uint64_t seed) {
  const int64_t n = size.dim[0], d = size.dim[1];
  float *x = (float *)h_values;
  lab_fill(LAB_FLOAT32, x, count, seed);
  for (int64_t k = 0; n > 2 && k < d; k++) x[(n - 1) * d + k] = x[k];
}

/* ---- the triangle's index ----------------------------------------------------------------------

   Which pair is number k? Counted from the end, row r (0 is the last, of one pair) has r + 1 pairs
   and r (r + 1) / 2 behind it. With `left` pairs behind ours, sqrt(2 left) lies from r to below
   r + 2, about half a row away from both ends (r = 0 is exact). float32 cannot leave that range
   while r is below 2^22: its integer part is r or r + 1. One comparison in integers decides. */

struct Pair {
  int i, j;
};

__host__ __device__ Pair pair_of(int64_t k, int n) {
  const int64_t left = pairs_of(n) - 1 - k;
  int64_t r = (int64_t)sqrtf(2.0f * (float)left);
  if (r * (r + 1) / 2 > left) r--;
  return {(int)(n - 2 - r), (int)(n - 1 - (left - r * (r + 1) / 2))};
}

/* The same for tiles, of which those of the diagonal count: tile (i, j), i <= j, of a triangle of
   `tiles` rows is pair (i, j + 1) of tiles + 1. */
__device__ Pair tile_of(int64_t k, int tiles) {
  const Pair pair = pair_of(k, tiles + 1);
  return {pair.i, pair.j - 1};
}

} // namespace
