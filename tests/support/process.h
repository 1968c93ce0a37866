/* Programs and scripts as processes. For tests only: what goes wrong
   here fails the running cmocka test. */
#pragma once

#include <sys/types.h>

#include "support/test.h"

/* Waits for a child. Returns its exit code, or -N if signal N ended it. */
int process_status(pid_t child);

/* How a process of its own ended that did some work. */
typedef struct {
  int status;     /* what the work returned, or as of process_status */
  long kilobytes; /* of memory that it took at most */
  Error error;    /* that the work left */
} Ended;

Ended process_do(int (*work)(void *context, Error *why), void *context);
