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
#include <sstream>
#include <tuple>

namespace emulated {

struct Finding {
  std::string kind, text;
  uintptr_t a, b;
  bool unless_same_line;
  uint64_t count;
};

static std::vector<Finding> findings;

std::string printed(const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

void find_wrong(const char *kind, const std::string &text, uintptr_t a, uintptr_t b,
                bool unless_same_line) {
  for (Finding &f : findings)
    if (f.kind == kind && f.a == a && f.b == b) {
      f.count++;
      return;
    }
  findings.push_back({kind, text, a, b, unless_same_line, 1});
}

/* ---- lines of the source -------------------------------------------------------------------- */

static std::map<uintptr_t, std::vector<std::string>> places; /* "file:line", innermost first */

/* All at once: a process of addr2line reads the program's debug information. */
static void look_up(const std::vector<uintptr_t> &addresses) {
  std::string command = "addr2line -a -i -e /proc/" + std::to_string(getpid()) + "/exe";
  bool any = false;
  for (uintptr_t a : addresses)
    if (a && places.emplace(a, std::vector<std::string>()).second)
      command += printed(" %#zx", (size_t)(a - 1 - program_base)), any = true;
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
      at = strtoull(text, nullptr, 16) + 1 + program_base;
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

/* ---- records and what is told of them --------------------------------------------------------

   A record is lines of "kind a b unless_same_line count text", for a process that does not look up
   lines itself. */

static std::string cost_of(const Site &s) {
  const double requests = (double)s.requests;
  const char *does = s.atomic ? "an atomic operation" : s.write ? "a store" : "a load";
  return s.shared
             ? printed("%%A: %s%s: %.1f turns of the banks for a request, where %.1f would do",
                       does, " of shared memory", (double)s.wavefronts / requests,
                       (double)s.least_wavefronts / requests)
             : printed("%%A: %s: %.1f sectors for a request, of which it uses %.0f of %.0f bytes",
                       does, (double)s.sectors / requests, (double)s.bytes_used / requests,
                       32 * (double)s.sectors / requests);
}

/* Sectors or turns of the banks that are more than need be; 0: not worth a word. */
static double waste_of(const Site &s) {
  if (s.shared) return (double)s.wavefronts - (double)s.least_wavefronts;
  const bool much = s.sectors * 32 > s.bytes_used * 2 && s.bytes_used > 32 * s.requests;
  return much ? (double)s.sectors - (double)s.bytes_used / 32 : 0;
}

static std::string record() {
  std::vector<const Site *> costs;
  std::string text;
  for (const Finding &f : findings)
    text += printed("%s %zu %zu %d %llu ", f.kind.c_str(), (size_t)f.a, (size_t)f.b,
                    f.unless_same_line, (unsigned long long)f.count) +
            f.text + "\n";
  for (const Launch &l : launches)
    for (const Site &s : l.sites)
      if (waste_of(s) > 0) costs.push_back(&s);
  std::stable_sort(costs.begin(), costs.end(),
                   [](const Site *a, const Site *b) { return waste_of(*a) > waste_of(*b); });
  for (const Site *s : costs)
    text += printed("cost %zu 0 0 1 ", (size_t)s->pc) + cost_of(*s) + "\n";
  return text;
}

static std::vector<Finding> read_record(const char *text) {
  std::vector<Finding> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Finding f;
    words >> f.kind >> f.a >> f.b >> f.unless_same_line >> f.count;
    words.get();
    if (words && std::getline(words, f.text)) all.push_back(f);
  }
  return all;
}

/* Findings that say something: threads may well wait at two copies of one line, of which the
   compiler does not always keep the number; a value that is read before another thread writes it is
   a race, and not also one that nobody has written. Each line, or pair of lines, is told once.
   Barriers come first, for other errors follow from them. */
static std::string told(const char *text, bool costs, int most) {
  start_memory(); /* which knows where the program is */
  const std::vector<Finding> all = read_record(text);
  std::vector<uintptr_t> addresses;
  std::set<uintptr_t> raced;
  for (const Finding &f : all)
    for (uintptr_t a : {f.a, f.b}) {
      addresses.push_back(a);
      if (f.kind == "race") raced.insert(a);
    }
  look_up(addresses);
  std::set<std::string> said;
  std::string result;
  for (const bool first : {true, false})
    for (const Finding &f : all) {
      const std::string a = line_of(f.a), b = line_of(f.b);
      if ((f.kind == "cost") != costs || (f.kind[0] == 'b' || f.kind[0] == 'm') != first) continue;
      if (f.unless_same_line && (a == b || a == UNKNOWN || b == UNKNOWN)) continue;
      if (f.kind == "unwritten" && raced.count(f.a)) continue;
      if (!said.insert((costs ? f.text : f.kind) + std::min(a, b) + std::max(a, b)).second ||
          most-- <= 0)
        continue;
      std::string line = f.text;
      for (size_t at; (at = line.find("%A")) != std::string::npos;) line.replace(at, 2, a);
      for (size_t at; (at = line.find("%B")) != std::string::npos;) line.replace(at, 2, b);
      result += line;
      if (f.count > 1) result += printed(" (%llu times)", (unsigned long long)f.count);
      result += '\n';
    }
  return result;
}

} // namespace emulated

extern "C" char *emulator_record(void) {
  return strdup(emulated::record().c_str());
}

extern "C" char *emulator_told(const char *record, bool costs, int most) {
  return strdup(emulated::told(record, costs, most).c_str());
}

extern "C" void emulator_forget(void) {
  emulated::launches.clear(), emulated::findings.clear();
}
