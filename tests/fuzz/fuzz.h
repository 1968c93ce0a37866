/* Shared by the fuzz harnesses. libFuzzer calls their LLVMFuzzerTestOneInput with bytes of its
   choice. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Checks that the condition holds. If it does not, abort() tells libFuzzer. */
#define REQUIRE(condition)                                                                         \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #condition);              \
      abort();                                                                                     \
    }                                                                                              \
  } while (0)

/* Puts the bytes into a file in memory and returns its name. The next call overwrites the file. */
static const char *fuzz_file(const void *bytes, size_t size) {
  static int file = -1;
  static char path[64];
  if (file < 0) {
    file = memfd_create("fuzz", MFD_CLOEXEC);
    REQUIRE(file >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  }
  REQUIRE(ftruncate(file, 0) == 0);
  REQUIRE(pwrite(file, bytes, size, 0) == (ssize_t)size);
  return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
