#define _GNU_SOURCE /* vasprintf */
#include "support/test.h"

enum { MOST_TESTS = 64, MOST_KEPT = 1 << 20 };

static struct CMUnitTest tests[MOST_TESTS];
static size_t count;
static CMFixtureFunction open_tests, close_tests;

static void *kept[MOST_KEPT];
static size_t kept_count, kept_by_fixture; /* the fixtures own the first kept_by_fixture blocks */

void *keep(void *memory) {
  assert_non_null(memory);
  assert_true(kept_count < MOST_KEPT);
  return kept[kept_count++] = memory;
}

void *allocate(size_t number, size_t size) {
  return keep(calloc(number, size));
}

void free_kept(void) {
  while (kept_count > kept_by_fixture) free(kept[--kept_count]);
}

static Content written; /* what was written to the file of text_open */

FILE *text_open(void) {
  FILE *file = open_memstream((char **)&written.bytes, &written.size);
  assert_non_null(file);
  return file;
}

void close_file(FILE *file) {
  assert_int_equal(fclose(file), 0);
}

char *text_close(FILE *file) {
  close_file(file);
  return keep(written.bytes);
}

char *text_printf(const char *format, ...) {
  char *text;
  va_list arguments;
  va_start(arguments, format);
  assert_true(vasprintf(&text, format, arguments) >= 0);
  va_end(arguments);
  return keep(text);
}

Content read_rest(FILE *file) {
  FILE *copy = text_open();
  for (int c; (c = fgetc(file)) != EOF;) fputc(c, copy);
  text_close(copy);
  return written;
}

static int open_program(void **state) {
  const int status = open_tests ? open_tests(state) : 0;
  kept_by_fixture = kept_count;
  return status;
}

static int end_test(void **state) {
  const struct CMUnitTest *test = *state;
  const int status = test->teardown_func ? test->teardown_func(state) : 0;
  free_kept();
  return status;
}

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
  struct CMUnitTest whole[MOST_TESTS];
  if (filter) cmocka_set_test_filter(filter);
  if (skip) cmocka_set_skip_filter(skip);
  for (size_t i = 0; i < count; i++) {
    whole[i] = tests[i];
    whole[i].teardown_func = end_test;
    whole[i].initial_state = &tests[i];
  }
  return _cmocka_run_group_tests("tests", whole, count, open_program, close_tests);
}

void test_done(bool done, const char *call, const Error *why, int line) {
  if (!done) fail_msg("line %d: %s: %s", line, call, why->text);
}

void test_close(double got, double wanted, double within, int line) {
  if (!(fabs(got - wanted) <= within))
    fail_msg("line %d: %.12g is not %.12g, but for %g", line, got, wanted, within);
}

void test_in(const char *text, const char *part, int line) {
  if (!strstr(text, part)) fail_msg("line %d: '%s' is not in: %.8000s", line, part, text);
}

void test_fails(bool done, const char *call, Error *why, const char *said, int line) {
  if (done) fail_msg("line %d: %s does not fail: %s", line, call, said);
  test_in(why->text, said, line);
  why->text[0] = '\0';
}

void set_variable(const char *name, const char *value) {
  assert_int_equal(value ? setenv(name, value, 1) : unsetenv(name), 0);
}

void skip_because(const char *reason) {
  print_message("%s\n", reason);
  skip();
}
