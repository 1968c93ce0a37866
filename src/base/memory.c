#include "base/memory.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/sizes.h"
#include "base/text.h"

static const uint64_t UNKNOWN = UINT64_MAX;

static uint64_t difference(uint64_t a, uint64_t b) {
  return a > b ? a - b : 0;
}

/* Finds the first line that starts with `key` and a number in file `name` of a folder. Returns the
   number, or `otherwise` if there is no such line. */
static uint64_t number(const char *folder, const char *name, const char *key, uint64_t otherwise) {
  char path[PATH_MAX], line[PATH_MAX];
  uint64_t value = otherwise;
  if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path) return otherwise;
  FILE *file = fopen(path, "r");
  if (!file) return otherwise;
  const size_t length = strlen(key);
  while (fgets(line, sizeof line, file))
    if (strncmp(line, key, length) == 0 && sscanf(line + length, "%" SCNu64, &value) == 1) break;
  fclose(file);
  return value;
}

/* Returns the limit of one control group or, if `free`, the unused part of the limit. Returns
   UNKNOWN if the group has no limit (its file says "max"). */
typedef uint64_t GroupLimit(const char *folder, bool free);

static uint64_t memory_of(const char *folder, bool free) {
  const uint64_t limit = number(folder, "memory.max", "", UNKNOWN);
  const uint64_t used = free && limit != UNKNOWN ? number(folder, "memory.current", "", 0) : 0;
  const uint64_t cached = used ? number(folder, "memory.stat", "inactive_file ", 0) : 0;
  return limit == UNKNOWN ? limit : difference(limit, difference(used, cached));
}

/* Returns the number of CPUs that a group may use, rounded up. If the group's file cpu.max has
   "150000 100000", it allows 150000 us of CPU time per period of 100000 us: 2 CPUs. */
static uint64_t cores_of(const char *folder, bool free) {
  (void)free;
  const uint64_t quota = number(folder, "cpu.max", "", UNKNOWN);
  const uint64_t period = number(folder, "cpu.max", text_format("%" PRIu64, quota).text, 0);
  return quota == UNKNOWN || period == 0 ? UNKNOWN : ceil_div(quota, period);
}

/* Returns the smallest limit of this process's control groups (version 2), from its own group to
   the outermost. In a container, the folder of the process's own group may not be visible.
   The function then finds files only in the outermost folder. */
static uint64_t least_of_groups(const char *root, GroupLimit *limit, bool free) {
  char line[PATH_MAX], folder[2 * PATH_MAX];
  uint64_t least = UNKNOWN;
  snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
  FILE *file = fopen(line, "r");
  const char *found = NULL;
  while (file && !found && fgets(line, sizeof line, file)) found = strstr(line, "0::");
  if (file) fclose(file);
  if (!found) return least;
  line[strcspn(line, "\n")] = '\0';
  const int top = snprintf(folder, sizeof folder, "%s/sys/fs/cgroup", root);
  for (strcat(folder, found + strlen("0::"));; *strrchr(folder, '/') = '\0') {
    least = min_size(least, limit(folder, free));
    if (strlen(folder) <= (size_t)top) return least;
  }
}

int cores_at(const char *root) {
  return (int)min_size(least_of_groups(root, cores_of, false), INT_MAX);
}

static uint64_t kibibytes(const char *root, const char *name, const char *key) {
  const uint64_t value = number(root, name, key, UNKNOWN);
  return value < UNKNOWN / 1024 ? value * 1024 : UNKNOWN;
}

uint64_t memory_at(const char *root, bool free) {
  const uint64_t machine = kibibytes(root, "proc/meminfo", free ? "MemAvailable:" : "MemTotal:");
  const uint64_t left = min_size(machine, least_of_groups(root, memory_of, free));
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return left;
  const uint64_t used = free ? kibibytes(root, "proc/self/status", "VmSize:") : 0;
  return min_size(left, difference(limit.rlim_cur, used == UNKNOWN ? 0 : used));
}

bool memory_allows(double bytes, uint64_t most, const char *what, Error *error) {
  return bytes <= (double)most ||
         error_too_large(error, "%s need %.2f GB of memory, but may take only %.2f GB", what,
                         bytes / 1e9, (double)most / 1e9);
}
