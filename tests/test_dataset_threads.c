/* The CSV reader's threads on long files: the same rows, order and errors whatever their number,
   how far they read ahead, progress, closing; pipes, whose length nobody knows. */
#include "support/csv.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* ---- the same rows --------------------------------------------------------------------------- */

TESTS_WITH(folder_enter, folder_close);

/* Some 20 chunks: the file order, bit for bit, whatever the threads and the look-ahead. */
TEST(test_threads_agree) {
  static const size_t aheads[] = {0, 1, 5000}, blocks[] = {1, 777, 100000};
  draw_csv(1, 30000, 60);
  assert_in_range(drawn.length, 4 << 20, 16 << 20);
  for (size_t t = 0; t < LENGTH(thread_counts); t++)
    for (size_t i = 0; i < LENGTH(aheads); i++)
      assert_read(thread_counts[t], aheads[i], blocks[(i + t) % LENGTH(blocks)]);
}

/* Two bad rows, one in a late chunk and one behind it: the first is reported, after every row
   before it, and again by the next call. */
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
    assert_true(read_on(reader, &table, GOOD - 1));
    assert_int_equal(table.rows, GOOD - 1);
    for (int again = 0; again < 2; again++) {
      table.error = (Error){.text = ""};
      assert_false(read_on(reader, &table, WORSE));
      assert_int_equal(table.rows, GOOD);
      assert_string_equal(table.error.text, "x.csv, line 200001, column 2: 'x' is not an integer "
                                            "from 0 to 255");
    }
    dataset_close(reader);
  }
}

/* ---- look-ahead, progress, closing -------------------------------------------------------- */

/* Every call of read in this program comes here. */
static atomic_long read_position;
static atomic_int read_file;

ssize_t read(int file, void *bytes, size_t count) {
  const struct iovec piece = {bytes, count};
  const ssize_t length = readv(file, &piece, 1);
  if (length > 0) atomic_fetch_add(&read_position, length);
  atomic_store(&read_file, file);
  return length;
}

static DatasetReader *open_from_start(int threads, size_t ahead) {
  atomic_store(&read_position, 0);
  return open_reader(threads, ahead);
}

/* The position once it is `least` or more and has stood still for a while. */
static long settled_position(long least) {
  long position = -1, last = -1;
  for (int waits = 0, still = 0; waits < 1000 && still < 5; waits++) {
    const struct timespec pause = {0, 10000000};
    nanosleep(&pause, NULL);
    position = atomic_load(&read_position);
    still = position >= least && position == last ? still + 1 : 0;
    last = position;
  }
  return position;
}

TEST(test_look_ahead) {
  draw_csv(2, 40000, 60);
  const long size = (long)drawn.length, chunk = 1 << 18;

  DatasetReader *reader = open_from_start(4, 0);
  assert_int_equal(settled_position(size), size); /* no bound: all of it */
  dataset_close(reader);

  static const size_t aheads[] = {1, 10000};
  foreach (each, aheads) {
    reader = open_from_start(2, *each);
    const long ahead = (long)((double)size / 40000.0 * (double)*each);
    assert_in_range(settled_position(ahead / 2), ahead / 2, ahead + 4 * chunk);
    wanted.rows = 0;
    assert_true(read_on(reader, &wanted, 5000));
    const long taken = size / 40000 * 5000;
    const long least = taken + ahead / 2, most = taken + ahead + 5 * chunk;
    assert_in_range(settled_position(least), least, most);
    dataset_close(reader);
    assert_int_equal(fcntl(atomic_load(&read_file), F_GETFD), -1); /* the file is closed */
  }
  memcpy(drawn.text, "1,x", 3); /* what follows an error is not read */
  write_file(drawn.text, drawn.length);
  reader = open_from_start(1, 0);
  assert_in_range(settled_position(0), 0, 2 * chunk);
  dataset_close(reader);
}

TEST(test_progress_and_bound) {
  char *text = repeat_row(2000);
  for (size_t cut = 0; cut < 2; cut++) { /* the bound is exact for the shortest rows */
    write_file(text, 4 * 2000 - cut);
    DatasetReader *reader = open_reader(1, 0);
    assert_int_equal(dataset_inputs(reader), 1);
    assert_int_equal(dataset_max_rows(reader, SIZE_MAX - 1), 2000);
    dataset_close(reader);
  }
  draw_csv(3, 10000, 60);
  DatasetReader *reader = open_reader(2, 0);
  double last = dataset_progress(reader);
  assert_true(last == 0);
  size_t steps = 0;
  for (wanted.rows = 1; wanted.rows > 0;) {
    wanted.rows = 0;
    assert_true(read_on(reader, &wanted, 100));
    const double progress = dataset_progress(reader);
    assert_true(progress >= last && progress <= 1);
    if (progress > last) steps++;
    last = progress;
  }
  assert_true(last == 1);
  assert_in_range(steps, 4, 100);
  dataset_close(reader);
}

TEST(test_close_early) {
  draw_csv(4, 20000, 60);
  foreach (each, thread_counts) {
    for (size_t rows = 0; rows <= 10000; rows += 5000) {
      DatasetReader *reader = open_reader(*each, rows / 2);
      wanted.rows = 0;
      assert_true(read_on(reader, &wanted, rows));
      assert_int_equal(wanted.rows, rows);
      dataset_close(reader);
    }
  }
  dataset_close(NULL);
}

/* ---- pipes ----------------------------------------------------------------------------------- */

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

/* As text, and as an archive, which is alone or as dd pads it. */
TEST(test_pipes) {
  enum { PADDING = 4000 };
  draw_csv(12, 10000, 60);
  Text archive = {0};
  append_member(&archive, drawn.text, drawn.length);
  Text padded = {archive.text, archive.length + PADDING}, *const sent[] = {&drawn, &archive,
                                                                           &padded};
  foreach (text, sent) {
    const pthread_t writer = start_writing(*text);
    assert_read(3, 0, 777);
    pthread_join(writer, NULL);
  }
}

/* Rows of unknown number are counted: all of them, or until there are too many, or as far as
   may be parsed ahead. */
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

/* A reader of a pipe is closed although its writer neither writes nor goes. */
TEST(test_close_a_silent_pipe) {
  enum { LENGTH_OF_A_CHUNK = 1 << 18 };
  Text writing = {repeat_row(LENGTH_OF_A_CHUNK / 4), LENGTH_OF_A_CHUNK};
  const pthread_t writer = start_writing(&writing);
  const int both = open(path, O_RDWR);
  assert_true(both >= 0);
  DatasetReader *reader = open_reader(2, 0);
  assert_true(dataset_source(reader)->once);
  assert_true(source_is(dataset_source(reader), path));
  assert_false(source_is(dataset_source(reader), folder));
  pthread_join(writer, NULL);
  dataset_close(reader);
  close(both);
}
