/* Finds the known word that is nearest to a mistyped word, for "did you mean". */
#pragma once

#include "base/error.h"

/* Appends ": did you mean 'BEFOREword'?" to the message, or nothing if no known word is near.
   `known` is a list that ends with NULL; words of more than 63 letters are ignored. Edits are
   insertions, deletions, replacements and swaps of neighbours (the optimal string alignment
   distance: Damerau, 1964). A word is near if it takes at most two edits, or at most one if it has
   less than six letters. Among equally near words the alphabetically first wins. Returns false, as
   error_set does. */
bool nearest_append(const char *given, const char *const *known, const char *before, Error *error);
