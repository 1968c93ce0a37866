/* Counts what the host launches: how, launch_count.c tells. */
#ifndef LAUNCH_COUNT_H
#define LAUNCH_COUNT_H

#include <stdint.h>

/* Launches of kernels and graphs by the host since the program started. */
uint64_t launch_count(void);

#endif
