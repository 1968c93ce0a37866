/* The limits of the GPU that planning goes by. */
#pragma once

#include "base/error.h"
#include "kernels.h"

/* The limits of the current device, then gpu_limits_lower(). */
bool gpu_limits_read(GpuLimits *limits, Error *error);

/* Lowers limits to what variables of the environment say, so that a test on a large GPU plans
   as on a small one. They never raise a limit. What a run prints of the GPU stays true.

     MLP_TEST_SHARED=64|99|163  KB of shared memory of a block: as compute capability 7.5, as 8.6,
                                8.9 and 12.0, as 8.0
     MLP_TEST_PROCESSORS=n      multiprocessors, from 1
     MLP_TEST_WIDE=always|never the kernels for wide layers for every network that they can run, or
                                for none; auto: where they are faster

   False with one sentence if a value is none of these. */
bool gpu_limits_lower(GpuLimits *limits, Error *error);
