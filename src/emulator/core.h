/* Types that the emulator's own sources share: lanes and their blocks, memory and its accesses. */
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
  unsigned char *shared; /* its dynamic shared memory */
};

struct Lane {
  void *sp; /* while it does not run */
  unsigned char *stack;
  Block *block;
  dim3 index;
  State state;
  bool orders, fenced;
  uint16_t thread;
  unsigned mask; /* who it meets, with what and at which function */
  void *mine;
  void (*combine)(void **lanes, unsigned mask);
  int value;            /* that it brings to a barrier */
  int groups;           /* of copies that it has closed */
  uintptr_t pc;         /* where it waits */
  uint16_t clock[WARP]; /* what it has seen of the lanes of its warp, since the block's barrier */
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

extern Lane *lane;        /* who runs, NULL outside of kernels */
extern const Lane *meets; /* of a warp that meets */
extern bool failed;       /* the launch */

/* Makes a fiber of l, to be entered. stack: STACK bytes. */
constexpr size_t STACK = 512 << 10; /* as much local memory as a thread may have */
void start_lane(Lane *l, unsigned thread, Block *block, unsigned char *stack, size_t stack_bytes);
bool is_stack(uintptr_t address);      /* of a lane of the block */
bool is_host_stack(uintptr_t address); /* of the function that emulator_call calls */
extern bool host_is_fenced;            /* emulator_call runs */
extern const char *prints_on;          /* emulator_print() */
/* Runs the lanes of a warp until none can go on, or `most` times one. Returns whether one ran. */
bool run_warp(Lane *first, int count, uint32_t most);
/* From a fiber to the scheduler, until it is entered again. */
void leave(State state, uintptr_t pc);
/* Ends the launch, from a fiber; ends the call that is watched (emulator_call), from the host. */
[[noreturn]] void stop();

/* Another way to run a launch: all blocks at once, as kernels want whose blocks wait for each
   other. A test that has one sets at_once (tests/support/schedules.cpp). */
struct AtOnce {
  bool (*run)(const Call &call);                   /* returns whether all went well */
  void (*arrive)(int id, int threads, bool waits); /* a thread, at a barrier */
};
extern const AtOnce *at_once; /* NULL: blocks run one after another */

/* ---- memory (memory.cpp) -------------------------------------------------------------------- */

/* Who did something to a cell. Eras count blocks and barriers. */
struct Touch {
  uint32_t era, site : 31, atomic : 1;
  uint16_t thread, clock;
};

struct Cell {
  Touch write, read, other_read; /* two threads that read, so that one is not who writes */
};

struct Region {
  uintptr_t base = 0;
  size_t bytes = 0;
  std::string name;
  int rows = 0, columns = 0, element = 4;
  bool shared = false, constant = false, freed = false;
  uint32_t launch = 0;  /* that last touched it, if it is shared */
  unsigned granule = 4; /* bytes of a cell: the smallest access so far */
  std::vector<Cell> cells;
  uint64_t bytes_once = 0; /* of this launch */
};

extern std::vector<Region *> regions; /* 0: none */
extern uintptr_t program_base;
extern const char DYNAMIC[]; /* the name of a region */
void start_memory();
unsigned char *reserve(size_t bytes); /* zeros, which take memory where they are touched */
/* Where the address is, or what ends nearest before it; NULL: nothing of the device's. */
Region *find(uintptr_t address);
bool is_arena(uintptr_t address);
Region *guarded_by(uintptr_t address); /* the array behind the guard page of the address */
/* True for what a compiler may take for memory: an index, or if a variable is initialised. */
bool is_no_variable(uintptr_t address);
bool is_of_program(uintptr_t address);       /* the same, and its code and constants */
size_t static_shared_of(const void *kernel); /* bytes of its own __shared__ variables */
void new_shared_memory(unsigned char *dynamic, size_t bytes); /* for a block: NaN everywhere */

/* ---- the watch (watch.cpp) ------------------------------------------------------------------ */

extern bool watched; /* the kernels are compiled with the watch */
void access(const volatile void *at, size_t size, bool write, bool atomic, uintptr_t pc);
void watch_launch();
void watch_block(unsigned number);
void watch_barrier();
/* lanes `there` of a warp have met */
void watch_meeting(Lane *first, unsigned there);

/* ---- counts and findings (findings.cpp) ------------------------------------------------------ */

/* An access in the program or a basic block of it, by the address that its call returns to. */
struct Site {
  uintptr_t pc;
  bool step, shared, write, atomic;
  unsigned size;
  EmulatorCounts counts; /* requests: of shared memory, too */
};

extern std::vector<Site> sites, sites_of_launches; /* of the launch that runs; of those before */
extern EmulatorCounts counts;
/* Notes an access or a step of the lane that runs. Returns the site. */
uint32_t note(uintptr_t pc, bool step, bool shared, bool write, bool atomic, unsigned size,
              uintptr_t address);
/* Joins what the lanes of a warp have noted to requests. */
void count_requests(const Lane *first, int count);
void keep_launch();

std::string printed(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Keeps the first of its kind and places, counts the others. text: %A and %B are lines. */
void find_wrong(const char *kind, const std::string &text, uintptr_t a, uintptr_t b = 0);
std::string who(unsigned block, unsigned thread);
std::string me();
/* The same of the lane or the host, which goes no further. text: what it does. */
[[noreturn]] void stop_at(const char *kind, const std::string &text, uintptr_t pc);

} // namespace emulated

#define PC ((uintptr_t)__builtin_return_address(0))
