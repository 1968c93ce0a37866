/* Keeping a network, going on with its training, and what signals do to a run: mlp-train as a
   process on the CPU. test_trainer.c stops runs at every step. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "model/checkpoint.h"
#include "support/test.h"
#include "support/program.h"

enum { STAGINGS_ROWS = 20001 }; /* of long.csv: three buffers, the last step is short */

static int open_folder(void **state) {
  program_open(state);
  program_write_csv("long.csv", STAGINGS_ROWS, 0);
  program_write_digits("digits.csv", DIGITS_TRAIN, 200, true);
  return 0;
}

/* No temporary file is left beside the file. */
static void assert_clean(const char *path) {
  char start[64];
  const int length = snprintf(start, sizeof start, "%s.tmp.", path);
  DIR *directory = opendir(".");
  assert_non_null(directory);
  for (struct dirent *entry; (entry = readdir(directory));)
    if (strncmp(entry->d_name, start, (size_t)length) == 0) fail_msg("%s is left", entry->d_name);
  closedir(directory);
}

static const char *text_of(int number) {
  static char text[16];
  snprintf(text, sizeof text, "%d", number);
  return text;
}

/* ---- going on ----------------------------------------------------------------------------- */

enum { MOST_OPTIONS = 20 };

/* TINY, the options of a variant and more, which both end with NULL. */
static void run_variant(const char *const *options, const char *const *more) {
  const char *all[64] = {TINY};
  int count = 0;
  while (all[count]) count++;
  while (*options) all[count++] = *options++;
  while (*more) all[count++] = *more++;
  program_end(program_start(PROGRAM_OUT, all), PROGRAM_OUT);
  assert_string_equal(program.error, "");
  assert_int_equal(program.status, 0);
}

#define RUN_VARIANT(options, ...) run_variant(options, (const char *const[]){__VA_ARGS__, NULL})
#define DIGITS "--train", "digits.csv", "--test", "digits.csv", "--classes", "10"

TESTS_WITH(open_folder, program_close);

TEST(two_and_three_epochs_are_five) {
  static const char *const variants[][MOST_OPTIONS] = {
      {"--momentum", "0.5", "--weight-decay", "0.01"},
      {"--momentum", "0", "--resident", "no"},
      {"--optimizer", "nesterov", "--weight-decay", "0.01"},
      {"--dropout", "0.3", "--label-smoothing", "0.1", "--resident", "no"},
      {"--dropout", "0.3"},
      {"--ema", "0.9"},
      {"--mean", "0.1", "--std", "0.3", "--pixel-max", "200"},
      {"--ema", "0.99", "--optimizer", "adam", "--lr", "0.01", "--resident", "no"},
      {"--optimizer", "adam", "--lr", "0.01", "--beta1", "0.8", "--resident", "no"},
      {"--optimizer", "adamw", "--lr", "0.01", "--weight-decay", "0.1", "--epsilon", "1e-3"},
      {"--train", "long.csv", "--resident", "no", "--threads", "2"},
      {"--lr-schedule", "constant", "--warmup", "4", "--batch", "7"},
      {DIGITS, "--augment", "shift,rotate"},
      {DIGITS, "--augment", "scale,elastic", "--resident", "no"},
  };
  for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
    RUN_VARIANT(variants[i], "--epochs", "5", "--save", "whole.safetensors");
    RUN_VARIANT(variants[i], "--epochs", "2", "--save", "part.safetensors");
    Checkpoint saved = program_checkpoint("part.safetensors");
    assert_int_equal(saved.epoch, 2);
    assert_int_equal(saved.step, 0);
    checkpoint_free(&saved);
    RUN_WELL("--resume", "part.safetensors", "--epochs", "5");
    assert_int_equal(program_lines("^resumed  after epoch 2$"), 1);
    assert_int_equal(program_lines("^epoch [345]/5 "), 3);
    assert_int_equal(program_lines("^epoch "), 3);
    program_same_files("part.safetensors", "whole.safetensors");
    assert_clean("part.safetensors");
  }
}

TEST(a_resumed_run_may_be_saved_elsewhere) {
  RUN_WELL(TINY, "--epochs", "5", "--save", "whole.safetensors");
  RUN_WELL(TINY, "--epochs", "2", "--save", "part.safetensors");
  RUN_WELL(TINY, "--epochs", "2", "--save", "twin.safetensors");
  RUN_WELL("--resume", "part.safetensors", "--epochs", "5", "--save", "other.safetensors");
  program_same_files("part.safetensors", "twin.safetensors");
  program_same_files("other.safetensors", "whole.safetensors");
}

/* The command line comes before the configuration file, that before the options that were saved. */
TEST(options_win_over_those_of_the_checkpoint) {
  FILE *file = fopen("more.conf", "w");
  assert_non_null(file);
  fputs("[training]\nepochs = 3\nlr = 0.125\n", file);
  assert_int_equal(fclose(file), 0);
  RUN_WELL(TINY, "--epochs", "2", "--momentum", "0.25", "--save", "part.safetensors");
  RUN_WELL("--resume", "part.safetensors", "--config", "more.conf", "--epochs", "4", "--dry-run");
  assert_int_equal(program_lines("^epochs = 4$"), 1);
  assert_int_equal(program_lines("^lr = 0.125$"), 1);
  assert_int_equal(program_lines("^momentum = 0.25$"), 1);
  assert_int_equal(program_lines("^batch = 8$"), 1);
}

/* The average is beside the training, which it leaves as it is. */
TEST(an_average_may_begin_and_end) {
  RUN_WELL(TINY, "--epochs", "4", "--save", "whole.safetensors");
  RUN_WELL(TINY, "--epochs", "1", "--save", "part.safetensors");
  RUN_WELL("--resume", "part.safetensors", "--epochs", "3", "--ema", "0.9");
  Checkpoint averaged = program_checkpoint("part.safetensors");
  assert_non_null(averaged.raw);
  assert_memory_not_equal(averaged.raw, averaged.parameters, averaged.network.floats);
  checkpoint_free(&averaged);
  RUN_WELL("--resume", "part.safetensors", "--epochs", "4", "--ema", "0");
  program_same_files("part.safetensors", "whole.safetensors");
}

TEST(another_training_is_refused) {
  RUN_WELL(TINY, "--epochs", "1", "--optimizer", "adam", "--lr", "0.01", "--save",
           "part.safetensors");
  RUN("--resume", "part.safetensors", "--epochs", "2", "--optimizer", "sgd");
  program_failed(1, "part.safetensors was trained with another --optimizer: continue with that");
  RUN("--resume", "part.safetensors", "--epochs", "2", "--std", "2");
  program_failed(1, "part.safetensors was trained with another --std: continue with that");
}

/* A checkpoint has a line for each option, of 198 characters at most. */
TEST(names_that_cannot_be_saved_are_refused) {
  enum { ROOM = 190 };
  static const char name[] = "//train.csv";
  char path[ROOM + 2] = ".";
  while (strlen(path) + strlen(name) + 2 <= ROOM) strcat(path, "/.");
  strcat(path, name + (strlen(path) + strlen(name) > ROOM));
  assert_int_equal(strlen(path), ROOM);
  RUN_WELL(TINY, "--epochs", "1", "--train", path, "--save", "long.safetensors");
  RUN_WELL("--resume", "long.safetensors", "--epochs", "2");
  memmove(path + 1, path, sizeof path - 1);
  memcpy(path, ".//", 3);
  assert_int_equal(strlen(path), ROOM + 1);
  RUN_WELL(TINY, "--epochs", "1", "--train", path);
  RUN(TINY, "--epochs", "1", "--train", path, "--save", "long.safetensors");
  program_failed(1, "--train is a name of 191 bytes, but a saved run can hold only 190");
}

/* A stranger's file must not have a file of ours written. */
TEST(saved_options_that_name_outputs_are_refused) {
  Checkpoint saved;
  Error error;
  RUN_WELL(TINY, "--epochs", "1", "--save", "mine.safetensors");
  assert_true(checkpoint_load(&saved, "mine.safetensors", &error));
  char *own = saved.options, text[4096];
  static const char *const more[] = {"[output]\nlog = theirs.jsonl\n",
                                     "[model]\nsave = theirs.safetensors\n"};
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
    snprintf(text, sizeof text, "%s\n%s", own, more[i]);
    saved.options = text;
    assert_true(checkpoint_save(&saved, "theirs", &error));
    RUN("--resume", "theirs", "--epochs", "2");
    program_failed(1, "is not an option of a saved run");
    assert_int_not_equal(access("theirs.jsonl", F_OK), 0);
    assert_int_not_equal(access("theirs.safetensors", F_OK), 0);
  }
  saved.options = own;
  checkpoint_free(&saved);
}

TEST(runs_that_cannot_go_on_are_refused) {
  RUN_WELL(TINY, "--epochs", "2", "--save", "part.safetensors");
  RUN_WELL(TINY, "--epochs", "2", "--save", "twin.safetensors");
  RUN("--resume", "part.safetensors", "--epochs", "5", "--hidden", "5");
  program_failed(1, "part.safetensors holds a network of 2-4-2, but train.csv, --hidden and "
                    "--classes ask for one of 2-5-2");
  RUN("--resume", "part.safetensors", "--epochs", "5", "--classes", "3");
  program_failed(1, " ask for one of 2-4-3");
  RUN("--resume", "part.safetensors", "--epochs", "5", DIGITS);
  program_failed(1, " ask for one of 784-4-10");
  RUN("--resume", "part.safetensors");
  program_failed(1, "part.safetensors is already trained for 2 epochs: give a higher");
  RUN("--resume", "part.safetensors", "--epochs", "1");
  program_failed(1, "part.safetensors is already trained for 2 epochs: give a higher");
  RUN("--resume", "none.safetensors");
  program_failed(1, "cannot load none.safetensors: No such file");
  RUN("--resume", "train.csv");
  program_failed(1, "cannot load train.csv: it is not a safetensors file");
  assert_string_equal(program.out, "");
  program_same_files("part.safetensors", "twin.safetensors");
}

/* Saves part.safetensors, two epochs of TINY, as if it had been interrupted at a step of the third.
 */
static void save_in_an_epoch(uint64_t step, uint64_t rows) {
  Error error;
  Checkpoint saved = program_checkpoint("part.safetensors");
  saved.step = step;
  saved.rows = rows;
  saved.loss = (double)rows;
  if (!checkpoint_save(&saved, "middle.safetensors", &error)) fail_msg("%s", error.text);
  checkpoint_free(&saved);
}

/* The rest of an epoch is of the same rows in the same order. */
TEST(the_rest_of_an_epoch_has_the_options_it_began_with) {
  static const char *const other[][2] = {{"--train", "test.csv"},
                                         {"--batch", "1"},
                                         {"--seed", "7"},
                                         {"--resident", "no"},
                                         {"--augment", "shift"}};
  RUN_WELL(TINY, "--epochs", "2", "--save", "part.safetensors");
  save_in_an_epoch(1, 1);
  for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
    char sentence[128];
    snprintf(sentence, sizeof sentence, "in the middle of an epoch: continue with its %s,",
             other[i][0]);
    RUN("--resume", "middle.safetensors", "--epochs", "3", other[i][0], other[i][1]);
    program_failed(1, sentence);
    assert_string_equal(program.out, "");
  }
}

TEST(a_step_beyond_the_data_is_refused) {
  RUN_WELL(TINY, "--epochs", "2", "--batch", "2", "--save", "part.safetensors");
  save_in_an_epoch(1000000, 2000000);
  RUN("--resume", "middle.safetensors", "--epochs", "3");
  program_failed(1, "the saved run stands at step 1000000 of an epoch, but train.csv has only ");
}

/* Sizes are compared before memory is taken for them: 16,384 x 16,384 weights would be 1 GB. */
TEST(a_small_file_takes_no_large_memory) {
  Error error;
  RUN_WELL(TINY, "--epochs", "1", "--save", "part.safetensors");
  Checkpoint saved = program_checkpoint("part.safetensors");
  char *own = saved.options;
  saved.options = (char[]){"[network]\nhidden = 16384,16384,16384\nclasses = 2\n"
                           "[data]\ntrain = train.csv\ntest = test.csv\n"};
  assert_true(checkpoint_save(&saved, "large.safetensors", &error));
  saved.options = own;
  checkpoint_free(&saved);
  RUN("--resume", "large.safetensors", "--device", "cpu", "--epochs", "9");
  program_failed(1, "large.safetensors holds a network of 2-4-2, but train.csv, --hidden and ");
  struct rusage usage;
  assert_int_equal(getrusage(RUSAGE_CHILDREN, &usage), 0);
  assert_true(usage.ru_maxrss < 500000); /* KB */
}

/* A network of another program is read and not written over. */
TEST(another_programs_file_is_not_written_over) {
  Error error;
  RUN_WELL(TINY, "--epochs", "1", "--save", "part.safetensors");
  Checkpoint saved = program_checkpoint("part.safetensors");
  char *own = saved.options;
  saved.options = (char[]){""};
  saved.epoch = 0;
  assert_true(checkpoint_save(&saved, "foreign.safetensors", &error));
  assert_true(checkpoint_save(&saved, "twin.safetensors", &error));
  saved.options = own;
  checkpoint_free(&saved);
  RUN("--resume", "foreign.safetensors", TINY, "--epochs", "2");
  program_failed(1, "foreign.safetensors was written by another program: name a file");
  RUN_WELL("--resume", "foreign.safetensors", TINY, "--epochs", "2", "--save", "ours.safetensors");
  program_same_files("foreign.safetensors", "twin.safetensors");
}

/* ---- saving ------------------------------------------------------------------------------ */

TEST(what_cannot_be_saved_is_not_trained) {
  RUN_WELL(TINY, "--epochs", "1", "--save", "part.safetensors");
  RUN(TINY, "--save", "none/model.safetensors", "--log", "run.jsonl");
  program_failed(1, "cannot write none/model.safetensors: its folder does not exist");
  assert_string_equal(program.out, "");
  assert_int_equal(access("run.jsonl", F_OK), -1);
  RUN(TINY, "--save", ".");
  program_failed(1, "cannot write .: it is not a regular file");
  assert_string_equal(program.out, "");
  RUN("--resume", "part.safetensors", "--epochs", "2", "--save", "none/model.safetensors");
  program_failed(1, "cannot write none/model.safetensors: its folder does not exist");
  assert_string_equal(program.out, "");
  assert_clean("part.safetensors");
}

/* The test accuracies that the run's log has, from epoch 1 on. */
static int read_accuracies(const char *path, double *accuracies, int most) {
  char *text = program_read(path, NULL), *line = text;
  int count = -1; /* the first line is the header */
  for (char *end; (end = strchr(line, '\n')); line = end + 1, count++) {
    json_t *object = json_loadb(line, (size_t)(end - line), 0, NULL);
    assert_non_null(object);
    assert_in_range(count + 1, 0, most);
    if (count >= 0) accuracies[count] = json_number_value(json_object_get(object, "test_accuracy"));
    json_decref(object);
  }
  free(text);
  return count;
}

/* A run that is killed has saved its best epoch so far, whole, and no later one. */
TEST(what_improves_is_saved_at_once) {
  enum { MOST = 100000 };
  static double accuracies[MOST];
  for (int lines = 2; lines <= 30; lines += 7) {
    unlink("killed.safetensors");
    const pid_t process = START(TINY, "--hidden", "64,64", "--epochs", "1000000", "--save",
                                "killed.safetensors", "--log", "killed.jsonl");
    assert_true(program_printed(process, "epoch ", lines));
    assert_int_equal(kill(process, SIGKILL), 0);
    program_end(process, PROGRAM_OUT);
    assert_int_equal(program.status, -SIGKILL);
    Checkpoint saved = program_checkpoint("killed.safetensors");
    const int logged = read_accuracies("killed.jsonl", accuracies, MOST);
    int best = 0;
    assert_true(logged >= lines - 1);    /* an epoch is printed before it is logged */
    for (int i = 0; i < logged - 1; i++) /* the last one may not have been saved yet */
      if (accuracies[i] > accuracies[best]) best = i;
    if (saved.epoch != logged) assert_int_equal(saved.epoch, best + 1);
    assert_int_equal(saved.best_epoch, saved.epoch);
    assert_true(saved.test_accuracy == accuracies[saved.epoch - 1]);
    assert_true(saved.best_accuracy == saved.test_accuracy);
    checkpoint_free(&saved);
    RUN_WELL("--resume", "killed.safetensors", "--epochs", text_of(best + 2));
  }
}

TEST(a_run_that_fails_leaves_its_checkpoint) {
  RUN_WELL(TINY, "--epochs", "3", "--save", "part.safetensors");
  RUN_WELL(TINY, "--epochs", "3", "--save", "twin.safetensors");
  RUN("--resume", "part.safetensors", "--epochs", "9", "--lr", "100", "--weight-decay", "1",
      "--lr-decay", "1");
  program_failed(1, "the training loss is not a finite number");
  program_said(": try a lower --lr; part.safetensors holds the network of epoch 3\n");
  program_same_files("part.safetensors", "twin.safetensors");
  RUN("--resume", "part.safetensors", "--epochs", "9", "--lr", "100", "--weight-decay", "1",
      "--lr-decay", "1", "--save", "other.safetensors");
  program_failed(1, ": try a lower --lr\n"); /* no promise of what a run before it saved there */
  RUN(TINY, "--lr", "100", "--weight-decay", "1");
  program_failed(1, ": try a lower --lr\n");
}

/* ---- signals ------------------------------------------------------------------------------ */

#define FOREVER "--train", "long.csv", "--lr-decay", "1", "--epochs", "1000000"

/* Sends the signal once the program has printed `lines` lines that begin with `start`. */
static void interrupt(pid_t process, int number, const char *start, int lines) {
  if (!program_printed(process, start, lines)) fail_msg("it ended before the signal");
  assert_int_equal(kill(process, number), 0);
  program_end(process, PROGRAM_OUT);
}

/* The last program was interrupted by the signal, and saved where it was. Returns the epochs that
   it had begun. */
static int assert_interrupted(int number, const char *path) {
  Checkpoint saved = program_checkpoint(path);
  char sentence[5000];
  const int begun = saved.epoch + (saved.step > 0);
  /* With the program's name between them, quoted where a shell would want it. */
  snprintf(sentence, sizeof sentence, "mlp-train: interrupted %s epoch %d: continue with ",
           saved.step > 0 ? "in" : "after", begun);
  assert_memory_equal(program.error, sentence, strlen(sentence));
  snprintf(sentence, sizeof sentence, " --resume %s\n", path);
  program_said(sentence);
  assert_int_equal(program.status, 128 + number);
  assert_int_equal(program_lines("^epoch "), saved.epoch);
  assert_int_equal(program_lines("^total "), 0);
  assert_clean(path);
  checkpoint_free(&saved);
  return begun;
}

/* Goes on to the end of the next epoch: the file is that of a run that was never interrupted. */
static void assert_as_if_never_stopped(const char *resident, int begun) {
  const char *epochs = text_of(begun + 1);
  RUN_WELL("--resume", "stopped.safetensors", "--epochs", epochs);
  RUN_WELL(TINY, "--hidden", "64", FOREVER, "--resident", resident, "--epochs", epochs, "--save",
           "whole.safetensors");
  program_same_files("stopped.safetensors", "whole.safetensors");
}

TEST(an_interrupted_run_goes_on_as_if_never_stopped) {
  static const struct {
    const char *resident, *start;
    int lines, signal;
  } moments[] = {
      {"yes", "data ", 1, SIGINT}, {"no", "data ", 1, SIGTERM},  {"yes", "epoch ", 1, SIGTERM},
      {"no", "epoch ", 1, SIGINT}, {"yes", "epoch ", 4, SIGINT}, {"no", "epoch ", 3, SIGTERM},
  };
  for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
    interrupt(START(TINY, "--hidden", "64", FOREVER, "--resident", moments[i].resident, "--save",
                    "stopped.safetensors"),
              moments[i].signal, moments[i].start, moments[i].lines);
    const int begun = assert_interrupted(moments[i].signal, "stopped.safetensors");
    assert_as_if_never_stopped(moments[i].resident, begun);
  }
}

/* A run that goes on does not know how long its epochs take, and looks for signals in the first. */
TEST(a_resumed_run_may_be_interrupted_again) {
  RUN_WELL(TINY, "--hidden", "64", FOREVER, "--epochs", "1", "--save", "stopped.safetensors");
  interrupt(START("--resume", "stopped.safetensors", "--epochs", "1000000"), SIGTERM, "data ", 1);
  program_said("mlp-train: interrupted ");
  assert_int_equal(program.status, 128 + SIGTERM);
  Checkpoint saved = program_checkpoint("stopped.safetensors");
  const int begun = saved.epoch + (saved.step > 0);
  checkpoint_free(&saved);
  assert_as_if_never_stopped("auto", begun);
}

TEST(nothing_is_saved_unless_asked_for) {
  interrupt(START(TINY, FOREVER), SIGINT, "epoch ", 1);
  assert_int_equal(program.status, 128 + SIGINT);
  char *rest;
  program_failed(128 + SIGINT, "mlp-train: interrupted ");
  assert_in_range(strtol(strstr(program.error, " epoch ") + 7, &rest, 10), 1, 1000000);
  assert_string_equal(rest, ": the network is lost, --save FILE would have saved it\n");
}

/* The first epoch's first buffer takes seconds: a signal has to wait for it, a second one has not.
 */
TEST(a_second_signal_kills) {
  static const int signals[][2] = {{SIGINT, SIGINT}, {SIGTERM, SIGINT}, {SIGINT, SIGTERM}};
  const struct timespec pause = {.tv_nsec = 20000000};
  for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
    const pid_t process =
        START(TINY, FOREVER, "--hidden", "700,700", "--batch", "1", "--save", "slow.safetensors");
    assert_true(program_printed(process, "data ", 1));
    assert_int_equal(kill(process, signals[i][0]), 0);
    siginfo_t ended = {0};
    while (!ended.si_pid) {
      nanosleep(&pause, NULL); /* two signals at the same time could be taken for one */
      kill(process, signals[i][1]);
      assert_int_equal(waitid(P_PID, (id_t)process, &ended, WEXITED | WNOHANG | WNOWAIT), 0);
    }
    program_end(process, PROGRAM_OUT);
    assert_int_equal(program.status, -signals[i][1]);
    assert_int_equal(access("slow.safetensors", F_OK), -1);
  }
}
