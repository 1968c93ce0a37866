#include "trainer.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <unistd.h>

#include "dataset.h"
#include "loader.h"
#include "random.h"
#include "seconds.h"

/* Rows of a slot, rounded down to whole steps: 6 MB of MNIST's pixels. Small, so that the first
   rows train early; large, so that a slot is much more than a launch. */
enum { SLOT_ROWS = 8192 };

/* Parts of an epoch that shows its progress. */
enum { PROGRESS_PARTS = 20 };

struct Trainer {
  Options options;
  bool resident;
  int threads;
  uint64_t slot_rows;
  double opened;               /* when, in seconds_now */
  DatasetReader *train, *test; /* open from the start of a pass over the file to its end */
  Engine *engine;
  uint64_t train_rows, test_rows; /* in the files, known after the first epoch */
};

/* ---- opening ------------------------------------------------------------------------------ */

static DatasetReader *open_reader(const Trainer *t, const char *path, Error *error) {
  const size_t ahead = t->resident ? 0 : 2 * t->slot_rows;
  return dataset_open(path, t->options.classes, t->threads, ahead, error);
}

static void close_reader(DatasetReader **reader) {
  dataset_close(*reader);
  *reader = NULL;
}

static bool open_readers(Trainer *t, Error *error) {
  close_reader(&t->train);
  close_reader(&t->test);
  t->train = open_reader(t, t->options.train, error);
  if (!t->train) return false;
  t->test = open_reader(t, t->options.test, error);
  if (!t->test) return false;
  const int train = dataset_inputs(t->train), test = dataset_inputs(t->test);
  if (train == test) return true;
  return error_set(error, "%s has %d pixels a row but %s has %d", t->options.test, test,
                   t->options.train, train);
}

/* Rows in the store are bytes, and so are those parsed ahead of it: a quarter of the memory for
   each leaves half for everything else. */
static bool fits_host(const Trainer *t, uint64_t rows) {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages < 0 || page < 0) return true;
  return rows * (uint64_t)dataset_inputs(t->train) <= (uint64_t)pages / 4 * (uint64_t)page;
}

/* Leaves t->engine NULL on failure. */
static bool open_all(Trainer *t, bool resident, TrainerOpenEngine *open, void *context,
                     Error *error) {
  const Options *o = &t->options;
  t->resident = resident;
  if (!open_readers(t, error)) return false;
  EngineConfig config = {.batch = o->batch,
                         .seed = o->seed,
                         .momentum = o->momentum,
                         .weight_decay = o->weight_decay,
                         .fusion = (Fusion)o->fusion,
                         .threads = t->threads,
                         .store_rows = 2 * t->slot_rows,
                         .slot_rows = t->slot_rows};
  if (!network_init(&config.network, dataset_inputs(t->train), o->hidden.size, o->hidden.count,
                    o->classes, error))
    return false;
  if (resident) config.store_rows = dataset_max_rows(t->train) + dataset_max_rows(t->test);
  if (resident && (config.store_rows > UINT32_MAX || /* as a TrainRange has it */
                   (o->resident == RESIDENT_AUTO && !fits_host(t, config.store_rows))))
    return error_set(error, "%s has too many rows to be resident: try --resident no", o->train);
  t->engine = open(context, &config, error);
  return t->engine != NULL;
}

Trainer *trainer_open(const Options *options, TrainerOpenEngine *open, void *context,
                      Error *error) {
  Trainer *t = calloc(1, sizeof *t);
  if (!t) {
    error_set(error, "out of memory");
    return NULL;
  }
  t->options = *options;
  t->threads = options->threads ? options->threads : omp_get_num_procs();
  const uint64_t batch = (uint64_t)options->batch;
  t->slot_rows = batch < SLOT_ROWS ? SLOT_ROWS / batch * batch : batch;
  t->opened = seconds_now();
  if ((options->resident != RESIDENT_NO && open_all(t, true, open, context, error)) ||
      (options->resident != RESIDENT_YES && open_all(t, false, open, context, error)))
    return t;
  trainer_close(t);
  return NULL;
}

void trainer_close(Trainer *t) {
  if (!t) return;
  close_reader(&t->train);
  close_reader(&t->test);
  if (t->engine) t->engine->call->close(t->engine);
  free(t);
}

Engine *trainer_engine(Trainer *t) {
  return t->engine;
}

bool trainer_is_resident(const Trainer *t) {
  return t->resident;
}

/* ---- an epoch ----------------------------------------------------------------------------- */

typedef struct {
  Trainer *trainer;
  const TrainerEvents *events;
  int epoch; /* from 0 */
  float learning_rate;
  uint64_t slots; /* trained on in this epoch */
} Epoch;

static void show_progress(const Epoch *e, double done) {
  if (e->events->progress)
    e->events->progress(e->events->context, e->epoch + 1, e->trainer->options.epochs, done);
}

static TrainRange whole_window(const Epoch *e, uint64_t first_row, uint64_t rows, uint64_t key) {
  const uint64_t batch = (uint64_t)e->trainer->options.batch;
  return (TrainRange){.first_row = first_row,
                      .rows = rows,
                      .shuffled = e->epoch > 0,
                      .key = key,
                      .steps = (rows + batch - 1) / batch,
                      .learning_rate = e->learning_rate};
}

/* The key of this epoch's order. */
static uint64_t order_key(const Epoch *e) {
  return random_order_key(e->trainer->options.seed, (uint64_t)e->epoch);
}

/* A LoaderUse: trains on the rows of a slot. */
static bool train_slot(void *context, uint64_t first_row, uint64_t rows, Error *error) {
  Epoch *e = context;
  Engine *engine = e->trainer->engine;
  const uint64_t key = random_order_key(order_key(e), e->slots++);
  const TrainRange range = whole_window(e, first_row, rows, key);
  if (!engine->call->train(engine, &range, error)) return false;
  show_progress(e, dataset_progress(e->trainer->train));
  return true;
}

/* A LoaderUse: evaluates the rows of a slot. */
static bool evaluate_slot(void *context, uint64_t first_row, uint64_t rows, Error *error) {
  const Epoch *e = context;
  Engine *engine = e->trainer->engine;
  return engine->call->evaluate(engine, first_row, rows, error);
}

/* Feeds the whole file `path` to the engine, from *reader if that is open already. */
static bool feed(Epoch *e, DatasetReader **reader, const char *path, uint64_t first_row,
                 LoaderUse *use, uint64_t *rows, Error *error) {
  Trainer *t = e->trainer;
  if (!*reader) *reader = open_reader(t, path, error);
  if (!*reader) return false;
  const LoaderPlan plan = {.first_row = first_row, .ring = !t->resident, .use = use, .context = e};
  const bool fed = loader_feed(t->engine, *reader, &plan, rows, error);
  close_reader(reader);
  return fed;
}

/* Trains on the whole resident file, in as many parts as progress is to be shown; the weights
   do not depend on the parts. */
static bool train_resident(const Epoch *e, bool in_parts, EngineSums *sums, Error *error) {
  Engine *engine = e->trainer->engine;
  TrainRange range = whole_window(e, 0, e->trainer->train_rows, order_key(e));
  const uint64_t steps = range.steps, parts = in_parts ? PROGRESS_PARTS : 1;
  *sums = (EngineSums){0};
  for (uint64_t part = 0; part < parts; part++) {
    EngineSums added;
    range.first_step = steps * part / parts;
    range.steps = steps * (part + 1) / parts - range.first_step;
    if (range.steps == 0) continue;
    if (!engine->call->train(engine, &range, error)) return false;
    if (!engine->call->collect(engine, &added, error)) return false;
    sums->loss += added.loss;
    sums->correct += added.correct;
    sums->rows += added.rows;
    if (in_parts) show_progress(e, (double)(part + 1) / (double)parts);
  }
  return true;
}

static bool train_epoch(Epoch *e, bool in_parts, EngineSums *sums, Error *error) {
  Trainer *t = e->trainer;
  if (t->resident && e->epoch > 0) return train_resident(e, in_parts, sums, error);
  return feed(e, &t->train, t->options.train, 0, train_slot, &t->train_rows, error) &&
         t->engine->call->collect(t->engine, sums, error);
}

static bool evaluate_epoch(Epoch *e, EngineSums *sums, Error *error) {
  Trainer *t = e->trainer;
  Engine *engine = t->engine;
  if (!t->resident)
    return feed(e, &t->test, t->options.test, 0, evaluate_slot, &t->test_rows, error) &&
           engine->call->collect(engine, sums, error);
  return engine->call->evaluate(engine, t->train_rows, t->test_rows, error) &&
         engine->call->collect(engine, sums, error);
}

/* ---- all epochs --------------------------------------------------------------------------- */

/* Appends the test file to the store behind the training file. */
static bool load_test(Epoch *e, Error *error) {
  Trainer *t = e->trainer;
  return feed(e, &t->test, t->options.test, t->train_rows, NULL, &t->test_rows, error);
}

static bool run_epoch(Epoch *e, bool in_parts, EpochResult *result, ReportTotals *totals,
                      Error *error) {
  Trainer *t = e->trainer;
  EngineSums train, test;
  const double start = seconds_now();
  if (!train_epoch(e, in_parts, &train, error)) return false;
  const double trained = seconds_now();
  if (e->epoch == 0 && t->resident && !load_test(e, error)) return false;
  const double loaded = seconds_now();
  if (!evaluate_epoch(e, &test, error)) return false;
  const double evaluated = seconds_now();
  if (e->epoch == 0) totals->load = (t->resident ? loaded : evaluated) - t->opened;
  totals->train += trained - start;
  totals->test += evaluated - loaded;
  *result = (EpochResult){.epoch = e->epoch + 1,
                          .epochs = t->options.epochs,
                          .train_loss = train.loss / (double)train.rows,
                          .train_accuracy = (double)train.correct / (double)train.rows,
                          .test_loss = test.loss / (double)test.rows,
                          .test_accuracy = (double)test.correct / (double)test.rows,
                          .train_seconds = trained - start,
                          .test_seconds = evaluated - loaded,
                          .train_rows = train.rows,
                          .test_rows = test.rows};
  return true;
}

bool trainer_run(Trainer *t, const TrainerEvents *events, ReportTotals *totals, Error *error) {
  const Options *o = &t->options;
  double learning_rate = (double)o->lr, before = 0; /* before: seconds of the last epoch */
  *totals = (ReportTotals){0};
  for (int epoch = 0; epoch < o->epochs; epoch++, learning_rate *= (double)o->lr_decay) {
    Epoch e = {
        .trainer = t, .events = events, .epoch = epoch, .learning_rate = (float)learning_rate};
    const bool in_parts = events->progress && before > events->patience;
    EpochResult result;
    if (!run_epoch(&e, in_parts, &result, totals, error)) return false;
    if (!events->epoch(events->context, &result, error)) return false;
    if (!isfinite(result.train_loss))
      return error_set(error, "the training loss of epoch %d is no finite number: try a lower --lr",
                       epoch + 1);
    before = result.train_seconds;
  }
  return true;
}
