#include "support/test.h"
#include "support/trace_format.h"

#include <stdbool.h>

#include <jansson.h>
#include <math.h>
#include <string.h>

static double number_of(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  if (!json_is_number(value)) fail_msg("%s is not a number", key);
  return json_number_value(value);
}

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  if (!text) fail_msg("%s is not text", key);
  return text;
}

/* Microseconds with three decimals, as nanoseconds. */
static int64_t time_of(const json_t *event, const char *key) {
  const double us = number_of(event, key);
  assert_true(us >= 0);
  return llround(1e3 * us);
}

static bool same_track(const json_t *a, const json_t *b) {
  return number_of(a, "pid") == number_of(b, "pid") && number_of(a, "tid") == number_of(b, "tid");
}

/* The track has a name, the process too. */
static void assert_named(const json_t *events, const json_t *event) {
  const json_t *e;
  size_t i;
  bool process = false, track = false;
  json_array_foreach(events, i, e) {
    if (strcmp(text_of(e, "ph"), "M") != 0) break; /* names come first */
    if (strcmp(text_of(e, "name"), "process_name") == 0)
      process |= number_of(e, "pid") == number_of(event, "pid");
    if (strcmp(text_of(e, "name"), "thread_name") == 0) track |= same_track(e, event);
  }
  if (!process || !track) fail_msg("%s lies on a track without a name", text_of(event, "name"));
}

/* Some slice of its track holds the event. */
static void assert_in_a_slice(const json_t *events, const json_t *event) {
  const int64_t at = time_of(event, "ts");
  const json_t *e;
  size_t i;
  json_array_foreach(events, i, e) if (strcmp(text_of(e, "ph"), "X") == 0 && same_track(e, event) &&
                                       time_of(e, "ts") <= at &&
                                       at < time_of(e, "ts") + time_of(e, "dur")) return;
  fail_msg("an arrow, %s, begins or ends in no slice", text_of(event, "name"));
}

/* The other end of an arrow is there, once, and not before its beginning. */
static void assert_paired(const json_t *events, const json_t *event) {
  const bool head = strcmp(text_of(event, "ph"), "f") == 0;
  const json_t *e;
  size_t i;
  int others = 0;
  json_array_foreach(events, i, e) {
    if (e == event || !json_object_get(e, "id") || number_of(e, "id") != number_of(event, "id"))
      continue;
    others++;
    assert_string_equal(text_of(e, "ph"), head ? "s" : "f");
    assert_string_equal(text_of(e, "name"), text_of(event, "name"));
    assert_string_equal(text_of(e, "cat"), text_of(event, "cat"));
    assert_true(number_of(e, "pid") == number_of(event, "pid"));
    assert_true(head ? time_of(e, "ts") <= time_of(event, "ts")
                     : time_of(e, "ts") >= time_of(event, "ts"));
  }
  assert_int_equal(others, 1);
  if (head) assert_string_equal(text_of(event, "bp"), "e");
}

enum { LEVELS = 4, TRACKS = 1000 };

int assert_format(const char *path, int nth, int *arrows) {
  int64_t ends[LEVELS + 1][TRACKS] = {{0}}; /* of the last slice of a track */
  json_error_t fault;
  json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &fault);
  if (!root) fail_msg("%s, line %d: %s", path, fault.line, fault.text);
  const json_t *events = json_object_get(root, "traceEvents"), *e;
  int slices = 0;
  int64_t last = 0;
  size_t i;
  *arrows = 0;
  assert_string_equal(text_of(root, "displayTimeUnit"), "ns");
  assert_true(json_is_array(events));
  json_array_foreach(events, i, e) {
    const char *phase = text_of(e, "ph");
    assert_true(number_of(e, "pid") >= 1);
    assert_true(*text_of(e, "name"));
    if (strcmp(phase, "M") == 0) {
      assert_true(json_is_object(json_object_get(e, "args")));
      continue;
    }
    assert_true(time_of(e, "ts") >= last); /* sorted */
    last = time_of(e, "ts");
    assert_true(number_of(e, "tid") >= 1);
    if (strcmp(phase, "X") == 0) {
      assert_true(number_of(e, "pid") <= LEVELS && number_of(e, "tid") < TRACKS);
      int64_t *end = &ends[(int)number_of(e, "pid")][(int)number_of(e, "tid")];
      if (*end == 0) assert_named(events, e);
      assert_true(time_of(e, "dur") > 0);
      if (last < *end) fail_msg("%s overlaps another slice", text_of(e, "name"));
      *end = last + time_of(e, "dur");
      slices++;
      continue;
    }
    assert_true(strcmp(phase, "s") == 0 || strcmp(phase, "f") == 0);
    if (++*arrows % nth != 0) continue;
    assert_in_a_slice(events, e);
    assert_paired(events, e);
  }
  *arrows /= 2;
  json_decref(root);
  return slices;
}
