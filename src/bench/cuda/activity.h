/* Which launches the host made, as launch_count.h watches them, and which kernels ran, as CUPTI
   tells it: the CUDA Toolkit's profiling library, which a toolkit may lack. */
#ifndef ACTIVITY_H
#define ACTIVITY_H

#include <stdint.h>

#include "base/error.h"

typedef struct {
  bool on_host;         /* a call that launches; else a kernel */
  uint32_t correlation; /* the same number of a launch and of what it launched; 0: not known */
  int64_t start, end;   /* ns; host and GPU on one clock */
  char name[240];       /* of the function that launches; of the kernel, mangled, cut */
} Activity;

typedef struct {
  Activity *of;
  int count, room;
} Activities;

/* In a build without CUPTI this is false, with one sentence, and the others fail. */
bool activity_available(Error *error);
/* Records from now on, to the end of the process. Whatever is to be recorded, graphs too, is best
   made after this. */
bool activity_start(Error *error);
/* Waits for the GPU, then moves what was recorded since the last call, by start, to *taken, whose
   memory is used again. */
bool activity_take(Activities *taken, Error *error);
void activity_free(Activities *activities); /* one of zeros is allowed */

#endif
