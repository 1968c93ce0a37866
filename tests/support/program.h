/* mlp-train as a process, in a folder of its own. For tests only: what goes wrong here fails the
   running cmocka test. The Makefile builds the program first and says in which folder it is. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "data/digits.h"
#include "model/checkpoint.h"

/* Of cmocka groups: a new folder with train.csv (300 rows) and test.csv (50) of program_write_csv,
   which becomes the working folder of the tests and of the program; and its removal. */
int program_open(void **state);
int program_close(void **state);

/* Rows of two pixels, labelled 1 where the first is the brighter; a bad one at line `bad`, 0: none.
 */
void program_write_csv(const char *path, int rows, int bad);

/* Rows of digits.h, which take 784 pixels; `labelled`: with their labels. */
void program_write_digits(const char *path, DigitsSeries series, int rows, bool labelled);

/* Options of a run on those files that takes a millisecond. */
#define TINY                                                                                       \
  "--device", "cpu", "--threads", "1", "--classes", "2", "--hidden", "4", "--batch", "8",          \
      "--train", "train.csv", "--test", "test.csv"

/* What the last program that ended has left. */
typedef struct {
  int status; /* exit status, or -N: signal N ended it */
  char out[1 << 20], error[4096];
} Program;

extern Program program;

/* The program as it is called: its absolute path. */
extern char program_called[4200];

/* Starts the program with arguments that end with NULL. Its standard output goes to the file
   `output`, or where that is NULL to a pipe that nobody reads. */
pid_t program_start(const char *output, const char *const *arguments);

/* Waits for it to end. program.out is "" unless `output` is PROGRAM_OUT. */
void program_end(pid_t process, const char *output);

#define PROGRAM_OUT "out"
#define START(...) program_start(PROGRAM_OUT, (const char *const[]){__VA_ARGS__, NULL})
#define RUN(...) program_end(START(__VA_ARGS__), PROGRAM_OUT)

/* RUN of a program that is to read the pipe "fifo", which is made and holds two rows. */
#define RUN_ON_PIPE(...) program_run_on_pipe((const char *const[]){__VA_ARGS__, NULL})
void program_run_on_pipe(const char *const *arguments);

/* START's program has printed lines that begin with `start`, `count` of them or more; false if it
   ended before. Waits for either. */
bool program_printed(pid_t process, const char *start, int count);

/* RUN that succeeds and complains of nothing. */
#define RUN_WELL(...)                                                                              \
  do {                                                                                             \
    RUN(__VA_ARGS__);                                                                              \
    assert_string_equal(program.error, "");                                                        \
    assert_int_equal(program.status, 0);                                                           \
  } while (0)

/* What the program said on standard error has `expected` in it. */
void program_said(const char *expected);

/* The program's exit status was `status`, and all that it said is one line, which has `expected`
   in it. */
void program_failed(int status, const char *expected);

/* Lines of program.out that match the extended regular expression. */
int program_lines(const char *pattern);

/* A whole file, with a 0 behind its end; size may be NULL. The caller frees it. */
char *program_read(const char *path, size_t *size);

/* Both files are the same, byte for byte. */
void program_same_files(const char *path, const char *other);

/* The checkpoint in a file, which can be loaded; the caller frees it. */
Checkpoint program_checkpoint(const char *path);

/* Two files hold the same network, bit for bit, and the same accuracies. */
void program_same_networks(const char *path, const char *other);

#endif
