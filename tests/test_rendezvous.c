/* Threads of many networks meet: each round acts once, on all that are there. */
#include "engine/rendezvous.h"
#include "support/test.h"

enum { THREADS = 8, ROUNDS = 200 };

typedef struct {
  int rounds, added, most; /* acts; what was brought to them; by how many at most */
} Acts;

static int add_all(void *context, void *const *brought, int count) {
  Acts *acts = context;
  acts->rounds++;
  if (count > acts->most) acts->most = count;
  for (int i = 0; i < count; i++) acts->added += *(int *)brought[i];
  return acts->rounds;
}

/* Each leaves after a number of rounds of its own. */
TEST(test_all_meet_until_they_leave) {
  Acts acts = {0};
  Rendezvous at;
  int added = 0, answers = 0, meetings = 0, most = 0;
  rendezvous_open(&at, add_all, &acts);
  for (int i = 0; i < THREADS; i++) rendezvous_attend(&at, true);
#pragma omp parallel for num_threads(THREADS) schedule(static, 1) \
    reduction(+ : added, answers, meetings) reduction(max : most)
  for (int i = 0; i < THREADS; i++) {
    int number = 1 + i;
    most = i * ROUNDS / THREADS;
    meetings += most;
    added += number * most;
    for (int m = 0; m < most; m++) answers += rendezvous_meet(&at, &number) > 0;
    rendezvous_attend(&at, false);
  }
  assert_int_equal(answers, meetings);
  assert_int_equal(acts.rounds, most); /* nobody went ahead */
  assert_int_equal(acts.most, THREADS - 1);
  assert_int_equal(acts.added, added);
  rendezvous_close(&at);
}
