/* The trainer on tiny files: what it asks of an engine (a spy in front of the CPU engine), which
   rows it uses, and that neither reading, progress nor interruption changes the weights. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/augment.h"
#include "support/folder.h"
#include "base/random.h"
#include "train/trainer.h"

enum { PIXELS = 4, CLASSES = 3, BATCH = 4 }; /* 2 x 2: square, as augmentation wants it */

static const char *train_path, *test_path;
static Error error;

/* ---- files -------------------------------------------------------------------------------- */

/* Rows whose label is their greatest pixel's place; a bad one at `bad_row`, -1: none. */
static void write_csv(const char *path, int rows, int pixels, int bad_row, uint64_t stream) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  for (int row = 0; row < rows; row++) {
    const RandomWords words = random_words(1, stream, (uint64_t)row);
    int label = 0;
    for (int i = 1; i < CLASSES; i++)
      if (words.word[i] % 256 > words.word[label] % 256) label = i;
    fprintf(file, "%d", row == bad_row ? CLASSES : label);
    for (int i = 0; i < pixels; i++) fprintf(file, ",%" PRIu32, words.word[i] % 256);
    fputc('\n', file);
  }
  assert_int_equal(fclose(file), 0);
}

static void write_files(int train_rows, int test_rows) {
  write_csv(train_path, train_rows, PIXELS, -1, 1);
  write_csv(test_path, test_rows, PIXELS, -1, 2);
}

static int open_folder(void **state) {
  folder_open(state);
  train_path = folder_path("train.csv");
  test_path = folder_path("test.csv");
  return 0;
}

/* ---- a spy in front of the CPU engine ----------------------------------------------------- */

enum { MOST_CALLS = 100 };

typedef struct {
  Engine engine; /* what the trainer sees */
  Engine *cpu;
  int opened, refused, closed; /* opened: tries; refused: how many of them are to fail */
  int trains, evaluations;     /* calls */
  int bad_train, bad_test;     /* the call whose loss is NaN, from 1; 0: none */
  TrainRange train[MOST_CALLS];
  int judged; /* evaluations whose sums were collected */
  struct {
    uint64_t first_row, rows;
  } evaluation[MOST_CALLS];
} Spy;

static Spy spy;

static bool spy_staging(Engine *engine, int buffer, StagingBuffer *out, Error *e) {
  (void)engine;
  return spy.cpu->call->staging(spy.cpu, buffer, out, e);
}

static bool spy_upload(Engine *engine, int buffer, uint64_t first_row, uint64_t rows, Error *e) {
  (void)engine;
  return spy.cpu->call->upload(spy.cpu, buffer, first_row, rows, e);
}

static bool spy_train(Engine *engine, const TrainRange *range, Error *e) {
  (void)engine;
  assert_true(spy.trains < MOST_CALLS);
  spy.train[spy.trains++] = *range;
  return spy.cpu->call->train(spy.cpu, range, e);
}

static bool spy_evaluate(Engine *engine, uint64_t first_row, uint64_t rows, Error *e) {
  (void)engine;
  assert_true(spy.evaluations < MOST_CALLS);
  spy.evaluation[spy.evaluations].first_row = first_row;
  spy.evaluation[spy.evaluations++].rows = rows;
  return spy.cpu->call->evaluate(spy.cpu, first_row, rows, e);
}

static bool spy_collect(Engine *engine, EngineSums *sums, Error *e) {
  (void)engine;
  if (!spy.cpu->call->collect(spy.cpu, sums, e)) return false;
  const bool is_test = spy.evaluations > spy.judged;
  const int calls = is_test ? spy.evaluations : spy.trains;
  if (calls == (is_test ? spy.bad_test : spy.bad_train)) sums->loss = NAN;
  spy.judged = spy.evaluations;
  return true;
}

static bool spy_read(Engine *engine, float *parameters, float *momentum, Error *e) {
  (void)engine;
  return spy.cpu->call->read(spy.cpu, parameters, momentum, e);
}

static bool spy_write(Engine *engine, const float *parameters, const float *momentum, Error *e) {
  (void)engine;
  return spy.cpu->call->write(spy.cpu, parameters, momentum, e);
}

static void spy_close(Engine *engine) {
  (void)engine;
  spy.cpu->call->close(spy.cpu);
  spy.closed++;
}

static Engine *open_spy(void *context, const EngineConfig *config, Error *e) {
  static const EngineOperations operations = {.staging = spy_staging,
                                              .upload = spy_upload,
                                              .train = spy_train,
                                              .evaluate = spy_evaluate,
                                              .collect = spy_collect,
                                              .read = spy_read,
                                              .write = spy_write,
                                              .close = spy_close};
  (void)context;
  if (spy.opened++ < spy.refused) {
    error_set(e, "no memory for %" PRIu64 " rows", config->dataset_rows);
    return NULL;
  }
  spy.cpu = engine_cpu_open(config, e);
  if (!spy.cpu) return NULL;
  spy.engine = *spy.cpu;
  spy.engine.call = &operations;
  return &spy.engine;
}

/* ---- a run -------------------------------------------------------------------------------- */

enum { MOST_EPOCHS = 8 };

typedef struct {
  /* wishes */
  bool shows_progress;
  double patience;
  int fail;    /* the epoch whose event fails, 0: none */
  int stop;    /* the question that is answered by an end, from 1; 0: none, and nobody asks */
  int refused; /* engines */
  int bad_train, bad_test; /* as of Spy */
  const Checkpoint *from;
  /* what happened */
  EpochResult epoch[MOST_EPOCHS];
  int epochs;   /* that were told */
  int progress; /* calls in all */
  int progress_epoch;
  double done; /* the last call's */
  int asked;   /* whether to stop */
  Checkpoint saved;
  bool resident;
} Run;

static bool on_epoch(void *context, const EpochResult *result, Error *e) {
  Run *run = context;
  assert_true(run->epochs < MOST_EPOCHS);
  run->epoch[run->epochs++] = *result;
  assert_int_equal(result->epoch, run->epochs + (run->from ? run->from->epoch : 0));
  return result->epoch != run->fail || error_set(e, "failed by the test");
}

static bool on_stop(void *context) {
  Run *run = context;
  return ++run->asked == run->stop;
}

static void on_progress(void *context, int epoch, int epochs, double done) {
  Run *run = context;
  assert_in_range(epoch, 1, epochs);
  assert_true(done >= 0 && done <= 1);
  if (epoch == run->progress_epoch) assert_true(done >= run->done);
  run->progress_epoch = epoch;
  run->done = done;
  run->progress++;
}

static TrainerConfig tiny_run(int epochs, Residency resident) {
  return (TrainerConfig){
      .train = train_path,
      .test = test_path,
      .hidden = {1, {5}},
      .classes = CLASSES,
      .epochs = epochs,
      .batch = BATCH,
      .schedule = {SCHEDULE_STEP, 0.05f, 0.8f, epochs, 0},
      .momentum = 0.9f,
      .seed = 1,
      .resident = resident,
      .threads = 1, /* more would wait for each other longer than they work */
  };
}

/* Trains as *run wishes and adds what happened. Free run->saved. */
static bool train(const TrainerConfig *config, Run *run) {
  spy = (Spy){.refused = run->refused, .bad_train = run->bad_train, .bad_test = run->bad_test};
  error.text[0] = '\0';
  TrainerConfig continued = *config;
  continued.from = run->from;
  continued.from_name = "old.safetensors";
  Trainer *trainer = trainer_open(&continued, open_spy, NULL, &error);
  if (!trainer) return false;
  const TrainerEvents events = {.epoch = on_epoch,
                                .progress = run->shows_progress ? on_progress : NULL,
                                .stop = run->stop ? on_stop : NULL,
                                .patience = run->patience,
                                .context = run};
  RunTotals totals;
  const bool trained = trainer_run(trainer, &events, &totals, &error);
  if (trained && run->epochs) assert_true(totals.load > 0 && totals.train > 0 && totals.test > 0);
  run->resident = trainer_is_resident(trainer);
  assert_ptr_equal(trainer_engine(trainer), &spy.engine);
  assert_true(trainer_checkpoint(trainer, &run->saved, &error));
  assert_int_equal(trainer_position(trainer)->interrupted,
                   run->stop > 0 && run->asked == run->stop);
  trainer_close(trainer);
  assert_int_equal(spy.closed, 1);
  return trained;
}

static Run must_train(const TrainerConfig *config, bool shows_progress) {
  Run run = {.shows_progress = shows_progress};
  if (!train(config, &run)) fail_msg("%s", error.text);
  assert_int_equal(run.epochs, config->epochs);
  return run;
}

static void must_fail(const TrainerConfig *config, Run run, const char *says) {
  if (train(config, &run)) fail_msg("no failure that says \"%s\"", says);
  checkpoint_free(&run.saved);
  if (!strstr(error.text, says)) fail_msg("\"%s\" does not say \"%s\"", error.text, says);
}

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
  const size_t bytes = a->saved.network.floats * sizeof(float);
  assert_memory_equal(a->saved.parameters, b->saved.parameters, bytes);
  assert_memory_equal(a->saved.momentum, b->saved.momentum, bytes);
}

static void assert_range(const TrainRange *range, uint64_t first_row, uint64_t rows,
                         uint64_t first_step, uint64_t steps) {
  assert_int_equal(range->first_row, first_row);
  assert_int_equal(range->rows, rows);
  assert_int_equal(range->first_step, first_step);
  assert_int_equal(range->steps, steps);
}

/* ---- tests -------------------------------------------------------------------------------- */

static void every_row_counts_however_few(void **state) {
  (void)state;
  static const int sizes[][2] = {{1, 1}, {3, 2}, {BATCH, 1}, {BATCH + 1, 7}, {23, 9}};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    for (int resident = RESIDENT_AUTO; resident <= RESIDENT_NO; resident++) {
      write_files(sizes[i][0], sizes[i][1]);
      const TrainerConfig config = tiny_run(3, resident);
      Run run = must_train(&config, false);
      assert_rows(&run, (uint64_t)sizes[i][0], (uint64_t)sizes[i][1]);
      assert_int_equal(run.resident, resident != RESIDENT_NO);
      checkpoint_free(&run.saved);
    }
}

static void resident_asks_for_one_shuffled_call_an_epoch(void **state) {
  (void)state;
  write_files(20000, 100);
  TrainerConfig config = tiny_run(3, RESIDENT_YES);
  config.batch = 3000; /* buffers of 6000 */
  Run run = must_train(&config, false);
  assert_rows(&run, 20000, 100);
  assert_int_equal(spy.trains, 6);
  for (int buffer = 0; buffer < 4; buffer++) {
    assert_range(&spy.train[buffer], (uint64_t)buffer * 6000, buffer < 3 ? 6000 : 2000, 0,
                 buffer < 3 ? 2 : 1);
    assert_false(spy.train[buffer].shuffled);
  }
  for (int epoch = 1; epoch < 3; epoch++) {
    const TrainRange *range = &spy.train[3 + epoch];
    assert_range(range, 0, 20000, 0, 7);
    assert_true(range->shuffled);
    assert_true(range->key == random_order_key(config.seed, (uint64_t)epoch));
  }
  assert_int_equal(spy.evaluations, 3);
  for (int epoch = 0; epoch < 3; epoch++) {
    assert_int_equal(spy.evaluation[epoch].first_row, 20000);
    assert_int_equal(spy.evaluation[epoch].rows, 100);
  }
  checkpoint_free(&run.saved);
}

static void streaming_shuffles_each_slot_by_its_own_key(void **state) {
  (void)state;
  write_files(20000, 7000);
  TrainerConfig config = tiny_run(3, RESIDENT_NO);
  config.batch = 3000;
  Run run = must_train(&config, false);
  assert_rows(&run, 20000, 7000);
  assert_int_equal(spy.engine.config.dataset_rows, 12000);
  assert_int_equal(spy.trains, 12);
  for (int call = 0; call < 12; call++) {
    const TrainRange *range = &spy.train[call];
    assert_range(range, call % 2 ? 6000 : 0, call % 4 < 3 ? 6000 : 2000, 0, call % 4 < 3 ? 2 : 1);
    assert_int_equal(range->shuffled, call >= 4);
    for (int other = 4; other < call; other++) assert_true(range->key != spy.train[other].key);
  }
  assert_int_equal(spy.evaluations, 6);
  for (int call = 0; call < 6; call++) {
    assert_int_equal(spy.evaluation[call].first_row, call % 2 ? 6000 : 0);
    assert_int_equal(spy.evaluation[call].rows, call % 2 ? 1000 : 6000);
  }
  checkpoint_free(&run.saved);
}

/* Factors worked out by hand: a schedule over four epochs and a warm-up of two. */
static void the_learning_rate_follows_its_schedule(void **state) {
  (void)state;
  enum { EPOCHS = 4, WARMUP = 2 };
  static const double warm[EPOCHS] = {1.0 / 3, 2.0 / 3, 1, 1};
  static const struct {
    LrScheduleKind kind;
    double factor[EPOCHS];
  } schedules[] = {
      {SCHEDULE_STEP, {1, 0.25, 0.0625, 0.015625}},
      {SCHEDULE_CONSTANT, {1, 1, 1, 1}},
      {SCHEDULE_COSINE, {1, 0.85355339059327, 0.5, 0.14644660940673}},
      {SCHEDULE_LINEAR, {1, 0.75, 0.5, 0.25}},
  };
  write_files(5, 5);
  for (size_t i = 0; i < sizeof schedules / sizeof schedules[0]; i++)
    for (int warmup = 0; warmup <= WARMUP; warmup += WARMUP) {
      TrainerConfig config = tiny_run(EPOCHS, RESIDENT_YES);
      config.schedule.rate = 0.5f;
      config.schedule.decay = 0.25f;
      config.schedule.kind = schedules[i].kind;
      config.schedule.warmup = warmup;
      Run run = must_train(&config, false);
      assert_int_equal(spy.trains, EPOCHS);
      for (int epoch = 0; epoch < EPOCHS; epoch++) {
        const double factor = schedules[i].factor[epoch] * (warmup ? warm[epoch] : 1);
        assert_true(fabs((double)spy.train[epoch].learning_rate - 0.5 * factor) < 1e-7);
        assert_true(run.epoch[epoch].learning_rate == (double)spy.train[epoch].learning_rate);
      }
      checkpoint_free(&run.saved);
    }
}

/* The parts of an epoch have one key, which no other epoch has, nor any other buffer. */
static void distortions_have_a_key_an_epoch(void **state) {
  (void)state;
  write_files(9000, 20); /* two buffers */
  for (int resident = RESIDENT_YES; resident <= RESIDENT_NO; resident++) {
    TrainerConfig config = tiny_run(3, resident);
    config.augment = AUGMENT_SHIFT | AUGMENT_SCALE;
    Run run = must_train(&config, true);
    assert_int_equal(spy.trains, resident == RESIDENT_YES ? 2 + 2 * 20 : 3 * 2);
    for (int call = 0; call < spy.trains; call++) {
      const TrainRange *range = &spy.train[call];
      assert_int_equal(range->augment, AUGMENT_SHIFT | AUGMENT_SCALE);
      assert_true(range->augment_key != range->key);
      for (int other = 0; other < call; other++) {
        const TrainRange *before = &spy.train[other];
        const bool same = resident == RESIDENT_YES && call >= 2 &&
                          (call - 2) / 20 == (other - 2) / 20 && other >= 2;
        assert_int_equal(range->augment_key == before->augment_key, same);
        assert_int_equal(range->key == before->key, same);
      }
    }
    checkpoint_free(&run.saved);
    config.augment = 0;
    run = must_train(&config, false);
    for (int call = 0; call < spy.trains; call++) assert_int_equal(spy.train[call].augment, 0);
    checkpoint_free(&run.saved);
  }
}

static void two_runs_agree_bit_for_bit(void **state) {
  (void)state;
  write_files(203, 20);
  for (int resident = RESIDENT_YES; resident <= RESIDENT_NO; resident++) {
    TrainerConfig config = tiny_run(4, resident);
    Run first = must_train(&config, false), second = must_train(&config, false);
    assert_same_weights(&first, &second);
    assert_true(first.epoch[3].test_loss == second.epoch[3].test_loss);
    config.seed = 2;
    Run other = must_train(&config, false);
    assert_memory_not_equal(first.saved.parameters, other.saved.parameters,
                            first.saved.network.floats * sizeof(float));
    checkpoint_free(&first.saved);
    checkpoint_free(&second.saved);
    checkpoint_free(&other.saved);
  }
}

static void the_first_epoch_is_the_same_streamed(void **state) {
  (void)state;
  write_files(9000, 20); /* two buffers */
  const TrainerConfig resident = tiny_run(1, RESIDENT_YES), streamed = tiny_run(1, RESIDENT_NO);
  Run a = must_train(&resident, false), b = must_train(&streamed, false);
  assert_same_weights(&a, &b);
  assert_true(a.epoch[0].test_loss == b.epoch[0].test_loss);
  checkpoint_free(&a.saved);
  checkpoint_free(&b.saved);
}

static void it_learns(void **state) {
  (void)state;
  write_files(3000, 1000);
  for (int resident = RESIDENT_YES; resident <= RESIDENT_NO; resident++) {
    const TrainerConfig config = tiny_run(8, resident);
    Run run = must_train(&config, false);
    assert_true(run.epoch[7].test_accuracy > 0.95);
    assert_true(run.epoch[7].test_loss < 0.5 * run.epoch[0].train_loss);
    checkpoint_free(&run.saved);
  }
}

static void progress_changes_no_bit(void **state) {
  (void)state;
  write_files(203, 20); /* 51 steps: 20 parts of 2 or 3 */
  const TrainerConfig config = tiny_run(3, RESIDENT_YES);
  Run plain = must_train(&config, false), shown = must_train(&config, true);
  assert_rows(&shown, 203, 20);
  assert_same_weights(&plain, &shown);
  assert_int_equal(spy.trains, 1 + 2 * 20);
  assert_int_equal(shown.progress, 1 + 2 * 20);
  assert_true(shown.done == 1);
  assert_true(shown.epoch[2].train_accuracy == plain.epoch[2].train_accuracy);
  checkpoint_free(&plain.saved);
  checkpoint_free(&shown.saved);
}

static void progress_of_fewer_steps_than_parts(void **state) {
  (void)state;
  write_files(9, 2); /* three steps */
  const TrainerConfig config = tiny_run(3, RESIDENT_YES);
  Run run = must_train(&config, true);
  assert_rows(&run, 9, 2);
  assert_int_equal(spy.trains, 1 + 2 * 3);
  checkpoint_free(&run.saved);
}

static void a_short_epoch_is_trained_in_one_call(void **state) {
  (void)state;
  write_files(203, 20);
  const TrainerConfig config = tiny_run(3, RESIDENT_YES);
  Run run = {.shows_progress = true, .patience = 1000};
  assert_true(train(&config, &run));
  assert_int_equal(spy.trains, 3);
  assert_int_equal(run.progress, 1); /* the file's only buffer */
  checkpoint_free(&run.saved);
}

/* ---- stopping and going on ---------------------------------------------------------------- */

/* What later epochs say is said again, the training loss but for the rounding of its sum. */
static void assert_same_epochs(const Run *whole, const Run *rest, int before) {
  assert_int_equal(rest->epochs, whole->epochs - before);
  for (int i = 0; i < rest->epochs; i++) {
    const EpochResult *a = &whole->epoch[before + i], *b = &rest->epoch[i];
    assert_true(fabs(a->train_loss - b->train_loss) <= 1e-12 * a->train_loss);
    assert_true(a->train_accuracy == b->train_accuracy);
    assert_true(a->test_loss == b->test_loss);
    assert_true(a->test_accuracy == b->test_accuracy);
    assert_true(a->learning_rate == b->learning_rate);
    assert_int_equal(a->train_rows, b->train_rows);
  }
}

/* Stops a run wherever it asks whether to stop, and goes on. Returns how often it stopped in the
   middle of an epoch, of which `first` are to be of the first. */
static int stop_everywhere(const TrainerConfig *config, int *first) {
  Run whole = must_train(config, false);
  int within = 0;
  *first = 0;
  for (int stop = 1;; stop++) {
    Run part = {.stop = stop};
    assert_true(train(config, &part));
    if (part.asked < stop) { /* it came to its end */
      assert_same_weights(&part, &whole);
      checkpoint_free(&part.saved);
      checkpoint_free(&whole.saved);
      return within;
    }
    assert_int_equal(part.saved.epoch, part.epochs);
    assert_int_equal(part.saved.rows, part.saved.step * BATCH);
    within += part.saved.step > 0;
    *first += part.saved.step > 0 && part.saved.epoch == 0;
    Run rest = {.from = &part.saved};
    if (!train(config, &rest)) fail_msg("%s", error.text);
    assert_same_weights(&rest, &whole);
    assert_same_epochs(&whole, &rest, part.epochs);
    assert_int_equal(rest.saved.epoch, config->epochs);
    assert_int_equal(rest.saved.step, 0);
    assert_int_equal(rest.saved.rows, 0);
    assert_int_equal(rest.saved.best_epoch, whole.saved.best_epoch);
    assert_true(rest.saved.best_accuracy == whole.saved.best_accuracy);
    checkpoint_free(&rest.saved);
    checkpoint_free(&part.saved);
  }
}

static void a_stopped_run_goes_on_bit_for_bit(void **state) {
  (void)state;
  static const struct {
    int rows, stops; /* in an epoch that is read: at the end of a buffer, but no short step */
    unsigned augment;
  } files[] = {{8200, 2, 0}, {8202, 1, 0}, {8203, 1, AUGMENT_SHIFT | AUGMENT_ROTATE}, {150, 0, 0}};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    write_files(files[i].rows, 20);
    for (int resident = RESIDENT_YES; resident <= RESIDENT_NO; resident++) {
      TrainerConfig config = tiny_run(3, resident);
      config.schedule.kind = SCHEDULE_COSINE;
      config.schedule.warmup = 1;
      config.weight_decay = 0.001f;
      config.augment = files[i].augment;
      int first;
      const int within = stop_everywhere(&config, &first), stops = files[i].stops;
      assert_int_equal(first, stops);
      assert_int_equal(within, resident == RESIDENT_YES ? stops + 2 * 19 : stops * 3);
    }
  }
}

/* Then its rows come in another order: all of them are trained all the same. */
static void a_stopped_run_may_go_on_with_other_residency(void **state) {
  (void)state;
  static const struct {
    int rows, stop, resident; /* until the stop */
  } runs[] = {
      {8202, 5, RESIDENT_YES}, /* in the first buffer that is streamed then */
      {8200, 5, RESIDENT_NO},  /* behind the second epoch's last step */
  };
  for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
    write_files(runs[i].rows, 20);
    const int other = runs[i].resident == RESIDENT_YES ? RESIDENT_NO : RESIDENT_YES;
    TrainerConfig config = tiny_run(3, runs[i].resident);
    Run part = {.stop = runs[i].stop};
    assert_true(train(&config, &part));
    assert_int_equal(part.saved.epoch, 1);
    assert_in_range(part.saved.step, 1, runs[i].rows / BATCH);
    config.resident = other;
    Run rest = {.from = &part.saved};
    assert_true(train(&config, &rest));
    assert_int_equal(rest.epochs, 2);
    for (int epoch = 0; epoch < 2; epoch++)
      assert_int_equal(rest.epoch[epoch].train_rows, runs[i].rows);
    if (other == RESIDENT_NO) assert_int_equal(spy.train[0].first_step, part.saved.step);
    checkpoint_free(&rest.saved);
    checkpoint_free(&part.saved);
  }
}

/* Nobody knows how long the epochs of a run that goes on take: its first is trained in parts. */
static void a_run_that_goes_on_is_patient_once_it_knows(void **state) {
  (void)state;
  write_files(203, 20);
  const TrainerConfig short_run = tiny_run(1, RESIDENT_YES), config = tiny_run(3, RESIDENT_YES);
  Run part = must_train(&short_run, false);
  Run rest = {.from = &part.saved, .stop = 1000, .patience = 1000};
  assert_true(train(&config, &rest));
  assert_int_equal(spy.trains, 20 + 1);
  assert_int_equal(rest.asked, 19 + 1); /* not after the last epoch: that is the end */
  checkpoint_free(&rest.saved);
  checkpoint_free(&part.saved);
}

static void a_run_of_another_kind_is_refused(void **state) {
  (void)state;
  write_files(8200, 20);
  TrainerConfig config = tiny_run(2, RESIDENT_YES);
  Run part = {.stop = 1};
  assert_true(train(&config, &part));
  config.batch = 2 * BATCH;
  must_fail(&config, (Run){.from = &part.saved},
            "old.safetensors was interrupted in the middle of an epoch: continue with its --batch");
  config.batch = BATCH;
  config.hidden.size[0]++;
  must_fail(&config, (Run){.from = &part.saved}, "old.safetensors holds a network of ");
  config.hidden = (HiddenSizes){2, {5, 5}};
  must_fail(&config, (Run){.from = &part.saved}, "ask for one of ");
  checkpoint_free(&part.saved);
}

/* The best epoch may be one of before the run went on. */
static void it_stops_early_also_when_it_goes_on(void **state) {
  (void)state;
  write_files(50, 20);
  TrainerConfig config = tiny_run(MOST_EPOCHS, RESIDENT_YES);
  config.schedule.rate = 0; /* the first epoch is the best, as are all */
  config.early_stop = 3;
  Run run = {0};
  assert_true(train(&config, &run));
  assert_int_equal(run.saved.epoch, 4);
  assert_int_equal(run.saved.best_epoch, 1);
  checkpoint_free(&run.saved);
  config.epochs = 2;
  run = must_train(&config, false);
  config.epochs = MOST_EPOCHS;
  Run rest = {.from = &run.saved};
  assert_true(train(&config, &rest));
  assert_int_equal(rest.saved.epoch, 4);
  checkpoint_free(&rest.saved);
  checkpoint_free(&run.saved);
}

static void auto_streams_when_the_store_does_not_fit(void **state) {
  (void)state;
  write_files(50, 20);
  TrainerConfig config = tiny_run(2, RESIDENT_AUTO);
  Run run = {.refused = 1};
  if (!train(&config, &run)) fail_msg("%s", error.text);
  assert_false(run.resident);
  assert_int_equal(spy.opened, 2);
  assert_rows(&run, 50, 20);
  checkpoint_free(&run.saved);
  config.resident = RESIDENT_YES;
  must_fail(&config, (Run){.refused = 1}, "no memory for");
  assert_int_equal(spy.opened, 1);
}

static void failures_stop_the_run(void **state) {
  (void)state;
  write_files(50, 20);
  TrainerConfig config = tiny_run(3, RESIDENT_YES);
  must_fail(&config, (Run){.fail = 2}, "failed by the test");
  assert_int_equal(spy.evaluations, 2);
  config.schedule.rate = 100;
  config.weight_decay = 1; /* a step multiplies a weight by -99 */
  config.epochs = MOST_EPOCHS;
  must_fail(&config, (Run){0}, "the training loss is no finite number");
  config = tiny_run(1, RESIDENT_YES);
  config.hidden.size[0] = 0;
  must_fail(&config, (Run){0}, "hidden layer's size");
}

/* Whoever is patient waits for the end of the file, others for that of a buffer. */
static void a_loss_that_is_not_finite_is_soon_seen(void **state) {
  (void)state;
  write_files(8200, 20);
  for (int resident = RESIDENT_YES; resident <= RESIDENT_NO; resident++) {
    TrainerConfig config = tiny_run(2, resident);
    config.schedule.rate = 100;
    config.weight_decay = 1;
    must_fail(&config, (Run){.patience = -1}, "in steps 1 to 2048 of epoch 1");
    assert_int_equal(spy.trains, 1);
    must_fail(&config, (Run){.patience = 1000}, "in steps 1 to 2050 of epoch 1");
    assert_int_equal(spy.trains, 2);
    assert_int_equal(spy.evaluations, 0);
  }
}

/* The run ends behind the part of the epoch in which it happened, and names it. */
static void a_loss_that_is_no_number_stops_the_run_at_once(void **state) {
  (void)state;
  write_files(50, 20); /* 13 steps */
  TrainerConfig config = tiny_run(4, RESIDENT_YES);
  must_fail(&config, (Run){.bad_train = 1},
            "the training loss is no finite number in steps 1 to 13 of epoch 1: try a lower --lr");
  assert_int_equal(spy.trains, 1);
  must_fail(&config, (Run){.bad_train = 1 + 13 + 7, .shows_progress = true},
            "the training loss is no finite number in steps 7 to 7 of epoch 3: try a lower --lr");
  assert_int_equal(spy.trains, 1 + 13 + 7);
  assert_int_equal(spy.evaluations, 2);
  must_fail(&config, (Run){.bad_train = 3, .patience = 1000},
            "the training loss is no finite number in steps 1 to 13 of epoch 3: try a lower --lr");
  assert_int_equal(spy.trains, 3);
  must_fail(&config, (Run){.bad_test = 2},
            "the test loss is no finite number after epoch 2: try a lower --lr");
  assert_int_equal(spy.trains, 2);
}

static void bad_files_are_named(void **state) {
  (void)state;
  for (int resident = RESIDENT_YES; resident <= RESIDENT_NO; resident++) {
    const TrainerConfig config = tiny_run(2, resident);
    write_files(9000, 20);
    write_csv(train_path, 9000, PIXELS, 8999, 1);
    must_fail(&config, (Run){0}, "train.csv, line 9000");
    write_files(50, 20);
    write_csv(test_path, 20, PIXELS, 19, 1);
    must_fail(&config, (Run){0}, "test.csv, line 20");
    write_csv(test_path, 20, PIXELS - 1, -1, 1);
    must_fail(&config, (Run){0}, "test.csv has 3 pixels a row but");
    unlink(test_path);
    must_fail(&config, (Run){0}, "test.csv");
    assert_int_equal(spy.opened, 0); /* before an engine was opened */
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_row_counts_however_few),
      cmocka_unit_test(resident_asks_for_one_shuffled_call_an_epoch),
      cmocka_unit_test(streaming_shuffles_each_slot_by_its_own_key),
      cmocka_unit_test(the_learning_rate_follows_its_schedule),
      cmocka_unit_test(distortions_have_a_key_an_epoch),
      cmocka_unit_test(two_runs_agree_bit_for_bit),
      cmocka_unit_test(the_first_epoch_is_the_same_streamed),
      cmocka_unit_test(it_learns),
      cmocka_unit_test(progress_changes_no_bit),
      cmocka_unit_test(progress_of_fewer_steps_than_parts),
      cmocka_unit_test(a_short_epoch_is_trained_in_one_call),
      cmocka_unit_test(a_stopped_run_goes_on_bit_for_bit),
      cmocka_unit_test(a_stopped_run_may_go_on_with_other_residency),
      cmocka_unit_test(a_run_that_goes_on_is_patient_once_it_knows),
      cmocka_unit_test(a_run_of_another_kind_is_refused),
      cmocka_unit_test(it_stops_early_also_when_it_goes_on),
      cmocka_unit_test(auto_streams_when_the_store_does_not_fit),
      cmocka_unit_test(failures_stop_the_run),
      cmocka_unit_test(a_loss_that_is_no_number_stops_the_run_at_once),
      cmocka_unit_test(a_loss_that_is_not_finite_is_soon_seen),
      cmocka_unit_test(bad_files_are_named),
  };
  return cmocka_run_group_tests_name("trainer", tests, open_folder, folder_close);
}
