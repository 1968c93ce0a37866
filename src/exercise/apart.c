#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "exercise/exercise.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
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

enum {
  MOST_SAID = 4096, /* maximum bytes that a process can print */
  PATIENCE = 10     /* elapsed time limit / CPU time limit; large, since machines may be busy */
};

/* Calls work() in the new process, then sets *done. If work() calls exit(), *done stays false. */
static void work_and_end(void (*work)(void *context), void *context, double limit, FILE *said,
                         volatile bool *done) {
  const unsigned seconds = (unsigned)ceil(limit);
  setpgid(0, 0);
  setrlimit(RLIMIT_CPU, &(struct rlimit){seconds, seconds + 3});
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){MOST_SAID, MOST_SAID});
  dup2(fileno(said), STDOUT_FILENO);
  dup2(fileno(said), STDERR_FILENO);
  alarm(PATIENCE * seconds);
  signal(SIGXFSZ, SIG_IGN);
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* the process ends if its parent, such as a grader, ends */
  work(context);
  fflush(NULL);
  *done = true;
  _exit(0);
}

static const int computes[] = {SCMP_SYS(read),        SCMP_SYS(brk),
                               SCMP_SYS(munmap),      SCMP_SYS(mremap),
                               SCMP_SYS(madvise),     SCMP_SYS(futex),
                               SCMP_SYS(fstat),       SCMP_SYS(newfstatat),
                               SCMP_SYS(lseek),       SCMP_SYS(rt_sigreturn),
                               SCMP_SYS(sigaltstack), SCMP_SYS(rt_sigaction),
                               SCMP_SYS(getrandom),   SCMP_SYS(rt_sigprocmask),
                               SCMP_SYS(exit),        SCMP_SYS(exit_group)};
/* System calls that are forbidden even to a process that uses a GPU. The GPU's driver starts
   threads, opens devices and maps memory, but does not start programs. */
static const int leaves[] = {
    SCMP_SYS(execve),           SCMP_SYS(execveat),          SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev), SCMP_SYS(kill)};

bool apart_confine(bool may_ask, Error *error) {
  scmp_filter_ctx filter = seccomp_init(may_ask ? SCMP_ACT_ALLOW : SCMP_ACT_KILL_PROCESS);
  bool good = filter != NULL;
  if (may_ask) {
    foreach (call, leaves)
      good = good && seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), *call, 0) == 0;
  } else {
    foreach (call, computes) good = good && seccomp_rule_add(filter, SCMP_ACT_ALLOW, *call, 0) == 0;
    good = good &&
           seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(write), 1,
                            SCMP_A0(SCMP_CMP_LE, STDERR_FILENO, 0)) == 0 &&
           seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
                            SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)) == 0 &&
           seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                            SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)) == 0;
  }
  good = good && seccomp_load(filter) == 0;
  seccomp_release(filter);
  return good || error_set(error, "a function's process cannot be confined (seccomp)");
}

/* Prints the process's output. A bar before each line marks it as the student's output. */
static void print_said(FILE *said) {
  bool starts = true;
  rewind(said);
  for (int c; (c = getc(said)) != EOF; starts = c == '\n') {
    if (starts) fputs("| ", stdout);
    putchar(isprint(c) || c == '\n' || c == '\t' ? c : '?');
  }
  if (!starts) putchar('\n');
}

static ShortText describe(int status, bool done, double limit) {
  const int by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (by == SIGXCPU || by == SIGALRM) return text_format("it had not returned after %.3g s", limit);
  if (by)
    return text_format("it was ended by a signal (%s)",
                       by == SIGSYS ? "it made a system call that is not allowed" : strsignal(by));
  if (done) return (ShortText){""};
  return text_format("it called exit(%d)", WEXITSTATUS(status));
}

bool apart_start(Apart *a, void (*work)(void *context), void *context, double limit, Error *error) {
  fflush(NULL); /* otherwise the new process would write buffered text again */
  *a = (Apart){.done = apart_memory(sizeof *a->done), .limit = limit};
  a->said = a->done ? tmpfile() : NULL;
  a->process = a->said ? fork() : -1;
  if (a->process == 0) work_and_end(work, context, limit, a->said, a->done);
  if (a->process > 0) {
    setpgid(a->process, a->process); /* the child calls it too, as either may run first */
    return true;
  }
  error_set(error, "%s: %s",
            a->said ? "a function's process cannot be started"
                    : "memory cannot be shared with a process",
            strerror(errno));
  if (a->said) fclose(a->said);
  apart_release(a->done, sizeof *a->done);
  return false;
}

ShortText apart_end(Apart *a) {
  int status = 0;
  while (waitpid(a->process, &status, 0) < 0 && errno == EINTR) continue;
  kill(-a->process, SIGKILL); /* ends the processes that work() started */
  print_said(a->said);
  const ShortText end = describe(status, *a->done, a->limit);
  fclose(a->said);
  apart_release(a->done, sizeof *a->done);
  return end;
}
