#include "bench/cuda/stages.h"

#include <math.h>

enum { OWNERS = 16 /* blocks of a group that own rows: epoch/layout.cuh */ };

/* The stage that ends with a stamp; NULL: it is the start of a team's step. The first stage of a
   step begins where the last one of the step before ended. */
static const char *const stage_names[EPOCH_STAMPS] = {
    [STAMP_W1_MULTIPLIED] = "Z1 = W1 X",
    [STAMP_Z1_SENT] = "send Z1",
    [STAMP_PIXELS] = "next pixels",
    [STAMP_DZ1_RECEIVED] = "wait for dZ1",
    [STAMP_W1_UPDATED] = "update W1",
    [STAMP_Z1_RECEIVED] = "wait for Z1",
    [STAMP_Z2_SENT] = "Z2 = W2 H1",
    [STAMP_Z2_RECEIVED] = "wait for Z2",
    [STAMP_W3_READY] = "wait for W3",
    [STAMP_SOFTMAX] = "softmax",
    [STAMP_DZ2_SENT] = "dZ2",
    [STAMP_DZ1_SENT] = "dZ1",
    [STAMP_W2_RECEIVED] = "wait for W2",
    [STAMP_EARLY_RECEIVED] = "wait for H1, H2",
    [STAMP_LATE_RECEIVED] = "wait for dZ2, dZ3",
    [STAMP_P_SENT] = "update W2, W3",
    [STAMP_W3_RECEIVED] = "wait for W3",
};

static const struct {
  const char *name;
  EpochStamp first, end;
} teams[TRACE_TEAMS] = {[TEAM_MATRIX] = {"matrix", STAMP_MATRIX, STAMP_ROW},
                        [TEAM_ROW] = {"row", STAMP_ROW, STAMP_PATCH},
                        [TEAM_PATCH] = {"patch", STAMP_PATCH, EPOCH_STAMPS}};

/* Who sends what to whom, within a group unless it is said otherwise. */
static const struct {
  const char *name;
  EpochStamp sent, received;
  bool from_owners, to_owners;
  bool between_groups; /* the same block of every other group */
} mails[] = {
    {"Z1", STAMP_Z1_SENT, STAMP_Z1_RECEIVED, false, true, false},
    {"Z2", STAMP_Z2_SENT, STAMP_Z2_RECEIVED, true, true, true},
    {"H1, H2", STAMP_Z2_RECEIVED, STAMP_EARLY_RECEIVED, true, false, false},
    {"dZ2, dZ3", STAMP_DZ2_SENT, STAMP_LATE_RECEIVED, true, false, false},
    {"dZ1", STAMP_DZ1_SENT, STAMP_DZ1_RECEIVED, true, false, false},
    {"W2", STAMP_P_SENT, STAMP_W2_RECEIVED, false, true, false},
    {"W3", STAMP_P_SENT, STAMP_W3_RECEIVED, false, true, false},
};
enum { MAILS = sizeof mails / sizeof *mails };

static int blocks_per_group(const Stages *s) {
  return s->plan->tiles * s->plan->splits;
}

static int blocks_of(const Stages *s) {
  return s->plan->groups * blocks_per_group(s);
}

static TraceTeam team_of(EpochStamp stamp) {
  return stamp < STAMP_ROW ? TEAM_MATRIX : stamp < STAMP_PATCH ? TEAM_ROW : TEAM_PATCH;
}

static int track_of(int block, EpochStamp stamp) {
  return TRACE_TEAM + TRACE_TEAMS * block + (int)team_of(stamp);
}

static uint64_t first_time(const Stages *s) {
  uint64_t first = s->anchor[0].time[0];
  for (int b = 1; b < blocks_of(s); b++)
    if (s->anchor[b].time[0] < first) first = s->anchor[b].time[0];
  return first;
}

/* When the block took the stamp, ns of the trace; -1: it has no such stage. `zero`: first_time. */
static int64_t time_of(const Stages *s, uint64_t zero, int block, int step, EpochStamp stamp) {
  const EpochAnchor *a = &s->anchor[block];
  const uint64_t clock =
      s->clock[((size_t)block * (size_t)s->steps + (size_t)step) * EPOCH_STAMPS + (size_t)stamp];
  if (clock == 0) return -1;
  const double rate = (double)(a->time[1] - a->time[0]) / (double)(a->clock[1] - a->clock[0]);
  return s->begin + (int64_t)(a->time[0] - zero) +
         llround((double)(int64_t)(clock - a->clock[0]) * rate);
}

/* ---- slices --------------------------------------------------------------------------------- */

static bool add_team(Trace *trace, int level, const Stages *s, int block, TraceTeam team, int from,
                     int to, Error *error) {
  const uint64_t zero = first_time(s);
  const int track = track_of(block, teams[team].first);
  int64_t start = time_of(s, zero, block, from, teams[team].first);
  for (int step = from; step < to; step++)
    for (int i = (int)teams[team].first + 1; i < (int)teams[team].end; i++) {
      const int64_t end = time_of(s, zero, block, step, (EpochStamp)i);
      if (start < 0 || end < 0) continue;
      if (!trace_add_slice(trace, level, track, step, start, end, stage_names[i], error))
        return false;
      start = end;
    }
  return true;
}

static bool add_teams(Trace *trace, int level, const Stages *s, int from, int to, Error *error) {
  for (int block = 0; block < blocks_of(s); block++)
    for (int team = 0; team < TRACE_TEAMS; team++) {
      const int in_group = block % blocks_per_group(s);
      char name[48];
      if (team == TEAM_ROW && in_group >= OWNERS) continue;
      snprintf(name, sizeof name, "group %d, block %02d, %s team", block / blocks_per_group(s),
               in_group, teams[team].name);
      if (!trace_add_track(trace, level, track_of(block, teams[team].first), name, error) ||
          !add_team(trace, level, s, block, (TraceTeam)team, from, to, error))
        return false;
    }
  return true;
}

/* ---- arrows --------------------------------------------------------------------------------- */

/* The block that sent last what `to` received. -1: none did. */
static int last_sender(const Stages *s, uint64_t zero, int mail, int to, int step, int64_t *sent) {
  const int size = blocks_per_group(s);
  int last = -1;
  for (int from = 0; from < blocks_of(s); from++) {
    const bool sends =
        mails[mail].between_groups
            ? from % size == to % size && from != to
            : from / size == to / size && (!mails[mail].from_owners || from % size < OWNERS);
    const int64_t time = sends ? time_of(s, zero, from, step, mails[mail].sent) : -1;
    if (time < 0 || (last >= 0 && time <= *sent)) continue;
    last = from;
    *sent = time;
  }
  return last;
}

/* Both ends lie a nanosecond before the ends of their slices, and so within them. */
static bool add_mail(Trace *trace, int level, const Stages *s, int mail, int to, int step,
                     Error *error) {
  const uint64_t zero = first_time(s);
  int64_t sent = 0;
  const int64_t received = time_of(s, zero, to, step, mails[mail].received);
  const int from = received < 0 ? -1 : last_sender(s, zero, mail, to, step, &sent);
  if (from < 0) return true;
  if (sent >= received) {
    trace->backwards++;
    return true;
  }
  return trace_add_arrow(trace, level, track_of(from, mails[mail].sent), sent - 1,
                         track_of(to, mails[mail].received), received - 1, mails[mail].name, error);
}

bool stages_add(Trace *trace, int level, const Stages *stages, int from, int to, Error *error) {
  if (!add_teams(trace, level, stages, from, to, error)) return false;
  for (int step = from; step < to; step++)
    for (int mail = 0; mail < MAILS; mail++)
      for (int block = 0; block < blocks_of(stages); block++) {
        if (mails[mail].to_owners && block % blocks_per_group(stages) >= OWNERS) continue;
        if (!add_mail(trace, level, stages, mail, block, step, error)) return false;
      }
  return true;
}

double stages_us(const Stages *stages, int from, int to) {
  const uint64_t zero = first_time(stages);
  return 1e-3 *
         (double)(time_of(stages, zero, 0, to, STAMP_MATRIX) -
                  time_of(stages, zero, 0, from, STAMP_MATRIX)) /
         (to - from);
}
