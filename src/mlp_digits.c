/* mlp-digits: writes two CSV files of drawn digits in MNIST's format. */
#include <inttypes.h>

#include "base/interrupt.h"
#include "cli/option_kinds.h"
#include "data/digits.h"

typedef struct {
  char folder[OPTIONS_PATH];
  uint64_t rows[2], seed; /* rows are indexed by DIGITS_TRAIN and DIGITS_TEST */
} Options;

enum { MAX_ROWS = 1000000000 };

#define ROW(...) OPTION_ROW(Options, __VA_ARGS__)
static const OptionRow rows[] = {
    ROW("output-dir", "DIR", "data", option_path, folder,
        "folder for digits_train.csv and digits_test.csv"),
    ROW("train-rows", "N", "60000", option_whole64, rows[DIGITS_TRAIN], "rows of digits_train.csv",
        .low = 1, .high = MAX_ROWS),
    ROW("test-rows", "N", "10000", option_whole64, rows[DIGITS_TEST], "rows of digits_test.csv",
        .low = 1, .high = MAX_ROWS),
    ROW("seed", "N", "1", option_whole64, seed, "another seed draws other digits", .high = 0x1p64),
    OPTION_HELP,
    OPTION_VERSION};

static const OptionTable table = {
    .program = "mlp-digits",
    .usage = "Usage: mlp-digits [OPTION]...\n"
             "Draws digits that look handwritten and writes them as CSV in MNIST's format: one\n"
             "row per line, the label first, then 784 pixels from 0 to 255. The same options\n"
             "give the same bytes. Defaults are in [brackets].\n",
    .notes = "",
    .rows = rows,
    .count = sizeof rows / sizeof *rows};

/* ---- files ------------------------------------------------------------------------------- */

/* Writes the label and the pixels to `line` as a line of CSV. Returns its length in bytes. */
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

typedef char Paths[2][OPTIONS_PATH + 32]; /* indexed by DigitsSeries */

static bool name_files(const Options *options, Paths path, Error *error) {
  NamedFile files[2];
  for (int s = 0; s < 2; s++) {
    snprintf(path[s], sizeof path[s], "%s/digits_%s.csv", options->folder,
             s == DIGITS_TRAIN ? "train" : "test");
    files[s] = (NamedFile){"output-dir", path[s], true, true};
  }
  return same_file_check(files, 2, error);
}

/* Writes the file of a series. Keeps an old file until the new file is complete. */
static bool write_file(const Options *options, DigitsSeries series, const char *path,
                       Error *error) {
  AtomicFile output;
  bool good = true;
  if (!atomic_file_open(&output, path, error)) return false;
  for (uint64_t row = 0; good && row < options->rows[series]; row++) {
    uint8_t pixels[DIGITS_PIXELS];
    char line[DIGITS_PIXELS * 4 + 2];
    const int label = digits_draw(options->seed, series, row, pixels);
    const size_t length = format_row(label, pixels, line);
    good = fwrite(line, 1, length, output.file) == length || atomic_file_failed(&output, error);
  }
  if (!atomic_file_close(&output, good, error)) return false;
  printf("%s: %" PRIu64 " drawn digits\n", text_shown(path).text, options->rows[series]);
  return true;
}

int main(int argc, char **argv) {
  standard_output_open();
  Options options;
  Error error;
  OptionsResult result = option_table_read(&table, argc, argv, &options, &error);
  interrupt_catch(true);
  Paths path;
  if (result == OPTIONS_RUN && !name_files(&options, path, &error))
    result = option_files_refused(&error);
  for (int s = 0; result == OPTIONS_RUN && s < 2; s++)
    if (!write_file(&options, (DigitsSeries)s, path[s], &error)) result = OPTIONS_FAILURE;
  return option_table_end(&table, result, argv[0], &error);
}
