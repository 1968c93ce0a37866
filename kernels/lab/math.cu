/* Mathematical functions on FP64 units, in ordinary float instructions, and on special function
   units (MUFU): what each costs in cycles and how large its error is. In `x / (y + 1e-300)` the
   literal has no f, so the GPU divides doubles. */
#include "lab/math.cuh"

#include <float.h>
#include <math.h>

namespace {

enum Arithmetic { DOUBLE, FLOAT, INTRINSIC, FAST }; /* the rungs */

/* Returns the spacing of floats at `value`. Just below a power of 2 it returns the spacing above
   the power, because a result with an error may lie there. */
double ulp_at(double value) {
  int exponent = FLT_MIN_EXP;
  if (fabs(value) >= (double)FLT_MIN) frexp(fabs(value) * (1 + 0x1p-16), &exponent);
  return ldexp(1.0, exponent - FLT_MANT_DIG);
}

/* Returns the allowed error. The CUDA C++ Programming Guide gives errors against the correctly
   rounded result, so half an ulp is added. No result is subnormal. */
double error_of(Arithmetic arithmetic, int function, double x, double expected) {
  constexpr double STANDARD[FUNCTIONS] = {2.0, 1.0, 2.0, 0.0, 0.0};
  constexpr double ABSOLUTE = 0x1.8158p-22; /* 2^-21.41 */
  const double ulp = ulp_at(expected), rounding = (0.5 + 0x1p-26) * ulp;
  if (arithmetic == DOUBLE) return rounding;
  if (arithmetic == FLOAT) return rounding + STANDARD[function] * ulp;
  if (function == EXP) return rounding + (2.0 + floor(fabs(1.173 * x))) * ulp;
  if (function == LOG) return rounding + (x >= 0.5 && x <= 2.0 ? ABSOLUTE : 3.0 * ulp);
  if (function == SIN) return rounding + ABSOLUTE; /* for x from -pi to pi */
  return rounding + 2.0 * ulp; /* of sqrt.approx PTX says 2^-23 of the result: at most an ulp */
}

template <Arithmetic ARITHMETIC> void allowed_of(const LabRange *r) {
  const float *x = (const float *)r->h_in[0] + r->first;
  for (int64_t i = 0; i < r->count; i++)
    r->allowed[i] = error_of(ARITHMETIC, r->problem, x[i], r->expected[i]);
}

void reference(const LabRange *r) {
  const int64_t first = r->first;
  const float *x = (const float *)r->h_in[0] + first;
  const float *y = r->problem == DIVISION ? (const float *)r->h_in[1] + first : x;
  for (int64_t i = 0; i < r->count; i++) r->expected[i] = standard<double>(r->problem, x[i], y[i]);
  allowed_of<FLOAT>(r);
}

/* ---- the inputs ---------------------------------------------------------------------------------
   Every rung gives a defined result for every input. An input is 0 or a normal number. Divisors are
   at most 2^126, the limit of __fdividef. */

constexpr int HARD = 12;
/* One row per function, and one for the divisors. */
constexpr float hard[FUNCTIONS + 1][HARD] = {
    {0.0f, -0.0f, 1.0f, -1.0f, 88.0f, -87.0f, 0.34657359f, -0.34657359f, 0.6931472f, 0x1p-126f,
     -86.9f, 87.5f},
    {1.0f, 1.0f + 0x1p-23f, 1.0f - 0x1p-24f, 0.5f, 2.0f, 0x1p-126f, FLT_MAX, 1.4142135f,
     0.70710677f, 1.0001f, 0.9999f, 1e-30f},
    {0.0f, -0.0f, 1.0f, -1.0f, 0.1f, -0.1f, 1.5707964f, -1.5707964f, 3.1415925f, -3.1415925f, 1e-3f,
     1e-30f},
    {0.0f, 1.0f, 2.0f, 4.0f, 1.0f + 0x1p-23f, 1.0f - 0x1p-24f, 0x1p-126f, FLT_MAX, 1e-30f, 1e30f,
     3.0f, 0.25f},
    {1.0f, 1.0f, FLT_MAX, 3.0f, -1.0f, 0.0f, 1e30f, 0x1p-20f, 0x1p-120f, 1.0f, -2.0f, FLT_MAX},
    {3.0f, 0x1p125f, 2.0f, -7.0f, 2.0f - 0x1p-23f, 5.0f, 1e-7f, 0x1p-126f, 1.0f, 0.1f, 0x1p-126f,
     FLT_MAX / 8}};

template <int FUNCTION>
void fill(LabSize, int array, void *h_values, int64_t count, uint64_t seed) {
  lab_draw(h_values, count, seed, array, [=](int64_t i, uint32_t random) {
    const double u = random * 0x1p-32;
    double value;
    if (FUNCTION == EXP) value = 175 * u - 87;
    if (FUNCTION == LOG) value = i % 2 ? 0.5 + 1.5 * u : exp2(80 * u - 40);
    if (FUNCTION == SIN)
      value = 6.28 * u - 3.14; /* the guide bounds __sinf's error from -pi to pi */
    if (FUNCTION == SQRT) value = exp2(80 * u - 40);
    if (FUNCTION == DIVISION) value = exp2(40 * u - 20) * (i % 3 == array ? -1 : 1);
    return i < HARD ? hard[FUNCTION + array][i] : (float)value;
  });
}

/* The functions, each with one accidental double literal, which makes them compute in double. */
struct Accident {
  static __device__ float apply(int function, float x, float y) {
    return (float)standard(function, 1.0 * x, y + 1e-300); /* "so that it is never 0" */
  }
};

/* Returns an approximate square root. C++ has no intrinsic for this instruction of PTX. */
__device__ float fast_sqrt(float x) {
  float root;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(x));
  return root;
}

/* The intrinsics: special function units with as few other instructions as possible. */
struct Intrinsic {
  static __device__ float apply(int function, float x, float y) {
    if (function == EXP) return __expf(x);
    if (function == LOG) return __logf(x);
    if (function == SIN) return __sinf(x);
    return function == SQRT ? fast_sqrt(x) : __fdividef(x, y);
  }
};

/* Returns a scheduler's cycles per warp and function call, counted in sm_90's machine code. */
template <Arithmetic ARITHMETIC> double cycles(const LabCall *call) {
  constexpr double CYCLES[][FUNCTIONS] = {
      {32, 85, 45, 24, 32}, {10, 28, 26, 11, 14}, {8, 8, 8, 8, 12}, {8, 8, 8, 8, 8}};
  return CYCLES[ARITHMETIC][call->problem];
}

const LabRung rungs[] = {
    {"double", "A literal without an f makes the whole function compute in double",
     launch_math<Accident>, cycles<DOUBLE>, .allowed = allowed_of<DOUBLE>},
    {"float", "With the f the function computes in float, right to 2 ulp", launch_math<Float>,
     cycles<FLOAT>},
    {"intrinsic",
     "The special function units alone: fastest, off by a few ulp at best, and wrong in every "
     "digit where log is near 0",
     launch_math<Intrinsic>, cycles<INTRINSIC>, .allowed = allowed_of<INTRINSIC>},
    {"fast-math",
     "The source of `float` with -use_fast_math: it uses intrinsics everywhere and loses subnormal "
     "numbers, and the source does not show it",
     lab_math_fast, cycles<FAST>, .allowed = allowed_of<FAST>}};

template <int FUNCTION> constexpr LabProblem problem(const char *name) {
  return {name,        {LAB_FLOAT32, FUNCTION == DIVISION ? LAB_FLOAT32 : LAB_NOTHING},
          LAB_FLOAT32, lab_each<REPEATS>, /* calls of the function */
          reference,   fill<FUNCTION>};
}

const LabProblem problems[FUNCTIONS] = {problem<EXP>("exp"), problem<LOG>("log"),
                                        problem<SIN>("sin"), problem<SQRT>("sqrt"),
                                        problem<DIVISION>("division")};

} // namespace

const LabTopic lab_math = {
    "math",
    "Exponential, logarithm, sine, root, quotient: error and speed side by side",
    "elements",
    LAB_GFLOP_PER_S,
    LAB_LADDER,
    .sizes = {lab_size(1 << 22)},
    .tested = lab_size(5000),
    .predicted_name = "cycles per warp",
    .shows_ulp = true,
    .metric = "smsp__inst_executed.sum",
    .metric_name = "warp instructions"};
