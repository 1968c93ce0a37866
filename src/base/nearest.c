#include "base/nearest.h"

#include <dirent.h>
#include <stdio.h>
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

/* Fills the table of distances between the first i letters of a and j of b row by row; a swap looks
   two rows back, so three rows are kept. */
static size_t distance(const char *a, const char *b) {
  size_t rows[3][NEAREST_LENGTH + 1];
  const size_t a_length = strlen(a), b_length = strlen(b);
  for (size_t j = 0; j <= b_length; j++) rows[0][j] = j;
  for (size_t i = 1; i <= a_length; i++) {
    size_t *row = rows[i % 3], *before = rows[(i + 2) % 3], *two_before = rows[(i + 1) % 3];
    row[0] = i;
    for (size_t j = 1; j <= b_length; j++) {
      row[j] =
          min_size(min_size(row[j - 1], before[j]) + 1, before[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = min_size(row[j], two_before[j - 2] + 1);
    }
  }
  return rows[a_length % 3][b_length];
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

bool nearest_append_file(const char *path, Error *error) {
  const char *slash = strrchr(path, '/');
  char folder[4096];
  const int length = slash ? (int)(slash - path) + 1 : 0;
  if (length > (int)sizeof folder - 2) return false;
  snprintf(folder, sizeof folder, "%.*s", length, path);
  DIR *files = opendir(length ? folder : ".");
  if (!files) return false;
  Nearest nearest = nearest_to(path + length);
  for (const struct dirent *file; (file = readdir(files));)
    if (file->d_name[0] != '.') nearest_try(&nearest, file->d_name);
  closedir(files);
  nearest_append(&nearest, folder, error);
  return nearest.found;
}
