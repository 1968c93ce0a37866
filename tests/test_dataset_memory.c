/* A small archive of rows without end: what is parsed ahead of its reader leaves memory for others.
 */
#define _DEFAULT_SOURCE /* wait4 */
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/csv.h"

enum { MB = 1 << 20, MEMBERS = 400, ROWS = MB / 4 }; /* of a member */

/* Rows of two columns, 400 MB of text in members of 1 MB that are all the same. */
static int make_archive(void **state) {
  csv_open(state);
  Text member = {0};
  char *text = repeat_row(ROWS);
  append_member(&member, text, 4 * ROWS);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  for (int i = 0; i < MEMBERS; i++) fwrite(member.text, 1, member.length, file);
  assert_int_equal(fclose(file), 0);
  free(text);
  free(member.text);
  return 0;
}

TESTS_WITH(make_archive, csv_close);

/* With 128 MB of memory, 64 MB of rows wait and no more. The reader then knows that there are more
   rows, and all that wait can be read. */
TEST(test_half_of_the_memory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  print_message("a sanitizer's shadow is larger than any limit of memory\n");
  skip();
#endif
  enum { MEMORY = 128 * MB };
  struct rusage usage;
  int status;
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    Error error;
    const struct rlimit limit = {MEMORY, MEMORY};
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(9);
    DatasetReader *reader =
        dataset_open(&(DatasetConfig){.path = path, .classes = 10, .threads = 1}, &error);
    if (!reader) _exit(8);
    const uint64_t most = (uint64_t)MEMBERS * ROWS;
    _exit(dataset_max_rows(reader, most) == most + 1 ? 0 : 1);
  }
  assert_int_equal(wait4(child, &status, 0, &usage), child);
  assert_int_equal(status, 0);
  print_message("%ld MB\n", usage.ru_maxrss / 1024);
  assert_in_range(usage.ru_maxrss / 1024, 32, 80);
}
