/* Stands in for src/lab/cuda without the CUDA Toolkit: only records can be shown. */
#ifndef HAVE_CUDA

#include "lab/harness.h"

const LabTopic *const lab_topics[] = {NULL};

static bool refuse(Error *error) {
  return error_set(error, "this program was built without CUDA");
}

bool lab_start(Error *error) {
  return refuse(error);
}

bool lab_machine(Record *record, const char *command, bool rates, Error *error) {
  (void)record, (void)command, (void)rates;
  return refuse(error);
}

bool lab_device(FILE *file, Error *error) {
  (void)file;
  return refuse(error);
}

bool lab_measure(LabTable *table, const LabHow *how, Error *error) {
  (void)table, (void)how;
  return refuse(error);
}

#else
typedef int NotEmpty; /* C has no empty files */
#endif
