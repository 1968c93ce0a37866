/* Requests of warps: accesses of lanes, joined. */
#include "emulator/core.h"

#include <algorithm>

namespace emulated {

std::vector<Site> sites;
std::vector<Launch> launches;
EmulatorLaunch now;

/* An event of a lane, in order: an access, or a step into a basic block. */
struct Event {
  uint32_t pc, site; /* pc: within the program */
  uintptr_t address;
};

static constexpr uint32_t FULL = 512; /* events of a lane, until they are joined */
static Event events[WARP][FULL];
static uint32_t noted[WARP];

static constexpr size_t SLOTS = 1 << 14;
static uint32_t slot_of[SLOTS]; /* 1 + index of a site */

static inline uint32_t site_at(uintptr_t pc, bool step, bool shared, bool write, bool atomic,
                               unsigned size) {
  const uintptr_t key = pc * 2 + shared;
  for (size_t slot = (key ^ key >> 13) % SLOTS;; slot = (slot + 1) % SLOTS) {
    if (slot_of[slot] == 0) {
      sites.push_back({pc, step, shared, write, atomic, size, 0, 0, 0, 0, 0, 0});
      slot_of[slot] = (uint32_t)sites.size();
    }
    const Site &site = sites[slot_of[slot] - 1];
    if (site.pc == pc && site.shared == shared) return slot_of[slot] - 1;
  }
}

uint32_t note(uintptr_t pc, bool step, bool shared, bool write, bool atomic, unsigned size,
              uintptr_t address) {
  const uint32_t site = site_at(pc, step, shared, write, atomic, size);
  const int i = lane->thread % WARP;
  while (noted[i] == FULL) leave(State::FULL, pc);
  events[i][noted[i]++] = {(uint32_t)(pc - program_base), site, address};
  return site;
}

/* ---- a request ------------------------------------------------------------------------------ */

/* A small set of numbers, mostly added in ascending order. */
struct Few {
  uintptr_t value[2 * WARP + 2];
  int count = 0;
  void add(uintptr_t v) {
    if (count > 0 && value[count - 1] == v) return;
    if (count > 0 && value[count - 1] > v && std::find(value, value + count, v) != value + count)
      return;
    value[count++] = v;
    if (count > 1 && value[count - 2] > v) std::sort(value, value + count);
  }
};

static void count_global(Site &s, const uintptr_t *addresses, int count) {
  Few sectors, places;
  for (int i = 0; i < count; i++) {
    places.add(addresses[i]);
    sectors.add(addresses[i] / 32);
    sectors.add((addresses[i] + s.size - 1) / 32);
  }
  const unsigned used = (unsigned)places.count * s.size;
  auto &traffic = s.write ? now.written : now.read;
  traffic.requests++;
  traffic.sectors += (unsigned)sectors.count, s.sectors += (unsigned)sectors.count;
  traffic.bytes_used += used, s.bytes_used += used;
}

/* Passes of the 32 banks of 4 bytes. Of words of 8 or 16 bytes, half or a quarter of a warp at a
   time is served. Atomics to one word are served one after the other. */
static void count_shared(Site &s, const uintptr_t *addresses, int count) {
  const int at_once = s.size <= 4 ? WARP : s.size == 8 ? WARP / 2 : WARP / 4;
  unsigned turns = 0, least = 0;
  for (int first = 0; first < count; first += at_once, least++) {
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
  now.shared_requests++;
  now.wavefronts += turns, s.wavefronts += turns;
  now.least_wavefronts += least, s.least_wavefronts += least;
}

static void count_request(Site &s, const uintptr_t *addresses, int count, int lanes_of_warp) {
  if (s.step) {
    now.warp_steps += (unsigned)lanes_of_warp, now.lane_steps += (unsigned)count;
    return;
  }
  s.shared ? count_shared(s, addresses, count) : count_global(s, addresses, count);
  s.requests++;
  s.lanes += (unsigned)count;
  now.lanes += (unsigned)count, now.slots += (unsigned)lanes_of_warp;
  if (s.atomic) now.atomics += (unsigned)count;
}

/* Where lanes are at several places, those at the lowest address go first, as hardware and
   compilers arrange it that parted lanes meet again (Collange, "Stack-less SIMT reconvergence at
   low cost", 2011): who is still in a loop or a branch goes before who waits behind it. Where a
   lane is full, the others wait for what it does next. */
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
  Launch kept = {now, {}};
  for (Site &s : sites) {
    if (s.requests > 0) kept.sites.push_back(s);
    s.requests = s.lanes = s.sectors = s.bytes_used = s.wavefronts = s.least_wavefronts = 0;
  }
  for (Region *r : regions) {
    if (!r) continue;
    if (!r->shared)
      kept.counts.read.once += r->read_once, kept.counts.written.once += r->written_once;
    r->read_once = r->written_once = 0;
  }
  launches.push_back(kept);
}

} // namespace emulated

extern "C" int emulator_launches(void) {
  return (int)emulated::launches.size();
}

extern "C" const EmulatorLaunch *emulator_launch(int index) {
  return &emulated::launches[(size_t)index].counts;
}
