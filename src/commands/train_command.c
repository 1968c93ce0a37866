#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "commands/commands.h"
#include "data/source.h"
#include "engine/device.h"
#include "plot/figures.h"
#include "predict/evaluate.h"
#include "train/train_log.h"
#include "train/trainer.h"

typedef struct {
  const Options *options;
  const Checkpoint *from; /* what the run goes on with, NULL: nothing */
  Report *report;
  TrainerConfig config;
  EvaluateConfig evaluate;
  Device device;
  Trainer *trainer;
  TrainLog *log;        /* NULL: none */
  const char *save;     /* where the network is saved, "" for nowhere */
  int saved;            /* the epoch after which that was, 0: not yet */
  char *text;           /* its options, for the kept file */
  EpochResult *results; /* (options->epochs) */
  int count;            /* of results */
} Run;

/* ---- interruption ------------------------------------------------------------------------- */

static volatile sig_atomic_t caught;

/* The first signal asks for the end, a second one of either kind is deadly as ever. */
static void catch (int number) {
  caught = number;
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
}

static void catch_signals(void) {
  struct sigaction action = {.sa_handler = catch, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  caught = 0;
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

static bool on_stop(void *context) {
  (void)context;
  return caught != 0;
}

/* ---- saving the network ------------------------------------------------------------------ */

static bool save_network(Run *run, Error *error) {
  Checkpoint saved;
  if (!trainer_checkpoint(run->trainer, &saved, error)) return false;
  saved.options = run->text;
  const bool good = checkpoint_save(&saved, run->save, error);
  saved.options = NULL; /* the run's */
  if (good) run->saved = saved.epoch;
  checkpoint_free(&saved);
  return good;
}

/* ---- what happens while it trains --------------------------------------------------------- */

static bool on_epoch(void *context, const EpochResult *result, Error *error) {
  Run *run = context;
  const TrainerPosition *at = trainer_position(run->trainer);
  run->results[run->count++] = *result;
  return report_epoch(run->report, result, error) &&
         (!run->log || train_log_epoch(run->log, result, error)) &&
         (!*run->save || at->best_epoch != at->epoch || save_network(run, error));
}

static void on_progress(void *context, int epoch, int epochs, double done) {
  const Run *run = context;
  const EngineSums *sums = &trainer_position(run->trainer)->sums;
  report_progress(run->report, epoch, epochs, done,
                  sums->rows ? sums->loss / (double)sums->rows : NAN);
}

/* ---- before ------------------------------------------------------------------------------- */

static bool file_exists(const char *path, Error *error) {
  if (strcmp(path, "-") == 0) return true;                     /* standard input */
  if (access(path, F_OK) == 0 || errno != ENOENT) return true; /* its reader judges the rest */
  return error_set(error,
                   "there is no file %s: `make data` or scripts/download_mnist.sh gets MNIST, "
                   "./mlp-digits draws data/digits_train.csv and data/digits_test.csv",
                   path);
}

static bool write_header(Run *run, Error *error) {
  enum { MORE = 4 };
  size_t count, used = 0;
  const OptionRow *rows = options_table(&count);
  const Engine *engine = trainer_engine(run->trainer);
  TrainLogField *fields = malloc((count + MORE) * sizeof *fields);
  char(*values)[OPTIONS_PATH] = malloc(count * sizeof *values);
  const bool room = fields && values;
  if (room) {
    fields[used++] = (TrainLogField){"version", MLP_TRAIN_VERSION};
    fields[used++] = (TrainLogField){"device-in-use", engine->device};
    fields[used++] = (TrainLogField){"fusion-in-use", options_fusions[engine->config.fusion]};
    fields[used++] = (TrainLogField){"fusion-reason", engine->reason};
    for (size_t i = 0; i < count; i++) {
      if (!rows[i].initial) continue;
      rows[i].kind->get(&rows[i], run->options, values[i], sizeof values[i]);
      fields[used++] = (TrainLogField){rows[i].name, values[i]};
    }
  }
  const bool good = room ? train_log_header(run->log, fields, (int)used, error)
                         : error_set(error, "out of memory writing %s", run->options->log);
  free(fields);
  free(values);
  return good;
}

static bool start(Run *run, Error *error) {
  const Engine *engine = trainer_engine(run->trainer);
  const Options *o = run->options;
  const ReportStart lines = {.device = engine->device,
                             .device_reason = run->device.reason.text,
                             .memory = engine->memory,
                             .network = &engine->config.network,
                             .fusion = options_fusions[engine->config.fusion],
                             .fusion_reason = engine->reason,
                             .train = o->train,
                             .test = o->test,
                             .resident = trainer_is_resident(run->trainer),
                             .resumed = trainer_position(run->trainer)->epoch};
  return report_start(run->report, &lines, error) && (!run->log || write_header(run, error));
}

static bool prepare(Run *run, Error *error) {
  const Options *o = run->options;
  size_t size;
  options_table(&size);
  size *= OPTIONS_PATH + 64; /* open_memstream would not tell that its text ends early */
  run->text = calloc(size, 1);
  FILE *text = run->text ? fmemopen(run->text, size, "w") : NULL;
  if (!text) return error_set(error, "out of memory");
  setbuf(text, NULL);
  options_print_config(text, o, false);
  run->results = malloc((size_t)o->epochs * sizeof *run->results);
  if (fclose(text) != 0 || !run->results) return error_set(error, "out of memory");
  if (!file_exists(o->train, error) || !file_exists(o->test, error)) return false;
  if (*run->save && (!options_can_be_saved(o, error) || !checkpoint_probe(run->save, error)))
    return false;
  return !*o->log || (run->log = train_log_open(o->log, *o->resume, error));
}

/* A trainer at the start of the run. */
static bool open_trainer(Run *run, Error *error) {
  trainer_close(run->trainer);
  run->config.from = run->from;
  run->config.from_name = run->options->resume;
  run->trainer = trainer_open(&run->config, device_open, &run->device, error);
  return run->trainer && evaluate_can(trainer_engine(run->trainer), &run->evaluate, error);
}

/* A trainer where the run was kept last, if it was. */
static bool open_again(Run *run, Error *error) {
  if (!run->saved || (run->from && run->saved == run->from->epoch)) return open_trainer(run, error);
  Checkpoint saved;
  const Checkpoint *from = run->from;
  if (!checkpoint_load(&saved, run->save, error)) return false;
  run->from = &saved;
  const bool good = open_trainer(run, error);
  run->from = from;
  checkpoint_free(&saved);
  return good;
}

/* ---- after -------------------------------------------------------------------------------- */

static bool draw(const Run *run, Error *error) {
  const Options *o = run->options;
  Metrics metrics;
  if (*o->plot && run->count > 0 && !plot_curves(run->results, run->count, o->plot, error))
    return false;
  if (!*o->weights && !*o->mistakes && !*o->confusion) return true;
  if (!evaluate_file(trainer_engine(run->trainer), &run->evaluate, &metrics, error)) return false;
  metrics_close(&metrics);
  return true;
}

/* The last words of a run that was interrupted, which are no failure. */
static void say_how_to_resume(const Run *run, Error *error) {
  const TrainerPosition *at = trainer_position(run->trainer);
  const char *where = at->step > 0 ? "in" : "after";
  const int epoch = at->epoch + (at->step > 0);
  if (*run->save)
    error_set(error, "interrupted %s epoch %d: go on with mlp-train --resume %s", where, epoch,
              run->save);
  else
    error_set(error,
              "interrupted %s epoch %d: the network is lost, --save FILE would have saved it",
              where, epoch);
}

/* Adds to the error of a run whose loss is no finite number what is left of it. */
static void say_what_is_kept(const Run *run, Error *error) {
  const Error why = *error;
  if (trainer_position(run->trainer)->diverged && run->saved)
    error_set(error, "%s; %s holds the network of epoch %d", why.text, run->save, run->saved);
}

static bool say_if_early(const Run *run, Error *error) {
  const TrainerPosition *at = trainer_position(run->trainer);
  char line[128];
  if (at->epoch == run->options->epochs) return true;
  snprintf(line, sizeof line, "stopped  epoch %d is still the best, %d epochs later",
           at->best_epoch, at->epoch - at->best_epoch);
  return report_note(run->report, line, error);
}

static bool train(Run *run, double began, int *signal, Error *error) {
  const TrainerEvents events = {.epoch = on_epoch,
                                .progress = run->report->has_bar ? on_progress : NULL,
                                .stop = on_stop,
                                .patience = 1,
                                .context = run};
  RunTotals totals;
  if (!start(run, error)) return false;
  if (!trainer_run(run->trainer, &events, &totals, error)) {
    say_what_is_kept(run, error);
    return false;
  }
  if (*run->save && !save_network(run, error)) return false;
  if (trainer_position(run->trainer)->interrupted) {
    *signal = caught;
    say_how_to_resume(run, error);
    return true;
  }
  return say_if_early(run, error) && draw(run, error) &&
         report_totals(run->report, &totals, seconds_now() - began, error);
}

/* Whether training can begin again. */
static bool can_repeat(const Options *o) {
  return source_can_repeat(o->train) && source_can_repeat(o->test);
}

/* What a GPU leaves undone the CPU does, if that was left to us. */
static bool open_and_train(Run *run, double began, int *signal, Error *error) {
  catch_signals();
  if (open_trainer(run, error) && train(run, began, signal, error)) return true;
  if (!device_fall_back(&run->device, can_repeat(run->options), error) || !open_again(run, error))
    return false;
  const int epoch = trainer_position(run->trainer)->epoch;
  while (run->count > 0 && run->results[run->count - 1].epoch > epoch) run->count--;
  return train(run, began, signal, error);
}

/* What the options say to the trainer. */
static TrainerConfig trainer_config(const Options *o) {
  return (TrainerConfig){.train = o->train,
                         .test = o->test,
                         .rereads_test = *o->mistakes    ? "mistakes"
                                         : *o->confusion ? "confusion"
                                         : *o->weights   ? "weights"
                                                         : NULL,
                         .hidden = o->hidden,
                         .classes = o->classes,
                         .epochs = o->epochs,
                         .batch = o->batch,
                         .schedule = {(LrScheduleKind)o->lr_schedule, (double)o->lr,
                                      (double)o->lr_decay, o->epochs, o->warmup},
                         .momentum = o->momentum,
                         .weight_decay = o->weight_decay,
                         .early_stop = o->early_stop,
                         .augment = o->augment,
                         .seed = o->seed,
                         .resident = (Residency)o->resident,
                         .fusion = (Fusion)o->fusion,
                         .precision = (Precision)o->precision,
                         .device_memory = o->device_memory * 1000000,
                         .threads = o->threads};
}

bool train_command(const Options *options, const Checkpoint *from, Report *report, double began,
                   int *signal, Error *error) {
  Run run = {.options = options,
             .from = from,
             .report = report,
             .config = trainer_config(options),
             .evaluate = evaluate_config(options),
             .device = {.choice = (DeviceChoice)options->device},
             .save = *options->save ? options->save : options->resume,
             .saved = from && !*options->save ? from->epoch : 0};
  *signal = 0;
  bool good = prepare(&run, error) && open_and_train(&run, began, signal, error);
  good = train_log_close(run.log, good ? error : NULL) && good;
  trainer_close(run.trainer);
  free(run.text);
  free(run.results);
  return good;
}
