#include "base/memory.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/sizes.h"

static const uint64_t UNKNOWN = UINT64_MAX;

static uint64_t difference(uint64_t a, uint64_t b) {
  return a > b ? a - b : 0;
}

/* Returns the number that follows `key` at the start of a line of a file, or `otherwise`. */
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

/* ---- control groups ------------------------------------------------------------------------ */

/* The files of a version of control groups. Version 2 writes "max" for no limit. */
typedef struct {
  const char *mount, *limit, *used, *cached; /* cached: the key in memory.stat */
} Version;

static const Version version_1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                  "memory.usage_in_bytes", "total_inactive_file "};
static const Version version_2 = {"/sys/fs/cgroup", "memory.max", "memory.current",
                                  "inactive_file "};

/* Returns what the groups from `path` up to the mount's own allow, or leave free. In a container
   the path may be one of the machine outside: then only the mount's own has files. */
static uint64_t left_by_groups(const char *root, const Version *v, const char *path, bool free) {
  char folder[PATH_MAX];
  uint64_t left = UNKNOWN;
  const size_t top = strlen(root) + strlen(v->mount);
  if ((size_t)snprintf(folder, sizeof folder, "%s%s%s", root, v->mount, path) >= sizeof folder)
    return left;
  for (;;) {
    const uint64_t limit = number(folder, v->limit, "", UNKNOWN);
    if (limit != UNKNOWN) {
      const uint64_t used = free ? number(folder, v->used, "", 0) : 0;
      left = min_size(
          left, difference(limit, difference(used, number(folder, "memory.stat", v->cached, 0))));
    }
    if (strlen(folder) <= top) return left;
    *strrchr(folder, '/') = '\0';
  }
}

/* A line of /proc/self/cgroup is "4:cpu,memory:/path" for version 1, "0::/path" for version 2. */
static uint64_t left_by_control_groups(const char *root, bool free) {
  char line[PATH_MAX], list[PATH_MAX + 2];
  uint64_t left = UNKNOWN;
  snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
  FILE *file = fopen(line, "r");
  if (!file) return left;
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(++controllers, ':') : NULL;
    if (!path) continue;
    *path++ = '\0';
    snprintf(list, sizeof list, ",%s,", controllers);
    const bool first = strstr(list, ",memory,");
    if (first || !*controllers)
      left = min_size(left, left_by_groups(root, first ? &version_1 : &version_2, path, free));
  }
  fclose(file);
  return left;
}

/* ---- all of them --------------------------------------------------------------------------- */

static uint64_t kibibytes(const char *root, const char *name, const char *key) {
  const uint64_t value = number(root, name, key, UNKNOWN);
  return value < UNKNOWN / 1024 ? value * 1024 : UNKNOWN;
}

uint64_t memory_at(const char *root, bool free) {
  const uint64_t machine = kibibytes(root, "proc/meminfo", free ? "MemAvailable:" : "MemTotal:");
  const uint64_t left = min_size(machine, left_by_control_groups(root, free));
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return left;
  const uint64_t used = free ? kibibytes(root, "proc/self/status", "VmSize:") : 0;
  return min_size(left, difference(limit.rlim_cur, used == UNKNOWN ? 0 : used));
}

bool memory_allows(double bytes, uint64_t most, const char *what, Error *error) {
  if (bytes <= (double)most) return true;
  error_set(error, "%s need %.2f GB of memory, but may take only %.2f GB", what, bytes / 1e9,
            (double)most / 1e9);
  if (error) error->too_large = true;
  return false;
}
