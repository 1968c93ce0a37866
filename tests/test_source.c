/* Bytes behind a gzip archive's last member. */
#include <unistd.h>

#include "data/source.h"
#include "support/test.h"
#include "support/folder.h"
#include "support/process.h"

static const char rows[] = "1,2\n3,4\n5,6\n";

static char *path;

static int make_folder(void **state) {
  folder_open(state);
  path = folder_path("x.csv");
  return 0;
}

/* `rows` as a gzip member; returns its length. */
static size_t pack(unsigned char *member, size_t size) {
  z_stream stream = {.next_in = (unsigned char *)rows,
                     .avail_in = sizeof rows - 1,
                     .next_out = member,
                     .avail_out = (unsigned)size};
  assert_int_equal(deflateInit2(&stream, 1, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY),
                   Z_OK);
  assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
  deflateEnd(&stream);
  return stream.total_out;
}

/* Writes members, zeros and a last text to the file, reads it in one call and expects the members'
   rows, or this error. */
static void expect(int members, size_t zeros, const char *last, const char *error) {
  unsigned char member[256], *padding = calloc(zeros + 1, 1);
  const size_t length = pack(member, sizeof member);
  FILE *file = fopen(path, "wb");
  assert_true(file && padding);
  for (int i = 0; i < members; i++) fwrite(member, 1, length, file);
  fwrite(padding, 1, zeros, file);
  if (strcmp(last, "member") == 0)
    fwrite(member, 1, length, file);
  else
    fputs(last, file);
  assert_int_equal(fclose(file), 0);
  free(padding);

  char text[256] = "", wanted[256] = "";
  static Source source;
  Error none;
  assert_true(source_open(&source, path, &none));
  const size_t count = source_read(&source, text, sizeof text - 1);
  assert_true(source.ended);
  if (error) {
    assert_non_null(strstr(source.error.text, error));
    assert_int_equal(count, 0);
  } else {
    for (int i = 0; i < members; i++) strcat(wanted, rows);
    assert_string_equal(source.error.text, "");
    assert_string_equal(text, wanted);
  }
  source_close(&source);
}

TESTS_WITH(make_folder, folder_close);

/* A tape's last block, a disk's, and more of them than are read at once. */
TEST(test_zeros_behind_an_archive) {
  static const size_t zeros[] = {0, 1, 17, 512, 10240, SOURCE_INPUT - 40, SOURCE_INPUT, 1 << 20};
  foreach (count, zeros)
    for (int members = 1; members <= 3; members++) expect(members, *count, "", NULL);
}

TEST(test_garbage_behind_an_archive) {
  static const char behind[] = "is a damaged gzip archive: more follows the zeros behind it";
  expect(1, 0, "garbage", "is a damaged gzip archive: incorrect header check");
  expect(2, 1, "x", behind);
  expect(1, 512, "\x1f", behind);
  expect(1, 512, "member", behind);
  expect(1, 3 * SOURCE_INPUT, "garbage", behind);
}

/* An archive comes through a pipe, padded by dd. */
TEST(test_from_a_pipe) {
  char fifo[5000], text[64];
  static Source source;
  Error none;
  snprintf(fifo, sizeof fifo, "%s/fifo", folder);
  assert_int_equal(process_run(text, sizeof text,
                               "cd '%s' && mkfifo fifo && printf '%s' >rows && (gzip <rows | "
                               "dd bs=4096 conv=sync iflag=fullblock of=fifo 2>/dev/null "
                               ">/dev/null &)",
                               folder, "1,2\\n3,4\\n5,6\\n"),
                   0);
  assert_true(source_open(&source, fifo, &none));
  memset(text, 0, sizeof text);
  source_read(&source, text, sizeof text - 1);
  assert_string_equal(source.error.text, "");
  assert_string_equal(text, rows);
  source_close(&source);
}
