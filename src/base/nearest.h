/* Finds the known word that is nearest to a mistyped one, for "did you mean". */
#pragma once

#include <stddef.h>

#include "base/error.h"

enum { NEAREST_LENGTH = 63 }; /* longer words are not compared */

typedef struct {
  const char *given;
  bool found;
  char word[NEAREST_LENGTH + 1]; /* the nearest so far, if one was found */
  size_t edits;                  /* of that word; until then the most that may be */
} Nearest;

/* Starts a search; `given` must live as long as what is returned. */
Nearest nearest_to(const char *given);

/* Compares a known word. Edits are insertions, deletions, replacements and swaps of neighbours (the
   optimal string alignment distance: Damerau, 1964). A word is near if it takes at most two edits,
   or one if it has less than six letters. Of equally near words the first of the alphabet wins. */
void nearest_try(Nearest *nearest, const char *known);

/* Appends ": did you mean 'BEFOREword'?" to the message, or nothing if no word is near. Returns
   false, as error_set does. */
bool nearest_append(const Nearest *nearest, const char *before, Error *error);
