/* The picture of a trace: one step of every level on one axis of time, a row per level with a lane
   per track. A row too long for the axis is drawn as its first part and its last, with a break
   between them that says so. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/sizes.h"
#include "bench/trace.h"
#include "plot/page.h"

static const Colour LAUNCH = 0x8250df, KERNEL = 0x0969da, EARLY = 0xb6d4f8, WORK = 0x1a7f37,
                    WAIT = 0xd0d7de, BAND = 0xf6f8fa;

enum { WIDEST = 4 /* times the shortest row: what is longer has a break */ };
enum { LEFT = 262, RIGHT = CHART_WIDTH - MARGIN - 64, LANE_NAMES = 186, TOP = 140, FOOT = 62 };
enum { LANES = 6, LANE = 32, SLICE = 26, ROW_GAP = 22 };
enum { BREAK = 270, TAIL = 4 }; /* pixels; what follows a break is so much longer */
enum { NAME = 16, LABEL = 10, LEAST_LABEL = 7 };

/* One level's step. Pixels `left` to `right` show a part of it that begins at `from`. */
typedef struct {
  const Trace *trace;
  int level, launches;
  int64_t start, end; /* of the step, ns of the trace */
  double length;      /* us */
  int track[LANES], lanes;
  Canvas *page;
  int top, bottom;
  double span, scale; /* of the axis, us; pixels of a us */
  double from, left, right;
} Row;

/* ---- what is shown -------------------------------------------------------------------------- */

static bool has_kernels(int track) {
  return track >= TRACE_GPU && track < TRACE_TEAM;
}

/* Returns when a slice of the GPU begins to work: a kernel may start early, but then waits until
   the one that was launched before it has ended. */
static int64_t begin_of(const Trace *trace, const TraceEvent *slice) {
  const TraceEvent *before = NULL, *e = NULL;
  if (!has_kernels(slice->track)) return slice->start;
  while ((e = trace_next(trace, e, slice->level, TRACE_GPU, TRACE_TEAM)))
    if (e->start < slice->start && (!before || e->start > before->start)) before = e;
  const int64_t ready = before && before->end > slice->start ? before->end : slice->start;
  return ready < slice->end ? ready : slice->end;
}

/* Returns when the GPU begins a step; -1 if the trace does not have it. */
static int64_t start_of(const Trace *trace, int level, int step) {
  const TraceEvent *first = NULL, *e = NULL;
  while ((e = trace_next(trace, e, level, TRACE_GPU, TRACE_TEAM + TEAM_ROW + 1)))
    if (e->step == step && (!first || e->start < first->start)) first = e;
  return first ? begin_of(trace, first) : -1;
}

/* Returns the next slice of a track during the step: of kernels those of this step, of launches
   those that are of a step. */
static const TraceEvent *next_slice(const Row *r, const TraceEvent *e, int track) {
  while ((e = trace_next(r->trace, e, r->level, track, track + 1)))
    if (e->step >= 0 && (!has_kernels(track) || e->step == TRACE_SHOWN) && e->end > r->start &&
        e->start < r->end)
      break;
  return e;
}

/* Finds the step, and its lanes: the host, and the teams of blocks or the kernels' tracks. */
static bool find_row(const Trace *trace, int level, Row *r, Error *error) {
  *r = (Row){.trace = trace,
             .level = level,
             .launches = trace_slices(trace, level, TRACE_HOST, TRACE_GPU, TRACE_SHOWN),
             .start = start_of(trace, level, TRACE_SHOWN),
             .end = start_of(trace, level, TRACE_SHOWN + 1),
             .track = {TRACE_HOST},
             .lanes = 1};
  if (r->start < 0 || r->end <= r->start)
    return error_set(error, "the trace has no whole step %d of level %s", TRACE_SHOWN,
                     text_of(trace_level(trace, level), "name"));
  r->length = 1e-3 * (double)(r->end - r->start);
  const bool teams = trace_slices(trace, level, TRACE_TEAM, INT_MAX, TRACE_SHOWN) > 0;
  const int first = teams ? TRACE_TEAM : TRACE_GPU, end = teams ? first + TRACE_TEAMS : TRACE_TEAM;
  for (int track = first; r->lanes < LANES && track < end; track++)
    if (teams || next_slice(r, NULL, track)) r->track[r->lanes++] = track;
  return true;
}

static const char *lane_name(int track) {
  static const char *const teams[TRACE_TEAMS] = {
      [TEAM_ROW] = "row", [TEAM_HEAD] = "head", [TEAM_PATCH] = "patch", [TEAM_MATRIX] = "matrix"};
  return track >= TRACE_TEAM   ? teams[track - TRACE_TEAM]
         : track == TRACE_HOST ? "host"
         : track == TRACE_GPU  ? "GPU"
                               : "";
}

/* ---- drawing -------------------------------------------------------------------------------- */

/* A shorter label: "Z1" of "wait for Z1" and of "Z1 = W1 X", "W1" of "update W1", "update" of
   "update 5". */
static ShortText brief_of(const char *name) {
  const char *space = strchr(name, ' '), *equals = strstr(name, " ="), *last = strrchr(name, ' ');
  if (!space) return text_format("%s", "");
  if (equals || (last[1] >= '0' && last[1] <= '9'))
    return text_format("%.*s", (int)((equals ? equals : space) - name), name);
  return text_format("%s", strncmp(name, "wait for ", 9) == 0 ? name + 9 : space + 1);
}

/* Leaves a pixel between neighbours. The label, or else a shorter one, is written in letters of
   LABEL to LEAST_LABEL pixels if it fits. */
static void draw_slice(const Row *r, int64_t start, int64_t end, int top, const char *label,
                       Colour colour) {
  const double first = 1e-3 * (double)(start - r->start), last = 1e-3 * (double)(end - r->start);
  const double from = round(fmax(r->left + r->scale * (first - r->from), r->left));
  const double to = fmin(r->left + r->scale * (last - r->from), r->right);
  const double width = fmax(round(to) - from - 1, 1);
  if (to <= from || end <= start) return;
  canvas_rectangle(r->page, from, top + 0.5 * (LANE - SLICE), width, SLICE, colour);
  const ShortText brief = brief_of(label);
  const double room = width - 4;
  if (canvas_text_width(LEAST_LABEL, label) > room) label = brief.text;
  if (canvas_text_width(LEAST_LABEL, label) <= room)
    page_text_within(r->page, CENTRED, from + width / 2, top + (LANE + LABEL) / 2.0, LABEL, room,
                     page_ink_on(colour), label);
}

static void draw_part(const Row *r) {
  canvas_rectangle(r->page, r->left, r->top, r->right - r->left, r->bottom - r->top, BAND);
  for (int i = 0; i < r->lanes; i++) {
    const int track = r->track[i], top = r->top + i * LANE;
    for (const TraceEvent *e = NULL; (e = next_slice(r, e, track));) {
      const int64_t works = begin_of(r->trace, e);
      const Colour colour = has_kernels(track)                  ? KERNEL
                            : track == TRACE_HOST               ? LAUNCH
                            : strncmp(e->name, "wait ", 5) == 0 ? WAIT
                                                                : WORK;
      draw_slice(r, e->start, works, top, "", EARLY);
      draw_slice(r, works, e->end, top, track == TRACE_HOST ? "launch" : e->name, colour);
    }
  }
}

static void draw_zigzag(const Row *r, double x) {
  enum { TOOTH = 8 };
  for (int y = r->top, side = 0; y < r->bottom; y += TOOTH, side = TOOTH - side)
    canvas_line(r->page, x + side, y, x + TOOTH - side, y + TOOTH, 2, MARK);
}

/* Draws a break behind the part, and says what is left out; then the row's last part. */
static void draw_break(Row *r) {
  const double left = r->right, tail = (left - LEFT) * TAIL, middle = (r->top + r->bottom) / 2.0;
  const double start = r->length - tail / r->scale, out = start - (left - LEFT) / r->scale;
  const ShortText text[] = {text_format("break: %.0f us are left out,", out),
                            text_format("%.1f times this axis", out / r->span)};
  draw_zigzag(r, left + 4);
  draw_zigzag(r, RIGHT - tail - 12);
  for (int i = 0; i < 2; i++)
    page_text_within(r->page, STARTS, left + 22, middle - 4 + 22 * i, SMALL, BREAK - 44, MARK,
                     text[i].text);
  r->from = start;
  r->left = RIGHT - tail;
  r->right = RIGHT;
  draw_part(r);
}

/* Writes the row's names, and why the host's lane has no slices. */
static void draw_words(const Row *r) {
  const json_t *level = trace_level(r->trace, r->level);
  const ShortText below[] = {
      text_format(r->launches ? "%d launches a step" : "no launch", r->launches),
      text_format("%.3g us unrecorded", number_of(level, "us_per_step"))};
  page_text(r->page, STARTS, MARGIN, r->top + 18, NAME, INK, text_of(level, "name"));
  for (int i = 0; i < 2; i++)
    page_text_within(r->page, STARTS, MARGIN, r->top + 38 + 19 * i, SMALL, LANE_NAMES - MARGIN,
                     PALE, below[i].text);
  for (int i = 0; i < r->lanes; i++)
    page_text(r->page, ENDS, LEFT - 12, r->top + (i + 0.5) * LANE + SMALL / 2.0, SMALL, PALE,
              lane_name(r->track[i]));
  if (r->launches == 0)
    page_text_within(r->page, STARTS, LEFT + 8, r->top + 0.5 * LANE + LABEL / 2.0, LABEL,
                     r->right - LEFT - 16, PALE,
                     text_format("idle: %.0f steps are queued", number_of(level, "range")).text);
}

static void draw_row(Row *r) {
  const bool breaks = r->length > r->span;
  r->scale = (RIGHT - LEFT) / r->span;
  r->left = LEFT;
  r->right = breaks ? floor(LEFT + (RIGHT - LEFT - BREAK) / (1.0 + TAIL))
                    : round(LEFT + r->scale * r->length);
  draw_part(r);
  draw_words(r);
  if (breaks) draw_break(r);
  canvas_rectangle(r->page, r->right, r->top, 2, r->bottom - r->top, MARK);
  page_text(r->page, STARTS, r->right + 9, (r->top + r->bottom + TEXT) / 2.0, TEXT, MARK,
            text_format("%.3g us", r->length).text);
}

bool trace_draw(const Trace *trace, const char *path, Error *error) {
  const Key keys[] = {{LAUNCH, "the host launches"},
                      {KERNEL, "a kernel runs"},
                      {EARLY, "it waits for the one before"},
                      {WORK, "a team of a block works"},
                      {WAIT, "it waits for mail"}};
  Axis axis = {.label = "us",
               .from = LEFT,
               .to = RIGHT,
               .near = TOP - ROW_GAP,
               .far = TOP - 10,
               .fractions = true};
  Row rows[TRACE_LEVELS];
  Canvas page;
  double shortest = INFINITY;
  const int levels = trace_levels(trace);
  if (levels < 1) return error_set(error, "the trace has no levels to draw in %s", path);
  for (int i = 0; i < levels; i++) {
    if (!find_row(trace, i, &rows[i], error)) return false;
    rows[i].top = axis.near + ROW_GAP;
    axis.near = rows[i].bottom = rows[i].top + rows[i].lanes * LANE;
    shortest = fmin(shortest, rows[i].length);
  }
  for (int i = 0; i < levels; i++) /* as long as the longest row that has no break */
    if (rows[i].length <= WIDEST * shortest) axis.high = fmax(axis.high, rows[i].length);
  const ShortText subtitle =
      text_format("%.50s, %s. Of level epoch: the teams of two blocks", text_of(trace->head, "gpu"),
                  text_of(trace->head, "network"));
  if (!page_open(&page, "One training step at each level of fusion", subtitle.text, CHART_WIDTH,
                 axis.near + FOOT, error))
    return false;
  page_legend(&page, RIGHT, 105, keys, LENGTH(keys));
  page_axis(&page, &axis);
  for (Row *r = rows; r < rows + levels; r++) {
    r->page = &page;
    r->span = axis.high;
    draw_row(r);
  }
  return page_save(&page, path, error);
}
