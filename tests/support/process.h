/* Runs programs and scripts as processes. An error in these functions fails the running cmocka
   test. */
#pragma once

#include <sys/types.h>

#include "support/test.h"

/* Waits for a child. Returns its exit code, or -N if signal N ended it. */
int process_status(pid_t child);

/* The result of a process that called the function `work`. */
typedef struct {
  int status;     /* the value that `work` returned, or -N if signal N ended the process */
  long kilobytes; /* peak memory of the process */
  Error error;    /* the Error that `work` set */
} Ended;

Ended process_do(int (*work)(void *context, Error *why), void *context);
