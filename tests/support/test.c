#include "support/test.h"

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

void test_done(bool done, const char *call, const Error *error, int line) {
  if (!done) fail_msg("line %d: %s: %s", line, call, error->text);
}

void test_fails(bool done, const char *call, Error *error, const char *said, int line) {
  if (done) fail_msg("line %d: %s does not fail: %s", line, call, said);
  if (!strstr(error->text, said))
    fail_msg("line %d: %s: '%s' says nothing of '%s'", line, call, error->text, said);
  error->text[0] = '\0';
}

void skip_because(const char *reason) {
  print_message("%s\n", reason);
  skip();
}

static char *text;
static size_t text_size;

FILE *text_open(void) {
  free(text);
  text = NULL;
  FILE *file = open_memstream(&text, &text_size);
  assert_non_null(file);
  return file;
}

char *text_close(FILE *file) {
  assert_int_equal(fclose(file), 0);
  return text;
}
