/* The memory and the CPUs that this process may use. */
#pragma once

#include <stdint.h>

#include "base/error.h"

/* Returns the bytes that this process may take, or UINT64_MAX if no limit is known. The result is
   the smallest of the machine's memory (/proc/meminfo), the limits of the process's control groups
   (version 1 or 2) and RLIMIT_AS. If `free`, memory in use is subtracted; a group's cached file
   pages, which the kernel can drop, count as free. The folder `root` holds /proc and /sys. */
uint64_t memory_at(const char *root, bool free);

/* Returns the number of CPUs that the process's control groups allow, rounded up, or INT_MAX if the
   groups set no limit. */
int cores_at(const char *root);

/* Returns the bytes that the process may still take. */
static inline uint64_t memory_available(void) {
  return memory_at("", true);
}

/* Returns the bytes that the process may take in all. */
static inline uint64_t memory_limit(void) {
  return memory_at("", false);
}

/* Returns the bytes of address space that RLIMIT_AS (ulimit -v) leaves to this process, or
   UINT64_MAX if there is no limit. Addresses count even where no memory is used. */
uint64_t address_space_left(void);

/* If the address space is limited, lets all threads share one arena of malloc. Otherwise each
   thread would reserve 64 MB. Call it before threads start. */
void address_space_spare(void);

/* Returns the bytes of address space that a new thread's stack takes. */
uint64_t address_space_of_thread(void);

/* Returns true if `bytes` is at most `most`. Otherwise sets error->too_large and a message such as
   "WHAT need 26.10 GB of memory, but may take only 4.00 GB". `what` is a plural noun. */
bool memory_allows(double bytes, uint64_t most, const char *what, Error *error);
