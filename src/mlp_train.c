/* mlp-train: trains a multilayer perceptron on a CSV file, or uses a saved network. See --help. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <inttypes.h>

#include "base/clock.h"
#include "commands/commands.h"
#include "data/label_words.h"

/* Refuses a run that --early-stop has already ended: the best epoch is too many epochs ago. */
static bool check_not_stopped(const Options *now, const Checkpoint *from, Error *error) {
  const int waited = from->epoch - from->best_epoch, patience = now->training.early_stop;
  if (!patience || !from->best_epoch || from->step > 0 || waited < patience) return true;
  return error_set(error,
                   "%s stopped early: epoch %d is still the best, %d epoch%s later; give a higher "
                   "--early-stop, or 0 to never stop early",
                   now->resume, from->best_epoch, waited, plural(waited));
}

/* Refuses options with which a saved run cannot continue. A run that was saved in the middle of an
   epoch needs the same rows in the same order. Rows that were trained on must not become validation
   rows. If the validation or test rows change, the best epoch so far is forgotten, because its
   accuracy was measured on other rows. */
static bool check_resumed(const Options *saved, Options *now, Checkpoint *from, Error *error) {
  if (from->epoch >= now->training.epochs)
    return error_set(error, "%s is already trained for %d epochs; give a higher --epochs",
                     now->resume, from->epoch);
  if (!*from->options && !*now->save)
    return error_set(error,
                     "%s was written by another program; name a file for the trained network with "
                     "--save, so that the original stays as it is",
                     now->resume);
  const char *order = options_changed(now, saved, RESUME_EPOCH, RESUME_ROWS);
  if (order && from->step > 0)
    return error_set(error,
                     "%s was interrupted in the middle of an epoch; finish the epoch with the "
                     "original --%s and change it after that",
                     now->resume, order);
  if (!*from->options) return true;

  const bool same_validation = strcmp(saved->validation, now->validation) == 0;
  const char *rows =
      same_validation ? options_changed(now, saved, RESUME_ROWS, RESUME_ROWS) : "validation";
  if (rows && options_hold_out(now) > 0)
    return error_set(error,
                     "--validation %s would hold out rows that %s was trained on; use the original "
                     "--%s, or a file for --validation",
                     now->validation, now->resume, rows);
  const bool judged_by_test = !options_validates(now);
  if (!same_validation || (judged_by_test && strcmp(saved->test, now->test) != 0)) {
    from->best_accuracy = NAN;
    from->best_epoch = 0;
  }
  if (!check_not_stopped(now, from, error)) return false;
  const char *meaning = options_changed(now, saved, RESUME_SAME, RESUME_SAME);
  return !meaning ||
         error_set(error,
                   "%s was trained with a different --%s; use the original value to continue",
                   now->resume, meaning);
}

/* Returns true if the option may differ between ranks. Ranks may have different numbers of threads
   and different paths for a file to load. Only the first rank prints and writes files. */
static bool may_differ(const OptionRow *row) {
  const bool is_loaded = row->file == FILE_INPUT && row->resume == ONE_RUN;
  return !row->kind || row->resume == RANKS_FREE || row->file == FILE_OUTPUT || is_loaded ||
         row->kind == &option_yes_no;
}

/* What the ranks compare: one text per option, then two. */
enum { COMMAND = OPTION_ROWS, SAVED, TEXTS };

static ShortText name_of(size_t text) {
  if (text == COMMAND) return (ShortText){"command"};
  if (text == SAVED) return (ShortText){"a saved run of"};
  return text_format("--%s", options_table.rows[text].name);
}

/* Returns false, with the same message on all ranks, if a rank was started with another command
   than rank 0, with other options or with another saved run (`from`). A rank that only prints its
   help must not leave while others wait for it. Returns true if `ranks` is NULL. */
static bool ranks_agree(Ranks *ranks, OptionsResult asked, const Options *o, const Checkpoint *from,
                        Error *error) {
  static const char *const commands[] = {
      [OPTIONS_RUN] = "", [OPTIONS_HELP] = "--help", [OPTIONS_VERSION] = "--version"};
  ShortText mine[TEXTS] = {{{""}}};
  const size_t size = (size_t)from->count * from->network.floats * sizeof *from->parameters;
  if (!ranks) return true;
  foreach_row (row, &options_table)
    if (!may_differ(row)) mine[row - options_table.rows] = row->kind->get(row, o);
  mine[COMMAND] = text_format("%s", o->dry_run ? "--dry-run" : commands[asked]);
  mine[SAVED] = text_format("epoch %d, step %" PRIu64 ", CRC-32 %08x", from->epoch, from->step,
                            (unsigned)crc32_z(0, (const void *)from->parameters, size));
  ShortText(*all)[TEXTS] = ranks_gather(ranks, mine, sizeof mine, error);
  bool good = all != NULL;
  for (size_t n = 0; good && n < TEXTS; n++) {
    const size_t i = (n + COMMAND) % TEXTS; /* the command first, since it decides the rest */
    for (int r = 1; good && r < ranks_count(ranks); r++)
      good = strcmp(all[0][i].text, all[r][i].text) == 0 ||
             error_set(error,
                       "rank %d was started with %s '%.100s', rank 0 with '%.100s': give all "
                       "ranks the same options and the same saved run",
                       r, name_of(i).text, all[r][i].text, all[0][i].text);
  }
  free(all);
  return good;
}

/* Loads the run that --resume names. The saved options apply unless the configuration file or the
   command line changes them. */
static OptionsResult resume(int argc, char **argv, Options *options, Checkpoint *from,
                            Error *error) {
  if (!checkpoint_load(from, options->resume, error)) return OPTIONS_FAILURE;
  const ShortText name = text_format("%s", options->resume);
  options_default(options);
  if (!options_read_text(options, from->options, name.text, error)) return OPTIONS_FAILURE;
  if (from->resident && options->training.resident == RESIDENT_AUTO)
    options->training.resident = from->resident == RESIDENT_NO ? RESIDENT_NO : RESIDENT_YES;
  const Options saved = *options;
  const OptionsResult result = options_parse(argc, argv, options, error);
  return result != OPTIONS_RUN || check_resumed(&saved, options, from, error) ? result
                                                                              : OPTIONS_FAILURE;
}

/* Connects to the other ranks if a launcher (mpirun) started this process as one of several.
   Then only the first rank prints. The other ranks' standard output goes to /dev/null. */
static bool meet_ranks(Ranks **ranks, Error *error) {
  *ranks = NULL;
  if (!ranks_launched()) return true;
  *ranks = ranks_open(error);
  if (*ranks && ranks_number(*ranks) == 0) return true;
  const int nowhere = open("/dev/null", O_WRONLY);
  if (nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0)
    return error_set(error, "cannot open /dev/null: %s", strerror(errno));
  close(nowhere);
  return *ranks != NULL;
}

/* Only the first rank prints. Progress is not shown with ranks: mpirun gives them a terminal even
   if it writes to a file. Standard output may be for predictions or JSON. */
static Report open_report(const Options *o, const Ranks *ranks) {
  Report report = report_open(o->quiet);
  const bool for_programs = o->json || (*o->predict && !*o->output);
  report.aside = ranks_number(ranks) == 0 && (o->quiet || for_programs);
  if (ranks) report.shows_progress = false;
  return report;
}

/* Ends a failed run. Prints the message unless another rank does. Returns the exit status. */
static int fail(Ranks *ranks, Report *report, Error *error, bool wrong_usage, const char *command) {
  const int signal = ranks ? interrupt_pending() : 0;
  int status = wrong_usage ? 2 : 1;
  if (signal && !wrong_usage) status = 128 + signal;
  if (error->unread) status = 128 + SIGPIPE; /* what a shell reports for SIGPIPE */
  int number = ranks_launched() ? ranks_launched_as() : 0;
  if (ranks) number = ranks_number(ranks);
  if (*error->text && !error->unread && (ranks ? ranks_may_speak(ranks) : number == 0)) {
    const Error why = *error;
    if (number > 0) error_set(error, "rank %d: %s", number, why.text);
    report_failure(report, error);
    if (wrong_usage) fprintf(stderr, "Try '%s --help'.\n", command);
  }
  if (ranks) ranks_abort(ranks, status);
  return status;
}

/* Sets the number of classes to that of the names, or of the words that are the labels of the
   training file, and sets from->names to these words. */
static bool settle_classes(Options *o, Checkpoint *from, Error *error) {
  Options defaults;
  int *classes = &o->training.classes;
  if (*o->resume) return true;
  options_default(&defaults);
  const bool is_default = *classes == defaults.training.classes;
  if (!*o->names) {
    const DatasetConfig rows = {
        .path = o->train, .label = o->label_column, .left_out = o->ignore_columns};
    if (!label_words(&rows, &from->names, error)) return false;
  }
  if (!*o->names && !from->names) return true;
  const int names = *o->names ? class_names_count(o->names) : class_names_lines(from->names);
  if (is_default && names >= 2 && names <= NETWORK_MAX_CLASSES) *classes = names;
  const ShortText whose = text_format("labels of %.200s", o->train);
  return *o->names || (class_names_settle(from->names, *classes, whose.text, error) &&
                       class_names_check_numbers(from->names, *classes, whose.text, error));
}

/* Reads the command line and the files that it names, and returns what the program must do. */
static OptionsResult decide(int argc, char **argv, const Ranks *ranks, Options *options,
                            Checkpoint *from, Error *error) {
  OptionsResult asked = options_parse(argc, argv, options, error);
  if (asked == OPTIONS_RUN && *options->resume) asked = resume(argc, argv, options, from, error);
  if (asked != OPTIONS_RUN) return asked;
  const char *alone = *options->sweep ? "sweep" : NULL;
  if (options->load.count > 0) alone = "load";
  if (ranks && alone) {
    error_set(error, "--%s is for one process: start it without the launcher", alone);
    return OPTIONS_USAGE;
  }
  if (options->dry_run) return OPTIONS_RUN;
  if (!run_files_settle(options, ranks, error))
    return error->too_large ? OPTIONS_FAILURE : OPTIONS_USAGE;
  if (options->load.count == 0 && !settle_classes(options, from, error)) return OPTIONS_FAILURE;
  if (options->load.count == 0 && /* with --load, the network sets the number of classes */
      !class_names_read(options->names, options->training.classes, &from->names, error))
    return OPTIONS_FAILURE;
  options->class_names = from->names;
  return OPTIONS_RUN;
}

/* Prints what a command line without a run asks for: the help, the version or the options. */
static bool print_only(OptionsResult asked, const Options *options, Error *error) {
  if (asked == OPTIONS_HELP) option_table_help(&options_table, stdout);
  if (asked == OPTIONS_VERSION) puts("mlp-train " MLP_TRAIN_VERSION);
  if (asked == OPTIONS_RUN) {
    if (!options_survive(options, true, "--dry-run", error)) return false;
    options_print_config(stdout, options, true);
  }
  return standard_output_flush(error);
}

/* Prints what the program assumes of the files that it reads. */
static void remark_files(const Options *options, const Checkpoint *from, Report *report) {
  const int last = options->training.classes - 1;
  report_remark(report, options_gone_text(options, options->resume).text);
  if (options->class_names && !*options->names && !*options->resume)
    report_remark(report, text_format("%.200s: labels are words, sorted: "
                                      "class 0 is '%s', class %d '%s'",
                                      text_shown(options->train).text,
                                      class_name(options->class_names, 0).text, last,
                                      class_name(options->class_names, last).text)
                              .text);
  if (*options->resume)
    report_remark(report, run_files_assumed(options, from, options->resume).text);
}

/* Runs the command that the options ask for. train_command (commands.h) sets *signal. */
static bool carry_out(OptionsResult asked, Options *options, Checkpoint *from, Ranks *ranks,
                      Report *report, double began, int *signal, Error *error) {
  if (asked == OPTIONS_USAGE || asked == OPTIONS_FAILURE) return false;
  if (!ranks_agree(ranks, asked, options, from, error)) return false;
  if (asked != OPTIONS_RUN || options->dry_run) return print_only(asked, options, error);
  if (options->load.count > 0) return predict_command(options, report, error);
  if (!run_files_are_there(options, error)) return false;
  remark_files(options, from, report);
  if (options->sweep[0]) return sweep_command(options, report, error);
  if (options->seeds) return seeds_command(options, ranks, report, error);
  return train_command(options, *options->resume ? from : NULL, ranks, report, began, signal,
                       error);
}

/* Ends the program. `done` is what carry_out returned, and ended_by the signal that ended the run,
   or 0. Returns the exit status. */
static int finish(bool done, int ended_by, Ranks *ranks, Report *report, Error *error,
                  bool wrong_usage, const char *command) {
  if (!done && interrupt_pending() && !ranks) {
    ended_by = interrupt_pending();
    if (strncmp(error->text, "interrupted", 11) != 0) error_set(error, "interrupted");
    done = true;
  }
  if (!done) return fail(ranks, report, error, wrong_usage, command);
  /* Report first: once a rank ends with a signal's status, mpirun ends all ranks. */
  if (ended_by && *error->text && ranks_number(ranks) == 0) report_failure(report, error);
  ranks_close(ranks);
  return ended_by ? 128 + ended_by : 0;
}

int main(int argc, char **argv) {
  const double began = seconds_now();
  standard_output_open();
  interrupt_catch(false);
  Options options;
  Checkpoint from = {0};
  Error error = {.text = ""};
  Ranks *ranks;
  int ended_by = 0;
  options_default(&options);
  const OptionsResult asked = meet_ranks(&ranks, &error)
                                  ? decide(argc, argv, ranks, &options, &from, &error)
                                  : OPTIONS_FAILURE;
  Report report = open_report(&options, ranks);
  const bool done = carry_out(asked, &options, &from, ranks, &report, began, &ended_by, &error);
  checkpoint_free(&from);
  return finish(done, ended_by, ranks, &report, &error, asked == OPTIONS_USAGE, argv[0]);
}
