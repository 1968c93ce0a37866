/* The scorecard, and the points in the format of Gradescope. */
#include "exercise/exercise.h"

#include <math.h>
#include <string.h>

#include "base/sizes.h"
#include "measure/record.h"

/* Returns the function's name in the scorecard's table and in the file for Gradescope. */
static ShortText name_of(const ExerciseScore *s) {
  return text_format("%d %s", exercise_number(s->task), exercise_tasks[s->task].name);
}

/* A scorecard points at functions that are this much better than ours. */
static const double SUSPICIOUS = 1.2;

/* Registers of a multiprocessor. A thread has 255 at most, so blocks of 256 threads always run.
   nvcc keeps the registers of larger blocks low enough only if the kernel has __launch_bounds__. */
enum { REGISTERS = 65536, SAFE_THREADS = 256 };

/* Returns the cost of our function divided by the cost of the student's function, or NAN. On a GPU
   the cost is the time. On the emulator it is EmulatorCounts.sectors + turns or, if that is worse,
   EmulatorCounts.depth beyond PATIENCE times ours: a kernel whose threads own many outputs may be
   deep, but one thread is not a GPU. */
static double share_of(const ExerciseScore *s) {
  enum { PATIENCE = 16 };
  const ExerciseTaskRow *ours = &exercise_tasks[s->task];
  const ExerciseCall *call = &s->call;
  const EmulatorCounts *n = &call->counts;
  if (!s->compares) return NAN;
  if (s->backend->on_gpu) return call->seconds_ours / call->seconds;
  return fmin(ours->cost / (double)(n->sectors + n->turns),
              PATIENCE * ours->depth / (double)n->depth);
}

/* Returns a function's results as a JSON object, for the scorecard's table and for Gradescope. */
static json_t *line_of(const ExerciseScore *s) {
  const ExerciseCall *c = &s->call;
  const EmulatorCounts *n = &c->counts;
  const char *result = s->right ? "right" : "wrong";
  const char *fused = s->fused ? "yes" : "no";
  json_t *line = json_pack("{s:s, s:s, s:s, s:s, s:i, s:f}", "function", name_of(s).text, "result",
                           result, "fused", fused, "wrong", s->wrong, "kernels", c->launches,
                           "least_bytes", exercise_least_bytes(s->task, s->measured));
  const struct {
    const char *key;
    double value;
  } numbers[] = {{"moved_bytes", c->moved_bytes},
                 {"asked_bytes", (double)n->sectors * 32},
                 {"sectors_per_request", (double)n->sectors / (double)n->requests},
                 {"turns_per_request", (double)n->turns / (double)n->least_turns},
                 {"barriers", (double)n->barriers},
                 {"longest_warp_steps", (double)n->depth},
                 {"lanes", 100 * (double)n->lanes / (double)n->slots},
                 {"seconds", c->seconds},
                 {"share_of_ours", s->right ? share_of(s) : NAN}};
  foreach (row, numbers)
    json_object_set_new(line, row->key, isfinite(row->value) ? json_real(row->value) : json_null());
  return line;
}

static void print_table(FILE *file, const ExerciseScore *scores, int count) {
  static const TableColumn columns[] = {
      {"function", true, .key = "function"},
      {"result", true, .key = "result"},
      {"fused", true, .key = "fused"},
      {"kernels", .key = "kernels", .format = "%.0f"},
      {"least MB", .key = "least_bytes", .per = 1e6},
      {"moved MB", .key = "moved_bytes", .per = 1e6},
      {"asked MB", .key = "asked_bytes", .per = 1e6},
      {"sectors", .key = "sectors_per_request"},
      {"turns", .key = "turns_per_request"},
      {"barriers", .key = "barriers", .format = "%.0f"},
      {"lanes %", .key = "lanes"},
      {"ms", .key = "seconds", .per = 1e-3},
      {"% of ours", .key = "share_of_ours", .per = 0.01, .format = "%.0f"}};
  json_t *lines[TASKS];
  for (int i = 0; i < count; i++) lines[i] = line_of(&scores[i]);
  table_print(&(Table){.file = file}, columns, LENGTH(columns),
              &(Lines){(const json_t **)lines, count});
  for (int i = 0; i < count; i++) json_decref(lines[i]);
}

/* Returns the measured shape in words. */
static ShortText shape_of(const ExerciseScore *s) {
  const ExerciseShape m = s->measured;
  if (exercise_tasks[s->task].in == 1) return text_format("%d rows of %d", m.rows, m.out);
  return text_format("%d rows of %d to %d", m.rows, m.in, m.out);
}

ExerciseSum exercise_print(FILE *file, const ExerciseScore *scores, int count) {
  const ExerciseSet *set = exercise_set_of(scores->task);
  const ExerciseScore *end = scores + count;
  ExerciseSum sum = {.of = count};
  fprintf(file, "%s; measured on", scores->backend->device);
  for (const ExerciseScore *s = scores, *next; s < end; s = next) {
    const ShortText shape = shape_of(s);
    for (next = s + 1; next < end && strcmp(shape_of(next).text, shape.text) == 0;) next++;
    fprintf(file, "%s %d", s > scores ? "," : "", exercise_number(s->task));
    if (next > s + 1) fprintf(file, " to %d", exercise_number(next[-1].task));
    fprintf(file, ": %s", shape.text);
  }
  for (const ExerciseScore *s = scores; s < end; s++) sum.right += s->right, sum.fused += s->fused;
  fputs("\n\n", file);
  print_table(file, scores, count);
  if (sum.fused < count) fputc('\n', file);
  for (const ExerciseScore *s = scores; s < end; s++) {
    const int task = exercise_number(s->task);
    if (!s->right)
      fprintf(file, "%d is wrong: %s\n", task, s->wrong);
    else if (!s->fused && !set->graded && s->call.launches == 1)
      fprintf(file, "%d is right, but %s\n", task, s->not_fused);
    else if (!s->fused)
      fprintf(file, "%d is not fused: %s\n", task, s->not_fused);
    if (s->right && share_of(s) > SUSPICIOUS)
      fprintf(file, "%d costs only %.0f%% of our solution: read how it does that\n", task,
              100 / share_of(s));
  }
  for (const ExerciseScore *s = scores; s < end; s++)
    if (s->right && s->call.counts.threads > SAFE_THREADS)
      fprintf(file,
              "%d has blocks of %llu threads: a GPU runs them if the kernel needs at most %llu "
              "registers per thread, which the emulator does not count; nvcc -Xptxas -v does\n",
              exercise_number(s->task), (unsigned long long)s->call.counts.threads,
              REGISTERS / (unsigned long long)s->call.counts.threads / 8 * 8);
  for (const ExerciseScore *s = scores; s < end; s++)
    if (*s->told && (s->right || strchr(s->told, '\n')[1]))
      fprintf(file, "\n%d, %s:\n%s", exercise_number(s->task),
              s->right ? "what costs most" : "what was found", s->told);
  if (sum.fused < count)
    fprintf(file, "\nHints for each function: make %s HINT=1, then HINT=2 and so on.\n",
            set->target);
  fprintf(file, "\n%d of %d right, %d of %d fused\n", sum.right, count, sum.fused, count);
  return sum;
}

ExercisePoints exercise_points(const ExerciseScore *s) {
  ExercisePoints p = {0};
  if (!s->right || s->call.launches >= s->handed_out) return p;
  const double share = fmin(share_of(s), 1);
  p.right = POINTS_RIGHT;
  if (s->fused) p.fused = POINTS_FUSED;
  if (s->fused && isfinite(share)) p.fast = POINTS_FAST * share;
  p.all = p.right + p.fused + p.fast;
  return p;
}

enum { POINTS_MOST = POINTS_RIGHT + POINTS_FUSED + POINTS_FAST };

static double rounded(double points) {
  return round(points * 100) / 100;
}

/* Returns why a function has its points, or that it is wrong. */
static ShortText reason_of(const ExerciseScore *s) {
  const ExercisePoints p = exercise_points(s);
  if (!s->right) return text_format("wrong: %s", s->wrong);
  if (p.right == 0) return text_format("right, and as it is handed out: 0 points");
  return text_format("right: %g of %d; fused: %g of %d; fast: %g of %d", p.right, POINTS_RIGHT,
                     p.fused, POINTS_FUSED, rounded(p.fast), POINTS_FAST);
}

static json_t *test_of(const ExerciseScore *s) {
  return json_pack("{s:s, s:f, s:i, s:s, s:s, s:o}", "name", name_of(s).text, "score",
                   rounded(exercise_points(s).all), "max_score", POINTS_MOST, "status",
                   s->right && s->fused ? "passed" : "failed", "output", reason_of(s).text,
                   "extra_data", line_of(s));
}

/* The format is described at https://gradescope-autograders.readthedocs.io/en/latest/specs/ */
bool exercise_grade(const char *path, uint64_t seed, const ExerciseScore *scores, int count,
                    const char *card, Error *error) {
  json_t *tests = json_array();
  double points = 0;
  for (int t = 0; t < count; t++) {
    json_array_append_new(tests, test_of(&scores[t]));
    points += rounded(exercise_points(&scores[t]).all);
  }
  const ShortText said = text_format("\n--seed %llu\n", (unsigned long long)seed);
  json_t *all =
      json_pack("{s:f, s:s+, s:s, s:s, s:o}", "score", rounded(points), "output", card, said.text,
                "output_format", "text", "visibility", "visible", "tests", tests);
  if (!all) return error_set(error, "no memory for %s", path);
  AtomicFile output;
  bool good = atomic_file_open(&output, path, error);
  if (good) {
    good = json_dumpf(all, output.file, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 ||
           atomic_file_failed(&output, error);
    good = atomic_file_close(&output, good, error);
  }
  json_decref(all);
  return good;
}
