/* A small archive of rows without end: what is parsed ahead of its reader leaves memory for others.
 */
#include <sys/resource.h>

#include "support/csv.h"
#include "support/process.h"

enum { MB = 1 << 20, MEMBERS = 400, ROWS = MB / 4 }; /* of a member */

/* Rows of two columns, 400 MB of text in members of 1 MB that are all the same. */
static int make_archive(void **state) {
  folder_enter(state);
  Text member = {0};
  char *text = repeat_row(ROWS);
  append_member(&member, text, 4 * ROWS);
  FILE *file = folder_create(path);
  for (int i = 0; i < MEMBERS; i++) fwrite(member.text, 1, member.length, file);
  close_file(file);
  return 0;
}

TESTS_WITH(make_archive, folder_close);

static int wait_for_rows(void *unused, Error *why) {
  enum { MEMORY = 128 * MB };
  (void)unused;
  const struct rlimit limit = {MEMORY, MEMORY};
  if (setrlimit(RLIMIT_AS, &limit) != 0) return 9;
  DatasetReader *reader = try_reader(1, 0, why);
  const uint64_t most = (uint64_t)MEMBERS * ROWS;
  return !reader || dataset_max_rows(reader, most) != most + 1;
}

/* With 128 MB of memory, 64 MB of rows wait and no more. The reader then knows that there are more
   rows, and all that wait can be read. */
TEST(test_half_of_the_memory) {
  if (SANITIZED) skip_because("a sanitizer's shadow is larger than any limit of memory");
  const Ended ended = process_do(wait_for_rows, NULL);
  assert_int_equal(ended.status, 0);
  print_message("%ld MB\n", ended.kilobytes / 1024);
  assert_in_range(ended.kilobytes / 1024, 32, 80);
}
