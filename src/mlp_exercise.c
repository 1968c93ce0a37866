/* mlp-exercise: checks and scores what a student made of the exercise; see USAGE. */
#include <stdlib.h>
#include <string.h>

#include "exercise/exercise.h"

static const char USAGE[] =
    "usage: mlp-exercise [--cpu] [--seed N] [--counters FILE]\n"
    "       mlp-exercise --once\n"
    "\n"
    "Checks kernels/exercise.cu, or with --cpu src/exercise/exercise_cpu.c, on "
    "hidden shapes drawn from the\n"
    "seed (1), and prints a scorecard. --counters joins what ncu wrote of "
    "a run with --once, which\n"
    "runs each function once and checks nothing. Exit status: 0 all is "
    "right, 1 something is wrong,\n"
    "2 wrong usage, 3 there is no GPU to run on.\n";

typedef struct {
  bool cpu, once;
  uint64_t seed;
  const char *counters;
} Arguments;

static bool parse(int argc, char **argv, Arguments *a) {
  *a = (Arguments){.seed = 1};
  for (int i = 1; i < argc; i++) {
    const bool more = i + 1 < argc;
    char *end = "";
    if (strcmp(argv[i], "--cpu") == 0)
      a->cpu = true;
    else if (strcmp(argv[i], "--once") == 0)
      a->once = true;
    else if (strcmp(argv[i], "--counters") == 0 && more)
      a->counters = argv[++i];
    else if (strcmp(argv[i], "--seed") == 0 && more)
      a->seed = strtoul(argv[++i], &end, 10);
    else
      return false;
    if (*end) return false;
  }
  return true;
}

static int score(const ExerciseBackend *backend, const Arguments *a) {
  ExerciseScore scores[TASKS];
  exercise_score(backend, a->seed, EXERCISE_SHAPES, scores);
  const char *why_not = "`make exercise` does it";
  if (a->counters) why_not = exercise_counters(a->counters, scores);
  return exercise_print(stdout, backend, scores, why_not) == TASKS ? 0 : 1;
}

int main(int argc, char **argv) {
  Arguments arguments;
  Error error;
  if (!parse(argc, argv, &arguments)) {
    fputs(USAGE, stderr);
    return 2;
  }
  ExerciseBackend backend = exercise_host(&exercise_functions);
  if (!arguments.cpu && !exercise_gpu_open(&backend, &error)) {
    printf("The exercise cannot run here: %s.\n", error.text);
    return 3;
  }
  int status = 0;
  if (!arguments.once) {
    status = score(&backend, &arguments);
  } else if (!exercise_once(&backend, &error)) {
    fprintf(stderr, "mlp-exercise: %s\n", error.text);
    status = 1;
  }
  if (!arguments.cpu) exercise_gpu_close(&backend);
  return status;
}
