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

typedef struct {
  Rendezvous *at;
  int number, meetings, answers;
  pthread_t thread;
} Member;

/* Meets, and leaves after a number of rounds of its own. */
static void *take_part(void *member) {
  Member *m = member;
  for (int i = 0; i < m->meetings; i++) m->answers += rendezvous_meet(m->at, &m->number) > 0;
  rendezvous_leave(m->at);
  return NULL;
}

TEST(test_all_meet_until_they_leave) {
  Acts acts = {0};
  Rendezvous at;
  Member members[THREADS];
  int added = 0;
  rendezvous_open(&at, add_all, &acts);
  for (int i = 0; i < THREADS; i++) {
    members[i] = (Member){.at = &at, .number = 1 + i, .meetings = i * ROUNDS / THREADS};
    added += members[i].number * members[i].meetings;
    rendezvous_enter(&at);
  }
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&members[i].thread, NULL, take_part, &members[i]), 0);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(members[i].thread, NULL);
    assert_int_equal(members[i].answers, members[i].meetings);
  }
  assert_int_equal(acts.rounds, members[THREADS - 1].meetings); /* nobody went ahead */
  assert_int_equal(acts.most, THREADS - 1);
  assert_int_equal(acts.added, added);
  rendezvous_close(&at);
}
