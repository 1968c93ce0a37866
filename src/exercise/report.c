/* The scorecard, and the points. */
#include "exercise/exercise.h"

#include <math.h>

#include "measure/table.h"

const char *const exercise_names[TASKS] = {"1 forward", "2 softmax", "3 loss", "4 update"};

/* ---- the table ------------------------------------------------------------------------------ */

static json_t *number(double value) {
  return isfinite(value) ? json_real(value) : json_null();
}

json_t *exercise_line(const ExerciseBackend *backend, ExerciseTask task, const ExerciseScore *s) {
  const ExerciseShape shape = exercise_counted_shape(backend, task);
  return json_pack("{s:s, s:b, s:b, s:s, s:o, s:o, s:f, s:f, s:o, s:o, s:o, s:o}", "function",
                   exercise_names[task], "right", s->right, "fused", s->right && s->fused, "wrong",
                   s->wrong, "kernels", backend->on_gpu ? json_integer(s->launches) : json_null(),
                   "moved_bytes", number(s->moved_bytes), "least_bytes",
                   exercise_least_bytes(task, shape), "unfused_bytes",
                   exercise_unfused_bytes(task, shape), "dram_bytes", number(s->dram_bytes),
                   "seconds", number(s->seconds[0]), "seconds_unfused", number(s->seconds[1]),
                   "seconds_ours", number(s->seconds[2]));
}

static TableCell result(const TableColumn *column, const json_t *line, const void *scores) {
  (void)column, (void)scores;
  return table_cell(number_of(line, "right") > 0 ? "right" : "wrong");
}

static TableCell is_fused(const TableColumn *column, const json_t *line, const void *scores) {
  (void)column, (void)scores;
  return table_cell(number_of(line, "fused") > 0 ? "yes" : "no");
}

static TableCell percent(const TableColumn *column, const json_t *line, const void *scores) {
  const double share = number_of(line, "seconds_ours") / number_of(line, "seconds");
  (void)column, (void)scores;
  return isfinite(share) ? table_cell("%.0f%%", 100 * share) : table_cell("-");
}

static void print_table(FILE *file, const ExerciseBackend *b, const ExerciseScore scores[TASKS]) {
  const TableCell rival = table_cell("%s ms", b->rival[0] ? b->rival[0] : ""),
                  ours = table_cell("%% of %s", b->rival[1] ? b->rival[1] : "");
  const struct {
    TableColumn column;
    bool shown;
  } all[] = {{{"function", 9, true, .key = "function"}, true},
             {{"result", 6, true, .cell = result}, true},
             {{"fused", 5, true, .cell = is_fused}, true},
             {{"kernels", 7, .key = "kernels", .digits = WHOLE}, b->on_gpu},
             {{"least MB", 8, .key = "least_bytes", .per = 1e6}, true},
             {{"unfused MB", 10, .key = "unfused_bytes", .per = 1e6}, true},
             {{"moved MB", 8, .key = "moved_bytes", .per = 1e6}, !b->on_gpu},
             {{"DRAM MB", 8, .key = "dram_bytes", .per = 1e6}, b->on_gpu},
             {{"L2 MB", 7, .key = "cache_bytes", .per = 1e6}, b->on_gpu},
             {{"ms", 7, .key = "seconds", .per = 1e-3}, true},
             {{rival.text, 8, .key = "seconds_unfused", .per = 1e-3}, b->rival[0]},
             {{ours.text, 10, .cell = percent}, b->rival[1]}};
  TableColumn columns[sizeof all / sizeof *all];
  const json_t *lines[TASKS];
  int count = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i].shown) columns[count++] = all[i].column;
  json_t *list = json_array();
  for (int task = 0; task < TASKS; task++) {
    json_t *line = exercise_line(b, (ExerciseTask)task, &scores[task]);
    record_number(line, "cache_bytes", scores[task].cache_bytes);
    json_array_append_new(list, line);
    lines[task] = line;
  }
  table_print(&(Table){.file = file}, columns, count, &(Lines){lines, TASKS});
  json_decref(list);
}

/* Prints what to do about a function that is right but not fused. */
static void print_unfused(FILE *file, const ExerciseBackend *b, ExerciseTask task,
                          const ExerciseScore *s) {
  const ExerciseShape shape = exercise_counted_shape(b, task);
  if (b->on_gpu)
    fprintf(file, "\n%d is not fused: it launches %d kernels\n", task + 1, s->launches);
  else if (isfinite(s->moved_bytes))
    fprintf(file, "\n%d is not fused: it moves %.3g MB, and one pass at most %.3g MB\n", task + 1,
            s->moved_bytes / 1e6, exercise_fused_bytes(task, shape) / 1e6);
  else
    fprintf(file, "\n%d is not fused: it moves more than %.3g MB, or this processor cannot tell\n",
            task + 1, exercise_counted_bytes(task, shape) / 1e6);
}

ExerciseSum exercise_print(FILE *file, const ExerciseBackend *backend,
                           const ExerciseScore scores[TASKS], const char *counters) {
  ExerciseSum sum = {0, 0};
  fprintf(file, "%s; timed on %d rows, 784 to 300 in 1 and 4, 1000 classes in 2 and 3\n\n",
          backend->device, backend->timed_rows);
  print_table(file, backend, scores);
  for (int task = 0; task < TASKS; task++) {
    const ExerciseScore *s = &scores[task];
    if (!s->right) fprintf(file, "\n%d is wrong: %s\n", task + 1, s->wrong);
    if (s->right && !s->fused) print_unfused(file, backend, (ExerciseTask)task, s);
    sum.right += s->right;
    sum.fused += s->right && s->fused;
  }
  if (backend->on_gpu && counters)
    fprintf(file, "\nDRAM and L2 bytes are not measured: %s\n", counters);
  fprintf(file, "\n%d of %d right, %d of %d fused\n", sum.right, TASKS, sum.fused, TASKS);
  return sum;
}

/* ---- points --------------------------------------------------------------------------------- */

ExercisePoints exercise_points(const ExerciseScore *score) {
  ExercisePoints p = {0};
  if (!score->right) return p;
  const double share = score->seconds[2] / score->seconds[0];
  p.right = POINTS_RIGHT;
  if (score->fused) p.fused = POINTS_FUSED;
  if (isfinite(share)) p.fast = POINTS_FAST * fmin(share, 1);
  p.all = p.right + p.fused + p.fast;
  return p;
}
