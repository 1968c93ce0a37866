/* Files that are read and may be a FIFO, a pipe or a terminal, whose other end is waited for. A
   wait ends after a signal that asks for the end (interrupt.h). */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

/* Waits until the descriptor can be read. False with errno EINTR after a signal, or once
 *abandoned, which may be NULL. */
bool stream_wait(int file, const atomic_bool *abandoned);

/* Opens a file to be read from front to back, as a stream whose calls wait and fail with EINTR
   after a signal; NULL with errno set on failure. */
FILE *stream_open_input(const char *path);
