#include "base/threads.h"

#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void *wait_at(void *gate) {
  pthread_mutex_lock(gate);
  pthread_mutex_unlock(gate);
  return NULL;
}

/* Returns a constant plus the threads of this process that the kernel still knows; 0: unknown. */
static nlink_t threads_counted(void) {
  struct stat folder;
  return stat("/proc/self/task", &folder) == 0 ? folder.st_nlink : 0;
}

/* Starts up to `wanted` threads, returns how many run at once. *code: why no more do, or 0. */
static int try_threads(int wanted, int *code) {
  enum { PATIENCE = 10000 };
  const nlink_t before = threads_counted();
  pthread_t *threads = malloc((size_t)wanted * sizeof *threads);
  pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
  int started = 0;
  *code = threads ? 0 : ENOMEM;
  pthread_mutex_lock(&gate);
  while (*code == 0 && started < wanted) {
    *code = pthread_create(&threads[started], NULL, wait_at, &gate);
    started += *code == 0;
  }
  pthread_mutex_unlock(&gate);
  for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
  free(threads);
  /* A joined thread counts against the limits a little longer. */
  for (int i = 0; i < PATIENCE && threads_counted() > before; i++) sched_yield();
  return started;
}

bool threads_start(int *count, Error *error) {
  int code, running = 0;
  omp_set_dynamic(false); /* else a team may have fewer threads at any time */
  if (*count < 2) return true;
  const int started = 1 + try_threads(*count - 1, &code);
  if (started < *count)
    return error_set(error, "%d threads cannot be had, only %d (%s): try --threads %d", *count,
                     started, strerror(code), started);
#pragma omp parallel num_threads(*count) reduction(+ : running)
  running++; /* the threads stay, waiting for the next region */
  *count = running;
  return true;
}
