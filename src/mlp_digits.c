/* mlp-digits: writes two CSV files of drawn digits, in MNIST's format and of MNIST's size. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/nearest.h"
#include "base/output.h"
#include "base/text.h"
#include "data/digits.h"

static const char help[] =
    "Usage: mlp-digits [OPTION]...\n"
    "Draws digits that look handwritten and writes them as CSV in MNIST's format: one\n"
    "row per line, the label first, then 784 pixels from 0 to 255. The same options\n"
    "give the same bytes. Defaults are in [brackets].\n"
    "\n"
    "  --output-dir DIR  folder for digits_train.csv and digits_test.csv [data]\n"
    "  --train-rows N    rows of digits_train.csv, at least 1 [60000]\n"
    "  --test-rows N     rows of digits_test.csv, at least 1 [10000]\n"
    "  --seed N          another seed draws other digits [1]\n"
    "  --help            print this help and exit\n";

typedef struct {
  const char *folder;
  uint64_t rows[2], seed; /* rows: DIGITS_TRAIN, DIGITS_TEST */
} Options;

enum { MAX_ROWS = 1000000000 };

static bool parse_number(const char *option, const char *text, uint64_t low, uint64_t high,
                         uint64_t *value, Error *error) {
  char *end;
  errno = 0;
  *value = strtoull(text, &end, 10);
  if (*text >= '0' && *text <= '9' && !*end && !errno && *value >= low && *value <= high)
    return true;
  return error_set(error, "--%s must be a whole number from %" PRIu64 " to %" PRIu64 ", not '%s'",
                   option, low, high, text);
}

/* *help_wanted: --help was given. */
static bool parse_options(int count, char **arguments, Options *options, bool *help_wanted,
                          Error *error) {
  static const struct option known[] = {
      {"output-dir", required_argument, NULL, 'o'},
      {"train-rows", required_argument, NULL, 'r'},
      {"test-rows", required_argument, NULL, 't'},
      {"seed", required_argument, NULL, 's'},
      {"help", no_argument, NULL, 'h'},
      {NULL, 0, NULL, 0},
  };
  *options = (Options){"data", {60000, 10000}, 1};
  *help_wanted = false;
  opterr = 0;
  for (;;) {
    const char *given = arguments[optind];
    const int option = getopt_long(count, arguments, "+:", known, NULL);
    if (option == -1) break;
    bool good = true;
    switch (option) {
    case 'o':
      options->folder = optarg;
      break;
    case 'r':
      good = parse_number("train-rows", optarg, 1, MAX_ROWS, &options->rows[DIGITS_TRAIN], error);
      break;
    case 't':
      good = parse_number("test-rows", optarg, 1, MAX_ROWS, &options->rows[DIGITS_TEST], error);
      break;
    case 's':
      good = parse_number("seed", optarg, 0, UINT64_MAX, &options->seed, error);
      break;
    case 'h':
      *help_wanted = true;
      break;
    case ':':
      good = error_set(error, "%s needs an argument", given);
      break;
    default:
      error_set(error, "unknown option '%s'", given);
      good = nearest_append_option(given, known, error);
      break;
    }
    if (!good) return false;
  }
  if (optind < count) return error_set(error, "unexpected argument '%s'", arguments[optind]);
  return true;
}

/* ---- files ------------------------------------------------------------------------------- */

static const char *const names[2] = {"digits_train.csv", "digits_test.csv"};

/* The paths of both files, which must not be one. */
static bool name_files(const Options *options, char path[2][PATH_MAX], Error *error) {
  for (int i = 0; i < 2; i++) {
    const int length = snprintf(path[i], PATH_MAX, "%s/%s", options->folder, names[i]);
    if (length < 0 || length >= PATH_MAX)
      return error_set(error, "the name of the folder is too long");
  }
  const NamedFile files[] = {{"output", path[0], true}, {"output", path[1], true}};
  return same_file_check(files, 2, error);
}

/* The row as text, newline included, to `line`; returns its length. */
static size_t format_row(int label, const uint8_t *pixels, char line[DIGITS_PIXELS * 4 + 2]) {
  char *end = line;
  *end++ = (char)('0' + label);
  for (int i = 0; i < DIGITS_PIXELS; i++) {
    const int value = pixels[i];
    *end++ = ',';
    if (value >= 100) *end++ = (char)('0' + value / 100);
    if (value >= 10) *end++ = (char)('0' + value / 10 % 10);
    *end++ = (char)('0' + value % 10);
  }
  *end++ = '\n';
  return (size_t)(end - line);
}

static bool write_rows(const Options *options, DigitsSeries series, const AtomicFile *output,
                       Error *error) {
  for (uint64_t row = 0; row < options->rows[series]; row++) {
    uint8_t pixels[DIGITS_PIXELS];
    char line[DIGITS_PIXELS * 4 + 2];
    const int label = digits_draw(options->seed, series, row, pixels);
    const size_t length = format_row(label, pixels, line);
    if (fwrite(line, 1, length, output->file) != length) return atomic_file_failed(output, error);
  }
  return true;
}

/* Neither file is replaced before both are whole. */
static bool write_files(const Options *options, char path[2][PATH_MAX], Error *error) {
  AtomicFile output[2];
  int open = 0;
  bool good = true;
  for (int i = 0; good && i < 2; i++) {
    good = atomic_file_open(&output[i], path[i], error);
    if (good) good = write_rows(options, (DigitsSeries)i, &output[open++], error);
  }
  for (int i = 0; i < open; i++) good = atomic_file_close(&output[i], good, error) && good;
  for (int i = 0; good && i < 2; i++) {
    char name[4 * PATH_MAX];
    text_printable(name, sizeof name, path[i]);
    printf("%s: %" PRIu64 " drawn digits\n", name, options->rows[i]);
  }
  return good;
}

int main(int count, char **arguments) {
  standard_output_open();
  Options options;
  Error error;
  bool help_wanted;
  char path[2][PATH_MAX];
  if (!parse_options(count, arguments, &options, &help_wanted, &error) ||
      (!help_wanted && !name_files(&options, path, &error))) {
    fprintf(stderr, "mlp-digits: %s\nTry '%s --help'.\n", error.text, arguments[0]);
    return 2;
  }
  interrupt_catch(true);
  bool good = true;
  if (help_wanted)
    fputs(help, stdout);
  else
    good = write_files(&options, path, &error);
  if (good && standard_output_flush(&error)) return 0;
  fprintf(stderr, "mlp-digits: %s\n", error.text);
  return 1;
}
