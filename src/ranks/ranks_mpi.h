/* The functions of libmlp-ranks.so, which call MPI. An error inside MPI ends all ranks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* A function that is called again and again while a call waits for other ranks. If it returns
   false, the call gives up. */
typedef bool RanksWait(void *context);

typedef struct {
  void (*open)(int *number, int *count, RanksWait *wait, void *context);
  /* sum_floats and gather return false if RanksWait returned false or memory is short. */
  bool (*sum_floats)(float *values, size_t count);
  bool (*gather)(const void *mine, size_t size, void *all);
  void (*close)(void);
  void (*abort)(int status);
} RanksMpi;

/* Returns the table of functions. It is the only symbol that the library exports. */
const RanksMpi *ranks_mpi(void);
