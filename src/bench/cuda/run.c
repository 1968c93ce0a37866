/* Measures where the time of a whole run goes, in child processes: a context is created once in a
   process, and so is only ever timed in a new one. */
#include "bench/bench.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "measure/cuda/rung.h"
#include "train/trainer.h"

/* A child's work and its result, which comes back through a pipe. */
typedef struct {
  const char *train, *test;
  bool good;
  Error error;
  BenchRun run;
} Child;

/* Calls `work` in a child and waits until that is gone; *seconds is how long all of it took. */
static bool in_child(void (*work)(Child *child), Child *child, double *seconds, Error *error) {
  int ends[2];
  if (pipe(ends) != 0) return error_set(error, "cannot make a pipe: %s", strerror(errno));
  fflush(NULL); /* or the child would write what is buffered once more */
  const double start = seconds_now();
  const pid_t process = fork();
  if (process == 0) {
    close(ends[0]);
    work(child);
    exit(write(ends[1], child, sizeof *child) == (ssize_t)sizeof *child ? 0 : 1);
  }
  close(ends[1]);
  const bool heard = process > 0 && read(ends[0], child, sizeof *child) == (ssize_t)sizeof *child;
  close(ends[0]);
  if (process > 0) waitpid(process, NULL, 0);
  *seconds = seconds_now() - start;
  if (!heard) return error_set(error, "a process for a whole run could not be started or crashed");
  return child->good || error_set(error, "%s", child->error.text);
}

static void create_context(Child *child) {
  const double start = seconds_now();
  child->good = gpu_start(&child->error);
  child->run.context = seconds_now() - start;
}

static bool on_epoch(void *context, const EpochResult *result, Error *error) {
  (void)error;
  BenchRun *run = context;
  *(result->epoch == 1 ? &run->first_epoch : &run->epochs) += result->train_seconds;
  run->evaluation += result->test_seconds;
  return true;
}

static void run_trainer(Child *child) {
  BenchRun *run = &child->run;
  const TrainerEvents events = {.epoch = on_epoch, .context = run};
  Device device = {.choice = DEVICE_CUDA};
  const TrainerConfig config = {.train = child->train,
                                .test = child->test,
                                .training = {.hidden = {2, {300, 100}},
                                             .classes = 10,
                                             .epochs = run->count,
                                             .schedule = {SCHEDULE_STEP, 0.05f, 0.8f, 0},
                                             .batch = 64,
                                             .rule.momentum = 0.9f,
                                             .seed = 1}};
  const double start = seconds_now();
  Trainer *trainer = trainer_open(&config, device_open, &device, &child->error);
  const double opened = seconds_now();
  child->good = trainer && trainer_run(trainer, &events, &child->error) == TRAINER_DONE;
  const double done = seconds_now();
  trainer_close(trainer);
  run->open = opened - start;
  run->close = seconds_now() - done;
  run->test_file = done - opened - run->first_epoch - run->epochs - run->evaluation;
}

bool bench_run(const char *train, const char *test, int epochs, BenchRun *run, Error *error) {
  Child child = {.train = train, .test = test, .run.count = epochs};
  double seconds;
  const bool good = in_child(create_context, &child, &seconds, error) &&
                    in_child(run_trainer, &child, &child.run.total, error);
  *run = child.run;
  return good;
}
