/* The last rung of math.cu: the float functions, compiled with -use_fast_math. */
#include "lab/math.cuh"

cudaError_t lab_math_fast(const LabCall *call) {
  return launch_math<Float>(call);
}
