/* Streams that wait for their reader, but after a signal (interrupt.h) not for long: whoever reads
   a pipe or a terminal may have stopped to.

   A shell, a terminal or a parent process may have made a descriptor non-blocking; the C library
   drops what does not fit then. It also begins a write anew that a signal ended. */
#ifndef OUTPUT_STREAM_H
#define OUTPUT_STREAM_H

#include <stdio.h>

/* A stream to the descriptor, buffered as setvbuf has it; fclose closes that, too. A write fails
   with EINTR when a signal asks for the end and the reader takes nothing. NULL with errno set
   where there is no memory for it. */
FILE *output_stream_open(int file, int buffering);

/* Opens a device or a pipe to be written through such a stream, as open does. A FIFO's reader is
   waited for, too. */
int output_stream_wait_open(const char *path);

#endif
