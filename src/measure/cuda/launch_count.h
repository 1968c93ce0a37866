/* Counts and watches what the host launches: how, launch_count.c tells. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Launches of kernels and graphs by the host since the program started. */
uint64_t launch_count(void);

/* From now on `watch` is called before and after every launch with the name of the function that
   launches. NULL: nobody is. */
typedef void LaunchWatch(const char *function, bool after);
void launch_watch(LaunchWatch *watch);
