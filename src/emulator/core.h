/* Types that the emulator's own sources share: lanes and blocks, memory and accesses. */
#pragma once

#include <string>
#include <vector>

#include "emulator/emulator.h"
#include "emulator/runtime.h"

namespace emulated {

constexpr int WARP = 32, MOST_THREADS = 1024;
constexpr size_t MOST_SHARED = 227 << 10;

/* ---- lanes (fibers.cpp) --------------------------------------------------------------------- */

enum class State : uint8_t { READY, MEETS, BARRIER, MAIL, FULL, ENDED };

struct Block {
  unsigned number;       /* in the grid */
  unsigned char *shared; /* the block's dynamic shared memory */
};

struct Lane {
  void *sp; /* the stack pointer while the lane does not run */
  unsigned char *stack;
  Block *block;
  dim3 index;
  State state;
  bool orders, fenced;
  uint16_t thread;
  unsigned mask; /* the lanes that it meets; its value and its function for them */
  void *mine;
  void (*combine)(void **lanes, unsigned mask);
  int value;            /* its value for a barrier */
  int groups;           /* groups of copies that it has closed */
  uintptr_t pc;         /* where it waits */
  uint16_t clock[WARP]; /* its warp's progress, as far as it knows, since the block's barrier */
};

/* A kernel's call. Each thread has a copy of the arguments. */
struct Call {
  dim3 grid, block;
  size_t shared;
  void (*function)(void *arguments);
  const void *arguments;
  size_t bytes;
  uintptr_t pc; /* of the launch */
};

extern Lane *lane;        /* the lane that runs; NULL outside of kernels */
extern const Lane *meets; /* a lane of the warp that meets */
extern bool failed;       /* the launch */

/* Makes a fiber for l, which then can be entered. stack: stack_bytes bytes. */
constexpr size_t STACK = 512 << 10; /* as much as a thread may have of local memory */
void start_lane(Lane *l, unsigned thread, Block *block, unsigned char *stack, size_t stack_bytes);
bool is_stack(uintptr_t address);      /* the address is in a lane's stack */
bool is_host_stack(uintptr_t address); /* the address is in the stack of emulator_call's function */
extern bool host_is_fenced;            /* emulator_call runs */
extern const char *prints_on;          /* emulator_print() */
/* Runs the lanes of a warp until none can continue, or until lanes were entered `most` times.
   Returns true if a lane ran. */
bool run_warp(Lane *first, int count, uint32_t most);
/* Switches from a fiber to the scheduler, until the fiber is entered again. */
void leave(State state, uintptr_t pc);
/* In a fiber, ends the launch. In host code, ends the emulator_call. */
[[noreturn]] void stop();

/* Another way to run a launch: all blocks at once. Kernels need it if their blocks wait for each
   other. A test that has such a way sets at_once (tests/support/schedules.cpp). */
struct AtOnce {
  bool (*run)(const Call &call);                   /* returns true on success */
  void (*arrive)(int id, int threads, bool waits); /* a thread arrives at a barrier */
};
extern const AtOnce *at_once; /* if NULL, blocks run one after another */

/* ---- memory (memory.cpp) -------------------------------------------------------------------- */

/* The last access to a cell by one thread. Eras count blocks and barriers. */
struct Touch {
  uint32_t era, site : 31, atomic : 1;
  uint16_t thread, clock;
};

struct Cell {
  Touch write, read, other_read; /* two threads that read, so that at least one is not the thread
                                    that writes */
};

struct Region {
  uintptr_t base = 0;
  size_t bytes = 0;
  std::string name;
  int rows = 0, columns = 0, element = 4;
  bool shared = false, constant = false, freed = false;
  uint32_t launch = 0;  /* the last launch that touched it, if it is shared */
  unsigned granule = 4; /* bytes of a cell, which is as small as the smallest access so far */
  std::vector<Cell> cells;
  uint64_t bytes_once = 0; /* of this launch */
};

extern std::vector<Region *> regions; /* 0: none */
extern uintptr_t program_base;
extern const char DYNAMIC[]; /* name of the region of dynamic shared memory */
void start_memory();
unsigned char *reserve(size_t bytes); /* zeros, which take memory only where they are touched */
/* Returns the region of the address, or else the nearest that ends before it. Returns NULL if the
   address is not in device memory. */
Region *find(uintptr_t address);
bool is_arena(uintptr_t address);
Region *guarded_by(uintptr_t address); /* the array behind the guard page of the address */
/* Returns true if the address belongs to no variable but to an index, or to a flag whether a
   variable is initialised. */
bool is_no_variable(uintptr_t address);
bool is_of_program(uintptr_t address);       /* the same, or in the program's code and constants */
size_t static_shared_of(const void *kernel); /* bytes of the kernel's own __shared__ variables */
void new_shared_memory(unsigned char *dynamic, size_t bytes); /* fills a block's memory with NaN */

/* ---- the watch (watch.cpp) ------------------------------------------------------------------ */

extern bool watched; /* the kernels are compiled with the watch */
void access(const volatile void *at, size_t size, bool write, bool atomic, uintptr_t pc);
void watch_launch();
void watch_block(unsigned number);
void watch_barrier();
/* Tells the watch that lanes `there` of a warp have met. */
void watch_meeting(Lane *first, unsigned there);

/* ---- counts and findings (findings.cpp) ------------------------------------------------------ */

/* A place in the program: an access or the start of a basic block. pc is the address to which its
   call into the emulator returns. */
struct Site {
  uintptr_t pc;
  bool step, shared, write, atomic;
  unsigned size;
  EmulatorCounts counts; /* `requests` includes those of shared memory */
};

extern std::vector<Site> sites, sites_of_launches; /* of the running launch; of earlier launches */
extern EmulatorCounts counts;
/* Notes an access or a step of the running lane. Returns the site. */
uint32_t note(uintptr_t pc, bool step, bool shared, bool write, bool atomic, unsigned size,
              uintptr_t address);
/* Joins the accesses that a warp's lanes have noted into requests. */
void count_requests(const Lane *first, int count);
void keep_launch();

std::string printed(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Keeps a finding if it is the first with this kind and these places, and counts the others. In
   `text`, %A and %B stand for source lines. */
void find_wrong(const char *kind, const std::string &text, uintptr_t a, uintptr_t b = 0);
std::string who(unsigned block, unsigned thread);
std::string me();
/* Does the same for the running lane or the host, and then ends it. text: what it does. */
[[noreturn]] void stop_at(const char *kind, const std::string &text, uintptr_t pc);

} // namespace emulated

#define PC ((uintptr_t)__builtin_return_address(0))
