/* Points, for programs that collect them. */
#include "exercise/exercise.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

enum { POINTS_MOST = POINTS_RIGHT + POINTS_FUSED + POINTS_FAST };

static double rounded(double points) {
  return round(points * 100) / 100;
}

/* ---- Gradescope -----------------------------------------------------------------------------
   https://gradescope-autograders.readthedocs.io/en/latest/specs/ */

static void say(const ExerciseScore *s, const ExercisePoints *p, char *text, size_t size) {
  if (!s->right)
    snprintf(text, size, "wrong: %s", s->wrong);
  else if (p->right == 0)
    snprintf(text, size, "right, and as it is handed out: 0 points");
  else
    snprintf(text, size, "right: %g of %d; fused: %g of %d; fast: %g of %d", p->right, POINTS_RIGHT,
             p->fused, POINTS_FUSED, rounded(p->fast), POINTS_FAST);
}

static json_t *gradescope(const ExerciseBackend *backend, uint64_t seed,
                          const ExerciseScore scores[TASKS]) {
  json_t *tests = json_array();
  char text[1024];
  double all = 0;
  for (int task = 0; task < TASKS; task++) {
    const ExercisePoints p = exercise_points(backend, (ExerciseTask)task, &scores[task]);
    say(&scores[task], &p, text, sizeof text);
    all += rounded(p.all);
    json_array_append_new(tests,
                          json_pack("{s:s, s:f, s:i, s:s, s:s}", "name", exercise_names[task],
                                    "score", rounded(p.all), "max_score", POINTS_MOST, "status",
                                    scores[task].right && scores[task].fused ? "passed" : "failed",
                                    "output", text));
  }
  snprintf(text, sizeof text, "%s, --seed %llu", backend->device, (unsigned long long)seed);
  return json_pack("{s:f, s:s, s:s, s:o}", "score", rounded(all), "output", text, "visibility",
                   "visible", "tests", tests);
}

/* ---- plain ---------------------------------------------------------------------------------- */

static json_t *plain_function(const ExerciseBackend *backend, ExerciseTask task,
                              const ExerciseScore *s) {
  const ExercisePoints p = exercise_points(backend, task, s);
  json_t *line = exercise_line(backend, task, s);
  json_object_set_new(line, "points",
                      json_pack("{s:f, s:f, s:f, s:f}", "right", p.right, "fused", p.fused, "fast",
                                rounded(p.fast), "all", rounded(p.all)));
  return line;
}

static json_t *plain(const ExerciseBackend *backend, uint64_t seed,
                     const ExerciseScore scores[TASKS]) {
  json_t *functions = json_array();
  char text[32];
  double all = 0;
  for (int task = 0; task < TASKS; task++) {
    all += rounded(exercise_points(backend, (ExerciseTask)task, &scores[task]).all);
    json_array_append_new(functions, plain_function(backend, (ExerciseTask)task, &scores[task]));
  }
  snprintf(text, sizeof text, "%llu", (unsigned long long)seed); /* JSON's integers end at 2^53 */
  return json_pack("{s:s, s:s, s:f, s:i, s:o}", "device", backend->device, "seed", text, "points",
                   rounded(all), "max_points", TASKS * POINTS_MOST, "functions", functions);
}

bool exercise_grade(const char *path, ExerciseGrade form, const ExerciseBackend *backend,
                    uint64_t seed, const ExerciseScore scores[TASKS], Error *error) {
  json_t *all = (form == GRADE_PLAIN ? plain : gradescope)(backend, seed, scores);
  if (!all) return error_set(error, "no memory for %s", path);
  const bool written = json_dump_file(all, path, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0;
  const int reason = errno;
  json_decref(all);
  return written || error_set(error, "cannot write %s: %s", path, strerror(reason));
}
