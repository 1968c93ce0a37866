/* The man page and the bash completion have what the table of options has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "support/test.h"

static char *page, *completion;
static const OptionRow *rows;
static size_t row_count;

static char *printed(void (*print)(FILE *file)) {
  char *text;
  size_t size;
  FILE *memory = open_memstream(&text, &size);
  assert_non_null(memory);
  print(memory);
  assert_int_equal(fclose(memory), 0);
  return text;
}

static int print_all(void **state) {
  (void)state;
  rows = options_table.rows;
  row_count = options_table.count;
  page = printed(options_print_man);
  assert_null(strstr(page, "--")); /* roff has \- for what a reader can copy */
  char *end = page;
  for (const char *c = page; (*end = *c); c++) end += *c != '\\' || c[1] != '-';
  completion = printed(options_print_completion);
  return 0;
}

static int free_all(void **state) {
  (void)state;
  free(page);
  free(completion);
  return 0;
}

/* ---- the man page ------------------------------------------------------------------------- */

/* The lines of a row in the page, from its names on. */
static char *entry_of(const OptionRow *row) {
  char start[1024], letter[32] = "";
  if (row->letter) snprintf(letter, sizeof letter, "\\fB-%c\\fR, ", row->letter);
  snprintf(start, sizeof start, ".TP\n%s\\fB--%s\\fR", letter, row->name);
  const char *at = strstr(page, start);
  if (!at) fail_msg("'%s' is not in the page", start);
  const char *option = strstr(at + 4, "\n.TP\n"), *section = strstr(at, "\n.S");
  const char *end = option && option < section ? option : section;
  return strndup(at + 4, (size_t)(end - at - 3));
}

static void assert_in(const char *entry, const char *format, const char *word) {
  char expected[600];
  snprintf(expected, sizeof expected, format, word);
  if (!strstr(entry, expected)) fail_msg("'%s' is not in: %s", expected, entry);
}

TESTS_WITH(print_all, free_all);

TEST(page_has_every_option) {
  for (size_t i = 0; i < row_count; i++) {
    const OptionRow *row = &rows[i];
    char *entry = entry_of(row);
    if (row->argument) assert_in(entry, " \\fI%s\\fR\n", row->argument);
    assert_in(entry, "%s\n", row->help);
    if (row->argument && row->initial && *row->initial)
      assert_in(entry, "default \\fB%s\\fR\n", row->initial);
    for (int j = 0; row->choices && row->choices[j]; j++)
      assert_in(entry, "\\fB%s\\fR", row->choices[j]);
    assert_in(page, "\n.SS %s\n.TP\n", row->group);
    free(entry);
  }
}

TEST(page_tells_keys_from_other_options) {
  char list[512];
  const char *start = strstr(page, "only for the command line:\n"), *end = strstr(page, ".SH EXIT");
  assert_true(start && end && end > start);
  snprintf(list, sizeof list, "%.*s", (int)(end - start), start);
  for (size_t i = 0; i < row_count; i++) {
    char name[1024];
    snprintf(name, sizeof name, "--%s\\fR", rows[i].name);
    assert_int_equal(strstr(list, name) == NULL, rows[i].initial != NULL);
  }
}

/* Splits a command at its blanks, to the redirection if there is one. */
static int split(char *command, char **argv) {
  int argc = 0;
  for (char *word = strtok(command, " "); word && *word != '>'; word = strtok(NULL, " "))
    argv[argc++] = word;
  argv[argc] = NULL;
  return argc;
}

TEST(examples_are_command_lines) {
  int examples = 0;
  for (const char *at = strstr(page, ".SH EXAMPLES"); (at = strstr(at, ".nf\n")); at++) {
    char command[256], *argv[32];
    size_t used = 0;
    for (at += 4; *at != '\n'; at++) command[used++] = *at;
    command[used] = '\0';
    Options options;
    Error error;
    options_default(&options);
    if (options_parse(split(command, argv), argv, &options, &error) != OPTIONS_RUN)
      fail_msg("example %d: %s", examples + 1, error.text);
    assert_string_equal(argv[0], "mlp-train");
    examples++;
  }
  assert_int_equal(examples, 6);
}

/* ---- bash completion ---------------------------------------------------------------------- */

TEST(completion_has_every_option) {
  const char *names = strstr(completion, "_mlp_train_words '--");
  assert_non_null(names);
  for (size_t i = 0; i < row_count; i++) {
    const OptionRow *row = &rows[i];
    char text[128];
    snprintf(text, sizeof text, "--%s", row->name);
    const char *at = names;
    do {
      if (!(at = strstr(at + 1, text))) fail_msg("no --%s in the completion", row->name);
    } while (!strchr(" \n'", at[strlen(text)]));
    if (!row->argument) continue;
    snprintf(text, sizeof text, " --%s) _mlp_train_", row->name);
    at = strstr(completion, text);
    if (!at) fail_msg("no values of --%s in the completion", row->name);
    char *line = strndup(at, strcspn(at, "\n"));
    for (int j = 0; row->choices && row->choices[j]; j++) assert_in(line, "%s", row->choices[j]);
    if (!strcmp(row->argument, "FILE"))
      assert_null(strstr(line, "''")); /* an ending, at least */
    else if (!row->choices)
      assert_in(line, "_words '%s'", row->initial ? row->initial : "");
    free(line);
  }
}
