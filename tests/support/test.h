/* Functions for test programs. A test registers itself, so a program has no list of its tests:

     TEST(empty_lines_are_skipped) { ... assert_int_equal(rows, 3); }

   The tests of a program run in the order of the file. A program may have its own main(), which
   ends with `return tests_run();`. */
#pragma once

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/sizes.h"

/* A table of values, as in `foreach(side, VALUES(int, 1, 28, 64)) draw(*side);` */
#define VALUES(type, ...) ((type const[]){__VA_ARGS__})
#define TEXTS(...) VALUES(const char *, __VA_ARGS__)

/* Loops over the pixels of a picture, row by row. */
#define EACH_PIXEL(x, y, width, height)                                                            \
  for (int y = 0; y < (height); y++)                                                               \
    for (int x = 0; x < (width); x++)

/* An input, and the expected output or message. */
typedef struct {
  const char *given, *wanted;
} Pair;

#define TEST(name) TEST_WITH(name, NULL, NULL)

/* Defines a test with its own setup and teardown. Either may be NULL. */
#define TEST_WITH(name, setup, teardown)                                                           \
  static void name(void **state);                                                                  \
  __attribute__((constructor)) static void register_##name(void) {                                 \
    test_register(&(struct CMUnitTest){#name, name, setup, teardown, NULL});                       \
  }                                                                                                \
  static void name(__attribute__((unused)) void **state)

/* Begins the definition of a setup or teardown, which does not use its argument. */
#define FIXTURE(name) int name(__attribute__((unused)) void **state)

/* Sets the setup and teardown that run before and after all tests of the program. */
#define TESTS_WITH(setup, teardown)                                                                \
  __attribute__((constructor)) static void register_fixtures(void) {                               \
    tests_register_fixtures(setup, teardown);                                                      \
  }                                                                                                \
  _Static_assert(1, "") /* so that a semicolon can follow */

/* The error of the last call that failed. */
__attribute__((unused)) static Error error;

/* Checks that the call returns true. If it does not, the test fails with the text of `error`. */
#define OK(call) test_done((call), #call, &error, __LINE__)

/* Checks that the call returns false and that `error` contains `said`. Then empties `error`. */
#define FAILS(call, said) test_fails((call), #call, &error, said, __LINE__)

/* Checks that `got` and `wanted` differ by at most `within`. */
#define assert_close(got, wanted, within) test_close((got), (wanted), (within), __LINE__)

/* Checks that `text` contains `part`. */
#define assert_in(text, part) test_in((text), (part), __LINE__)

void test_close(double got, double wanted, double within, int line);
void test_in(const char *text, const char *part, int line);
void test_done(bool done, const char *call, const Error *why, int line);
void test_fails(bool done, const char *call, Error *why, const char *said, int line);

/* Skips the running test, and prints why. */
void skip_because(const char *reason);

/* Sets a variable of the environment, or removes it if the value is NULL. */
void set_variable(const char *name, const char *value);

/* ---- memory and text ------------------------------------------------------------------------ */

/* A test's memory is freed when the test ends. The memory of the program's setup is kept. */
void *allocate(size_t count, size_t size); /* returns memory filled with zeros */
void *keep(void *memory);                  /* takes over memory from malloc; NULL fails the test */

/* Frees the memory that the test got from allocate and keep, before the test ends. */
void free_kept(void);

/* text_open opens a file in memory for writing. text_close returns the text written to it. */
FILE *text_open(void);
char *text_close(FILE *file);

/* The text that `call` prints to `file`. */
#define PRINTED(file, call)                                                                        \
  ({                                                                                               \
    FILE *file = text_open();                                                                      \
    call;                                                                                          \
    text_close(file);                                                                              \
  })

__attribute__((format(printf, 1, 2))) char *text_printf(const char *format, ...);

/* Closes a file and checks that all of it was written. */
void close_file(FILE *file);

/* The contents of a file, from the current position to the end. */
typedef struct {
  uint8_t *bytes; /* followed by a 0 */
  size_t size;
} Content;
Content read_rest(FILE *file);

/* Registers a copy of *test. The name and the state must stay valid. */
void test_register(const struct CMUnitTest *test);
void tests_register_fixtures(CMFixtureFunction setup, CMFixtureFunction teardown);

/* Runs the registered tests and returns how many failed. The environment selects tests by name:
   TEST_FILTER is a pattern of tests to run, TEST_SKIP a pattern of tests to skip. In a pattern, *
   stands for any text, ? for any character. */
int tests_run(void);
