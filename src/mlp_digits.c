/* mlp-digits: writes two CSV files of drawn digits, in MNIST's format and of MNIST's size. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/standard_output.h"
#include "data/digits.h"
#include "train/report.h"

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
      good = error_set(error, "unknown option '%s'", given);
      break;
    }
    if (!good) return false;
  }
  if (optind < count) return error_set(error, "unexpected argument '%s'", arguments[optind]);
  return true;
}

/* ---- files ------------------------------------------------------------------------------- */

static const char *const names[2] = {"digits_train.csv", "digits_test.csv"};

/* A file grows under a temporary name and gets its own when both are whole. Empty: none. */
static char temporary[2][4096];

static void remove_temporaries(void) {
  for (int i = 0; i < 2; i++)
    if (*temporary[i]) unlink(temporary[i]);
}

static void stop(int signal_number) {
  remove_temporaries();
  signal(signal_number, SIG_DFL);
  raise(signal_number);
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

static bool write_rows(const Options *options, DigitsSeries series, Error *error) {
  FILE *stream = fopen(temporary[series], "w");
  if (!stream) return error_set(error, "cannot create %s: %s", temporary[series], strerror(errno));
  bool good = true;
  for (uint64_t row = 0; good && row < options->rows[series]; row++) {
    uint8_t pixels[DIGITS_PIXELS];
    char line[DIGITS_PIXELS * 4 + 2];
    const int label = digits_draw(options->seed, series, row, pixels);
    const size_t length = format_row(label, pixels, line);
    good = fwrite(line, 1, length, stream) == length;
  }
  const int cause = errno;
  if (fclose(stream) == 0 && good) return true;
  return error_set(error, "cannot write %s/%s: %s", options->folder, names[series],
                   strerror(good ? errno : cause));
}

static bool write_files(const Options *options, Error *error) {
  for (int i = 0; i < 2; i++) {
    const int length = snprintf(temporary[i], sizeof temporary[i], "%s/.%s.%ld", options->folder,
                                names[i], (long)getpid());
    if (length < 0 || (size_t)length >= sizeof temporary[i])
      return error_set(error, "the name of the folder is too long");
  }
  for (int i = 0; i < 2; i++)
    if (!write_rows(options, (DigitsSeries)i, error)) return false;
  for (int i = 0; i < 2; i++) {
    char path[sizeof temporary[i]];
    snprintf(path, sizeof path, "%s/%s", options->folder, names[i]);
    if (rename(temporary[i], path) != 0)
      return error_set(error, "cannot replace %s: %s", path, strerror(errno));
    *temporary[i] = 0;
    printf("%s: %" PRIu64 " drawn digits\n", path, options->rows[i]);
  }
  return true;
}

int main(int count, char **arguments) {
  standard_output_open();
  Options options;
  Error error;
  bool help_wanted;
  if (!parse_options(count, arguments, &options, &help_wanted, &error)) {
    fprintf(stderr, "mlp-digits: %s\nTry 'mlp-digits --help'.\n", error.text);
    return 2;
  }
  signal(SIGINT, stop);
  signal(SIGTERM, stop);
  signal(SIGHUP, stop);
  bool good = true;
  if (help_wanted)
    fputs(help, stdout);
  else
    good = write_files(&options, &error);
  if (good && report_flush(&error)) return 0;
  remove_temporaries();
  fprintf(stderr, "mlp-digits: %s\n", error.text);
  return 1;
}
