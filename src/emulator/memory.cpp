/* The device's memory: arrays, variables of the program, and the search for an address's region. */
#include "emulator/core.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

extern "C" {
#include "base/error.h"
}

namespace emulated {

static constexpr size_t ARENA = (size_t)64 << 30, PAGE = 4096;

std::vector<Region *> regions;
uintptr_t program_base;
static unsigned char *arena;
static size_t arena_used;
static int arena_arrays;
static std::vector<uint16_t> region_of_page;
static Region *dynamic_region;
const char DYNAMIC[] = "dynamic shared memory";

struct Variable {
  size_t bytes;
  std::string name;
  bool is_none; /* true for the emulator's and the compiler's own data, see is_of_program */
  Region *region;
};

struct Range {
  uintptr_t first, end;
  bool has(uintptr_t address) const {
    return address - first < end - first;
  }
};

static Range shared, data, program;             /* shared: thread-local storage; data: the program's
                                                   writable part; program: all of it */
static std::map<uintptr_t, Variable> variables; /* by address */

/* Demangles a name and returns the last part of it, such as "v" of "level<...>(...)::v". */
static std::string name_of(const std::string &mangled) {
  int status, depth = 0;
  char *text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  const std::string name = status == 0 ? text : mangled;
  free(text);
  for (size_t i = name.size(); i-- > 1;) {
    if (name[i] == '>' || name[i] == ')') depth++;
    if (name[i] == '<' || name[i] == '(') depth--;
    if (depth == 0 && name[i] == ':') return name.substr(i + 1);
  }
  return name;
}

static int look_at_program(dl_phdr_info *info, size_t, void *) {
  program_base = info->dlpi_addr;
  program = {UINTPTR_MAX, 0};
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const auto &header = info->dlpi_phdr[i];
    const uintptr_t first = program_base + header.p_vaddr;
    if (header.p_type == PT_TLS)
      shared = {(uintptr_t)info->dlpi_tls_data, (uintptr_t)info->dlpi_tls_data + header.p_memsz};
    if (header.p_type != PT_LOAD) continue;
    program = {std::min(program.first, first), std::max(program.end, first + header.p_memsz)};
    if (header.p_flags & PF_W) data = {first, first + header.p_memsz};
  }
  for (int i = 0; i < info->dlpi_phnum; i++) /* PT_GNU_RELRO marks a constant part */
    if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO)
      data.first = program_base + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
  return 1; /* the first object is the program */
}

static std::map<uintptr_t, std::string> functions; /* mangled names, by address */

static void read_symbols(const char *students) {
  const int file = open("/proc/self/exe", O_RDONLY);
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0) return;
  const char *elf =
      (const char *)mmap(nullptr, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (elf == MAP_FAILED) return;
  /* A symbol of type FILE comes before the local symbols of a source file. All symbols of a sealed
   * file are local. */
  bool is_students = false, any_students = false;
  std::vector<uintptr_t> others;
  const auto *header = (const Elf64_Ehdr *)elf;
  const auto *sections = (const Elf64_Shdr *)(elf + header->e_shoff);
  for (int s = 0; s < header->e_shnum; s++) {
    if (sections[s].sh_type != SHT_SYMTAB) continue;
    const char *names = elf + sections[sections[s].sh_link].sh_offset;
    const auto *symbols = (const Elf64_Sym *)(elf + sections[s].sh_offset);
    for (size_t i = 0; i < sections[s].sh_size / sizeof *symbols; i++) {
      const Elf64_Sym &symbol = symbols[i];
      const char *name = names + symbol.st_name;
      const bool is_shared = ELF64_ST_TYPE(symbol.st_info) == STT_TLS;
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FILE || ELF64_ST_BIND(symbol.st_info) != STB_LOCAL)
        is_students = students && strcmp(name, students) == 0;
      any_students |= is_students;
      const uintptr_t at = (is_shared ? shared.first : program_base) + symbol.st_value;
      if (symbol.st_size == 0 || symbol.st_shndx == SHN_UNDEF || strstr(name, "emulator_gap"))
        continue;
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC) functions[at] = name;
      if (!is_shared && (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || at < data.first)) continue;
      const bool is_none = strncmp(name, "_ZGV", 4) == 0 || strncmp(name, "emulator_", 9) == 0;
      variables[at] = {symbol.st_size, name, is_none, nullptr};
      if (!is_students && !is_none) others.push_back(at);
    }
  }
  /* A student's kernels may use the variables of their file and no others. Outside of the exercise,
   * all may be used. */
  for (size_t i = 0; any_students && i < others.size(); i++) variables.erase(others[i]);
  munmap((void *)elf, (size_t)status.st_size);
}

static Region *new_region(uintptr_t base, size_t bytes, const std::string &name, bool is_shared) {
  Region *r = new Region;
  r->base = base, r->bytes = bytes, r->name = name, r->shared = is_shared;
  regions.push_back(r);
  return r;
}

/* A variable of a function is named _ZZ<name>E<variable> if the function is named _Z<name>. */
size_t static_shared_of(const void *kernel) {
  const auto function = functions.find((uintptr_t)kernel);
  size_t bytes = 0;
  if (function == functions.end() || function->second.compare(0, 2, "_Z") != 0) return 0;
  const std::string own = "_Z" + function->second.substr(1) + "E";
  for (auto v = variables.lower_bound(shared.first); v != variables.lower_bound(shared.end); v++)
    if (v->second.name.compare(0, own.size(), own) == 0) bytes += v->second.bytes;
  return bytes;
}

/* Leaves out namespaces, the types of a template and the parameters. */
std::string name_of_kernel(const void *kernel) {
  const auto function = functions.find((uintptr_t)kernel);
  if (function == functions.end()) return "a kernel";
  const std::string whole = name_of(function->second),
                    name = whole.substr(0, whole.find_first_of("<("));
  return name.substr(name.rfind(' ') + 1); /* a template's name begins with the type `void` */
}

/* Returns the variable at the address, or the nearest variable that ends before the address. */
static decltype(variables)::value_type *variable_at(uintptr_t address) {
  for (const Range &range : {shared, data})
    if (auto after = variables.upper_bound(address); range.has(address))
      return after != variables.begin() && range.has((--after)->first) ? &*after : nullptr;
  return nullptr;
}

bool is_of_program(uintptr_t address) {
  const auto *v = variable_at(address);
  if (v && v->second.is_none && address - v->first < v->second.bytes) return true;
  return program.has(address) && !data.has(address);
}

bool is_arena(uintptr_t address) {
  return address - (uintptr_t)arena < ARENA;
}

/* The two regions that find() returned last, because kernels often alternate between two tiles. */
static Region *recent[2];

Region *find(uintptr_t address) {
  for (Region *r : recent)
    if (r && address - r->base < r->bytes) return r;
  if (is_arena(address)) return regions[region_of_page[(address - (uintptr_t)arena) / PAGE]];
  if (address - dynamic_region->base < MOST_SHARED) return dynamic_region;
  auto *at = variable_at(address);
  if (!at || at->second.is_none) return nullptr;
  Variable &v = at->second;
  if (!v.region) v.region = new_region(at->first, v.bytes, name_of(v.name), shared.has(address));
  recent[1] = recent[0], recent[0] = v.region;
  return v.region;
}

Region *guarded_by(uintptr_t address) {
  return is_arena(address) ? regions[region_of_page[(address - (uintptr_t)arena) / PAGE + 1]]
                           : nullptr;
}

void forget_large_arrays() {
  static constexpr size_t LARGE = (size_t)64 << 20;
  for (const Region *r : regions)
    if (r && !r->freed && r->bytes >= LARGE && is_arena(r->base))
      madvise((void *)r->base, r->bytes, MADV_DONTNEED);
}

unsigned char *reserve(size_t bytes) {
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) abort();
  return (unsigned char *)memory;
}

void start_memory(const char *students) {
  if (arena) return;
  arena = reserve(ARENA);
  region_of_page.resize(ARENA / PAGE + 1);
  regions.push_back(nullptr);
  dl_iterate_phdr(look_at_program, nullptr);
  read_symbols(students);
  dynamic_region = new_region(0, 0, DYNAMIC, true);
}

void new_shared_memory(unsigned char *dynamic, size_t bytes) {
  if (dynamic_region->bytes != bytes) dynamic_region->cells.clear();
  dynamic_region->base = (uintptr_t)dynamic, dynamic_region->bytes = bytes;
  memset(dynamic, 0xff, bytes);
  for (auto v = variables.lower_bound(shared.first); v != variables.lower_bound(shared.end); v++)
    if (v->second.region || !watched) memset((void *)v->first, 0xff, v->second.bytes);
}

} // namespace emulated

using namespace emulated;

uint32_t emulator_shared_address(const void *at) {
  const uintptr_t a = (uintptr_t)at, dynamic = (uintptr_t)emulator_dynamic();
  return (uint32_t)(a - dynamic <= MOST_SHARED ? a - dynamic : a - shared.first + (1u << 20));
}

void *emulator_shared_at(uint32_t address) {
  return (void *)(address < 1u << 20 ? (uintptr_t)emulator_dynamic() + address
                                     : shared.first + address - (1u << 20));
}

extern "C" {

void emulator_name(const void *memory, const char *name, int rows, int columns, int element_bytes,
                   bool is_constant) {
  Region *r = find((uintptr_t)memory);
  r->name = name, r->rows = rows, r->columns = columns, r->element = element_bytes;
  r->constant = is_constant;
}

cudaError_t cudaMalloc(void **memory, size_t bytes) {
  start_memory();
  const size_t pages = (bytes + PAGE - 1) / PAGE + 1;
  if (arena_arrays == 0) arena_used = PAGE;
  if (regions.size() >= UINT16_MAX || arena_used + pages * PAGE > ARENA)
    return cudaErrorMemoryAllocation;
  const uintptr_t base = (uintptr_t)arena + arena_used;
  const uint16_t index = (uint16_t)regions.size();
  new_region(base, bytes, printed("array %d", index), false);
  for (size_t p = 0; p < pages; p++)
    region_of_page[arena_used / PAGE + p] = index; /* includes the guard page behind the array */
  arena_used += pages * PAGE;
  arena_arrays++;
  if (only_last_block)
    madvise((void *)base, pages * PAGE, MADV_DONTNEED); /* zeros */
  else
    memset((void *)base, 0xff, bytes);
  *memory = (void *)base;
  return cudaSuccess;
}

cudaError_t cudaFree(void *memory) {
  Region *r = memory ? find((uintptr_t)memory) : nullptr;
  if (!memory) return cudaSuccess;
  if (!r || r->base != (uintptr_t)memory || r->freed) return cudaErrorInvalidValue;
  r->freed = true;
  r->cells = {};
  if (--arena_arrays > 0) return cudaSuccess;
  madvise(arena, arena_used, MADV_DONTNEED);
  std::fill_n(region_of_page.begin(), arena_used / PAGE + 1, (uint16_t)0);
  for (size_t i = regions.size(); i-- > 1;)
    if (regions[i]->freed) delete regions[i], regions.erase(regions.begin() + (ptrdiff_t)i);
  return cudaSuccess;
}

/* Defines a call that cannot fail: DOES(name, statements, parameters). */
#define DOES(call, what, ...)                                                                      \
  cudaError_t call(__VA_ARGS__) {                                                                  \
    what;                                                                                          \
    return cudaSuccess;                                                                            \
  }
DOES(cudaMemGetInfo, *left = *all = ARENA / 2, size_t *left, size_t *all)
DOES(cudaMemcpy, memcpy(to, from, bytes), void *to, const void *from, size_t bytes, cudaMemcpyKind)
DOES(cudaMemcpyAsync, memcpy(to, from, bytes), void *to, const void *from, size_t bytes,
     cudaMemcpyKind, cudaStream_t)
DOES(cudaMemset, memset(to, value, bytes), void *to, int value, size_t bytes)
DOES(cudaMemsetAsync, memset(to, value, bytes), void *to, int value, size_t bytes, cudaStream_t)
DOES(cudaDeviceSynchronize, , )
DOES(cudaStreamSynchronize, , cudaStream_t)
DOES(cudaStreamCreateWithFlags, *stream = nullptr, cudaStream_t *stream, unsigned)
DOES(cudaStreamDestroy, , cudaStream_t)
DOES(cudaEventCreateWithFlags, *event = nullptr, cudaEvent_t *event, unsigned)
DOES(cudaEventDestroy, , cudaEvent_t)
DOES(cudaGetDeviceCount, *count = 1, int *count)
DOES(cudaGetDevice, *device = 0, int *device)
/* Returns attributes of an A100, because device.h has the instructions of an A100. */
cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int) {
  switch (attribute) {
  case cudaDevAttrMultiProcessorCount:
    *value = 108;
    break;
  case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
    *value = 164 << 10;
    break;
  default:
    *value = 163 << 10;
  }
  return cudaSuccess;
}
const char *cudaGetErrorString(cudaError_t error) {
  switch (error) {
  case cudaSuccess:
    return "no error";
  case cudaErrorInvalidConfiguration:
    return "invalid configuration argument";
  case cudaErrorInvalidValue:
    return "invalid argument";
  case cudaErrorMemoryAllocation:
    return "out of memory";
  default:
    return "the launch failed";
  }
}
/* Replaces cuda_done of engine/cuda/cuda_error.c. */
bool cuda_done(cudaError_t status, const char *what, Error *error) {
  return status == cudaSuccess ||
         error_set(error, "%s failed: %s", what, cudaGetErrorString(status));
}
const char *cudaGetErrorName(cudaError_t error) {
  return cudaGetErrorString(error);
}

} // extern "C"
