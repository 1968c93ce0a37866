#include "exercise/exercise.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"

enum { INPUTS = 784, OUTPUTS = 300, CLASSES = 1000 };

ExerciseShape exercise_timed_shape(const ExerciseBackend *backend, ExerciseTask task) {
  const bool classes = task == TASK_SOFTMAX || task == TASK_LOSS;
  const int rows = backend->timed_rows;
  return (ExerciseShape){.rows = rows,
                         .in = classes ? 1 : INPUTS,
                         .out = classes ? CLASSES : OUTPUTS,
                         .relu = true,
                         .end = rows};
}

/* ---- checking ------------------------------------------------------------------------------- */

/* By the float64 reference and, where there is one, by a library's product. */
static bool judge(const ExerciseBackend *backend, ExerciseProblem *p, char *text, size_t size,
                  Error *error) {
  if (!exercise_judge(p, "float64", text, size)) return true;
  if (!backend->library || (p->task != TASK_FORWARD && p->task != TASK_UPDATE)) return true;
  const ExerciseArray *like = &p->array[p->task == TASK_FORWARD ? ARRAY_Y : ARRAY_W];
  float *product = malloc(exercise_bytes(like));
  if (!product) return error_set(error, "no memory for a product");
  const bool good = backend->library(backend->context, p, product, error);
  if (good) {
    exercise_expect(p, product);
    exercise_judge(p, "cuBLAS", text, size);
  }
  free(product);
  return good;
}

/* On one hidden shape; *score->wrong says what is wrong. False with *error set if nothing can be
   run any more. */
static bool check_shape(const ExerciseBackend *backend, ExerciseTask task, ExerciseShape shape,
                        uint64_t seed, ExerciseScore *score, Error *error) {
  ExerciseProblem p = exercise_problem(task, shape, seed, true);
  char text[384] = "";
  int launches = 0;
  const bool good = backend->run(backend->context, &p, &launches, error) &&
                    judge(backend, &p, text, sizeof text, error);
  if (launches > score->launches) score->launches = launches;
  if (!good || *text) {
    char step[48] = "";
    if (backend->batches) snprintf(step, sizeof step, "; the step has %d of the rows", p.filled);
    snprintf(score->wrong, sizeof score->wrong, "%.380s; rows %d, in %d, out %d%s",
             good ? text : error->text, shape.rows, p.shape.in, p.shape.out, step);
  }
  exercise_free(&p);
  return good;
}

static bool check_task(const ExerciseBackend *backend, ExerciseTask task, uint64_t seed, int shapes,
                       ExerciseScore *score, Error *error) {
  for (int i = 0; i < shapes; i++) {
    const uint64_t values = seed * 1000 + (uint64_t)(10 * i) + (uint64_t)(i % 2);
    const ExerciseShape shape = exercise_shape(seed, i, backend->batches);
    if (!check_shape(backend, task, shape, values, score, error)) return false;
    if (*score->wrong) return true;
  }
  score->right = true;
  return true;
}

static bool time_task(const ExerciseBackend *backend, ExerciseTask task, ExerciseScore *score,
                      Error *error) {
  ExerciseProblem p =
      exercise_problem(task, exercise_timed_shape(backend, (ExerciseTask)task), 1, false);
  const bool good = backend->time(backend->context, &p, &score->launches, score->seconds, error);
  exercise_free(&p);
  if (!good) {
    score->right = false;
    snprintf(score->wrong, sizeof score->wrong, "%.400s; when it was timed", error->text);
  }
  return good;
}

void exercise_score(const ExerciseBackend *backend, uint64_t seed, int shapes,
                    ExerciseScore scores[TASKS]) {
  Error error;
  bool alive = true; /* an illegal access ends all that a GPU does for a process */
  for (int task = 0; task < TASKS; task++) {
    ExerciseScore *score = &scores[task];
    *score = (ExerciseScore){.dram_bytes = NAN, .cache_bytes = NAN};
    for (int i = 0; i <= RIVALS; i++) score->seconds[i] = NAN;
    if (!alive) {
      snprintf(score->wrong, sizeof score->wrong, "not checked: the function above ended the run");
      continue;
    }
    alive = check_task(backend, (ExerciseTask)task, seed, shapes, score, &error) &&
            (!score->right || time_task(backend, (ExerciseTask)task, score, &error));
  }
}

bool exercise_once(const ExerciseBackend *backend, Error *error) {
  bool good = true;
  for (int task = 0; good && task < TASKS; task++) {
    ExerciseProblem p = exercise_problem(
        (ExerciseTask)task, exercise_timed_shape(backend, (ExerciseTask)task), 1, false);
    int launches;
    good = backend->time(backend->context, &p, &launches, NULL, error);
    exercise_free(&p);
  }
  return good;
}

/* ---- hardware counters ---------------------------------------------------------------------- */

/* A line of `ncu --csv --page details`: every field in quotation marks, the kernel's number first,
   "metric","unit","value" last. False if it is anything else. */
static bool read_counter(char *line, long *kernel, const char **metric, double *value) {
  char *fields[4]; /* the last four, in order of appearance */
  int count = 0;
  line[strcspn(line, "\r\n")] = '\0';
  const size_t length = strlen(line);
  if (length < 2 || line[0] != '"' || line[length - 1] != '"') return false;
  line[length - 1] = '\0';
  *kernel = strtol(line + 1, NULL, 10);
  for (char *end = line + length - 1; count < 3; count++) { /* from the right: names have commas */
    char *from = NULL;
    for (char *at = line; (at = strstr(at, "\",\"")) && at < end; at++) from = at;
    if (!from) return false;
    *from = '\0';
    fields[count] = from + 3;
    end = from;
  }
  if (strcmp(fields[1], "byte") != 0) return false;
  char *out = fields[0]; /* thousands have commas, too */
  for (const char *in = fields[0]; *in; in++)
    if (*in != ',') *out++ = *in;
  *out = '\0';
  char *end;
  *value = strtod(fields[0], &end);
  *metric = fields[2];
  return end > fields[0] && !*end;
}

/* The task whose kernels have number `kernel` among them. TASKS: none. */
static int task_of(const ExerciseScore scores[TASKS], int kernel) {
  int task = 0;
  for (; task < TASKS && kernel >= scores[task].launches; task++) kernel -= scores[task].launches;
  return task;
}

static const char *read_counters(FILE *file, ExerciseScore scores[TASKS]) {
  ExerciseScore sums[TASKS];
  int kernels = 0, expected = 0; /* kernels: so far, in the order of their numbers */
  long last = -1;
  memcpy(sums, scores, sizeof sums);
  for (int t = 0; t < TASKS; t++) {
    sums[t].dram_bytes = sums[t].cache_bytes = 0;
    expected += scores[t].launches;
  }
  char line[8192];
  while (fgets(line, sizeof line, file)) {
    long kernel;
    const char *metric;
    double bytes;
    if (strstr(line, "ERR_NVGPUCTRPERM"))
      return "the driver lets only root read the counters (ERR_NVGPUCTRPERM)";
    if (!read_counter(line, &kernel, &metric, &bytes)) continue;
    if (kernel != last) kernels++;
    last = kernel;
    const int task = task_of(scores, kernels - 1);
    if (task == TASKS) continue;
    *(strncmp(metric, "dram__", 6) == 0 ? &sums[task].dram_bytes : &sums[task].cache_bytes) +=
        bytes;
  }
  if (kernels == 0) return "ncu measured nothing, its output says why";
  if (kernels != expected) return "ncu saw other kernels than were counted here";
  memcpy(scores, sums, sizeof sums);
  return NULL;
}

const char *exercise_counters(const char *path, ExerciseScore scores[TASKS]) {
  FILE *file = fopen(path, "r");
  if (!file) return errno == ENOENT ? "Nsight Compute (ncu) was not found" : strerror(errno);
  const char *why_not = read_counters(file, scores);
  fclose(file);
  return why_not;
}

/* ---- the scorecard -------------------------------------------------------------------------- */

enum { MAX_COLUMNS = 10 };

/* Right or wrong, launches, bytes, milliseconds, percent. */
static int make_row(const ExerciseBackend *b, ExerciseTask task, const ExerciseScore *s,
                    TableCell cells[MAX_COLUMNS]) {
  static const char *const names[TASKS] = {"1 forward", "2 softmax", "3 loss", "4 update"};
  const ExerciseShape shape = exercise_timed_shape(b, task);
  double goal = NAN;
  int n = 0;
  cells[n++] = table_cell("%s", names[task]);
  cells[n++] = table_cell("%s", s->right ? "right" : "wrong");
  cells[n++] = table_cell("%d", s->launches);
  cells[n++] = table_number(exercise_least_bytes(task, shape) / 1e6);
  cells[n++] = table_number(exercise_unfused_bytes(task, shape) / 1e6);
  if (b->library) { /* a GPU, with counters */
    cells[n++] = table_number(s->dram_bytes / 1e6);
    cells[n++] = table_number(s->cache_bytes / 1e6);
  }
  cells[n++] = table_number(s->seconds[0] * 1e3);
  for (int i = 0; i < RIVALS && b->rival[i]; i++) {
    goal = s->seconds[1 + i];
    if (i == 0) cells[n++] = table_number(goal * 1e3);
  }
  cells[n++] = isfinite(goal) ? table_cell("%.0f%%", 100 * goal / s->seconds[0]) : table_cell("-");
  return n;
}

static void print_table(FILE *file, const ExerciseBackend *b, const ExerciseScore scores[TASKS]) {
  const char *goal = b->rival[1] ? b->rival[1] : b->rival[0];
  char rival[32], percent[32];
  snprintf(rival, sizeof rival, "%s ms", b->rival[0]);
  snprintf(percent, sizeof percent, "%% of %s", goal);
  TableColumn columns[MAX_COLUMNS] = {{"function", 9, true}, {"result", 6, true}};
  int n = 2;
  columns[n++] = (TableColumn){b->launches, 7, false};
  columns[n++] = (TableColumn){"least MB", 8, false};
  columns[n++] = (TableColumn){"unfused MB", 10, false};
  if (b->library) {
    columns[n++] = (TableColumn){"DRAM MB", 7, false};
    columns[n++] = (TableColumn){"L2 MB", 7, false};
  }
  columns[n++] = (TableColumn){"ms", 7, false};
  columns[n++] = (TableColumn){rival, 8, false};
  columns[n++] = (TableColumn){percent, 10, false};
  const Table table = {file, false, columns, n};
  table_begin(&table);
  for (int task = 0; task < TASKS; task++) {
    TableCell cells[MAX_COLUMNS];
    make_row(b, (ExerciseTask)task, &scores[task], cells);
    table_row(&table, cells);
  }
}

int exercise_print(FILE *file, const ExerciseBackend *backend, const ExerciseScore scores[TASKS],
                   const char *counters) {
  int right = 0, fused = 0;
  fprintf(file, "%s; timed on %d rows, 784 to 300 in 1 and 4, 1000 classes in 2 and 3\n\n",
          backend->device, backend->timed_rows);
  print_table(file, backend, scores);
  for (int task = 0; task < TASKS; task++) {
    if (!scores[task].right) fprintf(file, "\n%d is wrong: %s\n", task + 1, scores[task].wrong);
    right += scores[task].right;
    fused += scores[task].right && scores[task].launches == 1;
  }
  if (backend->library && counters)
    fprintf(file, "\nDRAM and L2 bytes are not measured: %s\n", counters);
  fprintf(file, "\n%d of %d right, %d of %d fused\n", right, TASKS, fused, TASKS);
  return right;
}
