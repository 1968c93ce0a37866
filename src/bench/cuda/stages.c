#include "bench/cuda/recording.h"

#include "base/sizes.h"
#include "measure/table.h"

/* The stage that ends with a stamp; NULL: it is the start of a team's step. The first stage of a
   step begins where the last one of the step before ended. */
static const char *const stage_names[EPOCH_STAMPS] = {
    [STAMP_W1_MULTIPLIED] = "Z1 = W1 X", [STAMP_Z1_SENT] = "send Z1",
    [STAMP_PIXELS] = "next pixels",      [STAMP_DZ1_RECEIVED] = "wait for dZ1",
    [STAMP_W1_UPDATED] = "update W1",    [STAMP_H1_SENT] = "wait for dZ1",
    [STAMP_W2_RECEIVED] = "wait for W2", [STAMP_Z2_SENT] = "Z2 = W2 H1",
    [STAMP_Z2_RECEIVED] = "wait for Z2", [STAMP_Z1_RECEIVED] = "wait for Z1",
    [STAMP_DZ2_READY] = "wait for dZ2",  [STAMP_DZ1_SENT] = "dZ1",
    [STAMP_H2_READY] = "wait for H2",    [STAMP_DZ2_SENT] = "softmax, dZ2",
    [STAMP_W3_SENT] = "update W3",       [STAMP_W3_RECEIVED] = "wait for W3",
    [STAMP_H1_RECEIVED] = "wait for H1", [STAMP_DZ2_RECEIVED] = "wait for dZ2",
    [STAMP_P_SENT] = "update W2",
};

static const struct {
  const char *name;
  EpochStamp first, end;
} teams[TRACE_TEAMS] = {[TEAM_ROW] = {"row", STAMP_ROW, STAMP_HEAD},
                        [TEAM_HEAD] = {"head", STAMP_HEAD, STAMP_PATCH},
                        [TEAM_PATCH] = {"patch", STAMP_PATCH, EPOCH_STAMPS},
                        [TEAM_MATRIX] = {"matrix", STAMP_MATRIX, STAMP_ROW}};

/* The mails of a step, within a group unless it is said otherwise. */
static const struct {
  const char *name;
  EpochStamp sent, received;
  bool between_groups; /* the same block of every other group */
  bool later;          /* it is received in the next step */
} mails[] = {
    {"Z1", STAMP_Z1_SENT, STAMP_Z1_RECEIVED, false, false},
    {"Z2", STAMP_Z2_SENT, STAMP_Z2_RECEIVED, true, false},
    {"H1", STAMP_H1_SENT, STAMP_H1_RECEIVED, false, false},
    {"dZ2", STAMP_DZ2_SENT, STAMP_DZ2_RECEIVED, false, false},
    {"dZ1", STAMP_DZ1_SENT, STAMP_DZ1_RECEIVED, false, false},
    {"dZ1", STAMP_DZ1_SENT, STAMP_H1_SENT, false, true},
    {"W2", STAMP_P_SENT, STAMP_W2_RECEIVED, false, true},
};
enum { MAILS = LENGTH(mails) };

/* A block's place: its number among those of its kind, its group, and its number in that. */
typedef struct {
  int number, group, in_group;
} Place;

static Place place_of(const Stages *s, int block) {
  const EpochPlan *p = s->plan;
  const bool rows = block < p->row_blocks;
  const int number = rows ? block : block - p->row_blocks,
            size = (rows ? p->row_blocks : p->blocks - p->row_blocks) / p->groups;
  return (Place){number, number / size, number % size};
}

static TraceTeam team_of(EpochStamp stamp) {
  TraceTeam team = TEAM_ROW;
  while (stamp < teams[team].first || stamp >= teams[team].end) team++;
  return team;
}

/* Returns true if the block's role has such a stage. */
static bool takes(const Stages *s, int block, EpochStamp stamp) {
  return (block < s->plan->row_blocks) == (team_of(stamp) != TEAM_MATRIX);
}

static int track_of(const Stages *s, int block, EpochStamp stamp) {
  return TRACE_TEAM + TRACE_TEAMS * place_of(s, block).number + (int)team_of(stamp);
}

/* When the first block began, on the GPU's clock. */
static uint64_t first_time(const Stages *s) {
  uint64_t first = s->anchor[0].time[0];
  for (int b = 1; b < s->plan->blocks; b++)
    if (s->anchor[b].time[0] < first) first = s->anchor[b].time[0];
  return first;
}

/* Returns when the block took the stamp, in ns of the trace; -1 if it has no such stage. */
static int64_t time_of(const Stages *s, int block, int step, EpochStamp stamp) {
  const EpochAnchor *a = &s->anchor[block];
  const uint64_t clock =
      s->clock[((size_t)block * (size_t)s->steps + (size_t)step) * EPOCH_STAMPS + (size_t)stamp];
  if (clock == 0) return -1;
  const double rate = (double)(a->time[1] - a->time[0]) / (double)(a->clock[1] - a->clock[0]);
  return s->begin + (int64_t)(a->time[0] - first_time(s)) +
         llround((double)(int64_t)(clock - a->clock[0]) * rate);
}

/* ---- slices --------------------------------------------------------------------------------- */

static void add_team(const Stages *s, int block, TraceTeam team, int from, int to) {
  const EpochStamp first = teams[team].first;
  const int track = track_of(s, block, first);
  const Place place = place_of(s, block);
  const ShortText name =
      text_format("group %d, block %02d, %s team", place.group, place.in_group, teams[team].name);
  trace_add_track(s->trace, s->level, track, name.text);
  int64_t start = time_of(s, block, from, first);
  for (int step = from; step < to; step++)
    for (int i = (int)first + 1; i < (int)teams[team].end; i++) {
      const int64_t end = time_of(s, block, step, (EpochStamp)i);
      if (start < 0 || end < 0) continue;
      trace_add_slice(s->trace, s->level, track, step, start, end, stage_names[i]);
      start = end;
    }
}

/* ---- arrows --------------------------------------------------------------------------------- */

/* The block that sent last what `to` received. -1: none did. */
static int last_sender(const Stages *s, int mail, int to, int step, int64_t *sent) {
  int last = -1;
  for (int from = 0; from < s->plan->blocks; from++) {
    const Place a = place_of(s, from), b = place_of(s, to);
    const bool same = a.group == b.group,
               sends = mails[mail].between_groups ? !same && a.in_group == b.in_group : same;
    const int64_t time =
        sends && takes(s, from, mails[mail].sent) ? time_of(s, from, step, mails[mail].sent) : -1;
    if (time < 0 || (last >= 0 && time <= *sent)) continue;
    last = from;
    *sent = time;
  }
  return last;
}

/* Both ends lie a nanosecond before the ends of their slices, and so within them. */
static void add_mail(const Stages *s, int mail, int to, int step) {
  int64_t sent = 0;
  const int64_t received = time_of(s, to, step + mails[mail].later, mails[mail].received);
  const int from = received < 0 ? -1 : last_sender(s, mail, to, step, &sent);
  if (from >= 0 && sent >= received)
    s->trace->backwards++;
  else if (from >= 0)
    trace_add_arrow(s->trace, s->level, track_of(s, from, mails[mail].sent), sent - 1,
                    track_of(s, to, mails[mail].received), received - 1, mails[mail].name);
}

void stages_add(const Stages *s, int from, int to) {
  for (int block = 0; block < s->plan->blocks; block++)
    for (int team = 0; team < TRACE_TEAMS; team++)
      if (takes(s, block, teams[team].first)) add_team(s, block, (TraceTeam)team, from, to);
  for (int mail = 0; mail < MAILS; mail++)
    for (int step = from; step < to - mails[mail].later; step++)
      for (int block = 0; block < s->plan->blocks; block++)
        if (takes(s, block, mails[mail].received)) add_mail(s, mail, block, step);
}

double stages_us(const Stages *s, int from, int to) {
  return 1e-3 * (double)(time_of(s, 0, to, STAMP_ROW) - time_of(s, 0, from, STAMP_ROW)) /
         (to - from);
}
