/* How runs of several ranks end, on the CPU and on GPUs: together, soon, with one sentence, and
   what was saved is whole. And what a process alone loads. Skipped where there is no mpirun, or no
   MPI to build with. */
#define _GNU_SOURCE
#include <signal.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/test.h"
#include "support/mpirun.h"
#include "support/process.h"

enum { PATIENCE = 10 }; /* seconds until all ranks of a failed run have ended */

#define DIGITS                                                                                     \
  "--device", "cpu", "--threads", "1", "--hidden", "24,17", "--batch", "29", "--train",            \
      "digits.csv", "--test", "digits_test.csv"

static int open_files(void **state) {
  program_open(state);
  program_write_digits("digits.csv", DIGITS_TRAIN, 389, true);
  program_write_digits("digits_test.csv", DIGITS_TEST, 61, true);
  return 0;
}

/* The process of a rank of mpirun's, once that rank is known to train. */
static pid_t process_of(pid_t launcher, int rank) {
  char path[64], number[40], text[16384];
  snprintf(number, sizeof number, "OMPI_COMM_WORLD_RANK=%d", rank);
  DIR *processes = opendir("/proc");
  pid_t found = 0;
  assert_non_null(processes);
  for (const struct dirent *entry; !found && (entry = readdir(processes));) {
    const int process = atoi(entry->d_name);
    snprintf(path, sizeof path, "/proc/%d/environ", process);
    const int file = process > 0 ? open(path, O_RDONLY) : -1;
    const ssize_t size = file >= 0 ? read(file, text, sizeof text - 1) : 0;
    if (file >= 0) close(file);
    for (ssize_t at = 0; at < size; at += (ssize_t)strlen(text + at) + 1) {
      text[size] = '\0';
      if (strcmp(text + at, number) == 0) found = process;
    }
    snprintf(path, sizeof path, "/proc/%d/stat", found);
    FILE *stat = found ? fopen(path, "r") : NULL;
    int ancestor = 0;
    if (stat && fscanf(stat, "%*d (%*[^)]) %*c %d", &ancestor) != 1) ancestor = 0;
    if (stat) fclose(stat);
    if (ancestor != launcher) found = 0;
  }
  closedir(processes);
  if (!found) fail_msg("mpirun has no rank %d", rank);
  return found;
}

/* The run failed with this status, and one rank said why: mpirun may say more. */
static void failed_once(int status, const char *sentence) {
  static const char start[] = "mlp-train: ";
  const char *first = strstr(program.error, start);
  program_said(sentence);
  if (!first || strstr(first + 1, start)) fail_msg("not said once: %s", program.error);
  assert_int_equal(program.status, status);
}

/* A run that would take hours, once it has saved its network. */
static pid_t start_long(int ranks, const char *device) {
  unlink("net");
  const pid_t process =
      START_RANKS(ranks, DIGITS, "--device", device, "--epochs", "1000000", "--save", "net");
  if (!program_printed(process, "epoch", 2)) fail_msg("the run ended: %s", program.error);
  return process;
}

static void end_soon(pid_t process) {
  const double start = seconds_now();
  program_end(process, PROGRAM_OUT);
  assert_true(seconds_now() - start < PATIENCE);
}

/* The network that it saved is whole: the run goes on from it. */
static void assert_whole(void) {
  Checkpoint saved = program_checkpoint("net");
  assert_true(saved.epoch >= 1);
  checkpoint_free(&saved);
}

/* Returns whether a rank said who is gone; that none said it twice is asserted. */
static bool kill_rank(int ranks, int rank, const char *device) {
  char sentence[64];
  const pid_t launcher = start_long(ranks, device), process = process_of(launcher, rank);
  snprintf(sentence, sizeof sentence, "rank %d, process %d on ", rank, (int)process);
  assert_int_equal(kill(process, SIGKILL), 0);
  end_soon(launcher);
  assert_whole();
  assert_true(program.status != 0);
  if (!strstr(program.error, "mlp-train: ")) return false;
  failed_once(program.status, sentence);
  return true;
}

/* Where a machine is overloaded, Open MPI may end ranks before they have looked. */
static void kill_each_rank(int ranks, const char *device) {
  for (int rank = 0; rank < ranks; rank++) {
    int tries = 0;
    while (tries < 3 && !kill_rank(ranks, rank, device)) tries++;
    if (tries == 3) fail_msg("nobody said that rank %d is gone", rank);
  }
}

TESTS_WITH(open_files, program_close);

TEST(a_rank_that_is_killed_ends_all) {
  needs_mpi();
  kill_each_rank(3, "cpu");
}

TEST(a_rank_that_is_killed_ends_all_on_gpus) {
  needs_mpi();
  kill_each_rank(needs_gpus(), "cuda");
}

TEST(a_signal_to_a_rank_ends_all) {
  needs_mpi();
  static const int signals[] = {SIGINT, SIGTERM};
  for (int i = 0; i < 2; i++) {
    const pid_t launcher = start_long(2, "cpu");
    assert_int_equal(kill(process_of(launcher, 1), signals[i]), 0);
    end_soon(launcher);
    failed_once(128 + signals[i], "rank 1 was interrupted ");
    program_said("--resume net");
    assert_whole();
  }
}

TEST(mpirun_can_be_interrupted) {
  needs_mpi();
  const pid_t launcher = start_long(2, "cpu");
  assert_int_equal(kill(launcher, SIGINT), 0);
  end_soon(launcher);
  assert_true(program.status != 0);
  assert_whole();
}

TEST(what_fails_is_said_once) {
  needs_mpi();
  setenv("OMPI_MCA_odls_base_sigkill_timeout", "0", 1); /* nobody has anything to save */
  RUN_RANKS(3, DIGITS, "--train", "nothing.csv");
  failed_once(1, "nothing.csv does not exist");
  RUN_RANKS(3, DIGITS, "--batch", "2");
  failed_once(1, "--batch 2 leaves some of 3 ranks without a row");
  assert_int_equal(mkfifo("fifo", 0600), 0);
  RUN_RANKS(2, DIGITS, "--train", "fifo");
  failed_once(1, "--train is not a file, but 2 ranks read it");
  RUN_RANKS(2, DIGITS, "--test", "fifo");
  failed_once(1, "--test is not a file, but 2 ranks read it");
  RUN_RANKS(2, "--load", "net", "--evaluate");
  failed_once(2, "--load is for one process");
  RUN_RANKS(2, DIGITS, "--tune", "rates.png");
  failed_once(2, "--tune is for one process");
  unsetenv("OMPI_MCA_odls_base_sigkill_timeout");
}

/* ---- what is loaded ------------------------------------------------------------------------- */

/* Whether the loader of libraries was asked for one whose name has this in it. */
static bool was_loaded(const char *library) {
  char *text = program_read("loaded", NULL);
  const bool found = strstr(text, library) != NULL;
  free(text);
  return found;
}

TEST(a_process_alone_loads_no_mpi) {
  char output[256];
  const int status = process_run(output, sizeof output,
                                 "LD_DEBUG=files '%s' --device cpu --train digits.csv --test none "
                                 "--epochs 1 2>loaded >/dev/null",
                                 program_called);
  assert_int_equal(status, 0);
  assert_true(was_loaded("libjansson"));
  assert_false(was_loaded("libmlp-ranks") || was_loaded("libmpi") || was_loaded("libnccl"));
  needs_mpi();
  setenv("LD_DEBUG", "files", 1);
  setenv("LD_DEBUG_OUTPUT", "debug", 1);
  RUN_RANKS(2, "--help");
  unsetenv("LD_DEBUG");
  unsetenv("LD_DEBUG_OUTPUT");
  assert_int_equal(process_run(output, sizeof output, "cat debug.* >loaded && rm debug.*"), 0);
  assert_true(was_loaded("libmlp-ranks") && was_loaded("libmpi"));
}

/* A program that stands alone has no library to load. */
TEST(a_program_without_mpi_says_so) {
  char output[1024];
  const int status = process_run(
      output, sizeof output,
      "cp '%s' program && OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0 ./program", program_called);
  if (status == 126) {
    print_message("nothing may run in the folder for temporary files\n");
    skip();
  }
  assert_int_equal(status, 1);
  assert_non_null(strstr(output, "a launcher started 4 processes, but this program was built "
                                 "without MPI: `make setup MPI=1`"));
}

int main(void) {
  if (!mpirun_find()) return 1;
  return tests_run();
}
