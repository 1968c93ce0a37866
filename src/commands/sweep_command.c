/* --sweep: searches for the option values with the best accuracy. */
#include <string.h>

#include "commands/commands.h"
#include "plot/figures.h"

enum { OPTIONS_MOST = 8, VALUES_MOST = 32, TRIALS = 32, THIRD = 3 };

typedef struct {
  char text[24];
} Value;

/* An option to search, and its values, which are a list or a range. */
typedef struct {
  const OptionRow *row;
  Value value[VALUES_MOST];
  int count;
  bool ranges, logarithmic;
  double low, high; /* bounds of a range */
} Searched;

typedef struct {
  int number;           /* number of the trial, counted from 1: its place among the drawn trials */
  uint64_t combination; /* of the lists' values */
  Value value[OPTIONS_MOST];
  Checkpoint at;   /* the state of training, if the trial may continue in a later round */
  double accuracy; /* on the validation rows after the last epoch; -1 if training diverged */
  int epochs;      /* number of epochs trained */
} Trial;

typedef struct {
  ManyRuns runs; /* runs.options are the options without --sweep; each trial changes a copy */
  Searched searched[OPTIONS_MOST];
  int count; /* number of searched options */
  Trial *trials;
  int trial_count, epochs; /* number of trials; number of the last epoch in the current round */
  bool last;               /* true in the last round */
  EpochResult *results;    /* (trial_count, epochs of a whole run): by the trials' numbers */
} Sweep;

/* ---- what is searched ----------------------------------------------------------------------- */

static bool keep_value(Searched *to, const char *text, Error *error) {
  Options checked;
  if (to->count == VALUES_MOST || strlen(text) >= sizeof(Value))
    return error_set(error, "--sweep: --%s takes at most %d values, each of %zu characters",
                     to->row->name, VALUES_MOST, sizeof(Value) - 1);
  strcpy(to->value[to->count++].text, text);
  options_default(&checked);
  return to->row->kind->set(to->row, text, &checked, error);
}

/* Adds one value, or a range such as "0.01:0.2:log", to *to. Changes `text`. */
static bool add_value(Searched *to, char *text, Error *error) {
  const OptionKind *kind = to->row->kind;
  char *high = strchr(text, ':'), *rest = high ? strchr(high + 1, ':') : NULL;
  const bool is_number =
      kind == &option_number || kind == &option_number_or_auto || kind == &option_whole;
  if ((high && (to->count > 0 || !is_number)) || to->ranges || (rest && strcmp(rest, ":log") != 0))
    return error_set(error,
                     "--sweep: the values of --%s are a list or, of a number, LOW:HIGH or "
                     "LOW:HIGH:log, not '%s'",
                     to->row->name, text);
  to->ranges = high;
  to->logarithmic = rest;
  if (rest) *rest = '\0';
  if (high) *high++ = '\0';
  if (!keep_value(to, text, error) || (high && !keep_value(to, high, error))) return false;
  if (!high) return true;
  char *low_end, *high_end;
  to->low = strtod(text, &low_end);
  to->high = strtod(high, &high_end);
  if (*low_end || *high_end)
    return error_set(error, "--sweep: the range of --%s must start and end with a number, not '%s'",
                     to->row->name, *low_end ? text : high);
  return (to->low < to->high && (to->low > 0 || !rest)) ||
         error_set(error, "--sweep: the range of --%s must start below its end%s", to->row->name,
                   rest ? ", and above 0" : "");
}

/* Returns the row of an option that --sweep may try. For any other name, returns NULL with *error
   set. */
static const OptionRow *find_option(const char *name, Error *error) {
  foreach_row (row, &options_table)
    if (strcmp(row->name, name) == 0 && options_may_be_swept(row)) return row;
  return error_null(
      error, "--sweep cannot try '%s': name an option of training, such as lr or hidden", name);
}

/* Reads a list such as "lr=0.01:0.2:log,momentum=0.8,0.9". */
static bool read_searched(Sweep *s, const char *list, Error *error) {
  char text[OPTIONS_PATH], *rest;
  strcpy(text, list);
  for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
    char *value = strchr(word, '=');
    if (value && s->count == OPTIONS_MOST)
      return error_set(error, "--sweep takes at most %d options", OPTIONS_MOST);
    if (value) *value++ = '\0';
    if (value && !(s->searched[s->count++].row = find_option(word, error))) return false;
    for (int i = 0; value && i < s->count - 1; i++)
      if (s->searched[i].row == s->searched[s->count - 1].row)
        return error_set(error, "--sweep has '%s' twice: list all its values once", word);
    if (s->count == 0) break;
    if (!add_value(&s->searched[s->count - 1], value ? value : word, error)) return false;
  }
  return s->count > 0 ||
         error_set(error, "--sweep needs OPTION=VALUE,VALUE,... or "
                          "OPTION=LOW:HIGH, as in lr=0.01:0.2:log,momentum=0.8,0.9");
}

/* ---- trials --------------------------------------------------------------------------------- */

/* Draws a random value from each range. Takes the trial's combination of the lists' values. */
static void draw_trial(const Sweep *s, Trial *t) {
  uint64_t at = t->combination;
  for (int i = 0; i < s->count; i++) {
    const Searched *from = &s->searched[i];
    const uint64_t stream = 0x7377656570u /* "sweep" */, counter = (uint64_t)t->number << 8;
    const double part = random_unit(
        random_words(s->runs.options->training.seed, stream, counter + (uint64_t)i).word[0]);
    if (!from->ranges) {
      t->value[i] = from->value[at % (uint64_t)from->count];
      at /= (uint64_t)from->count;
      continue;
    }
    const double value = from->logarithmic ? from->low * pow(from->high / from->low, part)
                                           : from->low + part * (from->high - from->low);
    snprintf(t->value[i].text, sizeof(Value), from->row->kind == &option_whole ? "%.0f" : "%.3g",
             value);
  }
}

/* Returns the trial's searched options as text for a command line. */
static ShortText list_values(const Sweep *s, const Trial *t) {
  ShortText list = {""};
  for (int i = 0; i < s->count; i++)
    text_append(list.text, " --%s %s", s->searched[i].row->name, t->value[i].text);
  return list;
}

/* Returns the combination of trial `i` of `lists` combinations, each as likely as another. The
   first `lists` trials have different combinations. */
static uint64_t draw_combination(const Sweep *s, int i, uint64_t lists) {
  const uint64_t seed = s->runs.options->training.seed, stream = 0x636f6d62696e65u /* "combine" */;
  if (lists <= UINT32_MAX)
    return random_permute((uint32_t)((uint64_t)i % lists), (uint32_t)lists, seed);
  for (uint64_t counter = (uint64_t)i << 32;; counter++) {
    const RandomWords w = random_words(seed, stream, counter);
    const uint64_t at = ((uint64_t)w.word[1] << 32 | w.word[0]) % lists; /* lists <= 2^40 */
    int before = 0;
    while (before < i && s->trials[before].combination != at) before++;
    if (before == i) return at;
  }
}

/* Sets *o to the trial's options, as if a command line gave them. */
static bool make_options(const Sweep *s, const Trial *t, Options *o, Error *error) {
  *o = *s->runs.options;
  for (int i = 0; i < s->count; i++)
    s->searched[i].row->kind->set(s->searched[i].row, t->value[i].text, o, NULL);
  return options_check(o, error);
}

/* Returns false if --names does not fit the trial's --classes. */
static bool has_names(const Options *o, Error *error) {
  char *names = NULL;
  const bool good = class_names_read(o->names, o->training.classes, &names, error);
  free(names);
  return good;
}

static bool draw_trials(Sweep *s, int trials, Error *error) {
  uint64_t lists = 1; /* number of combinations of the lists' values */
  bool ranges = false;
  Options o;
  Error why;
  for (int i = 0; i < s->count; i++) {
    ranges |= s->searched[i].ranges;
    lists *= s->searched[i].ranges ? 1 : (uint64_t)s->searched[i].count;
  }
  s->trial_count = ranges ? TRIALS : TRIALS_MOST;
  if (trials) s->trial_count = trials;
  if (!ranges && lists < (uint64_t)s->trial_count) s->trial_count = (int)lists;
  s->trials = make_array(s->trials, s->trial_count);
  s->results =
      make_array(s->results, (size_t)s->trial_count * (size_t)s->runs.options->training.epochs);
  if (!s->trials || !s->results) return error_set(error, "out of memory");
  for (int i = 0; i < s->trial_count; i++) {
    s->trials[i].number = i + 1;
    s->trials[i].combination = draw_combination(s, i, lists);
    draw_trial(s, &s->trials[i]);
    if (!make_options(s, &s->trials[i], &o, &why) || !has_names(&o, &why))
      return error_set(error, "--sweep tries%s: %.300s", list_values(s, &s->trials[i]).text,
                       why.text);
  }
  return true;
}

static TrainerConfig trial_config(void *context, int run, Options *o) {
  const Sweep *s = context;
  const Trial *t = &s->trials[run];
  make_options(s, t, o, NULL);
  TrainerConfig config = trainer_config(o);
  config.from = t->at.parameters ? &t->at : NULL;
  config.from_name = "a trial";
  return config;
}

/* Implements TrainerEvents.epoch: keeps a result in `context`, the trial's row of Sweep.results. */
static bool keep_epoch(void *context, const EpochResult *result, Error *error) {
  (void)error;
  ((EpochResult *)context)[result->epoch - 1] = *result;
  return true;
}

static bool train_trial(void *context, int run, Trainer *trainer, Error *error) {
  const Sweep *s = context;
  const Trial *t = &s->trials[run];
  const TrainerEvents events = {
      .epoch = keep_epoch,
      .until = s->epochs,
      .patience = 1,
      .context = s->results + (size_t)(t->number - 1) * (size_t)s->runs.options->training.epochs};
  if (!trainer_run(trainer, &events, error)) return trainer->diverged;
  return !trainer->stopped || error_set(error, "interrupted: nothing of the sweep is kept");
}

static bool keep_trial(void *context, int run, const Trainer *trainer, const Options *o,
                       Error *error) {
  const Sweep *s = context;
  Trial *t = &s->trials[run];
  const Checkpoint *at = &trainer->position;
  (void)o;
  t->epochs = at->epoch;
  t->accuracy = trainer->diverged ? -1 : at->test_accuracy;
  checkpoint_free(&t->at);
  return s->last || trainer->diverged || trainer_checkpoint(trainer, &t->at, error);
}

/* Compares trials for qsort. More accurate trials come first, then trials with lower numbers. */
static int compare_trials(const void *a, const void *b) {
  const Trial *x = a, *y = b;
  if (x->accuracy != y->accuracy) return x->accuracy < y->accuracy ? 1 : -1;
  return x->number - y->number;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static bool halve(Sweep *s, Error *error) {
  ManyRuns *runs = &s->runs;
  const int epochs = s->runs.options->training.epochs;
  int part = 1; /* each round trains its trials until epoch number epochs / part */
  for (int left = s->trial_count; left >= THIRD && part * THIRD <= epochs; left /= THIRD)
    part *= THIRD;
  runs->count = s->trial_count;
  for (; part > 0; part /= THIRD, runs->count = (runs->count + THIRD - 1) / THIRD) {
    s->epochs = epochs / part;
    s->last = part == 1;
    if (!many_runs(runs, error)) return false;
    qsort(s->trials, (size_t)runs->count, sizeof *s->trials, compare_trials);
    for (int i = (runs->count + THIRD - 1) / THIRD; i < runs->count; i++)
      checkpoint_free(&s->trials[i].at);
    if (s->trials[0].accuracy < 0)
      return error_set(error, "all %d trials diverge: try a lower --lr", runs->count);
    report_note(runs->report, "sweep    %d trial%s of %d epoch%s: best val-acc %.2f%%", runs->count,
                plural(runs->count), s->epochs, plural(s->epochs), 100 * s->trials[0].accuracy);
    if (!report_good(runs->report, error)) return false;
  }
  return true;
}

/* Logs all trials, the best one first. */
static bool log_trials(const Sweep *s, TrainLog *log, Error *error) {
  const char *name[OPTIONS_MOST], *value[OPTIONS_MOST];
  bool good = true;
  for (int n = 0; good && n < s->trial_count; n++) {
    const Trial *t = &s->trials[n];
    for (int i = 0; i < s->count; i++) {
      name[i] = s->searched[i].row->name;
      value[i] = t->value[i].text;
    }
    good = train_log_trial(log,
                           &(LoggedTrial){.place = n + 1,
                                          .number = t->number,
                                          .accuracy = t->accuracy < 0 ? NAN : t->accuracy,
                                          .epochs = t->epochs,
                                          .options = s->count,
                                          .name = name,
                                          .value = value},
                           error);
  }
  return good;
}

/* Draws the curves of the trials that trained for all epochs. */
static bool plot_trials(const Sweep *s, const char *path, Error *error) {
  const int epochs = s->runs.options->training.epochs;
  int count = 0;
  if (!*path) return true;
  EpochResult *whole = make_array(whole, (size_t)s->trial_count * (size_t)epochs);
  if (!whole) return error_set(error, "out of memory drawing %s", path);
  for (int n = 0; n < s->trial_count; n++)
    if (s->trials[n].epochs == epochs && s->trials[n].accuracy >= 0)
      memcpy(whole + (size_t)count++ * (size_t)epochs,
             s->results + (size_t)(s->trials[n].number - 1) * (size_t)epochs,
             (size_t)epochs * sizeof *whole);
  const bool good = plot_curves(whole, count, epochs, path, error);
  free(whole);
  return good;
}

static void say(const Sweep *s, Report *report) {
  report_result(report, "         val-acc  epochs");
  for (int n = 0; n < s->trial_count; n++) {
    const Trial *t = &s->trials[n];
    const ShortText accuracy =
        text_format(t->accuracy < 0 ? "diverged" : "%7.2f%%", 100 * t->accuracy);
    report_result(report, "%5d  %s  %6d %s", n + 1, accuracy.text, t->epochs,
                  list_values(s, t).text);
  }
}

bool sweep_command(const Options *options, Report *report, Error *error) {
  Options o = *options;
  Sweep s = {.runs = {.options = &o,
                      .report = report,
                      .device = {.choice = o.device},
                      .config = trial_config,
                      .train = train_trial,
                      .keep = keep_trial,
                      .context = &s}};
  *o.sweep = '\0';
  o.trials = 0;
  strcpy(o.test, "none");
  if (!options_validates(options)) strcpy(o.validation, "0.1");
  TrainLog log = {.path = ""};
  bool good = train_log_open(&log, options->log, false, error) &&
              read_searched(&s, options->sweep, error) && draw_trials(&s, options->trials, error);
  if (good && !options_validates(options))
    report_note(report, "sweep    a tenth of the training rows is held out to judge by");
  good = good && halve(&s, error);
  if (good) say(&s, report);
  good = good && log_trials(&s, &log, error) && plot_trials(&s, options->plot, error);
  good = train_log_close(&log, good ? error : NULL) && good;
  if (good) run_files_say_wrote(report, options->plot, "");
  if (good) run_files_say_wrote(report, options->log, "");
  for (int i = 0; s.trials && i < s.trial_count; i++) checkpoint_free(&s.trials[i].at);
  free(s.trials);
  free(s.results);
  return good && report_good(report, error);
}
