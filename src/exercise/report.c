/* The scorecard, and the points. */
#include "exercise/exercise.h"

#include <math.h>

#include "base/table.h"

const char *const exercise_names[TASKS] = {"1 forward", "2 softmax", "3 loss", "4 update"};

enum { MAX_COLUMNS = 11 }; /* on a GPU, beside two others */

/* Right or wrong, launches, bytes, milliseconds, percent. */
static void make_row(const ExerciseBackend *b, ExerciseTask task, const ExerciseScore *s,
                     TableCell cells[MAX_COLUMNS]) {
  const ExerciseShape shape = exercise_counted_shape(b, task);
  int n = 0;
  cells[n++] = table_cell("%s", exercise_names[task]);
  cells[n++] = table_cell("%s", s->right ? "right" : "wrong");
  cells[n++] = table_cell("%s", s->fused ? "yes" : "no");
  if (b->on_gpu) cells[n++] = table_cell("%d", s->launches);
  cells[n++] = table_number(exercise_least_bytes(task, shape) / 1e6);
  cells[n++] = table_number(exercise_unfused_bytes(task, shape) / 1e6);
  if (b->on_gpu) {
    cells[n++] = table_number(s->dram_bytes / 1e6);
    cells[n++] = table_number(s->cache_bytes / 1e6);
  } else {
    cells[n++] = table_number(s->moved_bytes / 1e6);
  }
  cells[n++] = table_number(s->seconds[0] * 1e3);
  if (b->rival[0]) cells[n++] = table_number(s->seconds[1] * 1e3);
  if (b->rival[1])
    cells[n++] = isfinite(s->seconds[2]) ? table_cell("%.0f%%", 100 * s->seconds[2] / s->seconds[0])
                                         : table_cell("-");
}

static void print_table(FILE *file, const ExerciseBackend *b, const ExerciseScore scores[TASKS]) {
  char rival[32], percent[32];
  TableColumn columns[MAX_COLUMNS] = {{"function", 9, true}, {"result", 6, true}};
  int n = 2;
  columns[n++] = (TableColumn){"fused", 5, true};
  if (b->on_gpu) columns[n++] = (TableColumn){"kernels", 7, false};
  columns[n++] = (TableColumn){"least MB", 8, false};
  columns[n++] = (TableColumn){"unfused MB", 10, false};
  columns[n++] = (TableColumn){b->on_gpu ? "DRAM MB" : "moved MB", 8, false};
  if (b->on_gpu) columns[n++] = (TableColumn){"L2 MB", 7, false};
  columns[n++] = (TableColumn){"ms", 7, false};
  snprintf(rival, sizeof rival, "%s ms", b->rival[0] ? b->rival[0] : "");
  snprintf(percent, sizeof percent, "%% of %s", b->rival[1] ? b->rival[1] : "");
  if (b->rival[0]) columns[n++] = (TableColumn){rival, 8, false};
  if (b->rival[1]) columns[n++] = (TableColumn){percent, 10, false};
  const Table table = {file, false, columns, n};
  table_begin(&table);
  for (int task = 0; task < TASKS; task++) {
    TableCell cells[MAX_COLUMNS];
    make_row(b, (ExerciseTask)task, &scores[task], cells);
    table_row(&table, cells);
  }
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
