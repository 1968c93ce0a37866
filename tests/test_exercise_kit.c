/* The exercise as a class gets it, as programs: the object file of a student is sealed, points
   are written for autograders, and the kit for students builds, scores, and has no answers in it.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "support/folder.h"
#include "support/process.h"

#define MAKE "env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s "

/* ---- sealing -------------------------------------------------------------------------------- */

/* Compiles the text and seals it: the exit code, and what was said. */
static int seal(const char *text, char *output, size_t size) {
  char *source = folder_path("student.c");
  folder_write(source, text);
  return process_run(output, size,
                     "${CC:-cc} -std=gnu11 -O1 -fPIE -Isrc -c %s -o %s.o && "
                     "scripts/seal_exercise.sh cpu %s.o %s",
                     source, source, source, folder_path("sealed.o"));
}

#define FORWARD                                                                                    \
  "#include \"exercise/exercise_cpu.h\"\n"                                                         \
  "void exercise_forward(const float *x, const float *w, const float *b, float *z, float *y, int " \
  "rows, int in, int out, bool relu) {\n"

/* Cheat 7: whatever else the file defines, nobody else calls it. */
TEST_WITH(symbols_of_the_harness_stay_its_own, folder_open, folder_close) {
  char output[4096];
  const int code = seal("int mprotect(void *at, unsigned long bytes, int how) { return 0; }\n"
                        "int exercise_judge(void) { return 1; }\n"
                        "double fabs(double x) { return 0; }\n"
                        "int scale = 3;\n" FORWARD
                        "  y[0] = x[0] * scale + (float)fabs(w[0]) + mprotect(y, 0, 0);\n}\n",
                        output, sizeof output);
  if (code != 0) fail_msg("%s", output);
  process_run(output, sizeof output, "nm --extern-only --defined-only --format=posix %s",
              folder_path("sealed.o"));
  assert_int_equal(strncmp(output, "exercise_forward T ", 19), 0);
  assert_string_equal(strchr(output, '\n'), "\n"); /* and no other */
}

TEST_WITH(what_the_exercise_does_not_allow_is_refused, folder_open, folder_close) {
  static const struct {
    const char *text, *says;
  } cases[] = {
      {"#include <stdlib.h>\n" FORWARD "  z = malloc(4);\n  y[0] = z[0];\n  free(z);\n}\n",
       "it uses free malloc"},
      {"#include <unistd.h>\n" FORWARD "  if (fork() == 0) sleep(9);\n}\n", "it uses fork sleep"},
      {"#include <pthread.h>\n" FORWARD "  pthread_create((void *)z, 0, 0, 0);\n}\n",
       "it uses pthread_create"},
      {"void exercise_pass(void);\n" FORWARD "  exercise_pass();\n}\n", "it uses exercise_pass"},
      {"static float table[4];\n"
       "__attribute__((constructor)) static void early(void) { table[0] = 1; }\n" FORWARD
       "  y[0] = table[0];\n}\n",
       "it has a constructor"}, /* cheat 8: worked out before anybody looks */
      {"static float cache[5000];\n" FORWARD "  cache[rows] = x[0];\n  y[0] = cache[in];\n}\n",
       "it has 20000 bytes of variables"},
      {"float cache[5000] = {1};\n" FORWARD "  cache[rows] = x[0];\n}\n",
       "bytes of variables that outlive a call, and may have 16384"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char output[4096];
    const int code = seal(cases[i].text, output, sizeof output);
    const char *said = strstr(output, "The exercise does not allow this: ");
    if (code != 1 || !said || !strstr(said, cases[i].says))
      fail_msg("%s: exit code %d, %s", cases[i].says, code, output);
  }
}

TEST_WITH(what_the_exercise_allows_is_sealed, folder_open, folder_close) {
  char output[4096];
  const int code = seal("#include <assert.h>\n#include <math.h>\n#include <stdio.h>\n"
                        "#include <string.h>\n" FORWARD "  static int calls;\n  assert(rows > 0);\n"
                        "  printf(\"%d %g\\n\", calls++, (double)x[0]);\n  memcpy(y, x, in);\n"
                        "  memset(z, 0, out);\n  y[0] = expf(x[0]) + fmaxf(w[0], logf(b[0]));\n}\n",
                        output, sizeof output);
  if (code != 0) fail_msg("%s", output);
}

/* ---- the program ---------------------------------------------------------------------------- */

/* The whole way of a class without GPUs; what stands in exercise_cpu.c is a student's. */
TEST(make_exercise_cpu_prints_a_scorecard) {
  char output[8192];
  process_run(output, sizeof output, MAKE "SETUP=0 BUILD=build/graded SEED=3 exercise-cpu");
  if (!strstr(output, "\n4 of 4 right, ")) fail_msg("%s", output);
}

static json_t *read_json(const char *path) {
  json_error_t error;
  json_t *all = json_load_file(path, 0, &error);
  if (!all) fail_msg("%s: %s", path, error.text);
  return all;
}

static double number_of(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  if (!json_is_number(value)) fail_msg("%s is no number", key);
  return json_number_value(value);
}

/* Checks the format of Gradescope's file. Returns how many of the four tests have passed. */
static int passed_of(const char *path) {
  json_t *all = read_json(path), *test;
  size_t i;
  int passed = 0;
  double sum = 0;
  assert_int_equal(json_array_size(json_object_get(all, "tests")), 4);
  json_array_foreach(json_object_get(all, "tests"), i, test) {
    const double score = number_of(test, "score");
    assert_true(json_is_string(json_object_get(test, "name")));
    assert_true(json_is_string(json_object_get(test, "output")));
    assert_true(score >= 0 && score <= number_of(test, "max_score"));
    sum += score;
    passed += strcmp(json_string_value(json_object_get(test, "status")), "passed") == 0;
  }
  const double difference = sum - number_of(all, "score");
  assert_true(difference < 1e-6 && difference > -1e-6);
  json_decref(all);
  return passed;
}

TEST_WITH(points_are_written_for_autograders, folder_open, folder_close) {
  char output[8192], *grade = folder_path("results.json"), *plain = folder_path("plain.json");
  char first[64] = "", second[64] = "";
  int code = process_run(output, sizeof output,
                         "build/graded/cpu/mlp-exercise --cpu --grade '%s' --grade-plain '%s'",
                         grade, plain);
  const int passed = passed_of(grade);
  assert_int_equal(code, passed == 4 ? 0 : 4); /* the untouched hand-out does not pass */
  assert_int_equal(sscanf(output, "seed %63s", first), 1);
  json_t *all = read_json(plain), *function;
  size_t i;
  double sum = 0;
  assert_string_equal(json_string_value(json_object_get(all, "seed")), first);
  assert_true(number_of(all, "max_points") == 100);
  json_array_foreach(json_object_get(all, "functions"), i, function) {
    assert_true(json_is_true(json_object_get(function, "right")));
    assert_true(number_of(function, "moved_bytes") >= number_of(function, "least_bytes"));
    assert_true(json_is_null(json_object_get(function, "kernels")));
    sum += number_of(json_object_get(function, "points"), "all");
  }
  const double difference = sum - number_of(all, "points");
  assert_true(difference < 1e-6 && difference > -1e-6);
  json_decref(all);

  process_run(output, sizeof output, "build/graded/cpu/mlp-exercise --cpu --grade %s", grade);
  assert_int_equal(sscanf(output, "seed %63s", second), 1);
  assert_string_not_equal(first, second); /* drawn; one time in 4 billion this is bad luck */
  code = process_run(output, sizeof output,
                     "build/graded/cpu/mlp-exercise --cpu --seed 9 --grade %s/no/r", folder);
  assert_int_equal(code, 1);
  assert_int_equal(strncmp(output, "seed 9\n", 7), 0);
  assert_non_null(strstr(output, "mlp-exercise: cannot write "));
}

/* The program is the one that a test above has built. */
TEST(wrong_usage_is_named) {
  static const struct {
    const char *arguments, *says;
    int code;
  } cases[] = {
      {"--help", "Usage: mlp-exercise ", 0},
      {"--cpus", "mlp-exercise: unknown option '--cpus'\nTry 'mlp-exercise --help'.\n", 2},
      {"stray", "mlp-exercise: unknown option 'stray'\n", 2},
      {"--cpu --seed", "mlp-exercise: --seed needs an argument\n", 2},
      {"--cpu --grade", "mlp-exercise: --grade needs an argument\n", 2},
      {"--seed 3x", "mlp-exercise: --seed must be a whole number, not '3x'\n", 2},
      {"--seed 99999999999999999999", "mlp-exercise: --seed must be a whole number, not '9", 2},
      {"--seed ''", "mlp-exercise: --seed must be a whole number, not ''\n", 2},
      {"", "The exercise cannot run here: this program was built without CUDA", 3},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char output[4096];
    const int code =
        process_run(output, sizeof output, "build/graded/cpu/mlp-exercise %s", cases[i].arguments);
    if (code != cases[i].code || strncmp(output, cases[i].says, strlen(cases[i].says)) != 0)
      fail_msg("%s: exit code %d, %s", cases[i].arguments, code, output);
    if (code != 3) assert_in_range(process_longest_line(output), 1, 80);
  }
}

/* ---- the kit -------------------------------------------------------------------------------- */

/* Not in the tests' folder: in /tmp nothing may run on some machines. */
#define KIT "build/graded"

static int score_kit(char *output, size_t size) {
  return process_run(output, size,
                     MAKE "-C " KIT "/student-kit -j2 CFLAGS=-O1 SEED=5 GRADE=r.json exercise-cpu "
                          "2>&1");
}

TEST_WITH(the_kit_has_no_answers, folder_open, folder_close) {
  char output[8192];
  assert_int_equal(process_run(output, sizeof output, "scripts/student_kit.sh " KIT), 0);
  process_run(output, sizeof output, "cd " KIT " && ls student-kit/kernels | paste -sd' '");
  assert_string_equal(output, "batch.cuh exercise.cu gpu.h kernels.h\n");
  process_run(output, sizeof output,
              "cd " KIT " && find student-kit -name '*answer*' -o -name 'fused*'");
  assert_string_equal(output, "");
  /* None of what we have defined to be fused, the running maximum, or the answers' page. */
  process_run(output, sizeof output,
              "cd " KIT
              " && grep -rnE 'exercise_fused =|void fused_|online\\(|answers.md' student-kit");
  assert_string_equal(output, "");
  process_run(output, sizeof output,
              "cd " KIT " && tar -tzf student-kit.tar.gz | grep -v '/$' | sort >a && "
              "find student-kit -type f | sort | diff a - && echo same");
  assert_string_equal(output, "same\n");
}

/* As it is handed out, with an attempt at the grader's functions; then with the answers. */
TEST_WITH(the_kit_builds_scores_and_is_solved, folder_open, folder_close) {
  if (getenv("TEST_QUICK")) {
    print_message("TEST_QUICK leaves out building the kit\n");
    skip();
  }
  char output[16384];
  const char *results = KIT "/student-kit/r.json";
  assert_int_equal(process_run(output, sizeof output, "scripts/student_kit.sh " KIT), 0);
  assert_int_equal(process_run(output, sizeof output,
                               "cat >>" KIT "/student-kit/src/exercise/exercise_cpu.c <<'END'\n"
                               "int mprotect(void *at, unsigned long size, int how) { return 0; }\n"
                               "long sysconf(int name) { return 1 << 30; }\n"
                               "_Bool exercise_is_poison(const void *a, long b, long c) "
                               "{ return 1; }\n"
                               "END\n"),
                   0);
  int code = score_kit(output, sizeof output);
  if (code != 2 || !strstr(output, "\n4 of 4 right, 0 of 4 fused\n"))
    fail_msg("exit code %d, %s", code, output);
  assert_int_equal(passed_of(results), 0);

  /* Our answers, under the names of a student's functions. */
  assert_int_equal(process_run(output, sizeof output,
                               "sed 's/static void fused_/void exercise_/; /^const Exercise/d' "
                               "src/exercise/fused.c "
                               ">" KIT "/student-kit/src/exercise/exercise_cpu.c"),
                   0);
  code = score_kit(output, sizeof output);
  if (code != 0 || !strstr(output, "\n4 of 4 right, 4 of 4 fused\n"))
    fail_msg("exit code %d, %s", code, output);
  assert_int_equal(passed_of(results), 4);
}
