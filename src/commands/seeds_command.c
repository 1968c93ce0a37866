/* --seeds: trains networks with the seeds s, s + 1, ..., and prints how their accuracies differ.

   Rank r of n ranks trains the networks r, r + n, ... Ranks do not communicate until all networks
   are trained. */
#include <inttypes.h>
#include <string.h>

#include "base/stats.h"
#include "commands/commands.h"
#include "plot/figures.h"

typedef struct {
  ManyRuns runs;
  int epochs;
  EpochResult *epoch; /* (count, epochs); gather_networks adds the networks of other ranks */
  TrainLog log;
  Engine used; /* a copy of this rank's engine, for the log */
} Seeds;

static uint64_t seed_of(const Seeds *s, int network) {
  return s->runs.options->training.seed + (uint64_t)network;
}

/* Without rows to judge by, the training rows show how the networks differ. */
static bool is_judged(const EpochResult *r) {
  return r->judged_by != JUDGED_BY_NONE;
}

static double accuracy_of(const EpochResult *r) {
  return is_judged(r) ? r->test_accuracy : r->train_accuracy;
}

static const char *judge_of(const EpochResult *r) {
  if (!is_judged(r)) return "train";
  return r->judged_by == JUDGED_BY_VALIDATION ? "val" : "test";
}

/* ---- one network -------------------------------------------------------------------------- */

static TrainerConfig network_config(void *context, int network, Options *o) {
  o->training.seed = seed_of(context, network);
  return trainer_config(o);
}

/* Implements TrainerEvents.epoch: keeps a result in `context`, the network's row of Seeds.epoch. */
static bool keep_epoch(void *context, const EpochResult *result, Error *error) {
  (void)error;
  ((EpochResult *)context)[result->epoch - 1] = *result;
  return true;
}

static bool train_network(void *context, int network, Trainer *trainer, Error *error) {
  Seeds *s = context;
  const TrainerEvents events = {
      .epoch = keep_epoch, .patience = 1, .context = &s->epoch[network * s->epochs]};
  if (!trainer_run(trainer, &events, error)) return false;
  return !trainer->stopped ||
         error_set(error,
                   "interrupted: what earlier seeds gave is above, and saved if --save was given");
}

/* Prints the last epoch of a network. Logs a header and all epochs of the network. */
static bool say_network(Seeds *s, int network, const Engine *used, Error *error) {
  char path[DERIVED_PATH];
  const EpochResult *first = &s->epoch[network * s->epochs], *last = first + s->epochs - 1;
  Options o = *s->runs.options;
  o.training.seed = seed_of(s, network);
  bool good = train_log_header(&s->log, used, &o, error);
  for (const EpochResult *r = first; good && r <= last; r++)
    good = train_log_epoch(&s->log, r, error);
  run_files_derived(s->runs.options, network, path);
  const char *judge = judge_of(last);
  const double loss = is_judged(last) ? last->test_loss : last->train_loss;
  if (good)
    report_note(s->runs.report, "network  seed %" PRIu64 "  %s-loss %.4f  %s-acc %.2f%%%s%s",
                seed_of(s, network), judge, loss, judge, 100 * accuracy_of(last),
                *path ? "  wrote " : "", path);
  return good && report_good(s->runs.report, error);
}

static bool keep_network(void *context, int network, const Trainer *trainer, const Options *o,
                         Error *error) {
  Seeds *s = context;
  char path[DERIVED_PATH];
  run_files_derived(s->runs.options, network, path);
  s->used = *trainer->engine;
  return (!*path || run_files_save(trainer, o, "", path, error)) &&
         say_network(s, network, &s->used, error);
}

/* ---- all networks ------------------------------------------------------------------------- */

static bool say_all(const Seeds *s, Error *error) {
  double accuracy[SEEDS_MOST];
  const EpochResult *last = &s->epoch[s->epochs - 1];
  for (int n = 0; n < s->runs.count; n++) accuracy[n] = accuracy_of(&last[n * s->epochs]);
  const Stats of = stats_of(accuracy, s->runs.count);
  report_result(s->runs.report, "%s-acc %.2f%% ± %.2f (s.d. of %d seeds), from %.2f%% to %.2f%%",
                judge_of(last), 100 * of.mean, 100 * of.deviation, s->runs.count, 100 * of.low,
                100 * of.high);
  const char *plot = s->runs.options->plot;
  if (*plot && !plot_curves(s->epoch, s->runs.count, s->epochs, plot, error)) return false;
  run_files_say_wrote(s->runs.report, plot, "");
  run_files_say_wrote(s->runs.report, s->runs.options->log, "");
  return report_good(s->runs.report, error);
}

/* Gives every rank the epochs of all networks. Then prints and logs the other ranks' networks; the
   first rank has already printed and logged its own networks. */
static bool gather_networks(Seeds *s, Error *error) {
  const size_t ranks = (size_t)ranks_count(s->runs.ranks), of_one = (size_t)s->epochs,
               all = (size_t)s->runs.count * of_one;
  EpochResult *told = ranks_gather(s->runs.ranks, s->epoch, all * sizeof *told, error);
  Engine *used = told ? ranks_gather(s->runs.ranks, &s->used, sizeof *used, error) : NULL;
  bool good = used;
  for (size_t n = 0; good && n < (size_t)s->runs.count; n++) {
    if (n % ranks == 0) continue;
    memcpy(s->epoch + n * of_one, told + n % ranks * all + n * of_one, of_one * sizeof *told);
    good = say_network(s, (int)n, &used[n % ranks], error);
  }
  free(told);
  free(used);
  return good;
}

static bool train_all(Seeds *s, Error *error) {
  const Options *o = s->runs.options;
  const int ranks = ranks_count(s->runs.ranks);
  if (s->runs.count < ranks)
    return error_set(error, "--seeds %d leaves some of %d ranks without a network", s->runs.count,
                     ranks);
  s->epoch = make_array(s->epoch, s->runs.count * s->epochs);
  if (!s->epoch) return error_set(error, "out of memory");
  if (o->device != DEVICE_CPU && s->runs.ranks && !engine_cuda_take(s->runs.ranks, error))
    return false;
  return many_runs(&s->runs, error) && gather_networks(s, error) && say_all(s, error);
}

bool seeds_command(const Options *options, Ranks *ranks, Report *report, Error *error) {
  Seeds s = {.runs = {.options = options,
                      .ranks = ranks,
                      .report = report,
                      .device = {.choice = options->device},
                      .count = options->seeds,
                      .config = network_config,
                      .train = train_network,
                      .keep = keep_network,
                      .context = &s},
             .epochs = options->training.epochs};
  bool good = train_log_open(&s.log, options->log, false, error) &&
              run_files_can_be_written(options, error) && train_all(&s, error);
  good = train_log_close(&s.log, good ? error : NULL) && good;
  free(s.epoch);
  return good;
}
