/* From what was recorded of a level to the events of a trace. */
#ifndef RANGE_H
#define RANGE_H

#include "bench/trace.h"

typedef struct {
  double us;     /* of a step, from TRACE_SHOWN to the last; 0: one kernel has them all */
  int64_t begin; /* of the first kernel of a step, ns of the trace */
} RangeFacts;

/* Adds the launches and the kernels of the steps to keep, of the last range of steps in the list,
   those that are of no step, and their tracks, to a level of the trace. list: activity_take's; its
   events get the steps that they are of. one_kernel: one kernel has all the steps. */
bool range_add(Trace *trace, int level, Trace *list, bool one_kernel, RangeFacts *facts,
               Error *error);

#endif
