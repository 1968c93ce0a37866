/* One epoch of ever higher learning rates. */
#include "train/rate_test.h"

#include <math.h>

#include "base/random.h"
#include "base/sizes.h"

static const double LOW = 1e-5, HIGH = 10; /* the first rate, and the last */
static const double BLOWN_UP = 4;          /* times the lowest mean so far: it has diverged */
static const double SLACK = 0.02;          /* of what the loss falls in all */
enum { NEAR = 4 };                         /* losses around one, for a mean */
enum { FEWEST = 20 };                      /* rates; with fewer the curve says nothing */

/* Trains on steps [first, end) at one rate. *loss: the mean over their rows. */
static bool train_at(Engine *engine, TrainRange range, uint64_t first, uint64_t end, double *loss,
                     Error *error) {
  EngineSums sums;
  range.first_step = first;
  range.steps = end - first;
  if (!engine->call->train(engine, &range, error) || !engine->call->collect(engine, &sums, error))
    return false;
  *loss = sums.loss / (double)sums.rows;
  return true;
}

/* The mean of losses first to last, of those that there are. */
static double mean_loss(const RateTest *t, int first, int last) {
  first = max_int(first, 0);
  last = min_int(last, t->count - 1);
  double sum = 0;
  for (int i = first; i <= last; i++) sum += t->loss[i];
  return sum / (last - first + 1);
}

/* Returns the rate behind which the loss falls no more, or not much. */
static double lowest_good_rate(const RateTest *t) {
  double lowest = INFINITY;
  int i = 0;
  for (int k = 0; k < t->count; k++) lowest = fmin(lowest, t->smooth[k]);
  while (t->smooth[i] > lowest + SLACK * fabs(t->smooth[0] - lowest)) i++;
  return t->rate[i];
}

TrainerResult rate_test_run(Trainer *trainer, const TrainerEvents *events, RateTest *test,
                            Error *error) {
  Engine *engine = trainer->engine;
  *test = (RateTest){0};
  const TrainerResult loaded = trainer_load(trainer, events, error);
  if (loaded != TRAINER_DONE) return loaded;
  const uint64_t rows = trainer->train_rows;
  const EngineConfig *config = &engine->config;
  const uint64_t steps = ceil_div(rows, (uint64_t)config->training.batch);
  const int rates = steps < RATES_MOST ? (int)steps : RATES_MOST;
  if (rates < FEWEST) {
    error_set(error,
              "--tune wants at least %d steps, but %llu rows in batches of %d are %llu: "
              "try a smaller --batch",
              FEWEST, (unsigned long long)rows, config->training.batch, (unsigned long long)steps);
    return TRAINER_FAILED;
  }
  const TrainRange range = {
      .rows = rows, .shuffled = true, .key = random_order_key(config->training.seed, 1)};
  double lowest = INFINITY;
  for (int i = 0; i < rates && !test->diverged; i++) {
    double loss;
    TrainRange at = range;
    if (events->stop && events->stop(events->context)) return TRAINER_STOPPED;
    const double rate = LOW * pow(HIGH / LOW, (double)i / (rates - 1));
    const uint64_t end = steps * (uint64_t)(i + 1) / (uint64_t)rates;
    at.learning_rate = (float)rate;
    at.updates = test->steps;
    if (!train_at(engine, at, test->steps, end, &loss, error)) return TRAINER_FAILED;
    test->steps = end;
    test->diverged = !isfinite(loss);
    if (test->diverged) break;
    test->rate[test->count] = rate;
    test->loss[test->count++] = loss;
    const double mean = mean_loss(test, i - NEAR, i); /* of few rows a loss says little */
    test->diverged = i >= NEAR && mean > BLOWN_UP * lowest;
    if (i >= NEAR) lowest = fmin(lowest, mean);
  }
  if (test->count < FEWEST) {
    error_set(error,
              "the loss diverges at learning rates from %g on: are the pixels and labels "
              "of the training file right?",
              LOW);
    return TRAINER_FAILED;
  }
  for (int i = 0; i < test->count; i++)
    test->smooth[i] = mean_loss(test, i - NEAR / 2, i + NEAR / 2);
  test->best = lowest_good_rate(test);
  return TRAINER_DONE;
}
