/* Trains one network, and saves, logs and draws what the options ask for. */
#include <string.h>

#include "base/clock.h"
#include "commands/commands.h"

typedef struct {
  const Options *options;
  const Checkpoint *from; /* the run to continue, or NULL for a new run */
  Report *report;
  TrainerConfig config; /* if config.ranks is set, only the first rank prints and saves */
  EvaluateConfig evaluate;
  Device device;
  Trainer *trainer;
  TrainLog log;
  bool has_header;         /* set once the log has the current trainer's header */
  const char *save;        /* file for the network; "" if it is not saved */
  char best[DERIVED_PATH]; /* file for the best epoch's network; "" if it is not saved */
  int best_saved;          /* the last epoch saved in `best`; 0 if none was saved */
  int saved;               /* the last epoch saved in `save`; 0 if none was saved */
  EpochResult *results;    /* (options->training.epochs): results of the epochs */
  int count;               /* number of results */
  DataSummary tested;      /* summary of the rows of the final test */
  double began;            /* when the process started */
  int signal;              /* the signal that ends the run, or 0 */
  int signalled;           /* number of the rank that got the signal */
  Error unanswered;        /* why the ranks could not tell each other of signals */
} Run;

/* Implements TrainerEvents.stop: returns true if any rank got a signal, or if the ranks could not
   ask each other whether one did. */
static bool on_stop(void *context) {
  Run *run = context;
  return !ranks_interrupted(run->config.ranks, &run->signal, &run->signalled, &run->unanswered) ||
         run->signal != 0;
}

/* Saves the network in run->save and, if its epoch is the best so far (`is_best`), in run->best. */
static bool save_network(Run *run, bool is_best, Error *error) {
  const char *best = is_best ? run->best : "";
  if (!run_files_save(run->trainer, run->options, best, run->save, error)) return false;
  run->saved = run->trainer->position.epoch;
  if (*best) run->best_saved = run->saved;
  return true;
}

/* ---- callbacks during training ------------------------------------------------------------ */

/* Prints and logs an epoch. Saves the network if the epoch is the best so far. Without test and
   validation rows, saves the network after every epoch. */
static bool on_epoch(void *context, const EpochResult *result, Error *error) {
  Run *run = context;
  const Trainer *t = run->trainer;
  const Checkpoint *at = &t->position;
  const int wait = run->options->training.early_stop;
  const bool is_last =
      result->epoch == result->epochs || (wait && at->epoch - at->best_epoch >= wait);
  const bool judged = result->judged_by != JUDGED_BY_NONE, is_best = at->best_epoch == at->epoch;
  run->results[run->count++] = *result;
  const bool named = run->has_header || train_log_header(&run->log, t->engine, run->options, error);
  const bool told = !report_data(run->report, t) || !named ||
                    (train_log_data(&run->log, "train", &t->train, error) &&
                     train_log_data(&run->log, trainer_judge_option(t), &t->judge, error));
  run->has_header = true;
  report_learning(run->report, result, t);
  report_epoch(run->report, result, is_last);
  const bool good =
      named && told && report_good(run->report, error) && train_log_epoch(&run->log, result, error);
  const bool saves = *run->save && (!judged || is_best);
  return (!saves || save_network(run, is_best, good ? error : NULL)) && good;
}

/* ---- before ------------------------------------------------------------------------------- */

/* Opens a trainer that continues the run `from` or, if `from` is NULL, begins a new run. */
static bool open_trainer(Run *run, const Checkpoint *from, Error *error) {
  trainer_close(run->trainer);
  run->config.from = from;
  run->config.from_name = run->options->resume;
  run->trainer = trainer_open(&run->config, device_open, &run->device, error);
  return run->trainer && evaluate_can(run->trainer->engine, &run->evaluate, error);
}

/* ---- after -------------------------------------------------------------------------------- */

/* Prints and logs the final test result of a run that used validation rows. */
static bool say_test(Run *run, const Metrics *metrics, Error *error) {
  const Checkpoint *at = &run->trainer->position;
  const double rows = (double)metrics->rows;
  const EpochResult result = {.epoch = at->epoch,
                              .epochs = run->options->training.epochs,
                              .seed = run->options->training.seed,
                              .train_loss = NAN,
                              .train_accuracy = NAN,
                              .learning_rate = NAN,
                              .train_seconds = NAN,
                              .test_seconds = NAN,
                              .test_loss = metrics->loss / rows,
                              .test_accuracy = (double)metrics->correct / rows,
                              .test_rows = metrics->rows};
  report_test(run->report, &result);
  data_compare(run->config.test, &run->tested, &run->trainer->train.data, report_remark,
               run->report);
  return train_log_epoch(&run->log, &result, error);
}

/* Runs the final test of a run with validation rows. Draws pictures and prints their names. */
static bool test_and_draw(Run *run, Error *error) {
  const Options *o = run->options;
  const bool tests = run->evaluate.rows.path && run->config.test &&
                     (run->config.validation || run->config.hold_out > 0);
  Metrics metrics;
  if (!tests && !*o->mistakes && !*o->confusion) run->evaluate.rows.path = NULL;
  if (!run->evaluate.rows.path && !*o->weights && !*o->html) return true;
  run->evaluate.rows.trained = &run->trainer->train.data;
  if (!evaluate_file(run->trainer->engine, &run->evaluate, &metrics, error)) return false;
  const bool good = !tests || say_test(run, &metrics, error);
  metrics_close(&metrics);
  run_files_say_drew(run->report, &run->evaluate);
  return good;
}

/* Prints which files were written. Omits run->best if no epoch since --resume was the best. */
static void say_what_was_written(const Run *run) {
  const Checkpoint *at = &run->trainer->position;
  const ShortText last = text_format(": the network after epoch %d, for --resume", at->epoch),
                  best = text_format(": the network after epoch %d, the best: %.2f%%", at->best_epoch,
                                     100 * at->best_accuracy);
  run_files_say_wrote(run->report, run->save, *run->best ? last.text : "");
  if (run->best_saved) run_files_say_wrote(run->report, run->best, best.text);
  run_files_say_wrote(run->report, run->options->log, "");
}

/* Sets *error to the last line that an interrupted run prints. An interruption is not a failure. */
static void say_interrupted(const Run *run, Error *error) {
  const Checkpoint *at = &run->trainer->position;
  ShortText rank = {""};
  if (run->config.ranks) rank = text_format("rank %d was ", run->signalled);
  const ShortText how = *run->save
                            ? text_format("continue with --resume %s", run->save)
                            : text_format("the network was not saved; use --save FILE to keep it");
  error_set(error, "%sinterrupted %s epoch %d: %s", rank.text, at->step > 0 ? "in" : "after",
            at->epoch + (at->step > 0), how.text);
}

static bool train(Run *run, Error *error) {
  const TrainerEvents events = {
      .epoch = on_epoch, .report = run->report, .stop = on_stop, .patience = 1, .context = run};
  report_start(run->report, run->trainer, run->device.reason.text);
  run->has_header = false;
  if (!report_good(run->report, error)) return false;
  if (!trainer_run(run->trainer, &events, error)) return false;
  if (*run->unanswered.text) return error_set(error, "%s", run->unanswered.text);
  if (*run->save && !save_network(run, false, error)) return false;
  if (run->trainer->stopped) {
    say_interrupted(run, error);
    return true;
  }
  const Checkpoint *at = &run->trainer->position;
  const int later = at->epoch - at->best_epoch;
  if (at->epoch < run->options->training.epochs)
    report_note(run->report, "stopped  epoch %d is still the best, %d epoch%s later",
                at->best_epoch, later, plural(later));
  const char *plot = run->options->plot;
  const bool plots = *plot && run->count > 0;
  if (!test_and_draw(run, error) ||
      (plots && !plot_curves(run->results, 1, run->count, plot, error)))
    return false;
  if (plots) run_files_say_wrote(run->report, plot, "");
  say_what_was_written(run);
  if (run->trainer->engine->replays > 0)
    report_note(run->report, "again    %d times by level layer: numbers were too large for fp16",
                run->trainer->engine->replays);
  report_totals(run->report, &run->trainer->totals, seconds_now() - run->began);
  return report_good(run->report, error);
}

/* Trains. If the GPU fails and --device is auto, the CPU continues. */
static bool open_and_train(Run *run, Error *error) {
  const TrainerConfig *c = &run->config;
  if (open_trainer(run, run->from, error) && train(run, error)) return true;
  const bool able = !c->ranks && source_can_repeat(c->train) && /* the CPU reads all files again */
                    source_can_repeat(c->test) && source_can_repeat(c->validation);
  if (!device_fall_back(&run->device, able, error)) return false;
  const Checkpoint *from = run->from; /* the run to continue */
  const bool saved_since = run->saved && (!from || run->saved != from->epoch);
  Checkpoint saved = {0};
  if (saved_since && !checkpoint_load(&saved, run->save, error)) return false;
  const bool opened = open_trainer(run, saved_since ? &saved : from, error);
  checkpoint_free(&saved);
  if (!opened) return false;
  const int epoch = run->trainer->position.epoch;
  while (run->count > 0 && run->results[run->count - 1].epoch > epoch) run->count--;
  return train(run, error);
}

TrainerConfig trainer_config(const Options *o) {
  return (TrainerConfig){.train = o->train,
                         .test = options_test_file(o),
                         .validation = options_validation_file(o),
                         .label_column = o->label_column,
                         .ignore_columns = o->ignore_columns,
                         .names = o->class_names,
                         .found_names = !*o->names,
                         .hold_out = options_hold_out(o),
                         .rereads_test = run_files_judged(o),
                         .training = &o->training};
}

/* Sets the names of the files that the run writes, and of those that it reads after training. Only
   the first rank has any. */
static void name_files(Run *run) {
  const Options *o = run->options;
  run->save = "";
  run->evaluate = evaluate_config(o);
  run->evaluate.read = &run->tested;
  if (ranks_number(run->config.ranks) > 0) {
    run->evaluate.rows.path = NULL;
    return;
  }
  run->save = *o->save ? o->save : o->resume;
  if (run->from && !*o->save) run->saved = run->from->epoch;
  run_files_derived(o, 0, run->best);
}

/* Makes the array of results. Opens the log, and checks that the other files can be written. */
static bool open_outputs(Run *run, Error *error) {
  const Options *o = run->options;
  run->results = make_array(run->results, o->training.epochs);
  if (!run->results) return error_too_large(error, "out of memory");
  return train_log_open(&run->log, o->log, *o->resume, error) &&
         (ranks_number(run->config.ranks) > 0 || run_files_can_be_written(o, error));
}

/* Ends a run that was trained or failed. Returns true if it was trained and the log is written. */
static bool close_run(Run *run, bool trained, Error *error) {
  const bool good = train_log_close(&run->log, trained ? error : NULL) && trained;
  if (!good && run->trainer && run->saved)
    text_append(error->text, "; %s holds the network of epoch %d", text_shown(run->save).text,
                run->saved);
  if (good || !run->config.ranks) /* a failed rank exits without closing */
    trainer_close(run->trainer);
  free(run->results);
  return good;
}

bool train_command(const Options *options, const Checkpoint *from, Ranks *ranks, Report *report,
                   double began, int *signal, Error *error) {
  Run run = {.options = options,
             .from = from,
             .report = report,
             .config = trainer_config(options),
             .device = {.choice = options->device},
             .began = began};
  run.config.ranks = ranks;
  name_files(&run);
  const bool trained = open_outputs(&run, error) && open_and_train(&run, error),
             good = close_run(&run, trained, error);
  *signal = good ? run.signal : 0;
  return good;
}
