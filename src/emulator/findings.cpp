/* Reports counts and findings, with their source lines. */
#include "emulator/core.h"

#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

namespace emulated {

/* A request consists of the accesses that the lanes of a warp make together. */

std::vector<Site> sites, sites_of_launches;
EmulatorCounts counts;

/* An event of a lane: an access, or a step into a basic block. */
struct Event {
  uint32_t pc, site; /* pc is relative to program_base */
  uintptr_t address;
};

static constexpr uint32_t FULL = 256; /* capacity of a lane's list of events */
static Event events[WARP][FULL + 4];  /* + 4 spreads the arrays over a cache's sets */
static uint32_t noted[WARP];

/* An entry of the hash table of sites. Two sites never have the same key. */
struct Slot {
  uint64_t key; /* 0 means that the slot is free */
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
    sites.push_back({pc, step, shared, write, atomic, size, {}, {}});
  }
  const uint32_t site = slots[slot].site;
  const int i = lane->thread % WARP;
  while (noted[i] == FULL) leave(State::FULL, pc);
  events[i][noted[i]++] = {(uint32_t)(pc - program_base), site, address};
  return site;
}

/* Returns the number of distinct values in [first, end), which are usually sorted already. */
static size_t distinct(uintptr_t *first, uintptr_t *end) {
  if (!std::is_sorted(first, end)) std::sort(first, end);
  return (size_t)(std::unique(first, end) - first);
}

/* Returns a picture of a request, a bracket for each sector and a # for each word that it uses,
   such as "[#.......] x 32". */
static std::string picture_of(unsigned size, const uintptr_t *addresses, int count) {
  constexpr size_t MOST_SHOWN = 6;
  std::map<uintptr_t, std::string> sectors;
  for (int i = 0; i < count; i++)
    for (uintptr_t at = addresses[i] / 4; at <= (addresses[i] + size - 1) / 4; at++)
      sectors.emplace(at / 8, "........").first->second[at % 8] = '#';
  std::vector<std::pair<std::string, int>> runs;
  for (const auto &[number, words] : sectors) {
    if (runs.empty() || runs.back().first != words) runs.push_back({words, 0});
    runs.back().second++;
  }
  std::string text;
  for (size_t i = 0; i < std::min(runs.size(), MOST_SHOWN); i++) {
    text += " [" + runs[i].first + "]";
    if (runs[i].second > 1) text += printed(" x %d", runs[i].second);
  }
  return runs.size() > MOST_SHOWN ? text + " ..." : text;
}

static void count_global(Site &s, uintptr_t *addresses, int count) {
  uintptr_t sectors[2 * WARP];
  if (count == WARP && s.picture.empty()) s.picture = picture_of(s.size, addresses, count);
  for (int i = 0; i < count; i++) {
    sectors[2 * i] = addresses[i] / 32;
    sectors[2 * i + 1] = (addresses[i] + s.size - 1) / 32;
  }
  const size_t moved = distinct(sectors, sectors + 2 * count),
               used = distinct(addresses, addresses + count) * s.size;
  counts.requests++;
  for (EmulatorCounts *c : {&counts, &s.counts}) c->sectors += moved, c->bytes_used += used;
}

/* Returns true if lanes n and n ^ 1 have equal addresses for all 16 lanes n, or if all lanes n and
   n ^ 2 do. */
static bool is_shared(const uintptr_t *addresses) {
  bool near = true, far = true;
  for (int i = 0; i < WARP / 2; i++) {
    near = near && addresses[i] == addresses[i ^ 1];
    far = far && addresses[i] == addresses[i ^ 2];
  }
  return near || far;
}

/* Counts passes over the 32 banks. A pass serves at most half a warp if each lane accesses 8 bytes,
   and at most a quarter of a warp if each lane accesses 16 bytes. */
static void count_shared(Site &s, const uintptr_t *addresses, int count) {
  unsigned turns = 0, least = 0;
  for (int first = 0, at_once; first < count; first += at_once, least++) {
    at_once = WARP * 4 / std::max((int)s.size, 4);
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
  if (!s.write) counts.load_turns += turns;
}

static uint64_t longest; /* steps of this launch's longest warp */

static void count_request(Site &s, uintptr_t *addresses, int count, Lane *first) {
  if (s.step) {
    counts.lane_steps += (unsigned)count, counts.step_slots += WARP;
    longest = std::max(longest, ++first->steps);
    return;
  }
  s.shared ? count_shared(s, addresses, count) : count_global(s, addresses, count);
  s.counts.requests++;
  counts.lanes += (unsigned)count, counts.slots += WARP;
}

/* Makes each request from the lanes whose next event has the lowest code address, so that diverged
   lanes come together again (Collange, 2011). Stops if a lane in State::FULL has no event left. */
void count_requests(Lane *first, int count) {
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
    count_request(sites[site], addresses, there, first);
  }
  for (int i = 0; i < count; i++) {
    std::copy(events[i] + at[i], events[i] + noted[i], events[i]);
    noted[i] -= at[i];
  }
}

void keep_launch() {
  std::fill_n(noted, WARP, 0u); /* drops events of a launch that failed */
  counts.launches++;
  counts.depth += longest;
  longest = 0;
  for (Site &s : sites) {
    if (s.counts.requests > 0) sites_of_launches.push_back(s);
    s.counts = {};
    s.picture.clear();
  }
  for (Region *r : regions) {
    if (!r) continue;
    if (!r->shared) counts.bytes_once += r->bytes_once;
    r->bytes_once = 0;
  }
}

static std::vector<EmulatorFinding> findings;

std::string printed(const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

static constexpr uint64_t ENOUGH = 1000; /* a finding that occurs this often ends the launch */

static void add(std::vector<EmulatorFinding> &to, const char *kind, const std::string &text,
                uintptr_t a, uintptr_t b) {
  EmulatorFinding f = {};
  f.a = a, f.b = b, f.count = 1;
  snprintf(f.kind, sizeof f.kind, "%s", kind);
  snprintf(f.text, sizeof f.text, "%s", text.c_str());
  to.push_back(f);
}

void find_wrong(const char *kind, const std::string &text, uintptr_t a, uintptr_t b) {
  for (EmulatorFinding &f : findings)
    if (strcmp(f.kind, kind) == 0 && f.a == a && f.b == b) {
      if (++f.count == ENOUGH && lane) stop();
      return;
    }
  add(findings, kind, text, a, b);
}

void stop_at(const char *kind, const std::string &text, uintptr_t pc) {
  find_wrong(kind, "%A: " + me() + text, pc);
  stop();
}

static std::map<uintptr_t, std::vector<std::string>> places; /* "file:line", inner calls first */

/* Looks up all addresses by one run of addr2line, because each run reads all debug information. */
static void look_up(const std::vector<uintptr_t> &addresses) {
  std::string command = "addr2line -a -i -e /proc/" + std::to_string(getpid()) + "/exe";
  bool any = false;
  for (uintptr_t a : addresses)
    if (a && places.emplace(a, std::vector<std::string>()).second)
      command += printed(" %#zx", (size_t)(a - 1)), any = true;
  if (!any) return;
  fflush(nullptr);
  FILE *pipe = popen((command + " 2>/dev/null").c_str(), "r");
  char text[4096];
  uintptr_t at = 0;
  while (pipe && fgets(text, sizeof text, pipe)) {
    text[strcspn(text, "\n(")] = 0;
    std::string place = text;
    while (!place.empty() && place.back() == ' ') place.pop_back();
    if (place.compare(0, 2, "./") == 0) place.erase(0, 2);
    if (place.compare(0, 2, "0x") == 0)
      at = strtoull(text, nullptr, 16) + 1;
    else
      places[at].push_back(place.substr(place.rfind("kernels/") + 1 ? place.rfind("kernels/") : 0));
  }
  if (pipe) pclose(pipe);
}

static bool is_ours(const std::string &place) {
  return place.find("emulator/") != std::string::npos || place.find("/c++/") != std::string::npos ||
         place[0] == '?' || place.back() == '?';
}

static const char UNKNOWN[] = "an unknown line";

/* Returns a line like "kernels/exercise.cu:44", and the calling line if it is in another file. */
static std::string line_of(uintptr_t return_address) {
  if (!return_address) return "";
  look_up({return_address});
  std::string line;
  const auto file_of = [](const std::string &place) { return place.substr(0, place.rfind(':')); };
  for (const std::string &place : places[return_address]) {
    if (is_ours(place)) continue;
    if (!line.empty() && file_of(place) == file_of(line)) continue;
    if (!line.empty()) return line + " (" + place + ")";
    line = place;
  }
  return line.empty() ? UNKNOWN : line;
}

static const char *kind_of(const Site &s) {
  if (s.atomic) return "an atomic operation";
  return s.write ? "a store" : "a load";
}

static std::string cost_of(const Site &s) {
  const EmulatorCounts &c = s.counts;
  const double requests = (double)c.requests;
  const char *does = kind_of(s);
  if (s.shared)
    return printed(
        "%%A: %s of shared memory, bank conflicts: %.1f turns of the banks for a request, where "
        "%.1f would do",
        does, (double)c.turns / requests, (double)c.least_turns / requests);
  const std::string text =
      printed("%%A: %s: %.1f sectors for a request, of which it uses %.0f of %.0f bytes", does,
              (double)c.sectors / requests, (double)c.bytes_used / requests,
              32 * (double)c.sectors / requests);
  if (s.picture.empty()) return text;
  return text + printed("\n    a warp's words (#) in its sectors [ ]:%s; if lanes were neighbours: "
                        "[########] x %u",
                        s.picture.c_str(), s.size);
}

/* Returns the number of unneeded bank passes or sectors. For sectors, returns 0 if at least half of
   their bytes are used or if a request uses at most 32 bytes on average. */
static double waste_of(const Site &s) {
  const EmulatorCounts &c = s.counts;
  if (s.shared) return (double)c.turns - (double)c.least_turns;
  const bool much = c.sectors * 32 > c.bytes_used * 2 && c.bytes_used > 32 * c.requests;
  return much ? (double)c.sectors - (double)c.bytes_used / 32 : 0;
}

static std::vector<EmulatorFinding> costs_of_launches() {
  std::vector<const Site *> costs;
  for (const Site &s : sites_of_launches)
    if (waste_of(s) > 0) costs.push_back(&s);
  std::stable_sort(costs.begin(), costs.end(),
                   [](const Site *a, const Site *b) { return waste_of(*a) > waste_of(*b); });
  std::vector<EmulatorFinding> result;
  for (const Site *s : costs) add(result, "cost", cost_of(*s), s->pc, 0);
  return result;
}

} // namespace emulated

using namespace emulated;

extern "C" void emulator_found(bool costs, EmulatorFinding found[EMULATOR_MOST]) {
  const std::vector<EmulatorFinding> all = costs ? costs_of_launches() : findings;
  std::fill_n(found, EMULATOR_MOST, EmulatorFinding{});
  std::copy_n(all.begin(), std::min(all.size(), (size_t)EMULATOR_MOST), found);
  for (int i = 0; i < EMULATOR_MOST; i++)
    for (uintptr_t *place : {&found[i].a, &found[i].b})
      if (*place) *place -= program_base; /* other processes have another program_base */
}

/* Reports each kind of finding once per place. The kinds barrier, barriers, bounds, mask and
   meeting come first. Omits a read of unwritten memory if a race was found at the same place. */
extern "C" void emulator_lines(const EmulatorFinding found[EMULATOR_MOST], int most, char *text,
                               size_t size) {
  std::vector<EmulatorFinding> all;
  std::vector<uintptr_t> addresses;
  std::set<uintptr_t> raced;
  for (int i = 0; i < EMULATOR_MOST && *found[i].kind; i++) {
    all.push_back(found[i]);
    for (uintptr_t a : {found[i].a, found[i].b}) {
      addresses.push_back(a);
      if (strcmp(found[i].kind, "race") == 0) raced.insert(a);
    }
  }
  look_up(addresses);
  std::set<std::string> said;
  std::string result;
  for (const bool first : {true, false})
    for (const EmulatorFinding &f : all) {
      const std::string kind = f.kind, b = line_of(f.b);
      std::string line = f.text, a = line_of(f.a);
      if (kind == "endless" && a == UNKNOWN) a = b;
      if ((kind[0] == 'b' || kind[0] == 'm') != first) continue;
      if (kind == "unwritten" && raced.count(f.a)) continue;
      if (!said.insert((kind == "cost" || kind == "barriers" ? line : kind) + std::min(a, b) +
                       std::max(a, b))
               .second ||
          most-- <= 0)
        continue;
      for (size_t at; (at = line.find("%A")) != std::string::npos;) line.replace(at, 2, a);
      for (size_t at; (at = line.find("%B")) != std::string::npos;) line.replace(at, 2, b);
      result += line;
      if (f.count > 1) result += printed(" (%llu times)", (unsigned long long)f.count);
      result += '\n';
    }
  snprintf(text, size, "%s", result.c_str());
}

extern "C" void emulator_told(bool costs, int most, char *text, size_t size) {
  EmulatorFinding found[EMULATOR_MOST];
  emulator_found(costs, found);
  emulator_lines(found, most, text, size);
}

extern "C" void emulator_forget(void) {
  counts = {}, findings.clear(), sites_of_launches.clear();
}

extern "C" EmulatorCounts emulator_counts(void) {
  return emulated::counts;
}
