/* The reader of configuration files: the input is one. As a kept run's text it must be the same,
   unless it names what a run does not keep, and what was accepted must come to the same when it is
   printed and read back. */
#include "same_options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (memchr(data, 0, size)) return -1; /* text in memory ends there */
  const char *path = fuzz_file(data, size);
  char *text = strndup((const char *)data, size);
  Options a, b;
  Error error_a = {.text = ""}, error_b = {.text = ""};
  options_default(&a);
  options_default(&b);
  const bool good = options_read_file(&a, path, &error_a);
  const bool is_saved = options_read_text(&b, text, path, &error_b);
  REQUIRE(good == !error_a.text[0] && is_saved == !error_b.text[0]);
  if (!strstr(error_b.text, "is not an option of a saved run")) {
    REQUIRE(is_saved == good);
    REQUIRE(strcmp(error_a.text, error_b.text) == 0);
    REQUIRE(!good || are_same(&a, &b));
  }
  REQUIRE(!*b.log && !*b.plot && !*b.weights && !*b.mistakes && !*b.confusion && !*b.save);
  if (good) require_same_read_back(&a);
  free(text);
  return 0;
}
