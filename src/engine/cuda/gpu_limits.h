/* The limits of the GPU that plans use. */
#pragma once

#include "base/error.h"
#include "kernels.h"

/* Reads the limits of the current device, then calls gpu_limits_lower(). */
bool gpu_limits_read(GpuLimits *limits, Error *error);

/* Lowers limits to what the environment says, so that tests on a large GPU plan as on a small one.
   MLP_TEST_GPU=KB:N sets KB of shared memory per block, at least 64, and N multiprocessors. With
   less shared memory than the GPU has, there are no clusters, as on GPUs before 9.0.
   MLP_TEST_WIDE=always or never sets the use of wide kernels. Returns false for any other value. */
bool gpu_limits_lower(GpuLimits *limits, Error *error);
