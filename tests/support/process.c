#define _DEFAULT_SOURCE /* wait4 */
#include "support/process.h"

#include <sys/resource.h>
#include <sys/wait.h>

static int wait_for(pid_t child, struct rusage *usage) {
  int status;
  assert_int_equal(wait4(child, &status, 0, usage), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int process_status(pid_t child) {
  return wait_for(child, NULL);
}

Ended process_do(int (*work)(void *context, Error *why), void *context) {
  int ends[2];
  Ended ended = {.error = {.text = ""}};
  struct rusage usage;
  assert_int_equal(pipe(ends), 0);
  fflush(NULL);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    const int status = work(context, &ended.error);
    _exit(write(ends[1], &ended.error, sizeof(Error)) == sizeof(Error) ? status : 125);
  }
  close(ends[1]);
  while (read(ends[0], &ended.error, sizeof(Error)) < 0) assert_int_equal(errno, EINTR);
  close(ends[0]);
  ended.status = wait_for(child, &usage);
  ended.kilobytes = usage.ru_maxrss;
  return ended;
}
