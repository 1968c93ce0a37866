/* The CSV reader when the system fails: reads that come in pieces or not at all, no memory, no
   threads, files that change while they are read. */
#define _GNU_SOURCE /* pthread_setattr_default_np, which makes threads fail to start */
#include "support/csv.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

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

#if !SANITIZED
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

/* ---- when the system fails --------------------------------------------------------------- */

TESTS_WITH(folder_enter, folder_close);

TEST(test_reads_in_pieces) {
  draw_csv(5, 10000, 60);
  read_badly = true;
  assert_read(3, 0, 1000);
  read_badly = false;
}

TEST(test_read_error) {
  draw_csv(6, 10000, 60);
  for (int late = 0; late < 2; late++) {
    read_fails = true;
    good_bytes = late ? 1000000 : 0;
    read_table(3, 0, 100000);
    read_fails = false;
    assert_string_equal(got.error.text, "cannot read x.csv: Input/output error");
    if (late) {
      size_t rows = 0;
      for (size_t i = 0; i < 1000000; i++) rows += drawn.text[i] == '\n';
      assert_int_equal(got.rows, rows); /* every whole line before */
      wanted.rows = rows;
      assert_read_rows(&wanted);
    }
  }
}

TEST(test_no_threads) {
#if !SANITIZED
  pthread_attr_t before, none;
  write_file("1,2\n", 4);
  assert_int_equal(pthread_getattr_default_np(&before), 0);
  assert_int_equal(pthread_getattr_default_np(&none), 0);
  assert_int_equal(pthread_attr_setstacksize(&none, (size_t)1 << 60), 0);
  assert_int_equal(pthread_setattr_default_np(&none), 0);
  DatasetReader *reader =
      dataset_open(&(DatasetConfig){.path = path, .classes = 10, .threads = 4}, &error);
  assert_int_equal(pthread_setattr_default_np(&before), 0);
  assert_null(reader);
  assert_string_equal(error.text, "cannot start a thread to read x.csv: Resource temporarily "
                                  "unavailable");
  pthread_attr_destroy(&before);
  pthread_attr_destroy(&none);
#else
  skip_because("a sanitizer starts threads its own way");
#endif
}

/* Fewer workers and no look-ahead will do: with one of each, every row arrives. */
TEST(test_short_memory) {
#if !SANITIZED
  enum { READER_CHUNK_WORKER = 3, ENOUGH = 100 };
  draw_csv(7, 10000, 60);
  got = new_table(10000, 60);
  for (int good = 0; good <= ENOUGH; good += good < 6 ? 1 : 47) {
    got.rows = 0;
    got.error.text[0] = '\0';
    atomic_store(&good_allocations, good);
    DatasetReader *reader =
        dataset_open(&(DatasetConfig){.path = path, .classes = 10, .threads = 4}, &got.error);
    const bool read = reader && read_on(reader, &got, 10000);
    atomic_store(&good_allocations, INT32_MAX);
    if (good < READER_CHUNK_WORKER) {
      assert_null(reader);
      assert_non_null(strstr(got.error.text, path));
      assert_non_null(strstr(got.error.text, "memory"));
    } else {
      assert_string_equal(got.error.text, "");
      assert_true(read);
      assert_read_rows(&wanted);
    }
    dataset_close(reader);
  }
#else
  skip_because("a sanitizer has its own malloc");
#endif
}

/* Whatever the name, the members, the threads and the pieces. */
TEST(test_archives) {
  draw_csv(11, 10000, 60);
  Text archive = {0};
  for (int members = 1; members <= 3; members++) {
    archive.length = 0;
    for (int i = 0; i < members; i++) {
      const size_t first = drawn.length * (size_t)i / (size_t)members;
      const size_t end = drawn.length * (size_t)(i + 1) / (size_t)members;
      append_member(&archive, drawn.text + first, end - first);
    }
    write_file(archive.text, archive.length);
    read_badly = members == 2;
    foreach (each, thread_counts) assert_read(*each, 0, 777);
    read_badly = false;
  }
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
TEST(test_changed_files) {
  draw_csv(14, 40000, 60);
  got = new_table(40000, 60);
  for (int change = GROWS; change <= IS_REPLACED; change++) {
    got.rows = 0;
    write_file(drawn.text, drawn.length);
    DatasetReader *reader = open_reader(2, 1);
    const SourceStamp stamp = dataset_source(reader)->stamp;
    assert_true(read_on(reader, &got, 1000));
    assert_int_equal(got.rows, 1000);
    change_file((Change)change, drawn.length);
    assert_false(read_on(reader, &got, 39000));
    assert_string_equal(got.error.text, change == IS_REPLACED
                                            ? "x.csv was replaced while it was being read"
                                            : "x.csv changed while it was being read");
    assert_memory_equal(got.pixels, wanted.pixels, got.rows * 60);
    dataset_close(reader);
    reader = open_reader(2, 1);
    assert_false(source_stamps_equal(&dataset_source(reader)->stamp, &stamp));
    dataset_close(reader);
  }
}
