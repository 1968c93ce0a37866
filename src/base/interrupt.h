/* Ends a program when a signal asks for it: SIGINT (Ctrl-C), SIGTERM (kill), SIGHUP (a closed
   terminal), SIGQUIT, or SIGUSR1, SIGUSR2 and SIGXCPU, which batch systems send as a warning.

   The first signal only makes interrupt_pending() true. Code that waits or runs for long checks
   interrupt_pending() and, if true, returns as after a failure. A second signal ends the process at
   once, unless it comes within 0.1 s. Signals that were ignored when the program started (nohup)
   stay ignored. */
#pragma once

#include <stdbool.h>

/* Installs the handlers. If `at_once`, even the first signal ends the process. */
void interrupt_catch(bool at_once);

/* Makes the handler call `clean` before a signal ends the process. `clean` must be signal-safe. */
void interrupt_clean_by(void (*clean)(void));

/* Returns the number of the first signal, or 0 if no signal has come. Any thread may call this. */
int interrupt_pending(void);
