/* Threads that do a thing together: each brings its part; once all have, one does it for all. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

enum { RENDEZVOUS_MOST = 64 };

typedef struct {
  /* Does it, with what `count` of them brought, while they wait. Its answer is theirs. */
  int (*act)(void *context, void *const *brought, int count);
  void *context;
  pthread_mutex_t mutex;
  pthread_cond_t acted;
  int members, count; /* who is waited for; who waits */
  void *brought[RENDEZVOUS_MOST];
  unsigned long round;
  int answer; /* of the round before */
} Rendezvous;

void rendezvous_open(Rendezvous *r, int (*act)(void *, void *const *, int), void *context);
void rendezvous_close(Rendezvous *r);

/* Makes the caller one of those who are waited for, RENDEZVOUS_MOST at most, or no longer. Whoever
   leaves may be the one who acts for the others. */
void rendezvous_attend(Rendezvous *r, bool attends);

/* Waits until all have met, and returns what `act` did. */
int rendezvous_meet(Rendezvous *r, void *brings);
