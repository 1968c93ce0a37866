/* Ends a program when a signal asks for it: SIGINT (Ctrl-C), SIGTERM (kill), SIGHUP (a closed
   terminal), SIGQUIT, or SIGUSR1, SIGUSR2 and SIGXCPU, which batch systems send as a warning.

   The first signal only makes interrupt_pending() true. Code that waits or works for longer than a
   moment checks it, and unwinds as after a failure. A second signal ends the process at once. A
   signal that was ignored when the program started (nohup) stays ignored. */
#pragma once

#include <stdbool.h>

/* Installs the handlers. If `at_once`, the first signal already ends the process. */
void interrupt_catch(bool at_once);

/* Makes a signal call `clean` before it ends the process; `clean` must be safe in a handler. */
void interrupt_clean_by(void (*clean)(void));

/* Returns the number of the signal that came, or 0. Any thread may call this. */
int interrupt_pending(void);
