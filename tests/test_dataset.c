/* The CSV reader: what it accepts, what it refuses and how it says so, line by line; order,
   look-ahead and errors whatever the number of threads; and random files against a parser that
   is too simple to be wrong. */
#define _GNU_SOURCE /* pthread_setattr_default_np, which makes threads fail to start */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/dataset.h"
#include "support/folder.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static const int thread_counts[] = {1, 2, 5, 16};

/* ---- faults on demand -------------------------------------------------------------------- */

/* Every call of read in this program comes here: in pieces, interrupted, or failing once
   `good_bytes` have been read. */
static bool read_badly, read_fails;
static size_t good_bytes;

ssize_t read(int file, void *bytes, size_t count) {
  static unsigned calls;
  if (read_badly) {
    if (++calls % 3 == 0) {
      errno = EINTR;
      return -1;
    }
    if (count > 4099) count = 4099;
  }
  if (read_fails) {
    if (good_bytes == 0) {
      errno = EIO;
      return -1;
    }
    if (count > good_bytes) count = good_bytes;
    good_bytes -= count;
  }
  const struct iovec piece = {bytes, count};
  return readv(file, &piece, 1);
}

/* A sanitizer brings its own allocator. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_ALLOCATOR 0
#elif defined(__has_feature)
#define OWN_ALLOCATOR !(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define OWN_ALLOCATOR 1
#endif

#if OWN_ALLOCATOR
/* Large allocations that succeed before all others fail. */
static atomic_int good_allocations = INT32_MAX;

static bool refuse(size_t size) {
  return size > 100000 && atomic_fetch_sub(&good_allocations, 1) <= 0;
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);

void *malloc(size_t size) {
  return refuse(size) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
  return refuse(count * size) ? NULL : __libc_calloc(count, size);
}
#endif

/* ---- files and tables -------------------------------------------------------------------- */

static const char *path;

static int open_folder(void **state) {
  folder_open(state);
  path = folder_path("x.csv");
  return 0;
}

static void write_file(const char *text, size_t length) {
  remove(path); /* a new file is never waited for; a truncated one may be written back first */
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, length, file), length);
  assert_int_equal(fclose(file), 0);
}

typedef struct {
  size_t rows, inputs;
  uint8_t *pixels;
  uint16_t *labels;
  Error error; /* empty: none */
} Table;

static void free_table(Table *table) {
  free(table->pixels);
  free(table->labels);
}

static int network_inputs; /* 0: files are opened by dataset_open */

/* Reads the whole file, `block` rows at a time, with gaps between rows that must survive. */
static Table read_table(int classes, int threads, size_t ahead, size_t block) {
  enum { GAP = 3, POISON = 0xa5 };
  Table table = {0};
  DatasetReader *reader =
      network_inputs > 0
          ? dataset_open_for(path, network_inputs, classes, threads, ahead, &table.error)
          : dataset_open(path, classes, threads, ahead, &table.error);
  if (!reader) return table;
  const size_t inputs = table.inputs = (size_t)dataset_inputs(reader), stride = inputs + GAP;
  const size_t capacity = (size_t)dataset_max_rows(reader, SIZE_MAX - 1);
  table.pixels = malloc(capacity * inputs + 1);
  table.labels = malloc((capacity + block) * sizeof *table.labels);
  uint8_t *rows = malloc(block * stride);
  assert_true(table.pixels && table.labels && rows);
  for (bool more = true; more;) {
    size_t filled = SIZE_MAX;
    memset(rows, POISON, block * stride);
    const bool read =
        dataset_read(reader, rows, stride, table.labels + table.rows, block, &filled, &table.error);
    more = read && filled > 0;
    assert_in_range(filled, 0, block);
    assert_in_range(table.rows + filled, 0, capacity);
    for (size_t i = 0; i < block; i++) {
      uint8_t *row = rows + i * stride;
      for (size_t j = i < filled ? inputs : 0; j < stride; j++) assert_int_equal(row[j], POISON);
      if (i < filled) memcpy(table.pixels + (table.rows + i) * inputs, row, inputs);
    }
    table.rows += filled;
  }
  free(rows);
  dataset_close(reader);
  return table;
}

/* "label,pixel,...;" a row. */
static void print_table(const Table *table, char *text, size_t size) {
  size_t used = 0;
  text[0] = '\0';
  for (size_t r = 0; r < table->rows; r++) {
    used += (size_t)snprintf(text + used, size - used, "%u", table->labels[r]);
    for (size_t i = 0; i < table->inputs; i++) {
      used +=
          (size_t)snprintf(text + used, size - used, ",%u", table->pixels[r * table->inputs + i]);
    }
    used += (size_t)snprintf(text + used, size - used, ";");
    assert_in_range(used, 0, size - 1);
  }
}

/* The file is delivered as `rows` (see print_table), then fails with `message` ("": it does
   not), where @ stands for the path. */
static void expect(const char *text, size_t length, const char *rows, const char *message) {
  char got[512], wanted[512];
  write_file(text, length);
  Table table = read_table(10, 2, 0, 4);
  print_table(&table, got, sizeof got);
  assert_string_equal(got, rows);
  const char *at = strchr(message, '@');
  if (at) {
    snprintf(wanted, sizeof wanted, "%.*s%s%s", (int)(at - message), message, path, at + 1);
  } else {
    snprintf(wanted, sizeof wanted, "%s", message);
  }
  assert_string_equal(table.error.text, wanted);
  free_table(&table);
}

/* ---- accepted ---------------------------------------------------------------------------- */

static void test_accepted(void **state) {
  (void)state;
  static const struct {
    const char *text, *rows;
  } cases[] = {
      {"1,2,3\n4,5,6\n", "1,2,3;4,5,6;"},
      {"1,2,3\n4,5,6", "1,2,3;4,5,6;"},
      {"1,2,3\r\n4,5,6\r\n", "1,2,3;4,5,6;"},
      {"1,2,3\r\n4,5,6", "1,2,3;4,5,6;"},
      {"1,2,3\r\n4,5,6\r", "1,2,3;4,5,6;"},
      {"1,2,3\n4,5,6\r\n7,8,9\n", "1,2,3;4,5,6;7,8,9;"},
      {"1,2\n", "1,2;"},
      {"1,2", "1,2;"},
      {"1,2\n\n", "1,2;"},
      {"1,2\n\n\n\n", "1,2;"},
      {"1,2\r\n\r\n\n\r\n", "1,2;"},
      {"1,2\n \t\n\n  ", "1,2;"},
      {"\xef\xbb\xbf"
       "1,2\n",
       "1,2;"},
      {"\xef\xbb\xbflabel,pixel0\r\n1,2\r\n", "1,2;"},
      {"label,pixel0,pixel1\n1,2,3\n", "1,2,3;"},
      {"label,0,1\n1,2,3\n", "1,2,3;"},
      {" class , 1x1,1x2\n1,2,3", "1,2,3;"},
      {"\"label\",\"a, \"\"quoted\"\" name\"\r\n1,2\n", "1,2;"},
      {"# \xc3\xa9tiquette,x\n1,2\n", "1,2;"},
      {"\"1\",\"2\"\n3,\"4\"\n", "1,2;3,4;"},
      {" 1 ,\t2\t\n\t3, \"4\" \n", "1,2;3,4;"},
      {"007,000255\n0,0\n", "7,255;0,0;"},
      {"9,255\n", "9,255;"},
  };
  for (size_t i = 0; i < LENGTH(cases); i++) {
    expect(cases[i].text, strlen(cases[i].text), cases[i].rows, "");
  }
}

static void test_labels_up_to_the_classes(void **state) {
  (void)state;
  const char text[] = "1023,0\n1024,0\n";
  write_file(text, sizeof text - 1);
  Table table = read_table(1024, 1, 0, 8);
  assert_int_equal(table.rows, 1);
  assert_int_equal(table.labels[0], 1023);
  assert_non_null(
      strstr(table.error.text, "line 2, column 1: '1024' is not a label from 0 to 1023"));
  free_table(&table);
}

/* With and without a label, as the columns say; rows that have none are printed with a 0. */
static void test_for_a_network(void **state) {
  (void)state;
  static const struct {
    int inputs;
    const char *text, *rows, *message;
  } cases[] = {
      {2, "1,2,3\n4,5,6\n", "1,2,3;4,5,6;", ""},
      {2, "200,3\r\n5,255\n\n", "0,200,3;0,5,255;", ""},
      {2, "pixel0,pixel1\n10,11\n", "0,10,11;", ""},
      {2, "label,pixel0,pixel1\n1,10,11\n", "1,10,11;", ""},
      {1, "7\n8", "0,7;0,8;", ""},
      {1, "7,8", "7,8;", ""},
      {2, "1,2\n3\n", "0,1,2;", "@, line 2: 1 field, but line 1 has 2"},
      {2, "1,2\n3,4,5,6\n", "0,1,2;", "@, line 2: 4 fields, but line 1 has 2"},
      {2, "1,2\n3,4,x\n", "0,1,2;", "@, line 2: 3 fields, but line 1 has 2"},
      {2, "1,2\n256,4\n", "0,1,2;", "@, line 2, column 1: '256' is not an integer from 0 to 255"},
      {2, "1,2\n3,x\n", "0,1,2;", "@, line 2, column 2: 'x' is not an integer from 0 to 255"},
      {2, "1,2\n,3\n", "0,1,2;", "@, line 2, column 1: '' is not an integer from 0 to 255"},
      {2, "10,2,3\n", "", "@, line 1, column 1: '10' is not a label from 0 to 9"},
      {2, "1,2\n\n3,4\n", "0,1,2;", "@, line 2: a blank line, but more lines follow"},
      {2, "1\n", "",
       "@, line 1: 1 field, but the network takes 2 pixels a row, with or without a label before "
       "them"},
      {2, "a,b,c,d\n1,2,3,4\n", "",
       "@, line 1: 4 fields, but the network takes 2 pixels a row, with or without a label before "
       "them"},
  };
  for (size_t i = 0; i < LENGTH(cases); i++) {
    network_inputs = cases[i].inputs;
    expect(cases[i].text, strlen(cases[i].text), cases[i].rows, cases[i].message);
  }
  network_inputs = 0;
}

static void test_widest_row(void **state) {
  (void)state;
  enum { COLUMNS = DATASET_MAX_COLUMNS + 1 };
  char *text = malloc(COLUMNS * 6 + 2);
  assert_non_null(text);
  for (int extra = 0; extra < 2; extra++) {
    size_t length = (size_t)sprintf(text, "\"9\"");
    for (int i = 1; i < DATASET_MAX_COLUMNS + extra; i++) {
      length += (size_t)sprintf(text + length, ",\"%d\"", i % 256);
    }
    write_file(text, length);
    Table table = read_table(10, 3, 0, 2);
    if (extra) {
      assert_non_null(strstr(table.error.text, "x.csv, line 1: 4098 fields, but a row is a label "
                                               "and 1 to 4096 pixels"));
    } else {
      assert_int_equal(table.rows, 1);
      for (int i = 1; i < DATASET_MAX_COLUMNS; i++) {
        assert_int_equal(table.pixels[i - 1], i % 256);
      }
    }
    free_table(&table);
  }
  free(text);
}

/* ---- refused ----------------------------------------------------------------------------- */

static void test_refused(void **state) {
  (void)state;
#define TEXT(text) (text), sizeof(text) - 1
  static const struct {
    const char *text;
    size_t length;
    const char *rows, *message;
  } cases[] = {
      {TEXT(""), "", "@ is empty"},
      {TEXT("\xef\xbb\xbf"), "", "@ is empty"},
      {TEXT("\n\n"), "", "@, line 1: a blank line"},
      {TEXT("\n1,2\n"), "", "@, line 1: a blank line"},
      {TEXT("label,x\n"), "", "@ holds a header, but no rows"},
      {TEXT("label,x"), "", "@ holds a header, but no rows"},
      {TEXT("label,x\n\n\n"), "", "@ holds a header, but no rows"},
      {TEXT("7\n8\n"), "", "@, line 1: 1 field, but a row is a label and 1 to 4096 pixels"},
      {TEXT("x\n"), "", "@, line 1: 1 field, but a row is a label and 1 to 4096 pixels"},
      {TEXT("label,x\n\n1,2\n"), "", "@, line 2: a blank line, but more lines follow"},
      {TEXT("1,2\n\n\n3,4\n"), "1,2;", "@, line 2: a blank line, but more lines follow"},
      {TEXT("1,2\r\n3,4\r\n  \r\nx,4\r\n"), "1,2;3,4;",
       "@, line 3: a blank line, but more lines follow"},
      {TEXT("1,2\n\n3\"\n"), "1,2;", "@, line 2: a blank line, but more lines follow"},
      {TEXT("1,2\n3\n"), "1,2;", "@, line 2: 1 field, but line 1 has 2"},
      {TEXT("1,2\n3,4,5,6\n"), "1,2;", "@, line 2: 4 fields, but line 1 has 2"},
      {TEXT("1,2\n3,4,x\n"), "1,2;", "@, line 2: 3 fields, but line 1 has 2"},
      {TEXT("1,2\n3,4,"), "1,2;", "@, line 2: 3 fields, but line 1 has 2"},
      {TEXT("label,a,b\n1,2\n"), "", "@, line 2: 2 fields, but line 1 has 3"},
      {TEXT("1,2,3\n4,5,12a\n"), "1,2,3;",
       "@, line 2, column 3: '12a' is not an integer from 0 to 255"},
      {TEXT("1,2,3\n4,x,y\n"), "1,2,3;",
       "@, line 2, column 2: 'x' is not an integer from 0 to 255"},
      {TEXT("1,2,3\nx,4,5\ny,z,w\n"), "1,2,3;",
       "@, line 2, column 1: 'x' is not a label from 0 to 9"},
      {TEXT("1,x"), "", "@, line 1, column 2: 'x' is not an integer from 0 to 255"},
      {TEXT("1,256\n"), "", "@, line 1, column 2: '256' is not an integer from 0 to 255"},
      {TEXT("1,99999999999999999999\n"), "",
       "@, line 1, column 2: '99999999999999999999' is not an integer from 0 to 255"},
      {TEXT("1,12345678901234567890123456\n"), "",
       "@, line 1, column 2: '123456789012345678901234...' is not an integer from 0 to 255"},
      {TEXT("1,\n"), "", "@, line 1, column 2: '' is not an integer from 0 to 255"},
      {TEXT(",1\n"), "", "@, line 1, column 1: '' is not a label from 0 to 9"},
      {TEXT("1,\"\"\n"), "", "@, line 1, column 2: '' is not an integer from 0 to 255"},
      {TEXT("1,-1\n"), "", "@, line 1, column 2: '-1' is not an integer from 0 to 255"},
      {TEXT("1,+1\n"), "", "@, line 1, column 2: '+1' is not an integer from 0 to 255"},
      {TEXT("1,2.0\n"), "", "@, line 1, column 2: '2.0' is not an integer from 0 to 255"},
      {TEXT("1,1 2\n"), "", "@, line 1, column 2: '1 2' is not an integer from 0 to 255"},
      {TEXT("1,\" 2\"\n"), "", "@, line 1, column 2: ' 2' is not an integer from 0 to 255"},
      {TEXT("1,2;3\n"), "", "@, line 1, column 2: '2;3' is not an integer from 0 to 255"},
      {TEXT("10,2\n"), "", "@, line 1, column 1: '10' is not a label from 0 to 9"},
      {TEXT("-1,2\n"), "", "@, line 1, column 1: '-1' is not a label from 0 to 9"},
      {TEXT("1.0,2\n"), "", "@, line 1, column 1: '1.0' is not a label from 0 to 9"},
      {TEXT("12a,2\n"), "", "@, line 1, column 1: '12a' is not a label from 0 to 9"},
      {TEXT("label,x\nlabel,x\n"), "", "@, line 2, column 1: 'label' is not a label from 0 to 9"},
      {TEXT("1,2\n3,4\"\n"), "1,2;", "@, line 2, column 2: a stray quote"},
      {TEXT("1,2\n3,\"4\"5\n"), "1,2;", "@, line 2, column 2: a stray quote"},
      {TEXT("1,2\n3,\"4\" \"\n"), "1,2;", "@, line 2, column 2: a stray quote"},
      {TEXT("1,2\n3\"4,5\n"), "1,2;", "@, line 2, column 1: a stray quote"},
      {TEXT("1,2\"\n"), "", "@, line 1, column 2: a stray quote"},
      {TEXT("label,\"x\n1,2\n"), "", "@, line 1, column 2: a stray quote"},
      {TEXT("1,2\n3,\"4\n5\"\n6,7\n"), "1,2;",
       "@, line 2, column 2: a quoted field that does not end on its line"},
      {TEXT("1,2\n3,\"4\n5,6\n"), "1,2;",
       "@, line 2, column 2: a quoted field that does not end on its line"},
      {TEXT("1,2\n\"3"), "1,2;",
       "@, line 2, column 1: a quoted field that does not end on its line"},
      {TEXT("1,2\n3,4\r5,6\n"), "1,2;3,4;", "@, line 2: a carriage return inside the line"},
      {TEXT("1,2\n\r3,4\n"), "1,2;", "@, line 2: a carriage return inside the line"},
      {TEXT("1,2\r3,4\r"), "", "@, line 1: byte 4 is 0x0d: no text with LF or CRLF lines"},
      {TEXT("label,x\r1,2\r"), "", "@, line 1: byte 8 is 0x0d: no text with LF or CRLF lines"},
      {TEXT("\x1f\x8b\x07\0\0,\n1,2\n"), "",
       "@ is a damaged gzip archive: unknown compression method"},
      {TEXT("\x1f\x8b"), "", "@ is cut off: its gzip archive does not end"},
      {TEXT("\x1f"), "", "@, line 1: byte 1 is 0x1f: no text with LF or CRLF lines"},
      {TEXT("1,\0\n"), "", "@, line 1: byte 3 is 0x00: no text with LF or CRLF lines"},
      {TEXT("1,2\n3,\0\n"), "1,2;", "@, line 2, column 2: '?' is not an integer from 0 to 255"},
      {TEXT("1,2\n3,4\0\n"), "1,2;", "@, line 2, column 2: '4?' is not an integer from 0 to 255"},
      {TEXT("1,2\n\xff\xfe\x1b[2J\n"), "1,2;",
       "@, line 2, column 1: '???[2J' is not a label from 0 to 9"},
  };
  for (size_t i = 0; i < LENGTH(cases); i++) {
    expect(cases[i].text, cases[i].length, cases[i].rows, cases[i].message);
  }
}

static void expect_not_opened(const char *file, const char *format) {
  char wanted[512];
  Error error = {.text = ""};
  assert_null(dataset_open(file, 10, 2, 0, &error));
  snprintf(wanted, sizeof wanted, format, file);
  assert_string_equal(error.text, wanted);
  assert_null(dataset_open(file, 10, 2, 0, NULL));
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void test_not_a_file(void **state) {
  (void)state;
  char name[320];
  snprintf(name, sizeof name, "%s/absent.csv", folder);
  expect_not_opened(name, "%s: no such file");
  expect_not_opened("", "%s: no such file");
  expect_not_opened(folder, "%s is a directory, not a CSV file");
  write_file("1,2\n", 4);
  snprintf(name, sizeof name, "%s/under", path);
  expect_not_opened(name, "cannot open %s: Not a directory");
}
#pragma GCC diagnostic pop

/* ---- long files -------------------------------------------------------------------------- */

static uint64_t random_state;

static unsigned draw(unsigned below) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (unsigned)(random_state >> 33) % below;
}

typedef struct {
  char *text;
  size_t length;
} Text;

/* A valid file of `rows` random rows: its text, and what must be read from it. */
static Text draw_file(size_t rows, size_t inputs, Table *table) {
  Text text = {malloc(rows * (inputs + 1) * 8 + 1), 0};
  *table = (Table){.rows = rows, .inputs = inputs};
  table->pixels = malloc(rows * inputs);
  table->labels = malloc(rows * sizeof *table->labels);
  assert_true(text.text && table->pixels && table->labels);
  for (size_t r = 0; r < rows; r++) {
    for (size_t i = 0; i <= inputs; i++) {
      const unsigned limit = i == 0 || draw(2) ? 10 : 256, value = draw(limit);
      if (i == 0) {
        table->labels[r] = (uint16_t)value;
      } else {
        table->pixels[r * inputs + i - 1] = (uint8_t)value;
      }
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

static void assert_same_rows(const Table *got, const Table *wanted) {
  assert_int_equal(got->inputs, wanted->inputs);
  assert_int_equal(got->rows, wanted->rows);
  assert_memory_equal(got->pixels, wanted->pixels, got->rows * got->inputs);
  assert_memory_equal(got->labels, wanted->labels, got->rows * sizeof *got->labels);
}

/* Some 20 chunks: the file order, bit for bit, whatever the threads and the look-ahead. */
static void test_threads_agree(void **state) {
  (void)state;
  static const size_t aheads[] = {0, 1, 5000}, blocks[] = {1, 777, 100000};
  Table wanted;
  random_state = 1;
  Text text = draw_file(30000, 60, &wanted);
  assert_in_range(text.length, 4 << 20, 16 << 20);
  write_file(text.text, text.length);
  for (size_t t = 0; t < LENGTH(thread_counts); t++) {
    for (size_t i = 0; i < LENGTH(aheads); i++) {
      Table got = read_table(10, thread_counts[t], aheads[i], blocks[(i + t) % LENGTH(blocks)]);
      assert_string_equal(got.error.text, "");
      assert_same_rows(&got, &wanted);
      free_table(&got);
    }
  }
  free_table(&wanted);
  free(text.text);
}

/* The same of rows without a label: every column is a pixel. */
static void test_many_rows_for_a_network(void **state) {
  (void)state;
  enum { INPUTS = 60, ROWS = 8000 };
  Table wanted;
  random_state = 2;
  Text text = draw_file(ROWS, INPUTS - 1, &wanted);
  write_file(text.text, text.length);
  network_inputs = INPUTS;
  Table got = read_table(10, 3, 0, 777);
  network_inputs = 0;
  assert_string_equal(got.error.text, "");
  assert_int_equal(got.rows, ROWS);
  for (size_t r = 0; r < ROWS; r++) {
    assert_int_equal(got.labels[r], 0);
    assert_int_equal(got.pixels[r * INPUTS], wanted.labels[r]);
    assert_memory_equal(got.pixels + r * INPUTS + 1, wanted.pixels + r * (INPUTS - 1), INPUTS - 1);
  }
  free_table(&got);
  free_table(&wanted);
  free(text.text);
}

/* Two bad rows, one in a late chunk and one behind it: the first is reported, after every row
   before it, and again if asked again. */
static void test_late_error(void **state) {
  (void)state;
  enum { GOOD = 200000, WORSE = 2000 };
  const size_t length = 4 * (GOOD + WORSE) + 8;
  char *text = malloc(length + 1);
  assert_non_null(text);
  for (size_t r = 0; r < GOOD + WORSE; r++) memcpy(text + 4 * r, "1,2\n", 4);
  memcpy(text + 4 * GOOD, "1,x\n", 4);
  memcpy(text + 4 * (GOOD + WORSE), "1,\"y\n1\n\n", 8);
  write_file(text, length);
  free(text);
  char wanted[400];
  snprintf(wanted, sizeof wanted, "%s, line %d, column 2: 'x' is not an integer from 0 to 255",
           path, GOOD + 1);
  uint16_t *labels = malloc((GOOD + WORSE) * sizeof *labels);
  uint8_t *pixels = malloc(GOOD + WORSE);
  assert_true(labels && pixels);
  for (size_t t = 0; t < LENGTH(thread_counts); t++) {
    Error error = {.text = ""};
    DatasetReader *reader = dataset_open(path, 10, thread_counts[t], 0, &error);
    assert_non_null(reader);
    size_t filled;
    assert_true(dataset_read(reader, pixels, 1, labels, GOOD - 1, &filled, &error));
    assert_int_equal(filled, GOOD - 1);
    assert_false(dataset_read(reader, pixels, 1, labels, WORSE, &filled, &error));
    assert_int_equal(filled, 1);
    assert_string_equal(error.text, wanted);
    error = (Error){.text = ""};
    assert_false(dataset_read(reader, pixels, 1, labels, WORSE, &filled, &error));
    assert_int_equal(filled, 0);
    assert_string_equal(error.text, wanted);
    dataset_close(reader);
  }
  free(labels);
  free(pixels);
}

/* Blank lines that fill whole chunks are fine at the end, and an error once a line follows. */
static void test_many_blank_lines(void **state) {
  (void)state;
  enum { BLANK = 1000000 };
  char *text = malloc(BLANK + 8);
  assert_non_null(text);
  memset(text, '\n', BLANK + 8);
  memcpy(text, "1,2", 3);
  expect(text, BLANK + 4, "1,2;", "");
  memcpy(text + BLANK + 4, "3,4\n", 4);
  expect(text, BLANK + 8, "1,2;", "@, line 2: a blank line, but more lines follow");
  memcpy(text + BLANK + 4, "3,\"\n", 4);
  expect(text, BLANK + 8, "1,2;", "@, line 2: a blank line, but more lines follow");
  free(text);
}

/* The longest line is the same wherever it stands; nothing longer is kept in memory. */
static void test_long_lines(void **state) {
  (void)state;
  enum { LONGEST = 262143, BEFORE = 70001 };
  char *text = malloc(4 * BEFORE + LONGEST + 8);
  assert_non_null(text);
  for (size_t before = 0; before <= BEFORE; before += BEFORE) {
    for (size_t r = 0; r < before; r++) memcpy(text + 4 * r, "1,2\n", 4);
    char *line = text + 4 * before;
    for (int extra = 0; extra < 2; extra++) {
      const size_t length = 4 * before + LONGEST + (size_t)extra;
      memset(line, ' ', LONGEST + 1);
      memcpy(line, "1,2", 3);
      for (int ended = 0; ended < 2; ended++) { /* with a line feed and without */
        text[length] = '\n';
        write_file(text, length + (size_t)ended);
        Table table = read_table(10, 2, 0, 100000);
        char wanted[400] = "";
        if (extra) {
          snprintf(wanted, sizeof wanted, "%s, line %zu: longer than 262143 bytes", path,
                   before + 1);
        }
        assert_string_equal(table.error.text, wanted);
        assert_int_equal(table.rows, before + (extra ? 0 : 1));
        free_table(&table);
      }
    }
  }
  memset(text, 'x', LONGEST + 2);
  memcpy(text + 2, ",", 1);
  memcpy(text + LONGEST + 1, "\n1,2\n", 5);
  expect(text, LONGEST + 6, "", "@, line 1: longer than 262143 bytes");
  free(text);
}

/* A quote that is never closed reaches over the end of a chunk. */
static void test_open_quote_over_chunks(void **state) {
  (void)state;
  const size_t rows = 200000;
  char *text = malloc(4 * rows);
  assert_non_null(text);
  for (size_t r = 0; r < rows; r++) memcpy(text + 4 * r, "1,2\n", 4);
  memcpy(text + 8, "1,\"\n", 4);
  expect(text, 4 * rows, "1,2;1,2;",
         "@, line 3, column 2: a quoted field that does not end on its line");
  free(text);
}

/* ---- look-ahead, progress, closing -------------------------------------------------------- */

/* How far into `path` this process has read: the kernel knows. -1: it does not say. */
static long read_position(void) {
  for (int file = 3; file < 1024; file++) {
    char link[64], target[512], line[128];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    const ssize_t length = readlink(link, target, sizeof target - 1);
    if (length < 0) continue;
    target[length] = '\0';
    if (strcmp(target, path) != 0) continue;
    snprintf(link, sizeof link, "/proc/self/fdinfo/%d", file);
    FILE *info = fopen(link, "r");
    if (!info) return -1;
    long position = -1;
    while (fgets(line, sizeof line, info)) {
      if (strncmp(line, "pos:", 4) == 0) position = strtol(line + 4, NULL, 10);
    }
    fclose(info);
    return position;
  }
  return -1;
}

/* The position once it is `least` or more and has stood still for a while. */
static long settled_position(long least) {
  long position = -1, last = -1;
  for (int waits = 0, still = 0; waits < 1000 && still < 5; waits++) {
    const struct timespec pause = {0, 10000000};
    nanosleep(&pause, NULL);
    position = read_position();
    still = position >= least && position == last ? still + 1 : 0;
    last = position;
  }
  return position;
}

static void test_look_ahead(void **state) {
  (void)state;
  Table wanted;
  random_state = 2;
  Text text = draw_file(40000, 60, &wanted);
  write_file(text.text, text.length);
  const long size = (long)text.length, chunk = 1 << 18;

  DatasetReader *reader = dataset_open(path, 10, 4, 0, NULL);
  assert_non_null(reader);
  if (read_position() < 0) {
    dataset_close(reader);
    free_table(&wanted);
    skip();
  }
  assert_int_equal(settled_position(size), size); /* no bound: all of it */
  dataset_close(reader);

  static const size_t aheads[] = {1, 10000};
  static uint8_t pixels[5000 * 60];
  static uint16_t labels[5000];
  for (size_t i = 0; i < LENGTH(aheads); i++) {
    reader = dataset_open(path, 10, 2, aheads[i], NULL);
    assert_non_null(reader);
    const long ahead = (long)((double)size / 40000.0 * (double)aheads[i]);
    assert_in_range(settled_position(ahead / 2), ahead / 2, ahead + 4 * chunk);
    size_t filled;
    assert_true(dataset_read(reader, pixels, 60, labels, 5000, &filled, NULL));
    const long taken = size / 40000 * 5000;
    const long least = taken + ahead / 2, most = taken + ahead + 5 * chunk;
    assert_in_range(settled_position(least), least, most);
    dataset_close(reader);
    assert_int_equal(read_position(), -1); /* the file is closed */
  }
  memcpy(text.text, "1,x", 3); /* what follows an error is not read */
  write_file(text.text, text.length);
  reader = dataset_open(path, 10, 1, 0, NULL);
  assert_non_null(reader);
  assert_in_range(settled_position(0), 0, 2 * chunk);
  dataset_close(reader);
  free_table(&wanted);
  free(text.text);
}

static void test_progress_and_bound(void **state) {
  (void)state;
  char text[2000 * 4];
  for (size_t r = 0; r < 2000; r++) memcpy(text + 4 * r, "1,2\n", 4);
  for (size_t cut = 0; cut < 2; cut++) { /* the bound is exact for the shortest rows */
    write_file(text, sizeof text - cut);
    DatasetReader *reader = dataset_open(path, 10, 1, 0, NULL);
    assert_non_null(reader);
    assert_int_equal(dataset_inputs(reader), 1);
    assert_int_equal(dataset_max_rows(reader, SIZE_MAX - 1), 2000);
    dataset_close(reader);
  }
  Table wanted;
  random_state = 3;
  Text drawn = draw_file(10000, 60, &wanted);
  write_file(drawn.text, drawn.length);
  DatasetReader *reader = dataset_open(path, 10, 2, 0, NULL);
  assert_non_null(reader);
  double last = dataset_progress(reader);
  assert_true(last == 0);
  size_t steps = 0;
  for (size_t filled = 1; filled > 0;) {
    assert_true(dataset_read(reader, wanted.pixels, 60, wanted.labels, 100, &filled, NULL));
    const double progress = dataset_progress(reader);
    assert_true(progress >= last && progress <= 1);
    if (progress > last) steps++;
    last = progress;
  }
  assert_true(last == 1);
  assert_in_range(steps, 4, 100);
  dataset_close(reader);
  free_table(&wanted);
  free(drawn.text);
}

static void test_close_early(void **state) {
  (void)state;
  Table wanted;
  random_state = 4;
  Text text = draw_file(20000, 60, &wanted);
  write_file(text.text, text.length);
  free(text.text);
  for (size_t t = 0; t < LENGTH(thread_counts); t++) {
    for (size_t rows = 0; rows <= 10000; rows += 5000) {
      DatasetReader *reader = dataset_open(path, 10, thread_counts[t], rows / 2, NULL);
      assert_non_null(reader);
      size_t filled;
      assert_true(dataset_read(reader, wanted.pixels, 60, wanted.labels, rows, &filled, NULL));
      assert_int_equal(filled, rows);
      dataset_close(reader);
    }
  }
  dataset_close(NULL);
  free_table(&wanted);
}

/* ---- when the system fails --------------------------------------------------------------- */

static void test_reads_in_pieces(void **state) {
  (void)state;
  Table wanted;
  random_state = 5;
  Text text = draw_file(10000, 60, &wanted);
  write_file(text.text, text.length);
  read_badly = true;
  Table got = read_table(10, 3, 0, 1000);
  read_badly = false;
  assert_string_equal(got.error.text, "");
  assert_same_rows(&got, &wanted);
  free_table(&got);
  free_table(&wanted);
  free(text.text);
}

static void test_read_error(void **state) {
  (void)state;
  Table wanted;
  char message[400];
  random_state = 6;
  Text text = draw_file(10000, 60, &wanted);
  write_file(text.text, text.length);
  snprintf(message, sizeof message, "cannot read %s: Input/output error", path);
  for (int late = 0; late < 2; late++) {
    read_fails = true;
    good_bytes = late ? 1000000 : 0;
    Table got = read_table(10, 3, 0, 100000);
    read_fails = false;
    assert_string_equal(got.error.text, message);
    if (late) {
      size_t rows = 0;
      for (size_t i = 0; i < 1000000; i++) rows += text.text[i] == '\n';
      assert_int_equal(got.rows, rows); /* every whole line before */
      wanted.rows = rows;
      assert_same_rows(&got, &wanted);
    }
    free_table(&got);
  }
  free_table(&wanted);
  free(text.text);
}

static void test_no_threads(void **state) {
  (void)state;
#if OWN_ALLOCATOR
  pthread_attr_t before, none;
  char wanted[400];
  Error error = {.text = ""};
  write_file("1,2\n", 4);
  assert_int_equal(pthread_getattr_default_np(&before), 0);
  assert_int_equal(pthread_getattr_default_np(&none), 0);
  assert_int_equal(pthread_attr_setstacksize(&none, (size_t)1 << 60), 0);
  assert_int_equal(pthread_setattr_default_np(&none), 0);
  DatasetReader *reader = dataset_open(path, 10, 4, 0, &error);
  assert_int_equal(pthread_setattr_default_np(&before), 0);
  assert_null(reader);
  snprintf(wanted, sizeof wanted, "cannot start a thread to read %s: %s", path, strerror(EAGAIN));
  assert_string_equal(error.text, wanted);
  pthread_attr_destroy(&before);
  pthread_attr_destroy(&none);
#else
  skip();
#endif
}

/* Fewer workers and no look-ahead will do: with one of each, every row arrives. */
static void test_short_memory(void **state) {
  (void)state;
#if OWN_ALLOCATOR
  enum { READER_CHUNK_WORKER = 3, ENOUGH = 100 };
  Table wanted;
  random_state = 7;
  Text text = draw_file(10000, 60, &wanted);
  write_file(text.text, text.length);
  free(text.text);
  uint8_t *pixels = malloc(10000 * 60);
  uint16_t *labels = malloc(10000 * sizeof *labels);
  assert_true(pixels && labels);
  for (int good = 0; good <= ENOUGH; good += good < 6 ? 1 : 47) {
    Error error = {.text = ""};
    size_t filled;
    atomic_store(&good_allocations, good);
    DatasetReader *reader = dataset_open(path, 10, 4, 0, &error);
    const bool read = reader && dataset_read(reader, pixels, 60, labels, 10000, &filled, &error);
    atomic_store(&good_allocations, INT32_MAX);
    if (good < READER_CHUNK_WORKER) {
      assert_null(reader);
      assert_non_null(strstr(error.text, path));
      assert_non_null(strstr(error.text, "memory"));
    } else {
      assert_string_equal(error.text, "");
      assert_true(read);
      assert_int_equal(filled, 10000);
      assert_memory_equal(pixels, wanted.pixels, 10000 * 60);
      assert_memory_equal(labels, wanted.labels, 10000 * sizeof *labels);
    }
    dataset_close(reader);
  }
  free(pixels);
  free(labels);
  free_table(&wanted);
#else
  skip();
#endif
}

/* ---- archives and pipes ------------------------------------------------------------------ */

/* `text` as a gzip member of its own, behind what `archive` holds. */
static void append_member(Text *archive, const char *text, size_t length) {
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

/* Whatever the name, the members, the threads and the pieces. */
static void test_archives(void **state) {
  (void)state;
  Table wanted;
  random_state = 11;
  Text text = draw_file(10000, 60, &wanted), archive = {0};
  for (int members = 1; members <= 3; members++) {
    archive.length = 0;
    for (int i = 0; i < members; i++) {
      const size_t first = text.length * (size_t)i / (size_t)members;
      const size_t end = text.length * (size_t)(i + 1) / (size_t)members;
      append_member(&archive, text.text + first, end - first);
    }
    write_file(archive.text, archive.length);
    read_badly = members == 2;
    for (size_t t = 0; t < LENGTH(thread_counts); t++) {
      Table got = read_table(10, thread_counts[t], 0, 777);
      assert_string_equal(got.error.text, "");
      assert_same_rows(&got, &wanted);
      free_table(&got);
    }
    read_badly = false;
  }
  free(archive.text);
  free_table(&wanted);
  free(text.text);
}

/* Cut off or damaged anywhere, an archive of one chunk gives no row. */
static void test_bad_archives(void **state) {
  (void)state;
  static const char rows[] = "1,2\n3,4\n5,6\n";
  Text archive = {0};
  append_member(&archive, rows, sizeof rows - 1);
  for (size_t length = 2; length < archive.length; length++) {
    expect(archive.text, length, "", "@ is cut off: its gzip archive does not end");
  }
  archive.text[archive.length - 6] ^= 1; /* of its checksum */
  expect(archive.text, archive.length, "", "@ is a damaged gzip archive: incorrect data check");
  archive.text[archive.length - 6] ^= 1;
  archive.text[archive.length - 1] ^= 1; /* of its length */
  expect(archive.text, archive.length, "", "@ is a damaged gzip archive: incorrect length check");
  archive.text[archive.length - 1] ^= 1;
  archive.text[archive.length] = 'x'; /* deflateBound leaves room */
  expect(archive.text, archive.length + 1, "", "@ is cut off: its gzip archive does not end");
  free(archive.text);
}

static void *write_pipe(void *context) {
  const Text *text = context;
  const int file = open(path, O_WRONLY);
  size_t done = 0;
  for (ssize_t count = 1; count > 0 && done < text->length; done += (size_t)count)
    count = write(file, text->text + done, text->length - done);
  close(file);
  return NULL;
}

static pthread_t start_writing(Text *text) {
  pthread_t thread;
  remove(path);
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_int_equal(pthread_create(&thread, NULL, write_pipe, text), 0);
  return thread;
}

static void test_pipes(void **state) {
  (void)state;
  Table wanted;
  random_state = 12;
  Text text = draw_file(10000, 60, &wanted), archive = {0};
  append_member(&archive, text.text, text.length);
  for (int packed = 0; packed < 2; packed++) {
    const pthread_t writer = start_writing(packed ? &archive : &text);
    Table got = read_table(10, 3, 0, 777);
    pthread_join(writer, NULL);
    assert_string_equal(got.error.text, "");
    assert_same_rows(&got, &wanted);
    free_table(&got);
  }
  free(archive.text);
  free_table(&wanted);
  free(text.text);
}

/* What has no known length is counted: all of it, or until there are too many rows, or as far as
   may be parsed ahead. */
static void test_counted_rows(void **state) {
  (void)state;
  Table wanted;
  random_state = 13;
  Text text = draw_file(40000, 60, &wanted), archive = {0};
  append_member(&archive, text.text, text.length);
  write_file(archive.text, archive.length);
  static const struct {
    size_t ahead;
    uint64_t most, least_found, most_found;
  } cases[] = {{0, 1000000, 40000, 40000},
               {0, 40000, 40000, 40000},
               {0, 100, 101, 40000},
               {100, 1000000, 1000001, 1000001}};
  for (size_t i = 0; i < LENGTH(cases); i++) {
    DatasetReader *reader = dataset_open(path, 10, 3, cases[i].ahead, NULL);
    assert_non_null(reader);
    assert_in_range(dataset_max_rows(reader, cases[i].most), cases[i].least_found,
                    cases[i].most_found);
    assert_false(dataset_is_once(reader));
    dataset_close(reader);
  }
  free(archive.text);
  free_table(&wanted);
  free(text.text);
}

/* A reader of a pipe is closed although its writer neither writes nor goes. */
static void test_close_a_silent_pipe(void **state) {
  (void)state;
  enum { LENGTH_OF_A_CHUNK = 1 << 18 };
  remove(path);
  assert_int_equal(mkfifo(path, 0600), 0);
  const int both = open(path, O_RDWR);
  assert_true(both >= 0);
  char *text = malloc(LENGTH_OF_A_CHUNK);
  assert_non_null(text);
  for (size_t i = 0; i < LENGTH_OF_A_CHUNK; i += 4) memcpy(text + i, "1,2\n", 4);
  Text writing = {text, LENGTH_OF_A_CHUNK};
  pthread_t writer;
  assert_int_equal(pthread_create(&writer, NULL, write_pipe, &writing), 0);
  DatasetReader *reader = dataset_open(path, 10, 2, 0, NULL);
  assert_non_null(reader);
  assert_true(dataset_is_once(reader));
  assert_true(dataset_reads(reader, path));
  assert_false(dataset_reads(reader, folder));
  pthread_join(writer, NULL);
  dataset_close(reader);
  close(both);
  free(text);
}

/* ---- files that change ------------------------------------------------------------------- */

typedef enum { GROWS, SHRINKS, IS_REWRITTEN, IS_REPLACED } Change;

static void change_file(Change change, size_t length) {
  const struct timespec times[2] = {{0, 0}, {12345, 0}};
  if (change == IS_REPLACED) {
    write_file("1,2\n", 4);
    return;
  }
  const int file = open(path, O_WRONLY | O_APPEND);
  assert_true(file >= 0);
  if (change == GROWS) assert_int_equal(write(file, "9,9\n", 4), 4);
  if (change == SHRINKS) assert_int_equal(ftruncate(file, (off_t)length - 4), 0);
  if (change == IS_REWRITTEN) assert_int_equal(futimens(file, times), 0);
  close(file);
}

/* Rows that were read before are delivered; then comes one sentence. */
static void test_changed_files(void **state) {
  (void)state;
  static const char *const messages[] = {"%s changed while it was being read",
                                         "%s was replaced while it was being read"};
  Table wanted;
  random_state = 14;
  Text text = draw_file(40000, 60, &wanted);
  uint8_t *pixels = malloc(40000 * 60);
  uint16_t *labels = malloc(40000 * sizeof *labels);
  assert_true(pixels && labels);
  for (int change = GROWS; change <= IS_REPLACED; change++) {
    char message[400];
    Error error = {.text = ""};
    size_t filled, before;
    write_file(text.text, text.length);
    DatasetReader *reader = dataset_open(path, 10, 2, 1, &error);
    assert_non_null(reader);
    const SourceStamp stamp = *dataset_stamp(reader);
    assert_true(dataset_read(reader, pixels, 60, labels, 1000, &before, &error));
    assert_int_equal(before, 1000);
    change_file((Change)change, text.length);
    assert_false(
        dataset_read(reader, pixels + 1000 * 60, 60, labels + 1000, 39000, &filled, &error));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(message, sizeof message, messages[change == IS_REPLACED], path);
#pragma GCC diagnostic pop
    assert_string_equal(error.text, message);
    assert_memory_equal(pixels, wanted.pixels, (before + filled) * 60);
    dataset_close(reader);
    reader = dataset_open(path, 10, 2, 1, &error);
    assert_non_null(reader);
    assert_false(source_stamps_equal(dataset_stamp(reader), &stamp));
    dataset_close(reader);
  }
  free(pixels);
  free(labels);
  free_table(&wanted);
  free(text.text);
}

/* ---- random files against a simple parser ------------------------------------------------- */

enum { REFERENCE_COLUMNS = 80 };

/* One line by the rules of the header, character by character, nothing clever. */
typedef struct {
  size_t fields;                /* before the line's end or its first error */
  int value[REFERENCE_COLUMNS]; /* of a field: -1 is no integer below 2^16, or empty */
  char first;                   /* the first character of the first field, or 0 */
  size_t bad_quote;             /* the column of a quote that is wrong, or 0 */
  bool carriage_return;         /* that does not end the line */
} ReferenceLine;

static int reference_value(const char *text, size_t length) {
  int value = length > 0 ? 0 : -1;
  for (size_t i = 0; i < length && value >= 0; i++) {
    value = text[i] >= '0' && text[i] <= '9' ? value * 10 + text[i] - '0' : -1;
    if (value > 65535) value = -1;
  }
  return value;
}

static bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

static ReferenceLine reference_line(const char *at, const char *end) {
  ReferenceLine line = {0};
  while (at < end && is_blank(*at)) at++;
  bool more = at < end && *at != '\r';
  while (more) {
    static char field[1 << 19];
    size_t length = 0;
    while (at < end && is_blank(*at)) at++;
    if (at < end && *at == '"') {
      for (at++; at < end && (*at != '"' || (at + 1 < end && at[1] == '"')); at++) {
        if (*at == '"') at++;
        field[length++] = *at;
      }
      const bool closed = at < end;
      if (closed) at++;
      while (at < end && is_blank(*at)) at++;
      if (!closed || (at < end && *at != ',' && *at != '\r')) line.bad_quote = line.fields + 1;
    } else {
      for (; at < end && *at != ',' && *at != '\r'; at++) {
        if (*at == '"') line.bad_quote = line.fields + 1;
        field[length++] = *at;
      }
      while (length > 0 && is_blank(field[length - 1])) length--;
    }
    if (line.bad_quote) return line;
    if (line.fields == 0 && length > 0) line.first = field[0];
    if (line.fields < REFERENCE_COLUMNS) {
      line.value[line.fields] = reference_value(field, length);
    }
    line.fields++;
    more = at < end && *at == ',';
    if (more) at++;
  }
  for (; at < end; at++) {
    if (*at != '\r' && !is_blank(*at)) line.carriage_return = true;
  }
  return line;
}

typedef struct {
  Table table;
  size_t line, column; /* of the error; line 0: none that has a line */
  bool failed;
} Reference;

static void reference_fail(Reference *reference, size_t line, size_t column) {
  reference->failed = true;
  reference->line = line;
  reference->column = column;
}

/* The first line; returns false if it is not a row. */
static bool reference_first_line(Reference *reference, const ReferenceLine *line, const char *text,
                                 size_t length) {
  while (length > 0 && text[length - 1] == '\r') length--;
  for (size_t i = 0; i < length; i++) {
    if ((unsigned char)text[i] < 32 && text[i] != '\t') reference_fail(reference, 1, 0);
  }
  if (reference->failed) return false;
  if (line->bad_quote || line->fields < 2) reference_fail(reference, 1, line->bad_quote);
  reference->table.inputs = line->fields - 1;
  return !reference->failed && (line->first == 0 || strchr("0123456789+-.", line->first));
}

static void reference_row(Reference *reference, const ReferenceLine *line, size_t number) {
  Table *table = &reference->table;
  const size_t columns = table->inputs + 1;
  for (size_t i = 0; i < line->fields && i < columns; i++) {
    if (line->value[i] < 0 || line->value[i] >= (i == 0 ? 10 : 256)) {
      reference_fail(reference, number, i + 1);
      return;
    }
    if (i == 0) {
      table->labels[table->rows] = (uint16_t)line->value[i];
    } else {
      table->pixels[table->rows * table->inputs + i - 1] = (uint8_t)line->value[i];
    }
  }
  if (line->bad_quote) {
    reference_fail(reference, number, line->bad_quote);
  } else if (line->fields > 0 && line->fields != columns) {
    reference_fail(reference, number, 0);
  } else {
    table->rows += line->fields > 0;
    if (line->carriage_return) reference_fail(reference, number, 0);
  }
}

static Reference reference_read(const char *text, size_t length) {
  Reference reference = {0};
  Table *table = &reference.table;
  const char *end = text + length;
  table->pixels = malloc(length + REFERENCE_COLUMNS);
  table->labels = malloc((length + 1) * sizeof *table->labels);
  assert_true(table->pixels && table->labels);
  if (length == 0) reference.failed = true;
  size_t number = 0, blank = 0;
  for (const char *at = text; at < end && !reference.failed;) {
    const char *feed = memchr(at, '\n', (size_t)(end - at));
    const char *stop = feed ? feed : end;
    const ReferenceLine line = reference_line(at, stop);
    number++;
    const bool empty = line.fields == 0 && !line.bad_quote && !line.carriage_return;
    if (number == 1 && !reference_first_line(&reference, &line, at, (size_t)(stop - at))) {
      blank = 0; /* a header, or an error */
    } else if (empty) {
      if (blank == 0) blank = number;
    } else if (blank > 0) {
      reference_fail(&reference, blank, 0);
    } else {
      reference_row(&reference, &line, number);
    }
    at = stop + (feed ? 1 : 0);
  }
  if (table->rows == 0) reference.failed = true;
  return reference;
}

static void compare_with_reference(const char *text, size_t length, int threads) {
  write_file(text, length);
  Reference wanted = reference_read(text, length);
  Table got = read_table(10, threads, 0, 1 + draw(2000));
  char place[64] = "x.csv";
  if (wanted.line > 0 && wanted.column > 0) {
    snprintf(place, sizeof place, "x.csv, line %zu, column %zu: ", wanted.line, wanted.column);
  } else if (wanted.line > 0) {
    snprintf(place, sizeof place, "x.csv, line %zu: ", wanted.line);
  }
  if (wanted.failed != (got.error.text[0] != '\0') || got.rows != wanted.table.rows ||
      (wanted.failed && !strstr(got.error.text, place))) {
    print_error("got %zu rows, \"%s\"; wanted %zu rows, %s\n", got.rows, got.error.text,
                wanted.table.rows, wanted.failed ? place : "no error");
    print_error("%.*s\n", (int)(length < 400 ? length : 400), text);
    fail();
  }
  if (got.rows > 0) assert_same_rows(&got, &wanted.table);
  free_table(&got);
  free_table(&wanted.table);
}

static void test_random_characters(void **state) {
  (void)state;
  static const char alphabet[] = "0123456789123,,,,,,,,,,\"\"\n\n\n\n\r \tax-.\0";
  random_state = 8;
  for (int i = 0; i < 3000; i++) {
    char text[64];
    const size_t length = draw(sizeof text);
    for (size_t j = 0; j < length; j++) text[j] = alphabet[draw(sizeof alphabet - 1)];
    compare_with_reference(text, length, 1);
  }
}

/* Small valid files with up to two characters changed, inserted or removed. */
static void test_random_damage(void **state) {
  (void)state;
  static const char alphabet[] = "0159,,\"\"\n\n\r\r x\0";
  random_state = 9;
  for (int i = 0; i < 3000; i++) {
    Table table;
    Text text = draw_file(1 + draw(6), 1 + draw(4), &table);
    for (unsigned damage = draw(3); damage > 0 && text.length > 1; damage--) {
      char *at = text.text + draw((unsigned)text.length);
      const size_t behind = (size_t)(text.text + text.length - at);
      const char c = alphabet[draw(sizeof alphabet - 1)];
      switch (draw(3)) {
      case 0:
        *at = c;
        break;
      case 1:
        memmove(at, at + 1, behind - 1);
        text.length--;
        break;
      default:
        memmove(at + 1, at, behind);
        *at = c;
        text.length++;
      }
    }
    compare_with_reference(text.text, text.length, 1);
    free_table(&table);
    free(text.text);
  }
}

/* Files of several chunks, damaged in one place, read by several threads. */
static void test_random_damage_in_long_files(void **state) {
  (void)state;
  static const char alphabet[] = "0159,\"\n\r x";
  random_state = 10;
  Table table;
  Text text = draw_file(6000, 60, &table);
  for (int i = 0; i < 24; i++) {
    char *at = text.text + draw((unsigned)text.length);
    const char before = *at;
    *at = alphabet[draw(sizeof alphabet - 1)];
    compare_with_reference(text.text, text.length, thread_counts[draw(LENGTH(thread_counts))]);
    *at = before;
  }
  free_table(&table);
  free(text.text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_accepted),      cmocka_unit_test(test_labels_up_to_the_classes),
      cmocka_unit_test(test_for_a_network), cmocka_unit_test(test_many_rows_for_a_network),
      cmocka_unit_test(test_widest_row),    cmocka_unit_test(test_refused),
      cmocka_unit_test(test_not_a_file),    cmocka_unit_test(test_threads_agree),
      cmocka_unit_test(test_late_error),    cmocka_unit_test(test_many_blank_lines),
      cmocka_unit_test(test_long_lines),    cmocka_unit_test(test_open_quote_over_chunks),
      cmocka_unit_test(test_look_ahead),    cmocka_unit_test(test_progress_and_bound),
      cmocka_unit_test(test_close_early),   cmocka_unit_test(test_reads_in_pieces),
      cmocka_unit_test(test_read_error),    cmocka_unit_test(test_no_threads),
      cmocka_unit_test(test_archives),      cmocka_unit_test(test_bad_archives),
      cmocka_unit_test(test_pipes),         cmocka_unit_test(test_counted_rows),
      cmocka_unit_test(test_changed_files), cmocka_unit_test(test_close_a_silent_pipe),
      cmocka_unit_test(test_short_memory),  cmocka_unit_test(test_random_characters),
      cmocka_unit_test(test_random_damage), cmocka_unit_test(test_random_damage_in_long_files),
  };
  return cmocka_run_group_tests_name("dataset", tests, open_folder, folder_close);
}
