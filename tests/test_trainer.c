/* Tests the trainer on tiny files: how it calls an engine, which rows it uses, and how it fails.
   The weights must not depend on how files are read or on where a run is stopped and continued. A
   Spy records the calls to the CPU engine. A Run records what the trainer reports. */
#include <inttypes.h>

#include "base/augment.h"
#include "base/random.h"
#include "train/trainer.h"
#include "support/folder.h"

/* ---- files ---------------------------------------------------------------------------------- */

enum { PIXELS = 4, CLASSES = 3, BATCH = 4 }; /* PIXELS: 2 x 2, since augmentation needs squares */

static const char train_path[] = "train.csv", test_path[] = "test.csv";

/* Writes train.csv and test.csv. A label is the index of the largest of the first three pixels. */
static void write_files(int train_rows, int test_rows) {
  for (int is_test = 0; is_test < 2; is_test++) {
    FILE *file = folder_create(is_test ? test_path : train_path);
    for (int row = 0; row < (is_test ? test_rows : train_rows); row++) {
      const RandomWords words = random_words(1, 1 + (uint64_t)is_test, (uint64_t)row);
      int label = 0;
      for (int i = 1; i < CLASSES; i++)
        if (words.word[i] % 256 > words.word[label] % 256) label = i;
      fprintf(file, "%d", label);
      for (int i = 0; i < PIXELS; i++) fprintf(file, ",%" PRIu32, words.word[i] % 256);
      fputc('\n', file);
    }
    close_file(file);
  }
}

/* ---- a run, and the calls of its engine ----------------------------------------------------- */

enum { MOST_CALLS = 100, MOST_EPOCHS = 8 };

typedef struct {
  const struct Run *run;
  Engine *engine;          /* the trainer's engine */
  EngineConfig config;     /* configuration of the last engine that was requested */
  int opened, closed;      /* number of engines requested; number of engines closed */
  int trains, evaluations; /* number of calls to train; number of calls to evaluate */
  TrainRange train[MOST_CALLS];
  int collected;    /* number of evaluations whose sums were collected */
  char calls[4096]; /* text of all calls: " ROW+ROWS" for an evaluation, " ROW+ROWS:STEP+STEPS" for
                       training; an "s" after it means shuffled */
} Spy;

static Spy spy; /* the calls of the last run */

typedef struct Run {
  /* what the test asks for */
  double patience;
  int fail;         /* number of the epoch whose event fails; 0 means none */
  int stop;         /* number (from 1) of the stop event that ends the run; 0 means no event */
  int refused;      /* number of engines that open_spy refuses to open */
  uint32_t aligned; /* value for the field `aligned` of the engine */
  int bad_train, bad_test; /* number (from 1) of the call whose loss becomes NaN; 0 means none */
  const Checkpoint *from;
  /* what happened */
  EpochResult epoch[MOST_EPOCHS];
  int epochs;     /* number of epochs reported */
  int stop_calls; /* number of calls of the stop event */
  Checkpoint saved;
  bool resident;
  Error error;
} Run;

static void run_free(Run *run) {
  checkpoint_free(&run->saved);
}

/* Declares a Run whose `saved` is freed at the end of its block. */
#define RUN __attribute__((cleanup(run_free))) Run

static Training tiny; /* the settings of the last tiny_run */

static TrainerConfig tiny_run(int epochs, Residency resident) {
  tiny = (Training){.hidden = {1, {5}},
                    .classes = CLASSES,
                    .epochs = epochs,
                    .schedule = {SCHEDULE_STEP, 0.05f, 0.8f, 0},
                    .resident = resident,
                    .batch = BATCH,
                    .rule.momentum = 0.9f,
                    .seed = 1,
                    .threads = 1}; /* more threads would mostly wait */
  return (TrainerConfig){.train = train_path, .test = test_path, .training = &tiny};
}

/* ---- a spy that records the calls to the CPU engine ------------------------------------------ */

static const EngineOperations *cpu; /* the CPU engine's operations */

/* Appends the text of a call to spy.calls. */
#define NOTE(...)                                                                                  \
  snprintf(spy.calls + strlen(spy.calls), sizeof spy.calls - strlen(spy.calls), __VA_ARGS__)

static bool spy_train(Engine *engine, const TrainRange *range, Error *e) {
  assert_true(spy.trains < MOST_CALLS);
  spy.train[spy.trains++] = *range;
  NOTE(" %" PRIu64 "+%" PRIu64 ":%" PRIu64 "+%" PRIu64 "%s", range->first_row, range->rows,
       range->first_step, range->steps, range->shuffled ? "s" : "");
  return cpu->train(engine, range, e);
}

static bool spy_predict(Engine *engine, uint64_t first_row, uint64_t rows, float *logits,
                        Error *e) {
  assert_null(logits);
  spy.evaluations++;
  NOTE(" %" PRIu64 "+%" PRIu64, first_row, rows);
  return cpu->predict(engine, first_row, rows, logits, e);
}

static bool spy_collect(Engine *engine, EngineSums *sums, Error *e) {
  if (!cpu->collect(engine, sums, e)) return false;
  const bool is_test = spy.evaluations > spy.collected;
  const int calls = is_test ? spy.evaluations : spy.trains;
  if (calls == (is_test ? spy.run->bad_test : spy.run->bad_train)) sums->loss = NAN;
  spy.collected = spy.evaluations;
  return true;
}

static void spy_close(Engine *engine) {
  cpu->close(engine);
  spy.closed++;
}

static Engine *open_spy(void *context, const EngineConfig *config, Error *e) {
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

static bool on_epoch(void *context, const EpochResult *result, Error *e) {
  Run *run = context;
  assert_true(run->epochs < MOST_EPOCHS);
  run->epoch[run->epochs++] = *result;
  assert_int_equal(result->epoch, run->epochs + (run->from ? run->from->epoch : 0));
  return result->epoch != run->fail || error_set(e, "failed by the test");
}

static bool on_stop(void *context) {
  Run *run = context;
  return ++run->stop_calls == run->stop;
}

/* Trains as *run asks. Stores the results in *run. Returns false and sets run->error on failure. */
static bool run_trainer(const TrainerConfig *config, Run *run) {
  spy = (Spy){.run = run};
  run->error.text[0] = '\0';
  TrainerConfig continued = *config;
  continued.from = run->from;
  continued.from_name = "old.safetensors";
  Trainer *trainer = trainer_open(&continued, open_spy, run, &run->error);
  if (!trainer) return false;
  const TrainerEvents events = {.epoch = on_epoch,
                                .stop = run->stop ? on_stop : NULL,
                                .patience =
                                    run->stop || run->patience != 0 ? run->patience : INFINITY,
                                .context = run};
  const bool trained = trainer_run(trainer, &events, &run->error);
  if (trained && run->epochs) {
    const RunTotals *totals = &trainer->totals;
    assert_true(totals->load > 0 && totals->train > 0 && totals->test > 0);
  }
  run->resident = trainer->resident;
  assert_ptr_equal(trainer->engine, spy.engine);
  assert_true(trainer_checkpoint(trainer, &run->saved, &run->error));
  assert_int_equal(trainer->stopped, run->stop > 0 && run->stop_calls == run->stop);
  trainer_close(trainer);
  assert_int_equal(spy.closed, 1);
  return trained;
}

/* must_run and must_train fail the test if training fails; must_train also checks that all epochs
   were trained. With must_fail, training must fail with an error that contains `says`. */
static Run must_run(const TrainerConfig *config, Run run) {
  if (!run_trainer(config, &run)) fail_msg("%s", run.error.text);
  return run;
}

static Run must_train(const TrainerConfig *config) {
  const Run run = must_run(config, (Run){0});
  assert_int_equal(run.epochs, config->training->epochs);
  return run;
}

static void must_fail(const TrainerConfig *config, Run run, const char *says) {
  if (run_trainer(config, &run)) fail_msg("no failure that says \"%s\"", says);
  run_free(&run);
  assert_in(run.error.text, says);
}

/* Checks that every epoch used these numbers of rows and has possible results. */
static void assert_rows(const Run *run, uint64_t train_rows, uint64_t test_rows) {
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

static void assert_same_weights(const Run *a, const Run *b) {
  const size_t floats = (size_t)a->saved.count * a->saved.network.floats;
  assert_int_equal(a->saved.count, b->saved.count);
  assert_memory_equal(a->saved.parameters, b->saved.parameters, floats * sizeof(float));
}

/* ---- epochs ------------------------------------------------------------------------------- */

TESTS_WITH(folder_enter, folder_close);

TEST(every_row_counts_however_few) {
  static const int sizes[][2] = {{1, 1}, {3, 2}, {BATCH, 1}, {BATCH + 1, 7}, {23, 9}};
  foreach (size, sizes)
    for (int resident = RESIDENT_AUTO; resident <= RESIDENT_NO; resident++) {
      write_files((*size)[0], (*size)[1]);
      const TrainerConfig config = tiny_run(3, (Residency)resident);
      RUN run = must_train(&config);
      assert_rows(&run, (uint64_t)(*size)[0], (uint64_t)(*size)[1]);
      assert_int_equal(run.resident, resident != RESIDENT_NO);
    }
}

/* Each epoch must use its own learning rate. test_options.c tests learning-rate schedules. */
TEST(resident_rows_take_one_shuffled_call_per_epoch) {
  write_files(20000, 100);
  TrainerConfig config = tiny_run(3, RESIDENT_YES);
  tiny.batch = 3000; /* each buffer has 6000 rows */
  RUN run = must_train(&config);
  assert_rows(&run, 20000, 100);
  static const char later[] = " 0+20000:0+7s 20000+100";
  assert_string_equal(spy.calls,
                      text_printf(" 0+6000:0+2 6000+6000:0+2 12000+6000:0+2 18000+2000:0+1 "
                                  "20000+100%s%s",
                                  later, later));
  for (int epoch = 1; epoch < 3; epoch++) {
    const TrainRange *range = &spy.train[3 + epoch];
    assert_true(range->key == random_order_key(tiny.seed, (uint64_t)epoch));
    assert_close(range->learning_rate, 0.05 * pow(0.8, epoch), 1e-7);
    assert_true(run.epoch[epoch].learning_rate == (double)range->learning_rate);
  }
}

TEST(streaming_shuffles_each_buffer_by_its_own_key) {
  write_files(20000, 7000);
  TrainerConfig config = tiny_run(3, RESIDENT_NO);
  tiny.batch = 3000;
  RUN run = must_train(&config);
  assert_rows(&run, 20000, 7000);
  assert_int_equal(spy.config.dataset_rows, 12000);
  static const char later[] =
      " 0+6000:0+2s 6000+6000:0+2s 0+6000:0+2s 6000+2000:0+1s 0+6000 6000+1000";
  assert_string_equal(spy.calls,
                      text_printf(" 0+6000:0+2 6000+6000:0+2 0+6000:0+2 6000+2000:0+1 0+6000 "
                                  "6000+1000%s%s",
                                  later, later));
  for (int call = 4; call < spy.trains; call++)
    for (int other = 4; other < call; other++)
      assert_true(spy.train[call].key != spy.train[other].key);
}

/* If the rows are resident, the calls of an epoch after epoch 1 have the same keys. In epoch 1, and
   if rows are not resident, each call has keys of its own. */
TEST(augmentation_has_one_key_per_epoch) {
  const AugmentStrengths strengths = {{1, 0, 0.2f}};
  write_files(9000, 20); /* two buffers */
  foreach (resident, VALUES(Residency, RESIDENT_YES, RESIDENT_NO)) {
    TrainerConfig config = tiny_run(3, *resident);
    tiny.augment = strengths;
    __attribute__((unused)) RUN run = must_run(&config, (Run){.stop = 1000});
    assert_int_equal(spy.trains, *resident == RESIDENT_YES ? 2 + 2 * 20 : 3 * 2);
    for (int call = 0; call < spy.trains; call++) {
      const TrainRange *range = &spy.train[call];
      assert_true(augment_same(range->augment, strengths));
      assert_true(range->augment_key != range->key);
      for (int other = 0; other < call; other++) {
        const TrainRange *before = &spy.train[other];
        const bool same = *resident == RESIDENT_YES && call >= 2 &&
                          (call - 2) / 20 == (other - 2) / 20 && other >= 2;
        assert_int_equal(range->augment_key == before->augment_key, same);
        assert_int_equal(range->key == before->key, same);
      }
    }
  }
}

/* The 51 steps are divided into calls that begin at multiples of 8. The last call has 3 steps. */
TEST(parts_are_aligned) {
  write_files(203, 20);
  const TrainerConfig config = tiny_run(2, RESIDENT_YES);
  RUN run = must_run(&config, (Run){.stop = 1000, .aligned = 8});
  assert_rows(&run, 203, 20);
  assert_string_equal(spy.calls, " 0+203:0+51 203+20 0+203:0+8s 0+203:8+8s 0+203:16+8s 0+203:24+8s"
                                 " 0+203:32+8s 0+203:40+8s 0+203:48+3s 203+20");
}

/* After epoch 1, a run that may stop divides an epoch into at most 20 calls of whole steps. With a
   patience of 1000 seconds, an epoch is one call. */
TEST(few_parts_are_trained) {
  static const struct {
    int rows, trains;
    double patience;
  } cases[] = {{203, 1 + 2 * 20, 0}, {9, 1 + 2 * 3, 0}, {203, 3, 1000}};
  const TrainerConfig config = tiny_run(3, RESIDENT_YES);
  foreach (c, cases) {
    write_files(c->rows, 2);
    RUN run = must_run(&config, (Run){.stop = 1000, .patience = c->patience});
    assert_rows(&run, (uint64_t)c->rows, 2);
    assert_int_equal(spy.trains, c->trains);
  }
}

/* ---- failures ----------------------------------------------------------------------------- */

TEST(auto_streams_when_the_dataset_does_not_fit) {
  write_files(50, 20);
  const TrainerConfig config = tiny_run(2, RESIDENT_AUTO);
  RUN run = must_run(&config, (Run){.refused = 1});
  assert_false(run.resident);
  assert_int_equal(spy.opened, 2);
  assert_rows(&run, 50, 20);
}

/* A loss that is not finite ends the run. The error names the steps of the call. Losses are checked
   at the end of the file if `patience` is large, otherwise after each buffer. */
TEST(failures_stop_the_run) {
#define LOSS " loss is not a finite number "
#define ADVICE ": try a lower --lr"
#define IN_STEPS(steps) "the training" LOSS "in steps " steps ADVICE
#define DIVERGES 8200, 100            /* rate 100 and weight decay 1 multiply weights by -99 */
#define USUAL 50, 0.05f, RESIDENT_YES /* epochs of 13 steps; with .stop, a call trains one step */
  static const struct {
    int rows;
    float rate;
    Residency resident;
    Run run;
    int trains, evaluations;
    const char *says;
  } cases[] = {{USUAL, {.refused = 1}, 0, 0, "no memory for"},
               {USUAL, {.fail = 2}, 2, 2, "failed by the test"},
               {DIVERGES, RESIDENT_YES, {.patience = -1}, 1, 0, IN_STEPS("1 to 2048 of epoch 1")},
               {DIVERGES, RESIDENT_NO, {.patience = 1000}, 2, 0, IN_STEPS("1 to 2050 of epoch 1")},
               {USUAL, {.bad_train = 1}, 1, 0, IN_STEPS("1 to 13 of epoch 1")},
               {USUAL, {.bad_train = 21, .stop = 1000}, 21, 2, IN_STEPS("7 to 7 of epoch 3")},
               {USUAL, {.bad_test = 2}, 2, 2, "the test" LOSS "after epoch 2" ADVICE}};
  foreach (c, cases) {
    write_files(c->rows, 20);
    TrainerConfig config = tiny_run(4, c->resident);
    tiny.schedule.rate = c->rate;
    tiny.rule.weight_decay = c->rate > 1 ? 1 : 0;
    must_fail(&config, c->run, c->says);
    assert_int_equal(spy.opened, 1);
    assert_int_equal(spy.trains, c->trains);
    assert_int_equal(spy.evaluations, c->evaluations);
  }
}

/* ---- runs that stop and go on ------------------------------------------------------------ */

/* `rest` must equal `whole` after `before` epochs. Only the training loss may round differently. */
static void assert_same_epochs(const Run *whole, const Run *rest, int before) {
  assert_int_equal(rest->epochs, whole->epochs - before);
  for (int i = 0; i < rest->epochs; i++) {
    const EpochResult *a = &whole->epoch[before + i], *b = &rest->epoch[i];
    assert_close(a->train_loss, b->train_loss, 1e-12 * a->train_loss);
    assert_true(a->train_accuracy == b->train_accuracy);
    assert_true(a->test_loss == b->test_loss);
    assert_true(a->test_accuracy == b->test_accuracy);
    assert_true(a->learning_rate == b->learning_rate);
    assert_int_equal(a->train_rows, b->train_rows);
  }
}

/* Stops a run at each call of the stop event in turn, and continues the run. Returns the number of
   stops in the middle of an epoch. Sets *first to the number of those stops in the first epoch. */
static int stop_everywhere(const TrainerConfig *config, int *first) {
  RUN whole = must_train(config);
  int within = 0;
  *first = 0;
  for (int stop = 1;; stop++) {
    RUN part = must_run(config, (Run){.stop = stop});
    if (part.stop_calls < stop) { /* the run ended before this stop */
      assert_same_weights(&part, &whole);
      return within;
    }
    assert_int_equal(part.saved.epoch, part.epochs);
    assert_int_equal(part.saved.rows, part.saved.step * BATCH);
    within += part.saved.step > 0;
    *first += part.saved.step > 0 && part.saved.epoch == 0;
    RUN rest = must_run(config, (Run){.from = &part.saved});
    assert_same_weights(&rest, &whole);
    assert_same_epochs(&whole, &rest, part.epochs);
    for (int i = 0; i < rest.epochs; i++)
      assert_int_equal(rest.epoch[i].rows_before, i == 0 ? part.saved.rows : 0);
    assert_int_equal(rest.saved.epoch, config->training->epochs);
    assert_int_equal(rest.saved.step, 0);
    assert_int_equal(rest.saved.rows, 0);
    assert_int_equal(rest.saved.best_epoch, whole.saved.best_epoch);
    assert_true(rest.saved.best_accuracy == whole.saved.best_accuracy);
  }
}

TEST(a_stopped_run_goes_on_bit_for_bit) {
  static const struct {
    int rows, stops; /* stops: expected number of stops within epoch 1 */
    AugmentStrengths augment;
  } files[] = {{8200, 1, {{0}}}, {8202, 1, {{0}}}, {8203, 1, {{1, 10}}}, {150, 0, {{0}}}};
  foreach (f, files) {
    write_files(f->rows, 20);
    foreach (resident, VALUES(Residency, RESIDENT_YES, RESIDENT_NO)) {
      TrainerConfig config = tiny_run(3, *resident);
      tiny.schedule.kind = SCHEDULE_COSINE;
      tiny.schedule.warmup = 1;
      tiny.rule.weight_decay = 0.001f;
      tiny.augment = f->augment;
      int first;
      const int within = stop_everywhere(&config, &first), stops = f->stops;
      assert_int_equal(first, stops);
      assert_int_equal(within, *resident == RESIDENT_YES ? stops + 2 * 19 : stops * 3);
    }
  }
}
