#include "base/interrupt.h"

#include <signal.h>

#include "base/clock.h"
#include "base/sizes.h"

/* The handler ignores signals within this time after the first. A process may get one request
   twice: `timeout` signals the process, then its group. */
static const double SAME_REQUEST = 0.1; /* seconds */

/* A signal may arrive in any thread while others ask. A handler may use lock-free atomics. */
static _Atomic sig_atomic_t caught, ends_at_once;
static _Atomic double caught_at;
static void (*_Atomic clean_up)(void);

/* Calls only functions that POSIX allows in a signal handler (POSIX.1-2008, 2.4.3). */
static void on_signal(int number) {
  if (!caught && !ends_at_once) {
    caught_at = seconds_now();
    caught = number;
    return;
  }
  if (!ends_at_once && seconds_now() < caught_at + SAME_REQUEST) return;
  void (*const clean)(void) = clean_up;
  if (clean) clean();
  signal(number, SIG_DFL);
  raise(number); /* the signal ends the process once the handler returns */
}

void interrupt_catch(bool at_once) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU};
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
  sigfillset(&action.sa_mask);
  caught = 0;
  ends_at_once = at_once;
  foreach (number, numbers)
    if (sigaction(*number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
      sigaction(*number, &action, NULL);
}

int interrupt_pending(void) {
  return caught;
}

void interrupt_clean_by(void (*clean)(void)) {
  clean_up = clean;
}
