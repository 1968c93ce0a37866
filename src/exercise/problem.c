#include "exercise/exercise.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "exercise/reference.h"

/* Each array's name, shape, bytes per value, and role in each task. A shape is two letters: r
   (rows), i (in), o (out), e (end) or 1. A role is c (constant), C (a constant that need not be
   read), g (read and changed), w (written), s (scratch memory) or blank (not used). */
static const struct {
  const char *name, *shape;
  size_t size;
  char role[ALL_TASKS + 1];
} arrays[ARRAYS] = {[ARRAY_X] = {"x", "ri", 4, "c  c     "},
                    [ARRAY_W] = {"w", "oi", 4, "c  g     "},
                    [ARRAY_B] = {"b", "1o", 4, "c  g c   "},
                    [ARRAY_Z] = {"z", "ro", 4, "scc ccccc"},
                    [ARRAY_Y] = {"y", "ro", 4, "w   www w"},
                    [ARRAY_LABELS] = {"labels", "e1", 2, " Cc      "},
                    [ARRAY_ORDER] = {"order", "e1", 4, " CC      "},
                    [ARRAY_LARGEST] = {"largest", "r1", 4, " ss      "},
                    [ARRAY_SUM] = {"sum", "r1", 4, " ss    w "},
                    [ARRAY_P] = {"p", "ro", 4, " ws      "},
                    [ARRAY_DZ] = {"dz", "ro", 4, "  wc     "},
                    [ARRAY_LOSS] = {"loss", "e1", 4, "  w      "},
                    [ARRAY_CORRECT] = {"correct", "e1", 1, "  w      "},
                    [ARRAY_VW] = {"vw", "oi", 4, "   g     "},
                    [ARRAY_VB] = {"vb", "1o", 4, "   g     "},
                    [ARRAY_DW] = {"dw", "oi", 4, "   s     "},
                    [ARRAY_DB] = {"db", "1o", 4, "   s     "}};

/* Returns a random size between half of a limit and the limit. The three sizes of a shape use
   different limits. The largest limit gives sizes above a block's 256 threads. */
static int draw(uint64_t seed, int index, int which) {
  static const int limits[] = {3, 40, 300, 700};
  const int limit = limits[(index + which) % 4], half = limit / 2;
  const RandomWords words = random_words(seed, 0x73697a65u /* "size" */, (uint64_t)index);
  return limit - (int)(words.word[which] % (uint32_t)(limit - half));
}

ExerciseShape exercise_shape(uint64_t seed, int index) {
  ExerciseShape s = {.rows = draw(seed, index, 0),
                     .in = draw(seed, index, 1),
                     .out = draw(seed, index, 2),
                     .relu = index % 3 != 1,
                     .logits = index};
  if (index == 0 || index == 1) s.rows = 1;
  if (index == 0 || index == 2) s.in = 1;
  if (index == 0 || index == 3) s.out = 1;
  if (index == EXERCISE_SHAPES - 1) /* more columns than a block may have threads */
    s.rows = 2, s.in = 3, s.out += 1024;
  const int left[] = {s.rows + 4, 2 * s.rows / 3, s.rows, s.rows + 1, s.rows, 0};
  s.first = 5;
  s.end = s.first + left[index % 6];
  return s;
}

static int side_of(const ExerciseShape *s, char side) {
  return side == 'r'   ? s->rows
         : side == 'i' ? s->in
         : side == 'o' ? s->out
         : side == 'e' ? s->end
                       : 1;
}

/* Fills the array with values uniform in [low, high). */
static float *give(ExerciseArray *a, int name, double low, double high, uint64_t seed) {
  const size_t count = count_of(a);
  float *values = reference_zeros(count, sizeof *values);
  for (size_t i = 0; i < count; i += 4) {
    const RandomWords words = random_words(seed, (uint64_t)name, i);
    for (size_t k = 0; k < 4 && i + k < count; k++)
      values[i + k] = (float)(low + (high - low) * random_unit(words.word[k]));
  }
  return a->given = values;
}

/* Fills the logits with multiples of 2^-10, so that no two logits are almost equal. shape.logits
   selects the range: around 0, negative, huge but close together, huge and far apart, or negative
   and far apart. Each of rows 4, 9, ... has equal logits. In rows 3, 8, ... the first and last
   logits are largest. */
static void give_logits(ExerciseProblem *p, uint64_t seed) {
  static const double range[][2] = {
      {-4, 4}, {-108, -100}, {999992, 1000000}, {-1e6, 1e6}, {-1e6, -1e5}};
  const double *r = range[p->shape.logits % 5];
  ExerciseArray *a = &p->array[ARRAY_Z];
  const size_t classes = (size_t)a->columns;
  float *z = give(a, ARRAY_Z, r[0], r[1], seed);
  for (size_t i = 0; i < count_of(a); i++) {
    const size_t row = i / classes;
    z[i] = row % 5 == 4 ? z[row * classes] : roundf(z[i] * 1024) / 1024;
    if (row % 5 == 3 && (i % classes == 0 || i % classes == classes - 1)) z[i] = (float)r[1];
  }
}

/* Fills `labels` (one per stored row) and `order` (the stored row at each position). */
static void give_labels(ExerciseProblem *p, uint64_t seed) {
  const int end = p->shape.end;
  uint16_t *labels = reference_zeros((size_t)end, sizeof *labels);
  uint32_t *order = reference_zeros((size_t)end, sizeof *order);
  for (uint32_t i = 0; i < (uint32_t)end; i++) {
    const uint64_t word = random_words(seed, ARRAY_LABELS, i).word[0];
    labels[i] = (uint16_t)(word * (uint64_t)p->shape.out >> 32);
    order[i] = p->shape.first > 0 ? random_permute(i, (uint32_t)end, seed) : i;
  }
  /* If a row's first and last logits are equal, its label is the first or the last class. */
  for (int row = 3; row < p->filled; row += row % 5 == 3 ? 1 : 4)
    labels[order[p->shape.first + row]] = (uint16_t)(row / 5 % 2 ? p->shape.out - 1 : 0);
  p->array[ARRAY_LABELS].given = labels;
  p->array[ARRAY_ORDER].given = order;
}

/* The relative error of a float32 operation is at most ROUNDING. So the error of a sum of n
   products, in any order, is at most n ROUNDING times the sum of the products' absolute values. The
   allowed errors below are such bounds. A forgotten term has a far larger effect. */
static const double ROUNDING = 0x1p-24;

/* Returns the given values in float64, or their absolute values if `magnitude`. */
static double *doubles_of(const ExerciseArray *a, bool magnitude) {
  double *values = reference_zeros(count_of(a), sizeof *values);
  reference_to_double(a->given, count_of(a), values);
  for (size_t i = 0; magnitude && i < count_of(a); i++) values[i] = fabs(values[i]);
  return values;
}

static void expect_from(ExerciseArray *a) {
  a->expected = reference_zeros(count_of(a), sizeof *a->expected);
  a->allowed = reference_zeros(count_of(a), sizeof *a->allowed);
}

/* Returns x w^T (rows, out) or, for an update, dz^T x (out, in) in float64. If `magnitude`
   is true, uses the absolute values of x, w and dz. */
static double *product_of(const ExerciseProblem *p, bool magnitude) {
  const ExerciseShape *s = &p->shape;
  const bool update = p->task == TASK_UPDATE;
  double *x = doubles_of(&p->array[ARRAY_X], magnitude);
  double *other = doubles_of(&p->array[update ? ARRAY_DZ : ARRAY_W], magnitude);
  double *product =
      reference_zeros((size_t)s->out * (size_t)(update ? s->in : s->rows), sizeof *product);
  if (update)
    reference_weight_gradient(other, x, s->rows, s->in, s->out, product);
  else
    reference_linear(x, other, NULL, s->rows, s->in, s->out, product);
  free(x);
  free(other);
  return product;
}

/* Computes the expected y = x w^T + b, with ReLU if shape.relu. */
static void expect_forward(ExerciseProblem *p) {
  const ExerciseShape *s = &p->shape;
  ExerciseArray *y = &p->array[ARRAY_Y];
  const float *b = p->array[ARRAY_B].given;
  y->expected = product_of(p, false);
  y->allowed = product_of(p, true);
  for (size_t i = 0; i < count_of(y); i++) {
    const double bias = b[i % (size_t)s->out];
    y->expected[i] = s->relu && y->expected[i] + bias < 0 ? 0 : y->expected[i] + bias;
    y->allowed[i] = (s->in + 4) * ROUNDING * (y->allowed[i] + fabs(bias));
  }
}

/* Returns the column sums (out) of dz or, if `magnitude`, of dz's absolute values. */
static double *bias_gradient_of(const ExerciseProblem *p, bool magnitude) {
  double *dz = doubles_of(&p->array[ARRAY_DZ], magnitude);
  double *db = reference_zeros((size_t)p->shape.out, sizeof *db);
  reference_bias_gradient(dz, p->shape.rows, p->shape.out, db);
  free(dz);
  return db;
}

/* Computes the expected w and v after the update. gradient_of computes the gradient of w. */
static void expect_updated(ExerciseProblem *p, int w_name, int v_name, double decay,
                           double *(*gradient_of)(const ExerciseProblem *, bool)) {
  ExerciseArray *w = &p->array[w_name], *v = &p->array[v_name];
  const double momentum = EXERCISE_MOMENTUM, rate = EXERCISE_RATE;
  const float *old_w = w->given, *old_v = v->given;
  w->expected = doubles_of(w, false), v->expected = doubles_of(v, false);
  w->allowed = reference_zeros(count_of(w), sizeof(double));
  v->allowed = reference_zeros(count_of(w), sizeof(double));
  if (p->filled == 0) return; /* an empty step changes nothing */
  double *g = gradient_of(p, false), *magnitude = gradient_of(p, true);
  reference_update(w->expected, v->expected, g, count_of(w), momentum, decay, rate);
  for (size_t i = 0; i < count_of(w); i++) {
    const double old = fabs((double)old_w[i]),
                 terms = fabs(momentum * old_v[i]) + magnitude[i] + decay * old;
    v->allowed[i] = (p->shape.rows + 8) * ROUNDING * terms;
    w->allowed[i] = rate * v->allowed[i] + 4 * ROUNDING * (old + rate * terms);
  }
  free(g);
  free(magnitude);
}

static void expect_update(ExerciseProblem *p) {
  expect_updated(p, ARRAY_W, ARRAY_VW, p->weight_decay, product_of);
  expect_updated(p, ARRAY_B, ARRAY_VB, 0, bias_gradient_of);
}

/* Returns the allowed error of z - max - log(sum(exp(z - max))), whose exact value is -below. */
static double log_allowed(double below, int classes) {
  return ROUNDING * (4 * below + 4 * (classes + 4));
}

static void expect_softmax(ExerciseProblem *p) {
  const int classes = p->shape.out;
  ExerciseArray *a = &p->array[ARRAY_P];
  double *z = doubles_of(&p->array[ARRAY_Z], false);
  expect_from(a);
  for (int r = 0; r < p->shape.rows; r++) {
    const double *row = z + cell(r, classes, 0);
    double loss; /* the loss if the label is 0 */
    reference_cross_entropy(row, &(uint16_t){0}, 1, classes, &loss);
    for (int c = 0; c < classes; c++) {
      const double below = row[0] - row[c] + loss;
      a->expected[cell(r, classes, c)] = -below;
      a->allowed[cell(r, classes, c)] = log_allowed(below, classes);
    }
  }
  free(z);
}

/* Computes the expected losses and gradient of the step's rows. Other rows have gradient 0. */
static void expect_loss(ExerciseProblem *p) {
  const int classes = p->shape.out;
  ExerciseArray *dz = &p->array[ARRAY_DZ], *loss = &p->array[ARRAY_LOSS];
  ExerciseArray *correct = &p->array[ARRAY_CORRECT];
  const uint16_t *labels = p->array[ARRAY_LABELS].given;
  const uint32_t *order = p->array[ARRAY_ORDER].given;
  double *z = doubles_of(&p->array[ARRAY_Z], false);
  expect_from(dz);
  expect_from(loss);
  expect_from(correct);
  for (int i = 0; i < p->shape.end; i++) /* rows outside of the step stay unwritten */
    loss->allowed[i] = correct->allowed[i] = -1;
  for (int r = 0; r < p->filled; r++) {
    const int at = p->shape.first + r;
    const size_t first = cell(r, classes, 0);
    const uint16_t label = labels[order[at]];
    reference_cross_entropy(z + first, &label, 1, classes, &loss->expected[at]);
    reference_cross_entropy_gradient(z + first, &label, 1, classes, 1.0 / p->filled,
                                     dz->expected + first);
    correct->expected[at] = (double)reference_correct(z + first, &label, 1, classes);
    correct->allowed[at] = 0;
    loss->allowed[at] = log_allowed(loss->expected[at], classes);
    for (int c = 0; c < classes; c++) {
      const double probability = dz->expected[first + (size_t)c] * p->filled + (c == label ? 1 : 0);
      dz->allowed[first + (size_t)c] = ROUNDING * (4 * (classes + 4) * probability + 4) / p->filled;
    }
  }
  free(z);
}

/* Computes the expected y or sum of a warm-up task. */
static void expect_warmup(ExerciseProblem *p) {
  const ExerciseTask task = p->task;
  ExerciseArray *a = &p->array[task == WARMUP_SUM ? ARRAY_SUM : ARRAY_Y];
  const float *z = p->array[ARRAY_Z].given, *b = p->array[ARRAY_B].given;
  const size_t columns = (size_t)p->shape.out;
  expect_from(a);
  for (size_t i = 0; i < (size_t)p->shape.rows * columns; i++) {
    const size_t row = i / columns, column = i % columns;
    const double from = z[task == WARMUP_REVERSE ? (row + 1) * columns - 1 - column : i];
    if (task == WARMUP_SUM) {
      a->expected[row] += from;
      a->allowed[row] += ((double)columns + 4) * ROUNDING * fabs(from);
      continue;
    }
    a->expected[i] = task == WARMUP_MAP ? fmax(from, 0) : b ? from + b[column] : from;
    a->allowed[i] = b ? ROUNDING * (fabs(from) + fabs((double)b[column])) : 0;
  }
}

ExerciseProblem exercise_problem(ExerciseTask task, ExerciseShape shape, uint64_t seed) {
  ExerciseProblem p = {.task = task, .shape = shape};
  const bool has_logits = task == TASK_SOFTMAX || task == TASK_LOSS;
  if (task != TASK_FORWARD && task != TASK_UPDATE) p.shape.in = 1;
  p.filled = task >= TASKS                          ? shape.rows
             : shape.end - shape.first < shape.rows ? shape.end - shape.first
                                                    : shape.rows;
  p.weight_decay = seed % 2 ? 0.01f : 0.0f;
  for (int name = 0; name < ARRAYS; name++) {
    const char role = arrays[name].role[task], *sides = arrays[name].shape;
    ExerciseArray *a = &p.array[name];
    if (role == ' ') continue;
    *a = (ExerciseArray){.name = arrays[name].name,
                         .rows = side_of(&p.shape, sides[0]),
                         .columns = side_of(&p.shape, sides[1]),
                         .size = arrays[name].size};
    if (toupper(role) != 'C' && !(a->got = apart_memory(exercise_bytes(a)))) abort();
    if (strchr("cg", role) && !has_logits) give(a, name, -1, 1, seed);
  }
  if (has_logits) {
    give_logits(&p, seed);
    give_labels(&p, seed + 1); /* our softmax kernel also reads labels */
  }
  float *dz = p.array[ARRAY_DZ].given; /* dz is 0 in rows after the step's last row */
  for (size_t i = (size_t)p.filled * (size_t)shape.out; dz && i < count_of(&p.array[ARRAY_DZ]); i++)
    dz[i] = 0;
  return p;
}

ExerciseProblem exercise_vast_problem(ExerciseTask task) {
  /* An update reads all its rows in each block, so it has few rows and many weights. */
  const bool update = task == TASK_UPDATE;
  const ExerciseShape shape = {.rows = update ? 64 : 250000,
                               .in = update ? 46342 : 8590,
                               .out = update ? 46342 : 8590,
                               .end = update ? 64 : 250000};
  static uint8_t none;
  ExerciseProblem p = {.task = task, .shape = shape, .filled = shape.rows};
  for (int name = 0; name < ARRAYS; name++) {
    const char role = arrays[name].role[task], *sides = arrays[name].shape;
    if (role == ' ') continue;
    p.array[name] = (ExerciseArray){.name = arrays[name].name,
                                    .rows = side_of(&shape, sides[0]),
                                    .columns = side_of(&shape, sides[1]),
                                    .size = arrays[name].size,
                                    .got = toupper(role) == 'C' ? NULL : &none};
  }
  return p;
}

void exercise_expect(ExerciseProblem *problem) {
  static void (*const expect_task[TASKS])(ExerciseProblem *) = {expect_forward, expect_softmax,
                                                                expect_loss, expect_update};
  (problem->task < TASKS ? expect_task[problem->task] : expect_warmup)(problem);
}

void exercise_free(ExerciseProblem *problem) {
  foreach (a, problem->array) {
    apart_release(a->got, exercise_bytes(a));
    free(a->given);
    free(a->expected);
    free(a->allowed);
  }
}

static uint8_t poison_at(size_t i) {
  return i % 4 == 3 ? 0xFF : 0xBF;
}

void exercise_poison(uint8_t *block, size_t count) {
  for (size_t i = 0; i < count; i++) block[i] = poison_at(i);
}

bool exercise_is_poison(const uint8_t *block, size_t from, size_t count) {
  for (size_t i = from; i < from + count; i++)
    if (block[i] != poison_at(i)) return false;
  return true;
}

double exercise_least_bytes(ExerciseTask task, ExerciseShape shape) {
  double bytes = 0;
  shape.end = shape.rows; /* counts only the step's rows, since other rows need not be read */
  foreach (a, arrays) {
    const char role = a->role[task], *sides = a->shape;
    const int times = role == 'g' ? 2 : role == 'c' || role == 'w';
    bytes += (double)a->size * times * side_of(&shape, sides[0]) * side_of(&shape, sides[1]);
  }
  return bytes;
}

static double got_value(const ExerciseArray *a, size_t i) {
  return a->size == 1 ? ((const uint8_t *)a->got)[i] : (double)((const float *)a->got)[i];
}

static bool is_unwritten(const ExerciseArray *a, size_t i) {
  return exercise_is_poison(a->got, i * a->size, a->size);
}

static bool is_right(const ExerciseArray *a, size_t i) {
  if (a->allowed[i] < 0) return is_unwritten(a, i);
  return fabs(got_value(a, i) - a->expected[i]) <= a->allowed[i]; /* false for a NaN */
}

/* Describes the first wrong element, and the number, rows and columns of all wrong elements. */
static ShortText describe(const ExerciseArray *a, size_t first) {
  const size_t columns = (size_t)a->columns;
  const double value = got_value(a, first) + 0.0; /* + 0.0 removes the sign of -0 */
  size_t wrong = 0, unwritten = 0, last_row = 0, left = columns, right = 0;
  for (size_t i = first; i < count_of(a); i++) {
    if (is_right(a, i)) continue;
    const size_t column = i % columns;
    wrong++, unwritten += is_unwritten(a, i);
    last_row = i / columns;
    if (column < left) left = column;
    if (column > right) right = column;
  }
  return text_format(
      "%s (row %zu, column %zu): expected %s, got %s; %zu of %zu wrong, in rows %zu "
      "to %zu, columns %zu to %zu%s",
      a->name, first / columns, first % columns,
      a->allowed[first] < 0
          ? "nothing to be written there"
          : text_format("%.9g (float64, within %.2g)", a->expected[first] + 0.0, a->allowed[first])
                .text,
      isnan(value) ? "nan" : text_format("%.9g", value).text, wrong, count_of(a), first / columns,
      last_row, left, right, unwritten == wrong ? ", never written" : "");
}

/* Describes the first array with a wrong element. Returns "" if all elements are right. */
static ShortText find_wrong(const ExerciseProblem *problem) {
  foreach (a, problem->array)
    for (size_t i = 0; a->expected && i < count_of(a); i++)
      if (!is_right(a, i)) return describe(a, i);
  return (ShortText){""};
}

void exercise_judge(const ExerciseProblem *problem, const ExerciseCall *call, bool measured,
                    ExerciseScore *score) {
  const double least = exercise_least_bytes(problem->task, problem->shape);
  ShortText said = *call->complaint ? text_format("%s", call->complaint) : find_wrong(problem);
  if (!*said.text && isfinite(call->moved_bytes) && problem->filled == problem->shape.rows &&
      call->moved_bytes < least)
    /* To be right, a function must move all input and output bytes. If fewer were counted, it has
       evaded the count. */
    said = text_format("it moved %.0f bytes, fewer than it can", call->moved_bytes);
  /* A sector has 32 bytes. Who asks for less than the results need has accesses that were not
   * counted. */
  if (!*said.text && isfinite(call->moved_bytes) && problem->filled == problem->shape.rows &&
      32 * (double)call->counts.sectors < least)
    said = text_format("it asked for %.0f bytes, fewer than it can",
                       32 * (double)call->counts.sectors);
  if (*said.text)
    snprintf(score->wrong, sizeof score->wrong, "%.690s; rows %d, in %d, out %d%s", said.text,
             problem->shape.rows, problem->shape.in, problem->shape.out,
             measured ? "; as it was measured" : "");
}

ShortText exercise_not_fused(const ExerciseScore *score) {
  /* The student's state, order and labels are not among the least bytes, and small shapes have few
   * bytes. */
  enum { OTHER_BYTES = 4096, FEWEST_AT_WORK = 16 };
  static const double MOST_MOVED = 1.05;
  const ExerciseCall *call = &score->call;
  const double least = exercise_least_bytes(score->task, score->measured);
  if (call->launches != 1)
    return text_format("it launches %d kernels; to begin: make %s ONLY=%d HINT=1", call->launches,
                       score->task < TASKS ? "exercise" : "warmup",
                       score->task < TASKS ? score->task + 1 : score->task - TASKS + 1);
  if (score->task >= TASKS) {
    if (32 * (double)call->counts.sectors < 2 * least) return (ShortText){""};
    return text_format("it asks for more bytes than it needs");
  }
  if (!isfinite(call->moved_bytes)) return (ShortText){""};
  if (call->moved_bytes > MOST_MOVED * least + OTHER_BYTES)
    return text_format(
        "its kernel moves %.2f times the least bytes, so values still go through memory",
        call->moved_bytes / least);
  const double at_work = (double)call->counts.lane_steps / (double)call->counts.depth;
  if (score->compares && at_work < FEWEST_AT_WORK)
    return text_format("on average only %.3g of its threads are at work at a time", at_work);
  return (ShortText){""};
}
