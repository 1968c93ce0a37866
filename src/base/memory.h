/* The memory that this process may take, and the CPUs. */
#pragma once

#include <stdint.h>

#include "base/error.h"

/* Returns the bytes that this process may take, or UINT64_MAX if nothing is known: the least of
   what the machine has (/proc/meminfo), what its control groups (version 2) allow, and RLIMIT_AS.
   If `free`, memory in use is subtracted; a group's cached file pages, which the kernel can drop,
   count as free. /proc and /sys lie in the folder `root`. */
uint64_t memory_at(const char *root, bool free);

/* Returns the CPUs that its control groups give it time for, rounded up; INT_MAX if
   they do not say. */
int cores_at(const char *root);

/* The bytes that it may still take. */
static inline uint64_t memory_available(void) {
  return memory_at("", true);
}

/* The bytes that it may take in all. */
static inline uint64_t memory_limit(void) {
  return memory_at("", false);
}

/* Refuses, before they are taken, more than `most` bytes for `what`, a plural: "WHAT need 26.10 GB
   of memory, but may take only 4.00 GB". Sets error->too_large then. */
bool memory_allows(double bytes, uint64_t most, const char *what, Error *error);
