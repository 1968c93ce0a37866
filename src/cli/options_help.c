/* The help and configuration files, made from the table of options. */
#include <string.h>

#include "cli/options.h"

/* ---- help --------------------------------------------------------------------------------- */

enum { COLUMNS = 80, HELP_COLUMN = 26 };

/* Prints text from `column` on, and breaks it at blanks into lines that start at `indent`. */
static void print_wrapped(FILE *file, const char *text, int column, int indent) {
  for (bool first = true; *text; first = false) {
    const int length = (int)strcspn(text, " ");
    if (!first && column + 1 + length > COLUMNS) {
      fprintf(file, "\n%*s", indent, "");
      column = indent;
    } else if (!first) {
      fputc(' ', file);
      column++;
    }
    fwrite(text, 1, (size_t)length, file);
    column += length;
    text += length;
    text += strspn(text, " ");
  }
  fputc('\n', file);
}

static void print_row(FILE *file, const OptionRow *row) {
  char left[64], choices[128] = "", text[512];
  snprintf(left, sizeof left, "%c%c%c --%s %s", row->letter ? '-' : ' ',
           row->letter ? row->letter : ' ', row->letter ? ',' : ' ', row->name,
           row->argument ? row->argument : "");
  const char *between = row->argument && strcmp(row->argument, "LIST") == 0 ? "," : "|";
  if (row->choices) options_join_choices(row, between, choices, sizeof choices);
  const bool has_default = row->argument && row->initial && *row->initial;
  snprintf(text, sizeof text, "%s%s%s%s%s%s", choices, row->choices ? ": " : "", row->help,
           has_default ? " [" : "", has_default ? row->initial : "", has_default ? "]" : "");
  print_wrapped(file, text, fprintf(file, "  %-23s ", left), HELP_COLUMN);
}

void options_print_help(FILE *file) {
  size_t count;
  const OptionRow *rows = options_table(&count);
  fputs("Usage: mlp-train [OPTION]...\n"
        "       mlp-train --load FILE --evaluate\n"
        "       mlp-train --load FILE --predict FILE [--output FILE]\n"
        "       mlp-train --load FILE --classify PICTURE...\n"
        "Trains a multilayer perceptron on rows of pixels in a CSV file, or evaluates a\n"
        "saved one and predicts with it. Defaults are in [brackets].\n",
        file);
  for (size_t i = 0; i < count; i++) {
    if (i == 0 || strcmp(rows[i].group, rows[i - 1].group) != 0)
      fprintf(file, "\n%s:\n", rows[i].group);
    print_row(file, &rows[i]);
  }
  fputs("\nA file for --config has the groups above as [sections] and the long names of\n"
        "the options as keys; configs/mnist.conf holds the defaults.\n"
        "Level epoch of --fusion needs two hidden layers, the second of at most 120, and\n"
        "batches of at most 64; auto takes the fastest level that is possible.\n"
        "A run that is interrupted is saved in the file of --save, and --resume continues\n"
        "it as if it had never stopped.\n"
        "Exit status: 0 for success, 1 for a failure, 2 for wrong usage, 130 or 143 when\n"
        "interrupted.\n",
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
                       "--%s is a name of %zu bytes, but a saved run can hold only %zu: use a "
                       "link or another folder",
                       row->name, strlen(value), room);
  }
  return true;
}
