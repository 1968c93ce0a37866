/* What signals do to mlp-train where a shell cannot see it: a pipe that is full, and which signal
   ended the process. tests/scenarios/signals.sh has the rest. */
#define _GNU_SOURCE /* F_SETPIPE_SZ */
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "support/folder.h"
#include "support/process.h"

/* From the signal to the end: 2 seconds are promised, on a machine that does nothing else. */
enum { PATIENCE = 20 };

#define RUN "exec \"$P\" --device cpu --threads 1 2>err "
#define TRAIN RUN "--classes 2 --train long.csv --test few.csv --hidden "
#define PREDICT RUN "--load slow.st --predict long.csv --output predictions.csv"

static void write_rows(const char *path, int rows) {
  FILE *file = folder_create(path);
  for (int row = 0; row < rows; row++)
    fprintf(file, "%d,%d,%d\n", row % 2, row % 256, (row * 31 + row % 2 * 100) % 256);
  close_file(file);
}

static int open_folder(void **state) {
  set_variable("P", keep(realpath(PROGRAM_FOLDER "/mlp-train", NULL)));
  assert_int_equal(folder_enter(state), 0);
  write_rows("long.csv", 20000);
  write_rows("few.csv", 50);
  return 0;
}

/* Starts a shell command that begins with exec. */
static pid_t start(const char *command) {
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    signal(SIGINT, SIG_DFL); /* a shell may have them ignored */
    signal(SIGTERM, SIG_DFL);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
  }
  return child;
}

static void wait_a_moment(long milliseconds) {
  nanosleep(&(struct timespec){.tv_nsec = milliseconds * 1000000}, NULL);
}

static bool file_says(const char *path, const char *text) {
  return strstr((char *)read_content(path).bytes, text);
}

TESTS_WITH(open_folder, folder_close);

/* Standard output is a pipe that is open and never read: it fills up. */
TEST(a_reader_that_has_stopped) {
  enum { CAPACITY = 8192 };
  assert_int_equal(mkfifo("fifo", 0600), 0);
  const int reader = open("fifo", O_RDWR);
  assert_int_equal(fcntl(reader, F_SETPIPE_SZ, CAPACITY), CAPACITY);
  foreach (number, VALUES(int, SIGINT, SIGTERM)) {
    const pid_t process = start(TRAIN "4 --train few.csv --epochs 1000000 --save unread.st >fifo");
    for (int before, now = 0; now < CAPACITY / 4 || now != before;) {
      before = now;
      wait_a_moment(100);
      assert_int_equal(ioctl(reader, FIONREAD, &now), 0);
    }
    const double since = seconds_now();
    assert_int_equal(kill(process, *number), 0);
    assert_int_equal(process_status(process), 128 + *number);
    assert_true(seconds_now() - since < PATIENCE);
    assert_true(file_says("err", " --resume unread.st\n"));
    assert_int_equal(remove("unread.st"), 0);
    char lines[CAPACITY];
    assert_true(read(reader, lines, sizeof lines) > 0);
  }
  close(reader);
}

/* The first epoch's first buffer takes seconds: a signal has to wait for it, a second one has not.
 */
TEST(a_second_signal_kills) {
  static const int signals[][2] = {{SIGINT, SIGINT}, {SIGTERM, SIGINT}, {SIGINT, SIGTERM}};
  foreach (pair, signals) {
    remove("out");
    const pid_t process = start(TRAIN "700,700 --batch 1 --save slow.st >out");
    while (!file_says("out", "data ")) wait_a_moment(1);
    assert_int_equal(kill(process, (*pair)[0]), 0);
    siginfo_t ended = {0};
    while (!ended.si_pid) {
      wait_a_moment(20); /* two signals at the same time could be taken for one */
      kill(process, (*pair)[1]);
      assert_int_equal(waitid(P_PID, (id_t)process, &ended, WEXITED | WNOHANG | WNOWAIT), 0);
    }
    assert_int_equal(process_status(process), -(*pair)[1]);
    assert_int_equal(access("slow.st", F_OK), -1);
  }
}

static bool is_there(const char *pattern) {
  glob_t found;
  const int status = glob(pattern, 0, NULL, &found);
  if (status == 0) globfree(&found);
  return status == 0;
}

/* Both come before it has answered the first. */
TEST(a_second_signal_leaves_no_temporary_file) {
  assert_int_equal(
      process_status(start(TRAIN "2000,2000 --train few.csv --epochs 1 --save slow.st >out")), 0);
  const pid_t process = start(PREDICT);
  while (!is_there("predictions.csv.tmp.*")) wait_a_moment(1);
  wait_a_moment(20);
  assert_int_equal(kill(process, SIGINT), 0);
  assert_int_equal(kill(process, SIGTERM), 0);
  const int status = process_status(process);
  assert_true(status == -SIGTERM || status == -SIGINT);
  assert_false(is_there("*.tmp.*"));
}
