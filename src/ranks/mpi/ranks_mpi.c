/* libmlp-ranks.so: the communication of ranks by MPI. The program loads this library only if a
   launcher started it, so a single process neither needs MPI nor waits for MPI to load. */
#include "ranks/ranks_mpi.h"

#include <mpi.h>
#include <sched.h>
#include <stdlib.h>

enum {
  SPINS = 2000, /* polls before the thread yields its core, because ranks may share cores */
  LOOKS = 64,   /* polls between two calls of RanksWait */
};

static int number, count;
static RanksWait *wait;
static void *context; /* the argument of wait */
static float *parts;  /* (room): values received for a sum; reused by the next sum */
static size_t room;

/* Waits for a request by polling. A blocking wait would not notice that a rank has ended. */
static bool wait_for(MPI_Request *request) {
  for (unsigned look = 1;; look++) {
    int done;
    MPI_Test(request, &done, MPI_STATUS_IGNORE);
    if (done) return true;
    if (look > SPINS) sched_yield();
    if (look % LOOKS == 0 && !wait(context)) return false;
  }
}

static void open_mpi(int *my_number, int *of, RanksWait *asked, void *asked_context) {
  wait = asked;
  context = asked_context;
  int provided;
  MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &number);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  *my_number = number;
  *of = count;
}

// NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker): it does not know that wait_for completes a
// request

/* Each rank adds up one slice of the values, in the order of ranks, and sends the sums to all
   ranks. This moves as few bytes as MPI_Allreduce, whose order of additions may vary. */
static bool sum_floats(float *values, size_t floats) {
  const int size = (int)(floats / (size_t)count);
  float *mine = values + (size_t)number * (size_t)size;
  MPI_Request request;
  if (floats > room) {
    free(parts);
    parts = malloc(floats * sizeof *parts);
    room = parts ? floats : 0;
    if (!parts) return false;
  }
  MPI_Ialltoall(values, size, MPI_FLOAT, parts, size, MPI_FLOAT, MPI_COMM_WORLD, &request);
  if (!wait_for(&request)) return false;
  for (int i = 0; i < size; i++) {
    float sum = parts[i];
    for (int r = 1; r < count; r++) sum += parts[r * size + i];
    mine[i] = sum;
  }
  MPI_Iallgather(MPI_IN_PLACE, 0, MPI_FLOAT, values, size, MPI_FLOAT, MPI_COMM_WORLD, &request);
  return wait_for(&request);
}

static bool gather(const void *mine, size_t size, void *all) {
  MPI_Request request;
  MPI_Iallgather(mine, (int)size, MPI_BYTE, all, (int)size, MPI_BYTE, MPI_COMM_WORLD, &request);
  return wait_for(&request);
}

// NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker)
static void close_mpi(void) {
  MPI_Finalize();
  free(parts);
}

static void abort_mpi(int status) {
  MPI_Abort(MPI_COMM_WORLD, status);
}

const RanksMpi *ranks_mpi(void) {
  static const RanksMpi functions = {open_mpi, sum_floats, gather, close_mpi, abort_mpi};
  return &functions;
}
