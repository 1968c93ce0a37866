/* Programs and scripts as processes. For tests only: a failure here fails the running cmocka
   test. */
#pragma once

#include <sys/types.h>

#include "support/test.h"

/* Waits for a child. Returns its exit code, or -N if signal N ended it. */
int process_status(pid_t child);

/* The end of a process that did some work. */
typedef struct {
  int status;     /* the value that the work returned, or process_status's */
  long kilobytes; /* the most memory that it took */
  Error error;    /* set by the work */
} Ended;

Ended process_do(int (*work)(void *context, Error *why), void *context);
