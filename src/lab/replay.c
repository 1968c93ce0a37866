/* Reads a record of mlp-lab. */
#include "lab/harness.h"

#include <string.h>

static int place_of(const char *text, const char *const *among, int count) {
  int i = 0;
  while (i < count && strcmp(among[i], text) != 0) i++;
  return i < count ? i : -1;
}

static const json_t *rung_of(const Record *record, const json_t *line) {
  size_t i;
  const json_t *rung;
  json_array_foreach(record->lines, i,
                     rung) if (line_is(rung, "lab-rung") &&
                               text_is(rung, "topic", text_of(line, "topic")) &&
                               text_is(rung, "rung", text_of(line, "rung"))) return rung;
  return NULL;
}

/* Lines describe a topic before its rungs, and these before their rows. */
static bool check_line(const Record *record, json_t *line, Error *error) {
  const char *name = text_of(line, "topic"), *rung = text_of(line, "rung"),
             *size = text_of(line, "size");
  const json_t *topic = record_find(record, "lab-topic", "topic", name);
  LabTopic known = {0};
  const bool is_row = line_is(line, "lab");
  LabSize ignored;
  known.dims = text_of(topic, "dims");
  if (line_is(line, "lab-rung"))
    return (topic && place_of(text_of(line, "kind"), lab_kinds, LAB_KINDS) >= 0) ||
           error_set(error, "the rung '%s' is of no topic before it, or of no kind", rung);
  if (!is_row && !line_is(line, "lab-problem")) return true;
  if (!topic)
    return error_set(
        error, "it does not describe the topic '%s': was it written by an older mlp-lab?", name);
  if (!lab_read_size(&known, size, &ignored))
    return error_set(error, "'%s' is no size of %s", size, name);
  return !is_row || *text_of(line, "reason") ||
         (rung_of(record, line) &&
          place_of(text_of(line, "check"), lab_outcomes, LAB_OUTCOMES) >= 0) ||
         error_set(error, "%s has no rung '%s', or it has no check", name, rung);
}

bool lab_read(Record *record, const char *path, Error *error) {
  return record_read(record, path, "mlp-lab", check_line, error) &&
         ((*text_of(record_first(record, "lab-machine"), "gpu") && record_first(record, "lab")) ||
          error_set(error, "%s is no record of mlp-lab: it has no results", path));
}

int lab_problems(const Record *record, const char *topic, const char *problems[LAB_PROBLEMS]) {
  int count = 0;
  size_t i;
  const json_t *line;
  json_array_foreach(record->lines, i, line) {
    const char *problem = text_of(line, "problem");
    if (json_object_get(line, "problem") && text_is(line, "topic", topic) && count < LAB_PROBLEMS &&
        place_of(problem, problems, count) < 0)
      problems[count++] = problem;
  }
  return count;
}
