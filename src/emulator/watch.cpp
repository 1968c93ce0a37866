/* The watch: finds accesses that are out of bounds, unaligned, or race with other accesses. */
#include "emulator/core.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>

namespace emulated {

bool watched, only_last_block;
static size_t static_shared; /* bytes of the __shared__ variables that this launch has touched */

/* `era` counts blocks and barriers. The block began at block_era, the launch at launch_era. */
static uint32_t era, block_era, launch_era;
static std::vector<uint32_t> block_eras, block_numbers; /* for each block that this launch has
                                                           run: first era; number in the grid */
/* Blocks announce finished writes by atomic operations. If announced[address][i] is e, the i-th
   block that ran has announced, by an operation at this address, its writes of eras before e. */
static std::map<uintptr_t, std::vector<uint32_t>> announced;
static std::set<const std::vector<uint32_t> *> heard; /* announcements that this block has read */

/* The limits of emulator_limit, and the steps that are left. */
static uint64_t most_of_block = UINT64_MAX, most_of_all = UINT64_MAX;
static uint64_t left_of_block = UINT64_MAX, left_of_all = UINT64_MAX;
static uint64_t pages; /* that the block has touched, see touch_page */
static volatile bool is_late;
static uintptr_t last_place; /* of the step or access before: compilers give some blocks no line */

void end_at_next_step() {
  is_late = true;
}

[[noreturn]] static void out_of_steps(uintptr_t pc) {
  const bool block = left_of_block == 0;
  const auto millions = (unsigned long long)((block ? most_of_block : most_of_all) / 1000000);
  std::string when = printed("after %llu million steps", millions);
  if (block && lane) when += " of its block";
  if (is_late) when = "when the CPU time was used up";
  left_of_block = left_of_all = UINT64_MAX;
  if (!only_last_block)
    find_wrong("endless", "%A: " + me() + " had not returned " + when, pc, last_place);
  stop();
}

static inline void step(uintptr_t pc) {
  left_of_block--, left_of_all--;
  if (__builtin_expect(left_of_block == 0 || left_of_all == 0 || is_late, 0)) out_of_steps(pc);
  last_place = pc;
}

void watch_launch() {
  launch_era = era + 1;
  static_shared = 0;
  block_eras.clear(), block_numbers.clear(), announced.clear();
}

void watch_block(unsigned number) {
  left_of_block = most_of_block;
  pages = 0;
  block_era = ++era;
  block_eras.push_back(era);
  block_numbers.push_back(number);
  heard.clear();
}

void watch_barrier() {
  era++;
}

void watch_meeting(Lane *first, unsigned there) {
  uint16_t seen[WARP] = {};
  for (int k = 0; k < WARP; k++)
    for (int j = 0; (there >> k & 1) && j < WARP; j++)
      seen[j] = std::max(seen[j], first[k].clock[j]);
  for (int k = 0; k < WARP; k++) {
    if (!(there >> k & 1)) continue;
    memcpy(first[k].clock, seen, sizeof seen);
    first[k].clock[k]++;
  }
}

std::string who(unsigned block, unsigned thread) {
  return printed("block %u, thread %u", block, thread);
}

std::string me() {
  const Lane *l = lane ? lane : meets;
  if (!l) return "the host";
  return who(l->block->number, l->thread);
}

static const char *does(bool write) {
  return write ? " writes " : " reads ";
}

static std::string element(const Region *r, uintptr_t address) {
  const ptrdiff_t offset = (ptrdiff_t)(address - r->base), size = r->element;
  const ptrdiff_t i = (offset - (offset < 0 ? size - 1 : 0)) / size;
  std::string text = printed("%s[%td]", r->name.c_str(), i);
  if (r->rows > 1 && i >= 0 && (size_t)offset < r->bytes)
    text += printed(" (row %td, column %td)", i / r->columns, i % r->columns);
  return text;
}

[[noreturn]] static void outside(Region *r, uintptr_t address, unsigned size, bool write,
                                 uintptr_t pc) {
  if (!r) r = guarded_by(address);
  std::string text = does(write);
  if (!r) {
    text += address < 4096 ? "a null pointer" : "memory that is no array of the device";
  } else if (r->freed) {
    text += r->name + ", which has been freed";
  } else if (r->constant && write && address - r->base < r->bytes) {
    text += element(r, address) + ", which is const";
  } else {
    if (r->shared) r->element = (int)size;
    text += element(r, address) + ", and " + r->name;
    if (r->rows > 1) text += printed(" (%d, %d)", r->rows, r->columns);
    text += r->bytes ? printed(" has elements 0 to %zu", r->bytes / (size_t)r->element - 1)
                     : std::string(" is empty");
  }
  if (only_last_block)
    text += "; the arrays of this call have more than 2^31 elements, so an index needs size_t";
  stop_at("outside", text, pc);
}

/* Checks an access by host code, which must not touch the device's memory. During emulator_call,
   host code may touch only its stack and constants. */
static void by_host(uintptr_t address, bool write, uintptr_t pc) {
  if (!is_arena(address)) {
    if (!host_is_fenced || is_host_stack(address)) return;
    if ((!write && is_of_program(address)) || is_stack(address)) return;
  }
  const Region *r = is_arena(address) ? find(address) : nullptr;
  std::string what = "memory that is not its own";
  if (is_arena(address)) what = "between arrays of the device";
  if (r) what = element(r, address) + ", memory of the device";
  find_wrong("host", std::string("%A: the host") + does(write) + what, pc);
  if (host_is_fenced) stop();
}

/* Returns true for an address in threadIdx, blockIdx, blockDim or gridDim. clang's code reports
 * reads of them. */
static inline bool is_index(uintptr_t address) {
  return address - (uintptr_t)&emulator_thread < sizeof emulator_thread ||
         address - (uintptr_t)&emulator_block_size < sizeof emulator_block_size ||
         address - (uintptr_t)&emulator_block < sizeof emulator_block ||
         address - (uintptr_t)&emulator_grid_size < sizeof emulator_grid_size;
}

static size_t block_of(uint32_t touched) { /* returns the index in block_eras of the era's block */
  return (size_t)(std::upper_bound(block_eras.begin(), block_eras.end(), touched) -
                  block_eras.begin()) -
         1;
}

/* Returns true if t is ordered before the lane's current access. This is so for every t before era
   `first`. */
static inline bool ordered(const Touch &t, uint32_t first) {
  if (t.era < first) return true;
  if (t.era < block_era) {
    if (heard.empty()) return false;
    const size_t block = block_of(t.era);
    return std::any_of(heard.begin(), heard.end(), [&](const std::vector<uint32_t> *eras) {
      return block < eras->size() && (*eras)[block] > t.era;
    });
  }
  if (t.era < era || t.thread == lane->thread) return true;
  return t.thread / WARP == lane->thread / WARP && lane->clock[t.thread % WARP] >= t.clock;
}

static void race(const Region *r, uintptr_t address, const Touch &t, bool other_writes, bool write,
                 uintptr_t pc) {
  const bool blocks = t.era < block_era;
  std::string other = printed("thread %u", t.thread), why = "there is no __syncthreads() between";
  if (t.thread / WARP == lane->thread / WARP)
    why = "there is no __syncwarp() or __syncthreads() between";
  if (blocks) {
    other = who(block_numbers[block_of(t.era)], t.thread);
    why = "nothing orders blocks of a launch";
  }
  find_wrong("race",
             "%A: " + me() + does(write) + element(r, address) + "; " + other + does(other_writes) +
                 "it at %B, and " + why,
             pc, sites[t.site].pc);
}

static inline Touch touch_now(uint32_t site, bool atomic) {
  Touch t;
  t.era = era, t.site = site, t.atomic = atomic, t.thread = lane->thread;
  t.clock = lane->clock[lane->thread % WARP];
  return t;
}

static inline void look_at_cell(Region *r, Cell &c, uintptr_t address, uint32_t site, bool write,
                                bool atomic, uintptr_t pc) {
  const uint32_t first = r->shared ? block_era : launch_era;
  const bool fresh = c.write.era < first;
  if (!fresh && !(atomic && c.write.atomic) && !ordered(c.write, first))
    race(r, address, c.write, true, write, pc);
  if (fresh && r->shared && (!write || atomic))
    find_wrong("unwritten",
               "%A: " + me() + " reads " + element(r, address) +
                   ", shared memory that no thread of the block has written",
               pc);
  if (!write || atomic) {
    if (c.read.era < first) r->bytes_once += r->granule;
    Touch &kept = ordered(c.read, first) ? c.read : c.other_read;
    if (&kept == &c.read || ordered(kept, first)) kept = touch_now(site, atomic);
  }
  if (!write) return;
  for (const Touch *t : {&c.read, &c.other_read})
    if (t->era >= first && !(atomic && t->atomic) && !ordered(*t, first))
      race(r, address, *t, false, true, pc);
  if (fresh) r->bytes_once += r->granule;
  c.write = touch_now(site, atomic);
}

static void set_granule(Region *r, unsigned granule) {
  std::vector<Cell> finer((r->bytes + granule - 1) / granule);
  for (size_t i = 0; i < finer.size() && i * granule / r->granule < r->cells.size(); i++)
    finer[i] = r->cells[i * granule / r->granule];
  r->cells.swap(finer);
  r->granule = granule;
}

static void not_aligned(Region *r, uintptr_t address, unsigned size, bool write, uintptr_t pc) {
  stop_at("aligned",
          does(write) + printed("%u bytes at ", size) + element(r, address) +
              printed(", not on a multiple of %u", size),
          pc);
}

/* Adds a variable's bytes to static_shared when a launch first touches the variable. */
static void touch_shared(Region *r, uintptr_t pc) {
  r->launch = launch_era;
  if (r->name == DYNAMIC) return;
  static_shared += r->bytes;
  if (static_shared <= 48 << 10) return;
  find_wrong("shared",
             printed("%%A: the kernel has %zu bytes of __shared__ variables, and may have 49152; "
                     "more is dynamic shared memory",
                     static_shared),
             pc);
  stop();
}

/* With only_last_block, a loop over the grid may touch every page of arrays that are larger than
   the computer's memory. So large arrays now and then forget what was written, and a block ends
   silently after half a million pages, which take seconds. A page that was touched lately counts
   once, as in a processor's own table of pages. */
static void touch_page(uintptr_t address) {
  enum { PAGE = 4096, TABLE = 4096, KEPT = 65536, MOST = 500000 };
  static uintptr_t lately[TABLE];
  const uintptr_t page = address / PAGE;
  if (lately[page % TABLE] == page) return;
  lately[page % TABLE] = page;
  if (++pages % KEPT == 0) forget_large_arrays();
  if (pages > MOST) left_of_block = 1;
}

/* Checks and counts an access. Splits sizes other than 1, 2, 4, 8 and 16 bytes. */
void access(const volatile void *at, size_t bytes, bool write, bool atomic, uintptr_t pc) {
  const uintptr_t address = (uintptr_t)at;
  const unsigned size = (unsigned)bytes;
  if (!watched || size == 0) return;
  if (bytes > 16 || (bytes & (bytes - 1)) != 0) {
    unsigned piece = 16;
    while ((address | bytes) % piece != 0) piece /= 2;
    for (size_t i = 0; i < bytes; i += piece)
      access((const volatile char *)at + i, piece, write, atomic, pc);
    return;
  }
  if (!lane) return by_host(address, write, pc);
  if (address - (uintptr_t)lane->stack < STACK) return;
  if (!write && is_index(address)) return;
  Region *r = find(address);
  if (!r && !write && is_of_program(address)) return;
  if (__builtin_expect(!r || address - r->base >= r->bytes || address - r->base + size > r->bytes ||
                           r->freed || (write && r->constant),
                       0))
    outside(r, address, size, write, pc);
  if (address % size != 0) not_aligned(r, address, size, write, pc);
  if (only_last_block) return touch_page(address);
  if (__builtin_expect(r->shared && r->launch != launch_era, 0)) touch_shared(r, pc);
  const uint32_t site = note(pc, false, r->shared, write, atomic, size, address);
  last_place = pc;
  if (__builtin_expect(size < r->granule || r->cells.empty(), 0))
    set_granule(r, std::min(size, r->granule));
  if (write && !r->shared) lane->fenced = false;
  const size_t first = (address - r->base) / r->granule, cells = std::max(size / r->granule, 1u);
  for (size_t c = first; c < first + cells; c++)
    if (!r->constant)
      look_at_cell(r, r->cells[c], r->base + c * r->granule, site, write, atomic, pc);
    else if (r->cells[c].read.era < launch_era)
      r->cells[c].read.era = era, r->bytes_once += r->granule;
}

} // namespace emulated

using namespace emulated;

void emulator_limit(uint64_t of_block, uint64_t of_all) {
  most_of_block = left_of_block = of_block;
  most_of_all = left_of_all = of_all;
}

extern "C" void emulator_only_last_block(uint64_t steps) {
  only_last_block = true;
  emulator_limit(steps, UINT64_MAX);
}

void emulator_access(const void *at, size_t bytes, bool write, void *by) {
  access(at, bytes, write, false, (uintptr_t)by);
}

/* If the lane's next write is atomic, that write announces the block's writes (see `announced`). */
void emulator_fence() {
  lane->fenced = true;
}

void emulator_atomic(const void *at, size_t bytes, void *by) {
  if (!watched) return;
  const bool fenced = lane->fenced;
  access(at, bytes, true, true, (uintptr_t)by);
  const auto found = announced.find((uintptr_t)at);
  if (found != announced.end()) heard.insert(&found->second);
  if (!fenced) return;
  std::vector<uint32_t> &eras = announced[(uintptr_t)at];
  eras.resize(block_eras.size());
  eras.back() = era + 1; /* + 1 includes the thread's own writes in this era */
}

/* In kernels, the compiler calls these functions at every access and in every basic block. */

#define ACCESS(name, size, write)                                                                  \
  extern "C" void __tsan_##name##size(void *at) {                                                  \
    access(at, size, write, false, PC);                                                            \
  }
#define ACCESSES(name, write)                                                                      \
  ACCESS(name, 1, write)                                                                           \
  ACCESS(name, 2, write) ACCESS(name, 4, write) ACCESS(name, 8, write) ACCESS(name, 16, write)
ACCESSES(read, false)
ACCESSES(write, true)

/* Checks an access to a struct that is passed by value, or by memcpy. nvcc knows that a struct and
   a float lie at a multiple of 4, and no more, so a GPU moves words of 4 bytes; of smaller words if
   address or size is not a multiple of 4. */
static void access_words(const void *at, size_t size, bool write, uintptr_t pc) {
  size_t word = 4;
  while (((uintptr_t)at | size) % word != 0) word /= 2;
  for (size_t i = 0; i < size; i += word) access((const char *)at + i, word, write, false, pc);
}
#define UNALIGNED(size)                                                                            \
  extern "C" void __tsan_unaligned_read##size(void *at) {                                          \
    access_words(at, size, false, PC);                                                             \
  }                                                                                                \
  extern "C" void __tsan_unaligned_write##size(void *at) {                                         \
    access_words(at, size, true, PC);                                                              \
  }
UNALIGNED(2)
UNALIGNED(4)
UNALIGNED(8)
UNALIGNED(16)

#define ATOMIC(bits)                                                                               \
  extern "C" uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *at, int) {   \
    access(at, sizeof *at, false, true, PC);                                                       \
    return *at;                                                                                    \
  }                                                                                                \
  extern "C" void __tsan_atomic##bits##_store(volatile uint##bits##_t *at, uint##bits##_t v,       \
                                              int) {                                               \
    access(at, sizeof *at, true, true, PC);                                                        \
    *at = v;                                                                                       \
  }
ATOMIC(8)
ATOMIC(32)
ATOMIC(64)

extern "C" {

void __tsan_init() {
  watched = true;
}
void __tsan_func_entry(void *) {
}
void __tsan_func_exit() {
}
void __tsan_read_range(void *at, size_t size) {
  access(at, size, false, false, PC);
}
void __tsan_write_range(void *at, size_t size) {
  access(at, size, true, false, PC);
}
/* The compiler makes kernels call these functions instead of the C library's functions. */
void *__tsan_memcpy(void *to, const void *from, size_t size) {
  access_words(from, size, false, PC);
  access_words(to, size, true, PC);
  return memmove(to, from, size);
}
void *__tsan_memmove(void *to, const void *from, size_t size) {
  return __tsan_memcpy(to, from, size);
}
void *__tsan_memset(void *to, int value, size_t size) {
  access_words(to, size, true, PC);
  return memset(to, value, size);
}

/* Prints if emulator_print allows output. Refuses %n, which writes to memory. */
int __tsan_printf(const char *format, ...) {
  for (const char *at = format; (at = strchr(at, '%')); at++) {
    at += 1 + strspn(at + 1, "-+ #0123456789.*hlLqjzt");
    if (*at && strchr("diouxXeEfFgGaAcsp%", *at)) continue;
    stop_at("print", " calls printf() with what the emulator does not know", PC);
  }
  if (!prints_on) return 0;
  if (*prints_on) puts(prints_on);
  prints_on = "";
  va_list arguments;
  va_start(arguments, format);
  const int count = vprintf(format, arguments);
  va_end(arguments);
  return count;
}

void __sanitizer_cov_trace_pc(void) {
  step(PC);
  if (lane && !only_last_block) note(PC, true, false, false, false, 0, 0);
}

[[noreturn]] void __tsan_assert_fail(const char *what, const char *, unsigned, const char *) {
  stop_at("assert", printed(": assert(%.200s) fails", what), PC);
}

/* -fsanitize=bounds checks arrays whose size the compiler knows, including arrays in registers. */
void __ubsan_handle_out_of_bounds(void *data, void *index) {
  struct Type {
    uint16_t kind, info;
    char name[1];
  };
  struct Data {
    const char *file;
    uint32_t line, column;
    const Type *array, *index;
  };
  std::string type = static_cast<const Data *>(data)->array->name;
  if (const size_t space = type.find(" ["); space < type.size())
    type.erase(space, 1); /* g++ writes a space here; clang does not */
  stop_at("bounds",
          printed(" has index %ld in an array of type %s", (long)(intptr_t)index, type.c_str()),
          PC);
}

void __ubsan_handle_divrem_overflow(void *, void *, void *) {
  stop_at("division", " divides an integer by 0", PC);
}

/* Reports a call through a pointer that does not point to a function of the pointer's type. */
void __ubsan_handle_function_type_mismatch(void *, void *) {
  stop_at("pointer", " calls what is no function of this type", PC);
}
void __ubsan_handle_function_type_mismatch_v1(void *data, void *function, void *, void *) {
  __ubsan_handle_function_type_mismatch(data, function);
}

} // extern "C"
