/* Divergence: what it costs when lanes of one warp take different branches. The number of distinct
   paths IN A WARP is the slowdown, however many lanes take each. An element's work is an orbit of y
   = y y + c, STEPS times: chaotic, so that no compiler shortens it. It stands in the kernel PATHS
   times, each with a parameter of its own. Only the launcher knows that all are the same. */
#include <cmath>

#include "lab/lab.cuh"

namespace {

constexpr int PATHS = 32;
/* Rounds are many, so that tests for the path do not count, and l / 31 of them are whole. */
constexpr int ROUND = 16, ROUNDS = 8 * 31, STEPS = ROUND * ROUNDS;
constexpr int BLOCK = 256;

/* The orbit is chaotic here and stays within +-2; rounding does not make it leave, either. */
constexpr float PARAMETER = -1.9375f;

/* One parameter per path, all the same: see above. */
struct Parameters {
  float c[PATHS];
};

/* ---- reference -------------------------------------------------------------------------------
   The same float32 operations in the same order, all exactly defined: not one bit may differ. */

__host__ __device__ float start_of(float x) {
  return x / (1.0f + fabsf(x));
}

float exact(float x) {
  float y = start_of(x);
  for (int step = 0; step < STEPS; step++) y = fmaf(y, y, PARAMETER);
  return y;
}

__device__ float orbit(float y, float c, int rounds) {
#pragma unroll 1
  for (int round = 0; round < rounds; round++)
    unrolled (step, ROUND) y = fmaf(y, y, c);
  return y;
}

/* ---- 1 to 5. branches ------------------------------------------------------------------------
   Grid: all elements, BLOCK per block. Lane: the element next to its neighbour's, in every rung. */

/* EACH neighbours take the same of COUNT paths. Of one, only the GPU knows which it is. */
template <int EACH, int COUNT>
__global__ void __launch_bounds__(BLOCK)
    branches(const float *__restrict__ d_x, float *__restrict__ d_out, int64_t n,
             const __grid_constant__ Parameters parameters, int zero) {
  const int64_t i = lab_thread(BLOCK);
  if (i >= n) return;
  const int path = COUNT > 1 ? (unsigned)i / EACH % COUNT : zero;
  float y = start_of(d_x[i]);
  unrolled (p, PATHS)
    if (path == p) y = orbit(y, parameters.c[p], ROUNDS);
  d_out[i] = y;
}

/* ---- 6, 7. two loops of equal work -----------------------------------------------------------
   An element's rounds are split between two loops, the same work for every lane and every split. A
   loop without a branch diverges, too, if its lanes leave it at different times. */

/* DIVERGENT: from none of the rounds in lane 0 to all in lane 31; otherwise half in every lane. */
template <bool DIVERGENT>
__global__ void __launch_bounds__(BLOCK)
    two_loops(const float *__restrict__ d_x, float *__restrict__ d_out, int64_t n,
              const __grid_constant__ Parameters parameters) {
  const int64_t i = lab_thread(BLOCK);
  if (i >= n) return;
  const int first = DIVERGENT ? (unsigned)i % 32 * (ROUNDS / 31) : ROUNDS / 2;
  const float y = orbit(start_of(d_x[i]), parameters.c[0], first);
  d_out[i] = orbit(y, parameters.c[1], ROUNDS - first);
}

template <auto KERNEL, int... MORE> cudaError_t launch(const LabCall *call) {
  Parameters parameters;
  for (float &c : parameters.c) c = PARAMETER;
  return lab_map(call, KERNEL, lab_grid(call, BLOCK), BLOCK, parameters, MORE...);
}

const LabProblem problems[] = {{LAB_FLOATS, lab_each<2 * STEPS>, lab_exactly<exact>}};

/* Predicted: paths in a warp, which stays in each of two loops as long as its slowest lane. */
const LabRung rungs[] = {
    {"same", "All lanes take the same branch: what the others are measured against",
     launch<branches<1, 1>, 0>, lab_value<1>},
    {"even-odd", "Neighbours take two branches: the warp runs both, one after the other",
     launch<branches<1, 2>, 0>, lab_value<2>},
    {"lane", "Each lane of a warp takes a branch of its own: 31 of 32 lanes always wait",
     launch<branches<1, 32>, 0>, lab_value<32>},
    {"lane-8",
     "Four branches per warp, eight lanes each: it is the branches that count, not the lanes",
     launch<branches<8, 4>, 0>, lab_value<4>},
    {"warp", "32 branches again, but a warp takes only one: divergence between warps is free",
     launch<branches<32, PATHS>, 0>, lab_value<1>},
    {"loops", "The work in two loops, half each in every lane", launch<two_loops<false>>,
     lab_value<1>},
    {"loops-divergent",
     "The same two loops, split differently in each lane: the longest lane decides in both",
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
