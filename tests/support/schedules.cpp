#include "support/schedules.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <queue>

#include "base/random.h"
#include "emulator/core.h"

DrawnLaunch drawn_launch;

namespace emulated {

static constexpr size_t SMALL_STACK = (32 << 10) + 320; /* lanes use only a page or two of it */
static constexpr size_t MOST_LANES = 1 << 18;
static constexpr int BARRIERS = 16, LOOKS = 24;

struct Barrier {
  int arrived, threads;
  uint32_t round;
  std::vector<Lane *> waiting;
};

/* A place for a packet in the mail. */
struct Slot {
  uint32_t version; /* number of packets that have arrived here */
  uint64_t due[2];  /* for each half of the slot: arrival time of the last packet sent there */
  std::vector<Lane *> waiting;
};

/* How many times a lane has read one version of a slot. */
struct Look {
  Slot *slot;
  uint32_t version;
  int times;
};

/* The state of a lane, in addition to its fiber. */
struct Reader {
  int barrier;               /* the barrier that the lane waits at */
  Slot *slot;                /* the slot that the lane waits for */
  uint32_t rounds[BARRIERS]; /* for each barrier: 1 + the last round in which the lane arrived */
  Look looks[LOOKS];
  unsigned next_look; /* index of the element of `looks` to overwrite next */
};

struct alignas(128) Line {
  unsigned char bytes[128];
};

struct Late {
  uint64_t due, order;
  size_t slot, bytes; /* bytes: 16 for a whole packet, 8 for half a packet */
  int half;           /* 1 if `packet` holds only the second half of a packet, otherwise 0 */
  unsigned char packet[16];
  bool operator<(const Late &other) const { /* puts the earliest packet on top of the queue */
    return due != other.due ? due > other.due : order > other.order;
  }
};

/* How a launch is scheduled. The unit of time is one run of a warp. A run ends when the warp waits
   or has run for long. A training step takes thousands of runs. A slow warp runs only if no other
   warp can run and no mail is on its way. SAME_WARPS: the slow warps of all blocks are the same. */
struct Schedule {
  enum Slow { ONE_READER, WARPS, BLOCKS, SAME_WARPS } slow;
  uint32_t one_in;        /* probability that a warp is slow: 1 / one_in */
  int period;             /* the slow warps change every 2^period units of time */
  uint32_t delay, rarely; /* packets are up to `delay` late; 1 in `rarely` is up to 64 * delay */
};

/* The state of a launch. Warp numbers count through all blocks. */
struct Drawn {
  Schedule schedule;
  size_t warps_of_block, victim; /* victim: 1 + the slow warp of ONE_READER; 0 if there is none */
  std::vector<Block> blocks;
  std::vector<Line> shared; /* shared memory of each block */
  std::vector<Lane> lanes;
  std::vector<Reader> readers;
  std::vector<Barrier> barriers; /* BARRIERS for each block */
  std::vector<bool> queued;      /* for each warp: true if it is in a queue */
  std::vector<Slot> slots;
  std::vector<Lane *> copied;    /* lanes that wait for a copy */
  std::vector<size_t> queues[2]; /* warps that can run: first normal, then slow warps */
  std::priority_queue<Late> late;
  uint64_t time, drawn; /* drawn: how many random numbers were drawn */
  uint64_t moves;       /* packets that arrived plus barrier rounds that ended */
};

static Drawn *launch;
static std::string report;
static uint64_t packets; /* number of packets sent so far */

static unsigned char *place_of(size_t slot) {
  return static_cast<unsigned char *>(drawn_launch.mail) + 16 * slot;
}

static size_t warp_of(const Lane &l) {
  return (size_t)(&l - launch->lanes.data()) / WARP;
}

static Reader &reader(const Lane &l) {
  return launch->readers[(size_t)(&l - launch->lanes.data())];
}

static Barrier &barrier_of(const Lane &l, int id) {
  return launch->barriers[BARRIERS * l.block->number + (size_t)id];
}

/* ---- random numbers from the seed ------------------------------------------------------------ */

static uint32_t word(uint64_t stream, uint64_t counter) {
  return random_words(drawn_launch.seed, stream, counter).word[0];
}

static uint32_t draw(uint32_t below) {
  return word(UINT64_MAX, launch->drawn++) % below;
}

static Schedule draw_schedule() {
  return {(Schedule::Slow)draw(4), 2u << 3 * draw(4), 11 + (int)draw(5), 8u << 4 * draw(3),
          2u << 4 * draw(4)};
}

static uint64_t draw_delay() {
  const Schedule &schedule = launch->schedule;
  return draw(draw(schedule.rarely) ? schedule.delay : 64 * schedule.delay);
}

static bool is_slow(size_t warp, bool by_mail) {
  const Schedule &s = launch->schedule;
  const uint64_t when = launch->time >> s.period, of_block = launch->warps_of_block;
  if (s.slow == Schedule::ONE_READER) { /* only a warp that mail has just woken can be slow */
    if (!by_mail || launch->victim || draw(s.one_in) != 0) return false;
    launch->victim = warp + 1;
    return true;
  }
  const uint64_t who = s.slow == Schedule::WARPS    ? warp
                       : s.slow == Schedule::BLOCKS ? warp / of_block
                                                    : warp % of_block;
  return word(when, who) % s.one_in == 0;
}

/* ---- what goes wrong ------------------------------------------------------------------------ */

static void add_line(const std::string &line) {
  report += line + '\n';
  failed = true;
}

/* Makes the launch fail. Must be called by a lane, on its fiber. */
[[noreturn]] static void fail_here(const std::string &what) {
  add_line(me() + ": " + what);
  stop();
}

static std::string wait_of(const Lane &l) {
  const Reader &r = reader(l);
  if (l.state == State::MEETS) return "wait for the other lanes of their warp";
  if (l.state == State::BARRIER) {
    const Barrier &barrier = barrier_of(l, r.barrier);
    return printed("wait at barrier %d, where %d of %d have arrived", r.barrier, barrier.arrived,
                   barrier.threads);
  }
  const size_t slot = (size_t)(r.slot - launch->slots.data());
  uint32_t stamp;
  memcpy(&stamp, place_of(slot) + 12, sizeof stamp);
  return printed("wait for mail, the first for packet %zu, which has stamp %u", slot, stamp);
}

/* Returns the warp's first lane that waits for mail or at a barrier, or else lane 0. */
static const Lane &first_waiting(size_t warp) {
  const Lane *first = &launch->lanes[warp * WARP];
  for (const Lane *l = first; l < first + WARP; l++)
    if (l->state == State::MAIL || l->state == State::BARRIER) return *l;
  return *first;
}

/* Reports at most MOST_LINES lines, each about adjacent warps of a block that wait in `state`. */
static void report_waiting(State state) {
  enum { MOST_LINES = 16 };
  int lines = 0;
  const size_t count = launch->queued.size(), of_block = launch->warps_of_block;
  for (size_t first = 0, last; first < count; first = last + 1) {
    const Lane &a = first_waiting(first);
    const auto alike = [&](const Lane &b) {
      return b.state == state && b.block == a.block && reader(b).barrier == reader(a).barrier;
    };
    for (last = first; last + 1 < count && alike(first_waiting(last + 1));) last++;
    if (a.state == state && lines++ < MOST_LINES)
      add_line(printed("block %u, warps %zu to %zu ", a.block->number, first % of_block,
                       last % of_block) +
               wait_of(a));
  }
  if (lines > MOST_LINES) add_line(printed("and %d lines like these", lines - MOST_LINES));
}

/* ---- warps that can run --------------------------------------------------------------------- */

static void enqueue(size_t warp, bool by_mail = false) {
  if (launch->queued[warp]) return;
  launch->queued[warp] = true;
  launch->queues[is_slow(warp, by_mail)].push_back(warp);
}

static void wake_all(std::vector<Lane *> &waiting) {
  for (Lane *l : waiting) {
    const bool by_mail = l->state == State::MAIL;
    l->state = State::READY;
    enqueue(warp_of(*l), by_mail);
  }
  waiting.clear();
}

static void wait_in(std::vector<Lane *> &waiting, State state) {
  waiting.push_back(lane);
  leave(state, 0);
}

/* ---- mail ----------------------------------------------------------------------------------- */

static size_t slot_at(const void *at) {
  const size_t bytes = (size_t)(static_cast<const unsigned char *>(at) - place_of(0));
  if (bytes >= drawn_launch.mail_bytes || bytes % 8 != 0)
    fail_here("an address that is not mail's");
  const size_t slot = bytes / 16, buffer = drawn_launch.buffer,
               second = drawn_launch.buffer_at + buffer;
  return slot >= second && slot < second + buffer ? slot - buffer : slot;
}

static void deliver_due(uint64_t time) {
  while (!launch->late.empty() && launch->late.top().due <= time) {
    const Late &mail = launch->late.top();
    Slot &slot = launch->slots[mail.slot];
    memcpy(place_of(mail.slot) + 8 * mail.half, mail.packet, mail.bytes);
    launch->late.pop();
    slot.version++;
    launch->moves++;
    wake_all(slot.waiting);
  }
}

/* ---- a launch ------------------------------------------------------------------------------- */

/* Runs a warp's lanes until each waits or has ended, or until they have run for long. */
static void run(size_t warp) {
  Lane *first = &launch->lanes[warp * WARP];
  launch->queued[warp] = false;
  if (launch->victim == warp + 1) launch->victim = 0;
  run_warp(first, WARP, 64 + draw(2048));
  if (!failed &&
      std::any_of(first, first + WARP, [](const Lane &l) { return l.state == State::READY; }))
    enqueue(warp);
}

/* Takes a random warp from the queue. Returns false if the queue is empty. */
static bool draw_warp(std::vector<size_t> &queue, size_t *warp) {
  if (queue.empty()) return false;
  size_t &chosen = queue[draw((uint32_t)queue.size())];
  *warp = chosen;
  chosen = queue.back();
  queue.pop_back();
  return true;
}

static bool all_ended() {
  return std::all_of(launch->lanes.begin(), launch->lanes.end(),
                     [](const Lane &l) { return l.state == State::ENDED; });
}

static void run_all() {
  enum { VAIN_ROUNDS = 16 };
  int vain = 0;
  for (uint64_t moves = 0; !failed; launch->time++) {
    size_t warp;
    deliver_due(launch->time);
    const bool can = draw_warp(launch->queues[0], &warp);
    if (!can && !launch->late.empty()) {
      launch->time = launch->late.top().due - 1;
      continue;
    }
    if (can || draw_warp(launch->queues[1], &warp)) {
      run(warp);
      continue;
    }
    if (all_ended()) return;
    vain = launch->moves == moves ? vain + 1 : 0;
    moves = launch->moves;
    if (vain == VAIN_ROUNDS) {
      add_line("deadlock: nobody can go on");
      for (const State state : {State::MAIL, State::MEETS, State::BARRIER}) report_waiting(state);
    }
    for (Slot &slot : launch->slots)
      wake_all(slot.waiting); /* although their packets may have come: see emulator_load_mail */
  }
}

static void check_end() {
  for (const Lane &l : launch->lanes) {
    uint64_t last; /* the last word of the stack; not 0 if the lane used the whole stack */
    memcpy(&last, l.stack, sizeof last);
    if (last == 0) continue;
    add_line("the stack of a fiber is too small");
    return;
  }
  for (size_t i = 0; i < launch->barriers.size() && !failed; i++)
    if (const int arrived = launch->barriers[i].arrived)
      add_line(printed("block %zu ends with %d threads of a round at barrier %zu", i / BARRIERS,
                       arrived, i % BARRIERS));
}

static bool run_drawn(const Call &call) {
  static unsigned char *const stacks = reserve(MOST_LANES * SMALL_STACK);
  const size_t threads = call.block.x, lines = call.shared / sizeof(Line) + 1;
  report.clear();
  if (threads % WARP != 0 || call.block.y * call.block.z * call.grid.y * call.grid.z != 1 ||
      call.grid.x * threads > MOST_LANES)
    return false;
  Drawn state = {};
  launch = &state;
  state.schedule = draw_schedule();
  state.warps_of_block = threads / WARP;
  state.blocks.resize(call.grid.x);
  state.lanes.resize(call.grid.x * threads);
  state.readers.resize(state.lanes.size());
  state.barriers.resize(BARRIERS * state.blocks.size());
  state.queued.resize(state.lanes.size() / WARP);
  state.slots.resize(drawn_launch.mail_bytes / 16);
  state.shared.resize(call.grid.x * lines);
  memset(state.shared.data(), 0xff, state.shared.size() * sizeof(Line)); /* NaN */
  for (unsigned b = 0; b < call.grid.x; b++) state.blocks[b] = {b, state.shared[b * lines].bytes};
  for (size_t i = 0; i < state.lanes.size(); i++)
    start_lane(&state.lanes[i], (unsigned)(i % threads), &state.blocks[i / threads],
               stacks + i * SMALL_STACK, SMALL_STACK);
  for (size_t warp = 0; warp < state.queued.size(); warp++) enqueue(warp);
  run_all();
  deliver_due(UINT64_MAX);
  check_end();
  counts.launches++;
  launch = nullptr;
  return !failed;
}

} // namespace emulated

using namespace emulated;

void emulator_arrive(int id, int threads, bool waits) {
  if (id != 0 && id == drawn_launch.barrier_left_out) return;
  Reader &me = reader(*lane);
  Barrier &barrier = barrier_of(*lane, id);
  if (barrier.arrived > 0 && barrier.threads != threads)
    fail_here(printed("at barrier %d it counts %d threads, others count %d", id, threads,
                      barrier.threads));
  if (me.rounds[id] == barrier.round + 1)
    fail_here(printed("it arrives at barrier %d twice in the same round", id));
  me.rounds[id] = barrier.round + 1;
  barrier.threads = threads;
  if (++barrier.arrived == threads) {
    barrier.arrived = 0;
    barrier.round++;
    launch->moves++;
    wake_all(barrier.waiting);
  } else if (waits) {
    me.barrier = id;
    wait_in(barrier.waiting, State::BARRIER);
  }
}

/* Makes a packet, or half a packet, look like one of another step: changes its stamp or phase. */
static void change_step(size_t index, unsigned char *packet, size_t bytes, int by) {
  if (index < drawn_launch.stamps) {
    packet[12] = (unsigned char)(packet[12] + by);
    return;
  }
  for (size_t i = 0; i < bytes; i += 8) packet[i + 3] ^= 0x80, packet[i + 4] ^= 1;
}

void emulator_store_mail(void *to, const void *packet, size_t bytes) {
  const size_t index = slot_at(to);
  Slot &slot = launch->slots[index];
  const int half = (uintptr_t)to % 16 != 0, last = bytes == 16 ? 1 : half;
  Late mail = {launch->time + draw_delay(), ++packets, index, bytes, half, {}};
  for (int i = half; i <= last; i++) mail.due = std::max(mail.due, slot.due[i]);
  for (int i = half; i <= last; i++) slot.due[i] = mail.due;
  memcpy(mail.packet, packet, bytes);
  if (packets == drawn_launch.stamp_too_low) change_step(index, mail.packet, bytes, -1);
  launch->late.push(mail);
}

/* A lane that reads the same packet for the third time waits until the next packet comes. */
void emulator_load_mail(const void *at, void *packet) {
  const size_t index = slot_at(at);
  Reader &me = reader(*lane);
  Slot &slot = launch->slots[index];
  Look *found = std::find_if(me.looks, me.looks + LOOKS,
                             [&](const Look &look) { return look.slot == &slot; });
  if (found == me.looks + LOOKS) found = &me.looks[me.next_look++ % LOOKS];
  Look &look = *found;
  if (look.slot != &slot || look.version != slot.version) look = {&slot, slot.version, 0};
  if (++look.times > 2) {
    look.times = 0;
    me.slot = &slot;
    me.barrier = 0;
    wait_in(slot.waiting, State::MAIL);
  }
  memcpy(packet, place_of(index), 16);
  if (drawn_launch.read_too_early && draw(drawn_launch.read_too_early) == 0)
    change_step(index, static_cast<unsigned char *>(packet), 16, 1);
}

extern "C" {

void schedules_draw(bool draw) {
  static const AtOnce drawn = {run_drawn, emulator_arrive};
  at_once = draw ? &drawn : nullptr;
}

void schedules_await_copy(void) {
  reader(*lane).slot = &launch->slots[0];
  wait_in(launch->copied, State::MAIL);
}

void schedules_copied(void) {
  launch->moves++;
  wake_all(launch->copied);
}

uint64_t schedules_packets(void) {
  return packets;
}

const char *schedules_report(void) {
  return report.c_str();
}

} // extern "C"
