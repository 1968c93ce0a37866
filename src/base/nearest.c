#include "base/nearest.h"

#include <stdint.h>
#include <string.h>

#include "base/sizes.h"
#include "base/text.h"

/* Each row holds a word that other programs use, then the word that this program uses. */
static const char *const synonyms[][2] = {
    {"batch-size", "batch"}, {"learning-rate", "lr"}, {"gpu", "cuda"}};

enum { LENGTH_MOST = 63 };

static size_t distance(const char *a, const char *b) {
  size_t edits[LENGTH_MOST + 1][LENGTH_MOST + 1]; /* [i][j]: how many edits turn the first i
                                                     letters of a into the first j of b */
  const size_t a_length = strlen(a), b_length = strlen(b);
  for (size_t i = 0; i <= a_length; i++)
    for (size_t j = 0; j <= b_length; j++) {
      size_t *least = &edits[i][j];
      *least = i + j;
      if (i == 0 || j == 0) continue;
      *least = min_size(min_size(edits[i][j - 1], edits[i - 1][j]) + 1,
                        edits[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        *least = min_size(*least, edits[i - 2][j - 2] + 1);
    }
  return edits[a_length][b_length];
}

bool nearest_append(const char *given, const char *const *known, const char *before, Error *error) {
  const char *found = NULL;
  foreach (words, synonyms)
    if (strcmp(given, (*words)[0]) == 0) given = (*words)[1];
  size_t least = strlen(given) < 6 ? 1 : 2;
  for (; *known && strlen(given) <= LENGTH_MOST; known++) {
    const size_t edits = strlen(*known) <= LENGTH_MOST ? distance(given, *known) : SIZE_MAX;
    if (edits > least || (edits == least && found && strcmp(*known, found) >= 0)) continue;
    found = *known;
    least = edits;
  }
  if (found && error) text_append(error->text, ": did you mean '%s%s'?", before, found);
  return false;
}
