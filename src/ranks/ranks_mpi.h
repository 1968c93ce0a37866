/* The functions of libmlp-ranks.so, which call MPI. An error inside MPI ends all ranks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* While a function below waits for other ranks, it calls the RanksWait again and again. If the
   RanksWait returns false, the function gives up. */
typedef bool RanksWait(void *context);

typedef struct {
  void (*open)(int *number, int *count, RanksWait *wait, void *context);
  /* sum_floats and gather return false if `wait` returned false or if memory is short. */
  bool (*sum_floats)(float *values, size_t count);
  bool (*gather)(const void *mine, size_t size, void *all);
  void (*close)(void);
  void (*abort)(int status);
} RanksMpi;

/* Returns the table of functions. It is the only symbol that the library exports. */
const RanksMpi *ranks_mpi(void);
