/* Tests the CSV reader on long files. Rows, their order and errors must be the same for any number
   of threads and any timing of the bytes. Also tests progress, closing, pipes (of unknown length),
   reads that fail, files that change while they are read, and the memory used to parse ahead. */
#include "support/csv.h"
#include "support/process.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>

/* All reads of this program call the read() below. If read_badly is true, calls return small
   pieces, and every third call is interrupted. After `good_bytes` bytes, all calls fail. */
static bool read_badly;
static size_t good_bytes = SIZE_MAX;

ssize_t read(int file, void *bytes, size_t count) {
  static unsigned calls;
  const bool interrupted = read_badly && ++calls % 3 == 0;
  if (interrupted || good_bytes == 0) {
    errno = interrupted ? EINTR : EIO;
    return -1;
  }
  if (read_badly && count > 4099) count = 4099;
  if (count > good_bytes) count = good_bytes;
  if (good_bytes != SIZE_MAX) good_bytes -= count;
  const struct iovec piece = {bytes, count};
  return readv(file, &piece, 1);
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

enum { MB = 1 << 20, MEMBERS = 400, ROWS = MB / 4 }; /* ROWS: rows per gzip member */

static int wait_for_rows(void *unused, Error *why) {
  (void)unused;
  const struct rlimit limit = {128 * MB, 128 * MB};
  if (setrlimit(RLIMIT_AS, &limit) != 0) return 9;
  DatasetReader *reader = try_reader(1, 0, why);
  const uint64_t most = (uint64_t)MEMBERS * ROWS;
  return !reader || dataset_max_rows(reader, most) != most + 1;
}

/* A small archive holds 400 MB of rows. With 128 MB of memory, the reader may parse only 64 MB of
   rows ahead. It must then report that there are more rows, and deliver the parsed rows. This test
   comes first, because the limit also counts memory of threads that other tests start. */
TEST(test_half_of_the_memory) {
  if (SANITIZED) skip_because("a sanitizer's shadow is larger than any limit of memory");
  Text member = {0};
  append_member(&member, repeat_row(ROWS), MB);
  FILE *file = folder_create(path);
  for (int i = 0; i < MEMBERS; i++) fwrite(member.text, 1, member.length, file);
  close_file(file);
  const Ended ended = process_do(wait_for_rows, NULL);
  assert_int_equal(ended.status, 0);
  print_message("%ld MB\n", ended.kilobytes / 1024);
  assert_in_range(ended.kilobytes / 1024, 32, 80);
}

/* Reads a file of about 20 chunks. The rows and their order must not depend on the number of
   threads or on the number of rows read ahead. */
TEST(test_the_same_rows) {
  static const size_t aheads[] = {0, 1, 5000}, blocks[] = {1, 777, 100000};
  static const struct {
    size_t members; /* number of gzip members; 0 means plain text */
    bool badly, piped;
  } ways[] = {{.badly = false}, {.badly = false},
              {.badly = false}, /* plain text, once for each value of `aheads` */
              {.members = 3},   {.members = 2, .badly = true},
              {.piped = true},  {.members = 1, .piped = true}};
  draw_csv(1, 30000, 60);
  assert_in_range(drawn.length, 4 << 20, 16 << 20);
  for (size_t w = 0; w < LENGTH(ways); w++) {
    const size_t members = ways[w].members;
    Text sent = drawn;
    if (members > 0) sent = (Text){0};
    for (size_t m = 0; m < members; m++) {
      const size_t first = drawn.length * m / members, end = drawn.length * (m + 1) / members;
      append_member(&sent, drawn.text + first, end - first);
    }
    write_file(sent.text, sent.length);
    read_badly = ways[w].badly;
    for (size_t t = 0; t < LENGTH(thread_counts); t++) {
      const pthread_t writer = ways[w].piped ? start_writing(&sent) : 0;
      const bool bounded = !members && !ways[w].piped; /* otherwise the reader counts all rows */
      read_table(thread_counts[t], bounded ? aheads[(w + t) % 3] : 0, blocks[(w + t / 2) % 3]);
      assert_string_equal(got.error.text, "");
      assert_read_rows(&wanted);
      if (writer) pthread_join(writer, NULL);
    }
    read_badly = false;
  }
}

/* A file has two bad rows, both in late chunks. The reader first delivers all rows before the first
   bad row. Then it reports that row's error. Later calls report the same error. */
TEST(test_late_error) {
  enum { GOOD = 200000, WORSE = 2000 };
  const size_t length = 4 * (GOOD + WORSE) + 8;
  char *text = repeat_row(length / 4);
  memcpy(text + 4 * GOOD, "1,x\n", 4);
  memcpy(text + 4 * (GOOD + WORSE), "1,\"y\n1\n\n", 8);
  write_file(text, length);
  Table table = new_table(GOOD + WORSE, 1);
  foreach (each, thread_counts) {
    DatasetReader *reader = open_reader(*each, 0);
    table.rows = 0;
    for (int again = 0; again < 2; again++) {
      assert_false(read_on(reader, &table, GOOD + WORSE - table.rows));
      assert_int_equal(table.rows, GOOD);
      assert_in(table.error.text, "x.csv, line 200001, column 2: 'x' is not an integer");
    }
    dataset_close(reader);
  }
}

/* ---- progress, closing -------------------------------------------------------------------- */

TEST(test_progress_and_bound) {
  for (size_t cut = 0; cut < 2; cut++) { /* the bound is exact if rows are as short as possible */
    write_file(repeat_row(2000), 4 * 2000 - cut);
    DatasetReader *reader = open_reader(1, 0);
    assert_int_equal(dataset_max_rows(reader, SIZE_MAX - 1), 2000);
    dataset_close(reader);
  }
  draw_csv(3, 10000, 60);
  DatasetReader *reader = open_reader(2, 0);
  double last = dataset_progress(reader);
  assert_true(last == 0);
  for (wanted.rows = 1; wanted.rows > 0;) {
    wanted.rows = 0;
    assert_true(read_on(reader, &wanted, 100));
    const double progress = dataset_progress(reader);
    assert_true(progress >= last && progress <= 1);
    last = progress;
  }
  assert_true(last == 1);
  dataset_close(reader);
}

/* An archive does not tell its number of rows, so the reader counts them. The reader stops early in
   two cases: there are more than `most` rows, or it has parsed as far ahead as it may. */
TEST(test_counted_rows) {
  draw_csv(13, 40000, 60);
  Text archive = {0};
  append_member(&archive, drawn.text, drawn.length);
  write_file(archive.text, archive.length);
  static const struct {
    size_t ahead;
    uint64_t most, least_found, most_found;
  } cases[] = {{0, 1000000, 40000, 40000},
               {0, 40000, 40000, 40000},
               {0, 100, 101, 40000},
               {100, 1000000, 1000001, 1000001}};
  foreach (row, cases) {
    DatasetReader *reader = open_reader(3, row->ahead);
    assert_in_range(dataset_max_rows(reader, row->most), row->least_found, row->most_found);
    assert_false(dataset_source(reader)->once);
    dataset_close(reader);
  }
}

/* A reader of a pipe can be closed while the writer keeps the pipe open without writing. */
TEST(test_close_a_silent_pipe) {
  enum { LENGTH_OF_A_CHUNK = 1 << 18 };
  Text writing = {repeat_row(LENGTH_OF_A_CHUNK / 4), LENGTH_OF_A_CHUNK};
  const pthread_t writer = start_writing(&writing);
  const int both = open(path, O_RDWR);
  assert_true(both >= 0);
  DatasetReader *reader = open_reader(2, 0);
  assert_true(dataset_source(reader)->once);
  pthread_join(writer, NULL);
  dataset_close(reader);
  close(both);
}

/* ---- when the system fails --------------------------------------------------------------- */

TEST(test_read_error) {
  draw_csv(6, 10000, 60);
  for (int late = 0; late < 2; late++) {
    good_bytes = late ? 1000000 : 0;
    read_table(3, 0, 100000);
    good_bytes = SIZE_MAX;
    assert_string_equal(got.error.text, "cannot read x.csv: Input/output error");
    wanted.rows = 0; /* the number of whole lines before the failure */
    for (size_t i = 0; late && i < 1000000; i++) wanted.rows += drawn.text[i] == '\n';
    assert_int_equal(got.rows, wanted.rows);
    if (late) assert_read_rows(&wanted);
  }
}

/* If a file changes, the reader delivers the rows read before the change, then one error. */
TEST(test_changed_files) {
  enum { GROWS, UNDER_ITS_OLD_TIME, IS_REPLACED };
  draw_csv(14, 40000, 60);
  got = new_table(40000, 60);
  for (int change = GROWS; change <= IS_REPLACED; change++) {
    got.rows = 0;
    write_file(drawn.text, drawn.length);
    DatasetReader *reader = open_reader(2, 1);
    const struct stat stamp = dataset_source(reader)->stamp;
    assert_true(read_on(reader, &got, 1000));
    assert_int_equal(got.rows, 1000);
    const int file = open(path, O_WRONLY | O_APPEND);
    assert_true(file >= 0);
    if (change == GROWS) assert_int_equal(write(file, "9,9\n", 4), 4);
    if (change == UNDER_ITS_OLD_TIME) {
      const struct timespec tick = {0, 20000000}, old[] = {stamp.st_atim, stamp.st_mtim};
      nanosleep(&tick, NULL); /* the clock of file times advances only every few ms */
      assert_int_equal(futimens(file, old), 0);
    }
    if (change == IS_REPLACED) write_file("1,2\n", 4);
    close(file);
    assert_false(read_on(reader, &got, 39000));
    assert_string_equal(got.error.text, "x.csv changed while it was being read");
    assert_memory_equal(got.pixels, wanted.pixels, got.rows * 60);
    dataset_close(reader);
    reader = open_reader(2, 1);
    assert_false(source_stamps_equal(&dataset_source(reader)->stamp, &stamp));
    dataset_close(reader);
  }
}
