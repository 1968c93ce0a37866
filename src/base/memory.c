#define _GNU_SOURCE /* for pthread_getattr_default_np */
#include "base/memory.h"

#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
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
   UNKNOWN if the group has no limit (its file says "max" or, in version 1, a huge number or -1). */
typedef uint64_t GroupLimit(const char *folder, bool free);

static uint64_t memory_of(const char *folder, bool free, const char *const name[3]) {
  const uint64_t limit = number(folder, name[0], "", UNKNOWN);
  const uint64_t used = free && limit != UNKNOWN ? number(folder, name[1], "", 0) : 0;
  const uint64_t cached = used ? number(folder, "memory.stat", name[2], 0) : 0;
  return limit == UNKNOWN ? limit : difference(limit, difference(used, cached));
}

static uint64_t memory_of_2(const char *folder, bool free) {
  static const char *const name[] = {"memory.max", "memory.current", "inactive_file "};
  return memory_of(folder, free, name);
}

static uint64_t memory_of_1(const char *folder, bool free) {
  static const char *const name[] = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                     "total_inactive_file "};
  return memory_of(folder, free, name);
}

/* Returns the number of CPUs, rounded up, that get `quota` us of CPU time per `period` us. */
static uint64_t cores_of(uint64_t quota, uint64_t period) {
  return quota == UNKNOWN || period == 0 ? UNKNOWN : ceil_div(quota, period);
}

/* If the group's file cpu.max has "150000 100000", the group may use 2 CPUs. */
static uint64_t cores_of_2(const char *folder, bool free) {
  (void)free;
  const uint64_t quota = number(folder, "cpu.max", "", UNKNOWN);
  return cores_of(quota, number(folder, "cpu.max", text_format("%" PRIu64, quota).text, 0));
}

static uint64_t cores_of_1(const char *folder, bool free) {
  (void)free;
  return cores_of(number(folder, "cpu.cfs_quota_us", "", UNKNOWN),
                  number(folder, "cpu.cfs_period_us", "", 0));
}

/* A hierarchy of control groups. Version 2 has one for all controllers, whose name is empty.
   Version 1 has one for each controller, in a folder of its own. */
typedef struct {
  const char *controller, *folder;
  GroupLimit *limit;
} Hierarchy;

static const Hierarchy memory_groups[] = {{"", "", memory_of_2},
                                          {"memory", "/memory", memory_of_1}},
                       core_groups[] = {{"", "", cores_of_2}, {"cpu", "/cpu", cores_of_1}};

/* Returns the path in a line of /proc/self/cgroup, "N:CONTROLLER,...:PATH", or NULL if the line is
   of another hierarchy. */
static const char *path_in(const char *line, const char *controller) {
  const char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
  if (!path) return NULL;
  const ShortText all = text_format(",%.*s,", (int)(path - list - 1), list + 1);
  return strstr(all.text, text_format(",%s,", controller).text) ? path + 1 : NULL;
}

/* Returns the smallest limit of this process's control groups in a hierarchy, from its own group to
   the outermost. In a container, the folder of the process's own group may not be visible. The
   function then finds files only in the outermost folder. */
static uint64_t least_of_hierarchy(const char *root, const Hierarchy *of, bool free) {
  char line[PATH_MAX], folder[2 * PATH_MAX];
  uint64_t least = UNKNOWN;
  snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
  FILE *file = fopen(line, "r");
  const char *found = NULL;
  while (file && !found && fgets(line, sizeof line, file)) found = path_in(line, of->controller);
  if (file) fclose(file);
  if (!found) return least;
  line[strcspn(line, "\n")] = '\0';
  const int top = snprintf(folder, sizeof folder, "%s/sys/fs/cgroup%s", root, of->folder);
  for (strcat(folder, found);; *strrchr(folder, '/') = '\0') {
    least = min_size(least, of->limit(folder, free));
    if (strlen(folder) <= (size_t)top) return least;
  }
}

int cores_at(const char *root) {
  uint64_t least = INT_MAX;
  foreach (of, core_groups) least = min_size(least, least_of_hierarchy(root, of, false));
  return (int)least;
}

static uint64_t kibibytes(const char *root, const char *name, const char *key) {
  const uint64_t value = number(root, name, key, UNKNOWN);
  return value < UNKNOWN / 1024 ? value * 1024 : UNKNOWN;
}

/* Returns the limit of the address space (ulimit -v) or, if `free`, what is left of it. */
static uint64_t address_space(const char *root, bool free) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UNKNOWN;
  const uint64_t used = free ? kibibytes(root, "proc/self/status", "VmSize:") : 0;
  return difference(limit.rlim_cur, used == UNKNOWN ? 0 : used);
}

uint64_t address_space_left(void) {
  return address_space("", true);
}

void address_space_spare(void) {
  if (address_space("", false) != UNKNOWN) mallopt(M_ARENA_MAX, 1);
}

uint64_t address_space_of_thread(void) {
  pthread_attr_t attributes;
  size_t stack = 8 << 20, guard = 0;
  if (pthread_getattr_default_np(&attributes) != 0) return stack;
  pthread_attr_getstacksize(&attributes, &stack);
  pthread_attr_getguardsize(&attributes, &guard);
  pthread_attr_destroy(&attributes);
  return stack + guard;
}

uint64_t memory_at(const char *root, bool free) {
  uint64_t least = kibibytes(root, "proc/meminfo", free ? "MemAvailable:" : "MemTotal:");
  foreach (of, memory_groups) least = min_size(least, least_of_hierarchy(root, of, free));
  return min_size(least, address_space(root, free));
}

bool memory_allows(double bytes, uint64_t most, const char *what, Error *error) {
  return bytes <= (double)most ||
         error_too_large(error, "%s need %.2f GB of memory, but may take only %.2f GB", what,
                         bytes / 1e9, (double)most / 1e9);
}
