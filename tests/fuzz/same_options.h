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

/* A line of a configuration file has at most 200 bytes, inih's limit; a name may be longer. */
static bool fit_lines(const Options *o) {
  const char *const names[] = {o->train,    o->test,      o->log,  o->plot,      o->weights,
                               o->mistakes, o->confusion, o->save, o->validation};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strlen(names[i]) > 180) return false;
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
  if (!fit_lines(options)) return;
  size_t length;
  Options again;
  Error error;
  char *text = printed(options, true, &length);
  options_default(&again);
  const bool is_read = options_read_file(&again, fuzz_file(text, length), &error);
  if (!is_read) fprintf(stderr, "%s\n%s\n", error.text, text);
  REQUIRE(is_read);
  REQUIRE(are_same(options, &again));
  free(text);
  text = printed(options, false, &length);
  REQUIRE(options_read_text(&again, text, "kept", &error));
  REQUIRE(are_same(options, &again));
  free(text);
}
