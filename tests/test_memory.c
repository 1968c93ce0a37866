/* How much memory there is to be had, of files like those of /proc and /sys. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "support/test.h"
#include "support/folder.h"
#include "support/process.h"

static const uint64_t MB = 1 << 20;

/* A file of the machine, and the folders that it lies in. */
static void put(const char *path, const char *text) {
  char output[256];
  assert_int_equal(process_run(output, sizeof output,
                               "mkdir -p \"$(dirname '%s/%s')\" && printf '%s' >'%s/%s'", folder,
                               path, text, folder, path),
                   0);
}

static void put_machine(const char *groups) {
  put("proc/meminfo", "MemTotal:       2097152 kB\\nMemFree:          20480 kB\\n"
                      "MemAvailable:   1048576 kB\\nCached:          102400 kB\\n");
  put("proc/self/cgroup", groups);
}

static void assert_available(uint64_t megabytes) {
  const uint64_t bytes = memory_at(folder, true);
  if (bytes != megabytes * MB) fail_msg("%" PRIu64 ".%06" PRIu64 " MB", bytes / MB, bytes % MB);
}

#define WITH_ROOT(name) TEST_WITH(name, folder_open, folder_close)

WITH_ROOT(test_nothing_is_known) {
  assert_true(memory_at(folder, true) == UINT64_MAX);
  put("proc/meminfo", "MemTotal: 2097152 kB\\n");
  put("proc/self/cgroup", "0::/nowhere\\n:\\nnonsense\\n\\n1:memory\\n");
  assert_true(memory_at(folder, true) == UINT64_MAX);
}

WITH_ROOT(test_machine) {
  put_machine("0::/\\n");
  assert_available(1024);
}

/* The tightest group counts, wherever it is on the way up. */
WITH_ROOT(test_version_2) {
  put_machine("0::/user.slice/run\\n");
  put("sys/fs/cgroup/user.slice/run/memory.max", "max\\n");
  put("sys/fs/cgroup/user.slice/run/memory.current", "104857600\\n");
  assert_available(1024);
  put("sys/fs/cgroup/user.slice/memory.max", "524288000\\n"); /* 500 MB */
  put("sys/fs/cgroup/user.slice/memory.current", "209715200\\n");
  assert_available(300);
  put("sys/fs/cgroup/user.slice/memory.stat",
      "anon 100\\nfile 200\\nslab_inactive_file 7\\ninactive_file 104857600\\n");
  assert_available(400);
  put("sys/fs/cgroup/user.slice/run/memory.max", "115343360\\n"); /* 110 MB */
  assert_available(10);
  put("sys/fs/cgroup/user.slice/run/memory.max", "1\\n"); /* less than is used */
  assert_available(0);
}

/* In a container: the group's path is one of the machine outside. */
WITH_ROOT(test_path_of_the_outside) {
  put_machine("0::/../../docker/0123\\n");
  put("sys/fs/cgroup/memory.max", "209715200\\n");
  put("sys/fs/cgroup/memory.current", "52428800\\n");
  assert_available(150);
}

WITH_ROOT(test_version_1) {
  put_machine("12:pids:/tight\\n5:cpu,memory:/job\\n1:name=memory:/tight\\n0::/\\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\\n"); /* none */
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", "1048576000\\n");
  put("sys/fs/cgroup/memory/tight/memory.limit_in_bytes", "1\\n");
  assert_available(1024);
  put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "314572800\\n"); /* 300 MB */
  put("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "209715200\\n");
  put("sys/fs/cgroup/memory/job/memory.stat",
      "inactive_file 1048576\\ntotal_inactive_file 104857600\\n");
  assert_available(200);
}

TEST(test_this_machine) {
  const uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
  assert_true(memory_available() > 0);
  assert_true(memory_available() <= physical);
}

/* Of RLIMIT_AS what the process does not have yet. */
TEST(test_limit) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  print_message("a sanitizer's shadow is larger than any limit of memory\n");
  skip();
#endif
  int status;
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    const struct rlimit limit = {200 * MB, 200 * MB};
    void *volatile block = malloc(50 * MB);
    if (!block || setrlimit(RLIMIT_AS, &limit) != 0) _exit(2);
    const uint64_t left = memory_available();
    _exit(left > 0 && left < 150 * MB ? 0 : 1);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}
