/* Tests how text from outside is escaped for a terminal and for JSON. */
#include <jansson.h>

#include "base/text.h"
#include "support/test.h"

static const Pair cases[] = {
    {"", ""},
    {"data/mnist_train.csv", "data/mnist_train.csv"},
    {"\x1b]0;title\a\x1b[2J", "\\x1b]0;title\\x07\\x1b[2J"},
    {"a\nb\tc\rd\x7f", "a\\x0ab\\x09c\\x0dd\\x7f"},
    {"Größe ≥ 数 \xf0\x9f\x98\x80", "Größe ≥ 数 \xf0\x9f\x98\x80"},
    {"\xc2\x9b"
     "31m \xc2\x85 \xc2\xa0",
     "\\xc2\\x9b31m \\xc2\\x85 \xc2\xa0"}, /* U+009B, the control character CSI */
    {"n\xff.csv \x9b", "n\\xff.csv \\x9b"},
    {"\xc3", "\\xc3"},                              /* a truncated character */
    {"\xc0\x9b \xc1\x81", "\\xc0\\x9b \\xc1\\x81"}, /* encodings that are longer than needed */
    {"\xed\xa0\x80", "\\xed\\xa0\\x80"},            /* a surrogate */
    {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},       /* the last code point */
    {"\xf4\x90\x80\x80 \xf5\x80\x80\x80", "\\xf4\\x90\\x80\\x80 \\xf5\\x80\\x80\\x80"},
};

/* Checks each text for a terminal and for JSON. jansson must agree on what is valid UTF-8. */
TEST(test_texts) {
  foreach (c, cases) {
    const char *text = c->given;
    char target[256];
    const size_t length = text_printable(target, sizeof target, text);
    assert_string_equal(target, c->wanted);
    assert_int_equal(length, strlen(target));
    assert_int_equal(text_printable(NULL, 0, text), length);
    json_error_t cause;
    const char *json = PRINTED(file, json_text(text, file));
    json_t *known = json_string(text), *value = json_loads(json, JSON_DECODE_ANY, &cause);
    if (!value) fail_msg("%s: %s", json, cause.text);
    assert_int_equal(text_is_utf8(text), known != NULL);
    if (known)
      assert_string_equal(json_string_value(value), text);
    else
      assert_in(json_string_value(value), "\xef\xbf\xbd");
    json_decref(known);
    json_decref(value);
  }
}

/* A text that is too long is cut before the first character or escape that does not fit. */
TEST(test_cut) {
  const char *const whole = "ab\\x1b\xe2\x82\xac.";
  const size_t ends[] = {0, 1, 2, 2, 2, 2, 6, 6, 6, 9, 10, 10};
  for (size_t size = 1; size <= LENGTH(ends); size++) {
    char target[16];
    memset(target, '#', sizeof target);
    assert_int_equal(text_printable(target, size, "ab\x1b\xe2\x82\xac."), strlen(whole));
    assert_int_equal(strlen(target), ends[size - 1]);
    assert_memory_equal(target, whole, ends[size - 1]);
    assert_int_equal(target[size], '#');
  }
}

TEST(test_errors_are_printable) {
  assert_false(error_set(&error, "%s: no such file", "\x1b[31mred\n\xff"));
  assert_string_equal(error.text, "\\x1b[31mred\\x0a\\xff: no such file");
  assert_false(error_set(&error, "%s; and more", error.text)); /* error.text may be an argument */
  assert_string_equal(error.text, "\\x1b[31mred\\x0a\\xff: no such file; and more");
  char vast[4096];
  memset(vast, '\x1b', sizeof vast - 1);
  vast[sizeof vast - 1] = '\0';
  assert_false(error_set(&error, "%s", vast));
  assert_in_range(strlen(error.text), sizeof error.text - 8, sizeof error.text - 1);
  assert_string_equal(strrchr(error.text, '\\'), "\\x1b");
}
