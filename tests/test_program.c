/* mlp-train as a process: exit codes, messages, and output that scripts can read. Only the CPU
   is used. */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/checkpoint.h"
#include "cli/options.h"
#include "support/test.h"
#include "support/program.h"

static void run_to(const char *output, const char *const *arguments) {
  program_end(program_start(output, arguments), output);
}

#define LOSS " +[0-9]+\\.[0-9]{3,4}"
#define PART " +([0-9]{1,2}\\.[0-9]{2}|100\\.0)%"
#define TIME " +[0-9]+(\\.[0-9]{1,2})?m?s"
#define HEADING "^ +loss +acc +test-loss +test-acc +train +eval +img/s$"
#define EPOCH(counter) "^epoch " counter LOSS PART LOSS PART TIME TIME " +[0-9]+(\\.[0-9])?[kMG]?$"

/* ---- tests -------------------------------------------------------------------------------- */

TESTS_WITH(program_open, program_close);

TEST(a_run_prints_what_scripts_can_read) {
  RUN(TINY, "--epochs", "12");
  assert_string_equal(program.error, "");
  assert_int_equal(program.status, 0);
  assert_int_equal(program_lines(EPOCH("[ 1][0-9]/12")), 12);
  assert_int_equal(program_lines("^epoch  1/12 "), 1);
  assert_int_equal(program_lines("^epoch 12/12 .* 100.0% .* 100.0% "), 1);
  assert_int_equal(program_lines(HEADING), 1);
  assert_int_equal(program_lines("^.{81}"), 0); /* a terminal's width */
  assert_int_equal(program_lines("^device   CPU.* GiB$"), 1);
  assert_int_equal(program_lines("^network  2-4-2, 22 parameters$"), 1);
  assert_int_equal(program_lines("^fusion   [a-z]+: .+$"), 1);
  assert_int_equal(program_lines("^data     .*train.csv and .*test.csv, resident$"), 1);
  assert_int_equal(
      program_lines("^total    load" TIME "  train" TIME "  eval" TIME "  process" TIME "$"), 1);
  assert_int_equal(program_lines(""), 18);
  assert_null(strpbrk(program.out, "\r\033")); /* no progress bar in a file */
}

TEST(epoch_lines_are_aligned) {
  RUN(TINY, "--epochs", "10");
  size_t length = 0;
  int lines = 0;
  for (char *line = strtok(program.out, "\n"); line; line = strtok(NULL, "\n")) {
    if (strncmp(line, "epoch", 5) != 0 && line[0] != ' ') continue;
    if (lines++) assert_int_equal(strlen(line), length);
    length = strlen(line);
  }
  assert_int_equal(lines, 11); /* with the heading */
}

TEST(quiet_prints_the_last_epoch_alone) {
  RUN(TINY, "--epochs", "3", "--quiet");
  assert_int_equal(program.status, 0);
  assert_int_equal(program_lines(""), 2);
  assert_int_equal(program_lines(HEADING), 1);
  assert_int_equal(program_lines(EPOCH("3/3")), 1);
}

TEST(streaming_runs_too) {
  RUN(TINY, "--epochs", "2", "--resident", "no", "--threads", "0");
  assert_int_equal(program.status, 0);
  assert_int_equal(program_lines("^data .*, streamed every epoch$"), 1);
  assert_int_equal(program_lines(EPOCH("[12]/2")), 2);
}

TEST(help_and_version_succeed) {
  RUN("--version");
  assert_int_equal(program.status, 0);
  assert_int_equal(program_lines("^mlp-train [0-9]+\\.[0-9]+\\.[0-9]+$"), 1);
  RUN("--help");
  assert_int_equal(program.status, 0);
  assert_int_equal(program_lines("^Usage: mlp-train "), 1);
  assert_int_equal(program_lines("^  -e, --epochs N .*\\[10\\]$"), 1);
  assert_string_equal(program.error, "");
}

TEST(wrong_usage_exits_2) {
  static const struct {
    const char *arguments[3], *says;
  } wrong[] = {
      {{"--bogus"}, "mlp-train: unknown option '--bogus'\n"},
      {{"--epochs"}, "mlp-train: --epochs needs an argument\n"},
      {{"--epochs", "0"},
       "mlp-train: --epochs must be a whole number from 1 to 1000000, not '0'\n"},
      {{"stray"}, "mlp-train: unexpected argument 'stray'\n"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    run_to(PROGRAM_OUT, wrong[i].arguments);
    assert_int_equal(program.status, 2);
    program_said(wrong[i].says);
    char hint[5000];
    snprintf(hint, sizeof hint, "\nTry '%s --help'.\n", program_called);
    program_said(hint);
    assert_string_equal(program.out, "");
  }
}

TEST(a_missing_file_is_named_with_ways_to_get_one) {
  RUN("--device", "cpu"); /* the folder has no data/ */
  program_failed(1, "data/mnist_train.csv");
  program_said("`make data`");
  program_said("scripts/download_mnist.sh");
  program_said("mlp-train-fetch");
  program_said("mlp-digits");
  RUN(TINY, "--test", "none.csv");
  program_failed(1, "none.csv does not exist");
  assert_string_equal(program.out, "");
}

TEST(bad_files_exit_1) {
  program_write_csv("train.csv", 300, 123);
  RUN(TINY);
  program_failed(1, "train.csv, line 123, column 1: ");
  program_write_csv("train.csv", 300, 0);
  RUN(TINY, "--train", ".");
  program_failed(1, "is a directory");
  RUN(TINY, "--config", "train.csv");
  program_failed(1, "train.csv:1: the line is not a [section]");
  RUN(TINY, "--config", "none.conf");
  program_failed(1, "cannot open none.conf: No such file");
}

TEST(output_that_cannot_be_written_exits_1) {
  const char *const tiny[] = {TINY, NULL}, *const help[] = {"--help", NULL};
  run_to("/dev/full", tiny);
  program_failed(1, "cannot write to standard output: No space left");
  run_to("/dev/full", help);
  program_failed(1, "cannot write to standard output: No space left");
}

/* As `| head` leaves it: no message, and the status that a shell has for who dies of SIGPIPE. */
TEST(a_closed_pipe_is_no_message) {
  const char *const runs[][24] = {
      {TINY, "--epochs", "3"},
      {"--help"},
      {TINY, "--epochs", "3", "--save", "piped.st"},
      {"--load", "piped.st", "--device", "cpu", "--predict", "test.csv"},
      {"--load", "piped.st", "--device", "cpu", "--evaluate", "--test", "test.csv"}};
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
    run_to(NULL, runs[i]);
    assert_string_equal(program.error, "");
    assert_int_equal(program.status, 128 + SIGPIPE);
  }
  RUN_WELL(TINY, "--epochs", "3", "--save", "twin.st");
  program_same_files("piped.st", "twin.st"); /* it was trained and saved all the same */
}

TEST(outputs_are_confirmed) {
  RUN_WELL(TINY, "--epochs", "2", "--save", "a.st", "--log", "a.csv", "--plot", "a b.png",
           "--weights", "w.png", "--confusion", "c.png");
  static const char *const names[] = {"a.st", "a.csv", "a b.png", "w.png", "c.png"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char line[64];
    snprintf(line, sizeof line, "^wrote    %s$", names[i]);
    assert_int_equal(program_lines(line), 1);
  }
  assert_int_equal(program_lines("^wrote "), 5);
  RUN_WELL("--load", "a.st", "--device", "cpu", "--predict", "test.csv", "--output", "p.csv");
  assert_string_equal(program.out, "wrote    p.csv\n");
  RUN_WELL("--load", "a.st", "--device", "cpu", "--predict", "test.csv", "--output", "p.csv",
           "--quiet");
  assert_string_equal(program.out, "");
  RUN_WELL(TINY, "--epochs", "2", "--plot", "/dev/null");
  assert_int_equal(program_lines("^wrote "), 0);
}

/* Before training, by the ending alone. */
TEST(a_name_that_promises_another_format_is_refused) {
  static const struct {
    const char *option, *name, *says;
  } wrong[] = {
      {"--save", "a.pt", ".safetensors or .st, not 'a.pt'; docs/formats.md has the lines"},
      {"--save", "a.pth", "docs/formats.md"},
      {"--save", "a.onnx", ".safetensors or .st, not 'a.onnx'"},
      {"--plot", "a.pdf", ".png, not 'a.pdf'; ImageMagick converts it"},
      {"--plot", "curves", ".png, not 'curves'"},
      {"--weights", "a.jpg", ".png, not 'a.jpg'; ImageMagick converts it"},
      {"--mistakes", "a.png/b", ".png, not 'a.png/b'"},
      {"--confusion", ".png", ".png, not '.png'"},
      {"--log", "run.txt", ".jsonl or .csv, not 'run.txt'"},
      {"--log", "run", ".jsonl or .csv, not 'run'"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    RUN(TINY, wrong[i].option, wrong[i].name);
    assert_int_equal(program.status, 2);
    program_said(wrong[i].says);
    assert_string_equal(program.out, "");
  }
  RUN(TINY, "--epochs", "1", "--save", "a.st");
  RUN("--load", "a.st", "--predict", "test.csv", "--output", "a.json");
  assert_int_equal(program.status, 2);
  program_said("--output writes a file that ends in .csv, not 'a.json'");
  RUN_WELL(TINY, "--epochs", "1", "--save", "dir.name.st");
  RUN_WELL(TINY, "--epochs", "1", "--save", ".hidden");
}

/* ---- what a run leaves -------------------------------------------------------------------- */

TEST(early_stop_ends_with_its_line) {
  RUN_WELL(TINY, "--epochs", "1000", "--early-stop", "3", "--save", "early.safetensors");
  Checkpoint saved;
  Error error;
  assert_true(checkpoint_load(&saved, "early.safetensors", &error));
  assert_in_range(saved.epoch, 4, 999);
  assert_int_equal(saved.best_epoch, saved.epoch - 3);
  assert_int_equal(program_lines("^epoch "), saved.epoch);
  char line[128];
  snprintf(line, sizeof line, "^stopped  epoch %d is still the best, 3 epochs later$",
           saved.best_epoch);
  assert_int_equal(program_lines(line), 1);
  assert_int_equal(program_lines("^total "), 1);
  checkpoint_free(&saved);
  RUN_WELL(TINY, "--epochs", "3", "--early-stop", "3");
  assert_int_equal(program_lines("^stopped"), 0);
}

/* The object in a line of text, which is moved to the next. */
static json_t *next_object(char **text) {
  char *end = strchr(*text, '\n');
  assert_non_null(end);
  json_t *object = json_loadb(*text, (size_t)(end - *text), JSON_REJECT_DUPLICATES, NULL);
  assert_true(json_is_object(object));
  *text = end + 1;
  return object;
}

static const char *text_of(const json_t *object, const char *name) {
  const char *text = json_string_value(json_object_get(object, name));
  if (!text) fail_msg("the log has no %s", name);
  return text;
}

static double number_of(const json_t *object, const char *name) {
  assert_true(json_is_number(json_object_get(object, name)));
  return json_number_value(json_object_get(object, name));
}

TEST(log_has_every_option_and_epoch) {
  RUN_WELL(TINY, "--epochs", "3", "--lr", "0.25", "--lr-schedule", "linear", "--log", "run.jsonl");
  const OptionRow *rows = options_table.rows;
  const size_t count = options_table.count;
  char *text = program_read("run.jsonl", NULL), *line = text;
  json_t *header = next_object(&line);
  for (size_t i = 0; i < count; i++)
    if (rows[i].initial) {
      char name[64];
      snprintf(name, sizeof name, "%s", rows[i].name);
      for (char *c = name; *c; c++)
        if (*c == '-') *c = '_';
      if (!json_object_get(header, name)) fail_msg("the log has no %s", name);
    }
  assert_string_equal(text_of(header, "version"), MLP_TRAIN_VERSION);
  assert_memory_equal(text_of(header, "device_in_use"), "CPU, 1 thread", 13);
  assert_string_equal(text_of(header, "hidden"), "4");
  assert_true(number_of(header, "lr") == 0.25);
  assert_true(number_of(header, "batch") == 8);
  assert_true(json_is_false(json_object_get(header, "quiet")));
  assert_string_equal(text_of(header, "lr_schedule"), "linear");
  assert_string_equal(text_of(header, "train"), "train.csv");
  assert_string_equal(text_of(header, "log"), "run.jsonl");
  json_decref(header);
  for (int epoch = 1; epoch <= 3; epoch++) {
    json_t *object = next_object(&line);
    char expected[64]; /* the log says what the program printed */
    assert_true(number_of(object, "epoch") == epoch);
    assert_true((float)number_of(object, "learning_rate") == (float)(0.25 * (4 - epoch) / 3));
    assert_true(number_of(object, "train_rows") == 300);
    assert_true(number_of(object, "test_rows") == 50);
    snprintf(expected, sizeof expected, "^epoch %d/3  %6.4f  [0-9. ]+%%  +%6.4f ", epoch,
             number_of(object, "train_loss"), number_of(object, "test_loss"));
    assert_int_equal(program_lines(expected), 1);
    json_decref(object);
  }
  assert_string_equal(line, "");
  free(text);
}

TEST(a_log_may_be_csv) {
  RUN_WELL(TINY, "--epochs", "2", "--log", "run.csv");
  char *text = program_read("run.csv", NULL);
  assert_memory_equal(text, "epoch,epochs,train_loss,", 24); /* as every reader of CSV wants it */
  int lines = 0;
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
    if (++lines == 3) assert_memory_equal(line, "2,2,", 4);
  assert_int_equal(lines, 3);
  free(text);
}

TEST(dry_run_comes_back) {
  static const char *const all[] = {"--hidden",
                                    "7,5",
                                    "--classes",
                                    "3",
                                    "--epochs",
                                    "12",
                                    "--batch",
                                    "33",
                                    "--lr",
                                    "0.012",
                                    "--momentum",
                                    "0.5",
                                    "--optimizer",
                                    "adamw",
                                    "--beta1",
                                    "0.8",
                                    "--beta2",
                                    "0.99",
                                    "--epsilon",
                                    "1e-6",
                                    "--dropout",
                                    "0.1,0.25",
                                    "--ema",
                                    "0.99",
                                    "--label-smoothing",
                                    "0.25",
                                    "--lr-decay",
                                    "0.9",
                                    "--weight-decay",
                                    "1e-4",
                                    "--warmup",
                                    "2",
                                    "--early-stop",
                                    "9",
                                    "--lr-schedule",
                                    "cosine",
                                    "--augment",
                                    "rotate,elastic",
                                    "--seed",
                                    "77",
                                    "--train",
                                    "a b",
                                    "--test",
                                    "c=d.csv",
                                    "--pixel-max",
                                    "auto",
                                    "--mean",
                                    "0.25",
                                    "--std",
                                    "0.5",
                                    "--validation",
                                    "0.25",
                                    "--resident",
                                    "no",
                                    "--device",
                                    "cpu",
                                    "--device-memory",
                                    "5",
                                    "--fusion",
                                    "layer",
                                    "--precision",
                                    "tf32",
                                    "--threads",
                                    "2",
                                    "--quiet",
                                    "--log",
                                    "l.jsonl",
                                    "--plot",
                                    "p.png",
                                    "--weights",
                                    "w.png",
                                    "--mistakes",
                                    "m.png",
                                    "--confusion",
                                    "c.png",
                                    "--save",
                                    "s.safetensors",
                                    "--confidence",
                                    "0.25",
                                    "--dry-run",
                                    NULL};
  run_to("first.conf", all);
  assert_int_equal(program.status, 0);
  RUN_WELL("--dry-run", "--config", "first.conf");
  program_same_files(PROGRAM_OUT, "first.conf");
  RUN_WELL("--dry-run"); /* no key has its default in the file: none can have been left out */
  char *text = program_read("first.conf", NULL);
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
    char own[256];
    if (*line == '[') continue;
    snprintf(own, sizeof own, "\n%s\n", line);
    if (strstr(program.out, own)) fail_msg("%s is the default", line);
  }
  free(text);
}

TEST(a_config_is_its_options) {
  run_to("tiny.conf", (const char *const[]){TINY, "--epochs", "2", "--lr-schedule", "cosine",
                                            "--dry-run", NULL});
  assert_int_equal(program.status, 0);
  RUN_WELL("--config", "tiny.conf", "--save", "by_config.safetensors");
  RUN_WELL(TINY, "--epochs", "2", "--lr-schedule", "cosine", "--save", "by_words.safetensors");
  program_same_files("by_config.safetensors", "by_words.safetensors");
}
