/* The forms of --help: for a terminal, as a manual page, and as lines for the completion of bash.
 */
#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/option_table.h"

/* ---- for a terminal -----------------------------------------------------------------------------
 */

enum { COLUMNS = 80, HELP_COLUMN = 26 };

ShortText option_choices(const OptionRow *row, const char *between) {
  ShortText choices = {""};
  for (int i = 0; row->choices && row->choices[i]; i++)
    text_append(choices.text, sizeof choices.text, "%s%s", i ? between : "", row->choices[i]);
  return choices;
}

static void print_row(FILE *file, const OptionRow *row) {
  const ShortText left =
      text_format("%c%c%c --%s %s", row->letter ? '-' : ' ', row->letter ? row->letter : ' ',
                  row->letter ? ',' : ' ', row->name, row->argument ? row->argument : "");
  const char *between = row->argument && strcmp(row->argument, "LIST") == 0 ? "," : "|";
  const bool has_default = row->argument && row->initial && *row->initial;
  const ShortText text = text_format("%s%s%s%s%s%s", option_choices(row, between).text,
                                     row->choices ? ": " : "", row->help, has_default ? " [" : "",
                                     has_default ? row->initial : "", has_default ? "]" : "");
  text_print_wrapped(file, text.text, fprintf(file, "  %-23s ", left.text), HELP_COLUMN, COLUMNS);
}

static void print_help(const OptionTable *table, FILE *file) {
  fputs(table->usage, file);
  foreach_row (row, table) {
    if (row == table->rows || row->group) fputc('\n', file);
    if (row->group) fprintf(file, "%s:\n", row->group);
    print_row(file, row);
  }
  fprintf(file, "%s%s", *table->notes ? "\n" : "", table->notes);
}

/* ---- as a manual page ---------------------------------------------------------------------------
 */

/* Prints a line of roff in which every - is one that can be typed. */
static void print_roff(FILE *file, const char *text, size_t length) {
  if (length && *text && strchr(".'", *text)) fputs("\\&", file);
  for (; length > 0 && *text; text++, length--)
    if (*text == '-')
      fputs("\\-", file);
    else if (*text == '\\')
      fputs("\\e", file);
    else
      fputc(*text, file);
}

static void print_text(FILE *file, const char *before, const char *text, const char *after) {
  fputs(before, file);
  print_roff(file, text, SIZE_MAX);
  fputs(after, file);
}

/* Prints the lines of the text up to `end`, without the first `skipped` letters of each. */
static void print_lines(FILE *file, const char *text, const char *end, size_t skipped) {
  while (text < end) {
    const size_t length = strcspn(text, "\n"), from = length < skipped ? length : skipped;
    print_roff(file, text + from, length - from);
    fputc('\n', file);
    text += length + (text[length] != '\0');
  }
}

/* Prints the values that the row allows, and its default. */
static void print_values(FILE *file, const OptionRow *row) {
  const bool is_list = row->argument && strcmp(row->argument, "LIST") == 0;
  const bool has_range = !row->choices && row->high > row->low && row->high < 1.8446744e19;
  const bool has_default = row->argument && row->initial && *row->initial;
  if (!row->choices && !has_range && !has_default) return;
  fputs(".br\n", file);
  if (row->choices) fputs(is_list ? "\\fBnone\\fR or, with commas, any of " : "one of ", file);
  for (int c = 0; row->choices && row->choices[c]; c++)
    print_text(file, c ? ", \\fB" : "\\fB", row->choices[c], "\\fR");
  if (has_range) fprintf(file, "from %.10g to %.10g", row->low, row->high);
  if (has_default)
    print_text(file, row->choices || has_range ? "; default \\fB" : "default \\fB", row->initial,
               "\\fR");
  fputc('\n', file);
}

static void print_page(const OptionTable *table, FILE *file) {
  enum { USAGE = sizeof "Usage: " - 1 }; /* and as many blanks before its other lines */
  const char *purpose = table->usage, *end = table->usage + strlen(table->usage);
  while (strncmp(purpose, "Usage: ", USAGE) == 0 || *purpose == ' ')
    purpose = strchr(purpose, '\n') + 1;
  print_text(file, ".TH \"", table->program, "\" 1 \"\" \"mlp\\-train " MLP_TRAIN_VERSION);
  print_text(file, "\" \"User Commands\"\n.SH NAME\n", table->program, " \\- ");
  const int sentence = (int)strcspn(purpose, ".:");
  ShortText name =
      text_format("%c%.*s", tolower((unsigned char)*purpose), sentence - 1, purpose + 1);
  for (char *end_of_line; (end_of_line = strchr(name.text, '\n'));) *end_of_line = ' ';
  print_text(file, "", name.text, "\n.SH SYNOPSIS\n.nf\n");
  print_lines(file, table->usage, purpose, USAGE);
  fputs(".fi\n.SH DESCRIPTION\n", file);
  print_lines(file, purpose, end, 0);
  fputs(".SH OPTIONS\n", file);
  foreach_row (row, table) {
    const char letter[] = {row->letter, '\0'};
    if (row->group) print_text(file, ".SS \"", row->group, "\"\n");
    fputs(".TP\n", file);
    if (row->letter) print_text(file, "\\fB\\-", letter, "\\fR, ");
    print_text(file, "\\fB\\-\\-", row->name, "\\fR");
    if (row->argument) print_text(file, " \\fI", row->argument, "\\fR");
    print_text(file, "\n", row->help, "\n");
    print_values(file, row);
  }
  if (*table->notes) fputs(".SH NOTES\n", file);
  print_lines(file, table->notes, table->notes + strlen(table->notes), 0);
  fputs(".SH SEE ALSO\nThe pages in \\fIshare/doc/mlp\\-train\\fR under the prefix.\n", file);
}

/* ---- for bash -----------------------------------------------------------------------------------
 */

static void print_words(const OptionTable *table, FILE *file) {
  foreach_row (row, table)
    fprintf(file, "%s|%c|%s|%d|%s|%s\n", row->name, row->letter ? row->letter : '-',
            row->argument ? row->argument : "", row->file != FILE_NONE,
            row->endings ? row->endings : "",
            row->choices   ? option_choices(row, " ").text
            : row->initial ? row->initial
                           : "");
}

void option_table_help(const OptionTable *table, FILE *file) {
  const char *form = getenv("MLP_HELP");
  (form && strcmp(form, "man") == 0     ? print_page
   : form && strcmp(form, "words") == 0 ? print_words
                                        : print_help)(table, file);
}
