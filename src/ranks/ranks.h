/* The ranks of a run: processes that train one network together, each on its rows of every step.

   A launcher starts them, mpirun or `srun --mpi=pmix`, and MPI is how they meet. MPI is not part of
   this program but of libmlp-ranks.so, which is loaded only where a launcher is found. A process
   alone has no Ranks: every function here takes NULL for it and then has nothing to do.

   All ranks call the functions that communicate in the same order. Such a call fails, and says who
   is missing, where another rank of this host has ended or where a signal came and the others do
   not come within some seconds; then nothing is left but ranks_abort. */
#pragma once

#include <stddef.h>

#include "base/error.h"

typedef struct Ranks Ranks;

/* Returns true if a launcher started this process as one of several. */
bool ranks_launched(void);

/* Returns this process's number by the launcher, from 0, also if ranks_open failed. */
int ranks_launched_as(void);

/* Loads MPI and meets the others. NULL on failure: MPI is missing, or the launcher is not of this
   MPI. */
Ranks *ranks_open(Error *error);

/* Waits for all ranks. NULL is allowed. */
void ranks_close(Ranks *ranks);

int ranks_number(const Ranks *ranks);         /* this process's, from 0 */
int ranks_count(const Ranks *ranks);          /* 1 for NULL */
int ranks_number_on_host(const Ranks *ranks); /* this process's among those of its host, from 0 */
int ranks_hosts(const Ranks *ranks);

/* The cores that this process may use; ranks share those of their host, unless the launcher has
   given each its own. */
int ranks_cores(const Ranks *ranks);

/* values[count] become their sums over all ranks, the same bits on each: added in ranks' order. The
   count of floats must be a multiple of the number of ranks. */
bool ranks_sum_floats(Ranks *ranks, float *values, size_t count, Error *error);
bool ranks_sum_doubles(Ranks *ranks, double *values, size_t count, Error *error);

/* A few bytes, `size`, become those of rank 0. */
bool ranks_broadcast(Ranks *ranks, void *bytes, size_t size, Error *error);

/* Returns (ranks, size), the `size` bytes of every rank, to be freed. NULL on failure. */
void *ranks_gather(Ranks *ranks, const void *mine, size_t size, Error *error);

/* Asks whether a signal that ends runs (interrupt.h) came to any rank: *signal is its number, 0 for
   none, and *number the first rank that it came to. */
bool ranks_interrupted(Ranks *ranks, int *signal, int *number, Error *error);

/* Returns true if no rank is known to be missing. For callers that wait for others in another way:
   it is cheap and looks fifty times a second. waited: when the wait began, in seconds_now. */
bool ranks_go_on(Ranks *ranks, double waited, Error *error);

/* Ends all ranks. A rank that has failed calls it. */
void ranks_abort(Ranks *ranks, int status) __attribute__((noreturn));

/* Called where this rank has failed. True if it is to say why: the ranks before it, which may have
   failed for the same reason, were given a second to say so, and to end this process. Who is
   missing only the first rank says that is left on a host. */
bool ranks_may_speak(const Ranks *ranks);
