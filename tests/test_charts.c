/* Charts of lines, of dots and of time: where their marks are, read from the list of what they
   draw. */
#include <stdio.h>

#include "plot/dot_chart.h"
#include "plot/line_chart.h"
#include "plot/page.h"
#include "plot/timeline.h"
#include "support/marks.h"

static Error error;

static void assert_at(double got, double wanted) {
  if (fabs(got - wanted) > 0.51) fail_msg("%g is not %g", got, wanted); /* half a pixel */
}

/* The middle of a text. */
static double middle_of(const char *text) {
  const Mark *mark = text_mark(text);
  if (!mark) fail_msg("nothing says %s", text);
  return (mark->x + mark->x1) / 2;
}

/* ---- line charts ---------------------------------------------------------------------------- */

static const double one_to_five[] = {1, 2, 3, 4, 5}, rising[] = {10, 20, 30, 40, 50},
                    dipping[] = {40, 12, 11, 12, 40};

static CurvePanel panel_of(const Curve *curves, int count) {
  return (CurvePanel){.title = "panel",
                      .x = {"epoch", false, false},
                      .y = {"loss", false, false},
                      .curves = curves,
                      .count = count,
                      .mark = NAN,
                      .mark_label = "marked"};
}

static void draw(const CurvePanel *panels, int count) {
  const LineChart chart = {"title", "subtitle", panels, count};
  if (!line_chart_draw(&chart, "chart.png", &error)) fail_msg("%s", error.text);
}

static void draw_one(const double *x, const double *y, int count, CurvePanel panel) {
  const Curve curve = {"curve", x, y, count};
  panel.curves = &curve;
  panel.count = 1;
  draw(&panel, 1);
}

/* Dot `i` of a curve. */
static const Mark *dot(int curve, int i) {
  for (const Mark *m = drawn.mark; m < drawn.end; m++)
    if (m->kind == IS_LINE && same_colour(m->colour, page_series[curve]) && m->x == m->x1 &&
        m->y == m->y1 && i-- == 0)
      return m;
  fail_msg("curve %d has too few dots", curve);
  return NULL;
}

/* Where the number is on the y axis: the middle of its letters. */
static double row_of(const char *number) {
  const Mark *mark = text_mark(number);
  if (!mark) fail_msg("nothing says %s", number);
  return (mark->y + mark->y1) / 2;
}

TEST(points_are_where_the_numbers_say) {
  const Curve curves[] = {{"rising", one_to_five, rising, 5}, {"dipping", one_to_five, dipping, 5}};
  const CurvePanel panel = panel_of(curves, 2);
  draw(&panel, 1);
  assert_int_equal(drawn.width, CHART_WIDTH);
  for (int i = 0; i < 5; i++) {
    char x[12], y[12];
    snprintf(x, sizeof x, "%d", i + 1);
    snprintf(y, sizeof y, "%d", 10 * (i + 1));
    assert_at(dot(0, i)->x, middle_of(x));
    assert_at(dot(1, i)->x, middle_of(x));
    assert_at(dot(0, i)->y, row_of(y));
  }
  assert_at(dot(1, 0)->y, dot(0, 3)->y);
  assert_at(dot(1, 2)->y, dot(0, 0)->y - (dot(0, 0)->y - dot(0, 1)->y) / 10);
  assert_int_equal(count_marks(IS_LINE, page_series[0]), 5 + 4 + 1); /* dots, lines, legend */
  const Mark *name = text_mark("dipping"), *swatch = mark_of(IS_LINE, page_series[1], 9);
  assert_true(text_mark("rising")->x1 < swatch->x && swatch->x1 < name->x &&
              name->y < dot(0, 4)->y);
  assert_true(text_mark("epoch") && text_mark("loss") && text_mark("panel"));
}

/* More than 64 points have no dots, but for the first and those after a gap. */
TEST(many_points_are_a_line) {
  double x[100], y[100];
  for (int i = 0; i < 100; i++) x[i] = y[i] = i;
  draw_one(x, y, 100, panel_of(NULL, 0));
  assert_int_equal(count_marks(IS_LINE, page_series[0]), 1 + 99 + 1);
  draw_one(x, y, 64, panel_of(NULL, 0));
  assert_int_equal(count_marks(IS_LINE, page_series[0]), 64 + 63 + 1);
}

TEST(axes_from_zero) {
  CurvePanel panel = panel_of(NULL, 0);
  draw_one(one_to_five, rising, 5, panel);
  assert_null(text_mark("0"));
  panel.y.from_zero = true;
  draw_one(one_to_five, rising, 5, panel);
  const Mark *across = mark_of(IS_RECTANGLE, (Colour){140, 149, 159}, 0); /* the x axis */
  assert_at(row_of("0"), across->y);
  assert_at(2 * dot(0, 0)->y, dot(0, 1)->y + across->y);
  static const double equal[] = {7, 7, 7, 7, 7}, zeros[] = {0, 0, 0, 0, 0};
  for (int i = 0; i < 4; i++) { /* one value: the axis still has a length */
    panel.y.from_zero = i % 2;
    draw_one(one_to_five, i < 2 ? equal : zeros, 5, panel);
    across = mark_of(IS_RECTANGLE, (Colour){140, 149, 159}, 0);
    for (int k = 0; k < 5; k++) assert_true(dot(0, k)->y > 158 && dot(0, k)->y <= across->y);
    assert_at(dot(0, 4)->y, row_of(i < 2 ? "7" : "0"));
  }
}

TEST(logarithms) {
  static const double powers[] = {1, 10, 100, 1000}, x[] = {1, 2, 4, 8}, odd[] = {1, 3, 10, 20};
  CurvePanel panel = panel_of(NULL, 0);
  panel.x.logarithmic = panel.y.logarithmic = true;
  draw_one(x, powers, 4, panel);
  for (int i = 0; i < 4; i++) { /* all on one straight line */
    char number[32];
    snprintf(number, sizeof number, "%g", x[i]);
    assert_at(dot(0, i)->x, middle_of(number));
    assert_at(dot(0, i)->x, dot(0, 0)->x + i * (dot(0, 3)->x - dot(0, 0)->x) / 3);
    assert_at(dot(0, i)->y, dot(0, 0)->y + i * (dot(0, 3)->y - dot(0, 0)->y) / 3);
  }
  assert_at(dot(0, 2)->y, row_of("100"));
  draw_one(odd, powers, 4, panel); /* no powers of two: 1, 2 and 5 times those of ten */
  assert_at(dot(0, 2)->x, middle_of("10"));
  assert_true(text_mark("5") && !text_mark("4") && !text_mark("8"));
}

/* Steps are 1, 2 or 5 times a power of ten, whole numbers where all are. A logarithmic axis has
   those multiples of powers; more digits, or fewer powers, as there is room. */
TEST(numbers_at_an_axis) {
  static const struct {
    bool logarithmic;
    double low, high;
    AxisNumbers numbers;
    int count;
    const char *first, *second;
  } axes[] = {{false, 0, 10, ANY_NUMBERS, 11, "0", "1"},
              {false, 0, 1, ANY_NUMBERS, 11, "0.0", "0.1"},
              {false, 0, 1, WHOLE_NUMBERS, 2, "0", "1"},
              {false, -3, 57, ANY_NUMBERS, 12, "0", "5"},
              {false, -0.03, 0.02, ANY_NUMBERS, 11, "-0.030", "-0.025"},
              {false, 1e6, 2.2e6, ANY_NUMBERS, 13, "1000000", "1100000"},
              {true, 2, 2.5, ANY_NUMBERS, 3, "100", "200"},
              {true, 2, 3, ANY_NUMBERS, 4, "100", "200"},
              {true, -1, 2.9, ANY_NUMBERS, 12, "0.1", "0.2"},
              {true, 2, 6, ANY_NUMBERS, 5, "100", "1000"},
              {true, 2, 26, ANY_NUMBERS, 13, "100", "10000"},
              {true, 0, 1, POWERS_OF_TWO, 4, "1", "2"},
              {true, 2, 12, POWERS_OF_TWO, 11, "128", "1024"}};
  Tick ticks[AXIS_TICKS];
  for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
    const Axis axis = {100, 200, axes[i].low, axes[i].high, axes[i].logarithmic};
    const int count = axis_ticks(&axis, 12, axes[i].numbers, ticks);
    assert_string_equal(ticks[0].text, axes[i].first);
    assert_string_equal(ticks[1].text, axes[i].second);
    assert_int_equal(count, axes[i].count);
    for (int t = 0; t < count; t++) assert_at(ticks[t].at, axis_place(&axis, atof(ticks[t].text)));
  }
}

TEST(gaps) {
  const double y[] = {10, 20, NAN, 40, INFINITY};
  draw_one(one_to_five, y, 5, panel_of(NULL, 0));
  assert_int_equal(count_marks(IS_LINE, page_series[0]), 3 + 1 + 1);
  assert_at(dot(0, 2)->x, middle_of("4"));
  assert_at(dot(0, 2)->y, row_of("40"));
  assert_true(middle_of("5") > dot(0, 2)->x + 50); /* the axis reaches over gaps */
  assert_null(text_mark("50"));
}

/* A mark that has a place widens the axis and is drawn; one that has none does neither. */
TEST(marks) {
  static const struct {
    double mark;
    bool logarithmic, drawn;
  } marks[] = {{80, false, true},        {-30, false, true},  {30, false, true},
               {80, true, true},         {0, true, false},    {-1, true, false},
               {INFINITY, false, false}, {NAN, false, false}, {NAN, true, false}};
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
    CurvePanel panel = panel_of(NULL, 0);
    panel.y.logarithmic = marks[i].logarithmic;
    draw_one(one_to_five, rising, 5, panel);
    const double low = dot(0, 0)->y, high = dot(0, 4)->y;
    panel.mark = marks[i].mark;
    draw_one(one_to_five, rising, 5, panel);
    const Mark *line = mark_of(IS_RECTANGLE, MARK, 0), *text = text_mark("marked");
    assert_int_equal(line && text, marks[i].drawn);
    assert_int_equal(!line && !text, !marks[i].drawn);
    const bool widens = marks[i].drawn && marks[i].mark != 30;
    assert_int_equal(fabs(low - dot(0, 0)->y) + fabs(high - dot(0, 4)->y) > 1, widens);
    if (!line) continue;
    const double y = (line->y + line->y1) / 2;
    if (marks[i].mark == 30) assert_at(y, row_of("30"));
    if (marks[i].mark == 80) assert_true(y < dot(0, 4)->y - 20 && text->y1 < y);
    if (marks[i].mark == -30) assert_true(y > dot(0, 0)->y + 20);
  }
}

TEST(panels) {
  const Curve first = {"rising", one_to_five, rising, 5}, second = {"dip", one_to_five, dipping, 5};
  const CurvePanel panels[] = {panel_of(&first, 1), panel_of(&second, 1)};
  draw(panels, 2);
  assert_at(dot(0, 4)->y, row_of("50"));
  assert_true(dot(0, 5)->y - dot(0, 4)->y > 300); /* below the first panel */
  assert_true(dot(0, 5)->y < dot(0, 7)->y && dot(0, 5)->y == dot(0, 9)->y);
  assert_true(text_mark("dip")->y > dot(0, 0)->y);
}

TEST(bad_line_charts) {
  static const double negative[] = {-1, -2, 0, -4, -5};
  const Curve none = {"none", one_to_five, rising, 0}, below = {"below", one_to_five, negative, 5};
  CurvePanel empty = panel_of(&none, 1), logarithmic = panel_of(&below, 1),
             many = panel_of(&below, LINE_CHART_MAX + 1);
  logarithmic.y.logarithmic = true;
  const struct {
    LineChart chart;
    const char *reason;
  } bad[] = {{{"a", "", &empty, 1}, "'a' has no point"},
             {{"b", "", &logarithmic, 1}, "'b' has no point"},
             {{"", "", &many, 1}, "9 curves"},
             {{"", "", &empty, 0}, "0 panels"},
             {{"", "", &empty, LINE_CHART_PANELS + 1}, "9 panels"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_false(line_chart_draw(&bad[i].chart, "chart.png", &error));
    assert_non_null(strstr(error.text, bad[i].reason));
  }
}

/* ---- dot charts ----------------------------------------------------------------------------- */

static const Colour BLUE = {9, 105, 218};
static const DotChartRow powers[] = {
    {"hundred", 100, {9, 105, 218}}, {"ten", 10, {9, 105, 218}}, {"one", 1, {9, 105, 218}}};

static DotChart chart_of(const DotChartRow *rows, int count) {
  return (DotChart){"title", "subtitle", "ms", rows, count, 0, "marked"};
}

static void draw_dots(const DotChart *chart) {
  if (!dot_chart_draw(chart, "chart.png", &error)) fail_msg("%s", error.text);
  assert_int_equal(count_marks(IS_LINE, BLUE), chart->count); /* dots, and no bars */
}

TEST(places_are_logarithms) {
  DotChart chart = chart_of(powers, 3);
  draw_dots(&chart);
  const Mark *hundred = mark_of(IS_LINE, BLUE, 0), *ten = mark_of(IS_LINE, BLUE, 1),
             *one = mark_of(IS_LINE, BLUE, 2);
  assert_int_equal(drawn.width, CHART_WIDTH);
  assert_true(ten->x - one->x > 100 && fabs(hundred->x - 2 * ten->x + one->x) < 1.1);
  assert_at(hundred->x, middle_of("100"));
  assert_true(text_mark("hundred")->x1 < one->x && text_mark("1.00 ms")->x > one->x);
  assert_true(text_mark("10.0 ms")->y1 > ten->y && text_mark("100 ms")->y < ten->y);
  assert_null(text_mark("marked"));
  chart.mark = 10;
  draw_dots(&chart);
  const Mark *mark = mark_of(IS_RECTANGLE, MARK, 0);
  ten = mark_of(IS_LINE, BLUE, 1);
  assert_true(mark < ten && text_mark("marked")); /* the dot lies on the mark's line */
  assert_at((mark->x + mark->x1) / 2, ten->x);
  chart.mark = 0.01; /* left of all dots */
  draw_dots(&chart);
  assert_at(mark_of(IS_RECTANGLE, MARK, 0)->x + 1, middle_of("0.01"));
}

/* A long title is written smaller, to the margin on the right: saving asserts that. */
TEST(long_titles_fit) {
  DotChart chart = chart_of(powers, 3);
  chart.title = chart.subtitle = "A title of so many letters that it would not fit the picture at "
                                 "the height that a title has otherwise, nor at half of it";
  draw_dots(&chart);
  assert_at(drawn.mark[0].x1, CHART_WIDTH - MARGIN);
}

TEST(bad_dot_charts) {
  static const double bad[] = {0, -1, (double)NAN, (double)INFINITY};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const DotChartRow row = {"a row", bad[i], {0, 0, 0}};
    const DotChart chart = chart_of(&row, 1);
    assert_false(dot_chart_draw(&chart, "chart.png", &error));
    assert_non_null(strstr(error.text, "'a row'"));
  }
  const DotChart none = chart_of(powers, 0), many = chart_of(powers, DOT_CHART_MAX + 1);
  assert_false(dot_chart_draw(&none, "chart.png", &error));
  assert_false(dot_chart_draw(&many, "chart.png", &error));
  assert_non_null(strstr(error.text, "101"));
  const DotChart equal = chart_of(powers, 1); /* one value: the axis still has a length */
  draw_dots(&equal);
  assert_at(mark_of(IS_LINE, BLUE, 0)->x, middle_of("100"));
}

/* ---- timelines ------------------------------------------------------------------------------ */

/* A row of 10 on an axis of 20, and one of 100, whose slices lie at its start and its end. */
TEST(slices_lie_where_they_belong) {
  static const Colour red = {200, 0, 0}, blue = {0, 0, 200};
  const TimelineSlice whole = {0, 10, "whole", "BRIEF", red};
  const TimelineSlice ends[] = {
      {-5, 1, "", "", blue}, {50, 52, "middle", "", red}, {99, 200, "far too long", "c", blue}};
  const TimelineRow rows[] = {
      {.name = "a",
       .below = {"b", "c"},
       .length = 10,
       .lane = {{"d", "a note", &whole, 1}},
       .lanes = 1},
      {.name = "e", .length = 100, .lane = {{"f", NULL, ends, 3}}, .lanes = 1}};
  const Timeline chart = {.title = "t",
                          .subtitle = "s",
                          .unit = "us",
                          .span = 20,
                          .row = rows,
                          .rows = 2,
                          .key = {{red, "works"}},
                          .keys = 1};
  if (!timeline_draw(&chart, "time.png", &error)) fail_msg("%s", error.text);
  assert_int_equal(drawn.width, CHART_WIDTH);
  const double left = middle_of("0"), right = middle_of("20"), part = (right - left) / 20;
  const Mark *slice = mark_of(IS_RECTANGLE, red, 1); /* after the key's */
  assert_at(slice->x, left);
  assert_at(slice->x1 + 1, (left + right) / 2);
  assert_true(slice->y > 140 && slice->y1 < 172);
  assert_at(middle_of("whole"), (slice->x + slice->x1) / 2);
  assert_int_equal(count_marks(IS_RECTANGLE, red),
                   2); /* the middle of the second row is left out */
  assert_int_equal(count_marks(IS_RECTANGLE, blue), 2);
  const Mark *first = mark_of(IS_RECTANGLE, blue, 0), *last = mark_of(IS_RECTANGLE, blue, 1);
  assert_true(first->y > 194 && first->y1 < 226);
  assert_at(first->x, left);
  assert_at(first->x1 + 1, left + part);
  assert_at(last->x1 + 1, right);
  assert_at(last->x, right - part);
  assert_true(text_mark("break: 86 us are left out,") && text_mark("4.3 times") && text_mark("c") &&
              !text_mark("far") && !text_mark("BRIEF"));
  assert_true(text_mark("100 us") && text_mark("10 us") && text_mark("a note") &&
              text_mark("works"));
}

TEST(timelines_that_cannot_be) {
  const TimelineRow rows[] = {{.name = "a", .length = 0, .lanes = 1},
                              {.name = "b", .length = 1, .lanes = 0},
                              {.name = "c", .length = INFINITY, .lanes = 1}};
  const struct {
    int first, rows, keys;
    double span;
    const char *reason;
  } bad[] = {{0, 0, 0, 1, "0 rows"}, {0, TIMELINE_ROWS + 1, 0, 1, "9 rows"},
             {0, 1, 7, 1, "7 keys"}, {0, 1, 0, 1, "'a'"},
             {1, 1, 0, 1, "'b'"},    {2, 1, 0, 1, "'c'"},
             {0, 1, 0, 0, "span"},   {0, 1, 0, INFINITY, "span"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const Timeline chart = {.title = "",
                            .subtitle = "",
                            .unit = "",
                            .span = bad[i].span,
                            .row = rows + bad[i].first,
                            .rows = bad[i].rows,
                            .keys = bad[i].keys};
    assert_false(timeline_draw(&chart, "time.png", &error));
    assert_non_null(strstr(error.text, bad[i].reason));
  }
}
