/* Declares what the emulator's sources share: lanes, blocks, memory, accesses, counts, findings. */
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
  unsigned number;       /* the block's number in the grid */
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
  unsigned mask; /* mask, mine and combine are the arguments of emulator_meet */
  void *mine;
  void (*combine)(void **lanes, unsigned mask);
  int value;            /* the lane's term of the sum that emulator_barrier returns */
  const char *place;    /* the file and line of the barrier where the lane waits */
  int groups;           /* number of asynchronous copy groups that the lane has closed */
  uintptr_t pc;         /* the address in the code where the lane waits */
  uint64_t steps;       /* of a warp's first lane: the basic blocks that the warp has run */
  uint16_t clock[WARP]; /* the lane's vector clock over its warp; a barrier resets it */
};

/* A launch of a kernel. Each thread gets a copy of the arguments. */
struct Call {
  dim3 grid, block;
  size_t shared;
  void (*function)(void *arguments);
  const void *arguments;
  size_t bytes;
  uintptr_t pc; /* the launch's address in the code */
};

} // namespace emulated

/* device.h declares these variables as the constants threadIdx, blockIdx, blockDim and gridDim. */
extern dim3 emulator_thread, emulator_block, emulator_block_size, emulator_grid_size;

namespace emulated {

extern Lane *lane;        /* the running lane; NULL outside of kernels */
extern const Lane *meets; /* while a `combine` runs (see emulator_meet): a lane of its warp */
extern bool failed;       /* true once the launch has failed */

/* Makes a fiber for l on `stack`, which has stack_bytes bytes. run_warp can then enter l. */
constexpr size_t STACK = 512 << 10; /* bytes of a stack, which holds a thread's local memory */
void start_lane(Lane *l, unsigned thread, Block *block, unsigned char *stack, size_t stack_bytes);
bool is_stack(uintptr_t address);      /* true for an address in a lane's stack */
bool is_host_stack(uintptr_t address); /* true for the stack of a running emulator_call */
extern bool host_is_fenced;            /* true while emulator_call runs */
extern const char *prints_on;          /* the heading that emulator_print() has set */
/* Runs the lanes of a warp until all wait or have ended, or after `most` switches to a lane.
   Returns true if a lane ran. */
bool run_warp(Lane *first, int count, uint32_t most);
/* Switches from the running fiber to the scheduler. Returns when the fiber is entered again. */
void leave(State state, uintptr_t pc);
/* In a fiber, ends the launch. In host code, ends the emulator_call. */
[[noreturn]] void stop();

/* A way to run all blocks of a launch at once, for kernels whose blocks wait for each other. Tests
   can set at_once (tests/support/schedules.cpp). */
struct AtOnce {
  bool (*run)(const Call &call);                   /* returns true on success */
  void (*arrive)(int id, int threads, bool waits); /* a thread arrives at a barrier */
};
extern const AtOnce *at_once; /* if NULL, blocks run one after another */

/* ---- memory (memory.cpp) -------------------------------------------------------------------- */

/* An access of a thread to a cell. `era` counts the blocks and barriers so far (see watch.cpp). */
struct Touch {
  uint32_t era, site : 31, atomic : 1;
  uint16_t thread, clock;
};

struct Cell {
  Touch write, read, other_read; /* the last write; the last reads of two different threads */
};

struct Region {
  uintptr_t base = 0;
  size_t bytes = 0;
  std::string name;
  int rows = 0, columns = 0, element = 4;
  bool shared = false, constant = false, freed = false;
  uint32_t launch = 0;  /* if `shared`: the last launch that touched the region */
  unsigned granule = 4; /* bytes of a cell: the size of the smallest access so far */
  std::vector<Cell> cells;
  uint64_t bytes_once = 0; /* distinct bytes read, plus distinct bytes written, in this launch */
};

extern std::vector<Region *> regions; /* element 0 is NULL */
extern uintptr_t program_base;
extern const char DYNAMIC[]; /* name of the region of dynamic shared memory */
/* Reads the program's symbols, at the first call. Kernels may use the variables of the source file
   `students` alone, or, if there is none, all variables of the program. */
void start_memory(const char *students = nullptr);
unsigned char *reserve(size_t bytes); /* returns zeros; untouched pages take no memory */
/* Returns the region that contains the address. If there is none, returns the last region that ends
   before the address. Returns NULL if the address is not in device memory. */
Region *find(uintptr_t address);
bool is_arena(uintptr_t address);
void forget_large_arrays(); /* makes their elements 0, and gives their memory back */
Region *guarded_by(uintptr_t address); /* returns the array that follows the page of `address` */
/* Returns true for what kernels may only read: code, constants, an index such as threadIdx, and the
   flag that says whether a static variable is initialised. */
bool is_of_program(uintptr_t address);
size_t static_shared_of(const void *kernel); /* bytes of the kernel's own __shared__ variables */
std::string name_of_kernel(const void *kernel);
void new_shared_memory(unsigned char *dynamic, size_t bytes); /* fills a block's memory with NaN */

/* ---- the watch (watch.cpp) ------------------------------------------------------------------ */

extern bool only_last_block; /* see emulator_only_last_block */
extern bool watched; /* true if the kernels are compiled with calls to the watch (watch.cpp) */
void access(const volatile void *at, size_t size, bool write, bool atomic, uintptr_t pc);
void watch_launch();
void watch_block(unsigned number);
void watch_barrier();
void end_at_next_step(); /* for signal handlers: the next step is a finding that ends the call */
/* Tells the watch that the lanes of a warp in mask `there` have met in emulator_meet. */
void watch_meeting(Lane *first, unsigned there);

/* ---- counts and findings (findings.cpp) ------------------------------------------------------ */

/* A place in the program: an access or, if `step`, the start of a basic block. The compiler inserts
   a call of the emulator there; pc is the return address of this call. */
struct Site {
  uintptr_t pc;
  bool step, shared, write, atomic;
  unsigned size;
  std::string picture;   /* of a request of a whole warp to global memory: the words that it uses */
  EmulatorCounts counts; /* here, `requests` also counts requests to shared memory */
};

extern std::vector<Site> sites, sites_of_launches; /* sites of this launch; of earlier launches */
extern EmulatorCounts counts;
/* Records an access or a step (see Site) of the running lane. Returns the site's index. */
uint32_t note(uintptr_t pc, bool step, bool shared, bool write, bool atomic, unsigned size,
              uintptr_t address);
/* Combines the recorded accesses of a warp's lanes into requests, and counts the requests. */
void count_requests(Lane *first, int count);
void keep_launch();

std::string printed(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Adds a finding. If there is one with the same kind, a and b, only adds 1 to its count. In `text`,
   %A and %B stand for the source lines of a and b. */
void find_wrong(const char *kind, const std::string &text, uintptr_t a, uintptr_t b = 0);
std::string who(unsigned block, unsigned thread);
std::string me();
/* Adds a finding about the running lane or the host, then calls stop(). `text` is the message. */
[[noreturn]] void stop_at(const char *kind, const std::string &text, uintptr_t pc);

} // namespace emulated

#define PC ((uintptr_t)__builtin_return_address(0))
