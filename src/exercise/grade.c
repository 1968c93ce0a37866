/* Points, for programs that collect them. */
#include "exercise/exercise.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/text.h"

enum { POINTS_MOST = POINTS_RIGHT + POINTS_FUSED + POINTS_FAST };

static double rounded(double points) {
  return round(points * 100) / 100;
}

/* A function, for Gradescope. */
static json_t *test_of(ExerciseTask task, const ExerciseScore *s, ExercisePoints p) {
  const ShortText text =
      !s->right ? text_format("wrong: %s", s->wrong)
      : p.right == 0
          ? text_format("right, and as it is handed out: 0 points")
          : text_format("right: %g of %d; fused: %g of %d; fast: %g of %d", p.right, POINTS_RIGHT,
                        p.fused, POINTS_FUSED, rounded(p.fast), POINTS_FAST);
  return json_pack("{s:s, s:f, s:i, s:s, s:s}", "name", exercise_names[task], "score",
                   rounded(p.all), "max_score", POINTS_MOST, "status",
                   s->right && s->fused ? "passed" : "failed", "output", text.text);
}

/* https://gradescope-autograders.readthedocs.io/en/latest/specs/ */
bool exercise_grade(const char *path, ExerciseGrade form, const ExerciseBackend *backend,
                    uint64_t seed, const ExerciseScore scores[TASKS], Error *error) {
  const bool is_plain = form == GRADE_PLAIN;
  json_t *list = json_array();
  double points = 0;
  for (int t = 0; t < TASKS; t++) {
    const ExerciseTask task = (ExerciseTask)t;
    const ExercisePoints p = exercise_points(backend, task, &scores[task]);
    json_t *one =
        is_plain ? exercise_line(backend, task, &scores[task]) : test_of(task, &scores[task], p);
    if (is_plain)
      json_object_set_new(one, "points",
                          json_pack("{s:f, s:f, s:f, s:f}", "right", p.right, "fused", p.fused,
                                    "fast", rounded(p.fast), "all", rounded(p.all)));
    json_array_append_new(list, one);
    points += rounded(p.all);
  }
  /* JSON's integers end at 2^53. */
  const ShortText text = text_format("%s%s%llu", is_plain ? "" : backend->device,
                                     is_plain ? "" : ", --seed ", (unsigned long long)seed);
  json_t *all = is_plain ? json_pack("{s:s, s:s, s:f, s:i, s:o}", "device", backend->device, "seed",
                                     text.text, "points", rounded(points), "max_points",
                                     TASKS * POINTS_MOST, "functions", list)
                         : json_pack("{s:f, s:s, s:s, s:o}", "score", rounded(points), "output",
                                     text.text, "visibility", "visible", "tests", list);
  if (!all) return error_set(error, "no memory for %s", path);
  const bool written = json_dump_file(all, path, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0;
  const int reason = errno;
  json_decref(all);
  return written || error_set(error, "cannot write %s: %s", path, strerror(reason));
}
