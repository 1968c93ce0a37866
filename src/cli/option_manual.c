/* The manual: man pages and bash completions are templates, mlp*.1.in and mlp.bash.in, whose marks
   are replaced by text made from a program's table of options. */
#include <ctype.h>
#include <string.h>

#include "base/sizes.h"
#include "cli/option_kinds.h"

/* ---- the man page ------------------------------------------------------------------------- */

/* Prints a line, or the rest of one, so that every - is one that can be typed, and a leading . is
   not a request. Returns the text behind it. */
static const char *print_roff(FILE *file, const char *text) {
  if (*text == '.' || *text == '\'') fputs("\\&", file);
  for (; *text && *text != '\n'; text++)
    if (*text == '-' || *text == '\\')
      fputs(*text == '-' ? "\\-" : "\\e", file);
    else
      fputc(*text, file);
  return text + (*text == '\n');
}

static void print_program(FILE *file, const OptionTable *table) {
  fputs(table->program, file);
}

/* Prints the program and what for: the first sentence below "Usage: ...", in one line and without
   its capital. */
static void print_name(FILE *file, const OptionTable *table) {
  const char *text = table->usage;
  while (*text == 'U' || *text == ' ') text = strchr(text, '\n') + 1;
  ShortText purpose = text_format("%.*s", (int)strcspn(text, ".:"), text);
  *purpose.text = (char)tolower((unsigned char)*purpose.text);
  for (char *c = purpose.text; (c = strchr(c, '\n'));) *c = ' ';
  print_roff(file, table->program);
  fputs(" \\- ", file);
  print_roff(file, purpose.text);
}

/* Prints the lines above the options and below them. */
static void print_usage(FILE *file, const OptionTable *table) {
  for (const char *line = table->usage; *line; fputc('\n', file)) line = print_roff(file, line);
  for (const char *line = table->notes; *line;) {
    fputc('\n', file);
    line = print_roff(file, line);
  }
}

static void print_bold(FILE *file, const char *before, const char *text) {
  fprintf(file, "\\fB%s", before);
  print_roff(file, text);
  fputs("\\fR", file);
}

/* Prints the values that are allowed, and the default. */
static void print_man_values(FILE *file, const OptionRow *row) {
  const bool limits = row->choices || (row->high > row->low && row->high < 0x1p64);
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

static void print_options(FILE *file, const OptionTable *table) {
  foreach_row (row, table) {
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
}

/* Prints the names of options that are no keys of a configuration file. */
static void print_keyless(FILE *file, const OptionTable *table) {
  const char *between = "";
  foreach_row (row, table) {
    if (row->initial) continue;
    fputs(between, file);
    print_bold(file, "\\-\\-", row->name);
    between = ",\n";
  }
}

/* ---- bash completion ---------------------------------------------------------------------- */

/* Prints what completes each option's value; for a number, that is its default. */
static void print_cases(FILE *file, const OptionTable *table) {
  foreach_row (row, table) {
    if (!row->argument) continue;
    fputs("    ", file);
    if (row->letter) fprintf(file, "-%c | ", row->letter);
    const char *initial = row->initial ? row->initial : "";
    fprintf(file, "--%s) _mlp_%s '%s' ;;\n", row->name,
            row->file                        ? "files"
            : row->kind == &option_strengths ? "list"
                                             : "words",
            row->endings   ? row->endings
            : row->choices ? option_choices(row, " ").text
            : row->file    ? ""
                           : initial);
  }
}

static void print_names(FILE *file, const OptionTable *table) {
  foreach_row (row, table)
    fprintf(file, "%s--%s", row == table->rows ? "" : row->group ? "\n          " : " ", row->name);
}

/* ---- templates ---------------------------------------------------------------------------- */

/* A mark is replaced by what `print` makes of the table; NULL: by the version. */
static const struct {
  const char *text;
  void (*print)(FILE *file, const OptionTable *table);
} marks[] = {{"@PROGRAM@", print_program},   {"@VERSION@", NULL},
             {"@NAME@", print_name},         {"@USAGE@", print_usage},
             {"@OPTIONS@\n", print_options}, {"@COMMAND-LINE@", print_keyless},
             {"@VALUES@\n", print_cases},    {"@NAMES@", print_names}};

void option_table_fill(const OptionTable *table, FILE *template, FILE *file) {
  char line[256];
  while (fgets(line, sizeof line, template)) {
    const char *rest = line, *at;
    foreach (mark, marks)
      while ((at = strstr(rest, mark->text))) {
        fwrite(rest, 1, (size_t)(at - rest), file);
        rest = at + strlen(mark->text);
        if (mark->print)
          mark->print(file, table);
        else
          fputs(MLP_TRAIN_VERSION, file);
      }
    fputs(rest, file);
  }
}
