/* The trainer's run: epochs of training and evaluation, from the file or from rows that stay on the
   device, and where a run ends early. */
#include "train/trainer.h"

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
#define DROPOUT (1ull << 41) /* the same for its dropout */

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
  bool stopped;            /* events->stop ended the run here: the position tells where */
} Epoch;

static void show_progress(const Epoch *e, double done) {
  if (e->events->progress)
    e->events->progress(e->events->context, e->epoch + 1, e->trainer->config.training.epochs, done);
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

/* True if the run is to end here, behind so many steps of the epoch. */
static bool is_stopped(Epoch *e, uint64_t steps) {
  if (!e->events->stop || !e->events->stop(e->events->context)) return false;
  e->trainer->position.step = steps;
  return e->stopped = true;
}

/* Waits for what has been trained of this epoch, up to step `end`. */
static bool collect(Epoch *e, uint64_t end, Error *error) {
  Checkpoint *at = &e->trainer->position;
  EngineSums sums;
  const uint64_t first = e->collected + 1;
  if (!e->trainer->engine->call->collect(e->trainer->engine, &sums, error)) return false;
  at->loss += sums.loss;
  at->correct += sums.correct;
  at->rows += sums.rows;
  e->collected = end;
  e->collected_at = seconds_now();
  if (isfinite(sums.loss)) return true;
  e->trainer->diverged = true;
  return error_set(error,
                   "the training loss is not a finite number in steps %" PRIu64 " to %" PRIu64
                   " of epoch %d: try a lower --lr",
                   first, end, e->epoch + 1);
}

/* The result of a read that ended early. A signal may have ended one of a pipe, which ranks do not
   read. */
static TrainerResult cut_short(Epoch *e) {
  const uint64_t trained =
      e->steps > e->trainer->position.step ? e->steps : e->trainer->position.step;
  if (e->stopped ||
      (!e->trainer->config.ranks && is_stopped(e, e->all_steps ? e->all_steps : trained)))
    return TRAINER_STOPPED;
  return TRAINER_FAILED;
}

static uint64_t order_key(const Epoch *e) {
  return random_order_key(e->trainer->config.training.seed, (uint64_t)e->epoch);
}

/* Trains on the steps of a range in pieces, so short that a signal is noticed between them; step 0
   of its window is step `before` of the epoch. */
static TrainerResult train_steps(Epoch *e, const TrainRange *range, uint64_t before, Error *error) {
  Engine *engine = e->trainer->engine;
  uint64_t *updates = &e->trainer->position.updates;
  const uint64_t first = range->first_step, end = first + range->steps;
  TrainRange piece = *range;
  for (uint64_t step = first; step < end; step += piece.steps) {
    if (step > first && is_stopped(e, before + step)) return TRAINER_STOPPED;
    piece.first_step = step;
    piece.steps = engine_piece(engine, end - step, (uint64_t)engine->config.training.batch);
    piece.updates = *updates;
    *updates += piece.steps;
    if (!engine->call->train(engine, &piece, error)) return TRAINER_FAILED;
  }
  return TRAINER_DONE;
}

/* A LoaderUse: trains on the rows of a staging buffer. */
static bool train_staged(void *context, uint64_t first_row, uint64_t rows, Error *error) {
  Epoch *e = context;
  const uint64_t key = random_order_key(order_key(e), e->buffers++), before = e->steps;
  TrainRange range = whole_window(e, first_row, rows, key);
  e->steps += range.steps;
  if (e->trainer->position.step > before) /* they were trained before the run was interrupted */
    range.first_step = e->trainer->position.step - before;
  if (range.first_step >= range.steps) return true;
  range.steps -= range.first_step;
  if (train_steps(e, &range, before, error) != TRAINER_DONE) return false;
  show_progress(e, dataset_progress(e->trainer->train));
  bool look = seconds_now() - e->collected_at > e->events->patience;
  if (!ranks_broadcast(e->trainer->config.ranks, &look, sizeof look, error) || /* of the clock */
      (look && !collect(e, e->steps, error)))
    return false;
  const bool is_last =
      rows % (uint64_t)e->trainer->config.training.batch != 0; /* the step was short */
  return is_last || !is_stopped(e, e->steps);
}

/* Evaluates in pieces, as train_steps trains. */
static TrainerResult evaluate_rows(Epoch *e, uint64_t first_row, uint64_t rows, Error *error) {
  Engine *engine = e->trainer->engine;
  for (uint64_t done = 0, count; done < rows; done += count) {
    if (done > 0 && is_stopped(e, e->all_steps)) return TRAINER_STOPPED;
    count = engine_piece(engine, rows - done, 1);
    if (!engine_evaluate(engine, first_row + done, count, error)) return TRAINER_FAILED;
  }
  return TRAINER_DONE;
}

/* A LoaderUse: evaluates the rows of a staging buffer. */
static bool evaluate_staged(void *context, uint64_t first_row, uint64_t rows, Error *error) {
  return evaluate_rows(context, first_row, rows, error) == TRAINER_DONE;
}

/* Opens a file that was read before, and refuses it if it has become another one. */
static DatasetReader *open_again(const Trainer *t, bool judges, Error *error) {
  DatasetReader *reader = trainer_open_reader(t, judges, error);
  const struct stat *before = judges ? &t->test_stamp : &t->train_stamp;
  if (!reader || source_stamps_equal(&dataset_source(reader)->stamp, before)) return reader;
  error_set(error, "%s changed since it was read first", judges ? t->judge : t->config.train);
  dataset_close(reader);
  return NULL;
}

bool own_rows(const StreamedEpoch *epoch, int rank, int ranks, RowSet *set, Error *error) {
  const size_t part = (size_t)rank, parts = (size_t)ranks;
  *set = (RowSet){epoch->rows, calloc(epoch->rows / 8 + 1, 1)};
  if (!set->bits)
    return error_set(error, "no memory for the numbers of %llu rows",
                     (unsigned long long)epoch->rows);
  for (uint64_t first = 0; first < epoch->rows; first += epoch->window) {
    const uint64_t left = epoch->rows - first, rows = left < epoch->window ? left : epoch->window;
    const uint64_t key = random_order_key(epoch->order_key, first / epoch->window);
    for (uint64_t step = 0; step < rows; step += epoch->batch) {
      const uint64_t of_step = rows - step < epoch->batch ? rows - step : epoch->batch;
      const uint64_t end = step + part_start(of_step, part + 1, parts);
      for (uint64_t p = step + part_start(of_step, part, parts); p < end; p++)
        row_set_add(set, first + random_permute((uint32_t)p, (uint32_t)rows, key));
    }
  }
  return true;
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
static TrainerResult feed(Epoch *e, bool judges, uint64_t first_row, LoaderUse *use, uint64_t *rows,
                          Error *error) {
  Trainer *t = e->trainer;
  DatasetReader **reader = judges ? &t->test : &t->train;
  if (!*reader && !judges && !choose_rows(e, error)) return TRAINER_FAILED;
  if (!*reader) *reader = open_again(t, judges, error);
  if (!*reader) return cut_short(e);
  const LoaderPlan plan = {.first_row = first_row, .ring = !t->resident, .use = use, .context = e};
  const bool fed = loader_feed(t->engine, *reader, &plan, rows, error) &&
                   (judges || dataset_check_labels(*reader, error));
  trainer_close_reader(reader);
  if (fed && *rows > 0) return TRAINER_DONE;
  if (fed)
    error_set(error, "--validation %g leaves no row of %s to %s: choose another share",
              t->config.hold_out, t->config.train, judges ? "judge by" : "train on");
  return cut_short(e);
}

/* Trains on the whole resident file, in as many parts as progress is to be shown; the weights
   do not depend on the parts. */
static TrainerResult train_resident(Epoch *e, bool in_parts, Error *error) {
  TrainRange range = whole_window(e, 0, e->trainer->train_rows, order_key(e));
  const uint64_t steps = range.steps, parts = in_parts ? PROGRESS_PARTS : 1;
  const uint64_t aligned = e->trainer->engine->aligned > 1 ? e->trainer->engine->aligned : 1;
  uint64_t done = e->trainer->position.step;
  TrainerResult result = TRAINER_DONE;
  for (uint64_t part = 0; result == TRAINER_DONE && part < parts; part++) {
    uint64_t end = part + 1 == parts ? steps : steps * (part + 1) / parts / aligned * aligned;
    if (end <= done) continue;
    range.first_step = done;
    range.steps = end - done;
    done = end;
    result = train_steps(e, &range, 0, error);
    if (result == TRAINER_STOPPED) end = e->trainer->position.step;
    if (result == TRAINER_FAILED || !collect(e, end, error)) return TRAINER_FAILED;
    if (result == TRAINER_STOPPED) break;
    if (in_parts) show_progress(e, (double)(part + 1) / (double)parts);
    if (end < steps && is_stopped(e, end)) result = TRAINER_STOPPED;
  }
  return result;
}

TrainerResult trainer_load(Trainer *t, const TrainerEvents *events, Error *error) {
  Epoch e = {.trainer = t, .events = events};
  return feed(&e, false, 0, NULL, &t->train_rows, error);
}

static TrainerResult train_epoch(Epoch *e, bool in_parts, Error *error) {
  Trainer *t = e->trainer;
  const bool feeds = !t->resident || e->epoch == 0;
  e->collected = t->position.step;
  e->collected_at = seconds_now();
  TrainerResult result = TRAINER_DONE;
  if (feeds) {
    result = feed(e, false, 0, train_staged, &t->train_rows, error);
    if (result == TRAINER_STOPPED) e->steps = t->position.step;
    if (result != TRAINER_FAILED && e->collected < e->steps && !collect(e, e->steps, error))
      return TRAINER_FAILED;
  } else if (t->train_rows == 0) /* when a run is resumed */
    result = feed(e, false, 0, NULL, &t->train_rows, error);
  if (result != TRAINER_DONE) return result;
  e->all_steps = ceil_div(t->train_rows, (uint64_t)t->config.training.batch);
  if (t->position.step > e->all_steps) { /* the file may have become another one */
    error_set(error,
              "the saved run stands at step %" PRIu64 " of an epoch, but %s has only %" PRIu64
              " steps",
              t->position.step, t->config.train, e->all_steps);
    return TRAINER_FAILED;
  }
  return feeds ? TRAINER_DONE : train_resident(e, in_parts, error);
}

static TrainerResult evaluate_epoch(Epoch *e, EngineSums *sums, Error *error) {
  Trainer *t = e->trainer;
  *sums = (EngineSums){.loss = NAN};
  if (!t->judge) return TRAINER_DONE;
  const TrainerResult result = t->resident
                                   ? evaluate_rows(e, t->train_rows, t->test_rows, error)
                                   : feed(e, true, 0, evaluate_staged, &t->test_rows, error);
  const bool good = result != TRAINER_FAILED && t->engine->call->collect(t->engine, sums, error);
  return good ? result : TRAINER_FAILED;
}

/* ---- all epochs --------------------------------------------------------------------------- */

/* Leaves *epoch alone if the run was stopped. */
static TrainerResult run_epoch(Epoch *e, bool in_parts, EpochResult *epoch, RunTotals *totals,
                               Error *error) {
  Trainer *t = e->trainer;
  const Checkpoint *train = &t->position;
  EngineSums test = {0};
  const bool first = totals->load == 0;
  const uint64_t rows_before = train->rows;
  const double start = seconds_now();
  TrainerResult result = train_epoch(e, in_parts, error);
  const double trained = seconds_now();
  if (result == TRAINER_DONE && t->judge && t->test_rows == 0 && t->resident)
    result = feed(e, true, t->train_rows, NULL, &t->test_rows, error);
  const double loaded = seconds_now();
  if (result == TRAINER_DONE) result = evaluate_epoch(e, &test, error);
  if (result != TRAINER_DONE) return result;
  const double evaluated = seconds_now();
  if (t->judge && !isfinite(test.loss)) {
    t->diverged = true;
    error_set(error, "the %s loss is not a finite number after epoch %d: try a lower --lr",
              trainer_judge_option(t), e->epoch + 1);
    return TRAINER_FAILED;
  }
  if (first) totals->load = (t->resident ? loaded : evaluated) - t->opened;
  totals->train += trained - start;
  totals->test += evaluated - loaded;
  *epoch = (EpochResult){.epoch = e->epoch + 1,
                         .epochs = t->config.training.epochs,
                         .train_loss = train->loss / (double)train->rows,
                         .train_accuracy = (double)train->correct / (double)train->rows,
                         .judged_by = t->judged_by,
                         .test_loss = test.loss / (double)test.rows,
                         .test_accuracy = (double)test.correct / (double)test.rows,
                         .learning_rate = e->learning_rate,
                         .train_seconds = trained - start,
                         .test_seconds = evaluated - loaded,
                         .train_rows = train->rows,
                         .rows_before = rows_before,
                         .test_rows = test.rows};
  return TRAINER_DONE;
}

/* Moves the position behind an epoch. */
static void advance(Checkpoint *position, const EpochResult *result) {
  position->epoch = result->epoch;
  position->step = 0;
  position->loss = 0;
  position->correct = position->rows = 0;
  position->test_accuracy = result->test_accuracy;
  if (isnan(result->test_accuracy)) return;
  if (result->test_accuracy <= position->best_accuracy) return; /* NAN: none yet */
  position->best_accuracy = result->test_accuracy;
  position->best_epoch = result->epoch;
}

TrainerResult trainer_run(Trainer *t, const TrainerEvents *events, RunTotals *totals,
                          Error *error) {
  const TrainerConfig *c = &t->config;
  Checkpoint *position = &t->position;
  double before = position->epoch > 0 ? INFINITY : 0; /* seconds of the last epoch, if known */
  *totals = (RunTotals){0};
  while (position->epoch < c->training.epochs) {
    Epoch e = {.trainer = t,
               .events = events,
               .epoch = position->epoch,
               .learning_rate = (float)lr_schedule_rate(&c->training.schedule, c->training.epochs,
                                                        position->epoch)};
    EpochResult epoch;
    bool in_parts = (events->progress || events->stop) && before > events->patience;
    if (!ranks_broadcast(c->ranks, &in_parts, sizeof in_parts, error)) return TRAINER_FAILED;
    const TrainerResult result = run_epoch(&e, in_parts, &epoch, totals, error);
    if (result != TRAINER_DONE) return result;
    advance(position, &epoch);
    if (events->epoch && !events->epoch(events->context, &epoch, error)) return TRAINER_FAILED;
    if (c->training.early_stop && position->epoch - position->best_epoch >= c->training.early_stop)
      break;
    if (position->epoch < c->training.epochs && is_stopped(&e, 0)) return TRAINER_STOPPED;
    before = epoch.train_seconds;
  }
  return TRAINER_DONE;
}
