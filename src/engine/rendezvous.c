#include "engine/rendezvous.h"

void rendezvous_open(Rendezvous *r, int (*act)(void *, void *const *, int), void *context) {
  *r = (Rendezvous){.act = act, .context = context};
  pthread_mutex_init(&r->mutex, NULL);
  pthread_cond_init(&r->acted, NULL);
}

void rendezvous_close(Rendezvous *r) {
  pthread_cond_destroy(&r->acted);
  pthread_mutex_destroy(&r->mutex);
}

/* Ends the round if nobody is missing. */
static void act_if_all_are_here(Rendezvous *r) {
  if (r->count == 0 || r->count < r->members) return;
  r->answer = r->act(r->context, r->brought, r->count);
  r->count = 0;
  r->round++;
  pthread_cond_broadcast(&r->acted);
}

void rendezvous_attend(Rendezvous *r, bool attends) {
  pthread_mutex_lock(&r->mutex);
  r->members += attends ? 1 : -1;
  act_if_all_are_here(r);
  pthread_mutex_unlock(&r->mutex);
}

int rendezvous_meet(Rendezvous *r, void *brings) {
  pthread_mutex_lock(&r->mutex);
  const unsigned long round = r->round;
  r->brought[r->count++] = brings;
  act_if_all_are_here(r);
  while (r->round == round) pthread_cond_wait(&r->acted, &r->mutex);
  const int answer = r->answer; /* the next round waits for this one, too */
  pthread_mutex_unlock(&r->mutex);
  return answer;
}
