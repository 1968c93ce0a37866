/* Runs programs and scripts as processes. An error in these functions fails the running cmocka
   test. */
#pragma once

#include <sys/types.h>

#include "support/test.h"

/* Waits for a child. Returns its exit code, or -N if signal N ended it. */
int process_status(pid_t child);

/* The result of a process that did some work. */
typedef struct {
  int status;     /* the value that the work returned, or -N if signal N ended it */
  long kilobytes; /* the most memory that it took */
  Error error;    /* set by the work */
} Ended;

Ended process_do(int (*work)(void *context, Error *why), void *context);
