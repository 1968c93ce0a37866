/* Test programs. A test registers itself, so that a program has no list of its tests:

     TEST(empty_lines_are_skipped) { ... assert_int_equal(rows, 3); }

   The tests of a program run in the order of its file. Its main is the library's, unless it has one
   of its own, which ends in `return tests_run();`. */
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

/* A table of values: foreach(side, VALUES(int, 1, 28, 64)) draw(*side); */
#define VALUES(type, ...) ((type const[]){__VA_ARGS__})
#define TEXTS(...) VALUES(const char *, __VA_ARGS__)

/* Walks over the pixels of a picture, row by row. */
#define EACH_PIXEL(x, y, width, height)                                                            \
  for (int y = 0; y < (height); y++)                                                               \
    for (int x = 0; x < (width); x++)

/* A row of two texts: what is given, and what is said or made of it. */
typedef struct {
  const char *given, *wanted;
} Pair;

#define TEST(name) TEST_WITH(name, NULL, NULL)

/* The same between two fixtures of its own; either may be NULL. */
#define TEST_WITH(name, setup, teardown)                                                           \
  static void name(void **state);                                                                  \
  __attribute__((constructor)) static void register_##name(void) {                                 \
    test_register(&(struct CMUnitTest){#name, name, setup, teardown, NULL});                       \
  }                                                                                                \
  static void name(__attribute__((unused)) void **state)

/* A fixture that has no use for its argument. */
#define FIXTURE(name) int name(__attribute__((unused)) void **state)

/* The fixtures around all tests of the program. */
#define TESTS_WITH(setup, teardown)                                                                \
  __attribute__((constructor)) static void register_fixtures(void) {                               \
    tests_register_fixtures(setup, teardown);                                                      \
  }                                                                                                \
  _Static_assert(1, "") /* takes the semicolon */

/* Of the last call that failed. */
__attribute__((unused)) static Error error;

/* The call returns true; if not, `error` says why. */
#define OK(call) test_done((call), #call, &error, __LINE__)

/* The call returns false, with an `error` that has `said` in its text; the text becomes empty. */
#define FAILS(call, said) test_fails((call), #call, &error, said, __LINE__)

/* Both numbers are the same but for `within`. */
#define assert_close(got, wanted, within) test_close((got), (wanted), (within), __LINE__)

/* The part stands in the text. */
#define assert_in(text, part) test_in((text), (part), __LINE__)

void test_close(double got, double wanted, double within, int line);
void test_in(const char *text, const char *part, int line);
void test_done(bool done, const char *call, const Error *why, int line);
void test_fails(bool done, const char *call, Error *why, const char *said, int line);

/* Skips the running test, and prints why. */
void skip_because(const char *reason);

/* Sets a variable of the environment; NULL: it is not there. */
void set_variable(const char *name, const char *value);

/* ---- memory and text ------------------------------------------------------------------------ */

/* What a test takes by these functions is freed when it ends, what a fixture of the program takes
   is not. */
void *allocate(size_t count, size_t size); /* zeros */
void *keep(void *memory);                  /* malloc'ed: it will be freed; not NULL */

/* Frees now what the test has taken. */
void free_kept(void);

/* A file in memory, and its text once it is closed. */
FILE *text_open(void);
char *text_close(FILE *file);

/* The text that a call prints to `file`. */
#define PRINTED(file, call)                                                                        \
  ({                                                                                               \
    FILE *file = text_open();                                                                      \
    call;                                                                                          \
    text_close(file);                                                                              \
  })

__attribute__((format(printf, 1, 2))) char *text_printf(const char *format, ...);

/* Closes a file, all of which was written. */
void close_file(FILE *file);

/* What is left to be read of a file. */
typedef struct {
  uint8_t *bytes; /* and a 0 behind them */
  size_t size;
} Content;
Content read_rest(FILE *file);

/* Copies *test; its name and state must outlive the program. */
void test_register(const struct CMUnitTest *test);
void tests_register_fixtures(CMFixtureFunction setup, CMFixtureFunction teardown);

/* Runs the registered tests, or those that match TEST_FILTER and not TEST_SKIP of the environment
   (* and ? stand for any text and character). Returns how many failed. */
int tests_run(void);
