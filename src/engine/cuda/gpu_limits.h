/* The limits of a GPU, from which the engine plans its kernels. */
#pragma once

#include "base/error.h"
#include "kernels.h"

/* Reads the limits of the current device, then calls gpu_limits_lower(). */
bool gpu_limits_read(GpuLimits *limits, Error *error);

/* Lowers limits to the values of two environment variables, so that tests on a large GPU can plan
   for a small GPU. MLP_TEST_GPU=KB:N means N multiprocessors, and KB kilobytes (at least 64) of
   shared memory per block. If KB is less than the GPU has, there are no clusters, as before compute
   capability 9.0. MLP_TEST_WIDE=always or never sets the use of wide kernels. Other values fail. */
bool gpu_limits_lower(GpuLimits *limits, Error *error);
