/* Files that are read from front to back. Reading one that waits for its writer, a FIFO or a
   terminal, ends after a signal that asks for the end. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

/* Opens a file to be read; NULL with errno set on failure. A read fails with EINTR after a signal.
   fclose closes it. */
FILE *input_open(const char *path);

/* Waits until the descriptor can be read. False after a signal, or once *abandoned, which may be
   NULL. */
bool input_wait(int file, const atomic_bool *abandoned);
