/* The table of options: help, man page and completion agree with it. Runs from the top of
   the checkout, where the templates are. */
#include "cli/options.h"
#include "model/lr_schedule.h"
#include "support/process.h"

/* The columns that say what an option means to commands, files and saved runs. */
TEST(every_option_is_classified) {
  foreach_row (row, &options_table) {
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

static char *help, *page, *completion;

static char *made(const char *command) {
  char *text;
  assert_int_equal(process_run(command, &text), 0);
  return text;
}

#define HELP PROGRAM_FOLDER "/mlp-train --help"
#define FILLED(template) "MLP_TABLE=1 " HELP "| awk -f src/cli/manual.awk - src/cli/" template

static FIXTURE(make_all) {
  help = made(HELP "| sed -z 's/\\n \\{26\\}/ /g'"); /* where a line is broken */
  page = made(FILLED("mlp-train.1.in"));
  assert_null(strstr(page, "--")); /* roff has \- for what a reader can copy */
  page = made(FILLED("mlp-train.1.in") "| sed 's/\\\\-/-/g'");
  completion = made(FILLED("mlp.bash.in"));
  return 0;
}

TESTS_WITH(make_all, NULL);

/* Returns a copy of the text from `start` up to the next `end`, with that. */
static char *cut(const char *text, const char *start, const char *end) {
  const char *at = strstr(text, start), *behind = at ? strstr(at + strlen(start), end) : NULL;
  if (!behind) fail_msg("'%s' is not before '%s' in: %s", start, end, text);
  return text_printf("%.*s%s", (int)(behind - at), at, end);
}

static void assert_choices(const char *entry, const char *before, const OptionRow *row) {
  for (int c = 0; row->choices && row->choices[c]; c++)
    assert_in(entry, text_printf("%s%s", before, row->choices[c]));
}

static bool has_default(const OptionRow *row) {
  return row->argument && row->initial && *row->initial;
}

TEST(help_has_every_option) {
  foreach_row (row, &options_table) {
    const char *shown = has_default(row) ? text_printf(" [%s]", row->initial) : "";
    const char *entry = cut(strstr(help, "\nnetwork:\n"), text_printf(" --%s ", row->name), "\n");
    assert_choices(entry, "", row);
    assert_in(entry, text_printf(" %s%s\n", row->help, shown));
    if (row->group) assert_in(help, text_printf("\n%s:\n", row->group));
  }
}

TEST(page_has_every_option) {
  const char *keyless = cut(page, "only for the command line:\n", ".SH EXIT");
  foreach_row (row, &options_table) {
    const char *letter = row->letter ? text_printf("\\fB-%c\\fR, ", row->letter) : "";
    const char *argument = row->argument ? text_printf(" \\fI%s\\fR", row->argument) : "";
    const char *name = text_printf("--%s\\fR", row->name);
    const char *start = text_printf("\n.TP\n%s\\fB%s%s\n%s\n", letter, name, argument, row->help);
    const char *entry = cut(page, start, "\n.TP\n");
    assert_choices(entry, "\\fB", row);
    if (has_default(row)) assert_in(entry, text_printf("default \\fB%s\\fR\n", row->initial));
    if (row->group) assert_in(page, text_printf("\n.SS %s\n.TP\n", row->group));
    assert_int_equal(strstr(keyless, name) == NULL, row->initial != NULL);
  }
}

TEST(completion_has_every_option) {
  const char *words = made(FILLED("mlp.bash.in") "| tr \"'\\n\" '  '");
  const char *names = cut(words, "_mlp_words  --", ";;");
  foreach_row (row, &options_table) {
    assert_in(names, text_printf(" --%s ", row->name));
    if (!row->argument) continue;
    const char *line = cut(completion, text_printf(" --%s) _mlp_", row->name), "\n");
    assert_choices(line, "", row);
    if (row->file != FILE_NONE)
      assert_in(line, text_printf("_files '%s'", row->endings));
    else if (!row->choices)
      assert_in(line, text_printf("_words '%s'", row->initial ? row->initial : ""));
  }
}

/* To the redirection, if there is one. */
TEST(examples_are_command_lines) {
  int examples = 0;
  for (const char *at = strstr(page, ".SH EXAMPLES"); (at = strstr(at, ".nf\n")); at++) {
    char *command = keep(strndup(at + 4, strcspn(at + 4, "\n"))), *argv[32];
    Options options;
    int argc = 0;
    for (char *word = strtok(command, " "); word && *word != '>'; word = strtok(NULL, " "))
      argv[argc++] = word;
    argv[argc] = NULL;
    options_default(&options);
    if (options_parse(argc, argv, &options, &error) != OPTIONS_RUN)
      fail_msg("example %d: %s", examples + 1, error.text);
    assert_string_equal(argv[0], "mlp-train");
    examples++;
  }
  assert_int_equal(examples, 7);
}

TEST(rates_follow_the_schedule) {
  static const struct {
    LrScheduleKind kind;
    int warmup, epoch;
    double rate, error;
  } rates[] = {{SCHEDULE_STEP, 0, 3, 0.5 * 0.421875, 1e-15},
               {SCHEDULE_CONSTANT, 0, 9, 0.5, 0},
               {SCHEDULE_COSINE, 0, 0, 0.5, 0},
               {SCHEDULE_COSINE, 0, 5, 0.25, 1e-15},
               {SCHEDULE_COSINE, 0, 9, 0.0122358709, 1e-9},
               {SCHEDULE_LINEAR, 0, 9, 0.05, 1e-15},
               {SCHEDULE_STEP, 3, 1, 0.5 * 0.5, 1e-15},
               {SCHEDULE_STEP, 3, 3, 0.5, 1e-15},
               {SCHEDULE_STEP, 3, 5, 0.5 * 0.5625, 1e-15},
               {SCHEDULE_LINEAR, 3, 1, 0.5 * 0.9 * 0.5, 1e-15},
               {SCHEDULE_CONSTANT, 3, 0, 0.125, 1e-15},
               {SCHEDULE_CONSTANT, 3, 2, 0.375, 1e-15},
               {SCHEDULE_CONSTANT, 3, 3, 0.5, 1e-15}};
  foreach (r, rates) {
    const LrSchedule schedule = {r->kind, 0.5f, 0.75f, r->warmup};
    assert_close(lr_schedule_rate(&schedule, 10, r->epoch), r->rate, r->error);
  }
}

TEST(names_are_in_the_engine_s_order) {
  static const char *const fusions[] = {
      [FUSION_AUTO] = "auto", [FUSION_NONE] = "none",   [FUSION_LAYER] = "layer",
      [FUSION_STEP] = "step", [FUSION_EPOCH] = "epoch", [FUSION_EXERCISE] = "exercise"};
  static const char *const optimizers[] = {[OPTIMIZER_SGD] = "sgd",
                                           [OPTIMIZER_NESTEROV] = "nesterov",
                                           [OPTIMIZER_ADAM] = "adam",
                                           [OPTIMIZER_ADAMW] = "adamw"};
  for (int i = 0; i <= FUSION_EXERCISE; i++) assert_string_equal(training_fusions[i], fusions[i]);
  for (int i = 0; i <= OPTIMIZER_ADAMW; i++)
    assert_string_equal(options_optimizers[i], optimizers[i]);
  assert_null(training_fusions[FUSION_EXERCISE + 1]);
  assert_null(options_optimizers[OPTIMIZER_ADAMW + 1]);
}
