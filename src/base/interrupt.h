/* Ending when a signal asks for it: SIGINT (Ctrl-C), SIGTERM (kill) and SIGHUP (a closed terminal).

   The first signal only makes interrupt_pending() true: whoever waits or works for longer than a
   moment looks there, and unwinds like after a failure. A second signal ends the process at once.
   A signal that was ignored when the program started (nohup) stays ignored. */
#ifndef INTERRUPT_H
#define INTERRUPT_H

#include <stdbool.h>

/* at_once: already the first signal ends the process. Either way temporary files of atomic_file.h
   are removed before it ends. */
void interrupt_catch(bool at_once);

/* The number of the signal that came, 0: none. For any thread. */
int interrupt_pending(void);

#endif
