/* The emulator's fibers, its scheduler and its mail. */
#include "emulator.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "ptx.h"

Emulator emulator;
EmulatedThread *emulated;
dim3 threadIdx, blockIdx, blockDim, gridDim;

/* Marks a function that switches stacks: no caller knows which registers it leaves alone. */
#ifdef __clang__
#define APART __attribute__((noinline))
#else
#define APART __attribute__((noipa))
#endif

namespace {

/* Bytes; a page or two of them are touched. Not a multiple of pages: a cache has few places for
   lines so far apart. */
constexpr size_t STACK = (32 << 10) + 320;
constexpr int WARP = 32, BARRIERS = 16, LOOKS = 24;

struct Lane;

struct Barrier {
  int arrived, threads;
  uint32_t round;
  Lane *waiting;
};

/* A place for a packet. */
struct Cell {
  uint32_t version; /* packets that have arrived */
  uint64_t due;     /* of the last one on its way */
  Lane *waiting;
};

/* The value that a lane saw when it last looked into a cell. */
struct Look {
  Cell *cell;
  uint32_t version;
  int times;
};

enum class State { READY, AT_MEETING, AT_BARRIER, AT_MAIL, ENDED };

struct Block;

struct Warp {
  Block *block;
  Lane *lanes;
  int index;               /* within the block */
  uint32_t ready, arrived; /* lanes that can go on; that wait for the others */
  bool queued;
  Meeting meeting;
  int phase;
  EmulatedValue brought[2][WARP]; /* a lane may be one meeting ahead */
};

struct Lane : EmulatedThread {
  void *context[5];       /* of __builtin_setjmp */
  unsigned thread, block; /* of the block; of the grid */
  State state;
  bool started;
  Warp *warp;
  unsigned char *stack;
  int barrier;               /* that it waits at */
  Cell *cell;                /* that it waits for a packet in */
  Lane *next;                /* that waits there, too */
  uint32_t rounds[BARRIERS]; /* 1 + the round of each barrier in which it last arrived */
  Look looks[LOOKS];
  unsigned next_look; /* that is forgotten next */
};

struct Block {
  Barrier barriers[BARRIERS];
};

struct Late {
  uint64_t due, order;
  size_t cell;
  unsigned char packet[16];
  bool operator<(const Late &other) const { /* the first due is the queue's top */
    return due != other.due ? due > other.due : order > other.order;
  }
};

/* How a launch is scheduled. Time is counted in runs of a warp, until it waits or has run for long;
   a step of training is thousands of them. Who is slow waits until nobody else can go on and no
   mail is on its way. */
struct Schedule {
  enum Slow { ONE_READER, WARPS, BLOCKS, SAME_WARPS } slow; /* of all blocks, the same warps */
  uint32_t one_in;                                          /* so many is slow */
  int period;                                               /* log2 of the time for which it is */
  uint32_t delay, rarely; /* a packet arrives up to `delay` late; one in `rarely`, 64 times that */
};

/* A launch. */
struct Launch {
  EmulatedKernel kernel;
  void **arguments;
  Schedule schedule;
  const Warp *victim; /* the one reader that is slow now */
  std::vector<Block> blocks;
  std::vector<Warp> warps;
  std::vector<Lane> lanes;
  std::vector<Cell> cells;
  std::vector<Warp *> queues[2]; /* warps that can go on; slow ones */
  std::priority_queue<Late> late;
  uint64_t time, random;
  uint64_t moves; /* packets that arrived, rounds of barriers, threads that ended */
  size_t living;  /* threads */
  bool failed;
};

Launch *launch;
EmulatorCounts counts;
std::string report;
void *scheduler[5]; /* context */

/* ---- the seed's numbers (splitmix64; Steele, Lea, Flood, 2014) ------------------------------- */

uint64_t mixed(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

uint32_t draw(uint32_t below) {
  return (uint32_t)(mixed(launch->random += 0x9e3779b97f4a7c15) >> 32) % below;
}

Schedule draw_schedule() {
  Schedule drawn;
  drawn.slow = (Schedule::Slow)draw(4);
  drawn.one_in = 2u << 3 * draw(4);
  drawn.period = 11 + (int)draw(5);
  drawn.delay = 8u << 4 * draw(3);
  drawn.rarely = 2u << 4 * draw(4);
  return drawn;
}

uint64_t draw_delay() {
  const Schedule &schedule = launch->schedule;
  return draw(draw(schedule.rarely) ? schedule.delay : 64 * schedule.delay);
}

bool is_slow(const Warp &warp, bool by_mail) {
  const uint64_t when = launch->time >> launch->schedule.period;
  uint64_t who;
  switch (launch->schedule.slow) {
  case Schedule::ONE_READER: /* that mail has come for: a warp, until it has gone on */
    if (!by_mail || launch->victim || draw(launch->schedule.one_in) != 0) return false;
    launch->victim = &warp;
    return true;
  case Schedule::WARPS:
    who = (uint64_t)(&warp - launch->warps.data());
    break;
  case Schedule::BLOCKS:
    who = (uint64_t)(warp.block - launch->blocks.data());
    break;
  default:
    who = (uint64_t)warp.index;
  }
  return mixed(mixed(emulator.seed + (when << 32)) + who) % launch->schedule.one_in == 0;
}

/* ---- fibers --------------------------------------------------------------------------------- */

[[noreturn]] APART void jump(void **context) {
  __builtin_longjmp(context, 1);
}

/* From a fiber to the scheduler, until it is entered again. */
APART void leave() {
  Lane *me = static_cast<Lane *>(emulated);
  if (__builtin_setjmp(me->context) == 0) jump(scheduler);
}

void run_fiber() {
  launch->kernel.call(launch->kernel.kernel, launch->arguments);
  Lane *me = static_cast<Lane *>(emulated);
  me->state = State::ENDED;
  launch->living--;
  launch->moves++;
  for (;;) leave();
}

[[noreturn]] APART void start(Lane *lane) {
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = lane->stack;
  context.uc_stack.ss_size = STACK;
  context.uc_link = nullptr;
  makecontext(&context, run_fiber, 0);
  setcontext(&context);
  abort();
}

APART void enter(Lane *lane) {
  counts.switches++;
  emulated = lane;
  threadIdx.x = lane->thread, blockIdx.x = lane->block;
  if (__builtin_setjmp(scheduler) == 0) {
    if (lane->started) jump(lane->context);
    lane->started = true;
    start(lane);
  }
}

/* ---- what goes wrong ------------------------------------------------------------------------ */

__attribute__((format(printf, 1, 2))) void add_line(const char *format, ...) {
  char line[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  report += line;
  report += '\n';
  launch->failed = true;
}

/* Ends the launch from a fiber. */
[[noreturn]] __attribute__((format(printf, 1, 2))) void fail_here(const char *format, ...) {
  char what[160];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  add_line("block %u, thread %u: %s", blockIdx.x, threadIdx.x, what);
  for (;;) leave();
}

uint32_t stamp_in(size_t cell) {
  uint32_t stamp;
  memcpy(&stamp, static_cast<unsigned char *>(emulator.mail) + 16 * cell + 12, sizeof stamp);
  return stamp;
}

std::string wait_of(const Lane &lane) {
  char text[128];
  switch (lane.state) {
  case State::AT_BARRIER: {
    const Barrier &barrier = lane.warp->block->barriers[lane.barrier];
    snprintf(text, sizeof text, "wait at barrier %d, where %d of %d have arrived", lane.barrier,
             barrier.arrived, barrier.threads);
    break;
  }
  case State::AT_MEETING:
    return "wait for the other lanes of their warp";
  case State::AT_MAIL: {
    const size_t cell = (size_t)(lane.cell - launch->cells.data());
    snprintf(text, sizeof text, "wait for mail, the first for packet %zu, which has stamp %u", cell,
             stamp_in(cell));
    break;
  }
  default:
    return "";
  }
  return text;
}

/* The lane that holds up its warp, or its first one. */
const Lane &first_waiting(const Warp &warp) {
  for (const Lane *lane = warp.lanes; lane < warp.lanes + WARP; lane++)
    if (lane->state == State::AT_MAIL || lane->state == State::AT_BARRIER) return *lane;
  return *warp.lanes;
}

/* A line for each run of warps of a block that wait in `state`, up to a number of lines. */
void report_waiting(State state) {
  enum { MOST_LINES = 16 };
  int lines = 0;
  const size_t count = launch->warps.size();
  for (size_t first = 0, last; first < count; first = last + 1) {
    const Lane &a = first_waiting(launch->warps[first]);
    const auto alike = [&](const Lane &b) {
      return b.state == state && b.block == a.block && b.barrier == a.barrier;
    };
    for (last = first; last + 1 < count && alike(first_waiting(launch->warps[last + 1]));) last++;
    if (a.state != state) continue;
    if (lines++ < MOST_LINES)
      add_line("block %u, warps %d to %d %s", a.block, launch->warps[first].index,
               launch->warps[last].index, wait_of(a).c_str());
  }
  if (lines > MOST_LINES) add_line("and %d lines like these", lines - MOST_LINES);
}

void report_deadlock() {
  add_line("deadlock: nobody can go on");
  for (const State state : {State::AT_MAIL, State::AT_MEETING, State::AT_BARRIER})
    report_waiting(state);
}

/* ---- who can go on -------------------------------------------------------------------------- */

void enqueue(Warp &warp, bool by_mail = false) {
  if (warp.queued) return;
  warp.queued = true;
  launch->queues[is_slow(warp, by_mail)].push_back(&warp);
}

void wake(Lane *lane) {
  const bool by_mail = lane->state == State::AT_MAIL;
  lane->state = State::READY;
  lane->warp->ready |= 1u << lane->lane;
  enqueue(*lane->warp, by_mail);
}

void wake_all(Lane *&waiting) {
  for (Lane *lane = waiting, *next; lane; lane = next) {
    next = lane->next;
    wake(lane);
  }
  waiting = nullptr;
}

void wait_in(Lane *&waiting, State state) {
  Lane *me = static_cast<Lane *>(emulated);
  me->state = state;
  me->next = waiting;
  waiting = me;
  leave();
}

/* ---- mail ----------------------------------------------------------------------------------- */

size_t cell_at(const void *at) {
  const size_t bytes = (size_t)(static_cast<const unsigned char *>(at) -
                                static_cast<const unsigned char *>(emulator.mail));
  if (bytes >= emulator.mail_bytes || bytes % 16 != 0) fail_here("an address that is not mail's");
  const size_t cell = bytes / 16, buffer = emulator.buffer, second = emulator.buffer_at + buffer;
  return cell >= second && cell < second + buffer ? cell - buffer : cell;
}

void deliver(const Late &mail) {
  memcpy(static_cast<unsigned char *>(emulator.mail) + 16 * mail.cell, mail.packet, 16);
  Cell &cell = launch->cells[mail.cell];
  cell.version++;
  launch->moves++;
  wake_all(cell.waiting);
}

void deliver_due() {
  while (!launch->late.empty() && launch->late.top().due <= launch->time) {
    deliver(launch->late.top());
    launch->late.pop();
  }
}

} // namespace

void store_b128(void *to, float x, float y, float z, uint32_t w) {
  const size_t index = cell_at(to);
  Cell &cell = launch->cells[index];
  if (++counts.packets == emulator.stamp_too_low) w--;
  Late mail = {std::max(launch->time + draw_delay(), cell.due), counts.packets, index, {}};
  cell.due = mail.due;
  const float values[3] = {x, y, z};
  memcpy(mail.packet, values, sizeof values);
  memcpy(mail.packet + 12, &w, sizeof w);
  launch->late.push(mail);
}

/* A lane that sees the same for the third time waits until something comes. */
void load_b128(const void *at, float &x, float &y, float &z, uint32_t &w) {
  const size_t index = cell_at(at);
  Lane *me = static_cast<Lane *>(emulated);
  Cell &cell = launch->cells[index];
  Look *const looks = me->looks, *found = looks;
  while (found < looks + LOOKS && found->cell != &cell) found++;
  if (found == looks + LOOKS) found = &looks[me->next_look++ % LOOKS];
  Look &look = *found;
  if (look.cell != &cell || look.version != cell.version) look = {&cell, cell.version, 0};
  if (++look.times > 2) {
    counts.vain_looks++;
    look.times = 0;
    me->cell = &cell;
    me->barrier = 0;
    wait_in(cell.waiting, State::AT_MAIL);
  }
  const unsigned char *packet = static_cast<unsigned char *>(emulator.mail) + 16 * index;
  float values[3];
  memcpy(values, packet, sizeof values);
  memcpy(&w, packet + 12, sizeof w);
  x = values[0], y = values[1], z = values[2];
  if (emulator.read_too_early && draw(emulator.read_too_early) == 0) w++;
}

/* ---- meetings ------------------------------------------------------------------------------- */

const EmulatedValue *emulator_meet(Meeting meeting, const void *value, size_t bytes,
                                   void (*combine)(EmulatedValue *)) {
  Lane *me = static_cast<Lane *>(emulated);
  Warp &warp = *me->warp;
  EmulatedValue *brought = warp.brought[warp.phase];
  if (warp.arrived != 0 && warp.meeting != meeting)
    fail_here("the lanes of its warp meet at different functions");
  warp.meeting = meeting;
  if (bytes > 0) memcpy(brought[me->lane].bytes, value, bytes);
  warp.arrived |= 1u << me->lane;
  if (warp.arrived != 0xffffffffu) {
    me->state = State::AT_MEETING;
    leave();
    return brought;
  }
  if (combine) combine(brought);
  warp.arrived = 0;
  warp.phase ^= 1;
  for (int i = 0; i < WARP; i++) warp.lanes[i].state = State::READY;
  warp.ready = 0xffffffffu & ~(1u << me->lane);
  return brought;
}

void emulator_arrive(int id, int threads, bool waits) {
  if (id != 0 && id == emulator.barrier_left_out) return;
  Lane *me = static_cast<Lane *>(emulated);
  Barrier &barrier = me->warp->block->barriers[id];
  if (barrier.arrived > 0 && barrier.threads != threads)
    fail_here("at barrier %d it counts %d threads, others count %d", id, threads, barrier.threads);
  if (me->rounds[id] == barrier.round + 1)
    fail_here("it arrives at barrier %d twice in the same round", id);
  me->rounds[id] = barrier.round + 1;
  barrier.threads = threads;
  if (++barrier.arrived == threads) {
    barrier.arrived = 0;
    barrier.round++;
    launch->moves++;
    wake_all(barrier.waiting);
  } else if (waits) {
    me->barrier = id;
    wait_in(barrier.waiting, State::AT_BARRIER);
  }
}

[[noreturn]] void emulator_fail(const char *what) {
  fail_here("%s", what);
}

/* ---- a launch ------------------------------------------------------------------------------- */

/* Runs the warp's lanes until none can go on, or long enough. */
static void run(Warp &warp) {
  warp.queued = false;
  if (launch->victim == &warp) launch->victim = nullptr;
  for (uint32_t left = 64 + draw(2048); warp.ready != 0 && !launch->failed;) {
    const int lane = __builtin_ctz(warp.ready);
    warp.ready &= warp.ready - 1;
    enter(&warp.lanes[lane]);
    if (--left == 0) break;
  }
  if (warp.ready != 0) enqueue(warp);
}

/* NULL: the queue is empty. */
static Warp *draw_warp(std::vector<Warp *> &queue) {
  if (queue.empty()) return nullptr;
  Warp *&chosen = queue[draw((uint32_t)queue.size())], *warp = chosen;
  chosen = queue.back();
  queue.pop_back();
  return warp;
}

/* Whoever waits for mail looks again: one that has already come may be what it wants. */
static void wake_readers() {
  for (Cell &cell : launch->cells) wake_all(cell.waiting);
}

static void schedule() {
  enum { VAIN_ROUNDS = 16 };
  int vain = 0;
  for (uint64_t moves = 0; launch->living > 0 && !launch->failed; launch->time++) {
    deliver_due();
    Warp *warp = draw_warp(launch->queues[0]);
    if (!warp && !launch->late.empty()) {
      launch->time = launch->late.top().due - 1;
      continue;
    }
    if (!warp) warp = draw_warp(launch->queues[1]);
    if (warp) {
      run(*warp);
      continue;
    }
    vain = launch->moves == moves ? vain + 1 : 0;
    moves = launch->moves;
    if (vain == VAIN_ROUNDS) report_deadlock();
    wake_readers();
  }
}

/* Stacks for `count` fibers, kept for later launches. NULL if there is no memory. */
static unsigned char *stacks_for(size_t count) {
  static unsigned char *stacks;
  static size_t bytes;
  if (bytes < count * STACK) {
    if (stacks) munmap(stacks, bytes);
    bytes = count * STACK;
    void *all = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    stacks = all == MAP_FAILED ? nullptr : static_cast<unsigned char *>(all);
    if (!stacks) bytes = 0;
  }
  return stacks;
}

static void check_end() {
  for (const Lane &lane : launch->lanes) {
    uint64_t last; /* of the stack: 0 until it is used */
    memcpy(&last, lane.stack, sizeof last);
    if (last == 0) continue;
    add_line("the stack of a fiber is too small");
    return;
  }
  for (size_t block = 0; block < launch->blocks.size() && !launch->failed; block++)
    for (int id = 0; id < BARRIERS; id++)
      if (const int arrived = launch->blocks[block].barriers[id].arrived)
        add_line("block %zu ends with %d threads of a round at barrier %d", block, arrived, id);
}

cudaError_t emulator_launch(EmulatedKernel kernel, dim3 blocks, dim3 threads, void **arguments,
                            size_t shared) {
  const size_t warps = threads.x / WARP, pitch = (shared + 127) / 128 * 128;
  report.clear();
  if (threads.x % WARP != 0 || threads.y * threads.z * blocks.y * blocks.z != 1)
    return cudaErrorInvalidValue;
  threadIdx = blockIdx = dim3(0, 0, 0);
  blockDim = threads, gridDim = blocks;
  Launch state = {};
  launch = &state;
  state.kernel = kernel;
  state.arguments = arguments;
  state.random = mixed(emulator.seed);
  state.schedule = draw_schedule();
  state.blocks.resize(blocks.x);
  state.warps.resize(blocks.x * warps);
  state.lanes.resize(state.warps.size() * WARP);
  state.cells.resize(emulator.mail_bytes / 16);
  state.living = state.lanes.size();
  std::unique_ptr<unsigned char[]> memory(new unsigned char[blocks.x * pitch + 128]);
  memset(memory.get(), 0xff, blocks.x * pitch + 128); /* as floats, NaN */
  unsigned char *aligned = memory.get() + (128 - (uintptr_t)memory.get() % 128);
  unsigned char *stacks = stacks_for(state.lanes.size());
  if (!stacks) abort();
  for (size_t w = 0; w < state.warps.size(); w++) {
    Warp &warp = state.warps[w];
    warp.block = &state.blocks[w / warps];
    warp.lanes = &state.lanes[w * WARP];
    warp.index = (int)(w % warps);
    for (int i = 0; i < WARP; i++) {
      Lane &lane = warp.lanes[i];
      lane.thread = (unsigned)(w % warps * WARP) + (unsigned)i;
      lane.block = (unsigned)(w / warps);
      lane.lane = i;
      lane.shared = aligned + w / warps * pitch;
      lane.warp = &warp;
      lane.stack = stacks + (w * WARP + (size_t)i) * STACK;
    }
    warp.ready = 0xffffffffu;
    enqueue(warp);
  }
  schedule();
  for (; !state.late.empty(); state.late.pop()) deliver(state.late.top());
  check_end();
  counts.launches++;
  emulated = nullptr;
  launch = nullptr;
  return state.failed ? cudaErrorLaunchFailure : cudaSuccess;
}

const char *emulator_report(void) {
  return report.c_str();
}

EmulatorCounts emulator_counts(void) {
  return counts;
}
