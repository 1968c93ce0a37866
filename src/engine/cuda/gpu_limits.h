/* The limits of the GPU that planning goes by. */
#pragma once

#include "base/error.h"
#include "kernels.h"

/* The limits of the current device, then gpu_limits_lower(). */
bool gpu_limits_read(GpuLimits *limits, Error *error);

/* Lowers limits to what variables of the environment say, so that a test on a large GPU plans
   as on a small one. They never raise a limit. What a run prints of the GPU stays true.

     MLP_TEST_GPU=KB:N          KB of shared memory of a block, from 64; N multiprocessors
     MLP_TEST_WIDE=always|never the kernels for wide layers wherever they can run, or nowhere

   Returns false with one sentence if a value is none of these. */
bool gpu_limits_lower(GpuLimits *limits, Error *error);
