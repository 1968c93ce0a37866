#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "data/dataset.h"
#include "data/source.h"
#include "engine/loader.h"
#include "model/lr_schedule.h"
#include "train/own_rows.h"
#include "train/train_state.h"

/* Parts of an epoch that shows its progress. */
enum { PROGRESS_PARTS = 20 };

/* Derives the key of an order's augmentation from the order's own: larger than any number of a
   staging buffer, for which keys are derived as well. */
#define AUGMENTATION (1ull << 40)
#define DROPOUT (1ull << 41) /* likewise its dropout */

struct Trainer {
  TrainerConfig config;
  bool resident;
  int threads;
  uint64_t staging_rows;
  double opened; /* when, in seconds_now */
  JudgedBy judged_by;
  const char *judge;           /* the file with the rows to judge by, NULL: none */
  DatasetReader *train, *test; /* open from the start of a pass over the file to its end;
                                  test: of the rows to judge by */
  RowSet own; /* what `train` is opened for, once the number of rows is known; bits NULL: all */
  SourceStamp train_stamp, test_stamp; /* of both files when they were first opened */
  Engine *engine;
  uint64_t train_rows, test_rows; /* known after the first epoch */
  TrainerPosition position;
};

/* ---- opening ------------------------------------------------------------------------------ */

/* Opens the file to train on, or `judges` that to judge by. */
static DatasetReader *open_reader(const Trainer *t, bool judges, Error *error) {
  const TrainerConfig *c = &t->config;
  const size_t ahead = t->resident ? 0 : 2 * t->staging_rows;
  DatasetReader *reader =
      !judges && t->own.bits
          ? dataset_open_some(c->train, &t->own, c->classes, t->threads, ahead, error)
          : dataset_open(judges ? t->judge : c->train, c->classes, t->threads, ahead, error);
  if (!reader || c->hold_out == 0 || dataset_split(reader, c->hold_out, c->seed, judges, error))
    return reader;
  dataset_close(reader);
  return NULL;
}

static const char *judge_option(const Trainer *t) {
  return t->judged_by == JUDGED_BY_VALIDATION ? "validation" : "test";
}

static void close_reader(DatasetReader **reader) {
  dataset_close(*reader);
  *reader = NULL;
}

/* That nothing is wanted twice of a source that can be read once. */
static bool check_once(const Trainer *t, Error *error) {
  const TrainerConfig *c = &t->config;
  const bool train_once = dataset_is_once(t->train),
             test_once = t->test && dataset_is_once(t->test);
  const bool once = train_once || test_once;
  if (once && !t->resident && c->epochs > 1)
    return error_set(error,
                     "--%s can be read only once, but --resident no reads it in every epoch: leave "
                     "it out, or train for one epoch",
                     train_once ? "train" : judge_option(t));
  if (test_once && t->judged_by == JUDGED_BY_TEST && c->rereads_test)
    return error_set(error, "--test can be read only once, but --%s reads it again: give it a file",
                     c->rereads_test);
  return true;
}

/* Every rank reads the files itself: a pipe would give each of them some of its rows. */
static bool check_ranks(const Trainer *t, Error *error) {
  const TrainerConfig *c = &t->config;
  const bool train = source_can_repeat(c->train), judge = !t->judge || source_can_repeat(t->judge);
  if (!c->ranks || (train && judge)) return true;
  return error_set(error, "--%s is not a file, but %d ranks read it: give it a file",
                   train ? judge_option(t) : "train", ranks_count(c->ranks));
}

static bool open_readers(Trainer *t, Error *error) {
  const TrainerConfig *c = &t->config;
  if (!check_ranks(t, error)) return false;
  close_reader(&t->train);
  close_reader(&t->test);
  t->train = open_reader(t, false, error);
  if (!t->train) return false;
  t->train_stamp = *dataset_stamp(t->train);
  if (!t->judge) return check_once(t, error);
  if (dataset_is_once(t->train) && c->hold_out > 0)
    return error_set(error,
                     "--validation %g reads --train twice, but it can be read only once: give it a "
                     "file",
                     c->hold_out);
  if (dataset_is_once(t->train) && dataset_reads(t->train, t->judge))
    return error_set(error, "--train and --%s are the same pipe, which can be read only once",
                     judge_option(t));
  t->test = open_reader(t, true, error);
  if (!t->test || !check_once(t, error)) return false;
  t->test_stamp = *dataset_stamp(t->test);
  const int train = dataset_inputs(t->train), test = dataset_inputs(t->test);
  if (train == test) return true;
  if (test == train - 1)
    return error_set(error,
                     "%s has no label column: its rows are %d fields, those of %s a label and as "
                     "many pixels; --validation 0.1 judges by a tenth of those, with --test none",
                     t->judge, train, c->train);
  return error_set(error, "%s has %d pixels a row but %s has %d", t->judge, test, c->train, train);
}

/* How many rows may be resident: those that take half of the host's memory at most, with their
   labels, in the dataset and while they wait to be copied there. What is free at the moment does
   not count: the order of rows follows from this, and the same run on the same machine is to give
   the same bits. */
static uint64_t most_rows(const Trainer *t) {
  const uint64_t most = UINT32_MAX, memory = memory_limit(); /* most: as a TrainRange has it */
  if (t->config.resident != RESIDENT_AUTO || memory == UINT64_MAX) return most;
  const size_t row =
      dataset_row_bytes(t->train) + engine_row_stride(dataset_inputs(t->train)) + sizeof(uint16_t);
  const uint64_t fit = memory / 2 / row;
  return fit < most ? fit : most;
}

/* Sets *rows to what a dataset for both files needs. */
static bool count_rows(Trainer *t, uint64_t *rows, Error *error) {
  const uint64_t most = most_rows(t);
  *rows = dataset_max_rows(t->train, most);
  if (*rows <= most && t->test) *rows += dataset_max_rows(t->test, most - *rows);
  if (*rows <= most) return true;
  error_set(error, "%s has too many rows to be resident: try --resident no", t->config.train);
  if (error) error->too_large = true;
  return false;
}

static bool same_sizes(const Network *a, const Network *b) {
  return a->layers == b->layers &&
         memcmp(a->size, b->size, (size_t)(a->layers + 1) * sizeof *a->size) == 0;
}

/* Whether the saved run can be continued with this network: before the engine takes memory for it.
 */
static bool check_from(const Trainer *t, const Network *network, Error *error) {
  const Checkpoint *from = t->config.from;
  const uint64_t batch = (uint64_t)t->config.batch;
  if (!from) return true;
  if (!same_sizes(&from->network, network)) {
    char saved[NETWORK_TEXT], asked[NETWORK_TEXT];
    network_describe(&from->network, saved);
    network_describe(network, asked);
    return error_set(error,
                     "%s holds a network of %s, but %s, --hidden and --classes ask for one of %s",
                     t->config.from_name, saved, t->config.train, asked);
  }
  const bool fits = from->step == 0
                        ? from->rows == 0
                        : from->step <= UINT32_MAX && from->rows <= from->step * batch &&
                              from->rows > (from->step - 1) * batch; /* a short last one */
  return fits ||
         error_set(error, "%s was interrupted in the middle of an epoch: continue with its --batch",
                   t->config.from_name);
}

static bool continue_from(Trainer *t, const Checkpoint *from, Error *error) {
  t->position = (TrainerPosition){.epoch = from->epoch,
                                  .step = from->step,
                                  .sums = {from->loss, from->correct, from->rows},
                                  .updates = from->updates,
                                  .test_accuracy = from->test_accuracy,
                                  .best_accuracy = from->best_accuracy,
                                  .best_epoch = from->best_epoch};
  return train_state_write(t->engine, from, error);
}

/* Whether all ranks could do what this one did, so that they go on together. */
static bool all_good(Ranks *ranks, bool good, Error *error) {
  Error ignored;
  int bad = !good;
  if (!ranks_largest(ranks, &bad, good ? error : &ignored)) return false;
  if (!good || !bad) return good;
  error_set(error, "another rank has too little memory for resident rows: try --resident no");
  if (error) error->too_large = true;
  return false;
}

/* Leaves t->engine NULL if it cannot be opened. */
static bool open_all(Trainer *t, bool resident, TrainerOpenEngine *open, void *context,
                     Error *error) {
  const TrainerConfig *c = &t->config;
  t->resident = resident;
  if (!open_readers(t, error)) return false;
  EngineConfig config = {.batch = c->batch,
                         .ranks = c->ranks,
                         .seed = c->seed,
                         .optimizer = c->optimizer,
                         .momentum = c->momentum,
                         .weight_decay = c->weight_decay,
                         .beta1 = c->beta1,
                         .beta2 = c->beta2,
                         .epsilon = c->epsilon,
                         .label_smoothing = c->label_smoothing,
                         .ema = c->ema,
                         .pixels = c->pixels,
                         .fusion = c->fusion,
                         .precision = c->precision,
                         .augment = augment_any(c->augment),
                         .device_memory = c->device_memory,
                         .threads = t->threads,
                         .dataset_rows = 2 * t->staging_rows,
                         .staging_rows = t->staging_rows};
  memcpy(config.dropout, c->dropout, sizeof config.dropout);
  if (!network_init(&config.network, dataset_inputs(t->train), c->hidden.size, c->hidden.count,
                    c->classes, error))
    return false;
  if (!check_from(t, &config.network, error)) return false;
  if (resident && !all_good(c->ranks, count_rows(t, &config.dataset_rows, error), error))
    return false;
  t->engine = open(context, &config, error);
  return t->engine && (!c->from || continue_from(t, c->from, error));
}

/* After a resident run could not be opened: the rows take more than the host or the device has, and
   nothing was wrong with the files, nor used up. */
static bool can_stream(const Trainer *t, const Error *error) {
  return t->config.resident == RESIDENT_AUTO && !t->engine && error->too_large && t->train &&
         !dataset_is_once(t->train) && (!t->judge || (t->test && !dataset_is_once(t->test)));
}

Trainer *trainer_open(const TrainerConfig *config, TrainerOpenEngine *open, void *context,
                      Error *error) {
  if (config->batch < ranks_count(config->ranks)) {
    error_set(error, "--batch %d leaves some of %d ranks without a row: choose a larger one",
              config->batch, ranks_count(config->ranks));
    return NULL;
  }
  Trainer *t = calloc(1, sizeof *t);
  if (!t) {
    error_set(error, "out of memory");
    return NULL;
  }
  t->config = *config;
  t->judged_by = config->validation || config->hold_out > 0 ? JUDGED_BY_VALIDATION
                 : config->test                             ? JUDGED_BY_TEST
                                                            : JUDGED_BY_NONE;
  t->judge = config->validation     ? config->validation
             : config->hold_out > 0 ? config->train
                                    : config->test;
  t->threads = config->threads ? config->threads : ranks_cores(config->ranks);
  t->staging_rows = loader_staging_rows(config->batch);
  t->position.test_accuracy = t->position.best_accuracy = NAN;
  t->opened = seconds_now();
  const bool streams = config->resident == RESIDENT_NO;
  if (open_all(t, !streams, open, context, error) ||
      (can_stream(t, error) && open_all(t, false, open, context, error)))
    return t;
  trainer_close(t);
  return NULL;
}

void trainer_close(Trainer *t) {
  if (!t) return;
  close_reader(&t->train);
  close_reader(&t->test);
  if (t->engine) t->engine->call->close(t->engine);
  free(t->own.bits);
  free(t);
}

Engine *trainer_engine(Trainer *t) {
  return t->engine;
}

bool trainer_is_resident(const Trainer *t) {
  return t->resident;
}

const TrainerPosition *trainer_position(const Trainer *t) {
  return &t->position;
}

bool trainer_checkpoint(const Trainer *t, Checkpoint *checkpoint, Error *error) {
  const TrainerPosition *position = &t->position;
  *checkpoint = (Checkpoint){.network = t->engine->config.network,
                             .updates = position->updates,
                             .epoch = position->epoch,
                             .step = position->step,
                             .loss = position->sums.loss,
                             .correct = position->sums.correct,
                             .rows = position->sums.rows,
                             .test_accuracy = position->test_accuracy,
                             .best_accuracy = position->best_accuracy,
                             .best_epoch = position->best_epoch};
  if (train_state_read(t->engine, checkpoint, error)) return true;
  checkpoint_free(checkpoint);
  return false;
}

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
  const uint64_t batch = (uint64_t)e->trainer->config.batch;
  return (TrainRange){.first_row = first_row,
                      .rows = rows,
                      .shuffled = e->epoch > 0,
                      .key = key,
                      .steps = ceil_div(rows, batch),
                      .learning_rate = e->learning_rate,
                      .augment = e->trainer->config.augment,
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
  return random_order_key(e->trainer->config.seed, (uint64_t)e->epoch);
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
    piece.steps = engine_piece(engine, end - step, (uint64_t)engine->config.batch);
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
  const bool is_last = rows % (uint64_t)e->trainer->config.batch != 0; /* the step was short */
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
  DatasetReader *reader = open_reader(t, judges, error);
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
  const StreamedEpoch epoch = {t->train_rows, t->staging_rows, (uint64_t)t->config.batch,
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
  close_reader(reader);
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
  const uint64_t batch = (uint64_t)t->config.batch;
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
              judge_option(t), e->epoch + 1);
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
