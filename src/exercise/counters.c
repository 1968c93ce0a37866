/* Reads what Nsight Compute measured. */
#include "exercise/exercise.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Cuts the last field from a line: returns it, NULL if there is no other before it. Names of
   kernels have commas. */
static char *cut_last(char *line) {
  char *from = NULL;
  for (char *at = line; (at = strstr(at, "\",\"")); at++) from = at;
  if (from) *from = '\0';
  return from ? from + 3 : NULL;
}

/* A line of `ncu --csv --page details`: every field in quotation marks, the kernel's number first,
   "metric","unit","value" last. False if it is anything else. */
static bool read_counter(char *line, long *kernel, const char **metric, double *value) {
  char *end = line + strcspn(line, "\r\n");
  if (end < line + 2 || line[0] != '"' || end[-1] != '"') return false;
  end[-1] = '\0';
  char *number = cut_last(line), *unit = cut_last(line);
  *metric = cut_last(line);
  if (!*metric || strcmp(unit, "byte") != 0) return false;
  for (char *at; (at = strchr(number, ','));) memmove(at, at + 1, strlen(at)); /* of thousands */
  *kernel = strtol(line + 1, NULL, 10);
  *value = strtod(number, &end);
  return end > number && !*end;
}

/* The task whose kernels have number `kernel` among them. TASKS: none. */
static int task_of(const ExerciseScore scores[TASKS], int kernel) {
  int task = 0;
  for (; task < TASKS && kernel >= scores[task].call.launches; task++)
    kernel -= scores[task].call.launches;
  return task;
}

static const char *read_counters(FILE *file, ExerciseScore scores[TASKS]) {
  double sums[TASKS][2] = {{0}}; /* of DRAM, of the cache */
  int kernels = 0, expected = 0; /* kernels: so far, in the order of their numbers */
  long last = -1;
  for (int t = 0; t < TASKS; t++) expected += scores[t].call.launches;
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
    if (task < TASKS) sums[task][strncmp(metric, "dram__", 6) != 0] += bytes;
  }
  if (kernels == 0) return "ncu measured nothing, its output says why";
  if (kernels != expected) return "ncu saw other kernels than were counted here";
  for (int t = 0; t < TASKS; t++)
    scores[t].dram_bytes = sums[t][0], scores[t].cache_bytes = sums[t][1];
  return NULL;
}

const char *exercise_counters(const char *path, ExerciseScore scores[TASKS]) {
  FILE *file = fopen(path, "r");
  if (!file) return errno == ENOENT ? "Nsight Compute (ncu) was not found" : strerror(errno);
  const char *why_not = read_counters(file, scores);
  fclose(file);
  return why_not;
}
