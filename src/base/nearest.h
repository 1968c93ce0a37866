/* Finds the known word that is nearest to a mistyped word, for "did you mean". */
#pragma once

#include "base/error.h"

/* Appends ": did you mean 'WORD'?" to the message if a known word is near `given`. WORD is `before`
   followed by the known word. `known` is a list that ends with NULL; words of more than 63 letters
   are ignored. A word is near if at most two edits change it into `given`, or at most one edit if
   `given` has fewer than six letters. Edits are insertions, deletions, replacements and swaps of
   neighbours (the optimal string alignment distance: Damerau, 1964). If several words are equally
   near, WORD has the alphabetically first. Returns false, as error_set does. */
bool nearest_append(const char *given, const char *const *known, const char *before, Error *error);
