/* --tune: the learning-rate range test as a user meets it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "support/test.h"
#include "support/folder.h"
#include "support/program.h"

/* 150 steps, and 750. */
#define SMALL_STEPS TINY, "--batch", "2"
#define MANY_ROWS TINY, "--train", "many.csv"

/* The word behind the last --lr that the program printed. */
static void printed_rate(char rate[32]) {
  const char *last = NULL;
  for (const char *at = program.out; (at = strstr(at, "--lr ")); at++) last = at;
  assert_non_null(last);
  assert_int_equal(sscanf(last, "--lr %31s", rate), 1);
}

TESTS_WITH(program_open, program_close);

/* Where the loss was lowest the network learns, much better than at the lowest rate. */
TEST(a_rate_is_found) {
  char rate[32], again[32];
  program_write_csv("many.csv", 6000, 0);
  RUN_WELL(MANY_ROWS, "--tune", "tune.png");
  assert_int_equal(program_lines("^tune +[0-9]+ steps at [0-9]+ rates from 1e-05 to [0-9.]+"), 1);
  assert_int_equal(program_lines("^wrote +tune.png$"), 1);
  printed_rate(rate);
  size_t size;
  char *picture = program_read("tune.png", &size);
  assert_true(size > 1000 && memcmp(picture, "\x89PNG", 4) == 0);
  free(picture);
  RUN_WELL(MANY_ROWS, "--tune", "again.png");
  printed_rate(again);
  assert_string_equal(rate, again);
  program_same_files("tune.png", "again.png");
  RUN_WELL(MANY_ROWS, "--epochs", "1", "--lr", rate, "--save", "found.st");
  Checkpoint found = program_checkpoint("found.st");
  assert_true(found.test_accuracy >= 0.9);
  checkpoint_free(&found);
  RUN_WELL(MANY_ROWS, "--epochs", "1", "--lr", "1e-5", "--save", "low.st");
  Checkpoint low = program_checkpoint("low.st");
  assert_true(low.test_accuracy < 0.9);
  checkpoint_free(&low);
}

TEST(the_command_is_repeated) {
  char expected[4700], rate[32], called[sizeof program_called + 2];
  RUN_WELL(SMALL_STEPS, "--tune", "a picture.png", "-l", "3", "--lr=5", "--seed", "2", "--lr", "4");
  printed_rate(rate);
  text_shell_word(called, sizeof called, program_called); /* its folder may have spaces */
  snprintf(expected, sizeof expected,
           "\ntry      %s --device cpu --threads 1 --classes 2 --hidden 4 --batch 8 --train "
           "train.csv --test test.csv --batch 2 --seed 2 --lr %s\n",
           called, rate);
  assert_non_null(strstr(program.out, expected));
  RUN_WELL(SMALL_STEPS, "--tune=a picture.png", "--quiet");
  assert_string_equal(program.out, "");
}

/* Labels that the pixels do not tell: no rate helps, and large ones make it much worse. */
TEST(a_loss_that_diverges_ends_it) {
  FILE *file = fopen("noise.csv", "w");
  assert_non_null(file);
  for (int row = 0; row < 1000; row++) fprintf(file, "%d,255,%d\n", row * 7919 % 13 < 6, row % 256);
  assert_int_equal(fclose(file), 0);
  RUN_WELL(SMALL_STEPS, "--hidden", "32,32", "--train", "noise.csv", "--tune", "noise.png");
  assert_int_equal(program_lines("^tune .*, where the loss diverged$"), 1);
}

TEST(what_it_cannot_do_is_refused) {
  static const char *const outputs[][2] = {{"--save", "x.st"},      {"--log", "x.csv"},
                                           {"--plot", "x.png"},     {"--weights", "x.png"},
                                           {"--mistakes", "x.png"}, {"--confusion", "x.png"},
                                           {"--resume", "x.st"},    {"--load", "x.st"}};
  for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
    char sentence[128];
    RUN(SMALL_STEPS, "--tune", "tune.png", outputs[i][0], outputs[i][1]);
    snprintf(sentence, sizeof sentence, "--tune only looks for a learning rate: leave out %s",
             outputs[i][0]);
    program_said(sentence);
    assert_int_equal(program.status, 2);
  }
  RUN(SMALL_STEPS, "--tune", "tune.png", "--resident", "no");
  program_said("leave out --resident no");
  RUN(SMALL_STEPS, "--tune", "tune.jpg");
  program_said("--tune writes a file that ends in .png");
  RUN(SMALL_STEPS, "--tune", "missing/tune.png");
  program_failed(1, "missing/tune.png");
  RUN(TINY, "--batch", "16", "--tune", "tune.png");
  program_failed(1, "--tune wants at least 20 steps, but 300 rows in batches of 16 are 19: try a "
                    "smaller --batch");
  folder_write("linked.png", "1,2,3\n");
  RUN(SMALL_STEPS, "--train", "linked.png", "--tune", "linked.png");
  assert_int_equal(program.status, 2);
  char *text = program_read("linked.png", NULL);
  assert_string_equal(text, "1,2,3\n");
  free(text);
}

TEST(a_signal_ends_it) {
  assert_int_equal(mkfifo("fifo", 0600), 0);
  const pid_t process = START(SMALL_STEPS, "--train", "fifo", "--tune", "never.png");
  nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  assert_int_equal(kill(process, SIGINT), 0);
  program_end(process, PROGRAM_OUT);
  program_failed(128 + SIGINT, "interrupted");
  assert_int_not_equal(access("never.png", F_OK), 0);
}
