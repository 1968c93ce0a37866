/* The parts of a topic of the lab whose problem is to copy a plane of floats. */
#pragma once

#include "lab/harness.h"

static int64_t plane(LabSize size) {
  return size.dim[0] * size.dim[1];
}

/* LabProblem.operations */
static double few(LabSize size) {
  return (double)plane(size);
}

#define COPY(name, operations)                                                                     \
  { name, {LAB_FLOAT32}, LAB_FLOAT32, operations, the_input, .fill = NULL }

/* The fields of a topic of such problems behind its title. */
#define COPIES(copies, ladder)                                                                     \
  "rows x columns", LAB_GB_PER_S, copies, LENGTH(copies), ladder, LENGTH(ladder)

/* The reference: the input. */
static void the_input(const LabRange *range) {
  const float *input = (const float *)range->h_in[0] + range->first;
  for (int64_t i = 0; i < range->count; i++) {
    range->expected[i] = (double)input[i];
    range->allowed[i] = 0;
  }
}
