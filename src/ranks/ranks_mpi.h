/* The functions of libmlp-ranks.so: MPI behind plain C. Errors of MPI itself end all ranks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Asked now and then while a call waits for other ranks: false gives the call up. */
typedef bool RanksWait(void *context);

typedef struct {
  void (*open)(int *number, int *count, RanksWait *wait, void *context);
  /* These return false when they were given up, or where there is no memory. */
  bool (*sum_floats)(float *values, size_t count);
  bool (*gather)(const void *mine, size_t size, void *all);
  void (*close)(void);
  void (*abort)(int status);
} RanksMpi;

/* The library's one symbol. */
const RanksMpi *ranks_mpi(void);
