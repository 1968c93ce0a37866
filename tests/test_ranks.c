/* Runs of several ranks on the CPU, and on GPUs where there are two, started by mpirun: they train
   the network that one process trains. Skipped where there is no mpirun, or no MPI to build with.
 */
#define _GNU_SOURCE

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "exercise/reference.h"
#include "ranks/ranks.h"
#include "support/test.h"
#include "support/mpirun.h"

/* ---- the rows and what float64 makes of them ------------------------------------------------ */

enum { ROWS = 389, EPOCHS = 4, BATCH = 29 }; /* 14 steps an epoch, the last of 12 rows: 56 steps */

static const double rate = 0.05, momentum = 0.9, decay = 0.01;

#define DIGITS                                                                                     \
  "--device", "cpu", "--threads", "1", "--hidden", "24,17", "--batch", "29", "--weight-decay",     \
      "0.01", "--lr-schedule", "constant", "--train", "digits.csv", "--test", "digits_test.csv"

static double *expected;             /* the network after EPOCHS */
static double expected_loss[EPOCHS]; /* of the rows trained in each */
static Network network;

static void train_reference(void) {
  static uint8_t pixels[ROWS * DIGITS_PIXELS];
  static uint16_t labels[ROWS];
  const int hidden[] = {24, 17};
  Error error;
  for (uint64_t r = 0; r < ROWS; r++)
    labels[r] = (uint16_t)digits_draw(1, DIGITS_TRAIN, r, pixels + r * DIGITS_PIXELS);
  assert_true(network_init(&network, DIGITS_PIXELS, hidden, 2, 10, &error));
  expected = calloc(2 * network.floats, sizeof *expected);
  float *first = calloc(network.floats, sizeof *first);
  network_initialise(&network, 1, first);
  reference_to_double(first, network.floats, expected);
  free(first);
  const EngineConfig config = {.network = network,
                               .training = {.batch = BATCH,
                                            .rule.momentum = (float)momentum,
                                            .rule.weight_decay = (float)decay}};
  for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
    const TrainRange range = {.rows = ROWS,
                              .shuffled = epoch > 0,
                              .key = random_order_key(1, epoch),
                              .steps = (ROWS + BATCH - 1) / BATCH,
                              .learning_rate = (float)rate};
    EngineSums sums = {0};
    reference_train(&config, expected, expected + network.floats, pixels, DIGITS_PIXELS, labels,
                    &range, &sums);
    expected_loss[epoch] = sums.loss / ROWS;
  }
}

static int open_files(void **state) {
  program_open(state);
  program_write_digits("digits.csv", DIGITS_TRAIN, ROWS, true);
  program_write_digits("digits_test.csv", DIGITS_TEST, 61, true);
  train_reference();
  return 0;
}

static int close_files(void **state) {
  free(expected);
  return program_close(state);
}

static void assert_near(const char *path, double limit) {
  Checkpoint saved = program_checkpoint(path);
  const double error = reference_relative_error(saved.parameters, expected, network.floats);
  if (!(error < limit)) fail_msg("%s: relative error %.3g", path, error);
  checkpoint_free(&saved);
}

/* float32 through 56 steps: a wrong sum or row is off by 1e-2. */
static void assert_expected(const char *path) {
  assert_near(path, 2e-5);
}

/* The losses of a log of all epochs. */
static void assert_losses(const char *path) {
  char *log = program_read(path, NULL), *at = log;
  for (int epoch = 0; epoch < EPOCHS; epoch++) {
    static const char key[] = "\"train_loss\":";
    at = strstr(at, key);
    if (!at) fail_msg("%s has no loss of epoch %d", path, epoch + 1);
    const double loss = strtod(at += sizeof key - 1, NULL);
    if (!(fabs(loss - expected_loss[epoch]) < 2e-5 * expected_loss[epoch]))
      fail_msg("%s, epoch %d: loss %.9g, not %.9g", path, epoch + 1, loss, expected_loss[epoch]);
  }
  free(log);
}

/* ---- the same network ----------------------------------------------------------------------- */

TESTS_WITH(open_files, close_files);

TEST(ranks_train_what_one_process_trains) {
  needs_mpi();
  RUN_WELL(DIGITS, "--epochs", "4", "--save", "alone", "--log", "alone.jsonl");
  assert_expected("alone");
  assert_losses("alone.jsonl");
  for (int ranks = 1; ranks <= MOST_RANKS; ranks++) {
    unlink("log.jsonl");
    RUN_RANKS_WELL(ranks, DIGITS, "--epochs", "4", "--save", "net", "--log", "log.jsonl");
    assert_int_equal(program_lines("^epoch"), 4); /* one rank prints */
    assert_int_equal(program_lines("^device .* ranks"), ranks > 1);
    assert_expected("net");
    assert_losses("log.jsonl");
    if (ranks == 1) program_same_networks("net", "alone");
    Checkpoint net = program_checkpoint("net"), alone = program_checkpoint("alone");
    assert_true(fabs(net.test_accuracy - alone.test_accuracy) < 1.5 / 61);
    checkpoint_free(&net);
    checkpoint_free(&alone);
  }
}

TEST(same_ranks_same_bits) {
  needs_mpi();
  for (int time = 0; time < 2; time++)
    RUN_RANKS_WELL(3, DIGITS, "--epochs", "4", "--threads", time ? "2" : "1", "--save",
                   time ? "again" : "once");
  program_same_networks("once", "again");
}

TEST(ranks_stream) {
  needs_mpi();
  RUN_WELL(DIGITS, "--epochs", "3", "--resident", "no", "--save", "alone");
  Checkpoint alone = program_checkpoint("alone");
  double *of_one = calloc(network.floats, sizeof *of_one);
  reference_to_double(alone.parameters, network.floats, of_one);
  for (int ranks = 1; ranks <= 3; ranks++) {
    RUN_RANKS_WELL(ranks, DIGITS, "--epochs", "3", "--resident", "no", "--save", "net");
    Checkpoint net = program_checkpoint("net");
    const double error = reference_relative_error(net.parameters, of_one, network.floats);
    if (!(error < 2e-5)) fail_msg("%d ranks: relative error %.3g", ranks, error);
    checkpoint_free(&net);
  }
  free(of_one);
  checkpoint_free(&alone);
}

/* A GPU each, at every level that takes ranks. Roundings differ from the CPU's, and may open a ReLU
   on one side only: test_engine_cuda.c says what that does. */
TEST(ranks_train_on_gpus) {
  static const char *const levels[] = {"none", "layer", "step"};
  needs_mpi();
  const int gpus = needs_gpus();
  for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) {
    for (int time = 0; time < 2; time++)
      RUN_RANKS_WELL(gpus, DIGITS, "--device", "cuda", "--fusion", levels[l], "--epochs", "4",
                     "--save", time ? "again" : "once");
    program_same_networks("once", "again");
    assert_near("once", 1e-3);
  }
  RUN_RANKS_WELL(2, DIGITS, "--device", "cuda", "--epochs", "1");
  assert_int_equal(program_lines("^fusion   step: not epoch: .*one alone is faster"), 1);
  RUN_RANKS(2, DIGITS, "--device", "cuda", "--fusion", "epoch");
  program_said("level epoch takes one rank");
}

/* Two epochs by two ranks, and the rest by others. */
TEST(any_number_of_ranks_resumes) {
  needs_mpi();
  RUN_RANKS_WELL(2, DIGITS, "--epochs", "4", "--save", "whole");
  RUN_RANKS_WELL(2, DIGITS, "--epochs", "2", "--save", "half");
  RUN_RANKS_WELL(2, "--resume", "half", "--epochs", "4", "--save", "net");
  program_same_networks("net", "whole");
  RUN_RANKS_WELL(3, "--resume", "half", "--epochs", "4", "--save", "net");
  assert_expected("net");
  RUN_WELL("--resume", "half", "--epochs", "4", "--save", "net");
  assert_expected("net");
}

/* ---- ensembles ------------------------------------------------------------------------------ */

/* The line of the whole ensemble, copied. */
static void last_line(char *line, size_t size) {
  const char *found = strstr(program.out, "ensemble of 3: ");
  if (!found) fail_msg("no line of the ensemble: %s", program.out);
  snprintf(line, size, "%.*s", (int)strcspn(found, "\n"), found);
}

TEST(an_ensemble_is_runs_of_other_seeds) {
  static const char *const seeds[] = {"5", "6", "7"};
  static const char *const files[] = {"e-5.safetensors", "e-6.safetensors", "e-7.safetensors"};
  char line[160], committee[32];
  RUN_WELL(DIGITS, "--epochs", "3", "--seed", "5", "--ensemble", "3", "--save", "e.safetensors");
  assert_int_equal(program_lines("^network  seed [567]  test-loss .* wrote e-[567].safetensors$"),
                   3);
  last_line(line, sizeof line);
  for (int i = 0; i < 3; i++) {
    RUN_WELL(DIGITS, "--epochs", "3", "--seed", seeds[i], "--save", "one");
    Checkpoint mine = program_checkpoint(files[i]), alone = program_checkpoint("one");
    assert_memory_equal(mine.parameters, alone.parameters, network.floats * sizeof(float));
    checkpoint_free(&mine);
    checkpoint_free(&alone);
  }
  RUN_WELL("--load", files[0], "--load", files[1], "--load", files[2], "--evaluate", "--test",
           "digits_test.csv", "--device", "cpu");
  assert_int_equal(sscanf(strstr(line, "committee ") + 10, "%31s", committee), 1);
  if (!strstr(program.out, committee)) fail_msg("%s: %s", line, program.out);
}

TEST(ranks_share_out_an_ensemble) {
  needs_mpi();
  char line[160], other[160];
  RUN_WELL(DIGITS, "--epochs", "2", "--ensemble", "3", "--save", "e.safetensors");
  last_line(line, sizeof line);
  RUN_RANKS_WELL(2, DIGITS, "--epochs", "2", "--ensemble", "3", "--save", "r.safetensors");
  last_line(other, sizeof other);
  assert_string_equal(other, line);
  for (int seed = 1; seed <= 3; seed++) {
    char mine[32], shared[32];
    snprintf(mine, sizeof mine, "e-%d.safetensors", seed);
    snprintf(shared, sizeof shared, "r-%d.safetensors", seed);
    program_same_networks(mine, shared);
  }
}

TEST(ensembles_that_are_refused) {
  RUN(DIGITS, "--ensemble", "2", "--test", "none");
  program_failed(1, "--ensemble judges its networks by --test: name a file");
  RUN(DIGITS, "--ensemble", "2", "--log", "log.jsonl");
  program_said("--ensemble trains and saves several new networks: leave out --log");
  assert_int_equal(program.status, 2);
  needs_mpi();
  RUN_RANKS(3, DIGITS, "--ensemble", "2");
  program_said("--ensemble 2 leaves some of 3 ranks without a network");
}

/* ---- what ranks say ------------------------------------------------------------------------- */

#define WORKER "worker"

static void check(bool good, const char *what, int line) {
  if (good) return;
  fprintf(stderr, "line %d: %s\n", line, what);
  _exit(3);
}
#define CHECK(call) check((call), #call, __LINE__)

/* Sums are added in the order of ranks: here another order would round otherwise. */
static float part(int rank, size_t i) {
  return (rank == 0 ? 16777216.0f : 1.0f) + (float)(i % 7) * (float)rank;
}

static int work_as_rank(void) {
  enum { MOST = 1000 };
  static const size_t counts[] = {1, 2, 3, 4, 5, MOST};
  Error error;
  CHECK(ranks_launched());
  Ranks *ranks = ranks_open(&error);
  CHECK(ranks != NULL);
  const int number = ranks_number(ranks), count = ranks_count(ranks);
  CHECK(ranks_number_on_host(ranks) == number && ranks_count_on_host(ranks) == count);
  CHECK(ranks_hosts(ranks) == 1);
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
    float values[MOST];
    for (size_t i = 0; i < counts[c]; i++) values[i] = part(number, i);
    CHECK(ranks_sum_floats(ranks, values, counts[c], &error));
    for (size_t i = 0; i < counts[c]; i++) {
      float sum = part(0, i);
      for (int r = 1; r < count; r++) sum += part(r, i);
      CHECK(values[i] == sum);
    }
  }
  double sums[2] = {number, 1};
  CHECK(ranks_sum_doubles(ranks, sums, 2, &error));
  CHECK(2 * sums[0] == count * (count - 1) && sums[1] == count);
  int told = number + 7, largest = number == 1 ? 100 : number;
  CHECK(ranks_broadcast(ranks, &told, sizeof told, &error) && told == 7);
  CHECK(ranks_largest(ranks, &largest, &error) && largest == 100);
  int all[MOST_RANKS];
  CHECK(ranks_gather(ranks, &number, sizeof number, all, &error));
  for (int r = 0; r < count; r++) CHECK(all[r] == r);
  ranks_close(ranks);
  return 0;
}

TEST(ranks_say_the_same) {
  needs_mpi();
  for (int ranks = 2; ranks <= MOST_RANKS; ranks++) {
    program_end(mpirun_start(ranks, mpirun_own_path, (const char *const[]){WORKER, NULL}),
                PROGRAM_OUT);
    assert_string_equal(program.error, "");
    assert_int_equal(program.status, 0);
  }
}

TEST(no_ranks_say_the_same) {
  Error error;
  double sum = 3;
  int largest = 4, copy = 0;
  assert_false(ranks_launched());
  assert_int_equal(ranks_number(NULL), 0);
  assert_int_equal(ranks_count(NULL), 1);
  assert_true(ranks_sum_doubles(NULL, &sum, 1, &error) && sum == 3);
  assert_true(ranks_largest(NULL, &largest, &error) && largest == 4);
  assert_true(ranks_gather(NULL, &largest, sizeof largest, &copy, &error) && copy == 4);
  assert_true(ranks_go_on(NULL, 0, &error));
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], WORKER) == 0) return work_as_rank();
  if (!mpirun_find()) return 1;
  return tests_run();
}
