/* The ranks of a run: processes that train one network together, each on its own rows of every
   step.

   A launcher starts them, mpirun or `srun --mpi=pmix`, and they communicate by MPI. MPI is not part
   of this program but of libmlp-ranks.so, which is loaded only if there is a launcher. A single
   process has no Ranks: every function here accepts NULL and then has nothing to do.

   All ranks call the functions that communicate in the same order. Such a call fails if another
   rank of this host has ended, or if a signal came and the other ranks do not answer within some
   seconds. The error names the missing rank. After that, only ranks_abort may be called. */
#pragma once

#include <stddef.h>

#include "base/error.h"

typedef struct Ranks Ranks;

/* Returns true if a launcher started this process as one of several. */
bool ranks_launched(void);

/* Returns the number that the launcher gave this process, from 0, even if ranks_open failed. */
int ranks_launched_as(void);

/* Loads MPI and meets the other ranks. Returns NULL on failure: MPI is missing, or the launcher
   belongs to another MPI. */
Ranks *ranks_open(Error *error);

/* Waits for all ranks. `ranks` may be NULL. */
void ranks_close(Ranks *ranks);

int ranks_number(const Ranks *ranks);         /* this process's number, from 0 */
int ranks_count(const Ranks *ranks);          /* 1 for NULL */
int ranks_number_on_host(const Ranks *ranks); /* this process's number on its host, from 0 */
int ranks_hosts(const Ranks *ranks);

/* Returns the cores that this process may use. Ranks share the cores of their host, unless the
   launcher has given each rank its own. */
int ranks_cores(const Ranks *ranks);

/* Replaces values[count] by their sums over all ranks. Each rank gets the same bits, because the
   ranks' values are added in the order of ranks. The count of floats must be a multiple of the
   number of ranks. */
bool ranks_sum_floats(Ranks *ranks, float *values, size_t count, Error *error);
bool ranks_sum_doubles(Ranks *ranks, double *values, size_t count, Error *error);

/* Replaces `size` bytes by the bytes of rank 0. */
bool ranks_broadcast(Ranks *ranks, void *bytes, size_t size, Error *error);

/* Returns (ranks, size): the `size` bytes of every rank. The caller frees them. NULL on failure. */
void *ranks_gather(Ranks *ranks, const void *mine, size_t size, Error *error);

/* Asks whether any rank got a signal that ends runs (interrupt.h). Sets *signal to the signal's
   number, or 0, and *number to the first rank that got it. */
bool ranks_interrupted(Ranks *ranks, int *signal, int *number, Error *error);

/* Returns true if no rank is known to be missing. It is for callers that wait for other ranks in
   another way. It is cheap, since it looks only fifty times a second. waited: when the wait began,
   in seconds_now. */
bool ranks_go_on(Ranks *ranks, double waited, Error *error);

/* Ends all ranks. A rank that failed calls it. */
void ranks_abort(Ranks *ranks, int status) __attribute__((noreturn));

/* Decides whether this rank, which failed, reports why. Returns true if it does. The ranks before
   it may have failed for the same reason; they get a second to report it and to end this process.
   Only the first rank left on a host reports who is missing. */
bool ranks_may_speak(const Ranks *ranks);
