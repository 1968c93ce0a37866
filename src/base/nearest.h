/* Did you mean: the known word nearest to one that was mistyped. */
#ifndef NEAREST_H
#define NEAREST_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { NEAREST_LENGTH = 63 }; /* longer words are not compared */

typedef struct {
  const char *given;
  bool found;
  char word[NEAREST_LENGTH + 1]; /* the nearest so far, if one was found */
  size_t edits;                  /* of that word; until then the most that may be */
} Nearest;

/* given lives as long as *nearest. */
void nearest_start(Nearest *nearest, const char *given);

/* Compares a known word. Edits are insertions, deletions, replacements and swaps of neighbours (the
   optimal string alignment distance: Damerau, 1964); two are near, in a word of
   less than six letters one. Of equally near words the first of the alphabet wins. */
void nearest_try(Nearest *nearest, const char *known);

/* Appends ": did you mean 'BEFOREword'?" to the message, or nothing where no word is near. Returns
   false, as error_set does. */
bool nearest_append(const Nearest *nearest, const char *before, Error *error);

/* Appends likewise the long option that `given`, "--name" or "--name=value", may have meant: one of
   getopt_long's, which end with a row of zeros. */
bool nearest_append_option(const char *given, const struct option *known, Error *error);

/* Appends likewise a file near to the path, which does not exist, in the same folder. False if
   there is none. */
bool nearest_append_file(const char *path, Error *error);

#endif
