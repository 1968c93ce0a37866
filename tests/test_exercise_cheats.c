/* Functions that pretend and functions that crash, as a grader meets them. None of
   them may get points that it has not earned, or take another function's score with it. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exercise/exercise.h"
#include "support/test.h"

#ifdef HAVE_CUDA
#include "kernels.h"
#include "support/cuda.h"
#endif

static ExerciseScore score_of(const ExerciseFunctions *functions, ExerciseTask task,
                              uint64_t seed) {
  ExerciseBackend backend = exercise_host(functions);
  ExerciseScore score;
  backend.timed_rows = 2;
  exercise_score_one(&backend, task, seed, EXERCISE_SHAPES, &score);
  return score;
}

static void assert_not_fused(const ExerciseFunctions *functions, ExerciseTask task) {
  const ExerciseScore score = score_of(functions, task, 1);
  if (!score.right) fail_msg("%s", score.wrong);
  assert_false(score.fused);
  assert_true(exercise_points(&score).fused == 0);
}

static void assert_wrong(const ExerciseFunctions *functions, ExerciseTask task, uint64_t seed,
                         const char *text) {
  const ExerciseScore score = score_of(functions, task, seed);
  assert_false(score.right);
  assert_true(exercise_points(&score).all == 0);
  if (!strstr(score.wrong, text)) fail_msg("'%s' is not in '%s'", text, score.wrong);
}

/* ---- ten cheats ----------------------------------------------------------------------------- */

/* 1. It says once that a pass begins, and makes three. */
static int passes_declared;

static void one_declaration(const float *x, const float *w, const float *b, float *z, float *y,
                            int rows, int in, int out, bool relu) {
  passes_declared = 1;
  exercise_functions.forward(x, w, b, z, y, rows, in, out, relu);
}

TEST(a_declaration_counts_nothing) {
  ExerciseFunctions f = exercise_functions;
  f.forward = one_declaration;
  assert_not_fused(&f, TASK_FORWARD);
}

/* 2. It keeps what it has worked out once and gives it again. */
static float kept[4096 * 256];
static int kept_rows;

static void from_memory(const float *x, const float *w, const float *b, float *z, float *y,
                        int rows, int in, int out, bool relu) {
  const size_t bytes = (size_t)rows * (size_t)out * sizeof *y;
  if (rows != kept_rows) {
    exercise_functions.forward(x, w, b, z, y, rows, in, out, relu);
    memcpy(kept, y, bytes);
    kept_rows = rows;
  } else {
    memcpy(y, kept, bytes);
  }
}

TEST(a_cached_answer_is_wrong) {
  ExerciseFunctions f = exercise_functions;
  f.forward = from_memory;
  kept_rows = 0;
  assert_not_fused(&f, TASK_FORWARD); /* each call has a process that has never called it */
  kept_rows = 4096;                   /* if there were one that has */
  assert_wrong(&f, TASK_FORWARD, 1, "when it was counted");
}

/* 3. It knows the values of seed 1, and what becomes of them. */
static ExerciseProblem known[EXERCISE_SHAPES];

static void answers_of_seed_1(const float *z, float *largest, float *sum, float *p, int rows,
                              int classes) {
  (void)largest;
  (void)sum;
  for (int i = 0; i < EXERCISE_SHAPES; i++) {
    const ExerciseArray *given = &known[i].array[ARRAY_Z], *answer = &known[i].array[ARRAY_P];
    if (given->rows != rows || given->columns != classes) continue;
    if (memcmp(given->given, z, exercise_bytes(given)) != 0) continue;
    for (size_t k = 0; k < exercise_bytes(answer) / sizeof *p; k++)
      p[k] = (float)answer->expected[k];
  }
}

TEST(a_known_seed_helps_with_no_other) {
  ExerciseFunctions f = exercise_functions;
  f.softmax = answers_of_seed_1;
  for (int i = 0; i < EXERCISE_SHAPES; i++)
    known[i] = exercise_problem(TASK_SOFTMAX, exercise_shape(1, i, false),
                                1000 + (uint64_t)(10 * i) + (uint64_t)(i % 2), true);
  assert_wrong(&f, TASK_SOFTMAX, 1, "when it was counted"); /* all hidden shapes were right */
  assert_wrong(&f, TASK_SOFTMAX, 2, "1 of 1 is wrong: never written; rows 1, in 1, out 1");
  for (int i = 0; i < EXERCISE_SHAPES; i++) exercise_free(&known[i]);
}

/* 4. Three loops, one function; and what looks like it and is one pass. */
static void loops_in_one_function(const float *z, float *largest, float *sum, float *p, int rows,
                                  int classes) {
  const size_t width = (size_t)classes;
  for (int r = 0; r < rows; r++) {
    largest[r] = -INFINITY;
    for (size_t c = 0; c < width; c++) largest[r] = fmaxf(largest[r], z[(size_t)r * width + c]);
  }
  for (int r = 0; r < rows; r++) {
    sum[r] = 0;
    for (size_t c = 0; c < width; c++) sum[r] += expf(z[(size_t)r * width + c] - largest[r]);
  }
  for (int r = 0; r < rows; r++)
    for (size_t c = 0; c < width; c++)
      p[(size_t)r * width + c] = (z[(size_t)r * width + c] - largest[r]) - logf(sum[r]);
}

static void loops_row_by_row(const float *z, float *largest, float *sum, float *p, int rows,
                             int classes) {
  for (int r = 0; r < rows; r++) {
    const size_t row = (size_t)r * (size_t)classes;
    loops_in_one_function(z + row, largest, sum, p + row, 1, classes);
  }
}

TEST(loops_in_one_function_are_passes) {
  ExerciseFunctions f = exercise_functions;
  f.softmax = loops_in_one_function;
  assert_not_fused(&f, TASK_SOFTMAX);
  f.softmax = loops_row_by_row; /* the row is in the cache */
  const ExerciseScore score = score_of(&f, TASK_SOFTMAX, 1);
  assert_true(score.right && score.fused);
}

/* 5. It does nothing where it is large, which is where it is measured. */
static void small_ones_only(const float *x, const float *w, const float *b, float *z, float *y,
                            int rows, int in, int out, bool relu) {
  if (rows <= 700) exercise_functions.forward(x, w, b, z, y, rows, in, out, relu);
}

TEST(skipped_work_is_found) {
  ExerciseFunctions f = exercise_functions;
  f.forward = small_ones_only;
  assert_wrong(&f, TASK_FORWARD, 1, "1048576 of 1048576 are wrong: all, never written; rows 4096");
}

/* 6. It leaves out what a grader that looks here and there would not see. */
static void begin_and_end(const ExerciseLayer *layer, ExerciseRule rule, float *dw, float *db) {
  const size_t count = (size_t)layer->in * (size_t)layer->out;
  float *w = malloc(count * sizeof *w);
  assert_non_null(w);
  memcpy(w, layer->w, count * sizeof *w);
  exercise_functions.update(layer, rule, dw, db);
  if (count > 200000) layer->w[count / 2] = w[count / 2];
  free(w);
}

TEST(every_element_is_checked) {
  ExerciseFunctions f = exercise_functions;
  f.update = begin_and_end;
  assert_wrong(&f, TASK_UPDATE, 1, "; 1 of ");
}

/* On a GPU, where a function is timed with a learning rate of 0: one that leaves `spared` alone on
   large problems. The linker sends the grader's calls through here (--wrap in the Makefile). */
#ifdef HAVE_CUDA

enum { LARGE = 1024 /* rows; hidden shapes have fewer */ };

typedef enum { WEIGHTS, BIASES, NOTHING } Spared;

static Spared spared = NOTHING;

cudaError_t __real_launch_exercise_update(BatchView batch, UpdateRule rule, LayerUpdate layer,
                                          float *d_dw, float *d_db, cudaStream_t stream);
cudaError_t __wrap_launch_exercise_update(BatchView batch, UpdateRule rule, LayerUpdate layer,
                                          float *d_dw, float *d_db, cudaStream_t stream);

cudaError_t __wrap_launch_exercise_update(BatchView batch, UpdateRule rule, LayerUpdate layer,
                                          float *d_dw, float *d_db, cudaStream_t stream) {
  float **d_spared = spared == WEIGHTS ? &layer.d_w : &layer.d_b, *d_other = NULL;
  if (spared != NOTHING && batch.rows >= LARGE) {
    const size_t values = (size_t)layer.out * (size_t)(spared == WEIGHTS ? layer.in : 1);
    CUDA_OK(cudaMalloc((void **)&d_other, values * sizeof **d_spared));
    CUDA_OK(cudaMemcpy(d_other, *d_spared, values * sizeof **d_spared, cudaMemcpyDeviceToDevice));
    *d_spared = d_other;
  }
  const cudaError_t status = __real_launch_exercise_update(batch, rule, layer, d_dw, d_db, stream);
  if (d_other) CUDA_OK(cudaDeviceSynchronize());
  cudaFree(d_other);
  return status;
}

TEST(weights_that_stay_are_found) {
  static const char *const says[] = {[WEIGHTS] = "w (row", [BIASES] = "b (row"};
  ExerciseBackend backend;
  ExerciseScore score;
  Error error;
  needs_gpu();
  OK(exercise_gpu_open(&backend, &error));
  backend.timed_rows = LARGE;
  for (spared = WEIGHTS; spared <= BIASES; spared++) {
    exercise_score_one(&backend, TASK_UPDATE, 1, EXERCISE_SHAPES, &score);
    assert_false(score.right);
    if (!strstr(score.wrong, says[spared]) || !strstr(score.wrong, "as it was timed"))
      fail_msg("'%s' is not in '%s'", says[spared], score.wrong);
  }
  spared = NOTHING;
  exercise_score_one(&backend, TASK_UPDATE, 1, EXERCISE_SHAPES, &score);
  if (!score.right) fail_msg("%s", score.wrong);
  exercise_gpu_close(&backend);
}

#endif

/* 7, 8 and what else can be seen in the object file: tests/scenarios/exercise_kit.sh. */

/* 9. It leaves a process behind, which sleeps, or keeps a processor busy, in the reference's turn.
   Whoever holds the writing end of the pipe is still there. */
static int held[2];

static void leaves_a_process(const float *z, float *largest, float *sum, float *p, int rows,
                             int classes) {
  if (rows == 1 && fork() == 0)
    for (;;) pause();
  exercise_functions.softmax(z, largest, sum, p, rows, classes);
}

TEST(nothing_is_left_running) {
  ExerciseFunctions f = exercise_functions;
  char byte;
  f.softmax = leaves_a_process;
  assert_int_equal(pipe(held), 0);
  assert_true(score_of(&f, TASK_SOFTMAX, 1).right);
  close(held[1]);
  assert_int_equal(read(held[0], &byte, 1), 0); /* would wait for whoever is left */
  close(held[0]);
}

/* 10. NaN is near everything, for a comparison that is written the wrong way round. */
static void only_nan(const float *z, float *largest, float *sum, float *p, int rows, int classes) {
  (void)z;
  (void)largest;
  (void)sum;
  for (size_t i = 0; i < (size_t)rows * (size_t)classes; i++) p[i] = NAN;
}

static void nothing(const float *z, float *largest, float *sum, float *p, int rows, int classes) {
  (void)z, (void)largest, (void)sum, (void)p, (void)rows, (void)classes;
}

TEST(nan_is_never_right) {
  ExerciseFunctions f = exercise_functions;
  f.softmax = only_nan;
  assert_wrong(&f, TASK_SOFTMAX, 1, "got nan; 1 of 1 is wrong; rows 1");
  f.softmax = nothing;
  assert_wrong(&f, TASK_SOFTMAX, 1, "got nan; 1 of 1 is wrong: never written; rows 1");
}

/* It takes a copy where nobody looks, and makes its passes over that. */
static void copy_on_the_stack(const float *z, float *largest, float *sum, float *p, int rows,
                              int classes) {
  const size_t count = (size_t)rows * (size_t)classes;
  float copy[count];
  memcpy(copy, z, sizeof copy);
  exercise_functions.softmax(copy, largest, sum, p, rows, classes);
}

TEST(a_copy_on_the_stack_has_no_room) {
  ExerciseFunctions f = exercise_functions;
  f.softmax = copy_on_the_stack;
  assert_wrong(&f, TASK_SOFTMAX, 1, "it used more than 128 KiB of stack");
}

/* ---- what crashes, hangs and exits ---------------------------------------------------------- */

static void crashes(const float *x, const float *w, const float *b, float *z, float *y, int rows,
                    int in, int out, bool relu) {
  (void)x, (void)w, (void)b, (void)z, (void)y, (void)rows, (void)in, (void)out, (void)relu;
  raise(SIGFPE);
}

static void exits(const float *z, float *largest, float *sum, float *p, int rows, int classes) {
  (void)z, (void)largest, (void)sum, (void)p, (void)rows, (void)classes;
  _exit(0);
}

static void hangs(const float *z, const uint16_t *labels, float *largest, float *sum, float *p,
                  float *dz, float *loss, uint8_t *correct, int rows, int classes) {
  (void)z, (void)labels, (void)largest, (void)sum, (void)p, (void)dz, (void)loss, (void)correct;
  (void)rows, (void)classes;
  for (;;) pause();
}

static volatile int turns;

static void turns_for_ever(const float *z, float *largest, float *sum, float *p, int rows,
                           int classes) {
  (void)z, (void)largest, (void)sum, (void)p, (void)rows, (void)classes;
  for (;;) turns = 0;
}

TEST(an_endless_loop_is_ended) {
  ExerciseFunctions f = exercise_functions;
  f.softmax = turns_for_ever;
  ExerciseBackend backend = exercise_host(&f);
  ExerciseScore score;
  backend.limit = 1;
  exercise_score_one(&backend, TASK_SOFTMAX, 1, 1, &score);
  assert_non_null(strstr(score.wrong, "it had not returned after 1 s; rows 1"));
}

TEST(others_are_still_scored) {
  const ExerciseFunctions f = {crashes, exits, hangs, exercise_functions.update};
  ExerciseBackend backend = exercise_host(&f);
  ExerciseScore scores[TASKS];
  backend.timed_rows = 2;
  exercise_score_one(&backend, TASK_FORWARD, 1, 1, &scores[0]);
  exercise_score_one(&backend, TASK_SOFTMAX, 1, 1, &scores[1]);
  exercise_score_one(&backend, TASK_UPDATE, 1, 1, &scores[3]);
  backend.limit = 0.1; /* it waits for ever */
  exercise_score_one(&backend, TASK_LOSS, 1, 1, &scores[2]);
  assert_non_null(strstr(scores[0].wrong, "it was ended by SIGFPE ("));
  assert_non_null(strstr(scores[1].wrong, "it called exit(0); rows 1"));
  assert_non_null(strstr(scores[2].wrong, "it had not returned after 0.1 s; rows 1"));
  assert_true(scores[3].right);
}

static void reads_behind_x(const float *x, const float *w, const float *b, float *z, float *y,
                           int rows, int in, int out, bool relu) {
  exercise_functions.forward(x, w, b, z, y, rows, in, out, relu);
  if (in > 1) y[0] += x[(size_t)rows * (size_t)in] * 0;
}

static void writes_before_p(const float *z, float *largest, float *sum, float *p, int rows,
                            int classes) {
  exercise_functions.softmax(z, largest, sum, p, rows, classes);
  if (classes > 1) p[-1] = 0;
}

static void writes_to_labels(const float *z, const uint16_t *labels, float *largest, float *sum,
                             float *p, float *dz, float *loss, uint8_t *correct, int rows,
                             int classes) {
  exercise_functions.loss(z, labels, largest, sum, p, dz, loss, correct, rows, classes);
  if (rows > 1) ((uint16_t *)(uintptr_t)labels)[1] = 0; // NOLINT(performance-no-int-to-ptr)
}

// NOLINTNEXTLINE(performance-no-int-to-ptr)
static float *volatile far_away = (float *)(uintptr_t)16;

static void writes_far_away(const ExerciseLayer *layer, ExerciseRule rule, float *dw, float *db) {
  (void)layer, (void)rule, (void)dw, (void)db;
  *far_away = 0;
}

TEST(array_and_index_are_named) {
  const ExerciseFunctions f = {reads_behind_x, writes_before_p, writes_to_labels, writes_far_away};
  ExerciseScore score = score_of(&f, TASK_FORWARD, 1);
  const char *said = strstr(score.wrong, "SIGSEGV (Segmentation fault): it read x[");
  int index, rows, columns, last;
  if (!said) fail_msg("%s", score.wrong);
  assert_int_equal(sscanf(strstr(said, "x["), "x[%d], and x (%d, %d) has elements 0 to %d", &index,
                          &rows, &columns, &last),
                   4);
  assert_true(index == rows * columns && last == index - 1);
  assert_wrong(&f, TASK_SOFTMAX, 1, "it wrote p[-1], and p (");
  assert_wrong(&f, TASK_LOSS, 1, "it wrote labels[1], row 1, column 0, which is const");
  assert_wrong(&f, TASK_UPDATE, 1, "it wrote memory that is in no array");
}

/* The same on a GPU's terms: a process with all that is done about a function. */
static bool opens(ExerciseBackend *backend, Error *error) {
  (void)error;
  backend->open = NULL;
  return true;
}

static bool run_crashes(const ExerciseBackend *backend, ExerciseProblem *problem, int *launches,
                        Error *error) {
  (void)backend, (void)launches, (void)error;
  if (problem->task == TASK_SOFTMAX) abort();
  if (problem->task == TASK_LOSS)
    for (;;) pause();
  return error_set(error, "the device is gone");
}

TEST(a_process_for_each_function) {
  const ExerciseBackend backend = {.open = opens, .limit = 0.5, .run = run_crashes};
  ExerciseScore scores[TASKS];
  exercise_score(&backend, 1, 1, scores);
  assert_non_null(strstr(scores[TASK_FORWARD].wrong, "the device is gone"));
  assert_non_null(strstr(scores[TASK_SOFTMAX].wrong, "it was ended by SIGABRT"));
  assert_non_null(strstr(scores[TASK_LOSS].wrong, "it had not returned after 0.5 s"));
  assert_non_null(strstr(scores[TASK_UPDATE].wrong, "the device is gone"));
}

/* ---- what is said of wrong results ---------------------------------------------------------- */

/* y of (4, 40) as expected but for what `spoil` does. */
static void assert_pattern(void (*spoil)(float *y), const char *text) {
  const ExerciseShape shape = {.rows = 4, .in = 1, .out = 40, .end = 4};
  ExerciseProblem p = exercise_problem(TASK_FORWARD, shape, 1, true);
  ExerciseArray *a = &p.array[ARRAY_Y];
  char said[512];
  a->got = malloc(exercise_bytes(a));
  assert_non_null(a->got);
  float *y = a->got;
  for (int i = 0; i < 160; i++) y[i] = (float)a->expected[i];
  assert_true(exercise_judge(&p, "float64", said, sizeof said));
  spoil(y);
  assert_false(exercise_judge(&p, "float64", said, sizeof said));
  if (!strstr(said, text)) fail_msg("'%s' is not in '%s'", text, said);
  assert_non_null(strstr(said, "(float64, within "));
  exercise_free(&p);
}

static void spoil_all(float *y) {
  for (int i = 0; i < 160; i++) y[i] += 1;
}
static void spoil_row(float *y) {
  for (int i = 0; i < 40; i++) y[80 + i] += 1;
}
static void spoil_last_rows(float *y) {
  for (int i = 80; i < 160; i++) y[i] += 1;
}
static void spoil_column(float *y) {
  for (int r = 0; r < 4; r++) y[40 * r + 7] += 1;
}
static void spoil_last_column(float *y) {
  for (int r = 0; r < 4; r++) y[40 * r + 39] += 1;
}
static void spoil_every_32nd(float *y) {
  for (int i = 5; i < 160; i += 32) y[i] += 1;
}
static void spoil_here_and_there(float *y) {
  y[3] += 1;
  y[50] = NAN;
}
static void leave_the_last_row(float *y) {
  exercise_poison((uint8_t *)(y + 120), 0, 160);
}

TEST(patterns_are_named) {
  assert_pattern(spoil_all, "; 160 of 160 are wrong: all");
  assert_pattern(spoil_row, "; 40 of 160 are wrong: row 2");
  assert_pattern(spoil_last_rows, "; 80 of 160 are wrong: rows 2 to 3");
  assert_pattern(spoil_column, "; 4 of 160 are wrong: column 7");
  assert_pattern(spoil_last_column, "; 4 of 160 are wrong: the last column");
  assert_pattern(spoil_every_32nd, "; 5 of 160 are wrong: every 32nd");
  assert_pattern(spoil_here_and_there, "; 2 of 160 are wrong");
  assert_pattern(leave_the_last_row, "; 40 of 160 are wrong: the last row, never written");
}

static void wrong_softmax(const float *z, float *largest, float *sum, float *p, int rows,
                          int classes) {
  exercise_functions.softmax(z, largest, sum, p, rows, classes);
  for (size_t i = 0; i < (size_t)rows * (size_t)classes; i++) p[i] -= 0.5f;
}

/* Function 3 of another softmax, which is function 2. */
static void loss_of_wrong_softmax(const float *z, const uint16_t *labels, float *largest,
                                  float *sum, float *p, float *dz, float *loss, uint8_t *correct,
                                  int rows, int classes) {
  wrong_softmax(z, largest, sum, p, rows, classes);
  for (int r = 0; r < rows; r++) {
    const size_t row = (size_t)r * (size_t)classes;
    int best = 0;
    for (int c = 1; c < classes; c++)
      if (p[row + (size_t)c] > p[row + (size_t)best]) best = c;
    loss[r] = -p[row + labels[r]];
    correct[r] = best == labels[r];
    for (int c = 0; c < classes; c++)
      dz[row + (size_t)c] =
          (expf(p[row + (size_t)c]) - (c == labels[r] ? 1.0f : 0.0f)) / (float)rows;
  }
}

static void loss_with_its_own_mistake(const float *z, const uint16_t *labels, float *largest,
                                      float *sum, float *p, float *dz, float *loss,
                                      uint8_t *correct, int rows, int classes) {
  loss_of_wrong_softmax(z, labels, largest, sum, p, dz, loss, correct, rows, classes);
  loss[0] += 1;
}

static const char *wrong_of_loss(ExerciseFunctions f, ExerciseScore scores[TASKS]) {
  ExerciseBackend backend = exercise_host(&f);
  backend.timed_rows = 2;
  exercise_score(&backend, 1, 3, scores);
  return scores[TASK_LOSS].wrong;
}

TEST(a_mistake_of_another_function_is_said_to_be_that) {
  static const char blames[] = "it is right for the p that function 2 gives it";
  ExerciseScore scores[TASKS];
  ExerciseFunctions f = exercise_functions;
  f.softmax = wrong_softmax;
  f.loss = loss_of_wrong_softmax;
  assert_non_null(strstr(wrong_of_loss(f, scores), blames));
  assert_false(scores[TASK_LOSS].right);
  f.loss = loss_with_its_own_mistake;
  assert_null(strstr(wrong_of_loss(f, scores), blames));
  f.softmax = exercise_functions.softmax; /* it has a softmax of its own */
  f.loss = loss_of_wrong_softmax;
  assert_null(strstr(wrong_of_loss(f, scores), blames));
  assert_false(scores[TASK_LOSS].right);
}
