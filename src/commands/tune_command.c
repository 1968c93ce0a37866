/* --tune: finds a learning rate, draws how, and prints the command that trains with it. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "commands/commands.h"
#include "train/rate_test.h"

/* Appends a word to a command, as a shell takes it. */
static void add_word(char *command, size_t size, const char *word) {
  const size_t used = strlen(command);
  if (used + 2 > size) return;
  strcpy(command + used, used ? " " : "");
  text_shell_word(command + strlen(command), size - strlen(command), word);
}

void command_without(const Options *o, const char *names, char *command, size_t size) {
  *command = '\0';
  for (int i = 0; i < o->word_count; i++) {
    const char *word = o->words[i];
    const int length = (int)strcspn(word, "=");
    char name[64];
    snprintf(name, sizeof name, " %.*s ", length, word);
    if (!strstr(names, name))
      add_word(command, size, word);
    else if (!word[length])
      i++;
  }
}

static void say(const Options *o, const RateTest *test, Report *report) {
  char command[4 * OPTIONS_PATH], rate[32];
  snprintf(rate, sizeof rate, "%.2g", test->best);
  command_without(o, " --tune --lr -l ", command, sizeof command);
  report_note(report, "tune     %llu steps at %d rates from %.2g to %.2g%s",
              (unsigned long long)test->steps, test->count, test->rate[0],
              test->rate[test->count - 1], test->diverged ? ", where the loss diverged" : "");
  report_note(report,
              "tune     from a rate of %s on the loss falls no further; up to four times that may "
              "be better still",
              rate);
  run_files_say_wrote(report, o->tune, "");
  report_note(report, "try      %s --lr %s", command, rate);
}

static bool tune(const Options *o, Trainer *trainer, Report *report, Error *error) {
  const TrainerEvents events = {.stop = stop_on_signal, .patience = 1};
  RateTest test;
  const TrainerResult result = rate_test_run(trainer, &events, &test, error);
  if (result == TRAINER_STOPPED) return error_set(error, "interrupted");
  if (result == TRAINER_FAILED) return false;
  if (!plot_rates(&test, o->tune, error)) return false;
  say(o, &test, report);
  return report_good(report, error);
}

bool tune_command(const Options *options, Report *report, Error *error) {
  Options o = *options; /* but for what the test does without */
  strcpy(o.test, "none");
  strcpy(o.validation, "0");
  o.training.early_stop = 0;
  o.training.augment = (AugmentStrengths){0};
  o.training.resident = RESIDENT_YES;
  Device device = {.choice = o.device};
  const TrainerConfig config = trainer_config(&o);
  if (!run_files_can_be_written(options, error)) return false;
  Trainer *trainer = trainer_open(&config, device_open, &device, error);
  if (trainer) report_start(report, trainer, device.reason.text);
  const bool good = trainer && report_good(report, error) && tune(&o, trainer, report, error);
  trainer_close(trainer);
  return good;
}
