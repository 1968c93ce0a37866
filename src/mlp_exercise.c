/* mlp-exercise: checks and scores what a student made of the exercise; see --help. */
#include <stdlib.h>
#include <string.h>

#include "exercise/exercise.h"

static const char help[] =
    "Usage: mlp-exercise [--cpu] [--seed N] [--counters FILE]\n"
    "       mlp-exercise [--cpu] --once\n"
    "Checks kernels/exercise.cu on hidden shapes, times it, and prints a scorecard.\n"
    "\n"
    "  --cpu            check src/exercise/exercise_cpu.c instead, without a GPU\n"
    "  --seed N         draw other shapes [1]\n"
    "  --once           run each function once for ncu, without checks or times\n"
    "  --counters FILE  add what ncu wrote about a run with --once\n"
    "  --help           print this help and exit\n"
    "\n"
    "Exit status: 0 if all is right, 1 if something is wrong, 2 for wrong usage, 3 if\n"
    "there is no GPU to run on.\n";

typedef struct {
  bool cpu, once, help;
  uint64_t seed;
  const char *counters;
} Arguments;

static bool parse_seed(const char *text, uint64_t *seed, Error *error) {
  char *end;
  *seed = strtoull(text, &end, 10);
  if (*text >= '0' && *text <= '9' && !*end) return true;
  return error_set(error, "--seed must be a whole number, not '%s'", text);
}

static bool parse(int argc, char **argv, Arguments *a, Error *error) {
  *a = (Arguments){.seed = 1};
  for (int i = 1; i < argc; i++) {
    const char *word = argv[i];
    const bool is_seed = strcmp(word, "--seed") == 0;
    if (strcmp(word, "--cpu") == 0)
      a->cpu = true;
    else if (strcmp(word, "--once") == 0)
      a->once = true;
    else if (strcmp(word, "--help") == 0)
      a->help = true;
    else if (!is_seed && strcmp(word, "--counters") != 0)
      return error_set(error, "unknown option '%s'", word);
    else if (++i == argc)
      return error_set(error, "%s needs an argument", word);
    else if (!is_seed)
      a->counters = argv[i];
    else if (!parse_seed(argv[i], &a->seed, error))
      return false;
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
  if (!parse(argc, argv, &arguments, &error)) {
    fprintf(stderr, "mlp-exercise: %s\nTry 'mlp-exercise --help'.\n", error.text);
    return 2;
  }
  if (arguments.help) {
    fputs(help, stdout);
    return fflush(stdout) == 0 ? 0 : 1;
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
