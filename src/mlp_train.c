/* mlp-train: trains a multilayer perceptron on a CSV file, or asks one; see --help. */
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "commands/commands.h"

/* Loads the run of --resume; its options come before those of the configuration file and the
   command line. */
static OptionsResult resume(int argc, char **argv, Options *options, Checkpoint *from,
                            Error *error) {
  if (!checkpoint_load(from, options->resume, error)) return OPTIONS_FAILURE;
  char name[OPTIONS_PATH];
  snprintf(name, sizeof name, "%s", options->resume);
  options_default(options);
  if (!options_read_text(options, from->options, name, error)) return OPTIONS_FAILURE;
  const OptionsResult result = options_parse(argc, argv, options, error);
  if (result == OPTIONS_RUN && from->epoch >= options->epochs) {
    error_set(error, "%s was trained for %d epochs already: ask for more with --epochs", name,
              from->epoch);
    return OPTIONS_FAILURE;
  }
  return result;
}

/* Nothing is left to do but to say how it went: true if it went well. */
static bool show(OptionsResult asked, const Options *options, Error *error) {
  if (asked == OPTIONS_HELP)
    options_print_help(stdout);
  else if (asked == OPTIONS_VERSION)
    puts("mlp-train " MLP_TRAIN_VERSION);
  else
    options_print_config(stdout, options, true);
  return report_flush(error);
}

int main(int argc, char **argv) {
  const double began = seconds_now();
  signal(SIGPIPE, SIG_IGN); /* a closed pipe is a failed write, told like any other */
  signal(SIGXFSZ, SIG_IGN); /* likewise a file that may not grow */
  Options options;
  Checkpoint from = {0};
  Error error;
  int ended_by = 0;
  bool done = false;
  options_default(&options);
  OptionsResult asked = options_parse(argc, argv, &options, &error);
  if (asked == OPTIONS_RUN && *options.resume) asked = resume(argc, argv, &options, &from, &error);
  Report report = report_open(options.quiet);
  if (asked == OPTIONS_HELP || asked == OPTIONS_VERSION ||
      (asked == OPTIONS_RUN && options.dry_run))
    done = show(asked, &options, &error);
  else if (asked == OPTIONS_RUN && *options.load)
    done = predict_command(&options, &error);
  else if (asked == OPTIONS_RUN)
    done =
        train_command(&options, *options.resume ? &from : NULL, &report, began, &ended_by, &error);
  checkpoint_free(&from);
  if (done && !ended_by) return 0;
  report_failure(&report, &error);
  if (ended_by) return 128 + ended_by;
  if (asked != OPTIONS_USAGE) return 1;
  fputs("try mlp-train --help\n", stderr);
  return 2;
}
