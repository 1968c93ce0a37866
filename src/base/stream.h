/* Files and streams that wait for their other end: a FIFO, a pipe, a terminal. A wait ends after a
   signal that asks for the end (interrupt.h). The C library alone would lose output: it drops what
   does not fit into a descriptor that a shell or a parent process made non-blocking. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

enum { STREAM_PATIENCE = 100 }; /* milliseconds after which a wait looks for a signal */

/* Waits until the descriptor can be read (POLLIN) or written (POLLOUT). False with errno EINTR
   after a signal, or once *abandoned, which may be NULL; a write waits STREAM_PATIENCE longer. */
bool stream_wait(int file, short event, const atomic_bool *abandoned);

/* Returns a stream to the descriptor, to read ("r") or to write ("w"), whose calls wait and fail
   with EINTR after a signal; or NULL with errno set if there is no memory. fclose closes both. */
FILE *stream_open(int file, const char *mode, int buffering);

/* Opens a file to be read from front to back, as a stream; NULL with errno set on failure. */
FILE *stream_open_input(const char *path);
