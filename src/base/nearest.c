#include "base/nearest.h"

#include <string.h>

#include "base/sizes.h"
#include "base/text.h"

/* What other programs call it, and our word. */
static const char *const synonyms[][2] = {
    {"batch-size", "batch"}, {"learning-rate", "lr"}, {"gpu", "cuda"}};

Nearest nearest_to(const char *given) {
  foreach (words, synonyms)
    if (strcmp(given, (*words)[0]) == 0) given = (*words)[1];
  return (Nearest){.given = given, .edits = strlen(given) < 6 ? 1 : 2};
}

static size_t distance(const char *a, const char *b) {
  size_t edits[NEAREST_LENGTH + 1]
              [NEAREST_LENGTH + 1]; /* from the first i letters of a to j of b */
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

void nearest_try(Nearest *nearest, const char *known) {
  if (strlen(known) > NEAREST_LENGTH || strlen(nearest->given) > NEAREST_LENGTH) return;
  const size_t edits = distance(nearest->given, known);
  if (edits > nearest->edits) return;
  if (edits == nearest->edits && nearest->found && strcmp(known, nearest->word) >= 0) return;
  nearest->found = true;
  nearest->edits = edits;
  strcpy(nearest->word, known);
}

bool nearest_append(const Nearest *nearest, const char *before, Error *error) {
  if (!nearest->found || !error) return false;
  text_append(error->text, sizeof error->text, ": did you mean '%s%s'?", before, nearest->word);
  return false;
}
