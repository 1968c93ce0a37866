/* What the compiler calls at every access and in every basic block of a kernel. */
#include "emulator/core.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

using namespace emulated;

#define ACCESS(name, size, write)                                                                  \
  extern "C" void __tsan_##name##size(void *at) {                                                  \
    access(at, size, write, false, PC);                                                            \
  }
#define ACCESSES(name, write)                                                                      \
  ACCESS(name, 1, write)                                                                           \
  ACCESS(name, 2, write) ACCESS(name, 4, write) ACCESS(name, 8, write) ACCESS(name, 16, write)
ACCESSES(read, false)
ACCESSES(write, true)

/* A struct that is passed by value may be aligned to less than its size. A GPU moves words. */
static void access_words(void *at, size_t size, bool write, uintptr_t pc) {
  size_t word = std::min(size, (size_t)4);
  while ((uintptr_t)at % word != 0) word /= 2;
  for (size_t i = 0; i < size; i += word) access((char *)at + i, word, write, false, pc);
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
/* A kernel's calls of these, by either name. */
void *__tsan_memcpy(void *to, const void *from, size_t size) {
  access(from, size, false, false, PC);
  access(to, size, true, false, PC);
  return memmove(to, from, size);
}
void *__tsan_memmove(void *to, const void *from, size_t size) {
  return __tsan_memcpy(to, from, size);
}
void *__tsan_memset(void *to, int value, size_t size) {
  access(to, size, true, false, PC);
  return memset(to, value, size);
}

/* Prints where it is wanted, but writes to no memory (%n). */
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
  if (lane) note(PC, true, false, false, false, 0, 0);
}

[[noreturn]] void __tsan_assert_fail(const char *what, const char *, unsigned, const char *) {
  stop_at("assert", printed(": assert(%.200s) fails", what), PC);
}

/* -fsanitize=bounds checks arrays whose size the compiler knows, also those in registers. */
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
  if (const size_t space = type.find(" ["); space < type.size()) type.erase(space, 1); /* g++'s */
  stop_at("bounds",
          printed(" has index %ld in an array of type %s", (long)(intptr_t)index, type.c_str()),
          PC);
}

void __ubsan_handle_divrem_overflow(void *, void *, void *) {
  stop_at("division", " divides an integer by 0", PC);
}

/* A call by a pointer to what is no function of the source. */
void __ubsan_handle_function_type_mismatch(void *, void *) {
  stop_at("pointer", " calls what is no function of this type", PC);
}
void __ubsan_handle_function_type_mismatch_v1(void *data, void *function, void *, void *) {
  __ubsan_handle_function_type_mismatch(data, function);
}

} // extern "C"
