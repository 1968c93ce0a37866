/* Reads a command line with a table of options, prints the help, and lists the files. */
#define _GNU_SOURCE /* for program_invocation_short_name */
#include "cli/option_table.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/nearest.h"
#include "base/sizes.h"

/* Ends the program if the stack is too small. The stacks of OpenMP's threads have the same limit.
   Runs before main, because even main's frame might not fit. */
__attribute__((constructor)) static void check_stack(void) {
  enum { LEAST = 1 << 20 }; /* bytes of stack; the tests use less than half of them */
  struct rlimit stack;
  if (getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= LEAST) return;
  fprintf(stderr, "%s: a stack of %llu KiB is too small: `ulimit -s %d` allows enough\n",
          program_invocation_short_name, (unsigned long long)stack.rlim_cur / 1024, LEAST / 1024);
  _exit(1);
}

void option_table_default(const OptionTable *table, void *options) {
  foreach_row (row, table)
    if (row->initial && *row->initial) row->kind->set(row, row->initial, options, NULL);
}

const char *option_group(const OptionRow *row) {
  while (!row->group) row--;
  return row->group;
}

bool option_differs(const OptionRow *row, const void *options, const void *others) {
  return strcmp(row->kind->get(row, options).text, row->kind->get(row, others).text) != 0;
}

/* ---- the command line --------------------------------------------------------------------- */

/* Returns the code that getopt_long returns for a row. */
static int code_of(const OptionTable *table, const OptionRow *row) {
  return row->letter ? row->letter : 256 + (int)(row - table->rows);
}

static const OptionRow *row_of(const OptionTable *table, int code) {
  foreach_row (row, table)
    if (code_of(table, row) == code) return row;
  return NULL;
}

/* Sets *error after getopt_long has returned '?' or ':'. getopt_long has set optopt to the code of
   a row (see code_of), to an unknown letter, or to 0 for an unknown long name. */
static OptionsResult wrong_usage(const OptionTable *table, const OptionRow *row, bool missing,
                                 const char *given, Error *error) {
  if (row && missing)
    error_set(error, "--%s needs an argument", row->name);
  else if (row)
    error_set(error, "--%s does not take an argument", row->name);
  else if (optopt)
    error_set(error, "unknown option '-%c'", optopt);
  else {
    error_set(error, "unknown option '%s'", given);
    const char *name = given + strspn(given, "-");
    const ShortText word = text_format("%.*s", (int)strcspn(name, "="), name);
    const char *known[OPTION_ROWS + 1] = {NULL};
    foreach_row (other, table) known[other - table->rows] = other->name;
    nearest_append(word.text, known, "--", error);
  }
  return OPTIONS_USAGE;
}

OptionsResult option_table_parse(const OptionTable *table, int argc, char **argv, void *options,
                                 int *first, Error *error) {
  struct option names[OPTION_ROWS + 1] = {{0}};
  char letters[2 * OPTION_ROWS + 2] = ":"; /* getopt_long returns ':' if an argument is missing */
  size_t used = 1;
  foreach_row (row, table) {
    names[row - table->rows] =
        (struct option){.name = row->name,
                        .has_arg = row->argument ? required_argument : no_argument,
                        .val = code_of(table, row)};
    if (row->letter) letters[used++] = row->letter;
    if (row->letter && row->argument) letters[used++] = ':';
  }
  opterr = 0;
  optind = 0; /* resets getopt_long */
  for (int code; (code = getopt_long(argc, argv, letters, names, NULL)) != -1;) {
    if (code == '?' || code == ':')
      return wrong_usage(table, row_of(table, optopt), code == ':', argv[optind - 1], error);
    const OptionRow *row = row_of(table, code);
    if (!row->kind) return strcmp(row->name, "help") == 0 ? OPTIONS_HELP : OPTIONS_VERSION;
    if (!row->kind->set(row, row->argument ? optarg : "yes", options, error)) return OPTIONS_USAGE;
  }
  *first = optind;
  return OPTIONS_RUN;
}

OptionsResult option_table_read(const OptionTable *table, int argc, char **argv, void *options,
                                Error *error) {
  int first = argc;
  option_table_default(table, options);
  const OptionsResult result = option_table_parse(table, argc, argv, options, &first, error);
  if (result != OPTIONS_RUN) return result;
  if (first == argc)
    return option_table_check_files(table, options, error) ? result : option_files_refused(error);
  error_set(error, "unexpected argument '%s'", argv[first]);
  return OPTIONS_USAGE;
}

/* ---- the end of a program ------------------------------------------------------------------ */

int option_table_end(const OptionTable *table, OptionsResult result, const char *command,
                     Error *error) {
  if (result == OPTIONS_HELP) option_table_help(table, stdout);
  if (result == OPTIONS_VERSION) printf("%s %s\n", table->program, MLP_TRAIN_VERSION);
  const bool failed = result == OPTIONS_USAGE || result == OPTIONS_FAILURE;
  if (!failed && standard_output_flush(error)) return 0;
  if (error->unread) return 128 + SIGPIPE; /* a shell's status after SIGPIPE, without a message */
  fprintf(stderr, "%s: %s\n", table->program, error->text);
  if (result == OPTIONS_USAGE) fprintf(stderr, "Try '%s --help'.\n", command);
  return result == OPTIONS_USAGE ? 2 : 1;
}

/* ---- help ------------------------------------------------------------------------------------ */

enum { COLUMNS = 80, HELP_COLUMN = 26 };

ShortText option_choices(const OptionRow *row, const char *between) {
  ShortText choices = {""};
  for (int i = 0; row->choices && row->choices[i]; i++)
    text_append(choices.text, "%s%s", i ? between : "", row->choices[i]);
  return choices;
}

static void print_row(FILE *file, const OptionRow *row) {
  const ShortText letter = row->letter ? text_format("-%c,", row->letter) : (ShortText){""};
  const ShortText left =
      text_format("%3s --%s %s", letter.text, row->name, row->argument ? row->argument : "");
  const char *between = row->argument && strcmp(row->argument, "LIST") == 0 ? "," : "|";
  ShortText text =
      text_format("%s%s%s", option_choices(row, between).text, row->choices ? ": " : "", row->help);
  if (row->argument && row->initial && *row->initial) text_append(text.text, " [%s]", row->initial);
  text_print_wrapped(file, text.text, fprintf(file, "  %-23s ", left.text), HELP_COLUMN, COLUMNS);
}

void option_table_help(const OptionTable *table, FILE *file) {
  fputs(table->usage, file);
  foreach_row (row, table) {
    if (row == table->rows || row->group) fputc('\n', file);
    if (row->group) fprintf(file, "%s:\n", row->group);
    print_row(file, row);
  }
  fprintf(file, "%s%s", *table->notes ? "\n" : "", table->notes);
}

/* ---- files -------------------------------------------------------------------------------- */

int option_table_files(const OptionTable *table, const void *options,
                       NamedFile list[OPTION_FILES]) {
  int count = 0;
  foreach_row (row, table) {
    const char *path;
    if (row->file == FILE_NONE) continue;
    for (int f = 0; count < OPTION_FILES && (path = row->kind->file(row, options, f)); f++)
      list[count++] = (NamedFile){row->name, path, row->file == FILE_OUTPUT, row->lines};
  }
  return count;
}

bool option_files_check(const OptionTable *table, const NamedFile *files, int count, Error *error) {
  char path[COMPANION_PATH];
  if (!table->companion) return same_file_check(files, count, error);
  NamedFile *all = make_array(all, 2 * (size_t)count + 1);
  if (!all) return error_too_large(error, "out of memory");
  bool good = true;
  int total = count;
  for (int f = 0; good && f < count; f++) {
    all[f] = files[f];
    if (!files[f].path || files[f].written || !table->companion(files[f].path, path)) continue;
    all[total] = (NamedFile){files[f].option, strdup(path), false, false};
    good = all[total++].path || error_too_large(error, "out of memory");
  }
  good = good && same_file_check(all, total, error);
  while (total > count) free((char *)all[--total].path);
  free(all);
  return good;
}

bool option_table_check_files(const OptionTable *table, const void *options, Error *error) {
  NamedFile list[OPTION_FILES];
  return option_files_check(table, list, option_table_files(table, options, list), error);
}
