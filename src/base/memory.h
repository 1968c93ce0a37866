/* How much memory there is to be had. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdint.h>

/* Bytes that this process may still take: the least of what the machine has (MemAvailable of
   /proc/meminfo), what its control groups leave it, version 1 or 2, up to the outermost, and
   RLIMIT_AS. A control group's cached file pages count as free where the kernel can drop them.
   UINT64_MAX if nothing is known. */
uint64_t memory_available(void);

/* Bytes that this process may take in all, whatever is in use now: the least of what the machine
   has (MemTotal), the limits of its control groups, and RLIMIT_AS. UINT64_MAX if nothing is known.
 */
uint64_t memory_limit(void);

/* Likewise, with /proc and /sys looked for in the folder `root`. */
uint64_t memory_limit_at(const char *root);
uint64_t memory_available_at(const char *root);

#endif
