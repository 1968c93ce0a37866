#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "exercise/apart.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

void *apart_memory(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

void apart_release(void *memory, size_t bytes) {
  if (memory) munmap(memory, bytes);
}

/* The signals that a function may cause are those of the process: no handler is inherited. */
static const struct {
  int number;
  const char *name;
} caused[] = {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"}, {SIGILL, "SIGILL"},
              {SIGABRT, "SIGABRT"}, {SIGKILL, "SIGKILL"}, {SIGSYS, "SIGSYS"}, {SIGXCPU, "SIGXCPU"}};
enum { CAUSED = sizeof caused / sizeof *caused };

enum { MOST_SAID = 4096 /* bytes that a process may print */ };

/* The new process. Whoever calls exit() has not set *done, whatever the code. */
static void work_and_end(void (*work)(void *context), void *context, double limit, FILE *said,
                         volatile bool *done) {
  const struct rlimit seconds = {(rlim_t)ceil(limit), (rlim_t)ceil(limit) + 1};
  setpgid(0, 0);
  setrlimit(RLIMIT_CPU, &seconds);
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){MOST_SAID, MOST_SAID});
  dup2(fileno(said), STDOUT_FILENO);
  dup2(fileno(said), STDERR_FILENO);
  for (int i = 0; i < CAUSED; i++) signal(caused[i].number, SIG_DFL);
  signal(SIGXFSZ, SIG_IGN);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* a grader that is interrupted leaves nobody behind */
#endif
  work(context);
  fflush(NULL);
  *done = true;
  _exit(0);
}

/* How much longer than it may work it may take, for a machine may be busy with others. */
enum { PATIENCE = 10 };

/* Waits for the process. Its status goes to *status; false: it has not ended in time. */
static bool wait_for(pid_t process, double limit, int *status) {
  const double end = seconds_now() + PATIENCE * limit;
  for (long pause = 50000;; pause = pause < 5000000 ? 2 * pause : pause) { /* nanoseconds */
    const pid_t ended = waitpid(process, status, WNOHANG);
    if (ended == process) return true;
    if (ended < 0 && errno != EINTR) return false;
    if (seconds_now() > end) return false;
    nanosleep(&(struct timespec){0, pause}, NULL);
  }
}

/* Prints what the process printed, each line after a bar: nobody takes it for ours. */
static void print_said(FILE *said) {
  bool starts = true;
  rewind(said);
  for (int c; (c = getc(said)) != EOF; starts = c == '\n') {
    if (starts) fputs("| ", stdout);
    putchar(c);
  }
  if (!starts) putchar('\n');
}

bool apart_run(void (*work)(void *context), void *context, double limit, Apart *apart,
               Error *error) {
  bool *done = apart_memory(sizeof *done);
  int status = 0;
  fflush(NULL); /* or the new process writes it once more */
  FILE *said = done ? tmpfile() : NULL;
  const pid_t process = said ? fork() : -1;
  if (process == 0) work_and_end(work, context, limit, said, done);
  if (process > 0) {
    setpgid(process, process); /* whoever comes first */
    const bool ended = wait_for(process, limit, &status);
    kill(-process, SIGKILL); /* and what it has started */
    if (!ended) waitpid(process, &status, 0);
    print_said(said);
    if (!ended || (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU))
      *apart = (Apart){APART_HUNG, 0};
    else if (WIFSIGNALED(status))
      *apart = (Apart){APART_KILLED, WTERMSIG(status)};
    else
      *apart = (Apart){*done ? APART_DONE : APART_EXITED, WEXITSTATUS(status)};
  } else {
    error_set(error, "%s: %s",
              said ? "a function's process cannot be started"
                   : "nothing can be shared with a process",
              strerror(errno));
  }
  if (said) fclose(said);
  apart_release(done, sizeof *done);
  return process > 0;
}

void apart_describe(const Apart *apart, double limit, char *text, size_t size) {
  const char *name = "a signal";
  for (int i = 0; i < CAUSED; i++)
    if (caused[i].number == apart->value) name = caused[i].name;
  if (apart->end == APART_HUNG)
    snprintf(text, size, "it had not returned after %.3g s", limit);
  else if (apart->end == APART_KILLED)
    snprintf(text, size, "it was ended by %s (%s)", name, strsignal(apart->value));
  else
    snprintf(text, size, "it called exit(%d)", apart->value);
}
