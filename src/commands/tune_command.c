/* --tune: the learning-rate range test: an epoch in which the learning rate grows, and the training
   loss at every rate (Smith, "Cyclical learning rates for training neural networks", 2017). Where
   the loss falls the network learns; where it rises again the rate is too high. The command draws
   it, and prints the command that trains with the rate that it finds. */
#include <inttypes.h>
#include <string.h>

#include "commands/commands.h"

static const double LOW = 1e-5, HIGH = 10; /* the first rate, and the last */
static const double BLOWN_UP = 4;          /* times the lowest mean so far: it has diverged */
static const double SLACK = 0.02;          /* of what the loss falls in all */
enum { NEAR = 4 };                         /* losses around one, for a mean */
enum { FEWEST = 20 };                      /* rates; with fewer the curve says nothing */

/* The mean of losses first to last, of those that there are. */
static double mean_loss(const RateTest *t, int first, int last) {
  first = max_int(first, 0);
  last = min_int(last, t->count - 1);
  double sum = 0;
  for (int i = first; i <= last; i++) sum += t->loss[i];
  return sum / (last - first + 1);
}

/* Returns the rate behind which the loss falls no more, or not much. */
static double lowest_good_rate(const RateTest *t) {
  double lowest = INFINITY;
  int i = 0;
  for (int k = 0; k < t->count; k++) lowest = fmin(lowest, t->smooth[k]);
  while (t->smooth[i] > lowest + SLACK * fabs(t->smooth[0] - lowest)) i++;
  return t->rate[i];
}

/* Trains a new, resident trainer's network in shuffled order at rates from LOW to HIGH, up to where
   the loss diverges. Fails if a file or the engine does, if a signal ends it, which main tells, or
   if there are too few steps to find a rate by. */
static bool test_rates(Trainer *trainer, RateTest *test, Error *error) {
  const TrainerEvents events = {.stop = stop_on_signal, .patience = 1};
  Engine *engine = trainer->engine;
  const Training *training = &engine->config.training;
  *test = (RateTest){0};
  if (trainer_load(trainer, &events, error) != TRAINER_DONE) return false;
  const uint64_t rows = trainer->train_rows, steps = ceil_div(rows, (uint64_t)training->batch);
  const int rates = steps < RATES_MOST ? (int)steps : RATES_MOST;
  if (rates < FEWEST)
    return error_set(error,
                     "--tune wants at least %d steps, but %" PRIu64 " rows in batches of %d are "
                     "%" PRIu64 ": try a smaller --batch",
                     FEWEST, rows, training->batch, steps);
  TrainRange range = {.rows = rows, .shuffled = true, .key = random_order_key(training->seed, 1)};
  double lowest = INFINITY;
  for (int i = 0; i < rates && !test->diverged; i++) {
    EngineSums sums;
    if (interrupt_pending()) return false;
    const double rate = LOW * pow(HIGH / LOW, (double)i / (rates - 1));
    range.learning_rate = (float)rate;
    range.first_step = range.updates = test->steps;
    range.steps = steps * (uint64_t)(i + 1) / (uint64_t)rates - test->steps;
    if (!engine->call->train(engine, &range, error) || !engine->call->collect(engine, &sums, error))
      return false;
    test->steps += range.steps;
    const double loss = sums.loss / (double)sums.rows;
    test->diverged = !isfinite(loss);
    if (test->diverged) break;
    test->rate[test->count] = rate;
    test->loss[test->count++] = loss;
    const double mean = mean_loss(test, i - NEAR, i); /* of few rows a loss says little */
    test->diverged = i >= NEAR && mean > BLOWN_UP * lowest;
    if (i >= NEAR) lowest = fmin(lowest, mean);
  }
  if (test->count < FEWEST)
    return error_set(error,
                     "the loss diverges at learning rates from %g on: are the pixels and labels of "
                     "the training file right?",
                     LOW);
  for (int i = 0; i < test->count; i++)
    test->smooth[i] = mean_loss(test, i - NEAR / 2, i + NEAR / 2);
  test->best = lowest_good_rate(test);
  return true;
}

void command_without(const Options *o, const char *names, char *command, size_t size) {
  *command = '\0';
  for (int i = 0; i < o->word_count; i++) {
    const char *word = o->words[i];
    const int length = (int)strcspn(word, "=");
    if (strstr(names, text_format(" %.*s ", length, word).text)) {
      i += !word[length];
      continue;
    }
    text_append(command, size, "%s", *command ? " " : "");
    text_shell_word(command + strlen(command), size - strlen(command), word);
  }
}

static void say(const Options *o, const RateTest *test, Report *report) {
  char command[4 * OPTIONS_PATH];
  const ShortText rate = text_format("%.2g", test->best);
  command_without(o, " --tune --lr -l ", command, sizeof command);
  report_note(report, "tune     %" PRIu64 " steps at %d rates from %.2g to %.2g%s", test->steps,
              test->count, test->rate[0], test->rate[test->count - 1],
              test->diverged ? ", where the loss diverged" : "");
  report_note(report,
              "tune     from a rate of %s on the loss falls no further; up to four times that may "
              "be better still",
              rate.text);
  run_files_say_wrote(report, o->tune, "");
  report_note(report, "try      %s --lr %s", command, rate.text);
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
  RateTest test;
  const bool good = trainer && report_good(report, error) && test_rates(trainer, &test, error) &&
                    plot_rates(&test, o.tune, error);
  trainer_close(trainer);
  if (good) say(&o, &test, report);
  return good && report_good(report, error);
}
