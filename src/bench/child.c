#define _GNU_SOURCE /* mkstemps, environ */
#include "bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sizes.h"
#include "base/text.h"

enum { WORDS = 32 };

bool bench_run(const char *const *words, Record *log, double *seconds, Error *error) {
  char program[PATH_MAX], path[] = "/tmp/mlp-bench-XXXXXX.jsonl", *given[WORDS + 4] = {program};
  int count = 1, status = 0;
  pid_t process;
  for (; *words && count < WORDS; words++) given[count++] = (char *)*words; /* spawn changes none */
  if (!text_beside_program(program, sizeof program, "mlp-train"))
    return error_set(error, "cannot find mlp-train, which lies beside this program");
  if (log) {
    const int file = mkstemps(path, (int)strlen(".jsonl"));
    if (file < 0) return error_set(error, "cannot create %s: %s", path, strerror(errno));
    close(file);
    given[count++] = "--log";
    given[count++] = path;
  }
  const double start = seconds_now();
  posix_spawn_file_actions_t actions; /* its tables are not ours */
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  const int failed = posix_spawn(&process, program, &actions, NULL, given, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (!failed) waitpid(process, &status, 0);
  *seconds = seconds_now() - start;
  const bool good = failed        ? error_set(error, "cannot run %s: %s", program, strerror(failed))
                    : status != 0 ? error_set(error, "mlp-train failed: the reason is above")
                                  : !log || record_read(log, path, "mlp-train", NULL, error);
  if (log) unlink(path);
  return good;
}
