/* Divergence: what it costs when lanes of one warp take different branches. The slowdown is the
   number of distinct paths IN A WARP, however many lanes take each path. The work for an element is
   STEPS steps of y = y * y + c. The sequence is chaotic, so no compiler can shorten it. The code
   has this loop PATHS times, each with its own c. Only the launcher knows that all c are equal. */
#include <cmath>

#include "lab/lab.cuh"

namespace {

constexpr int PATHS = 32;
/* Choosing a path costs almost nothing beside so many rounds. */
constexpr int ROUND = 16, ROUNDS = 248, STEPS = ROUND * ROUNDS;
constexpr int BLOCK = 256;

/* With this c the sequence is chaotic and stays within +-2, even with rounding. */
constexpr float PARAMETER = -1.9375f;

/* The constant c of each path. All are equal. */
struct Parameters {
  float c[PATHS];
};

/* ---- reference -------------------------------------------------------------------------------
   The reference does the same float32 operations in the same order, so no bit may differ. */

__host__ __device__ float start_of(float x) {
  return x / (1.0f + fabsf(x));
}

float exact(float x) {
  float y = start_of(x);
  for (int step = 0; step < STEPS; step++) y = fmaf(y, y, PARAMETER);
  return y;
}

__device__ float orbit(float y, float c, int rounds = ROUNDS) {
#pragma unroll 1
  for (int round = 0; round < rounds; round++)
    unrolled (step, ROUND) y = fmaf(y, y, c);
  return y;
}

/* Grid: one thread per element, BLOCK per block. Neighbouring lanes have neighbouring elements.
   Lanes take COUNT paths; groups of EACH neighbouring lanes take the same path. If COUNT is 1, all
   lanes take path `zero`. `zero` is an argument, so that the compiler keeps the other paths. */
template <int EACH, int COUNT>
__global__ void __launch_bounds__(BLOCK)
    branches(const float *__restrict__ d_x, float *__restrict__ d_out, int64_t n,
             const __grid_constant__ Parameters parameters, int zero) {
  const int64_t i = lab_thread(BLOCK);
  if (i >= n) return;
  const int path = COUNT > 1 ? (unsigned)i / EACH % COUNT : zero;
  float y = start_of(d_x[i]);
  unrolled (p, PATHS)
    if (path == p) y = orbit(y, parameters.c[p]);
  d_out[i] = y;
}

/* Splits an element's rounds between two loops. A warp stays in a loop until its last lane leaves.
   If DIVERGENT, lane 0 has no round in the first loop and lane 31 has them all. */
template <bool DIVERGENT>
__global__ void __launch_bounds__(BLOCK)
    two_loops(const float *__restrict__ d_x, float *__restrict__ d_out, int64_t n,
              const __grid_constant__ Parameters parameters) {
  const int64_t i = lab_thread(BLOCK);
  if (i >= n) return;
  const int first = DIVERGENT ? (unsigned)i % 32 * (ROUNDS / 31) : ROUNDS / 2;
  d_out[i] =
      orbit(orbit(start_of(d_x[i]), parameters.c[0], first), parameters.c[1], ROUNDS - first);
}

template <auto KERNEL, int... MORE> cudaError_t launch(const LabCall *call) {
  Parameters parameters;
  for (float &c : parameters.c) c = PARAMETER;
  return lab_map(call, KERNEL, lab_grid(call, BLOCK), BLOCK, parameters, MORE...);
}

const LabProblem problems[] = {{LAB_FLOATS, lab_each<2 * STEPS>, lab_exactly<exact>}};

constexpr char AROUND[] =
    "the work before and after the branch is counted, too, and takes one path";

/* The prediction is the number of distinct paths in a warp. */
const LabRung rungs[] = {
    {"same", "All lanes take the same branch: the other rungs are compared with this one",
     launch<branches<1, 1>, 0>, lab_value<1>},
    {"even-odd", "Neighbours take two branches: the warp runs both, one after the other",
     launch<branches<1, 2>, 0>, lab_value<2>},
    {"lane", "Each lane of a warp takes a branch of its own: 31 of 32 lanes always wait",
     launch<branches<1, 32>, 0>, lab_value<32>, .differs = AROUND},
    {"lane-8",
     "Four branches per warp, eight lanes each: the number of branches counts, not the number of "
     "lanes",
     launch<branches<8, 4>, 0>, lab_value<4>, .differs = AROUND},
    {"warp", "32 branches again, but a warp takes only one: divergence between warps is free",
     launch<branches<32, PATHS>, 0>, lab_value<1>},
    {"loops", "Two loops without a branch, half of the work in each", launch<two_loops<false>>,
     lab_value<1>},
    {"loops-divergent",
     "The same loops, split differently in each lane: the longest lane decides twice",
     launch<two_loops<true>>, lab_value<2>}};

} // namespace

const LabTopic lab_divergence = {"divergence",
                                 "What it costs when the lanes of a warp take different branches",
                                 "elements",
                                 LAB_GFLOP_PER_S,
                                 LAB_LADDER,
                                 .sizes = {lab_size(1 << 21)},
                                 .tested = lab_size(3000),
                                 .refuse = lab_refuse_grid<BLOCK>,
                                 .predicted_name = "paths per warp",
                                 .counted = LAB_COUNTS_PATHS,
                                 .metric = "smsp__thread_inst_executed_per_inst_executed.ratio",
                                 .metric_name = "lanes active per instruction"};
