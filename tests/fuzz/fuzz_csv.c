/* Fuzzes the reader of CSV files. Four bytes of the input say how the file is read; the rest is the
   file. Lines after the first may be repeated until they fill several chunks. A second reading,
   with other numbers of threads and rows per call, must give the same rows and error, also if the
   rows are compared with the first reading's summary, as a network keeps it. */
#include <string.h>

#include "data/dataset.h"
#include "fuzz.h"

enum { SETTINGS = 4, LONG = 300000, CANARY = 0xa5 };

typedef struct {
  bool opened, good;
  int inputs;
  size_t rows, capacity;
  uint8_t *pixels; /* (capacity, inputs + 1); the byte after each row must stay CANARY */
  uint16_t *labels;
  Error error;
  DataSummary *summary;
} Reading;

static void read_rows(Reading *r, DatasetReader *reader, size_t rows_a_call) {
  const size_t stride = (size_t)r->inputs + 1;
  size_t filled;
  do {
    uint8_t *pixels = malloc(rows_a_call * stride); /* sanitizers see writes beyond its end */
    uint16_t *labels = malloc(rows_a_call * sizeof *labels);
    memset(pixels, CANARY, rows_a_call * stride);
    r->good = dataset_read(reader, pixels, stride, labels, rows_a_call, &filled, &r->error);
    REQUIRE(filled <= rows_a_call);
    if (r->rows + filled > r->capacity) {
      r->capacity = 2 * (r->rows + filled);
      r->pixels = realloc(r->pixels, r->capacity * stride);
      r->labels = realloc(r->labels, r->capacity * sizeof *labels);
    }
    if (filled > 0) {
      memcpy(r->pixels + r->rows * stride, pixels, filled * stride);
      memcpy(r->labels + r->rows, labels, filled * sizeof *labels);
    }
    r->rows += filled;
    free(pixels);
    free(labels);
    const double progress = dataset_progress(reader);
    REQUIRE(progress >= 0 && progress <= 1);
  } while (r->good && filled == rows_a_call);
}

static Reading read_file(const char *path, int inputs, int classes, int threads, size_t rows_a_call,
                         const DataSummary *trained) {
  Reading r = {0};
  const size_t ahead = rows_a_call % 2 ? 0 : rows_a_call;
  const DatasetConfig config = {.path = path,
                                .classes = classes,
                                .threads = threads,
                                .inputs = inputs,
                                .predicts = inputs > 0,
                                .trained = trained,
                                .ahead = ahead};
  DatasetReader *reader = dataset_open(&config, &r.error);
  if (!reader) return r;
  r.opened = true;
  r.inputs = dataset_inputs(reader);
  REQUIRE(r.inputs >= 1 && r.inputs < DATASET_MAX_COLUMNS && (!inputs || r.inputs == inputs));
  read_rows(&r, reader, rows_a_call);
  REQUIRE(r.rows <= dataset_max_rows(reader, UINT64_MAX - 1));
  for (size_t i = 0; i < r.rows; i++) {
    REQUIRE(r.labels[i] < classes);
    REQUIRE(r.pixels[i * ((size_t)r.inputs + 1) + (size_t)r.inputs] == CANARY);
  }
  char *text = data_to_json(dataset_summary(reader));
  r.summary = malloc(sizeof *r.summary);
  REQUIRE(data_from_json(r.summary, text) || r.rows == 0);
  free(text);
  dataset_close(reader);
  return r;
}

/* Returns the number of lines that are not blank: the rows, and perhaps a header. */
static size_t count_lines(const char *text, size_t size) {
  size_t lines = 0;
  bool blank = true;
  for (size_t i = 0; i < size; i++)
    if (text[i] == '\n')
      blank = true;
    else if (blank && !strchr(" \t\r", text[i]))
      blank = false, lines++;
  return lines;
}

static char *make_text(const char *data, size_t size, bool is_long, size_t *length) {
  const char *first_end = memchr(data, '\n', size);
  const size_t head = first_end ? (size_t)(first_end + 1 - data) : size, rest = size - head;
  const size_t times = is_long && rest > 0 ? LONG / rest + 1 : 1;
  char *text = malloc(head + times * rest + 1);
  memcpy(text, data, head);
  for (size_t i = 0; i < times; i++) memcpy(text + head + i * rest, data + head, rest);
  *length = head + times * rest;
  return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < SETTINGS) return -1;
  const int classes = data[0] < 2 ? 1024 : data[0], inputs = data[1];
  const int threads = 1 + data[2] % 3;
  const size_t rows_a_call = 1 + data[3] % 64;
  size_t length;
  char *text = make_text((const char *)data + SETTINGS, size - SETTINGS, data[3] == 255, &length);
  const char *path = fuzz_file(text, length);

  Reading a = read_file(path, inputs, classes, threads, rows_a_call, NULL);
  Reading b = read_file(path, inputs, classes, threads % 3 + 1, rows_a_call + 7, a.summary);
  const bool one_label = b.opened && strstr(b.error.text, "--label-column says which");
  REQUIRE(a.opened == b.opened && a.good == (b.good || one_label) && a.rows == b.rows);
  REQUIRE(a.rows == 0 || (memcmp(a.labels, b.labels, a.rows * sizeof *a.labels) == 0 &&
                          memcmp(a.pixels, b.pixels, a.rows * ((size_t)a.inputs + 1)) == 0));
  REQUIRE(a.good || strcmp(a.error.text, b.error.text) == 0);
  const size_t lines = count_lines(text, length);
  const bool is_other = length > 2 && (memcmp(text, "\x1f\x8b", 2) == 0 /* gzip */ ||
                                       memcmp(text, "\0\0\10", 3) == 0 /* IDX */);
  REQUIRE(!a.good || is_other || (a.rows > 0 && (a.rows == lines || a.rows + 1 == lines)));

  free(a.pixels), free(a.labels), free(b.pixels), free(b.labels), free(text);
  free(a.summary), free(b.summary);
  return 0;
}
