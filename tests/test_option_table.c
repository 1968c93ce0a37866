/* The table of options: help, manual page and completion agree with it. */
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

/* Returns --help in one of its forms. */
static char *made(const char *form, const char *filter) {
  char *text;
  const char *command =
      text_printf("MLP_HELP=%s " PROGRAM_FOLDER "/mlp-train --help%s", form, filter);
  assert_int_equal(process_run(command, &text), 0);
  return text;
}

/* Returns a copy of the text from `start` up to the next `end`, with that. */
static char *cut(const char *text, const char *start, const char *end) {
  const char *at = strstr(text, start), *behind = at ? strstr(at + strlen(start), end) : NULL;
  if (!behind) fail_msg("'%s' is not before '%s' in: %s", start, end, text);
  return text_printf("%.*s%s", (int)(behind - at), at, end);
}

/* Help, page and completion have every option with its values and its default. */
TEST(every_form_of_help_has_every_option) {
  const char *help = made("", "| sed -z 's/\\n \\{26\\}/ /g'"); /* where a line is broken */
  const char *page = made("man", ""), *words = text_printf("\n%s", made("words", ""));
  assert_null(strstr(page, "--")); /* roff has \- for what a reader can copy */
  page = text_printf("%s.TP\n", made("man", "| sed 's/\\\\-/-/g'"));
  foreach_row (row, &options_table) {
    const char *initial = row->argument && row->initial ? row->initial : "";
    const char *argument = row->argument ? row->argument : "";
    const char *form[] = {cut(strstr(help, "\nnetwork:\n"), text_printf(" --%s ", row->name), "\n"),
                          cut(page, text_printf("\\fB--%s\\fR", row->name), "\n.TP\n"),
                          cut(words, text_printf("\n%s|", row->name), "\n")};
    for (int c = 0; row->choices && row->choices[c]; c++)
      for (int f = 0; f < 3; f++) assert_in(form[f], row->choices[c]);
    assert_in(form[0], row->help);
    if (*initial) assert_in(form[0], text_printf(" [%s]\n", initial));
    assert_in(
        form[1],
        text_printf("%s\n%s\n", *argument ? text_printf(" \\fI%s\\fR", argument) : "", row->help));
    if (*initial) assert_in(form[1], text_printf("default \\fB%s\\fR\n", initial));
    assert_in(form[2], text_printf("|%c|%s|%d|%s|", row->letter ? row->letter : '-', argument,
                                   row->file != FILE_NONE, row->endings ? row->endings : ""));
    if (row->group) assert_in(help, text_printf("\n%s:\n", row->group));
    if (row->group) assert_in(page, text_printf("\n.SS \"%s\"\n.TP\n", row->group));
  }
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
