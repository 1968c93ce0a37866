/* mlp-exercise: checks and scores a student's version of the exercise. See --help. */
#define _DEFAULT_SOURCE /* getentropy */
#include <ctype.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/option_kinds.h"
#include "exercise/exercise.h"

typedef struct {
  uint64_t seed;
  int only;
  EmulatedGpu gpu;
  bool once;
  const char *shape, *grade;
} Arguments;

static const uint64_t NO_SEED = UINT64_MAX;
enum { NOT_GIVEN = -1 };

#define ROW(...) OPTION_ROW(Arguments, __VA_ARGS__)
static const OptionRow rows[] = {
    ROW("seed", "N", "", option_whole64, seed,
        "draw other shapes and values; random if it grades [1]", .high = 0x1p63),
    ROW("only", "N", "", option_whole, only, "score function N alone", .high = 99),
    ROW("shape", "SHAPE", "", option_word, shape,
        "call on this shape alone: ROWSxINxOUT, or ROWSxCLASSES"),
    ROW("gpu", "NAME", "", option_choice, gpu, "what the emulator is: H100, A100 or T4 [H100]",
        .choices = (const char *const[]){"H100", "A100", "T4", NULL}),
    ROW("grade", "FILE", "", option_word, grade, "write points as Gradescope's results.json",
        .file = FILE_OUTPUT),
    ROW("once", NULL, NULL, option_yes_no, once,
        "run each function once for ncu, without checks or times"),
    OPTION_HELP,
    OPTION_VERSION};

static const OptionTable table = {
    .program = "mlp-exercise",
    .usage = "Usage: mlp-exercise [OPTION]...\n"
             "Checks functions on hidden shapes, measures them, prints a scorecard. A program\n"
             "scores one file: mlp-exercise is for kernels/exercise.cu, mlp-transformer and\n"
             "mlp-warmup are for kernels/class/transformer.cu and kernels/class/warmup.cu.\n",
    .notes = "Exit status: 0 if all functions are right and fused, 1 if one is wrong or\n"
             "the work could not be done, 2 for wrong usage, 3 if there is no GPU to run on,\n"
             "4 if all are right and not all are fused.\n",
    .rows = rows,
    .count = sizeof rows / sizeof *rows};

/* Sets *choice from --only and --shape. */
static bool choose(const Arguments *a, ExerciseChoice *choice, Error *error) {
  int side[3] = {0}, end = 0;
  const ExerciseSet *set = exercise_linked();
  choice->first = set->first, choice->count = set->count;
  if (a->only == 0 || a->only > choice->count)
    return error_set(error, "--only must be from 1 to %d, the number of functions, not %d",
                     choice->count, a->only);
  if (a->only > 0) choice->first += a->only - 1, choice->count = 1;
  if (a->grade && !set->graded) return error_set(error, "the %s is not graded", set->name);
  if (a->grade && (a->only > 0 || a->shape))
    return error_set(error, "--only and --shape are not graded");
  if (!a->shape) return true;
  const int read = sscanf(a->shape, "%4dx%4d%nx%4d%n", &side[0], &side[1], &end, &side[2], &end);
  if (read < 2 || a->shape[end] || side[0] < 1 || side[1] < 1 || (read > 2 && side[2] < 1))
    return error_set(error, "--shape must be ROWSxINxOUT or ROWSxCLASSES, as 5x7x3, not '%s'",
                     a->shape);
  choice->shape = (ExerciseShape){
      .rows = side[0], .in = 1, .out = side[read - 1], .relu = true, .end = side[0]};
  if (read > 2) choice->shape.in = side[1];
  return true;
}

/* Scores the chosen functions, prints the scorecard and sets *sum. Returns false only if the
   scorecard cannot be made or written, not if a function is wrong. */
static bool score(const ExerciseBackend *backend, Arguments *a, ExerciseSum *sum, Error *error) {
  ExerciseScore scores[TASKS];
  ExerciseChoice choice = {0};
  uint32_t drawn = 1;
  /* For --grade, the system draws a random seed, which no student knows beforehand. */
  if (a->seed == NO_SEED && a->grade && getentropy(&drawn, sizeof drawn) != 0)
    return error_set(error, "the system cannot give a random seed: choose one with --seed");
  if (a->seed == NO_SEED) a->seed = drawn;
  if (a->grade) printf("seed %llu\n", (unsigned long long)a->seed);
  choice.seed = a->seed;
  if (!choose(a, &choice, error)) return false;
  exercise_score(backend, &choice, scores);
  char *card = NULL;
  size_t size;
  FILE *file = open_memstream(&card, &size);
  if (!file) return error_set(error, "no memory for the scorecard");
  *sum = exercise_print(file, scores, choice.count);
  fclose(file);
  for (char *at = card; *at; at++) /* the card may contain names that a student chose */
    if (!isprint((unsigned char)*at) && *at != '\n') *at = '?';
  fputs(card, stdout);
  const bool good =
      !a->grade || exercise_grade(a->grade, a->seed, scores, choice.count, card, error);
  free(card);
  return good;
}

int main(int argc, char **argv) {
  standard_output_open();
  Arguments arguments = {.seed = NO_SEED, .only = NOT_GIVEN};
  Error error;
  ExerciseBackend backend;
  ExerciseSum sum = {0};
  OptionsResult result = option_table_read(&table, argc, argv, &arguments, &error);
  if (result != OPTIONS_RUN) return option_table_end(&table, result, argv[0], &error);
  if (!exercise_find(arguments.gpu, &backend, &error)) {
    printf("The exercise cannot run here: %s.\n", error.text);
    return 3;
  }
  if (arguments.once ? !exercise_once(&backend, &error)
                     : !score(&backend, &arguments, &sum, &error))
    result = OPTIONS_FAILURE;
  const int failed = option_table_end(&table, result, argv[0], &error);
  if (failed) return failed;
  if (sum.right < sum.of) return 1;
  return sum.fused < sum.of ? 4 : 0;
}
