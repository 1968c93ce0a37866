/* The memory and the CPUs that this process may use. */
#pragma once

#include <stdint.h>

#include "base/error.h"

/* Returns the bytes that this process may take, or UINT64_MAX if nothing is known. This is the
   least of the machine's memory (/proc/meminfo), the limits of the process's control groups
   (version 2) and RLIMIT_AS. If `free`, memory in use is subtracted; a group's cached file pages,
   which the kernel can drop, count as free. The folder `root` holds /proc and /sys. */
uint64_t memory_at(const char *root, bool free);

/* Returns the CPUs that the control groups of the process allow, rounded up, or INT_MAX if they
   have no limit. */
int cores_at(const char *root);

/* Returns the bytes that the process may still take. */
static inline uint64_t memory_available(void) {
  return memory_at("", true);
}

/* Returns the bytes that the process may take in all. */
static inline uint64_t memory_limit(void) {
  return memory_at("", false);
}

/* Refuses to take more than `most` bytes for `what` (a plural): "WHAT need 26.10 GB of memory, but
   may take only 4.00 GB". On failure sets error->too_large. */
bool memory_allows(double bytes, uint64_t most, const char *what, Error *error);
