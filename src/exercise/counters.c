/* Reads what Nsight Compute measured. */
#include "exercise/exercise.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
  for (; task < TASKS && kernel >= scores[task].call.launches; task++)
    kernel -= scores[task].call.launches;
  return task;
}

static const char *read_counters(FILE *file, ExerciseScore scores[TASKS]) {
  ExerciseScore sums[TASKS];
  int kernels = 0, expected = 0; /* kernels: so far, in the order of their numbers */
  long last = -1;
  memcpy(sums, scores, sizeof sums);
  for (int t = 0; t < TASKS; t++) {
    sums[t].dram_bytes = sums[t].cache_bytes = 0;
    expected += scores[t].call.launches;
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
