/* The parts of a recording: what CUPTI tells (activity.c), the events that a level's share of it
   becomes (range.c), and the stages of the epoch kernel's teams, from its stamps (stages.c). */
#pragma once

#include "bench/trace.h"
#include "epoch/stamps.h"

/* Which launches the host made, as rung.h watches them, and which kernels ran, as CUPTI
   tells it: the CUDA Toolkit's profiling library. A toolkit may lack it, and a build these two.

   Records from now on, to the end of the process. Whatever is to be recorded, graphs too, is best
   made after this. */
bool activity_start(Error *error);
/* Waits for the GPU, then replaces what *taken has by what was recorded since the last call, by
   start: slices as TraceEvent tells, host and GPU on one clock. Arrow 0: the launch's number is not
   known. */
bool activity_take(Trace *taken, Error *error);

typedef struct {
  double us;     /* of a step, from TRACE_SHOWN to the last; 0: one kernel has them all */
  int64_t begin; /* of the first kernel of a step, ns of the trace */
} RangeFacts;

/* Adds the launches and the kernels of the steps to keep, of the last range of steps in the list,
   those that are of no step, and their tracks, to a level of the trace. list: activity_take's; its
   events get the steps that they are of, and times of the trace. one_kernel: it has all steps. */
bool range_add(Trace *trace, int level, Trace *list, bool one_kernel, RangeFacts *facts,
               Error *error);

typedef struct {
  Trace *trace; /* that stages are added to, at this level */
  int level;
  const EpochPlan *plan;
  const uint64_t *clock;     /* (blocks, steps, EPOCH_STAMPS), as the kernel left them */
  const EpochAnchor *anchor; /* (blocks) */
  int steps;                 /* that were stamped, the launch's first ones */
  int64_t begin;             /* when the first block began, ns of the trace */
} Stages;

/* Adds the stages of steps [from, to) of the launch to tracks of their own, and an arrow for each
   mail that was received: from the sender that was the last. */
void stages_add(const Stages *stages, int from, int to);

/* Returns the time of a step of the first block in us, the mean of steps [from, to). */
double stages_us(const Stages *stages, int from, int to);
