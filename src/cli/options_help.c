/* Text made of the table of options. */
#include <string.h>

#include "cli/options.h"

void options_join_choices(const OptionRow *row, char *text, size_t size) {
  const char *between = row->argument && strcmp(row->argument, "LIST") == 0 ? "," : "|";
  size_t used = 0;
  for (int i = 0; row->choices[i] && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%s", i ? between : "", row->choices[i]);
}

/* ---- help --------------------------------------------------------------------------------- */

static void print_row(FILE *file, const OptionRow *row) {
  char left[64], choices[128] = "";
  snprintf(left, sizeof left, "%c%c%c --%s %s", row->letter ? '-' : ' ',
           row->letter ? row->letter : ' ', row->letter ? ',' : ' ', row->name,
           row->argument ? row->argument : "");
  if (row->choices) options_join_choices(row, choices, sizeof choices);
  fprintf(file, "  %-23s %s%s%s", left, choices, row->choices ? ": " : "", row->help);
  if (row->initial && *row->initial && row->argument) fprintf(file, " [%s]", row->initial);
  fputc('\n', file);
}

void options_print_help(FILE *file) {
  size_t count;
  const OptionRow *rows = options_table(&count);
  fputs(
      "Usage: mlp-train [OPTION]...\n"
      "       mlp-train --load FILE --evaluate | --predict FILE | --classify PICTURE...\n"
      "Trains a multilayer perceptron on rows of pixels in a CSV file, or asks one that was kept.\n"
      "[Defaults] in brackets.\n",
      file);
  for (size_t i = 0; i < count; i++) {
    if (i == 0 || strcmp(rows[i].group, rows[i - 1].group) != 0)
      fprintf(file, "\n%s:\n", rows[i].group);
    print_row(file, &rows[i]);
  }
  fputs(
      "\nA file for --config has the groups as [sections] and the long names as keys:\n"
      "configs/mnist.conf is the defaults. Level epoch takes two hidden layers, the second of at\n"
      "most 120, and batches to 64; auto says what it takes instead. A run that is interrupted\n"
      "is kept in the file of --save, and --resume goes on as if it had never stopped.\n"
      "Exit status: 0, 1 for a failure, 2 for wrong usage, 130 or 143 when interrupted.\n",
      file);
}

/* ---- a configuration file ----------------------------------------------------------------- */

void options_print_config(FILE *file, const Options *options, bool whole) {
  size_t count;
  const OptionRow *rows = options_table(&count);
  const char *group = "";
  for (size_t i = 0; i < count; i++) {
    const OptionRow *row = &rows[i];
    char value[OPTIONS_PATH];
    if (!row->initial || !(whole || options_is_saved(row))) continue;
    row->kind->get(row, options, value, sizeof value);
    if (strcmp(row->group, group) != 0) fprintf(file, "%s[%s]\n", *group ? "\n" : "", row->group);
    group = row->group;
    fprintf(file, "%s =%s%s\n", row->name, *value ? " " : "", value);
  }
}

bool options_can_be_saved(const Options *options, Error *error) {
  size_t count;
  const OptionRow *rows = options_table(&count);
  for (size_t i = 0; i < count; i++) {
    const OptionRow *row = &rows[i];
    char value[OPTIONS_PATH];
    if (!row->initial || !options_is_saved(row)) continue;
    row->kind->get(row, options, value, sizeof value);
    const size_t room = OPTIONS_LINE - strlen(row->name) - strlen(" = ");
    if (strlen(value) > room)
      return error_set(error,
                       "--%s is a name of %zu bytes, but a saved run can hold %zu: use a link "
                       "or another folder",
                       row->name, strlen(value), room);
  }
  return true;
}
