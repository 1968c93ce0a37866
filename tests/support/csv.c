#include "support/csv.h"

#include <zlib.h>

const char *path;
const int thread_counts[THREAD_COUNTS] = {1, 2, 5, 16};
DatasetConfig reading = {.classes = 10};
uint64_t random_state;
Table wanted, got;
Text drawn;

int csv_open(void **state) {
  folder_open(state);
  path = folder_path("x.csv");
  return 0;
}

void write_file(const char *text, size_t length) {
  remove(path); /* a new file is never waited for; a truncated one may be written back first */
  folder_write_bytes(path, text, length);
}

Table new_table(size_t room, size_t inputs) {
  Table table = {.inputs = inputs,
                 .pixels = malloc(room * inputs + 1),
                 .labels = malloc((room + 1) * sizeof *table.labels)};
  assert_true(table.pixels && table.labels);
  return table;
}

void free_table(Table *table) {
  free(table->pixels);
  free(table->labels);
}

bool read_on(DatasetReader *reader, Table *table, size_t rows) {
  size_t filled;
  const bool good = dataset_read(reader, table->pixels + table->rows * table->inputs, table->inputs,
                                 table->labels + table->rows, rows, &filled, &table->error);
  table->rows += filled;
  return good;
}

void assert_message(Error error, const char *before, const char *file, const char *after) {
  char message[1024];
  snprintf(message, sizeof message, "%s%s%s", before, file, after);
  assert_string_equal(error.text, message);
}

void read_table(int threads, size_t ahead, size_t block) {
  enum { GAP = 3, POISON = 0xa5 };
  free_table(&got);
  got = (Table){0};
  DatasetConfig config = reading;
  config.path = path;
  config.threads = threads;
  config.ahead = ahead;
  DatasetReader *reader = dataset_open(&config, &got.error);
  if (!reader) return;
  const size_t inputs = (size_t)dataset_inputs(reader), stride = inputs + GAP;
  const size_t capacity = (size_t)dataset_max_rows(reader, SIZE_MAX - 1);
  got = new_table(capacity + block, inputs);
  uint8_t *rows = malloc(block * stride);
  assert_non_null(rows);
  for (bool more = true; more;) {
    size_t filled = SIZE_MAX;
    memset(rows, POISON, block * stride);
    const bool read =
        dataset_read(reader, rows, stride, got.labels + got.rows, block, &filled, &got.error);
    more = read && filled > 0;
    assert_in_range(filled, 0, block);
    assert_in_range(got.rows + filled, 0, capacity);
    for (size_t i = 0; i < block; i++) {
      uint8_t *row = rows + i * stride;
      for (size_t j = i < filled ? inputs : 0; j < stride; j++) assert_int_equal(row[j], POISON);
      if (i < filled) memcpy(got.pixels + (got.rows + i) * inputs, row, inputs);
    }
    got.rows += filled;
  }
  free(rows);
  dataset_close(reader);
}

void assert_read_rows(const Table *expected) {
  assert_int_equal(got.inputs, expected->inputs);
  assert_int_equal(got.rows, expected->rows);
  assert_memory_equal(got.pixels, expected->pixels, got.rows * got.inputs);
  assert_memory_equal(got.labels, expected->labels, got.rows * sizeof *got.labels);
}

/* "label,pixel,...;" per row. */
static void print_rows(char *text, size_t size) {
  FILE *file = fmemopen(text, size, "w");
  assert_non_null(file);
  for (size_t r = 0; r < got.rows; r++) {
    fprintf(file, "%u", got.labels[r]);
    for (size_t i = 0; i < got.inputs; i++) fprintf(file, ",%u", got.pixels[r * got.inputs + i]);
    fputc(';', file);
  }
  assert_int_equal(fclose(file), 0);
}

void expect_bytes(size_t length, CsvCase row) {
  char text[512] = "", place[512] = "";
  write_file(row.text, length);
  read_table(2, 0, 4);
  print_rows(text, sizeof text);
  assert_string_equal(text, row.rows);
  int used = 0;
  if (row.line) used = sprintf(place, ", line %d", row.line);
  if (row.column) used += sprintf(place + used, ", column %d", row.column);
  if (row.what) sprintf(place + used, "%s %s", used ? ":" : "", row.what);
  assert_message(got.error, "", row.what ? path : "", place);
}

void expect(CsvCase row) {
  expect_bytes(strlen(row.text), row);
}

void expect_rows(const char *text, const char *rows) {
  expect((CsvCase){text, rows, 0, 0, NULL});
}

void assert_read(int threads, size_t ahead, size_t block) {
  read_table(threads, ahead, block);
  assert_string_equal(got.error.text, "");
  assert_read_rows(&wanted);
}

DatasetReader *open_reader(int threads, size_t ahead) {
  Error error;
  DatasetReader *reader = dataset_open(
      &(DatasetConfig){.path = path, .classes = 10, .threads = threads, .ahead = ahead}, &error);
  if (!reader) fail_msg("%s", error.text);
  return reader;
}

char *repeat_row(size_t rows) {
  char *text = malloc(4 * rows);
  assert_non_null(text);
  for (size_t r = 0; r < rows; r++) memcpy(text + 4 * r, "1,2\n", 4);
  return text;
}

unsigned draw(unsigned below) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (unsigned)(random_state >> 33) % below;
}

Text draw_file(size_t rows, size_t inputs, Table *table) {
  Text text = {malloc(rows * (inputs + 1) * 8 + 1), 0};
  *table = new_table(rows, inputs);
  table->rows = rows;
  assert_non_null(text.text);
  for (size_t r = 0; r < rows; r++) {
    for (size_t i = 0; i <= inputs; i++) {
      const unsigned limit = i == 0 || draw(2) ? 10 : 256, value = draw(limit);
      if (i == 0)
        table->labels[r] = (uint16_t)value;
      else
        table->pixels[r * inputs + i - 1] = (uint8_t)value;
      static const char *const forms[] = {"%u", "\"%u\"", " %u", "%u "};
      const char *form = forms[draw(16) < 13 ? 0 : 1 + draw(3)];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
      text.length += (size_t)sprintf(text.text + text.length, form, value);
#pragma GCC diagnostic pop
      if (i < inputs) text.text[text.length++] = ',';
    }
    if (draw(8) == 0) text.text[text.length++] = '\r';
    text.text[text.length++] = '\n';
  }
  return text;
}

static void free_drawn(void) {
  free_table(&wanted);
  free(drawn.text);
  wanted = (Table){0};
  drawn = (Text){0};
}

void draw_csv(uint64_t seed, size_t rows, size_t inputs) {
  free_drawn();
  random_state = seed;
  drawn = draw_file(rows, inputs, &wanted);
  write_file(drawn.text, drawn.length);
}

int csv_close(void **state) {
  free_drawn();
  free_table(&got);
  got = (Table){0};
  reading = (DatasetConfig){.classes = 10};
  return folder_close(state);
}

void append_member(Text *archive, const char *text, size_t length) {
  z_stream stream = {.next_in = (unsigned char *)text, .avail_in = (unsigned)length};
  assert_int_equal(deflateInit2(&stream, 1, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY),
                   Z_OK);
  const size_t bound = deflateBound(&stream, length);
  archive->text = realloc(archive->text, archive->length + bound);
  assert_non_null(archive->text);
  stream.next_out = (unsigned char *)archive->text + archive->length;
  stream.avail_out = (unsigned)bound;
  assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
  archive->length += stream.total_out;
  deflateEnd(&stream);
}
