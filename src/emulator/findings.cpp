/* Findings, and the lines of the source where they are. */
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

static std::vector<EmulatorFinding> findings;

std::string printed(const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

static constexpr uint64_t ENOUGH = 1000; /* of one kind at one place: they tell no more */

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

static std::map<uintptr_t, std::vector<std::string>> places; /* "file:line", innermost first */

/* All at once: a process of addr2line reads the program's debug information. */
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
         place[0] == '?';
}

static const char UNKNOWN[] = "an unknown line";

/* "kernels/exercise.cu:44", and where it was called from if that is another file. */
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

static std::string cost_of(const Site &s) {
  const EmulatorCounts &c = s.counts;
  const double requests = (double)c.requests;
  const char *does = s.atomic ? "an atomic operation" : s.write ? "a store" : "a load";
  return s.shared
             ? printed("%%A: %s of shared memory: %.1f turns of the banks for a request, where "
                       "%.1f would do",
                       does, (double)c.turns / requests, (double)c.least_turns / requests)
             : printed("%%A: %s: %.1f sectors for a request, of which it uses %.0f of %.0f bytes",
                       does, (double)c.sectors / requests, (double)c.bytes_used / requests,
                       32 * (double)c.sectors / requests);
}

/* Sectors or turns of the banks that are more than need be; 0: not worth a word. */
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
      if (*place) *place -= program_base; /* which only this process knows */
}

/* Tells each line, or pair of lines, once, barriers first, for other errors follow from them. Two
   copies of one barrier may have one line; a value that races is not also told as unwritten. */
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
      const std::string kind = f.kind, a = line_of(f.a), b = line_of(f.b);
      std::string line = f.text;
      if ((kind[0] == 'b' || kind[0] == 'm') != first) continue;
      if (kind == "barriers" && (a == b || a == UNKNOWN || b == UNKNOWN)) continue;
      if (kind == "unwritten" && raced.count(f.a)) continue;
      if (!said.insert((kind == "cost" ? line : kind) + std::min(a, b) + std::max(a, b)).second ||
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
