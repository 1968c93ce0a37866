/* A chart of what ran when: rows, one above the other, on one axis of time. A row has lanes, a lane
   has slices. A row too long for the axis is drawn as its first part and its last, with a break
   between them that says so. */
#pragma once

#include "plot/page.h"

typedef struct {
  double start, end;         /* what lies outside 0 .. the row's length is cut off */
  const char *label, *brief; /* the one that fits is drawn; either may be "" */
  Colour colour;
} TimelineSlice;

typedef struct {
  const char *name;
  const char *note; /* written where there are no slices; NULL: nothing */
  const TimelineSlice *slices;
  int count;
} TimelineLane;

enum { TIMELINE_LANES = 6, TIMELINE_ROWS = 8, TIMELINE_KEYS = 6 };

typedef struct {
  const char *name, *below[2]; /* in larger letters; under it */
  double length;               /* above 0 */
  TimelineLane lane[TIMELINE_LANES];
  int lanes;
} TimelineRow;

typedef struct {
  const char *title, *subtitle;
  const char *unit; /* of the axis */
  double span;      /* of the axis, from 0, above 0 */
  const TimelineRow *row;
  int rows;
  Key key[TIMELINE_KEYS];
  int keys;
} Timeline;

/* Replaces the file `path` by the chart as a PNG. Fails without memory, or if the file cannot be
   written. */
bool timeline_draw(const Timeline *chart, const char *path, Error *error);
