#include "lab/harness.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* A program that was built without CUDA has these. */
LAB_CUDA const LabTopic *const lab_topics[] = {NULL};

const LabTopic *lab_find(const char *name) {
  const LabTopic *const *topic = lab_topics;
  while (*topic && strcmp((*topic)->name, name) != 0) topic++;
  return *topic;
}

bool lab_belongs(const LabRung *rung, int problem) {
  return rung->problems == 0 || (rung->problems >> problem & 1);
}

int64_t lab_count(const LabTopic *topic, int problem, LabSize size, int array) {
  return topic->count ? topic->count(problem, size, array)
                      : size.dim[0] * size.dim[1] * size.dim[2];
}

int lab_width(const LabTopic *topic, int problem, int array) {
  static const int widths[] = {0, 4, 4, 2}; /* by LabType */
  const LabProblem *p = &topic->problems[problem];
  return widths[array < 0 ? p->out : p->in[array]];
}

double lab_bytes(const LabTopic *topic, int problem, LabSize size) {
  double bytes = 0;
  if (topic->problems[problem].bytes) return topic->problems[problem].bytes(size);
  for (int a = -1; a < LAB_INPUTS; a++)
    if (lab_width(topic, problem, a))
      bytes += lab_width(topic, problem, a) * (double)lab_count(topic, problem, size, a);
  return bytes;
}

ShortText lab_refusal(const LabRung *rung, const LabCall *call) {
  const char *refused = rung->refuse ? rung->refuse(call) : NULL;
  const int needs = rung->capability, has = call->gpu->capability;
#ifdef ON_EMULATOR
  if (!refused && (rung->kind == LAB_LIBRARY || rung->kind == LAB_PART))
    refused = "a library has no sources that could be compiled for the emulator";
#elif defined WITHOUT_CUBLAS
  if (strncmp(rung->name, "cublas", strlen("cublas")) == 0) refused = WITHOUT_CUBLAS;
#endif
  if (needs > has)
    return text_format("it needs compute capability %d.%d, this GPU or the code for it has %d.%d",
                       needs / 10, needs % 10, has / 10, has % 10);
  return text_format("%s", refused ? refused : "");
}

int lab_dims(const LabTopic *topic) {
  int dims = 1;
  for (const char *at = topic->dims; (at = strstr(at, " x ")); at++) dims++;
  return dims;
}

ShortText lab_size_text(const LabTopic *topic, LabSize size) {
  ShortText text = {""};
  for (int d = 0; d < lab_dims(topic); d++)
    text_append(text.text, sizeof text.text, "%s%lld", d ? "x" : "", (long long)size.dim[d]);
  return text;
}

/* Returns false if the text is not written as the topic's sizes are. */
static bool read_size(const LabTopic *topic, const char *text, LabSize *size) {
  const int dims = lab_dims(topic);
  *size = (LabSize){{1, 1, 1}};
  for (int d = 0; d < dims; d++) {
    char *end;
    if (!isdigit((unsigned char)*text)) return false;
    size->dim[d] = strtoll(text, &end, 10); /* too large: the largest, which no memory has */
    if (size->dim[d] < 1 || *end != (d < dims - 1 ? 'x' : '\0')) return false;
    text = end + 1;
  }
  return true;
}

bool lab_parse_size(const LabTopic *topic, const char *text, LabSize *size, Error *error) {
  static const int64_t MOST = (int64_t)1 << 40; /* elements of an array of two dimensions */
  if (!read_size(topic, text, size))
    return error_set(error, "--size of %s must be '%s', as in %s, not '%s'", topic->name,
                     topic->dims, lab_size_text(topic, topic->sizes[0]).text, text);
  for (int a = 0; a < LAB_DIMS; a++)
    for (int b = 0; b < a; b++)
      if (size->dim[a] > MOST / size->dim[b])
        return error_set(error, "--size %s is larger than any memory", text);
  return true;
}

LabSize lab_small_size(const LabTopic *topic) {
  static const LabSize most[LAB_DIMS] = {{{100000, 1, 1}}, {{100000, 4096, 1}}, {{256, 256, 64}}};
  LabSize size = topic->tested;
  for (int d = 0; d < LAB_DIMS; d++)
    if (size.dim[d] > most[lab_dims(topic) - 1].dim[d])
      size.dim[d] = most[lab_dims(topic) - 1].dim[d];
  return size;
}
