/* The trainer's run: epochs of training and evaluation, from the file or from rows that stay on the
   device, and where a run ends early. */
#include "train/trainer.h"

#include <inttypes.h>

#include "base/clock.h"
#include "engine/loader.h"

/* Parts of an epoch that shows its progress. */
enum { PROGRESS_PARTS = 20 };

/* Derives the key of an order's augmentation from the order's own: larger than any number of a
   staging buffer, for which keys are derived as well. */
#define AUGMENTATION (1ull << 40)
#define DROPOUT (1ull << 41) /* the same for its dropout */

/* ---- an epoch ----------------------------------------------------------------------------- */

/* Its functions return false if it failed, with *error set, or was stopped. */
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

static uint64_t batch_of(const Epoch *e) {
  return (uint64_t)e->trainer->config.training.batch;
}

/* Rows that a file has sorted by label are trained on once all are there, in random order. The
   first staging buffer shows it, so what an epoch does is a function of the file. */
static bool waits_for_all(const Trainer *t) {
  return t->resident && t->train_data.sorted;
}

static TrainRange whole_window(const Epoch *e, uint64_t first_row, uint64_t rows, uint64_t key) {
  return (TrainRange){.first_row = first_row,
                      .rows = rows,
                      .shuffled = e->epoch > 0 || waits_for_all(e->trainer),
                      .key = key,
                      .steps = ceil_div(rows, batch_of(e)),
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

/* Waits for queued work. A failure counts for more than a stop. */
static bool wait_for_sums(Epoch *e, EngineSums *sums, Error *error) {
  Engine *engine = e->trainer->engine;
  return engine->call->collect(engine, sums, error) || (e->stopped = false);
}

/* Waits for what has been trained of this epoch, up to step `end`. */
static bool collect(Epoch *e, uint64_t end, Error *error) {
  Checkpoint *at = &e->trainer->position;
  EngineSums sums;
  const uint64_t first = e->collected + 1;
  if (!wait_for_sums(e, &sums, error)) return false;
  at->loss += sums.loss;
  at->correct += sums.correct;
  at->rows += sums.rows;
  e->collected = end;
  e->collected_at = seconds_now();
  if (isfinite(sums.loss)) return true;
  e->trainer->diverged = true;
  e->stopped = false;
  return error_set(error,
                   "the training loss is not a finite number in steps %" PRIu64 " to %" PRIu64
                   " of epoch %d: try a lower --lr",
                   first, end, e->epoch + 1);
}

/* Ends an epoch whose read ended early. A signal may have ended one of a pipe, which ranks do not
   read. */
static bool cut_short(Epoch *e) {
  const uint64_t step = e->trainer->position.step, trained = e->steps > step ? e->steps : step;
  if (!e->stopped && !e->trainer->config.ranks)
    is_stopped(e, e->all_steps ? e->all_steps : trained);
  return false;
}

static uint64_t order_key(const Epoch *e) {
  return random_order_key(e->trainer->config.training.seed, (uint64_t)e->epoch);
}

/* Trains on the steps of a range in pieces, so short that a signal is noticed between them; step 0
   of its window is step `before` of the epoch. */
static bool train_steps(Epoch *e, const TrainRange *range, uint64_t before, Error *error) {
  Engine *engine = e->trainer->engine;
  uint64_t *updates = &e->trainer->position.updates;
  const uint64_t first = range->first_step, end = first + range->steps;
  TrainRange piece = *range;
  for (uint64_t step = first; step < end; step += piece.steps) {
    if (step > first && is_stopped(e, before + step)) return false;
    piece.first_step = step;
    piece.steps = engine_piece(engine, end - step, batch_of(e));
    piece.updates = *updates;
    *updates += piece.steps;
    if (!engine->call->train(engine, &piece, error)) return false;
  }
  return true;
}

/* Takes what is known of the rows that have been read of a file. From the second pass on ranks read
   some of them. */
static void take_summary(Trainer *t, bool judges) {
  DataSummary *s = judges ? &t->test_data : &t->train_data;
  if ((judges ? t->test_rows : t->train_rows) > 0) return;
  *s = *dataset_summary(judges ? t->test : t->train);
  s->streamed = !t->resident;
  s->white = (int)training_white(&t->config.training);
}

/* A LoaderUse: trains on the rows of a staging buffer. */
static bool train_staged(void *context, uint64_t first_row, uint64_t rows, Error *error) {
  Epoch *e = context;
  Trainer *t = e->trainer;
  if (t->train) take_summary(t, false);
  if (waits_for_all(t)) return !is_stopped(e, t->position.step);
  const uint64_t key = random_order_key(order_key(e), e->buffers++), before = e->steps;
  TrainRange range = whole_window(e, first_row, rows, key);
  e->steps += range.steps;
  if (e->trainer->position.step > before) /* they were trained before the run was interrupted */
    range.first_step = e->trainer->position.step - before;
  if (range.first_step >= range.steps) return true;
  range.steps -= range.first_step;
  if (!train_steps(e, &range, before, error)) return false;
  if (e->trainer->train) show_progress(e, dataset_progress(e->trainer->train));
  bool look = seconds_now() - e->collected_at > e->events->patience;
  if (!ranks_broadcast(e->trainer->config.ranks, &look, sizeof look, error) || /* of the clock */
      (look && !collect(e, e->steps, error)))
    return false;
  const bool is_last = rows % batch_of(e) != 0; /* the step was short */
  return is_last || !is_stopped(e, e->steps);
}

/* A LoaderUse: evaluates rows in pieces, as train_steps trains. */
static bool evaluate_rows(void *context, uint64_t first_row, uint64_t rows, Error *error) {
  Epoch *e = context;
  Engine *engine = e->trainer->engine;
  for (uint64_t done = 0, count; done < rows; done += count) {
    if (done > 0 && is_stopped(e, e->all_steps)) return false;
    count = engine_piece(engine, rows - done, 1);
    if (!engine_evaluate(engine, first_row + done, count, error)) return false;
  }
  return true;
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
    return error_set(error, "no memory for the numbers of %" PRIu64 " rows", epoch->rows);
  for (uint64_t first = 0; first < epoch->rows; first += epoch->window) {
    const uint64_t rows = min_size(epoch->rows - first, epoch->window);
    const uint64_t key = random_order_key(epoch->order_key, first / epoch->window);
    for (uint64_t step = 0; step < rows; step += epoch->batch) {
      const uint64_t of_step = min_size(rows - step, epoch->batch);
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
  const StreamedEpoch epoch = {t->train_rows, t->staging_rows, batch_of(e), order_key(e)};
  free(t->own.bits);
  t->own.bits = NULL;
  return !t->config.ranks || t->resident || t->train_rows == 0 || t->config.hold_out > 0 ||
         own_rows(&epoch, ranks_number(t->config.ranks), ranks_count(t->config.ranks), &t->own,
                  error);
}

/* Feeds all rows to train on, or to judge by, to the engine, from their reader if that is open
   already. Rows that stayed there are used as they were when they came. */
static bool feed(Epoch *e, bool judges, LoaderUse *use, Error *error) {
  Trainer *t = e->trainer;
  DatasetReader **reader = judges ? &t->test : &t->train;
  uint64_t *rows = judges ? &t->test_rows : &t->train_rows, fed_rows;
  /* In file order only augmentation makes a difference between one window and many. */
  const uint64_t most =
      t->joined && !augment_any(t->config.training.augment) ? *rows : t->staging_rows;
  for (uint64_t row = 0; use && t->resident && row < *rows; row += most)
    if (!use(e, row, min_size(*rows - row, most), error)) return cut_short(e);
  if (t->resident && *rows > 0) return true;
  if (!*reader && !judges && !choose_rows(e, error)) return false;
  if (!*reader) *reader = open_again(t, judges, error);
  if (!*reader) return cut_short(e);
  const LoaderPlan plan = {.first_row = judges && t->resident ? t->train_rows : 0,
                           .ring = !t->resident,
                           .use = use,
                           .context = e};
  const bool fed = loader_feed(t->engine, *reader, &plan, &fed_rows, error) &&
                   (judges || dataset_check_labels(*reader, error));
  if (fed) take_summary(t, judges);
  trainer_close_reader(reader);
  if (fed) *rows = fed_rows;
  if (fed && *rows > 0) return true;
  if (fed)
    error_set(error, "--validation %g leaves no row of %s to %s: choose another share",
              t->config.hold_out, t->config.train, judges ? "judge by" : "train on");
  return cut_short(e);
}

/* Trains on the whole resident file, in as many parts as progress is to be shown; the weights
   do not depend on the parts. */
static bool train_resident(Epoch *e, bool in_parts, Error *error) {
  TrainRange range = whole_window(e, 0, e->trainer->train_rows, order_key(e));
  const uint64_t steps = range.steps, parts = in_parts ? PROGRESS_PARTS : 1;
  const uint64_t aligned = e->trainer->engine->aligned > 1 ? e->trainer->engine->aligned : 1;
  uint64_t done = e->trainer->position.step;
  for (uint64_t part = 0; !e->stopped && part < parts; part++) {
    uint64_t end = part + 1 == parts ? steps : steps * (part + 1) / parts / aligned * aligned;
    if (end <= done) continue;
    range.first_step = done;
    range.steps = end - done;
    done = end;
    if (!train_steps(e, &range, 0, error) && !e->stopped) return false;
    if (e->stopped) end = e->trainer->position.step;
    if (!collect(e, end, error) || e->stopped) return false;
    if (in_parts) show_progress(e, (double)(part + 1) / (double)parts);
    if (end < steps) is_stopped(e, end);
  }
  return !e->stopped;
}

static TrainerResult result_of(const Epoch *e, bool good) {
  return good ? TRAINER_DONE : e->stopped ? TRAINER_STOPPED : TRAINER_FAILED;
}

TrainerResult trainer_load(Trainer *t, const TrainerEvents *events, Error *error) {
  Epoch e = {.trainer = t, .events = events};
  return result_of(&e, feed(&e, false, NULL, error) && (!t->judge || feed(&e, true, NULL, error)));
}

static bool train_epoch(Epoch *e, bool in_parts, Error *error) {
  Trainer *t = e->trainer;
  const bool feeds = !t->resident || e->epoch == 0;
  e->collected = t->position.step;
  e->collected_at = seconds_now();
  /* The rows are there already unless a run is resumed. */
  const bool fed =
      (!feeds && t->train_rows > 0) || feed(e, false, feeds ? train_staged : NULL, error);
  if (e->stopped) e->steps = t->position.step;
  if ((fed || e->stopped) && e->collected < e->steps && !collect(e, e->steps, error)) return false;
  if (!fed) return false;
  e->all_steps = ceil_div(t->train_rows, batch_of(e));
  if (t->position.step > e->all_steps) /* the file may have become another one */
    return error_set(error,
                     "the saved run stands at step %" PRIu64
                     " of an epoch, but %s has only %" PRIu64 " steps",
                     t->position.step, t->config.train, e->all_steps);
  return (feeds && !waits_for_all(t)) || train_resident(e, in_parts || feeds, error);
}

static bool evaluate_epoch(Epoch *e, EngineSums *sums, Error *error) {
  Trainer *t = e->trainer;
  *sums = (EngineSums){.loss = NAN};
  if (!t->judge) return true;
  const bool evaluated = t->resident ? evaluate_rows(e, t->train_rows, t->test_rows, error)
                                     : feed(e, true, evaluate_rows, error);
  return (evaluated || e->stopped) && wait_for_sums(e, sums, error) && evaluated;
}

/* ---- all epochs --------------------------------------------------------------------------- */

/* Leaves *epoch alone if the run was stopped. */
static bool run_epoch(Epoch *e, bool in_parts, EpochResult *epoch, Error *error) {
  Trainer *t = e->trainer;
  RunTotals *totals = &t->totals;
  const Checkpoint *train = &t->position;
  EngineSums test = {0};
  const bool first = totals->load == 0;
  const uint64_t rows_before = train->rows;
  const double start = seconds_now();
  if (!train_epoch(e, in_parts, error)) return false;
  const double trained = seconds_now();
  if (t->judge && t->test_rows == 0 && t->resident && !feed(e, true, NULL, error)) return false;
  const double loaded = seconds_now();
  if (!evaluate_epoch(e, &test, error)) return false;
  const double evaluated = seconds_now();
  if (t->judge && !isfinite(test.loss)) {
    t->diverged = true;
    return error_set(error, "the %s loss is not a finite number after epoch %d: try a lower --lr",
                     trainer_judge_option(t), e->epoch + 1);
  }
  if (first) totals->load = (t->resident ? loaded : evaluated) - t->opened;
  totals->train += trained - start;
  totals->test += evaluated - loaded;
  *epoch = (EpochResult){.epoch = e->epoch + 1,
                         .epochs = t->config.training.epochs,
                         .seed = t->config.training.seed,
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
  return true;
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

TrainerResult trainer_run(Trainer *t, const TrainerEvents *events, Error *error) {
  const TrainerConfig *c = &t->config;
  Checkpoint *position = &t->position;
  double before = position->epoch > 0 ? INFINITY : 0; /* seconds of the last epoch, if known */
  t->totals = (RunTotals){0};
  while (position->epoch < c->training.epochs) {
    Epoch e = {.trainer = t,
               .events = events,
               .epoch = position->epoch,
               .learning_rate = (float)lr_schedule_rate(&c->training.schedule, c->training.epochs,
                                                        position->epoch)};
    EpochResult epoch;
    bool in_parts = (events->progress || events->stop) && before > events->patience;
    if (!ranks_broadcast(c->ranks, &in_parts, sizeof in_parts, error)) return TRAINER_FAILED;
    if (!run_epoch(&e, in_parts, &epoch, error)) return result_of(&e, false);
    advance(position, &epoch);
    if (events->epoch && !events->epoch(events->context, &epoch, error)) return TRAINER_FAILED;
    if (c->training.early_stop && position->epoch - position->best_epoch >= c->training.early_stop)
      break;
    if (position->epoch < c->training.epochs && is_stopped(&e, 0)) return TRAINER_STOPPED;
    before = epoch.train_seconds;
  }
  return TRAINER_DONE;
}
