/* Requests of warps: accesses of lanes, joined. */
#include "emulator/core.h"

#include <algorithm>

namespace emulated {

std::vector<Site> sites, sites_of_launches;
EmulatorCounts counts;

/* An event of a lane, in order: an access, or a step into a basic block. */
struct Event {
  uint32_t pc, site; /* pc: within the program */
  uintptr_t address;
};

static constexpr uint32_t FULL = 256; /* events of a lane, until they are joined */
static Event events[WARP][FULL + 4];  /* not all at the same place of a cache */
static uint32_t noted[WARP];

/* A site by all that tells it from others. */
struct Slot {
  uint64_t key; /* 0: none */
  uint32_t site;
};
static constexpr size_t SLOTS = 1 << 14;
static Slot slots[SLOTS];

uint32_t note(uintptr_t pc, bool step, bool shared, bool write, bool atomic, unsigned size,
              uintptr_t address) {
  const uint64_t key =
      (uint64_t)pc << 8 | size << 3 | (unsigned)shared << 2 | (unsigned)write << 1 | 1;
  size_t slot = (key >> 8 ^ key >> 21 ^ key << 4) % SLOTS;
  while (slots[slot].key != key && slots[slot].key != 0) slot = (slot + 1) % SLOTS;
  if (slots[slot].key == 0) {
    slots[slot] = {key, (uint32_t)sites.size()};
    sites.push_back({pc, step, shared, write, atomic, size, {}});
  }
  const uint32_t site = slots[slot].site;
  const int i = lane->thread % WARP;
  while (noted[i] == FULL) leave(State::FULL, pc);
  events[i][noted[i]++] = {(uint32_t)(pc - program_base), site, address};
  return site;
}

/* How many different numbers there are. Mostly they ascend. */
static size_t distinct(uintptr_t *first, uintptr_t *end) {
  if (!std::is_sorted(first, end)) std::sort(first, end);
  return (size_t)(std::unique(first, end) - first);
}

static void count_global(Site &s, uintptr_t *addresses, int count) {
  uintptr_t sectors[2 * WARP];
  for (int i = 0; i < count; i++) {
    sectors[2 * i] = addresses[i] / 32;
    sectors[2 * i + 1] = (addresses[i] + s.size - 1) / 32;
  }
  const size_t moved = distinct(sectors, sectors + 2 * count),
               used = distinct(addresses, addresses + count) * s.size;
  counts.requests++;
  for (EmulatorCounts *c : {&counts, &s.counts}) c->sectors += moved, c->bytes_used += used;
}

/* Returns true if lanes n and n ^ 1 of half a warp want the same, or n and n ^ 2. */
static bool is_shared(const uintptr_t *addresses) {
  bool near = true, far = true;
  for (int i = 0; i < WARP / 2; i++) {
    near = near && addresses[i] == addresses[i ^ 1];
    far = far && addresses[i] == addresses[i ^ 2];
  }
  return near || far;
}

/* Passes of the 32 banks of 4 bytes. Of words of 8 or 16 bytes, half or a quarter of a warp is
   served at a time, but half a warp whose lanes share. Atomics to one word are served in turn. */
static void count_shared(Site &s, const uintptr_t *addresses, int count) {
  unsigned turns = 0, least = 0;
  for (int first = 0, at_once; first < count; first += at_once, least++) {
    at_once = s.size <= 4 ? WARP : s.size == 8 ? WARP / 2 : WARP / 4;
    if (s.size == 16 && !s.write && first + WARP / 2 <= count && is_shared(addresses + first))
      at_once = WARP / 2;
    uintptr_t words[WARP][WARP];
    int of_bank[WARP] = {}, most = 1;
    for (int i = first; i < std::min(first + at_once, count); i++)
      for (uintptr_t word = addresses[i] / 4; word <= (addresses[i] + s.size - 1) / 4; word++) {
        const int bank = (int)(word % WARP), n = of_bank[bank];
        if (!s.atomic && std::find(words[bank], words[bank] + n, word) != words[bank] + n) continue;
        words[bank][n] = word;
        most = std::max(most, of_bank[bank] = n + 1);
      }
    turns += (unsigned)most;
  }
  for (EmulatorCounts *c : {&counts, &s.counts}) c->turns += turns, c->least_turns += least;
  if (s.atomic) counts.atomic_turns += turns;
}

static void count_request(Site &s, uintptr_t *addresses, int count, int lanes_of_warp) {
  if (s.step) {
    counts.lane_steps += (unsigned)count, counts.step_slots += (unsigned)lanes_of_warp;
    return;
  }
  s.shared ? count_shared(s, addresses, count) : count_global(s, addresses, count);
  s.counts.requests++;
  counts.lanes += (unsigned)count, counts.slots += (unsigned)lanes_of_warp;
}

/* Where lanes are at several places, those at the lowest address go first, so that parted lanes
   meet again (Collange, "Stack-less SIMT reconvergence at low cost", 2011). Where a lane is full,
   the others wait for what it does next. */
void count_requests(const Lane *first, int count) {
  uint32_t at[WARP] = {};
  for (;;) {
    uint32_t least = UINT32_MAX;
    for (int i = 0; i < count; i++) {
      if (at[i] < noted[i])
        least = std::min(least, events[i][at[i]].pc);
      else if (first[i].state == State::FULL)
        least = 0;
    }
    if (least == UINT32_MAX || least == 0) break;
    uintptr_t addresses[WARP];
    int there = 0;
    uint32_t site = 0;
    for (int i = 0; i < count; i++) {
      if (at[i] == noted[i] || events[i][at[i]].pc != least) continue;
      site = events[i][at[i]].site;
      addresses[there++] = events[i][at[i]++].address;
    }
    count_request(sites[site], addresses, there, count);
  }
  for (int i = 0; i < count; i++) {
    std::copy(events[i] + at[i], events[i] + noted[i], events[i]);
    noted[i] -= at[i];
  }
}

void keep_launch() {
  std::fill_n(noted, WARP, 0u); /* of a launch that failed */
  counts.launches++;
  for (Site &s : sites) {
    if (s.counts.requests > 0) sites_of_launches.push_back(s);
    s.counts = {};
  }
  for (Region *r : regions) {
    if (!r) continue;
    if (!r->shared) counts.bytes_once += r->bytes_once;
    r->bytes_once = 0;
  }
}

} // namespace emulated

extern "C" EmulatorCounts emulator_counts(void) {
  return emulated::counts;
}
