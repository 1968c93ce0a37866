/* Runs CUDA sources on a CPU: every thread is a fiber.

   An ordinary kernel runs one block after another, and is watched where it is compiled so: accesses
   out of bounds, races, barriers and shuffles that not all reach are found, each with the line of
   the source, and what a GPU would be asked for is counted. Everything is deterministic.

   A kernel whose blocks wait for each other (level epoch) runs all blocks at once, and what runs
   next is drawn from a seed: by it one reader of mail at a time, some warps, some blocks or the
   same warps of all blocks come last, and packets of mail arrive late and in any order, but for
   those to the same place. There are no caches and there is no time: a missing fence stays unseen.

   Not for several threads at once. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- memory --------------------------------------------------------------------------------- */

/* The name of a cudaMalloc()ed array in findings, from an address in it on, and its shape; 1 row
   for a vector. What lies before and behind it is out of bounds. */
void emulator_name(const void *memory, const char *name, int rows, int columns, int element_bytes,
                   bool is_constant);
/* From now on host code may touch its own stack and constants, and nothing else. */
void emulator_fence_host(bool fenced);

/* ---- what was counted and found, since emulator_forget() --------------------------------------
 */

typedef struct {
  uint64_t launches, barriers;
  uint64_t requests, sectors, bytes_used; /* of warps; of 32 bytes; that lanes wanted */
  uint64_t bytes_once;                    /* read and written, each once in a launch */
  uint64_t turns, least_turns;            /* of the banks of shared memory */
  uint64_t lanes, slots;                  /* that took part in requests; that could have */
  uint64_t packets, vain_looks;           /* of mail */
} EmulatorCounts;

EmulatorCounts emulator_counts(void);
/* Writes what was found, in lines: errors, barriers first, or the costliest places, at most `most`. */
void emulator_told(bool costs, int most, char *text, size_t size);
void emulator_forget(void);

/* ---- drawn schedules ------------------------------------------------------------------------ */

/* Instructions for the next launches. All zero but `mail` is a kernel as it is. */
typedef struct {
  uint32_t seed; /* of the schedule */
  void *mail;    /* packets of 16 bytes, the stamp in the last 4; NULL: one block after another */
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

#ifdef __cplusplus
}
#endif
