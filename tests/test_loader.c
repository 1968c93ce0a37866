/* Tests the loader between a real reader and a simulated device. The device copies each buffer as
   late as allowed. The device notices if a buffer is overwritten before the copy. */
#include "engine/loader.h"
#include "support/csv.h"

enum { INPUTS = 5, STRIDE = 16, STAGING_ROWS = 8, DATASET_ROWS = 400, POISON = 0xa5 };

typedef struct {
  uint8_t pixels[STAGING_ROWS * STRIDE];
  uint16_t labels[STAGING_ROWS];
} Buffer;

typedef enum { CALL_STAGING, CALL_UPLOAD, NO_CALL } Call;

static struct {
  Engine engine;
  Buffer buffer[2], sent[2];  /* sent: copies of the loader's buffers, made at upload */
  uint64_t first[2], rows[2]; /* per buffer: first row and number of rows still to copy */
  uint64_t windows;           /* number of windows uploaded */
  uint8_t pixels[DATASET_ROWS * INPUTS];
  uint16_t labels[DATASET_ROWS];
  char calls[512]; /* log of calls: 0 or 1 if that buffer is taken, u if rows are uploaded */
  Call fails;      /* after `good_calls` calls of this kind, the next such call fails */
  unsigned good_calls;
} device;

static bool goes_well(Call call, char letter, Error *why) {
  const size_t length = strlen(device.calls);
  if (length + 1 < sizeof device.calls) device.calls[length] = letter;
  if (device.fails != call || device.good_calls-- > 0) return true;
  return error_set(why, "call %d failed", (int)call);
}

/* Copies a buffer's uploaded rows. The buffer must not have changed since the upload. */
static void copy(int buffer) {
  const uint8_t *bytes = (const uint8_t *)&device.buffer[buffer];
  for (size_t i = 0; device.rows[buffer] && i < sizeof(Buffer); i++)
    assert_int_equal(bytes[i], POISON);
  for (uint64_t r = 0; r < device.rows[buffer]; r++) {
    const uint64_t row = device.first[buffer] + r;
    memcpy(device.pixels + row * INPUTS, device.sent[buffer].pixels + r * STRIDE, INPUTS);
    device.labels[row] = device.sent[buffer].labels[r];
  }
  device.rows[buffer] = 0;
}

static bool device_staging(Engine *engine, int buffer, StagingBuffer *out, Error *why) {
  (void)engine;
  if (!goes_well(CALL_STAGING, (char)('0' + buffer), why)) return false;
  copy(buffer);
  *out = (StagingBuffer){device.buffer[buffer].pixels, device.buffer[buffer].labels, STRIDE};
  return true;
}

static bool device_upload(Engine *engine, int buffer, uint64_t first_row, uint64_t rows,
                          Error *why) {
  if (!goes_well(CALL_UPLOAD, 'u', why)) return false;
  assert_true(rows > 0);
  if (!engine_can_upload(&engine->config, first_row, rows, why)) return false;
  assert_int_equal(device.windows++ % 2, buffer);
  assert_int_equal(device.rows[buffer], 0);
  device.first[buffer] = first_row;
  device.rows[buffer] = rows;
  device.sent[buffer] = device.buffer[buffer];
  memset(&device.buffer[buffer], POISON, sizeof(Buffer));
  return true;
}

static const EngineOperations operations = {.staging = device_staging, .upload = device_upload};

static void open_device(uint64_t dataset_rows, int inputs) {
  memset(&device, 0, sizeof device);
  device.engine.call = &operations;
  device.engine.config = (EngineConfig){.network = {.layers = 1, .size = {inputs, 10}},
                                        .training.batch = STAGING_ROWS / 2,
                                        .dataset_rows = dataset_rows,
                                        .staging_rows = STAGING_ROWS};
  device.fails = NO_CALL;
}

static unsigned expected_pixel(uint64_t row, unsigned i) {
  return (unsigned)((row * 31 + i * 101) % 256);
}

/* Writes a file of `rows` rows followed by the text `after`. Opens the file. */
static DatasetReader *open_rows(uint64_t rows, const char *after) {
  FILE *file = folder_create(path);
  for (uint64_t r = 0; r < rows; r++) {
    fprintf(file, "%u", (unsigned)(r * 7 % 10));
    for (unsigned i = 0; i < INPUTS; i++) fprintf(file, ",%u", expected_pixel(r, i));
    fputc('\n', file);
  }
  fprintf(file, "%s", after);
  close_file(file);
  return open_reader(2, 0);
}

/* Loads all rows, copies both buffers, and closes the reader. */
static bool feed(Loader *loader) {
  bool good;
  loader->engine = &device.engine;
  while ((good = loader_next(loader, &error)) && loader->rows > 0) {
  }
  copy(0);
  copy(1);
  dataset_close(loader->reader);
  return good;
}

/* The dataset must get every row. A staging buffer has 8 rows, and files have 1 to 163 rows. With
   `ring`, the dataset holds only 16 rows, so only the last buffer's rows are checked. */
TEST(test_every_row_arrives) {
  enum { FIRST = 11, RING = 2 * STAGING_ROWS };
  for (int ring = 0; ring < 2; ring++)
    foreach (rows, VALUES(uint64_t, 1, 7, 8, 9, 16, 17, 56, 163)) {
      open_device(FIRST + (ring ? RING : *rows), INPUTS); /* room for exactly these rows */
      Loader loader = {.reader = open_rows(*rows, ""), .start = FIRST, .ring = ring};
      OK(feed(&loader));
      assert_int_equal(loader.done, *rows);
      assert_int_equal(device.windows, (*rows + STAGING_ROWS - 1) / STAGING_ROWS);
      for (uint64_t r = ring ? (*rows - 1) / STAGING_ROWS * STAGING_ROWS : 0; r < *rows; r++) {
        const uint64_t row = FIRST + (ring ? r % RING : r);
        assert_int_equal(device.labels[row], r * 7 % 10);
        for (unsigned i = 0; i < INPUTS; i++)
          assert_int_equal(device.pixels[row * INPUTS + i], expected_pixel(r, i));
      }
    }
}

/* Loading fails if rows have a wrong size, a row is bad, the dataset is full, or a call fails. */
TEST(test_failures) {
  static const struct {
    uint64_t dataset_rows, first_row, file_rows;
    const char *after; /* text after the file's rows */
    Call fails;
    unsigned good_calls;
    uint64_t rows; /* number of rows loaded before the failure */
    const char *message, *calls;
    int inputs; /* number of inputs of the network */
  } cases[] = {
      {18, 3, 16, "", NO_CALL, 0, 8, "outside the engine's dataset of 18 rows", "0u1u", 5},
      {400, 0, 1, "", NO_CALL, 0, 0, "5 pixels a row, but the network takes 6", "", 6},
      {400, 0, 40, "", CALL_STAGING, 2, 16, "call 0 failed", "0u1u0", 5},
      {400, 0, 40, "", CALL_UPLOAD, 2, 16, "call 1 failed", "0u1u0u", 5},
      {400, 0, 21, "1,x\n", NO_CALL, 0, 16, "x.csv, line 22, column 2: 'x'", "0u1u0", 5},
  };
  foreach (c, cases) {
    open_device(c->dataset_rows, c->inputs);
    device.fails = c->fails;
    device.good_calls = c->good_calls;
    Loader loader = {.reader = open_rows(c->file_rows, c->after), .start = c->first_row};
    FAILS(feed(&loader), c->message);
    assert_int_equal(loader.done, c->rows);
    assert_string_equal(device.calls, c->calls);
  }
}
