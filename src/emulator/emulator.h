/* Runs CUDA sources on a CPU. Blocks run one after another. CUDA threads are fibers of one host
   thread, so every run gives the same result. If kernels are compiled with the watch (watch.cpp),
   the emulator reports their errors with source lines, and counts their memory requests. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the name and the shape of a cudaMalloc()ed array for findings. A vector has 1 row. */
void emulator_name(const void *memory, const char *name, int rows, int columns, int element_bytes,
                   bool is_constant);
/* Reads the program's symbols and installs signal handlers. Call it before apart_confine(). Kernels
   may then use the variables of the source file `students`, such as "exercise.cu", and no others.
 */
void emulator_start(const char *students);
struct CUstream_st;
/* Calls a student's function(context). Its host code may touch only its own stack and constants; a
   violation is a finding and ends the call. An atomic operation on floats is a finding, and so is a
   launch in another stream than `stream`. */
void emulator_call(void (*function)(void *context), void *context, struct CUstream_st *stream);

/* Ends calls that do not return: running out of steps is a finding with the line where the thread
   is. A step is the start of a basic block of watched code, so these limits are the same on every
   machine, fast or slow. `of_block` limits each block of a launch, `of_all` all that follows.
   SIGXCPU ends a call likewise. */
void emulator_limit(uint64_t of_block, uint64_t of_all);

/* From now on, each launch runs only its last block and ends it silently after `steps` steps, and
   cudaMalloc() gives zeros that take no memory until they are written. Arrays above 64 MB forget now
   and then what was written, so arrays of many GB can be tried, also by a loop that writes all of
   them. Checks addresses only: counts nothing and finds no races. */
void emulator_only_last_block(uint64_t steps);

/* Sets how many bytes of dynamic shared memory a block may have, at most and at first 227 KB. */
void emulator_shared(size_t bytes);

/* Sets the text that comes before the next output of a kernel's printf(). NULL turns output off. */
void emulator_print(const char *heading);

/* From now on, calls ended(kernel) after each launch, with the name of the kernel's function. NULL
   ends this. */
void emulator_after_launch(void (*ended)(const char *kernel));

typedef struct {
  uint64_t launches, barriers;
  uint64_t threads; /* of the largest block whose kernel has no __launch_bounds__ */
  uint64_t requests, sectors, bytes_used; /* global memory: requests, 32-byte sectors, bytes used */
  uint64_t bytes_once;                    /* distinct bytes read + written, added over launches */
  uint64_t turns, least_turns;            /* shared memory: bank passes made; bank passes needed */
  uint64_t load_turns, atomic_turns;      /* bank passes made by loads; by atomic operations */
  uint64_t lanes, slots;                  /* sums over requests: active lanes; 32 */
  uint64_t lane_steps, step_slots;        /* sums over basic blocks: active lanes; 32 */
  uint64_t depth; /* basic blocks of the longest warp, added over launches */
} EmulatorCounts;

EmulatorCounts emulator_counts(void);
/* Writes up to `most` findings, one per line: the costliest places if `costs`, otherwise errors.
   Errors of barriers, array bounds and emulator_meet come first. */
void emulator_told(bool costs, int most, char *text, size_t size);

/* A finding: an error, or a place with a high cost. */
typedef struct {
  char kind[16];  /* "" marks the end of the list */
  char text[400]; /* %A and %B stand for the source lines of a and b */
  uintptr_t a, b; /* addresses in the code; b is 0 if the finding has one place */
  uint64_t count;
} EmulatorFinding;
enum { EMULATOR_MOST = 16 };

/* emulator_told() in two calls: a child process gets the findings, its parent writes the lines. */
void emulator_found(bool costs, EmulatorFinding found[EMULATOR_MOST]);
void emulator_lines(const EmulatorFinding found[EMULATOR_MOST], int most, char *text, size_t size);
void emulator_forget(void);

#ifdef __cplusplus
}
#endif
