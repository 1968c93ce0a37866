/* Options come to the same after they were printed as a file and read back. */
#pragma once

#include <string.h>

#include "fuzz.h"
#include "cli/options.h"

/* Compares the options that a configuration file has. */
static bool are_same(const Options *a, const Options *b) {
  for (size_t i = 0; i < options_table.count; i++)
    if (options_table.rows[i].initial && option_differs(&options_table.rows[i], a, b)) return false;
  return true;
}

/* No line of a configuration file is longer than inih reads; a name may be. */
static bool fit_lines(const char *text) {
  for (; *text; text += strcspn(text, "\n") + 1)
    if (strcspn(text, "\n") > OPTIONS_LINE) return false;
  return true;
}

static char *printed(const Options *options, bool whole, size_t *length) {
  char *text = NULL;
  FILE *file = open_memstream(&text, length);
  REQUIRE(file);
  options_print_config(file, options, whole);
  fclose(file);
  return text;
}

static void require_same_read_back(const Options *options) {
  Options again;
  Error error;
  bool fits = true;
  options_default(&again);
  for (int whole = 1; whole >= 0 && fits; whole--) {
    size_t length;
    char *text = printed(options, whole, &length);
    fits = fit_lines(text);
    const bool good = !fits || (whole ? options_read_file(&again, fuzz_file(text, length), &error)
                                      : options_read_text(&again, text, "kept", &error));
    if (!good) fprintf(stderr, "%s\n%s\n", error.text, text);
    REQUIRE(good && (!fits || are_same(options, &again)));
    free(text);
  }
}
