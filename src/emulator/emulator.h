/* Runs CUDA sources on a CPU, block after block, every thread a fiber, from one thread, always the
   same. A kernel may be watched: errors are found, with their lines, and requests are counted. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The name of a cudaMalloc()ed array in findings, and its shape; 1 row for a vector. */
void emulator_name(const void *memory, const char *name, int rows, int columns, int element_bytes,
                   bool is_constant);
/* Reads what it has to know of the program, before a process is confined. */
void emulator_start(void);
/* Calls function(context), a student's: its host code may touch its own stack and constants alone,
   and no float is added atomically. It ends at the first that it does beside, which is found. */
void emulator_call(void (*function)(void *context), void *context);

/* From now on printf() prints, the heading first if anything follows; NULL: it does not. */
void emulator_print(const char *heading);

typedef struct {
  uint64_t launches, barriers;
  uint64_t requests, sectors, bytes_used; /* of warps; of 32 bytes; that lanes wanted */
  uint64_t bytes_once;                    /* read and written, each once in a launch */
  uint64_t turns, least_turns;            /* of the banks of shared memory */
  uint64_t atomic_turns;                  /* of these, turns of atomics */
  uint64_t lanes, slots;                  /* that took part in requests; that could have */
  uint64_t lane_steps, step_slots;        /* the same of basic blocks that warps went through */
} EmulatorCounts;

EmulatorCounts emulator_counts(void);
/* Writes the findings, in lines: errors, barriers first, or the costliest places, up to `most`. */
void emulator_told(bool costs, int most, char *text, size_t size);

/* An error, or a place that costs much. */
typedef struct {
  char kind[16];  /* "": there are no more */
  char text[400]; /* with %A and %B where lines of the source stand */
  uintptr_t a, b; /* the places, in the program */
  uint64_t count;
} EmulatorFinding;
enum { EMULATOR_MOST = 16 };

/* The same in two steps. A process that was forked from this one may do the first. */
void emulator_found(bool costs, EmulatorFinding found[EMULATOR_MOST]);
void emulator_lines(const EmulatorFinding found[EMULATOR_MOST], int most, char *text, size_t size);
void emulator_forget(void);

#ifdef __cplusplus
}
#endif
