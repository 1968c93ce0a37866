/* The table of options: that help, defaults and configs/ agree with it. Runs from the top of the
   checkout, where configs/ is. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "engine/engine.h"
#include "model/lr_schedule.h"
#include "support/test.h"
#include "support/process.h"

static Error error;

TEST(mnist_conf_is_the_defaults) {
  Options built_in, from_file;
  options_default(&built_in);
  memset(&from_file, 0, sizeof from_file);
  if (!options_read_file(&from_file, "configs/mnist.conf", &error)) fail_msg("%s", error.text);
  assert_memory_equal(&built_in, &from_file, sizeof built_in);
  assert_int_equal(built_in.hidden.count, 2);
  assert_int_equal(built_in.hidden.size[0], 300);
  assert_int_equal(built_in.training.batch, 64);
}

/* The columns that say what an option means to commands, files and saved runs. */
TEST(every_option_is_classified) {
  for (size_t i = 0; i < options_table.count; i++) {
    const OptionRow *row = &options_table.rows[i];
    if (!row->kind) continue; /* --help, --version */
    const bool names_file = row->argument && strcmp(row->argument, "FILE") == 0;
    if (row->takers == 0 || row->resume < ONE_RUN || row->resume > RESUME_SAME)
      fail_msg("--%s: who takes it, and what does --resume make of it?", row->name);
    if ((row->file != FILE_NONE) != names_file || !row->endings == names_file ||
        !row->kind->file == names_file)
      fail_msg("--%s: is its file read or written, and how does its name end?", row->name);
    if (row->file == FILE_OUTPUT && options_is_saved(row))
      fail_msg("--%s: a saved run names a file to be written", row->name);
  }
}

TEST(literature_conf_is_plain_descent) {
  Options options;
  options_default(&options);
  if (!options_read_file(&options, "configs/literature.conf", &error)) fail_msg("%s", error.text);
  assert_true(options.lr == 0.03f);
  assert_true(options.training.rule.momentum == 0 && options.training.rule.weight_decay == 0 &&
              options.lr_decay == 1);
}

/* A key's line follows a comment's. Counts the keys, and those of every option. */
static int count_keys(const char *path, bool seen[], const OptionRow *rows, size_t row_count) {
  char line[256], before[256] = "";
  int keys = 0;
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  for (; fgets(line, sizeof line, file); strcpy(before, line)) {
    const char *equals = strstr(line, " =");
    if (!equals || line[0] == '#') continue;
    if (before[0] != '#') fail_msg("%s: no comment above %s", path, line);
    keys++;
    for (size_t i = 0; i < row_count; i++)
      if (strlen(rows[i].name) == (size_t)(equals - line) &&
          strncmp(rows[i].name, line, (size_t)(equals - line)) == 0)
        seen[i] = true;
  }
  fclose(file);
  return keys;
}

TEST(configs_explain_each_key) {
  const OptionRow *rows = options_table.rows;
  const size_t count = options_table.count;
  bool *seen = calloc(count, sizeof *seen);
  assert_true(count_keys("configs/literature.conf", seen, rows, count) >= 4);
  memset(seen, 0, count * sizeof *seen);
  count_keys("configs/mnist.conf", seen, rows, count);
  for (size_t i = 0; i < count; i++)
    if (seen[i] != (rows[i].initial != NULL)) fail_msg("mnist.conf and --%s", rows[i].name);
  free(seen);
}

static const char *printed_help(void) {
  static char text[16384];
  FILE *memory = fmemopen(text, sizeof text, "w");
  assert_non_null(memory);
  option_table_help(&options_table, memory);
  assert_int_equal(fclose(memory), 0);
  return text;
}

/* Returns the entry of a row in the help: its line, and the lines that continue it below their
 * column. */
static const char *entry_of(const char *help, const OptionRow *row) {
  static const char indent[] = "\n                          "; /* 26 blanks */
  static char entry[512];
  char name[64];
  snprintf(name, sizeof name, "--%s ", row->name);
  const char *at = strstr(strstr(help, "\nnetwork:\n"), name);
  if (!at) fail_msg("no --%s in the help", row->name);
  size_t used = 0;
  for (; *at != '\n' || strncmp(at, indent, strlen(indent)) == 0; at++) {
    assert_true(used + 1 < sizeof entry);
    entry[used] = *at;
    if (*at == '\n') {
      entry[used] = ' ';
      at += strlen(indent) - 1;
    }
    used++;
  }
  entry[used] = '\0';
  return entry;
}

TEST(help_lists_every_row) {
  const OptionRow *rows = options_table.rows;
  const size_t count = options_table.count;
  const char *help = printed_help();
  for (size_t i = 0; i < count; i++) {
    const OptionRow *row = &rows[i];
    const bool has_default = row->argument && row->initial && *row->initial;
    const char *entry = entry_of(help, row);
    char expected[256];
    snprintf(expected, sizeof expected, "%s%s%s%s", row->help, has_default ? " [" : "",
             has_default ? row->initial : "", has_default ? "]" : "");
    const char *at = strstr(entry, expected);
    if (!at || at[strlen(expected)]) fail_msg("'%s' does not end '%s'", expected, entry);
    for (int c = 0; row->choices && row->choices[c]; c++)
      assert_non_null(strstr(entry, row->choices[c]));
    snprintf(expected, sizeof expected, "\n%s:\n", row->group);
    assert_non_null(strstr(help, expected));
  }
}

TEST(help_fits_80_columns) {
  assert_in_range(process_longest_line(printed_help()), 60, 80);
}

TEST(rates_follow_the_schedule) {
  const LrSchedule step = {SCHEDULE_STEP, 0.5, 0.8, 10, 0},
                   flat = {SCHEDULE_CONSTANT, 0.5, 0.8, 10, 0},
                   cosine = {SCHEDULE_COSINE, 0.5, 0.8, 10, 0},
                   linear = {SCHEDULE_LINEAR, 0.5, 0.8, 10, 0},
                   warm = {SCHEDULE_CONSTANT, 0.5, 0.8, 10, 3};
  assert_true(fabs(lr_schedule_rate(&step, 3) - 0.5 * 0.512) < 1e-15);
  assert_true(lr_schedule_rate(&flat, 9) == 0.5);
  assert_true(lr_schedule_rate(&cosine, 0) == 0.5);
  assert_true(fabs(lr_schedule_rate(&cosine, 5) - 0.25) < 1e-15);
  assert_true(fabs(lr_schedule_rate(&cosine, 9) - 0.0122358709) < 1e-9);
  assert_true(fabs(lr_schedule_rate(&linear, 9) - 0.05) < 1e-15);
  for (int epoch = 0; epoch < 5; epoch++)
    assert_true(fabs(lr_schedule_rate(&warm, epoch) - 0.125 * fmin(epoch + 1, 4)) < 1e-15);
}

TEST(names_are_in_the_engine_s_order) {
  assert_string_equal(options_fusions[FUSION_AUTO], "auto");
  assert_string_equal(options_fusions[FUSION_NONE], "none");
  assert_string_equal(options_fusions[FUSION_LAYER], "layer");
  assert_string_equal(options_fusions[FUSION_STEP], "step");
  assert_string_equal(options_fusions[FUSION_EPOCH], "epoch");
  assert_string_equal(options_fusions[FUSION_EXERCISE], "exercise");
  assert_null(options_fusions[FUSION_EXERCISE + 1]);
  assert_string_equal(options_optimizers[OPTIMIZER_SGD], "sgd");
  assert_string_equal(options_optimizers[OPTIMIZER_NESTEROV], "nesterov");
  assert_string_equal(options_optimizers[OPTIMIZER_ADAM], "adam");
  assert_string_equal(options_optimizers[OPTIMIZER_ADAMW], "adamw");
  assert_null(options_optimizers[OPTIMIZER_ADAMW + 1]);
}
