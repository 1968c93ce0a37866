/* The loader between a real reader and a pretended device: a thread that copies buffers late, and
   notices when one is written to before it was copied. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "engine/loader.h"
#include "support/csv.h"

enum { INPUTS = 5, STRIDE = 16, STAGING_ROWS = 8, DATASET_ROWS = 400, POISON = 0xa5 };

static void pause_microseconds(long microseconds) {
  const struct timespec pause = {0, microseconds * 1000};
  nanosleep(&pause, NULL);
}

/* Every call of read in this program comes here. */
static atomic_bool slow_file;

ssize_t read(int file, void *bytes, size_t count) {
  if (atomic_load(&slow_file)) {
    pause_microseconds(1000);
    if (count > 16384) count = 16384;
  }
  const struct iovec piece = {bytes, count};
  return readv(file, &piece, 1);
}

/* ---- the pretended device ---------------------------------------------------------------- */

typedef struct {
  uint8_t pixels[STAGING_ROWS * STRIDE];
  uint16_t labels[STAGING_ROWS];
} Buffer;

typedef enum { CALL_STAGING, CALL_UPLOAD, CALL_USE } Call;

static struct {
  Engine engine;
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  bool closing;

  long delay;     /* microseconds a copy takes, or */
  bool hesitates; /* it waits for the next upload: only a second buffer gets the loader there */

  Buffer buffer[2], sent[2]; /* what the loader fills; what it held when it was uploaded */
  uint64_t first[2], rows[2];
  uint64_t uploads, copies; /* called; done: the buffer of number n is n % 2 */
  uint8_t pixels[DATASET_ROWS * INPUTS];
  uint16_t labels[DATASET_ROWS];

  unsigned touched; /* buffers that were written to while they were the device's */
  unsigned stalls;  /* copies that waited in vain for the next upload */

  char calls[512]; /* in order: a digit takes that buffer, u uploads, x uses */
  Call fails;      /* this call, once `good_calls` went well */
  unsigned good_calls;

  uint64_t used, last_use; /* rows; of the last use */
  uint8_t seen_pixels[DATASET_ROWS * INPUTS];
  uint16_t seen_labels[DATASET_ROWS];
} device;

static bool goes_well(Call call, char letter, Error *error) {
  const size_t length = strlen(device.calls);
  if (length + 1 < sizeof device.calls) device.calls[length] = letter;
  if (device.fails != call || device.good_calls-- > 0) return true;
  return error_set(error, "call %d failed", (int)call);
}

/* Copies one upload after the other, each after its time. Called with the mutex locked. */
static void copy_one(void) {
  const uint64_t number = device.copies;
  const int buffer = (int)(number % 2);
  if (device.hesitates) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 10;
    int late = 0;
    while (device.uploads == number + 1 && !device.closing && !late) {
      late = pthread_cond_timedwait(&device.changed, &device.mutex, &end);
    }
    if (late) device.stalls++;
  } else {
    pthread_mutex_unlock(&device.mutex);
    pause_microseconds(device.delay);
    pthread_mutex_lock(&device.mutex);
  }
  const uint8_t *bytes = (const uint8_t *)&device.buffer[buffer];
  bool touched = false;
  for (size_t i = 0; i < sizeof(Buffer); i++) touched = touched || bytes[i] != POISON;
  device.touched += touched;
  for (uint64_t r = 0; r < device.rows[buffer]; r++) {
    const uint64_t row = device.first[buffer] + r;
    memcpy(device.pixels + row * INPUTS, device.sent[buffer].pixels + r * STRIDE, INPUTS);
    device.labels[row] = device.sent[buffer].labels[r];
  }
  device.copies++;
  pthread_cond_broadcast(&device.changed);
}

static void *run_device(void *unused) {
  pthread_mutex_lock(&device.mutex);
  while (!device.closing || device.copies < device.uploads) {
    if (device.copies < device.uploads) {
      copy_one();
    } else {
      pthread_cond_wait(&device.changed, &device.mutex);
    }
  }
  pthread_mutex_unlock(&device.mutex);
  return unused;
}

static bool device_staging(Engine *engine, int buffer, StagingBuffer *out, Error *error) {
  (void)engine;
  if (!goes_well(CALL_STAGING, (char)('0' + buffer), error)) return false;
  pthread_mutex_lock(&device.mutex);
  while (device.copies + 1 < device.uploads ||
         (device.copies < device.uploads && (int)(device.copies % 2) == buffer)) {
    pthread_cond_wait(&device.changed, &device.mutex);
  }
  pthread_mutex_unlock(&device.mutex);
  *out = (StagingBuffer){device.buffer[buffer].pixels, device.buffer[buffer].labels, STRIDE};
  return true;
}

static bool device_upload(Engine *engine, int buffer, uint64_t first_row, uint64_t rows,
                          Error *error) {
  if (!goes_well(CALL_UPLOAD, 'u', error)) return false;
  assert_in_range(rows, 1, STAGING_ROWS);
  assert_in_range(first_row + rows, 1, engine->config.dataset_rows);
  pthread_mutex_lock(&device.mutex);
  assert_int_equal(device.uploads % 2, buffer);
  device.first[buffer] = first_row;
  device.rows[buffer] = rows;
  device.sent[buffer] = device.buffer[buffer];
  memset(&device.buffer[buffer], POISON, sizeof(Buffer));
  device.uploads++;
  pthread_cond_broadcast(&device.changed);
  pthread_mutex_unlock(&device.mutex);
  return true;
}

static const EngineOperations operations = {.staging = device_staging, .upload = device_upload};

static void open_device(uint64_t dataset_rows) {
  memset(&device, 0, sizeof device);
  device.engine.call = &operations;
  device.engine.config = (EngineConfig){
      .network = {.layers = 1, .size = {INPUTS, 10}},
      .training.batch = STAGING_ROWS / 2,
      .dataset_rows = dataset_rows,
      .staging_rows = STAGING_ROWS,
  };
  device.good_calls = UINT32_MAX;
  pthread_mutex_init(&device.mutex, NULL);
  pthread_cond_init(&device.changed, NULL);
  assert_int_equal(pthread_create(&device.thread, NULL, run_device, NULL), 0);
}

static void finish(void) {
  pthread_mutex_lock(&device.mutex);
  device.closing = true;
  pthread_cond_broadcast(&device.changed);
  pthread_mutex_unlock(&device.mutex);
  pthread_join(device.thread, NULL);
  pthread_cond_destroy(&device.changed);
  pthread_mutex_destroy(&device.mutex);
  assert_int_equal(device.touched, 0);
  assert_int_equal(device.stalls, 0);
}

/* Looks at the rows once they are there, as training does. */
static bool use_rows(void *unused, uint64_t first_row, uint64_t rows, Error *error) {
  (void)unused;
  if (!goes_well(CALL_USE, 'x', error)) return false;
  assert_int_equal(device.used % STAGING_ROWS, 0); /* only the last buffer is short */
  if (!device.hesitates) {
    pthread_mutex_lock(&device.mutex);
    while (device.copies < device.uploads) {
      pthread_cond_wait(&device.changed, &device.mutex);
    }
    pthread_mutex_unlock(&device.mutex);
    memcpy(device.seen_pixels + device.used * INPUTS, device.pixels + first_row * INPUTS,
           rows * INPUTS);
    memcpy(device.seen_labels + device.used, device.labels + first_row, rows * sizeof(uint16_t));
  }
  device.used += rows;
  device.last_use = first_row;
  return true;
}

/* ---- files ------------------------------------------------------------------------------- */

static unsigned expected_label(uint64_t row) {
  return (unsigned)(row * 7 % 10);
}

static unsigned expected_pixel(uint64_t row, unsigned i) {
  return (unsigned)((row * 31 + i * 101) % 256);
}

static int padding; /* spaces that end every row: so few rows are a long file */

/* `rows` rows, then `after`. */
static DatasetReader *open_rows(uint64_t rows, const char *after) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  for (uint64_t r = 0; r < rows; r++) {
    fprintf(file, "%u", expected_label(r));
    for (unsigned i = 0; i < INPUTS; i++) fprintf(file, ",%u", expected_pixel(r, i));
    fprintf(file, "%*s\n", padding, "");
  }
  fprintf(file, "%s", after);
  assert_int_equal(fclose(file), 0);
  return open_reader(2, 0);
}

static void assert_rows(const uint8_t *pixels, const uint16_t *labels, uint64_t rows) {
  for (uint64_t r = 0; r < rows; r++) {
    assert_int_equal(labels[r], expected_label(r));
    for (unsigned i = 0; i < INPUTS; i++) {
      assert_int_equal(pixels[r * INPUTS + i], expected_pixel(r, i));
    }
  }
}

/* ---- tests ------------------------------------------------------------------------------- */

static const uint64_t row_counts[] = {1,
                                      STAGING_ROWS - 1,
                                      STAGING_ROWS,
                                      STAGING_ROWS + 1,
                                      2 * STAGING_ROWS,
                                      2 * STAGING_ROWS + 1,
                                      7 * STAGING_ROWS,
                                      20 * STAGING_ROWS + 3};

/* Feeds the whole file and closes it; `rows` rows must arrive. */
static void must_feed(DatasetReader *reader, LoaderPlan plan, uint64_t rows) {
  Error error;
  uint64_t fed = 0;
  if (!loader_feed(&device.engine, reader, &plan, &fed, &error)) fail_msg("%s", error.text);
  finish();
  assert_int_equal(fed, rows);
  dataset_close(reader);
}

TESTS_WITH(csv_open, csv_close);

/* Whatever is slow, and if the device does not copy a buffer before the next one is uploaded: one
   is filled while the other is copied. */
TEST(test_every_row_arrives) {
  enum { FIRST = 11 };
  static const struct {
    long delay;
    bool hesitates, uses, slow_file;
  } cases[] = {{.uses = false},     {.uses = true},
               {.delay = 2000},     {.uses = true, .slow_file = true},
               {.hesitates = true}, {.hesitates = true, .uses = true}};
  foreach (row, cases)
    foreach (each, row_counts) {
      const uint64_t rows = *each;
      atomic_store(&slow_file, row->slow_file);
      padding = row->slow_file ? 4000 : 0;
      open_device(FIRST + rows); /* not one row too many */
      device.delay = row->delay;
      device.hesitates = row->hesitates;
      must_feed(open_rows(rows, ""),
                (LoaderPlan){.first_row = FIRST, .use = row->uses ? use_rows : NULL}, rows);
      assert_int_equal(device.uploads, (rows + STAGING_ROWS - 1) / STAGING_ROWS);
      assert_rows(device.pixels + FIRST * INPUTS, device.labels + FIRST, rows);
      assert_int_equal(device.used, row->uses ? rows : 0);
      if (row->uses && !row->hesitates) assert_rows(device.seen_pixels, device.seen_labels, rows);
    }
  padding = 0;
  atomic_store(&slow_file, false);
}

TEST(test_ring) {
  enum { FIRST = 5 };
  foreach (rows, row_counts) {
    const uint64_t buffers = (*rows + STAGING_ROWS - 1) / STAGING_ROWS;
    open_device(FIRST + 2 * STAGING_ROWS);
    device.delay = 100;
    must_feed(open_rows(*rows, ""), (LoaderPlan){.first_row = FIRST, .ring = true, .use = use_rows},
              *rows);
    assert_int_equal(device.last_use, FIRST + (buffers - 1) % 2 * STAGING_ROWS);
    assert_rows(device.seen_pixels, device.seen_labels, *rows);
  }
}

TEST(test_order_of_calls) {
  enum { ROWS = 3 * STAGING_ROWS + 1 };
  open_device(DATASET_ROWS);
  must_feed(open_rows(ROWS, ""), (LoaderPlan){.use = use_rows}, ROWS);
  assert_string_equal(device.calls, "0ux1ux0ux1ux0");
}

TEST(test_feeds_what_remains) {
  DatasetReader *reader = open_rows(STAGING_ROWS + 5, "");
  Table before = new_table(5, INPUTS);
  assert_true(read_on(reader, &before, 5));
  free_table(&before);
  open_device(STAGING_ROWS);
  must_feed(reader, (LoaderPlan){0}, STAGING_ROWS);
  assert_int_equal(device.labels[0], expected_label(5));
}

/* Feeding fails after `rows` rows with `message` (@: the path), `calls` made. */
static void expect_failure(DatasetReader *reader, LoaderPlan plan, uint64_t rows,
                           const char *message, const char *calls) {
  const bool of_file = *message == '@';
  Error error = {.text = ""};
  uint64_t fed = UINT64_MAX;
  assert_false(loader_feed(&device.engine, reader, &plan, &fed, &error));
  finish();
  assert_message(error, "", of_file ? path : "", message + of_file);
  assert_int_equal(fed, rows);
  assert_string_equal(device.calls, calls);
  dataset_close(reader);
}

TEST(test_what_does_not_fit) {
  for (int ring = 0; ring < 2; ring++) {
    open_device(2 + 2 * STAGING_ROWS);
    expect_failure(open_rows(2 * STAGING_ROWS, ""), (LoaderPlan){.first_row = 3, .ring = ring},
                   STAGING_ROWS, "the dataset of 18 rows is too small for the file", "0u1");
  }
  open_device(1);
  expect_failure(open_rows(1, ""), (LoaderPlan){.first_row = 3}, 0,
                 "the dataset of 1 rows is too small for the file", "0");
  open_device(DATASET_ROWS);
  device.engine.config.network.size[0] = INPUTS + 1;
  expect_failure(open_rows(1, ""), (LoaderPlan){0}, 0,
                 "the file has 5 pixels a row, but the network takes 6 inputs", "");
}

/* A row of the file, or a call of the engine. */
TEST(test_reader_or_engine_fails) {
  static const struct {
    Call call;
    unsigned good_calls;
    uint64_t rows;
    const char *message, *calls;
  } cases[] = {
      {CALL_STAGING, 0, 0, "call 0 failed", "0"}, {CALL_STAGING, 2, 16, "call 0 failed", "0ux1ux0"},
      {CALL_UPLOAD, 0, 0, "call 1 failed", "0u"}, {CALL_UPLOAD, 2, 16, "call 1 failed", "0ux1ux0u"},
      {CALL_USE, 0, 8, "call 2 failed", "0ux"},   {CALL_USE, 2, 24, "call 2 failed", "0ux1ux0ux"},
  };
  const LoaderPlan plan = {.use = use_rows};
  foreach (row, cases) {
    open_device(DATASET_ROWS);
    device.fails = row->call;
    device.good_calls = row->good_calls;
    expect_failure(open_rows(40, ""), plan, row->rows, row->message, row->calls);
  }
  open_device(DATASET_ROWS);
  expect_failure(open_rows(21, "1,x\n"), plan, 16,
                 "@, line 22, column 2: 'x' is not an integer from 0 to 255", "0ux1ux0");
  open_device(DATASET_ROWS);
  expect_failure(open_rows(0, "1,x,3,4,5,6\n"), (LoaderPlan){0}, 0,
                 "@, line 1, column 2: 'x' is not an integer from 0 to 255", "0");
}
