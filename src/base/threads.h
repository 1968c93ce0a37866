/* Threads that the system may refuse: RLIMIT_NPROC, a control group's pids.max, memory of stacks */
#pragma once

#include "base/error.h"

/* Starts the OpenMP threads of teams of *count, the caller among them; *count becomes lower if
   OpenMP gives fewer, as OMP_THREAD_LIMIT tells it. To be called before the first parallel region.
   OpenMP ends the process if it cannot start a thread, so this tries with threads of its own first.
   False if there cannot be so many; *error then says how many there can be. */
bool threads_start(int *count, Error *error);
