/* The tests of the trainer share tiny files, a spy in front of the CPU engine that records
   what the trainer asks of it, and runs that record what the trainer reports. */
#pragma once

#include <inttypes.h>

#include "base/random.h"
#include "train/trainer.h"
#include "support/folder.h"

/* ---- files ---------------------------------------------------------------------------------- */

enum { PIXELS = 4, CLASSES = 3, BATCH = 4 }; /* 2 x 2: square, as augmentation wants it */

/* In the working folder, which is that of folder.h. */
static const char train_path[] = "train.csv", test_path[] = "test.csv";

/* Rows whose label is their greatest pixel's place. */
static inline void write_csv(const char *path, int rows, uint64_t stream) {
  FILE *file = folder_create(path);
  for (int row = 0; row < rows; row++) {
    const RandomWords words = random_words(1, stream, (uint64_t)row);
    int label = 0;
    for (int i = 1; i < CLASSES; i++)
      if (words.word[i] % 256 > words.word[label] % 256) label = i;
    fprintf(file, "%d", label);
    for (int i = 0; i < PIXELS; i++) fprintf(file, ",%" PRIu32, words.word[i] % 256);
    fputc('\n', file);
  }
  close_file(file);
}

static inline void write_files(int train_rows, int test_rows) {
  write_csv(train_path, train_rows, 1);
  write_csv(test_path, test_rows, 2);
}

/* ---- what a run is, and what it asked of its engine ----------------------------------------- */

enum { MOST_CALLS = 100 };

typedef struct {
  Engine *engine;          /* that the trainer has */
  EngineConfig config;     /* that it was last asked for */
  int opened, closed;      /* opened: tries */
  int trains, evaluations; /* calls */
  int bad_train, bad_test; /* the call whose loss is NaN, from 1; 0: none */
  TrainRange train[MOST_CALLS];
  int collected; /* evaluations whose sums were collected */
  struct {
    uint64_t first_row, rows;
  } evaluation[MOST_CALLS];
} Spy;

static Spy spy; /* of the last run */

enum { MOST_EPOCHS = 8 };

typedef struct {
  /* wishes */
  bool shows_progress;
  double patience;
  int fail;         /* the epoch whose event fails, 0: none */
  int stop;         /* the call of the stop event that ends the run, from 1; 0: there is no event */
  int refused;      /* engines */
  uint32_t aligned; /* the engine's */
  int bad_train, bad_test; /* as of Spy */
  const Checkpoint *from;
  /* what happened */
  EpochResult epoch[MOST_EPOCHS];
  int epochs;   /* that were reported */
  int progress; /* calls in all */
  int progress_epoch;
  double done;    /* the last call's */
  int stop_calls; /* of the event that may stop the run */
  Checkpoint saved;
  bool resident;
  Error error;
} Run;

static inline void run_free(Run *run) {
  checkpoint_free(&run->saved);
}

/* Declares a Run whose `saved` is freed at the end of its block. */
#define RUN __attribute__((cleanup(run_free))) Run

/* Rows that stay on the device, and rows that are streamed. */
#define EACH_RESIDENCY(resident)                                                                   \
  for (int resident = RESIDENT_YES; resident <= RESIDENT_NO; resident++)

static inline TrainerConfig tiny_run(int epochs, Residency resident) {
  return (TrainerConfig){
      .train = train_path,
      .test = test_path,
      /* more threads would wait for each other longer than they work */
      .training = {.hidden = {1, {5}},
                   .classes = CLASSES,
                   .epochs = epochs,
                   .schedule = {SCHEDULE_STEP, 0.05f, 0.8f, 0},
                   .resident = resident,
                   .batch = BATCH,
                   .rule.momentum = 0.9f,
                   .seed = 1,
                   .threads = 1},
  };
}

/* ---- a spy in the calls of the CPU engine --------------------------------------------------- */

static const EngineOperations *cpu; /* the engine's own calls */

static inline bool spy_train(Engine *engine, const TrainRange *range, Error *e) {
  assert_true(spy.trains < MOST_CALLS);
  spy.train[spy.trains++] = *range;
  return cpu->train(engine, range, e);
}

static inline bool spy_predict(Engine *engine, uint64_t first_row, uint64_t rows, float *logits,
                               Error *e) {
  assert_null(logits);
  assert_true(spy.evaluations < MOST_CALLS);
  spy.evaluation[spy.evaluations].first_row = first_row;
  spy.evaluation[spy.evaluations++].rows = rows;
  return cpu->predict(engine, first_row, rows, logits, e);
}

static inline bool spy_collect(Engine *engine, EngineSums *sums, Error *e) {
  if (!cpu->collect(engine, sums, e)) return false;
  const bool is_test = spy.evaluations > spy.collected;
  const int calls = is_test ? spy.evaluations : spy.trains;
  if (calls == (is_test ? spy.bad_test : spy.bad_train)) sums->loss = NAN;
  spy.collected = spy.evaluations;
  return true;
}

static inline void spy_close(Engine *engine) {
  cpu->close(engine);
  spy.closed++;
}

static inline Engine *open_spy(void *context, const EngineConfig *config, Error *e) {
  static EngineOperations calls;
  const Run *run = context;
  spy.config = *config;
  if (spy.opened++ < run->refused) {
    error_set(e, "no memory for %" PRIu64 " rows", config->dataset_rows);
    e->too_large = true;
    return NULL;
  }
  Engine *engine = engine_cpu_open(config, e);
  if (!engine) return NULL;
  cpu = engine->call;
  calls = *cpu;
  calls.train = spy_train;
  calls.predict = spy_predict;
  calls.collect = spy_collect;
  calls.close = spy_close;
  engine->call = &calls;
  engine->aligned = run->aligned;
  return spy.engine = engine;
}

/* ---- a run ---------------------------------------------------------------------------------- */

static inline bool on_epoch(void *context, const EpochResult *result, Error *e) {
  Run *run = context;
  assert_true(run->epochs < MOST_EPOCHS);
  run->epoch[run->epochs++] = *result;
  assert_int_equal(result->epoch, run->epochs + (run->from ? run->from->epoch : 0));
  return result->epoch != run->fail || error_set(e, "failed by the test");
}

static inline bool on_stop(void *context) {
  Run *run = context;
  return ++run->stop_calls == run->stop;
}

static inline void on_progress(void *context, int epoch, int epochs, double done) {
  Run *run = context;
  assert_in_range(epoch, 1, epochs);
  assert_true(done >= 0 && done <= 1);
  if (epoch == run->progress_epoch) assert_true(done >= run->done);
  run->progress_epoch = epoch;
  run->done = done;
  run->progress++;
}

/* Trains as *run wishes and adds what happened; false: it failed, run->error says why. */
static inline bool run_trainer(const TrainerConfig *config, Run *run) {
  spy = (Spy){.bad_train = run->bad_train, .bad_test = run->bad_test};
  run->error.text[0] = '\0';
  TrainerConfig continued = *config;
  continued.from = run->from;
  continued.from_name = "old.safetensors";
  Trainer *trainer = trainer_open(&continued, open_spy, run, &run->error);
  if (!trainer) return false;
  const TrainerEvents events = {.epoch = on_epoch,
                                .progress = run->shows_progress ? on_progress : NULL,
                                .stop = run->stop ? on_stop : NULL,
                                .patience = run->patience,
                                .context = run};
  const TrainerResult result = trainer_run(trainer, &events, &run->error);
  const bool trained = result != TRAINER_FAILED;
  if (trained && run->epochs) {
    const RunTotals *totals = &trainer->totals;
    assert_true(totals->load > 0 && totals->train > 0 && totals->test > 0);
  }
  run->resident = trainer->resident;
  assert_ptr_equal(trainer->engine, spy.engine);
  assert_true(trainer_checkpoint(trainer, &run->saved, &run->error));
  assert_int_equal(result == TRAINER_STOPPED, run->stop > 0 && run->stop_calls == run->stop);
  trainer_close(trainer);
  assert_int_equal(spy.closed, 1);
  return trained;
}

/* must_run trains as the run wishes, must_train to the last epoch: the test fails unless that
   succeeds. It fails unless must_fail's training fails and says `says`. */
static inline Run must_run(const TrainerConfig *config, Run run) {
  if (!run_trainer(config, &run)) fail_msg("%s", run.error.text);
  return run;
}

static inline Run must_train(const TrainerConfig *config, bool shows_progress) {
  const Run run = must_run(config, (Run){.shows_progress = shows_progress});
  assert_int_equal(run.epochs, config->training.epochs);
  return run;
}

static inline void must_fail(const TrainerConfig *config, Run run, const char *says) {
  if (run_trainer(config, &run)) fail_msg("no failure that says \"%s\"", says);
  run_free(&run);
  assert_in(run.error.text, says);
}

/* Every epoch used so many rows, and its figures are possible. */
static inline void assert_rows(const Run *run, uint64_t train_rows, uint64_t test_rows) {
  for (int i = 0; i < run->epochs; i++) {
    const EpochResult *r = &run->epoch[i];
    assert_int_equal(r->epochs, run->epochs);
    assert_int_equal(r->train_rows, train_rows);
    assert_int_equal(r->test_rows, test_rows);
    assert_true(r->train_loss > 0 && r->test_loss > 0);
    assert_true(r->train_accuracy >= 0 && r->train_accuracy <= 1);
    assert_true(r->test_accuracy >= 0 && r->test_accuracy <= 1);
    assert_true(r->train_seconds > 0 && r->test_seconds > 0);
  }
}

static inline void assert_same_weights(const Run *a, const Run *b) {
  const size_t floats = (size_t)a->saved.count * a->saved.network.floats;
  assert_int_equal(a->saved.count, b->saved.count);
  assert_memory_equal(a->saved.parameters, b->saved.parameters, floats * sizeof(float));
}
