/* Chrome's Trace Event Format, as far as a trace of ours must keep to it. For tests only: what goes
   wrong here fails the running cmocka test. */
#pragma once

#include "measure/record.h"
#include "support/test.h"

/* Microseconds with three decimals, as nanoseconds. */
static inline int64_t time_of(const json_t *event, const char *key) {
  const double us = number_of(event, key);
  assert_true(us >= 0);
  return llround(1e3 * us);
}

/* The track has a name, the process too. */
static inline void assert_named(const json_t *events, const json_t *event) {
  const json_t *e;
  size_t i;
  bool process = false, track = false;
  json_array_foreach(events, i, e) {
    if (!text_is(e, "ph", "M")) break; /* names come first */
    if (!line_same(e, event, "pid")) continue;
    process |= text_is(e, "name", "process_name");
    track |= text_is(e, "name", "thread_name") && line_same(e, event, "tid");
  }
  if (!process || !track) fail_msg("%s lies on a track without a name", text_of(event, "name"));
}

/* Some slice of its track holds the end of an arrow; the other end is there, once, and not before
   its beginning. */
static inline void assert_arrow(const json_t *events, const json_t *event) {
  const bool head = text_is(event, "ph", "f");
  const int64_t at = time_of(event, "ts");
  const json_t *e;
  size_t i;
  int slices = 0, others = 0;
  json_array_foreach(events, i, e) {
    if (text_is(e, "ph", "X"))
      slices += line_same(e, event, "pid") && line_same(e, event, "tid") &&
                time_of(e, "ts") <= at && at < time_of(e, "ts") + time_of(e, "dur");
    if (e == event || !json_object_get(e, "id") || !line_same(e, event, "id")) continue;
    others++;
    assert_string_equal(text_of(e, "ph"), head ? "s" : "f");
    assert_string_equal(text_of(e, "name"), text_of(event, "name"));
    assert_string_equal(text_of(e, "cat"), text_of(event, "cat"));
    assert_true(line_same(e, event, "pid"));
    assert_true(head ? time_of(e, "ts") <= at : time_of(e, "ts") >= at);
  }
  if (slices == 0) fail_msg("an arrow, %s, begins or ends in no slice", text_of(event, "name"));
  assert_int_equal(others, 1);
  if (head) assert_string_equal(text_of(event, "bp"), "e");
}

enum { LEVELS = 4, TRACKS = 1000 };

/* The file is JSON; its events have the keys and types of their phase; names of processes and
   tracks come first and every slice's track has one; times are sorted and not negative; the slices
   of a track do not overlap; arrows have two ends, in order, each in a slice. Returns the slices;
   *arrows is how many there are. Every nth end of an arrow is looked up: each takes a search
   through all events. */
static inline int assert_format(const char *path, int nth, int *arrows) {
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
    assert_true(number_of(e, "pid") >= 1);
    assert_true(*text_of(e, "name"));
    if (text_is(e, "ph", "M")) {
      assert_true(json_is_object(json_object_get(e, "args")));
      continue;
    }
    assert_true(time_of(e, "ts") >= last); /* sorted */
    last = time_of(e, "ts");
    const int level = (int)number_of(e, "pid"), track = (int)number_of(e, "tid");
    assert_in_range(track, 1, TRACKS - 1);
    assert_in_range(level, 1, LEVELS);
    if (!text_is(e, "ph", "X")) {
      assert_true(text_is(e, "ph", "s") || text_is(e, "ph", "f"));
      if (++*arrows % nth == 0) assert_arrow(events, e);
      continue;
    }
    int64_t *end = &ends[level][track];
    if (*end == 0) assert_named(events, e);
    assert_true(time_of(e, "dur") > 0);
    if (last < *end) fail_msg("%s overlaps another slice", text_of(e, "name"));
    *end = last + time_of(e, "dur");
    slices++;
  }
  *arrows /= 2;
  json_decref(root);
  return slices;
}
