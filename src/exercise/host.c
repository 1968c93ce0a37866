/* Runs src/exercise/exercise_cpu.c, beside the same functions as they were at the start and as we
   have fused them. Each call is made in a process of its own, on arrays that it shares with this
   one: here nothing has happened but that the arrays are other ones, and what they must be is only
   then worked out. So nobody finds the answers, and no call leaves anything for the next. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "exercise/apart.h"
#include "exercise/exercise.h"
#include "exercise/fence.h"

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

/* ---- calling -------------------------------------------------------------------------------- */

/* a: the arrays of the problem, by name. */
static void call(const ExerciseFunctions *f, const ExerciseProblem *p, const Fence a[ARRAYS]) {
  const ExerciseShape *s = &p->shape;
#define FLOATS(name) ((float *)(void *)a[name].start)
  const ExerciseLayer layer = {.x = FLOATS(ARRAY_X),
                               .dz = FLOATS(ARRAY_DZ),
                               .w = FLOATS(ARRAY_W),
                               .b = FLOATS(ARRAY_B),
                               .vw = FLOATS(ARRAY_VW),
                               .vb = FLOATS(ARRAY_VB),
                               .rows = s->rows,
                               .in = s->in,
                               .out = s->out};
  switch (p->task) {
  case TASK_FORWARD:
    f->forward(FLOATS(ARRAY_X), FLOATS(ARRAY_W), FLOATS(ARRAY_B), FLOATS(ARRAY_Z), FLOATS(ARRAY_Y),
               s->rows, s->in, s->out, s->relu);
    break;
  case TASK_SOFTMAX:
    f->softmax(FLOATS(ARRAY_Z), FLOATS(ARRAY_LARGEST), FLOATS(ARRAY_SUM), FLOATS(ARRAY_P), s->rows,
               s->out);
    break;
  case TASK_LOSS:
    f->loss(FLOATS(ARRAY_Z), (const uint16_t *)(const void *)a[ARRAY_LABELS].start,
            FLOATS(ARRAY_LARGEST), FLOATS(ARRAY_SUM), FLOATS(ARRAY_P), FLOATS(ARRAY_DZ),
            FLOATS(ARRAY_LOSS), a[ARRAY_CORRECT].start, s->rows, s->out);
    break;
  default:
    f->update(&layer, p->rule, FLOATS(ARRAY_DW), FLOATS(ARRAY_DB));
  }
#undef FLOATS
}

/* A call and the process that it is made in. */
typedef struct {
  const ExerciseFunctions *functions;
  const ExerciseProblem *problem;
  Fence fence[ARRAYS];
  double most;         /* bytes to count, 0: none */
  FenceReport *report; /* shared */
} Call;

static void call_function(void *context) {
  const Call *c = context;
  call(c->functions, c->problem, c->fence);
}

static void call_in_fences(void *context) {
  Call *c = context;
  fence_call(c->fence, ARRAYS, c->most, c->report, call_function, c);
}

/* Most shapes end where a page ends, every fourth begins where one begins: what is beyond either
   end of an array is found sooner or later. Where bytes are counted, rows begin where pages begin.
 */
static bool open_fences(Call *c, const ExerciseProblem *p) {
  const bool at_end = c->most == 0 && p->shape.logits % 4 != 3;
  for (int name = 0; name < ARRAYS; name++) {
    const ExerciseArray *a = &p->array[name];
    if (a->rows == 0 || name == ARRAY_ORDER) continue; /* a row's place is its position here */
    if (!fence_open(&c->fence[name], exercise_bytes(a), exercise_is_constant(p->task, name),
                    at_end))
      return false;
    if (a->given) memcpy(c->fence[name].start, a->given, c->fence[name].bytes);
  }
  return true;
}

/* "it read y[12], and y (3, 4) has elements 0 to 11", or "..., which is const". */
static void describe_element(const ExerciseProblem *p, int name, const char *verb, ptrdiff_t offset,
                             char *text, size_t size) {
  const ExerciseArray *a = &p->array[name];
  const ptrdiff_t width = (ptrdiff_t)a->size, count = (ptrdiff_t)exercise_bytes(a) / width;
  const ptrdiff_t element = (offset - (offset < 0 ? width - 1 : 0)) / width;
  const char *called = exercise_array_name(name);
  if (element < 0 || element >= count)
    snprintf(text, size, "it %s %s[%td], and %s (%d, %d) has elements 0 to %td", verb, called,
             element, called, a->rows, a->columns, count - 1);
  else
    snprintf(text, size, "it %s %s[%td], row %td, column %td, which is const", verb, called,
             element, element / a->columns, element % a->columns);
}

/* Writes what is known of the access that ended the function, after a colon; "" if nothing is. */
static void describe_access(const ExerciseProblem *p, const FenceReport *r, char *text,
                            size_t size) {
  const char *verb = r->written > 0 ? "wrote" : r->written == 0 ? "read" : "touched";
  char what[160] = "";
  if (r->stack)
    snprintf(what, sizeof what, "it used more than %d KiB of stack", FENCE_STACK >> 10);
  else if (r->elsewhere)
    snprintf(what, sizeof what, "it %s memory that is in no array", verb);
  else if (r->array >= 0)
    describe_element(p, r->array, verb, r->offset, what, sizeof what);
  snprintf(text, size, "%s%s", *what ? ": " : "", what);
}

static void take_back(Call *c, ExerciseProblem *p) {
  for (int name = 0; name < ARRAYS; name++) {
    ExerciseArray *a = &p->array[name];
    const Fence *f = &c->fence[name];
    if (!f->pages) continue;
    ptrdiff_t offset;
    if (!*p->complaint && fence_find_write(f, &offset))
      describe_element(p, name, "wrote", offset, p->complaint, sizeof p->complaint);
    if (!a->got) a->got = malloc(f->bytes);
    if (!a->got) abort();
    memcpy(a->got, f->start, f->bytes);
  }
}

/* One call in one process, with what it left as the problem's `got`. */
static bool call_apart(const ExerciseFunctions *functions, ExerciseProblem *p, double most,
                       double limit, FenceReport *report, Error *error) {
  FenceReport *shared = apart_memory(sizeof *shared);
  Call c = {.functions = functions, .problem = p, .most = most, .report = shared};
  Apart apart;
  bool good = shared && open_fences(&c, p);
  if (!good) error_set(error, "no memory for a problem");
  if (good) shared->array = -1;
  good = good && apart_run(call_in_fences, &c, limit, &apart, error);
  if (good) {
    *report = *shared;
    if (report->signal) apart = (Apart){APART_KILLED, report->signal};
    if (apart.end != APART_DONE) {
      char end[96], access[192] = "";
      apart_describe(&apart, limit, end, sizeof end);
      if (apart.end == APART_KILLED) describe_access(p, report, access, sizeof access);
      snprintf(p->complaint, sizeof p->complaint, "%s%s", end, access);
    }
    take_back(&c, p);
  }
  for (int name = 0; name < ARRAYS; name++) fence_close(&c.fence[name]);
  apart_release(shared, sizeof *shared);
  return good;
}

/* ---- the backend ---------------------------------------------------------------------------- */

enum { LIMIT = 20 /* seconds a call: a thousand times what it takes */ };

typedef struct {
  ExerciseTask task;
  ExerciseShape shape;
  double most;
} Errand;

static bool run(const ExerciseBackend *backend, ExerciseProblem *problem, int *launches,
                Error *error) {
  FenceReport report;
  *launches = 0;
  return call_apart(backend->functions, problem, 0, backend->limit, &report, error);
}

/* One call of a new problem; judged if there is a score to tell it to. */
static bool do_errand(const ExerciseBackend *backend, const ExerciseFunctions *functions,
                      Errand errand, uint64_t seed, FenceReport *report, ExerciseScore *score,
                      Error *error) {
  ExerciseProblem p = exercise_problem(errand.task, errand.shape, seed, score != NULL);
  char text[384];
  const bool good = call_apart(functions, &p, errand.most, backend->limit, report, error);
  if (good && score && !exercise_judge(&p, "float64", text, sizeof text)) {
    score->right = false;
    snprintf(score->wrong, sizeof score->wrong, "%s; rows %d, in %d, out %d, %s", text,
             p.shape.rows, p.shape.in, p.shape.out,
             errand.most > 0 ? "when it was counted" : "when it was timed");
  }
  exercise_free(&p);
  return good;
}

static bool count_bytes(const ExerciseBackend *backend, ExerciseTask task, uint64_t seed,
                        ExerciseScore *score, Error *error) {
  const ExerciseShape shape = exercise_counted_shape(backend, task);
  const Errand errand = {task, shape, exercise_counted_bytes(task, shape)};
  FenceReport report;
  if (!do_errand(backend, backend->functions, errand, seed, &report, score, error)) return false;
  if (!score->right) return true;
  score->moved_bytes = report.counted ? report.moved : NAN;
  score->fused = report.moved <= exercise_fused_bytes(task, shape) && report.counted;
  return true;
}

enum { SAMPLES = 4 };

/* The shortest times of the function and of its rivals, in turns: what else the machine does makes
   them longer, and never shorter. Each call has other values, so there is nothing to remember, and
   its result is judged. */
static bool time_all(const ExerciseBackend *backend, ExerciseTask task, uint64_t seed,
                     ExerciseScore *score, Error *error) {
  const ExerciseFunctions *all[] = {backend->functions, &start,
#ifndef STUDENT_KIT
                                    &exercise_fused
#endif
  };
  const int count = (int)(sizeof all / sizeof *all);
  const Errand errand = {task, exercise_timed_shape(backend, task), 0};
  double samples[1 + RIVALS][SAMPLES];
  for (int i = 0; i < SAMPLES; i++)
    for (int k = 0; k < count; k++) {
      FenceReport report;
      if (!do_errand(backend, all[k], errand, seed + (uint64_t)i, &report, k ? NULL : score, error))
        return false;
      if (!score->right) return true;
      samples[k][i] = report.seconds;
    }
  for (int k = 0; k < count; k++) score->seconds[k] = stats_of(samples[k], SAMPLES).low;
  return true;
}

static bool measure(const ExerciseBackend *backend, ExerciseTask task, uint64_t seed, bool timed,
                    ExerciseScore *score, Error *error) {
  return count_bytes(backend, task, seed, score, error) &&
         (!score->right || !timed || time_all(backend, task, seed + 1, score, error));
}

ExerciseBackend exercise_host(const ExerciseFunctions *functions) {
  return (ExerciseBackend){.device = "CPU",
                           .functions = functions,
#ifdef STUDENT_KIT
                           .rival = {"start"},
#else
                           .rival = {"start", "ours"},
#endif
                           .timed_rows = 256,
                           .limit = LIMIT,
                           .run = run,
                           .measure = measure};
}
