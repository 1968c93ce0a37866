/* Programs as ranks under mpirun. For tests only: what goes wrong here fails the running cmocka
   test. */
#ifndef MPIRUN_H
#define MPIRUN_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "support/program.h"

enum { MOST_RANKS = 4 }; /* of a test */

/* Of the running tests: an absolute path. */
extern char mpirun_own_path[PATH_MAX];

/* Finds mpirun, and tells it to allow more ranks than cores, and root, and to say nothing. To be
   called once, before the tests. False: these tests have no path. */
bool mpirun_find(void);

/* Skip the running test, with a line why, where there is no mpirun or no MPI to build with, or
   where there are no two GPUs. Returns how many GPUs there are, at most MOST_RANKS. */
void needs_mpi(void);
int needs_gpus(void);

/* Starts `ranks` processes of the program `path` under mpirun; arguments end with NULL. */
pid_t mpirun_start(int ranks, const char *path, const char *const *arguments);

#define START_RANKS(ranks, ...)                                                                    \
  mpirun_start(ranks, program_called, (const char *const[]){__VA_ARGS__, NULL})
#define RUN_RANKS(ranks, ...) program_end(START_RANKS(ranks, __VA_ARGS__), PROGRAM_OUT)
#define RUN_RANKS_WELL(ranks, ...)                                                                 \
  do {                                                                                             \
    RUN_RANKS(ranks, __VA_ARGS__);                                                                 \
    assert_string_equal(program.error, "");                                                        \
    assert_int_equal(program.status, 0);                                                           \
  } while (0)

#endif
