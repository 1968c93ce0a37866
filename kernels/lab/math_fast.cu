/* The last rung of the topic math (math.cu): the functions for float, in a file compiled with
   -use_fast_math. */
#include "lab/math.cuh"

cudaError_t lab_math_fast(const LabCall *call) {
  return launch_math<Float>(call);
}
