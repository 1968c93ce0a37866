/* Standard output and standard error that wait for their reader: output_stream.h. */
#ifndef STANDARD_OUTPUT_H
#define STANDARD_OUTPUT_H

#include "base/error.h"

/* Makes stdout and stderr wait. Called once, before anything is printed. Where there is no memory
   for it they stay as they are. */
void standard_output_open(void);

/* Writes out what was printed. False if that or anything printed before could not be written. */
bool standard_output_flush(Error *error);

#endif
