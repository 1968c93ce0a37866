/* Threads that the system refuses are an error, and OpenMP does not end the process. */
#include <omp.h>
#include <sys/resource.h>

#include "base/threads.h"
#include "engine/engine.h"
#include "support/process.h"

enum { USER = 54321 }; /* an ordinary one, who has no process but the child: root has no limit */

/* Starts a team of so many threads, in a child. */
typedef bool Start(int count, Error *why);

static bool start_team(int count, Error *why) {
  int running = 0;
  if (!threads_start(&count, why)) return false;
#pragma omp parallel num_threads(count) reduction(+ : running)
  running++;
  return running == count;
}

static bool open_engine(int count, Error *why) {
  const int hidden[] = {4};
  EngineConfig config = {
      .training = {.batch = 8, .threads = count}, .dataset_rows = 16, .staging_rows = 8};
  if (!network_init(&config.network, 2, hidden, 1, 2, why)) return false;
  Engine *engine = engine_cpu_open(&config, why);
  if (!engine) return false;
  StagingBuffer buffer;
  EngineSums sums;
  engine->call->staging(engine, 0, &buffer, why);
  memset(buffer.labels, 0, 8 * sizeof *buffer.labels);
  const bool good = engine->call->upload(engine, 0, 0, 8, why) &&
                    engine_evaluate(engine, 0, 8, why) &&
                    engine->call->collect(engine, &sums, why) && sums.rows == 8;
  engine->call->close(engine);
  return good;
}

typedef struct {
  Start *team;
  int count, limit; /* threads; processes and threads that are allowed */
} Allowed;

/* Returns 0 if the team runs, 1 if it cannot. */
static int start(void *allowed, Error *why) {
  const Allowed *a = allowed;
  const struct rlimit processes = {(rlim_t)a->limit, (rlim_t)a->limit};
  if (setrlimit(RLIMIT_NPROC, &processes) != 0 || (getuid() == 0 && setuid(USER) != 0)) return 9;
  return !a->team(a->count, why);
}

/* The limit allows just enough, many times: threads that end must not count any more. */
TEST(test_limit) {
  Allowed enough[] = {{start_team, 5, 5}, {open_engine, 5, 5}};
  if (getuid() != 0) skip_because("there is no telling how many processes this user has");
  for (int i = 0; i < 20; i++) {
    const Ended ended = process_do(start, &enough[i % 2]);
    if (ended.status != 0) fail_msg("status %d: %s", ended.status, ended.error.text);
  }
}

/* One thread needs no other. The sentence is the engine's, not one of OpenMP's, which would end the
   process. */
TEST(test_too_few) {
  Allowed cases[] = {{start_team, 5, 4},
                     {start_team, 2, 1},
                     {open_engine, 4, 1},
                     {start_team, 1, 1},
                     {open_engine, 1, 1}};
  for (size_t i = 0; i < LENGTH(cases); i++) {
    const int count = cases[i].count, limit = cases[i].limit;
    if (limit > 1 && getuid() != 0) continue; /* this user has other processes */
    const Ended ended = process_do(start, &cases[i]);
    assert_int_equal(ended.status, count > limit);
    const char *expected = text_printf("%d threads cannot be had, only %d (Resource temporarily "
                                       "unavailable): try --threads %d",
                                       count, limit, limit);
    if (ended.status) assert_string_equal(ended.error.text, expected);
  }
}
