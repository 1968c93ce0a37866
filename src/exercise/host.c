/* Runs src/exercise/exercise_cpu.c, beside the same functions as they were at the start. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/stats.h"
#include "exercise/exercise.h"

static int passes;

void exercise_pass(void) {
  passes++;
}

/* ---- the start -------------------------------------------------------------------------------
   What a student's functions are timed against, pass by pass. */

static size_t at(int row, int column, int columns) {
  return (size_t)row * (size_t)columns + (size_t)column;
}

static void start_forward(const float *x, const float *w, const float *b, float *z, float *y,
                          int rows, int in, int out, bool relu) {
  const size_t count = at(rows, 0, out);
  float *sums = relu ? z : y;
  for (int r = 0; r < rows; r++)
    for (int o = 0; o < out; o++) {
      float sum = 0.0f;
      for (int k = 0; k < in; k++) sum += x[at(r, k, in)] * w[at(o, k, in)];
      sums[at(r, o, out)] = sum;
    }
  for (int r = 0; r < rows; r++)
    for (int o = 0; o < out; o++) sums[at(r, o, out)] += b[o];
  for (size_t i = 0; relu && i < count; i++) y[i] = z[i] < 0 ? 0 : z[i];
}

static void start_softmax(const float *z, float *largest, float *sum, float *p, int rows,
                          int classes) {
  for (int r = 0; r < rows; r++) {
    largest[r] = -INFINITY;
    for (int c = 0; c < classes; c++)
      if (z[at(r, c, classes)] > largest[r]) largest[r] = z[at(r, c, classes)];
  }
  for (int r = 0; r < rows; r++) {
    sum[r] = 0.0f;
    for (int c = 0; c < classes; c++) sum[r] += expf(z[at(r, c, classes)] - largest[r]);
  }
  for (int r = 0; r < rows; r++) {
    const float log_sum = logf(sum[r]);
    for (int c = 0; c < classes; c++)
      p[at(r, c, classes)] = (z[at(r, c, classes)] - largest[r]) - log_sum;
  }
}

static void start_loss(const float *z, const uint16_t *labels, float *largest, float *sum, float *p,
                       float *dz, float *loss, uint8_t *correct, int rows, int classes) {
  start_softmax(z, largest, sum, p, rows, classes);
  for (int r = 0; r < rows; r++) {
    int best = 0;
    for (int c = 1; c < classes; c++)
      if (p[at(r, c, classes)] > p[at(r, best, classes)]) best = c;
    loss[r] = -p[at(r, labels[r], classes)];
    correct[r] = best == labels[r];
  }
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < classes; c++)
      dz[at(r, c, classes)] =
          (expf(p[at(r, c, classes)]) - (c == labels[r] ? 1.0f : 0.0f)) / (float)rows;
}

static void start_rule(float *w, float *v, const float *g, size_t count, ExerciseRule rule) {
  for (size_t i = 0; i < count; i++) {
    v[i] = rule.momentum * v[i] + (g[i] + rule.weight_decay * w[i]);
    w[i] -= rule.rate * v[i];
  }
}

static void start_update(const ExerciseLayer *layer, ExerciseRule rule, float *dw, float *db) {
  const int rows = layer->rows, in = layer->in, out = layer->out;
  const float *x = layer->x, *dz = layer->dz;
  for (int o = 0; o < out; o++) {
    for (int i = 0; i < in; i++) dw[at(o, i, in)] = 0.0f;
    for (int r = 0; r < rows; r++)
      for (int i = 0; i < in; i++) dw[at(o, i, in)] += dz[at(r, o, out)] * x[at(r, i, in)];
  }
  for (int o = 0; o < out; o++) db[o] = 0.0f;
  for (int r = 0; r < rows; r++)
    for (int o = 0; o < out; o++) db[o] += dz[at(r, o, out)];
  start_rule(layer->w, layer->vw, dw, at(out, 0, in), rule);
  rule.weight_decay = 0.0f;
  start_rule(layer->b, layer->vb, db, (size_t)out, rule);
}

static const ExerciseFunctions start = {start_forward, start_softmax, start_loss, start_update};
const ExerciseFunctions exercise_functions = {exercise_forward, exercise_softmax, exercise_loss,
                                              exercise_update};

/* ---- the backend ---------------------------------------------------------------------------- */

/* a: the arrays of the problem, by name. */
static void call(const ExerciseFunctions *f, const ExerciseProblem *p, void *const a[ARRAYS]) {
  const ExerciseShape *s = &p->shape;
  const ExerciseLayer layer = {.x = a[ARRAY_X],
                               .dz = a[ARRAY_DZ],
                               .w = a[ARRAY_W],
                               .b = a[ARRAY_B],
                               .vw = a[ARRAY_VW],
                               .vb = a[ARRAY_VB],
                               .rows = s->rows,
                               .in = s->in,
                               .out = s->out};
  switch (p->task) {
  case TASK_FORWARD:
    f->forward(a[ARRAY_X], a[ARRAY_W], a[ARRAY_B], a[ARRAY_Z], a[ARRAY_Y], s->rows, s->in, s->out,
               s->relu);
    break;
  case TASK_SOFTMAX:
    f->softmax(a[ARRAY_Z], a[ARRAY_LARGEST], a[ARRAY_SUM], a[ARRAY_P], s->rows, s->out);
    break;
  case TASK_LOSS:
    f->loss(a[ARRAY_Z], a[ARRAY_LABELS], a[ARRAY_LARGEST], a[ARRAY_SUM], a[ARRAY_P], a[ARRAY_DZ],
            a[ARRAY_LOSS], a[ARRAY_CORRECT], s->rows, s->out);
    break;
  default:
    f->update(&layer, p->rule, a[ARRAY_DW], a[ARRAY_DB]);
  }
}

static void wrap_all(const ExerciseProblem *p, uint8_t *block[ARRAYS], void *array[ARRAYS]) {
  for (int name = 0; name < ARRAYS; name++) {
    block[name] = p->array[name].rows ? exercise_wrap(&p->array[name]) : NULL;
    array[name] = block[name] ? block[name] + EXERCISE_GUARD : NULL;
  }
}

static bool run(void *context, ExerciseProblem *problem, int *launches, Error *error) {
  (void)error;
  uint8_t *block[ARRAYS];
  void *array[ARRAYS];
  wrap_all(problem, block, array);
  passes = 0;
  call(context, problem, array);
  *launches = passes;
  for (int name = 0; name < ARRAYS; name++)
    if (block[name]) exercise_unwrap(problem, name, block[name]);
  return true;
}

enum { SAMPLES = 9 };

/* Medians of the function and of the start, in turns: what disturbs one disturbs the other. A first
   turn does not count. */
static void time_both(const ExerciseFunctions *f, const ExerciseProblem *p,
                      void *const array[ARRAYS], double seconds[1 + RIVALS]) {
  const ExerciseFunctions *const both[] = {f, &start};
  double samples[2][SAMPLES];
  for (int i = -1; i < SAMPLES; i++)
    for (int k = 0; k < 2; k++) {
      const double began = seconds_now();
      call(both[k], p, array);
      if (i >= 0) samples[k][i] = seconds_now() - began;
    }
  for (int k = 0; k < 2; k++) seconds[k] = stats_of(samples[k], SAMPLES).median;
}

static bool time_problem(void *context, const ExerciseProblem *problem, int *launches,
                         double seconds[1 + RIVALS], Error *error) {
  (void)error;
  uint8_t *block[ARRAYS];
  void *array[ARRAYS];
  wrap_all(problem, block, array);
  passes = 0;
  call(context, problem, array);
  *launches = passes;
  if (seconds) time_both(context, problem, array, seconds);
  for (int name = 0; name < ARRAYS; name++) free(block[name]);
  return true;
}

ExerciseBackend exercise_host(const ExerciseFunctions *functions) {
  return (ExerciseBackend){.device = "CPU",
                           .launches = "passes",
                           .rival = {"start"},
                           .timed_rows = 256,
                           .context = (void *)functions,
                           .run = run,
                           .time = time_problem};
}
