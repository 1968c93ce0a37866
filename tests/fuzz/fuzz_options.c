/* Fuzzes the command line and configuration files. Each line up to the first empty line is a word
   of argv. The rest is a configuration file; the word @ stands for its name. If the file is read as
   options of a saved run, it must give the same options, unless it has an option that runs do not
   save. Options that are accepted must stay the same when they are printed and read back. */
#include <string.h>

#include "fuzz.h"
#include "cli/options.h"

enum { MOST_WORDS = 40 };

/* Returns true if a and b are equal in all options that a configuration file can hold. */
static bool are_same(const Options *a, const Options *b) {
  for (size_t i = 0; i < options_table.count; i++)
    if (options_table.rows[i].initial && option_differs(&options_table.rows[i], a, b)) return false;
  return true;
}

/* Returns true if every value, such as a file's name, fits on a line of a configuration file. */
static bool fit_lines(const Options *o) {
  for (const OptionRow *row = options_table.rows; row->kind; row++) {
    const ShortText value = row->kind->get(row, o);
    const size_t length = strlen(value.text);
    if (!row->initial || length == 0) continue;
    if (length + strlen(row->name) + 3 > 198 || strchr(" ;#", *value.text)) return false;
    if (value.text[length - 1] == ' ' || strstr(value.text, " ;") || strstr(value.text, " #"))
      return false;
    for (const char *c = value.text; *c; c++)
      if ((unsigned char)*c < ' ' || *c == '\x7f') return false;
  }
  return true;
}

static void require_same_read_back(const Options *options) {
  Options again;
  Error error;
  if (!fit_lines(options)) return;
  options_default(&again);
  for (int whole = 1; whole >= 0; whole--) {
    size_t length;
    char *text = NULL;
    FILE *file = open_memstream(&text, &length);
    REQUIRE(file);
    options_print_config(file, options, whole);
    fclose(file);
    const bool good = whole ? options_read_file(&again, fuzz_file(text, length), &error)
                            : options_read_text(&again, text, "kept", &error);
    if (!good) fprintf(stderr, "%s\n%s\n", error.text, text);
    REQUIRE(good && are_same(options, &again));
    free(text);
  }
}

static void try_file(const char *text) {
  const char *path = fuzz_file(text, strlen(text));
  Options a, b;
  Error error_a = {.text = ""}, error_b = {.text = ""};
  options_default(&a);
  options_default(&b);
  const bool good = options_read_file(&a, path, &error_a);
  const bool is_saved = options_read_text(&b, text, path, &error_b);
  REQUIRE(good == !error_a.text[0] && is_saved == !error_b.text[0]);
  if (!*b.gone.text && !strstr(error_b.text, "is not an option of a saved run")) {
    REQUIRE(is_saved == good);
    REQUIRE(strcmp(error_a.text, error_b.text) == 0);
    REQUIRE(!good || are_same(&a, &b));
  }
  REQUIRE(!*b.log && !*b.plot && !*b.weights && !*b.mistakes && !*b.confusion && !*b.save);
  if (good) require_same_read_back(&a);
}

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
  if (blank) try_file(file);
  free(text);
  return 0;
}
