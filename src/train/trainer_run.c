/* Runs the trainer: trainer_run loops over the epochs, and train_epoch over the rows of an epoch.
   This file also decides whether a run ends early. The loader reads the rows, and the engine does
   forward, loss, backward and update. */
#include "train/trainer.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/random.h"
#include "train/report.h"

/* A long epoch has this many equal parts. Its progress is shown after each part. */
enum { PROGRESS_PARTS = 20 };

/* random_order_key makes the keys of augmentation and dropout from these numbers, and the keys of
   row orders from window numbers. A window number is always smaller than these two numbers. */
#define AUGMENTATION (1ull << 40)
#define DROPOUT (1ull << 41)

/* ---- where a run ends early ------------------------------------------------------------------ */

/* The epoch that is running. Functions here that take an Epoch and an Error return false if the
   epoch was stopped or failed. They set *error only if it failed. */
typedef struct {
  Trainer *trainer;
  const TrainerEvents *events;
  int epoch;      /* counted from 0 */
  bool in_parts;  /* true for a long epoch, which shows its progress */
  uint64_t steps; /* number of steps in the epoch's windows so far, including the current window */
  uint64_t collected;  /* number of steps whose loss the trainer's position includes */
  double collected_at; /* time of the last call of collect, by seconds_now */
  EpochResult result;
} Epoch;

/* Returns true if the run must end now, after `steps` steps of the epoch. */
static bool is_stopped(Epoch *e, uint64_t steps) {
  const TrainerEvents *events = e->events;
  if (!(events->stop ? events->stop(events->context) : interrupt_pending())) return false;
  e->trainer->position.step = steps;
  return e->trainer->stopped = true;
}

/* Returns false. Called after a failed read. A pending signal may have ended the read of a pipe, so
   the run then counts as stopped. A run with ranks counts as failed, because it reads no pipes. */
static bool cut_short(Epoch *e) {
  const Checkpoint *at = &e->trainer->position;
  if (!e->trainer->stopped && !e->trainer->config.ranks)
    is_stopped(e, e->steps > at->step ? e->steps : at->step);
  return false;
}

/* Waits for queued work and sets *sums. On an error, the run counts as failed, not as stopped. */
static bool wait_for_sums(Epoch *e, EngineSums *sums, Error *error) {
  Engine *engine = e->trainer->engine;
  return engine->call->collect(engine, sums, error) || (e->trainer->stopped = false);
}

/* Waits until step `end` is trained. Adds the new loss and counts to the trainer's position. */
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
  e->trainer->stopped = false;
  return error_set(error,
                   "the training loss is not a finite number in steps %" PRIu64 " to %" PRIu64
                   " of epoch %d: try a lower --lr",
                   first, end, e->epoch + 1);
}

static void show_progress(const Epoch *e, double done) {
  if (e->events->report)
    report_progress(e->events->report, e->epoch + 1, e->trainer->config.training.epochs, done);
}

/* ---- the rows of an epoch ------------------------------------------------------------------- */

/* A pass over the rows of a file, window after window. Resident rows that were read before are
   taken from the dataset; all other rows are read from the file. */
typedef struct {
  TrainerFile *file;
  uint64_t most;    /* largest number of rows in a window if rows come from the dataset */
  Loader loader;    /* the current window; loader.reader is NULL if rows come from the dataset */
  uint64_t windows; /* the number of next_window calls so far */
} Pass;

/* Moves p->loader to the next window, or sets p->loader.rows to 0 at the end of the pass. Fails if
   the file cannot be read, has changed, or has no rows. */
static bool next_window(Trainer *t, Pass *p, Error *error) {
  TrainerFile *file = p->file;
  Loader *l = &p->loader;
  const bool stayed = t->resident && file->rows > 0;
  if (p->windows++ == 0) {
    if (!stayed && !file->reader && !trainer_open_file(t, file, error)) return false;
    *l =
        (Loader){.engine = t->engine, .reader = stayed ? NULL : file->reader, .ring = !t->resident};
    if (file->judges && t->resident) l->start = t->train.rows;
  }
  if (!l->reader) {
    l->first_row = l->start + l->done;
    l->rows = min_size(file->rows - l->done, p->most);
    l->done += l->rows;
    return true;
  }
  const bool good = loader_next(l, error);
  if (good && file->rows == 0) {
    file->data = *dataset_summary(file->reader);
    file->data.streamed = !t->resident;
    file->data.white = (int)training_white(&t->config.training);
  }
  if (good && l->rows > 0) return true;
  trainer_close_file(file);
  if (!good) return false;
  file->rows = l->done;
  return file->rows > 0 ||
         error_set(error, "--validation %g leaves no rows of %s to %s; choose a different fraction",
                   t->config.hold_out, t->config.train, file->judges ? "judge by" : "train on");
}

/* Reads all rows of a file into the dataset. */
static bool load_rows(Trainer *t, TrainerFile *file, Error *error) {
  Pass pass = {.file = file};
  bool good;
  while ((good = next_window(t, &pass, error)) && pass.loader.rows > 0) {
  }
  return good;
}

/* ---- training ----------------------------------------------------------------------------- */

/* Returns the steps of rows first_row to first_row + rows - 1, which make up a window of the epoch.
   `key` is different for each window of a run. */
static TrainRange range_of(const Epoch *e, uint64_t first_row, uint64_t rows, uint64_t key) {
  const Training *training = &e->trainer->config.training;
  return (TrainRange){.first_row = first_row,
                      .rows = rows,
                      .key = key,
                      .steps = ceil_div(rows, (uint64_t)training->batch),
                      .learning_rate =
                          (float)lr_schedule_rate(&training->schedule, training->epochs, e->epoch),
                      .augment = training->augment,
                      .augment_key = random_order_key(key, AUGMENTATION),
                      .dropout_key = random_order_key(key, DROPOUT)};
}

/* Trains on the range's steps from first_step to `end` - 1, which follow step `before` of the
   epoch. The calls to the engine are short so that signals are noticed between them. The weights do
   not depend on the number of calls. */
static bool train_until(Epoch *e, TrainRange *range, uint64_t before, uint64_t end, Error *error) {
  Engine *engine = e->trainer->engine;
  Checkpoint *at = &e->trainer->position;
  const uint64_t batch = (uint64_t)e->trainer->config.training.batch, start = range->first_step;
  for (; range->first_step < end; range->first_step += range->steps) {
    if (range->first_step > start && is_stopped(e, before + range->first_step)) return false;
    range->steps = engine_piece(engine, end - range->first_step, batch);
    range->updates = at->updates;
    at->updates += range->steps;
    if (!engine->call->train(engine, range, error)) return false;
  }
  return true;
}

/* Trains on all rows as one window in random order. Reads the rows first if no epoch of this run
   has read them. A long epoch shows its progress and checks its loss after each part. */
static bool train_whole(Epoch *e, Error *error) {
  Trainer *t = e->trainer;
  const uint64_t key = random_order_key(t->config.training.seed, (uint64_t)e->epoch),
                 aligned = t->engine->aligned > 1 ? t->engine->aligned : 1;
  const uint64_t parts = e->in_parts ? PROGRESS_PARTS : 1;
  if (!load_rows(t, &t->train, error)) return false;
  TrainRange range = range_of(e, 0, t->train.rows, key);
  e->steps = range.steps;
  range.shuffled = true;
  range.first_step = t->position.step;
  for (uint64_t part = 1; part <= parts; part++) {
    const uint64_t end = part == parts ? e->steps : e->steps * part / parts / aligned * aligned;
    if (range.first_step >= end) continue;
    if (!train_until(e, &range, 0, end, error) || !collect(e, end, error)) return false;
    if (e->in_parts) show_progress(e, (double)part / (double)parts);
    if (part < parts && is_stopped(e, end)) return false;
  }
  return true;
}

/* Trains on one window of train_windows. May check the loss after the window, but only if the last
   check was `patience` seconds ago, by the clock of rank 0. */
static bool train_window(Epoch *e, TrainRange range, Error *error) {
  const Trainer *t = e->trainer;
  const uint64_t before = e->steps, rest = range.rows % (uint64_t)t->config.training.batch;
  e->steps += range.steps;
  if (t->position.step >= e->steps) return true; /* a resumed run has trained on this window */
  if (t->position.step > before) range.first_step = t->position.step - before;
  if (!train_until(e, &range, before, e->steps - before, error)) return false;
  bool wanted = seconds_now() - e->collected_at > e->events->patience;
  if (t->train.reader) show_progress(e, dataset_progress(t->train.reader));
  return ranks_broadcast(t->config.ranks, &wanted, sizeof wanted, error) &&
         (!wanted || collect(e, e->steps, error)) && (rest != 0 || !is_stopped(e, e->steps));
}

/* Warns if sorted rows are streamed, because the network then learns one class after the other. */
static void say_order(const Epoch *e) {
  const Trainer *t = e->trainer;
  if (t->train.data.sorted && !t->resident && e->events->report)
    report_remark(e->events->report,
                  text_format("%s: sorted by label, and streamed in that order: mix the lines "
                              "with shuf",
                              text_shown(t->config.train).text)
                      .text);
}

/* Trains window after window. In the first epoch, rows are in the file's order, and each window is
   trained on while the next one is read. But if the first window is sorted by label and the rows
   stay, this reads all rows and then trains on them as a whole. */
static bool train_windows(Epoch *e, Error *error) {
  Trainer *t = e->trainer;
  const uint64_t order = random_order_key(t->config.training.seed, (uint64_t)e->epoch);
  Pass pass = {.file = &t->train, .most = t->staging_rows};
  bool good, waits = false;
  while ((good = next_window(t, &pass, error)) && pass.loader.rows > 0) {
    if (e->epoch == 0 && e->steps == 0) say_order(e);
    waits = t->resident && t->train.data.sorted;
    if (waits && is_stopped(e, t->position.step)) return false;
    if (waits) continue;
    TrainRange range = range_of(e, pass.loader.first_row, pass.loader.rows,
                                random_order_key(order, pass.windows - 1));
    range.shuffled = e->epoch > 0;
    if (!train_window(e, range, error)) return false;
  }
  if (!good || !waits) return good;
  e->in_parts = true;
  return train_whole(e, error);
}

/* Trains on the epoch's rows. Rows that stay in the dataset are one window in every epoch after the
   first, and also in the first epoch if they are sorted by label. */
static bool train_epoch(Epoch *e, Error *error) {
  Trainer *t = e->trainer;
  const bool whole = t->resident && (e->epoch > 0 || t->train.data.sorted);
  e->collected = t->position.step;
  e->collected_at = seconds_now();
  const bool good = (whole ? train_whole : train_windows)(e, error);
  if (!good) cut_short(e);
  if (t->stopped) e->steps = t->position.step;
  if ((good || t->stopped) && e->collected < e->steps && !collect(e, e->steps, error)) return false;
  if (good && t->position.step > e->steps) /* the file has lost rows since the save */
    return error_set(error,
                     "the saved run stands at step %" PRIu64
                     " of an epoch, but %s has only %" PRIu64 " steps",
                     t->position.step, t->config.train, e->steps);
  return good;
}

/* ---- evaluation --------------------------------------------------------------------------- */

/* Evaluates the judging rows in short calls, so that signals are noticed between them. */
static bool evaluate_epoch(Epoch *e, EngineSums *sums, Error *error) {
  Trainer *t = e->trainer;
  Pass pass = {.file = &t->judge, .most = UINT64_MAX};
  *sums = (EngineSums){.loss = NAN};
  if (!t->judge.path) return true;
  bool good;
  while ((good = next_window(t, &pass, error)) && pass.loader.rows > 0) {
    const uint64_t rows = pass.loader.rows;
    for (uint64_t done = 0, count; good && done < rows; done += count) {
      count = engine_piece(t->engine, rows - done, 1);
      good = (done == 0 || !is_stopped(e, e->steps)) &&
             engine_evaluate(t->engine, pass.loader.first_row + done, count, error);
    }
    if (!good) break;
  }
  if (!good) cut_short(e);
  if ((!good && !t->stopped) || !wait_for_sums(e, sums, error) || !good) return false;
  if (isfinite(sums->loss)) return true;
  t->diverged = true;
  return error_set(error, "the %s loss is not a finite number after epoch %d: try a lower --lr",
                   trainer_judge_option(t), e->epoch + 1);
}

/* ---- all epochs --------------------------------------------------------------------------- */

/* Trains and evaluates an epoch, and sets e->result. */
static bool run_epoch(Epoch *e, Error *error) {
  Trainer *t = e->trainer;
  const Training *training = &t->config.training;
  RunTotals *totals = &t->totals;
  const Checkpoint *train = &t->position;
  EngineSums test;
  const bool first = totals->load == 0;
  const uint64_t rows_before = train->rows;
  const double start = seconds_now();
  if (!train_epoch(e, error)) return false;
  const double trained = seconds_now();
  if (t->judge.path && t->resident && t->judge.rows == 0 && !load_rows(t, &t->judge, error))
    return cut_short(e);
  const double loaded = seconds_now();
  if (!evaluate_epoch(e, &test, error)) return false;
  const double evaluated = seconds_now();
  if (first) totals->load = (t->resident ? loaded : evaluated) - t->opened;
  totals->train += trained - start;
  totals->test += evaluated - loaded;
  e->result = (EpochResult){
      .epoch = e->epoch + 1,
      .epochs = training->epochs,
      .seed = training->seed,
      .train_loss = train->loss / (double)train->rows,
      .train_accuracy = (double)train->correct / (double)train->rows,
      .judged_by = t->judged_by,
      .test_loss = test.loss / (double)test.rows,
      .test_accuracy = (double)test.correct / (double)test.rows,
      .learning_rate = (float)lr_schedule_rate(&training->schedule, training->epochs, e->epoch),
      .train_seconds = trained - start,
      .test_seconds = evaluated - loaded,
      .train_rows = train->rows,
      .rows_before = rows_before,
      .test_rows = test.rows};
  return true;
}

/* Updates the position after an epoch. */
static void advance(Checkpoint *position, const EpochResult *result) {
  const double accuracy = result->test_accuracy;
  position->epoch = result->epoch;
  position->step = 0;
  position->loss = 0;
  position->correct = position->rows = 0;
  position->test_accuracy = accuracy;
  if (isnan(accuracy) || (position->best_epoch && accuracy <= position->best_accuracy)) return;
  position->best_accuracy = accuracy;
  position->best_epoch = result->epoch;
}

bool trainer_load(Trainer *t, const TrainerEvents *events, Error *error) {
  Epoch e = {.trainer = t, .events = events};
  return (load_rows(t, &t->train, error) && (!t->judge.path || load_rows(t, &t->judge, error))) ||
         cut_short(&e);
}

bool trainer_run(Trainer *t, const TrainerEvents *events, Error *error) {
  const TrainerConfig *c = &t->config;
  Checkpoint *at = &t->position;
  double before = at->epoch > 0 ? INFINITY : 0; /* training time of the previous epoch, in s */
  t->totals = (RunTotals){0};
  t->stopped = t->diverged = false;
  while (at->epoch < c->training.epochs) {
    Epoch e = {
        .trainer = t, .events = events, .epoch = at->epoch, .in_parts = before > events->patience};
    if (!ranks_broadcast(c->ranks, &e.in_parts, sizeof e.in_parts, error)) return false;
    if (!run_epoch(&e, error)) return t->stopped;
    advance(at, &e.result);
    if (events->epoch && !events->epoch(events->context, &e.result, error)) return false;
    if (c->training.early_stop && at->epoch - at->best_epoch >= c->training.early_stop) break;
    if (at->epoch == events->until) break;
    if (at->epoch < c->training.epochs && is_stopped(&e, 0)) break;
    before = e.result.train_seconds;
  }
  return true;
}
