/* The scorecard, and the points for programs that collect them. */
#include "exercise/exercise.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/sizes.h"
#include "measure/table.h"

/* By task, in tables and for autograders. */
static const char *const names[ALL_TASKS] = {"1 forward", "2 softmax", "3 loss",
                                             "4 update",  "1 map",     "2 index",
                                             "3 reverse", "4 sum",     "5 copy"};

/* ---- the table ------------------------------------------------------------------------------ */

/* A function's speed as a share of our fused version's: by time on a GPU, by sectors and turns of
   the banks on the emulator. NAN: not known. */
static double share_of(const ExerciseScore *s) {
  /* Sectors and turns of the banks of docs/teaching/answers/exercise.cu, which a test counts. */
  static const double ours[TASKS] = {1283712, 384000, 395264, 498910};
  const ExerciseCall *call = &s->call;
  if (!s->compares) return NAN;
  return s->backend->on_gpu ? call->seconds[2] / call->seconds[0]
                            : ours[s->task] / (double)(call->counts.sectors + call->counts.turns);
}

/* All that is known of a function, as an object: the row of a table, a part of a grade. */
static json_t *line_of(const ExerciseScore *s) {
  const ExerciseShape shape = s->measured;
  const ExerciseCall *c = &s->call;
  const EmulatorCounts *n = &c->counts;
  json_t *line = json_pack("{s:s, s:b, s:b, s:s, s:i, s:f, s:f}", "function", names[s->task],
                           "right", s->right, "fused", s->fused, "wrong", s->wrong, "kernels",
                           c->launches, "least_bytes", exercise_least_bytes(s->task, shape),
                           "unfused_bytes", exercise_unfused_bytes(s->task, shape));
  const struct {
    const char *key;
    double value;
  } numbers[] = {{"moved_bytes", c->moved_bytes},
                 {"asked_bytes", (double)n->sectors * 32},
                 {"sectors", (double)n->sectors},
                 {"turns", (double)n->turns},
                 {"sectors_per_request", (double)n->sectors / (double)n->requests},
                 {"turns_per_request", (double)n->turns / (double)n->least_turns},
                 {"barriers", (double)n->barriers},
                 {"lanes", 100 * (double)n->lanes / (double)n->slots},
                 {"dram_bytes", s->dram_bytes},
                 {"cache_bytes", s->cache_bytes},
                 {"seconds", c->seconds[0]},
                 {"seconds_unfused", c->seconds[1]},
                 {"seconds_ours", c->seconds[2]},
                 {"share_of_ours", s->right ? share_of(s) : NAN}};
  foreach (row, numbers)
    json_object_set_new(line, row->key, isfinite(row->value) ? json_real(row->value) : json_null());
  return line;
}

enum { COUNTED = 1, TIMED = 2, COMPARED = 4 }; /* on the emulator; on a GPU; beside others there */

static void print_table(FILE *file, const ExerciseScore *scores, int count) {
  const ExerciseBackend *b = scores->backend;
  const bool compared = b->rival[0];
  const ShortText rival = text_format("%s ms", compared ? b->rival[0] : ""),
                  ours = text_format("%% of %s", compared ? b->rival[1] : "ours");
  const TableColumn columns[] = {
      {"function", 9, true, .key = "function"},
      {"result", 6, true, .key = "result"},
      {"fused", 5, true, .key = "is_fused"},
      {"kernels", 7, .key = "kernels", .format = "%.0f"},
      {"least MB", 8, .key = "least_bytes", .per = 1e6},
      {"unfused MB", 10, .key = "unfused_bytes", .per = 1e6},
      {"moved MB", 8, .key = "moved_bytes", .per = 1e6, .in = COUNTED},
      {"asked MB", 8, .key = "asked_bytes", .per = 1e6, .in = COUNTED},
      {"sectors", 7, .key = "sectors_per_request", .in = COUNTED},
      {"turns", 5, .key = "turns_per_request", .in = COUNTED},
      {"barriers", 8, .key = "barriers", .format = "%.0f", .in = COUNTED},
      {"lanes %", 7, .key = "lanes", .in = COUNTED},
      {"DRAM MB", 8, .key = "dram_bytes", .per = 1e6, .in = TIMED},
      {"L2 MB", 7, .key = "cache_bytes", .per = 1e6, .in = TIMED},
      {"ms", 7, .key = "seconds", .per = 1e-3, .in = TIMED},
      {rival.text, 8, .key = "seconds_unfused", .per = 1e-3, .in = COMPARED},
      {ours.text, 10, .key = "share_of_ours", .per = 0.01, .format = "%.0f",
       .in = COUNTED | COMPARED}};
  json_t *lines[ALL_TASKS];
  for (int i = 0; i < count; i++) {
    const ExerciseScore *s = &scores[i];
    lines[i] = line_of(s);
    json_object_set_new(lines[i], "result", json_string(s->right ? "right" : "wrong"));
    json_object_set_new(lines[i], "is_fused", json_string(s->fused ? "yes" : "no"));
  }
  const unsigned which = !b->on_gpu ? COUNTED : compared ? TIMED | COMPARED : TIMED;
  table_print(&(Table){.file = file, .which = which}, columns, LENGTH(columns),
              &(Lines){(const json_t **)lines, count});
  for (int i = 0; i < count; i++) json_decref(lines[i]);
}

ExerciseSum exercise_print(FILE *file, const ExerciseScore *scores, int count,
                           const char *counters) {
  const ExerciseBackend *backend = scores->backend;
  const ExerciseScore *end = scores + count;
  ExerciseSum sum = {.of = count};
  fprintf(file, "%s; measured on", backend->device);
  for (const ExerciseScore *s = scores; s < end; s++) {
    const ExerciseShape m = s->measured;
    const bool layer = s->task == TASK_FORWARD || s->task == TASK_UPDATE;
    fprintf(file, "%s %c: %d rows of %d%s", s > scores ? "," : "", *names[s->task], m.rows,
            layer ? m.in : m.out, layer ? text_format(" to %d", m.out).text : "");
  }
  fputs("\n\n", file);
  print_table(file, scores, count);
  if (!backend->is_checked)
    fputs("\nclang++ is not installed, so not checked: what nvcc refuses, structs by value, calls "
          "by\n"
          "pointers. `make setup` installs it.\n",
          file);
  const char *before = "\n"; /* one blank line before all that is said in a line */
  for (const ExerciseScore *s = scores; s < end; s++) {
    sum.right += s->right;
    sum.fused += s->fused;
    if (s->right && s->fused) continue;
    fprintf(file, "%s%c is ", before, *names[s->task]);
    if (!s->right)
      fprintf(file, "wrong: %s\n", s->wrong);
    else if (s->call.launches == 1)
      fprintf(file, "right, and asks for more bytes than it needs\n");
    else
      fprintf(file, "not fused: it launches %d kernels\n", s->call.launches);
    before = "";
  }
  for (const ExerciseScore *s = scores; s < end; s++)
    if (*s->told && (s->right || strchr(s->told, '\n')[1]))
      fprintf(file, "\n%c, %s:\n%s", *names[s->task],
              s->right ? "what costs most" : "what was found", s->told);
  if (backend->on_gpu && counters)
    fprintf(file, "\nDRAM and L2 bytes are not measured: %s\n", counters);
  if (sum.fused < count)
    fprintf(file, "\nHints for each function: make %s HINT=1, then 2 and 3.\n",
            scores->task < TASKS ? "exercise" : "warmup");
  fprintf(file, "\n%d of %d right, %d of %d fused\n", sum.right, count, sum.fused, count);
  return sum;
}

/* ---- points --------------------------------------------------------------------------------- */

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

/* A function, for Gradescope. */
static json_t *test_of(const ExerciseScore *s, ExercisePoints p) {
  const ShortText text =
      !s->right ? text_format("wrong: %s", s->wrong)
      : p.right == 0
          ? text_format("right, and as it is handed out: 0 points")
          : text_format("right: %g of %d; fused: %g of %d; fast: %g of %d", p.right, POINTS_RIGHT,
                        p.fused, POINTS_FUSED, rounded(p.fast), POINTS_FAST);
  return json_pack("{s:s, s:f, s:i, s:s, s:s}", "name", names[s->task], "score", rounded(p.all),
                   "max_score", POINTS_MOST, "status", s->right && s->fused ? "passed" : "failed",
                   "output", text.text);
}

/* https://gradescope-autograders.readthedocs.io/en/latest/specs/ */
bool exercise_grade(const char *path, ExerciseGrade form, uint64_t seed,
                    const ExerciseScore scores[TASKS], const char *card, Error *error) {
  const char *device = scores->backend->device;
  const bool is_plain = form == GRADE_PLAIN;
  json_t *list = json_array();
  double points = 0;
  for (const ExerciseScore *s = scores; s < scores + TASKS; s++) {
    const ExercisePoints p = exercise_points(s);
    json_t *one = is_plain ? line_of(s) : test_of(s, p);
    if (is_plain)
      json_object_set_new(one, "points",
                          json_pack("{s:f, s:f, s:f, s:f}", "right", p.right, "fused", p.fused,
                                    "fast", rounded(p.fast), "all", rounded(p.all)));
    json_array_append_new(list, one);
    points += rounded(p.all);
  }
  /* JSON's integers end at 2^53. */
  const ShortText text = text_format("%llu", (unsigned long long)seed);
  json_t *all = is_plain
                    ? json_pack("{s:s, s:s, s:f, s:i, s:s, s:o}", "device", device, "seed",
                                text.text, "points", rounded(points), "max_points",
                                TASKS * POINTS_MOST, "scorecard", card, "functions", list)
                    : json_pack("{s:f, s:s+, s:s, s:s, s:o}", "score", rounded(points), "output",
                                card, text_format("\n--seed %s\n", text.text).text, "output_format",
                                "text", "visibility", "visible", "tests", list);
  if (!all) return error_set(error, "no memory for %s", path);
  const bool written = json_dump_file(all, path, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0;
  const int reason = errno;
  json_decref(all);
  return written || error_set(error, "cannot write %s: %s", path, strerror(reason));
}
