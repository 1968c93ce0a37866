/* Programs and scripts as processes. For tests only: what goes wrong
   here fails the running cmocka test. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

/* Runs a shell command, formatted as by printf, from the checkout's top folder. Its standard
   output and error, cut to what fits, go to output[size]. Returns its exit code, or 128 and the
   signal that ended it. */
__attribute__((format(printf, 3, 4))) int process_run(char *output, size_t size, const char *format,
                                                      ...);

/* Waits for a child. Returns its exit code, or -N if signal N ended it. */
int process_status(pid_t child);

/* How a process of its own ended that did some work. */
typedef struct {
  int status;     /* what the work returned, or as of process_status */
  long kilobytes; /* of memory that it took at most */
  Error error;    /* that the work left */
} Ended;

Ended process_do(int (*work)(void *context, Error *error), void *context);

/* Characters of the longest line of a text. */
size_t process_longest_line(const char *text);
