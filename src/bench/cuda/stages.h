/* The stages of the epoch kernel's teams, from its stamps. */
#ifndef STAGES_H
#define STAGES_H

#include "bench/trace.h"
#include "epoch/stamps.h"

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

#endif
