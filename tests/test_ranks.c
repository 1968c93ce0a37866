/* Tests the communication between ranks. tests/scenarios/ranks.sh calls mpirun, which starts
   several processes of this program; each is a rank. The scenario also tests whole runs. */
#include "ranks/ranks.h"
#include "support/test.h"

#define CHECK(call)                                                                                \
  if (!(call)) fprintf(stderr, "line %d: %s\n", __LINE__, #call), _exit(3)

/* Returns element i of a rank's array. The order of ranks decides how their sum is rounded. */
static float part(int rank, size_t i) {
  return (rank == 0 ? 16777216.0f : 1.0f) + (float)(i % 7) * (float)rank;
}

static int work_as_rank(void) {
  enum { MOST = 1000 };
  CHECK(ranks_launched());
  Ranks *ranks = ranks_open(&error);
  CHECK(ranks != NULL);
  const int number = ranks_number(ranks), count = ranks_count(ranks);
  CHECK(ranks_number_on_host(ranks) == number);
  CHECK(ranks_hosts(ranks) == 1);
  foreach (slice, VALUES(size_t, 1, 2, 5, 250)) {
    float values[MOST];
    const size_t floats = *slice * (size_t)count;
    for (size_t i = 0; i < floats; i++) values[i] = part(number, i);
    CHECK(ranks_sum_floats(ranks, values, floats, &error));
    for (size_t i = 0; i < floats; i++) {
      float sum = part(0, i);
      for (int r = 1; r < count; r++) sum += part(r, i);
      CHECK(values[i] == sum);
    }
  }
  double sums[2] = {number, 1};
  CHECK(ranks_sum_doubles(ranks, sums, 2, &error));
  CHECK(2 * sums[0] == count * (count - 1) && sums[1] == count);
  int told = number + 7;
  CHECK(ranks_broadcast(ranks, &told, sizeof told, &error) && told == 7);
  int *all = ranks_gather(ranks, &number, sizeof number, &error);
  for (int r = 0; r < count; r++) CHECK(all && all[r] == r);
  free(all);
  ranks_close(ranks);
  return 0;
}

TEST(no_ranks_say_the_same) {
  double sum = 3;
  const int mine = 4;
  assert_false(ranks_launched());
  assert_int_equal(ranks_number(NULL), 0);
  assert_int_equal(ranks_count(NULL), 1);
  assert_true(ranks_sum_doubles(NULL, &sum, 1, &error) && sum == 3);
  int *copy = ranks_gather(NULL, &mine, sizeof mine, &error);
  assert_true(copy && *copy == 4);
  free(copy);
  assert_true(ranks_go_on(NULL, 0, &error));
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "worker") == 0) return work_as_rank();
  return tests_run();
}
