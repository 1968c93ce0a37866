/* Tests how memory and cores are found. The test writes files like those in /proc and /sys. */
#include <inttypes.h>
#include <limits.h>

#include "base/memory.h"
#include "support/folder.h"

static const uint64_t MB = 1 << 20;

/* Writes a file of the simulated machine, and creates its folders. */
static void put(const char *path, const char *text) {
  assert_int_equal(system(text_printf("mkdir -p $(dirname %s)", path)), 0);
  folder_write(path, text);
}

#define GROUPS "sys/fs/cgroup/"
#define USER GROUPS "user.slice/"
#define RUN USER "run/"

/* A step writes one file of the simulated machine. `free` and `limit` are the free memory and the
   memory limit that must be found after that, in MB. */
typedef struct {
  const char *path, *text;
  int free, limit; /* -1 means unknown; KEEP means not checked */
} Step;
enum { KEEP = -2 };

static const Step unknown[] = {{"proc/meminfo", "MemTotal: 2097152 kB\n", -1, 2048},
                               {"proc/self/cgroup", "nonsense\n0::/nowhere\n", -1, 2048}};
/* A process gets the smallest of the limits of its control group and of the groups above it. */
static const Step groups[] = {
    {"proc/self/cgroup", "0::/user.slice/run\n", 1024, 2048},
    {RUN "memory.max", "max\n", 1024, 2048},
    {RUN "memory.current", "104857600\n", 1024, 2048},
    {USER "memory.max", "524288000\n", KEEP, 500},
    {USER "memory.current", "209715200\n", 300, 500},
    {USER "memory.stat", "anon 100\nfile 200\nslab_inactive_file 7\ninactive_file 104857600\n", 400,
     500},
    {RUN "memory.max", "115343360\n", 10, 110},
    {RUN "memory.max", "1048576\n", 0, 1} /* the limit is below the memory in use */};
/* In a container, a control group's path may lead outside of the container. */
static const Step outside[] = {{"proc/self/cgroup", "0::/../../docker/0123\n", 1024, 2048},
                               {GROUPS "memory.max", "209715200\n", KEEP, 200},
                               {GROUPS "memory.current", "52428800\n", 150, 200}};
/* Version 1 has a hierarchy for each controller. Its files have other names. */
static const Step version_1[] = {
    {"proc/self/cgroup", "4:cpu,cpuacct:/run\n3:memory:/run\n1:name=systemd:/\n0::/other\n", 1024,
     2048},
    {GROUPS "memory/memory.limit_in_bytes", "9223372036854771712\n", 1024, 2048},
    {GROUPS "memory/run/memory.limit_in_bytes", "524288000\n", KEEP, 500},
    {GROUPS "memory/run/memory.usage_in_bytes", "209715200\n", 300, 500},
    {GROUPS "memory/run/memory.stat", "inactive_file 7\ntotal_inactive_file 104857600\n", 400, 500},
    {GROUPS "memory/memory.limit_in_bytes", "104857600\n", 100, 100}};
static void assert_memory(bool free, int megabytes, const char *path) {
  const uint64_t bytes = memory_at(".", free);
  if (megabytes != KEEP && bytes != (megabytes < 0 ? UINT64_MAX : (uint64_t)megabytes * MB))
    fail_msg("%" PRIu64 ".%06" PRIu64 " MB after %s", bytes / MB, bytes % MB, path);
}

static void walk(bool machine, const Step *step, size_t steps) {
  folder_enter(NULL);
  assert_memory(true, -1, "nothing");
  if (machine)
    put("proc/meminfo", "MemTotal:       2097152 kB\nMemFree:          20480 kB\n"
                        "MemAvailable:   1048576 kB\nCached:          102400 kB\n");
  for (; steps-- > 0; step++) {
    put(step->path, step->text);
    assert_memory(true, step->free, step->path);
    assert_memory(false, step->limit, step->path);
  }
  folder_close(NULL);
}

TEST(what_is_known) {
  walk(false, unknown, LENGTH(unknown));
  walk(true, groups, LENGTH(groups));
  walk(true, outside, LENGTH(outside));
  walk(true, version_1, LENGTH(version_1));
}

/* The number of cores is the smallest quota of CPU time, rounded up to whole CPUs. */
TEST(cores_of_control_groups) {
  folder_enter(NULL);
  assert_int_equal(cores_at("."), INT_MAX);
  put("proc/self/cgroup", "0::/user.slice/run\n");
  put(RUN "cpu.max", "max 100000\n");
  assert_int_equal(cores_at("."), INT_MAX);
  put(USER "cpu.max", "250000 100000\n");
  assert_int_equal(cores_at("."), 3);
  put(RUN "cpu.max", "50000 100000\n");
  assert_int_equal(cores_at("."), 1);
  put("proc/self/cgroup", "4:cpu,cpuacct:/run\n");
  put(GROUPS "cpu/run/cpu.cfs_period_us", "100000\n");
  put(GROUPS "cpu/run/cpu.cfs_quota_us", "-1\n");
  assert_int_equal(cores_at("."), INT_MAX);
  put(GROUPS "cpu/run/cpu.cfs_quota_us", "150000\n");
  assert_int_equal(cores_at("."), 2);
  folder_close(NULL);
}
