/* The man page and the bash completion against the table of options, and what make install does
   with them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "support/test.h"
#include "support/folder.h"
#include "support/process.h"

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

static void write_file(const char *name, const char *text) {
  char path[4200];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  folder_write(path, text);
}

static int print_all(void **state) {
  folder_open(state);
  rows = options_table.rows;
  row_count = options_table.count;
  page = printed(options_print_man);
  completion = printed(options_print_completion);
  write_file("page.1", page);
  write_file("completion", completion);
  return 0;
}

static int remove_all(void **state) {
  free(page);
  free(completion);
  return folder_close(state);
}

/* ---- the man page ------------------------------------------------------------------------- */

/* As the page spells it. */
static const char *roff(const char *text) {
  static char result[512];
  size_t used = 0;
  for (; *text && used < sizeof result - 2; text++) {
    if (*text == '-') result[used++] = '\\';
    result[used++] = *text;
  }
  result[used] = '\0';
  return result;
}

/* The lines of a row in the page, from its names on. */
static char *entry_of(const OptionRow *row) {
  char start[1024], letter[32] = "";
  if (row->letter) snprintf(letter, sizeof letter, "\\fB\\-%c\\fR, ", row->letter);
  snprintf(start, sizeof start, ".TP\n%s\\fB\\-\\-%s\\fR", letter, roff(row->name));
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

TESTS_WITH(print_all, remove_all);

TEST(page_has_every_option) {
  for (size_t i = 0; i < row_count; i++) {
    const OptionRow *row = &rows[i];
    char *entry = entry_of(row);
    if (row->argument) assert_in(entry, " \\fI%s\\fR\n", row->argument);
    assert_in(entry, "%s\n", roff(row->help));
    if (row->argument && row->initial && *row->initial)
      assert_in(entry, "default \\fB%s\\fR\n", roff(row->initial));
    for (int j = 0; row->choices && row->choices[j]; j++)
      assert_in(entry, "\\fB%s\\fR", row->choices[j]);
    free(entry);
  }
}

TEST(page_has_every_group) {
  for (size_t i = 0; i < row_count; i++) assert_in(page, "\n.SS %s\n.TP\n", rows[i].group);
}

TEST(page_tells_keys_from_other_options) {
  char list[512];
  const char *start = strstr(page, "only for the command line:\n"), *end = strstr(page, ".SH EXIT");
  assert_true(start && end && end > start);
  snprintf(list, sizeof list, "%.*s", (int)(end - start), start);
  for (size_t i = 0; i < row_count; i++) {
    char name[1024];
    snprintf(name, sizeof name, "\\-\\-%s\\fR", roff(rows[i].name));
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
    for (at += 4; *at != '\n'; at++)
      if (*at != '\\') command[used++] = *at;
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

TEST(page_has_no_warnings) {
  char output[4096];
  if (process_run(output, sizeof output, "command -v groff") != 0) {
    puts("there is no groff");
    skip();
  }
  assert_int_equal(
      process_run(output, sizeof output, "LC_ALL=C groff -man -ww -Tutf8 -z '%s/page.1'", folder),
      0);
  assert_string_equal(output, "");
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

/* What bash, without readline, makes of the last of `words`: sorted, with blanks between. The
   working folder has a.csv, b.safetensors, c.conf, d.png, "e f.JPG" and the folder sub. */
static const char *completed(const char *words) {
  static char output[2048];
  assert_int_equal(
      process_run(output, sizeof output,
                  "cd '%s/files' && env -i PATH=\"$PATH\" LC_ALL=C bash -uc "
                  "'compopt() { :; }; . ../completion; "
                  "complete -p mlp-train >/dev/null || exit; COMP_WORDS=(./mlp-train %s); "
                  "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _mlp_train; "
                  "printf \"%%s\\n\" \"${COMPREPLY[@]}\" | sort | paste -sd \" \"'",
                  folder, words),
      0);
  output[strcspn(output, "\n")] = '\0';
  return output;
}

static int make_files(void **state) {
  (void)state;
  char output[256];
  return process_run(output, sizeof output,
                     "mkdir '%s/files' && cd '%s/files' && mkdir sub && "
                     "touch a.csv b.safetensors c.conf d.png 'e f.JPG' sub/g.csv",
                     folder, folder);
}

TEST_WITH(completes_options, make_files, NULL) {
  assert_string_equal(completed("--pre"), "--precision --predict");
  assert_string_equal(completed("--quiet --lr"), "--lr --lr-decay --lr-schedule");
  assert_string_equal(completed("-q nonsense"), "");
  assert_non_null(strstr(completed("\"\""), "--hidden"));
}

TEST(completes_choices) {
  assert_string_equal(completed("--lr-schedule \"\""), "constant cosine linear step");
  assert_string_equal(completed("--lr-schedule co"), "constant cosine");
  assert_string_equal(completed("-d c"), "cpu cuda");
  assert_string_equal(completed("--device = c"), "cpu cuda"); /* as readline splits --device=c */
  assert_string_equal(completed("--precision ="), "fp32 tf32");
  assert_string_equal(completed("--epochs \"\""), "10");
}

TEST(completes_lists) {
  assert_string_equal(completed("--augment \"\""), "elastic none rotate scale shear shift");
  assert_string_equal(completed("--augment s"), "scale shear shift");
  assert_string_equal(completed("--augment shift,s"), "shift,scale shift,shear");
  assert_string_equal(completed("--augment scale,shift,"),
                      "scale,shift,elastic scale,shift,rotate scale,shift,shear");
}

TEST(completes_files) {
  assert_string_equal(completed("--train \"\""), "a.csv sub");
  assert_string_equal(completed("--test sub/"), "sub/g.csv");
  assert_string_equal(completed("--predict = a"), "a.csv");
  assert_string_equal(completed("--resume \"\""), "b.safetensors sub");
  assert_string_equal(completed("-c \"\""), "c.conf sub");
  assert_string_equal(completed("--plot \"\""), "d.png sub");
}

TEST(completes_pictures) {
  assert_string_equal(completed("--load b --classify \"\""), "d.png e f.JPG sub");
  assert_string_equal(completed("--classify d.png e"), "e f.JPG");
  assert_string_equal(completed("--classify d.png --lo"), "--load --log");
  assert_string_equal(completed("--classify --load \"\""), "b.safetensors sub");
}

/* ---- make install ------------------------------------------------------------------------- */

/* mlp-train itself, and stand-ins for the rest of what was built, which -o lets pass for up to
 * date.
 */
static void make_target(const char *target) {
  char output[4096];
  if (process_run(output, sizeof output,
                  "mkdir -p '%s/built' && cp " PROGRAM_FOLDER "/mlp-train '%s/built' && "
                  "for name in train digits lab; do "
                  "touch '%s/built'/mlp-$name.1 '%s/built'/mlp-$name.bash; done && "
                  "cd '%s/built' && touch mlp-digits mlp-lab libmlp-ranks.so && cd \"$OLDPWD\" && "
                  "MAKEFLAGS= make -o all BUILD='%s/built' PLACE='%s/built' CUDA=0 SETUP=0 "
                  "MPI_FLAGS=-lmpi DESTDIR='%s/a root' PREFIX=/usr %s",
                  folder, folder, folder, folder, folder, folder, folder, folder, target) != 0)
    fail_msg("%s", output);
}

TEST(installs_and_uninstalls) {
  char output[4096];
  make_target("install");
  assert_int_equal(
      process_run(output, sizeof output,
                  "cd '%s/a root' && find . -type f ! -name '*.conf' ! -path '*/docs/*' "
                  "-printf '%%m %%p\n' | LC_ALL=C sort -k 2",
                  folder),
      0);
  assert_string_equal(output, "755 ./usr/bin/mlp-digits\n"
                              "755 ./usr/bin/mlp-idx-to-csv\n"
                              "755 ./usr/bin/mlp-lab\n"
                              "755 ./usr/bin/mlp-train\n"
                              "755 ./usr/bin/mlp-train-fetch\n"
                              "755 ./usr/lib/mlp-train/libmlp-ranks.so\n"
                              "644 ./usr/share/bash-completion/completions/mlp-digits\n"
                              "644 ./usr/share/bash-completion/completions/mlp-lab\n"
                              "644 ./usr/share/bash-completion/completions/mlp-train\n"
                              "644 ./usr/share/doc/mlp-train/CONTRIBUTING.md\n"
                              "644 ./usr/share/doc/mlp-train/LICENSE\n"
                              "644 ./usr/share/doc/mlp-train/README.md\n"
                              "644 ./usr/share/doc/mlp-train/SECURITY.md\n"
                              "644 ./usr/share/doc/mlp-train/data/README.md\n"
                              "644 ./usr/share/man/man1/mlp-digits.1\n"
                              "644 ./usr/share/man/man1/mlp-lab.1\n"
                              "644 ./usr/share/man/man1/mlp-train.1\n");
  assert_int_equal(process_run(output, sizeof output,
                               "diff -r configs '%s/a root/usr/share/mlp-train/configs'", folder),
                   0);
  make_target("uninstall");
  assert_int_equal(process_run(output, sizeof output,
                               "cd '%s/a root' && find . ! -type d && find . -path '*mlp-train*'",
                               folder),
                   0);
  assert_string_equal(output, "");
  make_target("uninstall"); /* nothing is left to do, and that is fine */
}

/* Every link leads to a file that is installed; those to the sources have become text. */
TEST(installed_links_resolve) {
  char output[4096];
  make_target("install");
  assert_int_equal(
      process_run(output, sizeof output,
                  "cd '%s/a root/usr/share/doc/mlp-train' && find . -name '*.md' | "
                  "while read -r file; do grep -o '](:*[^)#]*' \"$file\" | sed 's/^](//' | "
                  "grep -v -e :// -e '^$' | while read -r target; do "
                  "[ -e \"${file%%/*}/$target\" ] || echo \"$file: $target\"; done; done; "
                  "grep -c '](docs/' README.md; grep -c 'src/engine/engine.h' README.md",
                  folder),
      0);
  int docs = 0, engine = 0;
  if (sscanf(output, "%d %d", &docs, &engine) != 2) fail_msg("%s", output);
  assert_true(docs > 5 && engine == 1);
}

/* From a folder that has nothing: presets by name, MNIST from the user's cache. */
TEST(an_installed_copy_works_anywhere) {
  char output[8192];
  make_target("install");
  if (process_run(output, sizeof output, "'%s/a root/usr/bin/mlp-train' --version", folder) ==
      126) {
    print_message("nothing may run in the folder for temporary files\n");
    skip();
  }
#define ANYWHERE "mkdir -p '%s/any' && cd '%s/any' && unset HOME && XDG_CACHE_HOME='%s/cache' "
  if (process_run(output, sizeof output,
                  ANYWHERE "'%s/a root/usr/bin/mlp-train' -c literature.conf --dry-run", folder,
                  folder, folder, folder) != 0)
    fail_msg("%s", output);
  assert_non_null(strstr(output, "\nlr = 0.03\n"));
  assert_int_equal(process_run(output, sizeof output,
                               ANYWHERE "'%s/a root/usr/bin/mlp-train' -c ./literature.conf",
                               folder, folder, folder, folder),
                   1);
  assert_int_equal(process_run(output, sizeof output,
                               ANYWHERE "MNIST_SOURCE=/nowhere '%s/a root/usr/bin/mlp-train-fetch'",
                               folder, folder, folder, folder),
                   1);
  assert_non_null(strstr(output, "mlp-train-fetch: there is no train-images-idx3-ubyte"));
  /* as mlp-train-fetch leaves them */
  if (process_run(
          output, sizeof output,
          "cd '%s/cache/mlp-train' && for i in 1 2 3 4 5; do echo 0,1,2; echo 1,2,1; done | "
          "tee mnist_train.csv >mnist_test.csv",
          folder) != 0)
    fail_msg("%s", output);
  if (process_run(output, sizeof output,
                  ANYWHERE "'%s/a root/usr/bin/mlp-train' --device cpu --epochs 1 --classes 2",
                  folder, folder, folder, folder) != 0)
    fail_msg("%s", output);
  assert_non_null(strstr(output, "/cache/mlp-train/mnist_train.csv and "));
  if (process_run(output, sizeof output,
                  ANYWHERE "&& mkdir data && echo 0,1,2 | tee data/mnist_train.csv "
                           ">data/mnist_test.csv && "
                           "'%s/a root/usr/bin/mlp-train' --device cpu --epochs 1 --classes 2",
                  folder, folder, folder, folder) != 0)
    fail_msg("%s", output);
  assert_non_null(strstr(output, "data     data/mnist_train.csv and "));
}

/* What is made of the help of a program without a table. */
TEST(help_is_a_manual) {
  char output[8192];
  static const char help[] = "Usage: mlp-x [OPTION]...\n       mlp-x list\nDoes what it does and "
                             "no more. Well.\n\n  --a-b N  a .number [1]\n.5 of it\n";
  write_file("help", help);
  assert_int_equal(
      process_run(output, sizeof output, "scripts/help_manual.sh man mlp-x 1.2 <'%s/help'", folder),
      0);
  assert_non_null(strstr(output, ".SH NAME\nmlp\\-x \\- does what it does and no more\n"));
  assert_non_null(strstr(output, "mlp\\-x [OPTION]...\n.br\nmlp\\-x list\n"));
  assert_non_null(strstr(output, "\n  \\-\\-a\\-b N  a .number [1]\n\\&.5 of it\n.fi\n"));
  assert_int_equal(process_run(output, sizeof output,
                               "scripts/help_manual.sh completion mlp-x 1.2 <'%s/help'", folder),
                   0);
  assert_non_null(strstr(output, "complete -o default -W '--a-b' mlp-x\n"));
}
