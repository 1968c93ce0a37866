/* One signal ends mlp-train in any state, and what was trained is saved; a second one ends it at
   once and leaves no temporary file. */
#define _GNU_SOURCE /* F_SETPIPE_SZ */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "model/checkpoint.h"
#include "support/test.h"
#include "support/program.h"

/* From the signal to the end: 2 seconds are promised, on a machine that does nothing else. */
enum { PATIENCE = 20 };

static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static int open_folder(void **state) {
  program_open(state);
  program_write_csv("long.csv", 20000, 0);
  assert_int_equal(mkfifo("fifo", 0600), 0);
  RUN_WELL(TINY, "--epochs", "1", "--save", "net");
  return 0;
}

static void wait_a_moment(long milliseconds) {
  nanosleep(&(struct timespec){.tv_nsec = milliseconds * 1000000}, NULL);
}

/* Ends the program, whose standard output is `output`, by the signal: it says so in one sentence.
 */
static void interrupt_output(pid_t process, const char *output, int number, const char *sentence) {
  const double start = seconds_now();
  assert_int_equal(kill(process, number), 0);
  program_end(process, output);
  assert_true(seconds_now() - start < PATIENCE);
  program_failed(128 + number, sentence);
}

static void interrupt(pid_t process, int number, const char *sentence) {
  interrupt_output(process, PROGRAM_OUT, number, sentence);
}

/* The process has opened the file: Linux shows it. */
static void wait_for_open(pid_t process, const char *name) {
  for (;;) {
    char folder[64], path[128], target[512];
    snprintf(folder, sizeof folder, "/proc/%ld/fd", (long)process);
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));) {
      snprintf(path, sizeof path, "%s/%.20s", folder, entry->d_name);
      const ssize_t length = readlink(path, target, sizeof target - 1);
      if (length > 0 && (target[length] = '\0', strstr(target, name))) {
        closedir(directory);
        wait_a_moment(20);
        return;
      }
    }
    closedir(directory);
    wait_a_moment(1);
  }
}

/* The process has a handler for the signal: Linux shows it. */
static void wait_for_handler(pid_t process, int number) {
  unsigned long long caught = 0;
  while (!(caught >> (number - 1) & 1)) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%ld/status", (long)process);
    FILE *status = fopen(path, "r");
    assert_non_null(status);
    while (fgets(line, sizeof line, status)) sscanf(line, "SigCgt: %llx", &caught);
    fclose(status);
    wait_a_moment(1);
  }
}

TESTS_WITH(open_folder, program_close);

/* Nobody ever writes to it. */
TEST(a_pipe_that_sends_nothing) {
  for (int i = 0; i < NUMBERS; i++) {
    const pid_t runs[] = {START(TINY, "--train", "fifo"), START(TINY, "--test", "fifo"),
                          START("--load", "net", "--device", "cpu", "--predict", "fifo")};
    for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
      wait_for_open(runs[r], "/fifo");
      interrupt(runs[r], numbers[i], "interrupted");
    }
  }
}

/* The network is trained and saved: there is nothing to resume, only to test. */
TEST(the_test_after_the_last_epoch) {
  const pid_t saved =
      START(TINY, "--validation", "0.2", "--test", "fifo", "--epochs", "1", "--save", "trained.st");
  wait_for_open(saved, "/fifo");
  interrupt(saved, SIGINT, " --load trained.st --evaluate --test fifo tests it");
  RUN_WELL("--load", "trained.st", "--device", "cpu", "--evaluate", "--test", "test.csv");
  const pid_t lost = START(TINY, "--validation", "0.2", "--test", "fifo", "--epochs", "1");
  wait_for_open(lost, "/fifo");
  interrupt(lost, SIGINT, "interrupted after the last epoch: the network is lost");
}

/* Somebody writes more than a staging buffer of it, and no more. */
TEST(a_pipe_that_stops_in_the_middle) {
  const pid_t process =
      START(TINY, "--train", "fifo", "--resident", "no", "--epochs", "1", "--save", "half.st");
  const int writer = open("fifo", O_WRONLY);
  assert_true(writer >= 0);
  for (int i = 0; i < 200000; i++) /* the pipe takes a few thousand at a time */
    assert_int_equal(write(writer, "1,200,100\n", 10), 10);
  interrupt(process, SIGINT, " --resume half.st");
  close(writer);
  assert_int_equal(access("half.st", F_OK), 0);
}

/* An epoch of it takes minutes. */
TEST(a_wide_network_in_the_middle_of_an_epoch) {
  for (int i = 0; i < NUMBERS; i++) {
    const pid_t process =
        START(TINY, "--hidden", "2000,2000", "--train", "long.csv", "--save", "wide.st");
    assert_true(program_printed(process, "data ", 1));
    wait_a_moment(50);
    interrupt(process, numbers[i], " --resume wide.st");
    Checkpoint saved;
    Error error;
    if (!checkpoint_load(&saved, "wide.st", &error)) fail_msg("%s", error.text);
    assert_int_equal(saved.epoch, 0);
    assert_in_range(saved.step, 1, 2500);
    checkpoint_free(&saved);
  }
}

/* Standard output is a pipe that is open and never read: it fills up. */
TEST(a_reader_that_has_stopped) {
  enum { CAPACITY = 8192 };
  const int reader = open("fifo", O_RDWR);
  assert_int_equal(fcntl(reader, F_SETPIPE_SZ, CAPACITY), CAPACITY);
  for (int i = 0; i < NUMBERS; i++) {
    const char *const arguments[] = {TINY, "--epochs", "1000000", "--save", "unread.st", NULL};
    const pid_t process = program_start("fifo", arguments);
    for (int before, now = 0; now < CAPACITY / 4 || now != before;) {
      before = now;
      wait_a_moment(100);
      assert_int_equal(ioctl(reader, FIONREAD, &now), 0);
    }
    interrupt_output(process, "fifo", numbers[i], " --resume unread.st");
    assert_int_equal(access("unread.st", F_OK), 0);
    remove("unread.st");
    char lines[CAPACITY];
    assert_true(read(reader, lines, sizeof lines) > 0);
  }
  close(reader);
}

/* Outputs that are pipes which nobody opens. */
TEST(a_reader_that_never_comes) {
  assert_int_equal(mkfifo("log.jsonl", 0600), 0);
  const pid_t runs[] = {
      START(TINY, "--log", "log.jsonl"),
      START("--load", "net", "--device", "cpu", "--predict", "test.csv", "--output", "fifo")};
  for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) wait_for_handler(runs[r], SIGINT);
  wait_a_moment(300); /* by now they wait */
  for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) interrupt(runs[r], SIGINT, "interrupted");
}

TEST(an_evaluation) {
  RUN_WELL(TINY, "--hidden", "2000,2000", "--epochs", "1", "--train", "test.csv", "--save",
           "slow.st");
  const pid_t process = START("--load", "slow.st", "--device", "cpu", "--threads", "1", "--predict",
                              "long.csv", "--output", "predictions.csv");
  wait_for_open(process, "/predictions.csv.tmp.");
  interrupt(process, SIGTERM, "interrupted");
  assert_int_equal(access("predictions.csv", F_OK), -1);
}

static bool is_there(const char *part) {
  bool found = false;
  DIR *directory = opendir(".");
  assert_non_null(directory);
  for (struct dirent *entry; (entry = readdir(directory));)
    found = found || strstr(entry->d_name, part);
  closedir(directory);
  return found;
}

/* Both come before it has answered the first. */
TEST(a_second_signal_ends_at_once) {
  const pid_t process = START("--load", "slow.st", "--device", "cpu", "--threads", "1", "--predict",
                              "long.csv", "--output", "predictions.csv");
  wait_for_open(process, "/predictions.csv.tmp.");
  assert_true(is_there(".tmp."));
  assert_int_equal(kill(process, SIGINT), 0);
  assert_int_equal(kill(process, SIGTERM), 0);
  program_end(process, PROGRAM_OUT);
  assert_true(program.status == -SIGTERM || program.status == -SIGINT);
  assert_false(is_there(".tmp."));
}

/* nohup has it ignored. */
TEST(an_ignored_signal_stays_ignored) {
  signal(SIGHUP, SIG_IGN);
  const pid_t process = START(TINY, "--train", "fifo");
  signal(SIGHUP, SIG_DFL);
  wait_for_open(process, "/fifo");
  assert_int_equal(kill(process, SIGHUP), 0);
  wait_a_moment(50);
  assert_int_equal(waitpid(process, NULL, WNOHANG), 0);
  interrupt(process, SIGINT, "interrupted");
}
