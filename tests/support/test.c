#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_TESTS = 64 };

static struct CMUnitTest tests[MOST_TESTS];
static size_t count;
static CMFixtureFunction open_tests, close_tests;

void test_register(const struct CMUnitTest *test) {
  if (count == MOST_TESTS) {
    fprintf(stderr, "more than %d tests: raise MOST_TESTS\n", MOST_TESTS);
    exit(1);
  }
  tests[count++] = *test;
}

void tests_register_fixtures(CMFixtureFunction setup, CMFixtureFunction teardown) {
  open_tests = setup;
  close_tests = teardown;
}

int tests_run(void) {
  const char *filter = getenv("TEST_FILTER"), *skip = getenv("TEST_SKIP");
  if (filter) cmocka_set_test_filter(filter);
  if (skip) cmocka_set_skip_filter(skip);
  return _cmocka_run_group_tests("tests", tests, count, open_tests, close_tests);
}
