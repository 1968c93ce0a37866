/* CSV files for the tests of the dataset reader. These functions write given or random rows to the
   file x.csv, in the working folder of folder.h, and read the file into a table. */
#pragma once

#include <zlib.h>

#include "data/dataset.h"
#include "support/folder.h"

static const char path[] = "x.csv";

TESTS_WITH(folder_enter, folder_close);

static inline void write_file(const char *text, size_t length) {
  remove(path); /* faster than truncating, which may wait for the disk */
  folder_write_bytes(path, text, length);
}

typedef struct {
  size_t rows, inputs;
  uint8_t *pixels; /* (rows, inputs) */
  uint16_t *labels;
  Error error; /* empty if there is no error */
} Table;

/* Returns an empty table with room for `room` rows. */
static inline Table new_table(size_t room, size_t inputs) {
  return (Table){.inputs = inputs,
                 .pixels = allocate(room * inputs + 1, 1),
                 .labels = allocate(room + 1, sizeof(uint16_t))};
}

/* Appends the reader's next rows, at most `rows`, to the table. Returns dataset_read's result.
   Checks that dataset_read writes neither to the gaps between rows nor to unfilled rows. Calls
   aligned_alloc because some tests make malloc fail. */
static inline bool read_on(DatasetReader *reader, Table *table, size_t rows) {
  enum { GAP = 3, POISON = 0xa5 };
  const size_t inputs = table->inputs, stride = inputs + GAP;
  uint8_t *pixels = memset(aligned_alloc(1, rows * stride + 1), POISON, rows * stride);
  size_t filled = SIZE_MAX;
  const bool good = dataset_read(reader, pixels, stride, table->labels + table->rows, rows, &filled,
                                 &table->error);
  assert_in_range(filled, 0, rows);
  for (size_t i = 0; i < rows; i++) {
    const uint8_t *row = pixels + i * stride;
    for (size_t j = i < filled ? inputs : 0; j < stride; j++) assert_int_equal(row[j], POISON);
    if (i < filled) memcpy(table->pixels + table->rows++ * inputs, row, inputs);
  }
  free(pixels);
  return good;
}

/* Thread counts to test. */
static const int thread_counts[] = {1, 2, 5, 16};

/* The options with which read_table opens the file. A test may change them. */
static DatasetConfig reading = {.classes = 10};

static Table got; /* the rows that read_table has read */

/* Reads the whole file into `got`, `block` rows at a time. */
static inline void read_table(int threads, size_t ahead, size_t block) {
  got = (Table){0};
  DatasetConfig config = reading;
  config.path = path;
  config.threads = threads;
  config.ahead = ahead;
  DatasetReader *reader = dataset_open(&config, &got.error);
  if (!reader) return;
  const size_t capacity = (size_t)dataset_max_rows(reader, SIZE_MAX - 1);
  got = new_table(capacity + block, (size_t)dataset_inputs(reader));
  for (size_t last = SIZE_MAX; got.rows != last;) {
    last = got.rows;
    if (!read_on(reader, &got, block)) break;
    assert_in_range(got.rows, 0, capacity);
  }
  dataset_close(reader);
}

static inline void assert_read_rows(const Table *expected) {
  assert_int_equal(got.inputs, expected->inputs);
  assert_int_equal(got.rows, expected->rows);
  assert_memory_equal(got.pixels, expected->pixels, got.rows * got.inputs);
  assert_memory_equal(got.labels, expected->labels, got.rows * sizeof *got.labels);
}

/* A file, and the expected result of reading it. */
typedef struct {
  const char *text;
  const char *rows; /* the expected rows, each as "label,pixel,...;" */
  int line, column; /* expected line and column in the message; 0 if it does not name them */
  const char *what; /* expected message after path, line and column, or NULL */
} CsvCase;

/* Writes a file of the first `length` bytes of row.text, which may contain zeros. Checks the result
   of reading the file. */
static inline void expect_bytes(size_t length, CsvCase row) {
  write_file(row.text, length);
  read_table(2, 0, 4);
  FILE *rows = text_open();
  for (size_t r = 0; r < got.rows; r++) {
    fprintf(rows, "%u", got.labels[r]);
    for (size_t i = 0; i < got.inputs; i++) fprintf(rows, ",%u", got.pixels[r * got.inputs + i]);
    fputc(';', rows);
  }
  assert_string_equal(text_close(rows), row.rows);
  const char *line = row.line ? text_printf(", line %d", row.line) : "";
  const char *column = row.column ? text_printf(", column %d", row.column) : "";
  const char *colon = row.line ? ":" : "";
  assert_string_equal(got.error.text,
                      row.what ? text_printf("x.csv%s%s%s %s", line, column, colon, row.what) : "");
}

static inline void expect(CsvCase row) {
  expect_bytes(strlen(row.text), row);
}

/* Opens the file for 10 classes. Returns NULL on an error. */
static inline DatasetReader *try_reader(int threads, size_t ahead, Error *why) {
  return dataset_open(
      &(DatasetConfig){.path = path, .classes = 10, .threads = threads, .ahead = ahead}, why);
}

static inline DatasetReader *open_reader(int threads, size_t ahead) {
  DatasetReader *reader = try_reader(threads, ahead, &error);
  OK(reader != NULL);
  return reader;
}

/* Returns a text of `rows` rows; each row is "1,2\n". */
static inline char *repeat_row(size_t rows) {
  char *text = allocate(rows, 4);
  for (size_t r = 0; r < rows; r++) memcpy(text + 4 * r, "1,2\n", 4);
  return text;
}

static uint64_t random_state; /* state of draw(); not 0 */

static inline unsigned draw(unsigned below) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (unsigned)(random_state >> 33) % below;
}

typedef struct {
  char *text;
  size_t length;
} Text;

/* Returns a valid file of `rows` random rows. Sets *table to the expected result of reading it. */
static inline Text draw_file(size_t rows, size_t inputs, Table *table) {
  Text text = {allocate(rows * (inputs + 1) * 8 + 1, 1), 0};
  *table = new_table(rows, inputs);
  table->rows = rows;
  for (size_t r = 0; r < rows; r++) {
    for (size_t i = 0; i <= inputs; i++) {
      const unsigned limit = i == 0 || draw(2) ? 10 : 256, value = draw(limit);
      if (i == 0)
        table->labels[r] = (uint16_t)value;
      else
        table->pixels[r * inputs + i - 1] = (uint8_t)value;
      static const char *const around[][2] = {{"", ""}, {"\"", "\""}, {" ", ""}, {"", " "}};
      const char *const *form = around[draw(16) < 13 ? 0 : 1 + draw(3)];
      text.length += (size_t)sprintf(text.text + text.length, "%s%u%s", form[0], value, form[1]);
      if (i < inputs) text.text[text.length++] = ',';
    }
    if (draw(8) == 0) text.text[text.length++] = '\r';
    text.text[text.length++] = '\n';
  }
  return text;
}

static Table wanted; /* the expected result of reading the file of draw_csv */
static Text drawn;   /* the text of the file of draw_csv */

/* Writes a random file. The same arguments give the same file. */
static inline void draw_csv(uint64_t seed, size_t rows, size_t inputs) {
  random_state = seed;
  drawn = draw_file(rows, inputs, &wanted);
  write_file(drawn.text, drawn.length);
}

/* Appends `text` to the archive as a gzip member. At least ZEROS zero bytes follow in memory. */
enum { ZEROS = 2 << 20 };
static inline void append_member(Text *archive, const char *text, size_t length) {
  z_stream stream = {.next_in = (unsigned char *)text, .avail_in = (unsigned)length};
  assert_int_equal(deflateInit2(&stream, 1, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY),
                   Z_OK);
  const size_t bound = deflateBound(&stream, length);
  char *both = allocate(archive->length + bound + ZEROS, 1);
  if (archive->length > 0) memcpy(both, archive->text, archive->length);
  archive->text = both;
  stream.next_out = (unsigned char *)archive->text + archive->length;
  stream.avail_out = (unsigned)bound;
  assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
  archive->length += stream.total_out;
  deflateEnd(&stream);
}
