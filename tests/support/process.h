/* Programs and scripts as processes. For tests only: what goes wrong
   here fails the running cmocka test. */
#ifndef PROCESS_H
#define PROCESS_H

#include <stddef.h>

/* Runs a shell command, formatted as by printf, from the checkout's top folder. Its standard
   output and error, cut to what fits, go to output[size]. Returns its exit code, or 128 and the
   signal that ended it. */
__attribute__((format(printf, 3, 4))) int process_run(char *output, size_t size, const char *format,
                                                      ...);

/* Characters of the longest line of a text. */
size_t process_longest_line(const char *text);
#endif
