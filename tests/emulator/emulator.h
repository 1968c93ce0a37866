/* Runs a kernel of level epoch on the CPU: every thread of every block is a fiber, and what runs
   next is drawn from a seed.

   A warp's lanes meet at shuffles, votes, products of matrices and __syncwarp(), a block's threads
   at named barriers, as on a GPU. In between a warp may run far ahead of the others. By the seed
   one reader of mail at a time, some warps, some blocks or the same warps of all blocks come last,
   and packets of mail arrive late and in any order, but for those to the same place. There are no
   caches and there is no time: a missing fence stays unseen.

   Not for several threads at once. */
#ifndef EMULATOR_H
#define EMULATOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Instructions for the next launches. All zero but `mail` is a kernel as it is. */
typedef struct {
  uint32_t seed; /* of the schedule */
  void *mail;    /* packets of 16 bytes, the stamp in the last 4 */
  size_t mail_bytes;
  /* Faults, to see them found: */
  int barrier_left_out;     /* 1 to 15: nobody arrives or waits there */
  size_t buffer_at, buffer; /* packets: mail to the second `buffer` packets from there on goes to
                               the first */
  uint64_t stamp_too_low;   /* the packet that is sent as this one, from 1, has the stamp before */
  uint32_t read_too_early;  /* one in so many looks takes the packet of the step before */
} Emulator;

extern Emulator emulator;

/* Returns in lines what went wrong in the last launch, which then returned cudaErrorLaunchFailure;
   "" if nothing did. For a deadlock it says which threads wait for what. */
const char *emulator_report(void);

/* Sums over all launches. */
typedef struct {
  uint64_t launches, switches, packets, vain_looks;
} EmulatorCounts;

EmulatorCounts emulator_counts(void);

#ifdef __cplusplus
}
#endif

#endif
