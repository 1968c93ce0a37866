/* The manual: the man page and the bash completion are templates, mlp-train.1.in and
   mlp-train.bash.in, whose marks are replaced by text made from the table of options. */
#include <string.h>

#include "cli/options.h"

/* ---- the man page ------------------------------------------------------------------------- */

/* Prints a whole line or the rest of one so that every - is one that can be typed, and a leading .
   is not a request. */
static void print_roff(FILE *file, const char *text) {
  if (*text == '.' || *text == '\'') fputs("\\&", file);
  for (; *text; text++)
    if (*text == '-' || *text == '\\')
      fputs(*text == '-' ? "\\-" : "\\e", file);
    else
      fputc(*text, file);
}

static void print_bold(FILE *file, const char *before, const char *text) {
  fprintf(file, "\\fB%s", before);
  print_roff(file, text);
  fputs("\\fR", file);
}

/* Prints the values that are allowed, and the default. */
static void print_man_values(FILE *file, const OptionRow *row) {
  const bool limits = row->choices || row->high > row->low;
  const bool initial = row->argument && row->initial && *row->initial;
  if (!limits && !initial) return;
  fputs(".br\n", file);
  if (row->choices) {
    fputs(row->kind == &option_choice ? "one of " : "\\fBnone\\fR or, separated by commas, any of ",
          file);
    for (int i = 0; row->choices[i]; i++) {
      if (i > 0) fputs(", ", file);
      print_bold(file, "", row->choices[i]);
    }
  } else if (limits) {
    fprintf(file, "from %.10g to %.10g", row->low, row->high);
  }
  if (initial) {
    fputs(limits ? "; default " : "default ", file);
    print_bold(file, "", row->initial);
  }
  fputc('\n', file);
}

static void print_man_row(FILE *file, const OptionRow *row, const OptionRow *before) {
  (void)before;
  if (row->group) fprintf(file, ".SS %s\n", row->group);
  fputs(".TP\n", file);
  if (row->letter) fprintf(file, "\\fB\\-%c\\fR, ", row->letter);
  print_bold(file, "\\-\\-", row->name);
  if (row->argument) fprintf(file, " \\fI%s\\fR", row->argument);
  fputc('\n', file);
  print_roff(file, row->help);
  fputc('\n', file);
  print_man_values(file, row);
}

/* Prints the name of an option that is no key of a configuration file. */
static void print_man_other(FILE *file, const OptionRow *row, const OptionRow *before) {
  if (row->initial) return;
  while (before && before->initial) before = before > options_table.rows ? before - 1 : NULL;
  if (before) fputs(",\n", file); /* behind an earlier name */
  print_bold(file, "\\-\\-", row->name);
}

/* ---- bash completion ---------------------------------------------------------------------- */

/* Prints what completes the option's value; for a number, that is its default. */
static void print_completion_case(FILE *file, const OptionRow *row, const OptionRow *before) {
  char choices[128];
  (void)before;
  if (!row->argument) return;
  fputs("    ", file);
  if (row->letter) fprintf(file, "-%c | ", row->letter);
  if (row->choices) option_join_choices(row, " ", choices, sizeof choices);
  fprintf(file, "--%s) _mlp_train_%s '%s' ;;\n", row->name,
          row->endings                     ? "files"
          : row->kind == &option_strengths ? "list"
                                           : "words",
          row->endings   ? row->endings
          : row->choices ? choices
          : row->initial ? row->initial
                         : "");
}

static void print_completion_name(FILE *file, const OptionRow *row, const OptionRow *before) {
  fprintf(file, "%s--%s", !before ? "" : row->group ? "\n          " : " ", row->name);
}

/* ---- templates ---------------------------------------------------------------------------- */

/* A mark is replaced by what `print` makes of every row; NULL: by the version. before: the row
   above, NULL for the first. */
static const struct {
  const char *text;
  void (*print)(FILE *file, const OptionRow *row, const OptionRow *before);
} marks[] = {{"@VERSION@", NULL},
             {"@OPTIONS@\n", print_man_row},
             {"@COMMAND-LINE@", print_man_other},
             {"@VALUES@\n", print_completion_case},
             {"@NAMES@", print_completion_name}};

void options_fill_template(FILE *template, FILE *file) {
  const OptionRow *rows = options_table.rows;
  char line[256];
  while (fgets(line, sizeof line, template)) {
    const char *rest = line, *at;
    for (size_t m = 0; m < sizeof marks / sizeof *marks; m++) {
      if (!(at = strstr(rest, marks[m].text))) continue;
      fwrite(rest, 1, (size_t)(at - rest), file);
      rest = at + strlen(marks[m].text);
      if (!marks[m].print) fputs(MLP_TRAIN_VERSION, file);
      for (size_t i = 0; marks[m].print && i < options_table.count; i++)
        marks[m].print(file, &rows[i], i > 0 ? &rows[i - 1] : NULL);
    }
    fputs(rest, file);
  }
}
