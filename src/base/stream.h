/* Opens and reads files, which may be FIFOs, pipes or terminals. While a read waits for data, a
   signal that asks the program to end (interrupt.h) ends the wait. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

/* Waits until the descriptor can be read. Returns false with errno EINTR if a signal arrives or if
   `abandoned` points to true. `abandoned` may be NULL. */
bool stream_wait(int file, const atomic_bool *abandoned);

/* Opens a file as a stream that cannot seek. A read waits for data, and fails with EINTR after a
   signal. Returns NULL with errno set on failure. */
FILE *stream_open_input(const char *path);
