/* Runs CUDA sources on a CPU. Blocks run one after another. Each CUDA thread is a fiber of one host
   thread, so that every run is the same. A kernel may be watched: the emulator then finds errors,
   with their source lines, and counts requests. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Names a cudaMalloc()ed array in findings, and sets its shape. A vector has 1 row. */
void emulator_name(const void *memory, const char *name, int rows, int columns, int element_bytes,
                   bool is_constant);
/* Reads what the emulator must know of the program. Call it before a process is confined. */
void emulator_start(void);
/* Calls function(context) of a student. Its host code may touch only its own stack and constants,
   and no kernel may add floats atomically. The first violation becomes a finding and ends the
   call. */
void emulator_call(void (*function)(void *context), void *context);

/* Sets whether the program's printf() prints from now on. `heading` comes before the first output;
   NULL means that nothing is printed. */
void emulator_print(const char *heading);

typedef struct {
  uint64_t launches, barriers;
  uint64_t requests, sectors, bytes_used; /* warp requests; 32-byte sectors; bytes needed */
  uint64_t bytes_once;                    /* per launch: distinct bytes read + distinct written */
  uint64_t turns, least_turns;            /* of shared memory's banks */
  uint64_t atomic_turns;                  /* the part of `turns` that atomics take */
  uint64_t lanes, slots;                  /* lanes that made requests; lanes that could have */
  uint64_t lane_steps, step_slots;        /* the same for basic blocks that warps executed */
} EmulatorCounts;

EmulatorCounts emulator_counts(void);
/* Writes up to `most` findings, one per line. If `costs`, these are the costliest places.
   Otherwise these are errors, with barrier errors first. */
void emulator_told(bool costs, int most, char *text, size_t size);

/* A finding: an error, or a place that costs much. */
typedef struct {
  char kind[16];  /* "" marks the end of the list */
  char text[400]; /* %A and %B stand for source lines */
  uintptr_t a, b; /* addresses of the places in the program */
  uint64_t count;
} EmulatorFinding;
enum { EMULATOR_MOST = 16 };

/* These two do the work of emulator_told() in two steps. A forked process may do the first. */
void emulator_found(bool costs, EmulatorFinding found[EMULATOR_MOST]);
void emulator_lines(const EmulatorFinding found[EMULATOR_MOST], int most, char *text, size_t size);
void emulator_forget(void);

#ifdef __cplusplus
}
#endif
