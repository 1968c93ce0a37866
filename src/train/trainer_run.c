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

/* The epoch that is running. position.step counts the epoch's steps so far. Functions here that
   take an Epoch and an Error return false if the epoch was stopped or failed. They set *error only
   if it failed. */
typedef struct {
  Trainer *trainer;
  const TrainerEvents *events;
  int epoch;           /* counted from 0 */
  bool in_parts;       /* true for a long epoch, which shows its progress if it is one window */
  uint64_t collected;  /* number of steps whose loss the trainer's position includes */
  double collected_at; /* time of the last call of collect, by seconds_now */
  double start, trained, loaded; /* when the epoch began, when its steps ended, when all rows of
                                    resident files were read; by seconds_now */
  uint64_t rows_before; /* number of rows that the saved run has trained on in this epoch */
  EpochResult result;
} Epoch;

/* Returns true if the run must end now. */
static bool is_stopped(const Epoch *e) {
  const TrainerEvents *events = e->events;
  if (events->stop ? events->stop(events->context) : interrupt_pending())
    e->trainer->stopped = true;
  return e->trainer->stopped;
}

/* Returns false. Called after a failed read. A pending signal may have ended the read of a pipe, so
   the run then counts as stopped. A run with ranks counts as failed, because it reads no pipes. */
static bool cut_short(const Epoch *e) {
  if (!e->trainer->stopped && !e->trainer->config.ranks) is_stopped(e);
  return false;
}

/* Waits for queued work and sets *sums. On an error, the run counts as failed, not as stopped. */
static bool wait_for_sums(const Epoch *e, EngineSums *sums, Error *error) {
  Engine *engine = e->trainer->engine;
  return engine->call->collect(engine, sums, error) || (e->trainer->stopped = false);
}

/* Waits for the epoch's steps so far. Adds their loss and counts to the trainer's position. */
static bool collect(Epoch *e, Error *error) {
  Checkpoint *at = &e->trainer->position;
  EngineSums sums;
  const uint64_t first = e->collected + 1;
  if (!wait_for_sums(e, &sums, error)) return false;
  at->loss += sums.loss;
  at->correct += sums.correct;
  at->rows += sums.rows;
  e->collected = at->step;
  e->collected_at = seconds_now();
  if (isfinite(sums.loss)) return true;
  e->trainer->diverged = true;
  e->trainer->stopped = false;
  return error_set(error,
                   "the training loss is not a finite number in steps %" PRIu64 " to %" PRIu64
                   " of epoch %d: try a lower --lr",
                   first, at->step, e->epoch + 1);
}

/* ---- the rows of an epoch ------------------------------------------------------------------- */

/* A pass over the rows of a file, window after window. Resident rows that were read before are
   taken from the dataset; all other rows are read from the file. */
typedef struct {
  TrainerFile *file;
  uint64_t most;    /* largest number of rows in a window from the dataset; 0 skips such rows */
  Loader loader;    /* the current window; loader.reader is NULL if rows come from the dataset */
  uint64_t windows; /* the number of next_window calls so far */
} Pass;

/* Updates the file's summary while its rows are read for the first time. */
static void summarise(const Trainer *t, TrainerFile *file) {
  if (file->rows > 0) return;
  file->data = *dataset_summary(file->reader);
  file->data.streamed = !t->resident;
  file->data.white = (int)training_white(t->config.training);
}

static bool has_rows(const Trainer *t, const TrainerFile *file, Error *error) {
  return file->rows > 0 ||
         error_set(error, "--validation %g leaves no rows of %s to %s; choose a different fraction",
                   t->config.hold_out, t->config.train, file->judges ? "judge by" : "train on");
}

/* Moves p->loader to the next window, or sets p->loader.rows to 0 at the end of the pass. Fails if
   the file cannot be read, has changed, or has no rows. */
static bool next_window(Trainer *t, Pass *p, Error *error) {
  TrainerFile *file = p->file;
  Loader *l = &p->loader;
  const bool stayed = t->resident && file->rows > 0;
  if (p->windows++ == 0) {
    if (!stayed && !file->reader && !trainer_open_file(t, file, error)) return false;
    const uint64_t start = file->judges && t->resident ? t->train.rows : 0;
    *l = (Loader){t->engine, stayed ? NULL : file->reader, start, .ring = !t->resident};
  }
  if (!l->reader) {
    l->first_row = l->start + l->done;
    l->rows = min_size(file->rows - l->done, p->most);
    l->done += l->rows;
    return true;
  }
  const bool good = loader_next(l, error);
  if (good) summarise(t, file);
  if (good && l->rows > 0) return true;
  trainer_close_file(file);
  if (good) file->rows = l->done;
  return good && has_rows(t, file, error);
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

/* Returns true if the epoch's rows are one window in random order: if they stay in the dataset, in
   every epoch after the first, and also in the first epoch if they are sorted by label. */
static bool is_whole(const Epoch *e) {
  const Trainer *t = e->trainer;
  return t->resident && (e->epoch > 0 || t->train.data.sorted);
}

/* Returns the steps of rows first_row to first_row + rows - 1, which make up a window of the epoch.
   `key` is different for each window of a run. */
static TrainRange range_of(const Epoch *e, uint64_t first_row, uint64_t rows, uint64_t key) {
  const Training *training = e->trainer->config.training;
  return (TrainRange){.first_row = first_row,
                      .rows = rows,
                      .shuffled = e->epoch > 0 || is_whole(e),
                      .key = key,
                      .steps = ceil_div(rows, (uint64_t)training->batch),
                      .learning_rate = (float)training_rate(training, e->epoch),
                      .augment = training->augment,
                      .augment_key = random_order_key(key, AUGMENTATION),
                      .dropout_key = random_order_key(key, DROPOUT)};
}

/* Trains on the range's steps from first_step to `end` - 1. The calls to the engine are short so
   that signals are noticed between them. The weights do not depend on the number of calls. */
static bool train_until(Epoch *e, TrainRange *range, uint64_t end, Error *error) {
  Engine *engine = e->trainer->engine;
  Checkpoint *at = &e->trainer->position;
  const uint64_t batch = (uint64_t)e->trainer->config.training->batch, start = range->first_step;
  for (; range->first_step < end; range->first_step += range->steps) {
    if (range->first_step > start && is_stopped(e)) return false;
    range->steps = engine_piece(engine, end - range->first_step, batch);
    range->updates = at->updates;
    if (!engine->call->train(engine, range, error)) return false;
    at->updates += range->steps;
    at->step += range->steps;
  }
  return true;
}

/* Shows progress and collects losses: if `parts` is above 1, after each part of a window, otherwise
   if the last check was `patience` seconds ago by the clock of rank 0. */
static bool check_progress(Epoch *e, uint64_t part, uint64_t parts, Error *error) {
  const Trainer *t = e->trainer;
  const DatasetReader *reader = t->train.reader;
  bool wanted = parts > 1 || seconds_now() - e->collected_at > e->events->patience;
  if (!ranks_broadcast(t->config.ranks, &wanted, sizeof wanted, error) ||
      (wanted && !collect(e, error)))
    return false;
  if (e->events->report && (reader || parts > 1))
    report_progress(e->events->report, e->epoch + 1, t->config.training->epochs,
                    reader ? dataset_progress(reader) : (double)part / (double)parts);
  return true;
}

/* Trains on a window that begins with step `before` of the epoch, except on steps on which a
   resumed run has trained. A window of all rows of a long epoch has parts. */
static bool train_window(Epoch *e, TrainRange range, uint64_t before, Error *error) {
  const Trainer *t = e->trainer;
  const uint64_t steps = range.steps, aligned = t->engine->aligned > 1 ? t->engine->aligned : 1;
  const uint64_t parts = e->in_parts && is_whole(e) ? PROGRESS_PARTS : 1;
  for (uint64_t part = 1; part <= parts; part++) {
    const uint64_t end = part == parts ? steps : steps * part / parts / aligned * aligned;
    if (t->position.step >= before + end) continue;
    if (part > 1 && is_stopped(e)) return false;
    range.first_step = t->position.step - before;
    if (!train_until(e, &range, end, error) || !check_progress(e, part, parts, error)) return false;
  }
  return true;
}

/* Warns if sorted rows are streamed, because the network then learns one class after the other. */
static void say_order(const Epoch *e) {
  const Trainer *t = e->trainer;
  if (e->epoch == 0 && t->train.data.sorted && !t->resident && e->events->report)
    report_remark(e->events->report,
                  text_format("%s: sorted by label, and streamed in that order: mix the lines "
                              "with shuf",
                              text_shown(t->config.train).text)
                      .text);
}

/* Trains on the epoch's rows, one window after another. In the first epoch, rows are in the file's
   order, and each window is trained on while the next one is read. If all rows are one window, all
   are read first. */
static bool train_rows(Epoch *e, Error *error) {
  Trainer *t = e->trainer;
  const uint64_t batch = (uint64_t)t->config.training->batch,
                 key = random_order_key(t->config.training->seed, (uint64_t)e->epoch);
  Pass pass = {.file = &t->train, .most = is_whole(e) ? 0 : t->staging_rows};
  const Loader *l = &pass.loader;
  bool good;
  while ((good = next_window(t, &pass, error)) && l->rows > 0) {
    if (pass.windows == 1) say_order(e);
    if (is_stopped(e)) return false;
    if (is_whole(e)) continue;
    const uint64_t own = random_order_key(key, pass.windows - 1), before = l->done - l->rows;
    if (!train_window(e, range_of(e, l->first_row, l->rows, own), before / batch, error))
      return false;
  }
  if (!good || !is_whole(e)) return good;
  return train_window(e, range_of(e, 0, t->train.rows, key), 0, error);
}

/* Trains on the epoch's rows, and collects the losses also of an epoch that is stopped. */
static bool train_epoch(Epoch *e, Error *error) {
  const Trainer *t = e->trainer;
  const Checkpoint *at = &t->position;
  e->collected = at->step;
  e->collected_at = seconds_now();
  const bool good = train_rows(e, error) || cut_short(e);
  if ((good || t->stopped) && e->collected < at->step && !collect(e, error)) return false;
  const uint64_t steps = ceil_div(t->train.rows, (uint64_t)t->config.training->batch);
  if (good && at->step > steps) /* the file has lost rows since the save */
    return error_set(error,
                     "the saved run stands at step %" PRIu64
                     " of an epoch, but %s has only %" PRIu64 " steps",
                     at->step, t->config.train, steps);
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
      good = (done == 0 || !is_stopped(e)) &&
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

/* Sets e->result after an evaluation with these sums, and adds the epoch to the run's totals. */
static void note_result(Epoch *e, const EngineSums *judged) {
  Trainer *t = e->trainer;
  const Training *training = t->config.training;
  const Checkpoint *train = &t->position;
  RunTotals *totals = &t->totals;
  const double evaluated = seconds_now(), read = t->resident ? e->loaded : evaluated;
  if (totals->load == 0) totals->load = read - t->opened;
  totals->train += e->trained - e->start;
  totals->test += evaluated - e->loaded;
  e->result = (EpochResult){.epoch = e->epoch + 1,
                            .epochs = training->epochs,
                            .seed = training->seed,
                            .train_loss = train->loss / (double)train->rows,
                            .train_accuracy = (double)train->correct / (double)train->rows,
                            .judged_by = t->judged_by,
                            .test_loss = judged->loss / (double)judged->rows,
                            .test_accuracy = (double)judged->correct / (double)judged->rows,
                            .learning_rate = (float)training_rate(training, e->epoch),
                            .train_seconds = e->trained - e->start,
                            .test_seconds = evaluated - e->loaded,
                            .train_rows = train->rows,
                            .rows_before = e->rows_before,
                            .test_rows = judged->rows};
}

/* Trains and evaluates an epoch, and sets e->result. */
static bool run_epoch(Epoch *e, Error *error) {
  Trainer *t = e->trainer;
  EngineSums judged;
  e->rows_before = t->position.rows;
  e->start = seconds_now();
  if (!train_epoch(e, error)) return false;
  e->trained = seconds_now();
  if (t->judge.path && t->resident && t->judge.rows == 0 && !load_rows(t, &t->judge, error))
    return cut_short(e);
  e->loaded = seconds_now();
  if (!evaluate_epoch(e, &judged, error)) return false;
  note_result(e, &judged);
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
  double before = INFINITY; /* training time of the previous epoch, in s */
  t->totals = (RunTotals){0};
  t->stopped = t->diverged = false;
  while (at->epoch < c->training->epochs) {
    Epoch e = {
        .trainer = t, .events = events, .epoch = at->epoch, .in_parts = before > events->patience};
    if (!ranks_broadcast(c->ranks, &e.in_parts, sizeof e.in_parts, error)) return false;
    if (!run_epoch(&e, error)) return t->stopped;
    advance(at, &e.result);
    if (events->epoch && !events->epoch(events->context, &e.result, error)) return false;
    if (c->training->early_stop && at->epoch - at->best_epoch >= c->training->early_stop) break;
    if (at->epoch == events->until) break;
    if (at->epoch < c->training->epochs && is_stopped(&e)) break;
    before = e.result.train_seconds;
  }
  return true;
}
