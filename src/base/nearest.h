/* Finds what to advise for a word that is unknown: the nearest known word, for "did you mean", or
   the cure for a word that other programs use. */
#pragma once

#include <stddef.h>

#include "base/error.h"

/* Appends the cure to the message if `given` is a word of other programs or former versions (see
   the table in nearest.c). Otherwise appends ": did you mean 'WORD'?" to the message if a known
   word is near `given`. WORD is `before` followed by the known word. `known` is a list that ends
   with NULL; words of more than 63 letters are ignored. A word is near if at most two edits change
   it into `given`, or at most one edit if `given` has fewer than six letters. Edits are insertions,
   deletions, replacements and swaps of neighbours (the optimal string alignment distance: Damerau,
   1964). If several words are equally near, WORD has the alphabetically first. Returns false, as
   error_set does. */
bool nearest_append(const char *given, const char *const *known, const char *before, Error *error);

/* Returns the foreign word of a row of the table, with its known word and its cure (NULL if the
   known word means the same), or NULL if there is no such row. Tests walk the table with this. */
const char *nearest_foreign(size_t row, const char **instead, const char **cure);
