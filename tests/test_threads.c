/* Threads that the system refuses are an error, and OpenMP does not end the process. */
#include <omp.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/threads.h"
#include "engine/engine.h"

#include "support/test.h"

enum { USER = 54321 }; /* an ordinary one, who has no process but the child: root has no limit */

/* Starts a team of so many threads, in a child. */
typedef bool Start(int count, Error *error);

static bool start_team(int count, Error *error) {
  int running = 0;
  if (!threads_start(&count, error)) return false;
#pragma omp parallel num_threads(count) reduction(+ : running)
  running++;
  return running == count;
}

static bool open_engine(int count, Error *error) {
  const int hidden[] = {4};
  EngineConfig config = {
      .training = {.batch = 8, .threads = count}, .dataset_rows = 16, .staging_rows = 8};
  if (!network_init(&config.network, 2, hidden, 1, 2, error)) return false;
  Engine *engine = engine_cpu_open(&config, error);
  if (!engine) return false;
  StagingBuffer buffer;
  EngineSums sums;
  engine->call->staging(engine, 0, &buffer, error);
  memset(buffer.labels, 0, 8 * sizeof *buffer.labels);
  const bool good = engine->call->upload(engine, 0, 0, 8, error) &&
                    engine->call->evaluate(engine, 0, 8, error) &&
                    engine->call->collect(engine, &sums, error) && sums.rows == 8;
  engine->call->close(engine);
  return good;
}

/* Starts a team where `limit` processes and threads are allowed. Returns 0 if it runs, 1 if it
   cannot; its error is written to `text`. */
static int start(Start *team, int count, rlim_t limit, char *text, size_t size) {
  int ends[2], status;
  assert_int_equal(pipe(ends), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    Error error = {.text = ""};
    const struct rlimit processes = {limit, limit};
    if (setrlimit(RLIMIT_NPROC, &processes) != 0 || (getuid() == 0 && setuid(USER) != 0)) _exit(9);
    const bool good = team(count, &error);
    const size_t length = strlen(error.text);
    _exit(write(ends[1], error.text, length) != (ssize_t)length ? 8 : good ? 0 : 1);
  }
  close(ends[1]);
  const ssize_t length = read(ends[0], text, size - 1);
  text[length > 0 ? length : 0] = '\0';
  close(ends[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

/* The limit allows just enough, many times: threads that end must not count any more. */
TEST(test_limit) {
  char text[sizeof(Error)];
  if (getuid() != 0) {
    print_message("there is no telling how many processes this user has\n");
    skip();
  }
  for (int i = 0; i < 20; i++) {
    const int status = start(i % 2 ? start_team : open_engine, 5, 5, text, sizeof text);
    if (status != 0) fail_msg("status %d: %s", status, text);
  }
}

/* One thread needs no other. The sentence is the engine's, not one of OpenMP's, which would end the
   process. */
TEST(test_too_few) {
  static const struct {
    Start *team;
    int count, limit;
  } cases[] = {{start_team, 5, 4},
               {start_team, 2, 1},
               {open_engine, 4, 1},
               {start_team, 1, 1},
               {open_engine, 1, 1}};
  char text[sizeof(Error)], expected[sizeof(Error)];
  foreach (c, cases) {
    const int count = c->count, limit = c->limit;
    if (limit > 1 && getuid() != 0) continue; /* this user has other processes */
    const int status = start(c->team, count, (rlim_t)limit, text, sizeof text);
    assert_int_equal(status, count > limit);
    snprintf(expected, sizeof expected,
             "%d threads cannot be had, only %d (Resource temporarily unavailable): "
             "try --threads %d",
             count, limit, limit);
    if (status) assert_string_equal(text, expected);
  }
}

TEST(test_enough) {
  Error error = {.text = ""};
  for (int count = 1; count < 9; count++) {
    int running = 0;
    if (!threads_start(&count, &error)) fail_msg("%s", error.text);
#pragma omp parallel num_threads(count) reduction(+ : running)
    running++;
    assert_int_equal(running, count);
  }
}
