/* mlp-exercise: checks and scores what a student made of the exercise; see --help. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/output.h"
#include "exercise/exercise.h"

static const char help[] =
    "Usage: mlp-exercise [--seed N] [--counters FILE] [--grade FILE]\n"
    "                    [--grade-plain FILE]\n"
    "       mlp-exercise --once\n"
    "Checks kernels/exercise.cu on hidden shapes, measures it, prints a scorecard.\n"
    "\n"
    "  --seed N            draw other shapes and values; random if it grades [1]\n"
    "  --grade FILE        write points as Gradescope's results.json\n"
    "  --grade-plain FILE  write the same as plain JSON\n"
    "  --once              run each function once for ncu, without checks or times\n"
    "  --counters FILE     add what ncu wrote about a run with --once\n"
    "  --help              print this help and exit\n"
    "\n"
    "Exit status: 0 if all four functions are right and fused, 1 if one is wrong or\n"
    "the work could not be done, 2 for wrong usage, 3 if there is no GPU to run on,\n"
    "4 if all are right and not all are fused.\n";

enum { COUNTERS, GRADES, FILES = GRADES + GRADE_PLAIN + 1 }; /* grades: by form */

typedef struct {
  bool once, help;
  const char *given; /* the seed as it was given, NULL: it was not */
  uint64_t seed;
  NamedFile files[FILES];
} Arguments;

static bool parse_seed(Arguments *a, Error *error) {
  char *end;
  errno = 0;
  a->seed = strtoull(a->given, &end, 10);
  return (*a->given >= '0' && *a->given <= '9' && !*end && errno == 0) ||
         error_set(error, "--seed must be a whole number, not '%s'", a->given);
}

static bool parse(int argc, char **argv, Arguments *a, Error *error) {
  *a = (Arguments){
      .seed = 1,
      .files = {{"counters", NULL, false}, {"grade", NULL, true}, {"grade-plain", NULL, true}}};
  for (int i = 1; i < argc; i++) {
    const char *word = argv[i], **value = strcmp(word, "--seed") == 0 ? &a->given : NULL;
    for (int f = 0; f < FILES; f++)
      if (strncmp(word, "--", 2) == 0 && strcmp(word + 2, a->files[f].option) == 0)
        value = &a->files[f].path;
    if (strcmp(word, "--once") == 0)
      a->once = true;
    else if (strcmp(word, "--help") == 0)
      a->help = true;
    else if (!value)
      return error_set(error, "unknown option '%s'", word);
    else if (++i == argc)
      return error_set(error, "%s needs an argument", word);
    else
      *value = argv[i];
  }
  return (!a->given || parse_seed(a, error)) && same_file_check(a->files, FILES, error);
}

/* A seed that nobody knows beforehand. */
static bool draw_seed(uint64_t *seed, Error *error) {
  uint32_t drawn;
  FILE *file = fopen("/dev/urandom", "rb");
  const bool good = file && fread(&drawn, sizeof drawn, 1, file) == 1;
  if (file) fclose(file);
  if (!good) return error_set(error, "/dev/urandom has no seed to give: choose one with --seed");
  *seed = drawn;
  return true;
}

/* The exit status; *error if it is 1 for another reason than the functions. */
static int score(const ExerciseBackend *backend, Arguments *a, Error *error) {
  ExerciseScore scores[TASKS];
  const NamedFile *counters = &a->files[COUNTERS], *grades = &a->files[GRADES];
  const bool grading = grades[GRADE_GRADESCOPE].path || grades[GRADE_PLAIN].path;
  *error = (Error){0};
  if (grading && !a->given && !draw_seed(&a->seed, error)) return 1;
  if (grading) printf("seed %llu\n", (unsigned long long)a->seed);
  exercise_score(backend, a->seed, scores);
  const char *why_not = "`make exercise` does it";
  if (counters->path) why_not = exercise_counters(counters->path, scores);
  const ExerciseSum sum = exercise_print(stdout, backend, scores, why_not);
  for (int form = GRADE_GRADESCOPE; form <= GRADE_PLAIN; form++)
    if (grades[form].path &&
        !exercise_grade(grades[form].path, (ExerciseGrade)form, backend, a->seed, scores, error))
      return 1;
  if (!standard_output_flush(error)) return 1;
  return sum.right < TASKS ? 1 : sum.fused < TASKS ? 4 : 0;
}

int main(int argc, char **argv) {
  Arguments arguments;
  Error error;
  if (!parse(argc, argv, &arguments, &error)) {
    fprintf(stderr, "mlp-exercise: %s\nTry 'mlp-exercise --help'.\n", error.text);
    return 2;
  }
  if (arguments.help) {
    fputs(help, stdout);
    return fflush(stdout) == 0 ? 0 : 1;
  }
  ExerciseBackend backend;
  if (!exercise_find(&backend, &error)) {
    printf("The exercise cannot run here: %s.\n", error.text);
    return 3;
  }
  error = (Error){0};
  const int status = !arguments.once                   ? score(&backend, &arguments, &error)
                     : exercise_once(&backend, &error) ? 0
                                                       : 1;
  if (status == 1 && *error.text) fprintf(stderr, "mlp-exercise: %s\n", error.text);
  return status;
}
