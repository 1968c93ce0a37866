/* The ranks of a run are processes that train one network together. In every step, each rank takes
   a part of the step's rows.

   A launcher (mpirun or `srun --mpi=pmix`) starts the ranks, which communicate by MPI. Only
   libmlp-ranks.so uses MPI; the program loads it only if there is a launcher. A single process has
   no Ranks: every function here accepts NULL and then does nothing.

   All ranks must call the communicating functions in the same order. Such a call fails if another
   rank of this host has ended, or if a signal came and other ranks do not answer for five seconds.
   The error names the rank that has ended. After a failure, call only ranks_abort. */
#pragma once

#include <stddef.h>

#include "base/error.h"

typedef struct Ranks Ranks;

/* Returns true if a launcher started this process as one of several ranks. */
bool ranks_launched(void);

/* Returns this process's number, from 0, as set by the launcher. Needs no ranks_open. */
int ranks_launched_as(void);

/* Loads MPI and connects to the other ranks. Returns NULL if MPI is missing or if the launcher
   belongs to another MPI. */
Ranks *ranks_open(Error *error);

/* Waits for all ranks, then ends the communication. */
void ranks_close(Ranks *ranks);

int ranks_number(const Ranks *ranks);         /* this process's number, from 0 */
int ranks_count(const Ranks *ranks);          /* 1 for NULL */
int ranks_number_on_host(const Ranks *ranks); /* this process's number on its host, from 0 */
int ranks_hosts(const Ranks *ranks);

/* Returns the number of cores that this process may use. Ranks share the cores of their host,
   unless the launcher has given each rank its own cores. */
int ranks_cores(const Ranks *ranks);

/* Replaces values[count] by their sums over all ranks. Each rank gets the same bits, because the
   ranks' values are added in the order of ranks. For ranks_sum_floats, `count` must be a multiple
   of the number of ranks. */
bool ranks_sum_floats(Ranks *ranks, float *values, size_t count, Error *error);
bool ranks_sum_doubles(Ranks *ranks, double *values, size_t count, Error *error);

/* Replaces `size` bytes on every rank by the bytes of rank 0. */
bool ranks_broadcast(Ranks *ranks, void *bytes, size_t size, Error *error);

/* Returns an array (ranks, size) with the `size` bytes of every rank, or NULL on failure. The
   caller frees the array. */
void *ranks_gather(Ranks *ranks, const void *mine, size_t size, Error *error);

/* Finds out whether any rank got a signal that ends runs (interrupt.h). If so, sets *number to the
   lowest such rank and *signal to its signal. If not, sets *signal to 0. */
bool ranks_interrupted(Ranks *ranks, int *signal, int *number, Error *error);

/* Returns false if a rank is missing, or if a signal came and the wait has lasted five seconds.
   Code that waits for ranks in a loop of its own must call this function in the loop. At most 50
   calls per second check; the others return at once. `waited` is the wait's start (seconds_now). */
bool ranks_go_on(Ranks *ranks, double waited, Error *error);

/* Ends all ranks. A rank calls this when it has failed. */
void ranks_abort(Ranks *ranks, int status) __attribute__((noreturn));

/* A rank that failed calls this. Returns true if this rank must report the reason. Lower ranks may
   have failed for the same reason, so this call first gives them a second to report it.
   On each host, only the first rank that is left there reports a missing rank. */
bool ranks_may_speak(const Ranks *ranks);
