/* The command line: a line of the input is a word of argv, and @ in place of a word is the name of
   a file that holds what follows the first empty line. What was accepted must come to the same
   when it is printed and read back. */
#include "same_options.h"

enum { MOST_WORDS = 40 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = strndup((const char *)data, size), *rest = text;
  char *blank = strstr(text, "\n\n");
  if (blank) *blank = 0;
  const char *file = blank ? blank + 2 : "";
  char path[64], program[] = "mlp-train";
  snprintf(path, sizeof path, "%s", fuzz_file(file, strlen(file)));

  char *argv[MOST_WORDS + 2] = {program};
  int argc = 1;
  for (char *word; argc <= MOST_WORDS && (word = strsep(&rest, "\n"));)
    argv[argc++] = strcmp(word, "@") == 0 ? path : word;

  Options options;
  Error error = {.text = ""};
  options_default(&options);
  const OptionsResult result = options_parse(argc, argv, &options, &error);
  REQUIRE((result == OPTIONS_USAGE || result == OPTIONS_FAILURE) == (error.text[0] != 0));
  REQUIRE(!strchr(error.text, '\n') || strchr(text, '\n'));
  if (result == OPTIONS_RUN) {
    REQUIRE(options.picture_count >= 0 && options.picture_count < argc);
    REQUIRE(options.classify == (options.picture_count > 0));
    require_same_read_back(&options);
  }
  free(text);
  return 0;
}
