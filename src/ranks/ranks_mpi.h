/* The functions of libmlp-ranks.so, which wrap MPI in plain C. An error of MPI itself ends all
   ranks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Called now and then while a call waits for other ranks. If it returns false, the call gives
   up. */
typedef bool RanksWait(void *context);

typedef struct {
  void (*open)(int *number, int *count, RanksWait *wait, void *context);
  /* These return false if they gave up, or without memory. */
  bool (*sum_floats)(float *values, size_t count);
  bool (*gather)(const void *mine, size_t size, void *all);
  void (*close)(void);
  void (*abort)(int status);
} RanksMpi;

/* The library's one symbol. */
const RanksMpi *ranks_mpi(void);
