/* The trainer on tiny files: what it asks of an engine (a spy in front of the CPU engine), which
   rows it uses, and that neither reading nor progress changes the weights. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "process.h"
#include "random.h"
#include "trainer.h"

enum { PIXELS = 3, CLASSES = 3, BATCH = 4 };

static char *folder, train_path[OPTIONS_PATH], test_path[OPTIONS_PATH];
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

static int make_folder(void **state) {
  (void)state;
  folder = process_folder();
  snprintf(train_path, sizeof train_path, "%s/train.csv", folder);
  snprintf(test_path, sizeof test_path, "%s/test.csv", folder);
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  process_folder_remove(folder);
  return 0;
}

/* ---- a spy in front of the CPU engine ----------------------------------------------------- */

enum { MOST_CALLS = 100 };

typedef struct {
  Engine engine; /* what the trainer sees */
  Engine *cpu;
  int opened, refused, closed; /* opened: tries; refused: how many of them are to fail */
  int trains, evaluations;     /* calls */
  TrainRange train[MOST_CALLS];
  struct {
    uint64_t first_row, rows;
  } evaluation[MOST_CALLS];
} Spy;

static Spy spy;

static bool spy_slot(Engine *engine, int slot, EngineSlot *out, Error *e) {
  (void)engine;
  return spy.cpu->call->slot(spy.cpu, slot, out, e);
}

static bool spy_upload(Engine *engine, int slot, uint64_t first_row, uint64_t rows, Error *e) {
  (void)engine;
  return spy.cpu->call->upload(spy.cpu, slot, first_row, rows, e);
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
  return spy.cpu->call->collect(spy.cpu, sums, e);
}

static void spy_close(Engine *engine) {
  (void)engine;
  spy.cpu->call->close(spy.cpu);
  spy.closed++;
}

static Engine *open_spy(void *context, const EngineConfig *config, Error *e) {
  static const EngineOperations operations = {.slot = spy_slot,
                                              .upload = spy_upload,
                                              .train = spy_train,
                                              .evaluate = spy_evaluate,
                                              .collect = spy_collect,
                                              .close = spy_close};
  (void)context;
  if (spy.opened++ < spy.refused) {
    error_set(e, "no memory for %" PRIu64 " rows", config->store_rows);
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
  int stop;    /* the epoch whose event fails, 0: none */
  int refused; /* engines */
  /* what happened */
  EpochResult epoch[MOST_EPOCHS];
  int epochs;   /* that were told */
  int progress; /* calls in all */
  int progress_epoch;
  double done; /* the last call's */
  float *parameters;
  bool resident;
} Run;

static bool on_epoch(void *context, const EpochResult *result, Error *e) {
  Run *run = context;
  assert_true(run->epochs < MOST_EPOCHS);
  run->epoch[run->epochs++] = *result;
  assert_int_equal(result->epoch, run->epochs);
  return result->epoch != run->stop || error_set(e, "stopped by the test");
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

static Options tiny_options(int epochs, int resident) {
  Options options;
  options_default(&options);
  options.hidden = (OptionSizes){1, {5}};
  options.classes = CLASSES;
  options.batch = BATCH;
  options.epochs = epochs;
  options.resident = resident;
  options.threads = 1; /* more would wait for each other longer than they work */
  strcpy(options.train, train_path);
  strcpy(options.test, test_path);
  return options;
}

/* Trains as *run wishes and adds what happened. Free run->parameters. */
static bool train(const Options *options, Run *run) {
  spy = (Spy){.refused = run->refused};
  error.text[0] = '\0';
  Trainer *trainer = trainer_open(options, open_spy, NULL, &error);
  if (!trainer) return false;
  const TrainerEvents events = {.epoch = on_epoch,
                                .progress = run->shows_progress ? on_progress : NULL,
                                .patience = run->patience,
                                .context = run};
  ReportTotals totals;
  const bool trained = trainer_run(trainer, &events, &totals, &error);
  if (trained) assert_true(totals.load > 0 && totals.train > 0 && totals.test > 0);
  run->resident = trainer_is_resident(trainer);
  assert_ptr_equal(trainer_engine(trainer), &spy.engine);
  const size_t floats = spy.cpu->config.network.floats;
  run->parameters = malloc(floats * sizeof(float));
  assert_true(spy.cpu->call->read(spy.cpu, run->parameters, NULL, &error));
  trainer_close(trainer);
  assert_int_equal(spy.closed, 1);
  return trained;
}

static Run must_train(const Options *options, bool shows_progress) {
  Run run = {.shows_progress = shows_progress};
  if (!train(options, &run)) fail_msg("%s", error.text);
  assert_int_equal(run.epochs, options->epochs);
  return run;
}

static void must_fail(const Options *options, Run run, const char *says) {
  if (train(options, &run)) fail_msg("no failure that says \"%s\"", says);
  free(run.parameters);
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
  assert_memory_equal(a->parameters, b->parameters,
                      spy.engine.config.network.floats * sizeof(float));
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
      const Options options = tiny_options(3, resident);
      const Run run = must_train(&options, false);
      assert_rows(&run, (uint64_t)sizes[i][0], (uint64_t)sizes[i][1]);
      assert_int_equal(run.resident, resident != RESIDENT_NO);
      free(run.parameters);
    }
}

static void resident_asks_for_one_shuffled_call_an_epoch(void **state) {
  (void)state;
  write_files(20000, 100);
  Options options = tiny_options(3, RESIDENT_YES);
  options.batch = 3000; /* slots of 6000 */
  const Run run = must_train(&options, false);
  assert_rows(&run, 20000, 100);
  assert_int_equal(spy.trains, 6);
  for (int slot = 0; slot < 4; slot++) {
    assert_range(&spy.train[slot], (uint64_t)slot * 6000, slot < 3 ? 6000 : 2000, 0,
                 slot < 3 ? 2 : 1);
    assert_false(spy.train[slot].shuffled);
  }
  for (int epoch = 1; epoch < 3; epoch++) {
    const TrainRange *range = &spy.train[3 + epoch];
    assert_range(range, 0, 20000, 0, 7);
    assert_true(range->shuffled);
    assert_true(range->key == random_order_key(options.seed, (uint64_t)epoch));
  }
  assert_int_equal(spy.evaluations, 3);
  for (int epoch = 0; epoch < 3; epoch++) {
    assert_int_equal(spy.evaluation[epoch].first_row, 20000);
    assert_int_equal(spy.evaluation[epoch].rows, 100);
  }
  free(run.parameters);
}

static void streaming_shuffles_each_slot_by_its_own_key(void **state) {
  (void)state;
  write_files(20000, 7000);
  Options options = tiny_options(3, RESIDENT_NO);
  options.batch = 3000;
  const Run run = must_train(&options, false);
  assert_rows(&run, 20000, 7000);
  assert_int_equal(spy.engine.config.store_rows, 12000);
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
  free(run.parameters);
}

static void the_learning_rate_decays_each_epoch(void **state) {
  (void)state;
  write_files(5, 5);
  Options options = tiny_options(3, RESIDENT_YES);
  options.lr = 0.5f;
  options.lr_decay = 0.25f;
  const Run run = must_train(&options, false);
  assert_int_equal(spy.trains, 3);
  assert_true(spy.train[0].learning_rate == 0.5f);
  assert_true(spy.train[1].learning_rate == 0.125f);
  assert_true(spy.train[2].learning_rate == 0.03125f);
  free(run.parameters);
}

static void two_runs_agree_bit_for_bit(void **state) {
  (void)state;
  write_files(203, 20);
  for (int resident = RESIDENT_YES; resident <= RESIDENT_NO; resident++) {
    Options options = tiny_options(4, resident);
    const Run first = must_train(&options, false), second = must_train(&options, false);
    assert_same_weights(&first, &second);
    assert_true(first.epoch[3].test_loss == second.epoch[3].test_loss);
    options.seed = 2;
    const Run other = must_train(&options, false);
    assert_memory_not_equal(first.parameters, other.parameters,
                            spy.engine.config.network.floats * sizeof(float));
    free(first.parameters);
    free(second.parameters);
    free(other.parameters);
  }
}

static void the_first_epoch_is_the_same_streamed(void **state) {
  (void)state;
  write_files(9000, 20); /* two slots */
  const Options resident = tiny_options(1, RESIDENT_YES), streamed = tiny_options(1, RESIDENT_NO);
  const Run a = must_train(&resident, false), b = must_train(&streamed, false);
  assert_same_weights(&a, &b);
  assert_true(a.epoch[0].test_loss == b.epoch[0].test_loss);
  free(a.parameters);
  free(b.parameters);
}

static void it_learns(void **state) {
  (void)state;
  write_files(3000, 1000);
  for (int resident = RESIDENT_YES; resident <= RESIDENT_NO; resident++) {
    const Options options = tiny_options(8, resident);
    const Run run = must_train(&options, false);
    assert_true(run.epoch[7].test_accuracy > 0.95);
    assert_true(run.epoch[7].test_loss < 0.5 * run.epoch[0].train_loss);
    free(run.parameters);
  }
}

static void progress_changes_no_bit(void **state) {
  (void)state;
  write_files(203, 20); /* 51 steps: 20 parts of 2 or 3 */
  const Options options = tiny_options(3, RESIDENT_YES);
  const Run plain = must_train(&options, false), shown = must_train(&options, true);
  assert_rows(&shown, 203, 20);
  assert_same_weights(&plain, &shown);
  assert_int_equal(spy.trains, 1 + 2 * 20);
  assert_int_equal(shown.progress, 1 + 2 * 20);
  assert_true(shown.done == 1);
  assert_true(shown.epoch[2].train_accuracy == plain.epoch[2].train_accuracy);
  free(plain.parameters);
  free(shown.parameters);
}

static void progress_of_fewer_steps_than_parts(void **state) {
  (void)state;
  write_files(9, 2); /* three steps */
  const Options options = tiny_options(3, RESIDENT_YES);
  const Run run = must_train(&options, true);
  assert_rows(&run, 9, 2);
  assert_int_equal(spy.trains, 1 + 2 * 3);
  free(run.parameters);
}

static void a_short_epoch_is_trained_in_one_call(void **state) {
  (void)state;
  write_files(203, 20);
  const Options options = tiny_options(3, RESIDENT_YES);
  Run run = {.shows_progress = true, .patience = 1000};
  assert_true(train(&options, &run));
  assert_int_equal(spy.trains, 3);
  assert_int_equal(run.progress, 1); /* the file's only slot */
  free(run.parameters);
}

static void auto_streams_when_the_store_does_not_fit(void **state) {
  (void)state;
  write_files(50, 20);
  Options options = tiny_options(2, RESIDENT_AUTO);
  Run run = {.refused = 1};
  if (!train(&options, &run)) fail_msg("%s", error.text);
  assert_false(run.resident);
  assert_int_equal(spy.opened, 2);
  assert_rows(&run, 50, 20);
  free(run.parameters);
  options.resident = RESIDENT_YES;
  must_fail(&options, (Run){.refused = 1}, "no memory for");
  assert_int_equal(spy.opened, 1);
}

static void failures_stop_the_run(void **state) {
  (void)state;
  write_files(50, 20);
  Options options = tiny_options(3, RESIDENT_YES);
  must_fail(&options, (Run){.stop = 2}, "stopped by the test");
  assert_int_equal(spy.evaluations, 2);
  options.lr = 100;
  options.weight_decay = 1; /* a step multiplies a weight by -99 */
  options.epochs = MOST_EPOCHS;
  must_fail(&options, (Run){0}, "is no finite number: try a lower --lr");
  options = tiny_options(1, RESIDENT_YES);
  options.hidden.size[0] = 0;
  must_fail(&options, (Run){0}, "hidden layer's size");
}

static void bad_files_are_named(void **state) {
  (void)state;
  for (int resident = RESIDENT_YES; resident <= RESIDENT_NO; resident++) {
    const Options options = tiny_options(2, resident);
    write_files(9000, 20);
    write_csv(train_path, 9000, PIXELS, 8999, 1);
    must_fail(&options, (Run){0}, "train.csv, line 9000");
    write_files(50, 20);
    write_csv(test_path, 20, PIXELS, 19, 1);
    must_fail(&options, (Run){0}, "test.csv, line 20");
    write_csv(test_path, 20, PIXELS - 1, -1, 1);
    must_fail(&options, (Run){0}, "test.csv has 2 pixels a row but");
    unlink(test_path);
    must_fail(&options, (Run){0}, "test.csv");
    assert_int_equal(spy.opened, 0); /* before an engine was opened */
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_row_counts_however_few),
      cmocka_unit_test(resident_asks_for_one_shuffled_call_an_epoch),
      cmocka_unit_test(streaming_shuffles_each_slot_by_its_own_key),
      cmocka_unit_test(the_learning_rate_decays_each_epoch),
      cmocka_unit_test(two_runs_agree_bit_for_bit),
      cmocka_unit_test(the_first_epoch_is_the_same_streamed),
      cmocka_unit_test(it_learns),
      cmocka_unit_test(progress_changes_no_bit),
      cmocka_unit_test(progress_of_fewer_steps_than_parts),
      cmocka_unit_test(a_short_epoch_is_trained_in_one_call),
      cmocka_unit_test(auto_streams_when_the_store_does_not_fit),
      cmocka_unit_test(failures_stop_the_run),
      cmocka_unit_test(bad_files_are_named),
  };
  return cmocka_run_group_tests_name("trainer", tests, make_folder, remove_folder);
}
