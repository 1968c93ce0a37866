#include "lab/harness.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const char *const lab_kinds[LAB_KINDS] = {"rung", "library", "part", "mistake"};
const char *const lab_outcomes[LAB_OUTCOMES] = {"-",      "right",  "WRONG",
                                                "caught", "MISSED", "refused"};

const LabTopic *lab_find(const LabTopic *const *topics, const char *name) {
  for (; *topics; topics++)
    if (strcmp((*topics)->name, name) == 0) return *topics;
  return NULL;
}

bool lab_belongs(const LabRung *rung, int problem) {
  return rung->problems == 0 || (rung->problems >> problem & 1);
}

/* ---- sizes ---------------------------------------------------------------------------------- */

int lab_dims(const LabTopic *topic) {
  int dims = 1;
  for (const char *at = topic->dims; (at = strstr(at, " x ")); at++) dims++;
  return dims;
}

LabText lab_size_text(const LabTopic *topic, LabSize size) {
  LabText text;
  int used = 0;
  for (int d = 0; d < lab_dims(topic); d++)
    used += snprintf(text.text + used, sizeof text.text - (size_t)used, "%s%lld", d ? "x" : "",
                     (long long)size.dim[d]);
  return text;
}

/* No array of two dimensions is larger: 2^40 elements. */
static const int64_t MOST = (int64_t)1 << 40;

static bool sizes_multiply(LabSize size) {
  for (int a = 0; a < LAB_DIMS; a++)
    for (int b = 0; b < a; b++)
      if (size.dim[a] > MOST / size.dim[b]) return false;
  return true;
}

bool lab_read_size(const LabTopic *topic, const char *text, LabSize *size) {
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
  if (!lab_read_size(topic, text, size))
    return error_set(error, "--size of %s must be '%s', as in %s, not '%s'", topic->name,
                     topic->dims, lab_size_text(topic, topic->size).text, text);
  return sizes_multiply(*size) || error_set(error, "--size %s is larger than any memory", text);
}

/* ---- tables --------------------------------------------------------------------------------- */

LabTable lab_table(const LabTopic *topic, int problem, LabSize size, bool extra) {
  const LabProblem *p = &topic->problems[problem];
  return (LabTable){.topic = topic,
                    .problem = problem,
                    .size = size,
                    .extra = extra,
                    .bytes = p->bytes(size),
                    .operations = p->operations(size)};
}

void lab_table_close(LabTable *table) {
  free(table->rows);
  *table = (LabTable){0};
}

bool lab_table_good(const LabTable *table) {
  if (*table->reason) return table->extra; /* a smaller GPU may miss the largest sizes */
  for (int i = 0; i < table->count; i++)
    if (table->rows[i].outcome == LAB_WRONG || table->rows[i].outcome == LAB_MISSED) return false;
  return true;
}
