/* The trainer's run: epochs of training and evaluation, from the file or from rows that stay on the
   device, and where a run ends early. */
#include "train/trainer_private.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/random.h"
#include "engine/loader.h"
#include "model/lr_schedule.h"

/* Parts of an epoch that shows its progress. */
enum { PROGRESS_PARTS = 20 };

/* Derives the key of an order's augmentation from the order's own: larger than any number of a
   staging buffer, for which keys are derived as well. */
#define AUGMENTATION (1ull << 40)
#define DROPOUT (1ull << 41) /* likewise its dropout */

/* ---- an epoch ----------------------------------------------------------------------------- */

typedef struct {
  Trainer *trainer;
  const TrainerEvents *events;
  int epoch; /* from 0 */
  float learning_rate;
  uint64_t buffers, steps; /* of this epoch, seen so far */
  uint64_t all_steps;      /* of this epoch, known once its file was read */
  uint64_t collected;      /* steps whose sums are in the trainer's position */
  double collected_at;     /* in seconds_now */
} Epoch;

static void show_progress(const Epoch *e, double done) {
  if (e->events->progress)
    e->events->progress(e->events->context, e->epoch + 1, e->trainer->config.epochs, done);
}

static TrainRange whole_window(const Epoch *e, uint64_t first_row, uint64_t rows, uint64_t key) {
  const uint64_t batch = (uint64_t)e->trainer->config.training.batch;
  return (TrainRange){.first_row = first_row,
                      .rows = rows,
                      .shuffled = e->epoch > 0,
                      .key = key,
                      .steps = ceil_div(rows, batch),
                      .learning_rate = e->learning_rate,
                      .augment = e->trainer->config.training.augment,
                      .augment_key = random_order_key(key, AUGMENTATION),
                      .dropout_key = random_order_key(key, DROPOUT)};
}

/* Leaves out of a window's steps, the first of which is step `before` of the epoch, those that were
   trained before the run was interrupted. False if none is left. */
static bool go_on(const Epoch *e, uint64_t before, TrainRange *range) {
  const uint64_t done = e->trainer->position.step;
  const uint64_t trained = done > before ? done - before : 0;
  if (trained >= range->steps) return false;
  range->first_step = trained;
  range->steps -= trained;
  return true;
}

/* True when the run is to end here: position tells where. */
static bool is_stopped(const Epoch *e, uint64_t steps) {
  TrainerPosition *position = &e->trainer->position;
  if (!e->events->stop || !e->events->stop(e->events->context)) return false;
  position->step = steps;
  return position->interrupted = true;
}

/* Waits for what has been trained of this epoch, up to step `end`. */
static bool collect(Epoch *e, uint64_t end, Error *error) {
  EngineSums *all = &e->trainer->position.sums, sums;
  const uint64_t first = e->collected + 1;
  if (!e->trainer->engine->call->collect(e->trainer->engine, &sums, error)) return false;
  *all = (EngineSums){all->loss + sums.loss, all->correct + sums.correct, all->rows + sums.rows};
  e->collected = end;
  e->collected_at = seconds_now();
  if (isfinite(sums.loss)) return true;
  e->trainer->position.diverged = true;
  return error_set(error,
                   "the training loss is not a finite number in steps %" PRIu64 " to %" PRIu64
                   " of epoch %d: try a lower --lr",
                   first, end, e->epoch + 1);
}

/* Likewise where a read failed: a signal may have ended it. Only of pipes, which ranks do not read.
 */
static bool read_was_stopped(const Epoch *e, uint64_t steps) {
  return !e->trainer->config.ranks && is_stopped(e, steps);
}

/* What depends on the clock, all ranks do as the first one does. */
static bool as_first(const Trainer *t, bool *decision, Error *error) {
  return ranks_broadcast(t->config.ranks, decision, sizeof *decision, error);
}

/* The key of this epoch's order. */
static uint64_t order_key(const Epoch *e) {
  return random_order_key(e->trainer->config.training.seed, (uint64_t)e->epoch);
}

/* Trains on the steps of a range in pieces, so short that a signal is noticed between them; step 0
   of its window is step `before` of the epoch. False also if the run is to end there. */
static bool train_steps(Epoch *e, const TrainRange *range, uint64_t before, Error *error) {
  Engine *engine = e->trainer->engine;
  uint64_t *updates = &e->trainer->position.updates;
  const uint64_t first = range->first_step, end = first + range->steps;
  TrainRange piece = *range;
  for (uint64_t step = first; step < end; step += piece.steps) {
    if (step > first && is_stopped(e, before + step)) return false;
    piece.first_step = step;
    piece.steps = engine_piece(engine, end - step, (uint64_t)engine->config.training.batch);
    piece.updates = *updates;
    *updates += piece.steps;
    if (!engine->call->train(engine, &piece, error)) return false;
  }
  return true;
}

/* A LoaderUse: trains on the rows of a staging buffer. */
static bool train_staged(void *context, uint64_t first_row, uint64_t rows, Error *error) {
  Epoch *e = context;
  const uint64_t key = random_order_key(order_key(e), e->buffers++), before = e->steps;
  TrainRange range = whole_window(e, first_row, rows, key);
  e->steps += range.steps;
  if (!go_on(e, before, &range)) return true;
  if (!train_steps(e, &range, before, error)) return false;
  show_progress(e, dataset_progress(e->trainer->train));
  bool look = seconds_now() - e->collected_at > e->events->patience;
  if (!as_first(e->trainer, &look, error) || (look && !collect(e, e->steps, error))) return false;
  const bool is_last =
      rows % (uint64_t)e->trainer->config.training.batch != 0; /* the step was short */
  return is_last || !is_stopped(e, e->steps);
}

/* Evaluates in pieces, as train_steps trains. False also if the run is to end. */
static bool evaluate_rows(const Epoch *e, uint64_t first_row, uint64_t rows, Error *error) {
  Engine *engine = e->trainer->engine;
  for (uint64_t done = 0, count; done < rows; done += count) {
    if (done > 0 && is_stopped(e, e->all_steps)) return false;
    count = engine_piece(engine, rows - done, 1);
    if (!engine->call->evaluate(engine, first_row + done, count, error)) return false;
  }
  return true;
}

/* A LoaderUse: evaluates the rows of a staging buffer. */
static bool evaluate_staged(void *context, uint64_t first_row, uint64_t rows, Error *error) {
  return evaluate_rows(context, first_row, rows, error);
}

/* A file that was read before, and must not have become another one. */
static DatasetReader *open_again(const Trainer *t, bool judges, Error *error) {
  DatasetReader *reader = trainer_open_reader(t, judges, error);
  const SourceStamp *before = judges ? &t->test_stamp : &t->train_stamp;
  if (!reader || source_stamps_equal(dataset_stamp(reader), before)) return reader;
  error_set(error, "%s changed since it was read first", judges ? t->judge : t->config.train);
  dataset_close(reader);
  return NULL;
}

/* From the second pass on a rank parses those rows of a file that it trains on, and no others: then
   the number of rows is known, and that all of them are right. Who is held out follows from the
   labels of all rows, so then all are parsed. */
static bool choose_rows(Epoch *e, Error *error) {
  Trainer *t = e->trainer;
  const StreamedEpoch epoch = {t->train_rows, t->staging_rows, (uint64_t)t->config.training.batch,
                               order_key(e)};
  free(t->own.bits);
  t->own.bits = NULL;
  return !t->config.ranks || t->resident || t->train_rows == 0 || t->config.hold_out > 0 ||
         own_rows(&epoch, ranks_number(t->config.ranks), ranks_count(t->config.ranks), &t->own,
                  error);
}

/* Feeds all rows to train on, or to judge by, to the engine, from their reader if that is open
   already. */
static bool feed(Epoch *e, bool judges, uint64_t first_row, LoaderUse *use, uint64_t *rows,
                 Error *error) {
  Trainer *t = e->trainer;
  DatasetReader **reader = judges ? &t->test : &t->train;
  if (!*reader && !judges && !choose_rows(e, error)) return false;
  if (!*reader) *reader = open_again(t, judges, error);
  if (!*reader) return false;
  const LoaderPlan plan = {.first_row = first_row, .ring = !t->resident, .use = use, .context = e};
  const bool fed = loader_feed(t->engine, *reader, &plan, rows, error);
  trainer_close_reader(reader);
  if (!fed || *rows > 0) return fed;
  return error_set(error, "--validation %g leaves no row of %s to %s: choose another share",
                   t->config.hold_out, t->config.train, judges ? "judge by" : "train on");
}

/* The last step up to `step` of the epoch's `steps` where a part may end without a trace in the
   weights. */
static uint64_t end_of_part(const Trainer *t, uint64_t step, uint64_t steps) {
  const uint64_t aligned = t->engine->aligned > 1 ? t->engine->aligned : 1;
  return step < steps ? step / aligned * aligned : steps;
}

/* Trains on the whole resident file, in as many parts as progress is to be shown; the weights
   do not depend on the parts. */
static bool train_resident(Epoch *e, bool in_parts, Error *error) {
  TrainRange range = whole_window(e, 0, e->trainer->train_rows, order_key(e));
  const uint64_t steps = range.steps, parts = in_parts ? PROGRESS_PARTS : 1;
  uint64_t done = e->trainer->position.step;
  for (uint64_t part = 0; part < parts; part++) {
    const uint64_t end = end_of_part(e->trainer, steps * (part + 1) / parts, steps);
    if (end <= done) continue;
    range.first_step = done;
    range.steps = end - done;
    done = end;
    if (!train_steps(e, &range, 0, error))
      return e->trainer->position.interrupted && collect(e, e->trainer->position.step, error);
    if (!collect(e, end, error)) return false;
    if (in_parts) show_progress(e, (double)(part + 1) / (double)parts);
    if (end < steps && is_stopped(e, end)) return true;
  }
  return true;
}

/* The first pass over a file that is to stay, or every pass over one that is streamed. A read that
   a signal ended is where the run ends. */
static bool train_fed(Epoch *e, Error *error) {
  Trainer *t = e->trainer;
  TrainerPosition *position = &t->position;
  if (!feed(e, false, 0, train_staged, &t->train_rows, error) && !position->interrupted &&
      !read_was_stopped(e, e->steps > position->step ? e->steps : position->step))
    return false;
  if (position->interrupted) e->steps = position->step;
  return e->collected >= e->steps || collect(e, e->steps, error);
}

/* Appends the rows of a file to the dataset; `steps` of the epoch are trained until then. */
static bool load(Epoch *e, bool judges, uint64_t first_row, uint64_t steps, uint64_t *rows,
                 Error *error) {
  return feed(e, judges, first_row, NULL, rows, error) || read_was_stopped(e, steps);
}

bool trainer_load(Trainer *t, const TrainerEvents *events, uint64_t *rows, Error *error) {
  Epoch e = {.trainer = t, .events = events};
  if (!load(&e, false, 0, 0, &t->train_rows, error)) return false;
  *rows = t->train_rows;
  return true;
}

/* A file that was saved may be of other data. */
static bool check_position(const Trainer *t, uint64_t all_steps, Error *error) {
  return t->position.step <= all_steps ||
         error_set(error,
                   "the saved run stands at step %" PRIu64 " of an epoch, but %s has only %" PRIu64
                   " steps",
                   t->position.step, t->config.train, all_steps);
}

static bool train_epoch(Epoch *e, bool in_parts, Error *error) {
  Trainer *t = e->trainer;
  const uint64_t batch = (uint64_t)t->config.training.batch;
  e->collected = t->position.step;
  e->collected_at = seconds_now();
  if (!t->resident || e->epoch == 0) {
    if (!train_fed(e, error)) return false;
    e->all_steps = ceil_div(t->train_rows, batch);
    return t->position.interrupted || check_position(t, e->all_steps, error);
  }
  if (t->train_rows == 0 && /* when a run is resumed */
      !load(e, false, 0, t->position.step, &t->train_rows, error))
    return false;
  if (t->position.interrupted) return true;
  e->all_steps = ceil_div(t->train_rows, batch);
  return check_position(t, e->all_steps, error) && train_resident(e, in_parts, error);
}

static bool evaluate_epoch(Epoch *e, EngineSums *sums, Error *error) {
  Trainer *t = e->trainer;
  Engine *engine = t->engine;
  *sums = (EngineSums){.loss = NAN};
  if (!t->judge) return true;
  const bool good = t->resident ? evaluate_rows(e, t->train_rows, t->test_rows, error)
                                : feed(e, true, 0, evaluate_staged, &t->test_rows, error) ||
                                      read_was_stopped(e, e->all_steps);
  return (good || t->position.interrupted) && engine->call->collect(engine, sums, error);
}

/* ---- all epochs --------------------------------------------------------------------------- */

/* Leaves *result alone if the run was stopped. */
static bool run_epoch(Epoch *e, bool in_parts, EpochResult *result, RunTotals *totals,
                      Error *error) {
  Trainer *t = e->trainer;
  const EngineSums *train = &t->position.sums;
  EngineSums test = {0};
  const bool first = totals->load == 0;
  const double start = seconds_now();
  if (!train_epoch(e, in_parts, error)) return false;
  if (t->position.interrupted) return true;
  const double trained = seconds_now();
  if (t->judge && t->test_rows == 0 && t->resident &&
      !load(e, true, t->train_rows, e->all_steps, &t->test_rows, error))
    return false;
  const double loaded = seconds_now();
  if (!t->position.interrupted && !evaluate_epoch(e, &test, error)) return false;
  if (t->position.interrupted) return true;
  const double evaluated = seconds_now();
  if (t->judge && !isfinite(test.loss)) {
    t->position.diverged = true;
    error_set(error, "the %s loss is not a finite number after epoch %d: try a lower --lr",
              trainer_judge_option(t), e->epoch + 1);
    return false;
  }
  if (first) totals->load = (t->resident ? loaded : evaluated) - t->opened;
  totals->train += trained - start;
  totals->test += evaluated - loaded;
  *result = (EpochResult){.epoch = e->epoch + 1,
                          .epochs = t->config.epochs,
                          .train_loss = train->loss / (double)train->rows,
                          .train_accuracy = (double)train->correct / (double)train->rows,
                          .judged_by = t->judged_by,
                          .test_loss = test.loss / (double)test.rows,
                          .test_accuracy = (double)test.correct / (double)test.rows,
                          .learning_rate = (double)e->learning_rate,
                          .train_seconds = trained - start,
                          .test_seconds = evaluated - loaded,
                          .train_rows = train->rows,
                          .test_rows = test.rows};
  return true;
}

/* An epoch is behind us. */
static void advance(TrainerPosition *position, const EpochResult *result) {
  position->epoch = result->epoch;
  position->step = 0;
  position->sums = (EngineSums){0};
  position->test_accuracy = result->test_accuracy;
  if (isnan(result->test_accuracy)) return;
  if (result->test_accuracy <= position->best_accuracy) return; /* NAN: none yet */
  position->best_accuracy = result->test_accuracy;
  position->best_epoch = result->epoch;
}

bool trainer_run(Trainer *t, const TrainerEvents *events, RunTotals *totals, Error *error) {
  const TrainerConfig *c = &t->config;
  TrainerPosition *position = &t->position;
  double before = position->epoch > 0 ? INFINITY : 0; /* seconds of the last epoch, if known */
  *totals = (RunTotals){0};
  while (position->epoch < c->epochs) {
    Epoch e = {.trainer = t,
               .events = events,
               .epoch = position->epoch,
               .learning_rate = (float)lr_schedule_rate(&c->schedule, position->epoch)};
    EpochResult result;
    bool in_parts = (events->progress || events->stop) && before > events->patience;
    if (!as_first(t, &in_parts, error) || !run_epoch(&e, in_parts, &result, totals, error))
      return false;
    if (position->interrupted) return true;
    advance(position, &result);
    if (!events->epoch(events->context, &result, error)) return false;
    if (c->early_stop && position->epoch - position->best_epoch >= c->early_stop) break;
    if (position->epoch < c->epochs && events->stop && events->stop(events->context))
      return position->interrupted = true;
    before = result.train_seconds;
  }
  return true;
}
