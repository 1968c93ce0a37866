/* Runs what may crash, hang or exit in a process of its own. */
#pragma once

#include <stddef.h>

#include "base/error.h"

enum { APART_TEXT = 96 };

/* Calls work(context) in a new process, waits until it has ended, and ends whatever it has started
   itself. `limit`: the seconds that it may compute; asleep it has ten times as many. end: "" once
   it has returned, else how it ended: "it was ended by SIGFPE (Floating point exception)", "it
   called exit(3)", "it had not returned after 20 s". Returns false only if there can be no such
   process. What it prints, up to 4 KB, is printed afterwards, each line after a bar. What it shall
   leave must lie in memory from apart_memory. */
bool apart_run(void (*work)(void *context), void *context, double limit, char end[APART_TEXT],
               Error *error);

/* Zeros that this process shares with those that it starts; NULL: there is no memory. */
void *apart_memory(size_t bytes);
void apart_release(void *memory, size_t bytes);
