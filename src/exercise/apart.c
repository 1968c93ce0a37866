#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "exercise/exercise.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sizes.h"

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
} caused[] = {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
              {SIGILL, "SIGILL"},   {SIGABRT, "SIGABRT"}, {SIGKILL, "SIGKILL"},
              {SIGSYS, "SIGSYS"},   {SIGXCPU, "SIGXCPU"}, {SIGALRM, "SIGALRM"}};

enum {
  MOST_SAID = 4096, /* bytes that a process may print */
  PATIENCE = 10     /* how much longer than it may work it may take, for a machine may be busy */
};

/* The new process. Whoever calls exit() has not set *done, whatever the code. */
static void work_and_end(void (*work)(void *context), void *context, double limit, FILE *said,
                         volatile bool *done) {
  const unsigned seconds = (unsigned)ceil(limit);
  setpgid(0, 0);
  setrlimit(RLIMIT_CPU, &(struct rlimit){seconds, seconds + 1});
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){MOST_SAID, MOST_SAID});
  dup2(fileno(said), STDOUT_FILENO);
  dup2(fileno(said), STDERR_FILENO);
  foreach (c, caused) signal(c->number, SIG_DFL);
  alarm(PATIENCE * seconds);
  signal(SIGXFSZ, SIG_IGN);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* a grader that is interrupted leaves nobody behind */
#endif
  work(context);
  fflush(NULL);
  *done = true;
  _exit(0);
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

static void describe(int status, bool done, double limit, char end[APART_TEXT]) {
  const int by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  const char *name = "a signal";
  foreach (c, caused)
    if (c->number == by) name = c->name;
  *end = '\0';
  if (by == SIGXCPU || by == SIGALRM)
    snprintf(end, APART_TEXT, "it had not returned after %.3g s", limit);
  else if (by)
    snprintf(end, APART_TEXT, "it was ended by %s (%s)", name, strsignal(by));
  else if (!done)
    snprintf(end, APART_TEXT, "it called exit(%d)", WEXITSTATUS(status));
}

bool apart_run(void (*work)(void *context), void *context, double limit, char end[APART_TEXT],
               Error *error) {
  bool *done = apart_memory(sizeof *done);
  int status = 0;
  fflush(NULL); /* or the new process writes it once more */
  FILE *said = done ? tmpfile() : NULL;
  const pid_t process = said ? fork() : -1;
  if (process == 0) work_and_end(work, context, limit, said, done);
  if (process > 0) {
    setpgid(process, process); /* whoever comes first */
    while (waitpid(process, &status, 0) < 0 && errno == EINTR) continue;
    kill(-process, SIGKILL); /* what it has started */
    print_said(said);
    describe(status, *done, limit, end);
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
