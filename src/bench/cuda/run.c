/* Measures where the time of a whole run goes, in child processes: a context is created once in a
   process, and so is only ever timed in a new one. */
#include "bench/bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "measure/cuda/rung.h"
#include "train/trainer.h"

typedef struct {
  const char *train, *test;
  int epochs;
} Plan;

/* A child's result, which comes back through a pipe. */
typedef struct {
  bool good;
  Error error;
  BenchRun run;
} Answer;

typedef void Work(const Plan *plan, Answer *answer);

/* Runs `work` in a child and waits until that is gone; *seconds is how long all of it took. */
static bool in_child(Work *work, const Plan *plan, Answer *answer, double *seconds, Error *error) {
  int ends[2];
  if (pipe(ends) != 0) return error_set(error, "cannot make a pipe: %s", strerror(errno));
  fflush(NULL); /* or the child would write what is buffered once more */
  const double start = seconds_now();
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    work(plan, answer);
    const bool told = write(ends[1], answer, sizeof *answer) == (ssize_t)sizeof *answer;
    exit(told ? 0 : 1);
  }
  close(ends[1]);
  const bool heard = child > 0 && read(ends[0], answer, sizeof *answer) == (ssize_t)sizeof *answer;
  close(ends[0]);
  if (child > 0) waitpid(child, NULL, 0);
  *seconds = seconds_now() - start;
  if (!heard) return error_set(error, "a process for a whole run could not be started or crashed");
  if (!answer->good) return error_set(error, "%s", answer->error.text);
  return true;
}

static void create_context(const Plan *plan, Answer *answer) {
  (void)plan;
  const double start = seconds_now();
  answer->good = gpu_start(&answer->error);
  answer->run.context = seconds_now() - start;
}

static Engine *open_engine(void *context, const EngineConfig *config, Error *error) {
  (void)context;
  return engine_cuda_open(config, error);
}

static bool on_epoch(void *context, const EpochResult *result, Error *error) {
  (void)error;
  BenchRun *run = context;
  *(result->epoch == 1 ? &run->first_epoch : &run->epochs) += result->train_seconds;
  run->evaluation += result->test_seconds;
  return true;
}

static void run_trainer(const Plan *plan, Answer *answer) {
  BenchRun *run = &answer->run;
  const TrainerEvents events = {.epoch = on_epoch, .context = run};
  RunTotals totals;
  const TrainerConfig config = {.train = plan->train,
                                .test = plan->test,
                                .training = {.batch = 64, .seed = 1, .rule.momentum = 0.9f},
                                .hidden = {2, {300, 100}},
                                .classes = 10,
                                .epochs = plan->epochs,
                                .schedule = {SCHEDULE_STEP, 0.05f, 0.8f, plan->epochs, 0}};
  const double start = seconds_now();
  Trainer *trainer = trainer_open(&config, open_engine, NULL, &answer->error);
  const double opened = seconds_now();
  answer->good = trainer && trainer_run(trainer, &events, &totals, &answer->error) == TRAINER_DONE;
  const double done = seconds_now();
  trainer_close(trainer);
  run->open = opened - start;
  run->close = seconds_now() - done;
  run->test_file = done - opened - run->first_epoch - run->epochs - run->evaluation;
}

bool bench_run(const char *train, const char *test, int epochs, BenchRun *run, Error *error) {
  const Plan plan = {train, test, epochs};
  Answer context = {0}, whole = {0};
  double seconds = 0;
  if (!in_child(create_context, &plan, &context, &seconds, error) ||
      !in_child(run_trainer, &plan, &whole, &seconds, error))
    return false;
  *run = whole.run;
  run->total = seconds;
  run->context = context.run.context;
  run->count = epochs;
  return true;
}
