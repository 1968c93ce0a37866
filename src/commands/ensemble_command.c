/* --ensemble and --seeds: train networks of seeds s, s + 1, ..., and say what they know, alone and
   together or epoch by epoch.

   The ranks of a run share out the networks, rank r taking the r-th of every `ranks`, and say
   nothing to each other until all are trained. The committee's answer is the class with the highest
   mean probability (Hansen and Salamon, "Neural network ensembles", 1990). */
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "commands/commands.h"
#include "plot/figures.h"

typedef struct {
  const Options *options;
  Ranks *ranks;
  Report *report;
  int count; /* of networks */
  int epochs;
  EpochResult *epoch; /* (count, epochs): 0 of other ranks'. The last one of a network of --ensemble
                         is judged by the committee's rows in the end */
  TrainLog *log;      /* of --seeds, NULL: none */
  InUse in_use;       /* by this rank's networks */
  ManyRuns runs;
  Engine *judge; /* reads the rows to judge by, from a file; NULL: not yet */
  int classes;
  uint64_t rows, room; /* test rows seen; that there is room for */
  double *chances;     /* (room, classes): sums of this rank's networks' probabilities */
  uint16_t *labels;    /* (room) */
} Ensemble;

static uint64_t seed_of(const Ensemble *e, int network) {
  return e->options->training.seed + (uint64_t)network;
}

static EpochResult *last_epoch(const Ensemble *e, int network) {
  return &e->epoch[(network + 1) * e->epochs - 1];
}

/* What judges the networks: --seeds goes by what judges their epochs. */
static const char *judge_of(const Ensemble *e) {
  const bool validates = e->options->seeds && e->epoch[0].judged_by == JUDGED_BY_VALIDATION;
  return options_test_file(e->options) && !validates ? "test" : "val";
}

/* ---- one network -------------------------------------------------------------------------- */

static bool make_room(Ensemble *e, Error *error) {
  const uint64_t room = e->room ? 2 * e->room : 16384;
  const size_t row = (size_t)e->classes * sizeof *e->chances + sizeof *e->labels;
  if (!memory_allows((double)room * (double)row, memory_limit() / 2,
                     "the predictions of an ensemble to all rows of the test file", error))
    return false;
  double *chances = realloc(e->chances, room * (uint64_t)e->classes * sizeof *chances);
  if (chances) e->chances = chances;
  uint16_t *labels = realloc(e->labels, room * sizeof *labels);
  if (labels) e->labels = labels;
  if (!chances || !labels) return error_set(error, "out of memory for what the networks predict");
  memset(e->chances + e->room * (uint64_t)e->classes, 0,
         (room - e->room) * (uint64_t)e->classes * sizeof *chances);
  e->room = room;
  return true;
}

/* A PredictRow: adds the row's probabilities. */
static bool add_row(void *context, uint64_t row, const uint8_t *pixels, int label,
                    const float *logits, Error *error) {
  Ensemble *e = context;
  double chances[NETWORK_MAX_CLASSES];
  (void)pixels;
  if (row > e->room && !make_room(e, error)) return false;
  if (row > e->rows) e->rows = row;
  softmax(logits, e->classes, chances);
  for (int c = 0; c < e->classes; c++)
    e->chances[(row - 1) * (uint64_t)e->classes + (uint64_t)c] += chances[c];
  e->labels[row - 1] = (uint16_t)label;
  return true;
}

/* Gives the judge the network of the engine. */
static bool show_judge(Ensemble *e, Engine *engine, Error *error) {
  EngineConfig config = engine->config;
  config.dataset_rows = 2 * config.staging_rows;
  float *parameters = malloc(config.network.floats * sizeof *parameters);
  if (!parameters) return error_set(error, "out of memory for a network");
  const bool shown = engine->call->read(engine, parameters, 1, error) &&
                     (e->judge || (e->judge = device_open(&e->runs.device, &config, error))) &&
                     e->judge->call->write(e->judge, parameters, 1, error);
  free(parameters);
  return shown;
}

static bool judge(Ensemble *e, Engine *engine, int network, Error *error) {
  EvaluateConfig config = evaluate_config(e->options);
  config.each = add_row;
  config.context = e;
  Metrics metrics;
  if (!show_judge(e, engine, error) || !evaluate_file(e->judge, &config, &metrics, error))
    return false;
  last_epoch(e, network)->test_accuracy = (double)metrics.correct / (double)metrics.rows;
  last_epoch(e, network)->test_loss = metrics.loss / (double)metrics.rows;
  metrics_close(&metrics);
  return true;
}

static bool say_network(const Ensemble *e, int network, Error *error) {
  char path[DERIVED_PATH];
  run_files_derived(e->options, network, path);
  report_note(e->report, "network  seed %" PRIu64 "  %s-loss %.4f  %s-acc %.2f%%%s%s",
              seed_of(e, network), judge_of(e), last_epoch(e, network)->test_loss, judge_of(e),
              100 * last_epoch(e, network)->test_accuracy, *path ? "  wrote " : "", path);
  return report_good(e->report, error);
}

/* Writes the header and the epochs of a network. */
static bool log_network(const Ensemble *e, int network, const InUse *in_use, Error *error) {
  Options o = *e->options;
  o.training.seed = seed_of(e, network);
  if (!e->log) return true;
  bool good = run_log_header(e->log, in_use, &o, error);
  for (const EpochResult *last = last_epoch(e, network), *r = last - e->epochs + 1;
       good && r <= last; r++)
    good = train_log_epoch(e->log, r, error);
  return good;
}

static TrainerConfig network_config(void *context, int network, Options *o) {
  const Ensemble *e = context;
  o->training.seed = seed_of(e, network);
  TrainerConfig config = trainer_config(o);
  if (config.hold_out > 0 && !config.test && o->ensemble) { /* the same rows judge all networks */
    config.member = (uint64_t)network;
    strcpy(o->validation, "0"); /* saved: the network's own seed would hold out others */
  }
  return config;
}

/* A TrainerEvents.epoch; context: the network's epochs. */
static bool keep_epoch(void *context, const EpochResult *result, Error *error) {
  (void)error;
  ((EpochResult *)context)[result->epoch - 1] = *result;
  return true;
}

static bool train_network(void *context, int network, Trainer *trainer, Error *error) {
  Ensemble *e = context;
  const TrainerEvents events = {.epoch = keep_epoch,
                                .stop = stop_on_signal,
                                .patience = 1,
                                .context = &e->epoch[network * e->epochs]};
  const TrainerResult result = trainer_run(trainer, &events, error);
  if (result == TRAINER_STOPPED)
    error_set(error, e->options->seeds ? "interrupted: what earlier seeds gave is above"
                                       : "interrupted: networks of earlier seeds are saved, if "
                                         "--save was given");
  return result == TRAINER_DONE;
}

static bool keep_network(void *context, int network, const Trainer *trainer, const Options *o,
                         Error *error) {
  Ensemble *e = context;
  char path[DERIVED_PATH];
  run_files_derived(e->options, network, path);
  e->in_use = engine_in_use(trainer->engine);
  return log_network(e, network, &e->in_use, error) &&
         (e->options->seeds || judge(e, trainer->engine, network, error)) &&
         (!*path || run_files_save(trainer, o, "", path, error)) && say_network(e, network, error);
}

/* ---- all of them -------------------------------------------------------------------------- */

/* Returns what all networks have in an epoch, from 0. */
static Stats stats_over(const Ensemble *e, int epoch, bool loss) {
  double values[ENSEMBLE_MAX];
  for (int n = 0; n < e->count; n++) {
    const EpochResult *r = &e->epoch[n * e->epochs + epoch];
    values[n] = loss ? r->test_loss : r->test_accuracy;
  }
  return stats_of(values, e->count);
}

static bool say_seeds(const Ensemble *e, Error *error) {
  Stats accuracy = {0};
  for (int epoch = 0; epoch < e->epochs; epoch++) {
    const Stats loss = stats_over(e, epoch, true);
    accuracy = stats_over(e, epoch, false);
    report_seeds(e->report, &e->epoch[epoch], &loss, &accuracy);
  }
  report_result(e->report, "%s-acc %.2f%% ± %.2f (s.d. of %d seeds)", judge_of(e),
                100 * accuracy.mean, 100 * accuracy.deviation, e->count);
  const char *plot = e->options->plot;
  if (*plot && !plot_curves(e->epoch, e->count, e->epochs, plot, error)) return false;
  run_files_say_wrote(e->report, plot, "");
  run_files_say_wrote(e->report, e->options->log, "");
  return report_good(e->report, error);
}

static bool say_all(const Ensemble *e, Error *error) {
  uint64_t correct = 0; /* answers of the committee */
  if (e->options->seeds) return say_seeds(e, error);
  for (uint64_t r = 0; r < e->rows; r++) {
    const double *chances = e->chances + r * (uint64_t)e->classes;
    int best = 0;
    for (int c = 1; c < e->classes; c++)
      if (chances[c] > chances[best]) best = c;
    correct += best == e->labels[r];
  }
  const Stats accuracy = stats_over(e, e->epochs - 1, false);
  report_result(e->report,
                "ensemble of %d: %s-acc mean %.2f%%, standard deviation %.3f; committee %.2f%%",
                e->count, judge_of(e), 100 * accuracy.mean, 100 * accuracy.deviation,
                100 * (double)correct / (double)e->rows);
  return report_good(e->report, error);
}

/* Tells every rank of the epochs that the others' networks had. What the first one has said and
   logged of its own networks it then says of theirs. */
static bool gather_networks(Ensemble *e, Error *error) {
  const size_t ranks = (size_t)ranks_count(e->ranks), of_one = (size_t)e->epochs,
               all = (size_t)e->count * of_one;
  EpochResult *told = ranks_gather(e->ranks, e->epoch, all * sizeof *told, error);
  InUse *in_use = told ? ranks_gather(e->ranks, &e->in_use, sizeof *in_use, error) : NULL;
  bool good = in_use;
  for (size_t n = 0; good && n < (size_t)e->count; n++) {
    if (n % ranks == 0) continue;
    memcpy(e->epoch + n * of_one, told + n % ranks * all + n * of_one, of_one * sizeof *told);
    good = log_network(e, (int)n, &in_use[n % ranks], error) && say_network(e, (int)n, error);
  }
  free(told);
  free(in_use);
  return good;
}

static bool train_all(Ensemble *e, Error *error) {
  const int first = ranks_number(e->ranks), step = ranks_count(e->ranks);
  const char *word = e->options->seeds ? "seeds" : "ensemble", *log = e->options->log;
  if (e->count < step)
    return error_set(error, "--%s %d leaves some of %d ranks without a network", word, e->count,
                     step);
  e->epoch = make_array(e->epoch, e->count * e->epochs);
  if (!e->epoch) return error_set(error, "out of memory");
  if (*log && !(e->log = train_log_open(log, false, error))) return false;
  if (e->options->device != DEVICE_CPU && e->ranks && !engine_cuda_take(e->ranks, error))
    return false;
  e->runs = (ManyRuns){.options = e->options,
                       .ranks = e->ranks,
                       .report = e->report,
                       .device = {.choice = e->options->device},
                       .first = first,
                       .step = step,
                       .count = e->count,
                       .told = first > 0,
                       .config = network_config,
                       .train = train_network,
                       .keep = keep_network,
                       .context = e};
  return many_runs(&e->runs, error) &&
         ranks_sum_doubles(e->ranks, e->chances, e->rows * (uint64_t)e->classes, error) &&
         gather_networks(e, error) && say_all(e, error);
}

bool ensemble_command(const Options *options, Ranks *ranks, Report *report, Error *error) {
  Ensemble e = {.options = options,
                .ranks = ranks,
                .report = report,
                .count = options->seeds ? options->seeds : options->ensemble,
                .epochs = options->training.epochs,
                .classes = options->training.classes};
  bool good = run_files_can_be_written(options, error) && train_all(&e, error);
  good = train_log_close(e.log, good ? error : NULL) && good;
  if (e.judge) e.judge->call->close(e.judge);
  free(e.epoch);
  free(e.chances);
  free(e.labels);
  return good;
}
