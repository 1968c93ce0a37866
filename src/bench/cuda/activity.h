/* Which launches the host made, as launch_count.h watches them, and which kernels ran, as CUPTI
   tells it: the CUDA Toolkit's profiling library, which a toolkit may lack. */
#ifndef ACTIVITY_H
#define ACTIVITY_H

#include "bench/trace.h"

/* In a build without CUPTI this is false, with one sentence, and the others fail. */
bool activity_available(Error *error);
/* Records from now on, to the end of the process. Whatever is to be recorded, graphs too, is best
   made after this. */
bool activity_start(Error *error);
/* Waits for the GPU, then replaces what *taken has by what was recorded since the last call, by
   start: slices as TraceEvent tells, host and GPU on one clock. Arrow 0: the launch's number is not
   known. */
bool activity_take(Trace *taken, Error *error);

#endif
