/* Threads that may not be to be had: RLIMIT_NPROC, a control group's pids.max, memory for stacks.
 */
#ifndef THREADS_H
#define THREADS_H

#include "base/error.h"

/* Starts the OpenMP threads of teams of `count`, the caller among them. OpenMP ends the process
   where it cannot start one, so this tries with threads of its own first. False if that many
   cannot be had; *error then says how many can. To be called before the first parallel region. */
bool threads_start(int count, Error *error);

#endif
