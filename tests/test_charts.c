/* Charts of lines and of dots, and pictures with what a network saw: where their marks are, read
   from the list of what they draw. */
#include "plot/dot_chart.h"
#include "plot/line_chart.h"
#include "plot/seen.h"
#include "support/marks.h"

static const char path[] = "chart.png";

/* ---- line charts ---------------------------------------------------------------------------- */

static const double one_to_five[] = {1, 2, 3, 4, 5}, rising[] = {10, 20, 30, 40, 50},
                    dipping[] = {40, 12, 11, 12, 40};

static LineChart chart;

/* Begins a chart, if it has no panel yet, and adds one with a curve. */
static CurvePanel *add(const char *key, const char *name, const double *x, const double *y,
                       int count) {
  chart.title = "title";
  chart.subtitle = "subtitle";
  CurvePanel *panel = line_chart_panel(&chart, key);
  panel->x.label = panel->y.label = "label";
  for (int i = 0; i < count; i++)
    line_chart_add(&chart, panel, line_chart_curve(panel, name), x[i], y[i]);
  return panel;
}

static void draw(void) {
  OK(line_chart_draw(&chart, path, &error));
}

static void draw_one(const double *x, const double *y, int count, Axis x_axis, Axis y_axis) {
  CurvePanel *panel = add("", "curve", x, y, count);
  panel->x = x_axis;
  panel->y = y_axis;
  panel->x.label = panel->y.label = "label";
  draw();
}

static const Axis linear, from_zero = {.from_zero = true}, logarithmic = {.logarithmic = true};

/* Dot `i` of a curve. */
static const Mark *dot(int curve, int i) {
  for (const Mark *m = mark_of(IS_LINE, page_series[curve], 0); m < drawn.end; m++)
    if (m->kind == IS_LINE && m->colour == page_series[curve] && m->x == m->x1 && m->y == m->y1 &&
        i-- == 0)
      return m;
  fail_msg("curve %d has too few dots", curve);
  return NULL;
}

TEST(points_are_where_the_numbers_say) {
  CurvePanel *panel = add("key", "rising", one_to_five, rising, 5);
  add("key", "dipping", one_to_five, dipping, 5);
  panel->title = "panel";
  panel->x.label = "epoch";
  panel->y.label = "loss";
  draw();
  assert_int_equal(drawn.width, CHART_WIDTH);
  for (int i = 0; i < 5; i++) {
    const char x[] = {(char)('1' + i), '\0'}, y[] = {x[0], '0', '\0'};
    assert_at(dot(0, i)->x, middle_of(x));
    assert_at(dot(1, i)->x, middle_of(x));
    assert_at(dot(0, i)->y, row_of(y));
  }
  assert_at(dot(1, 0)->y, dot(0, 3)->y);
  assert_at(dot(1, 2)->y, dot(0, 0)->y - (dot(0, 0)->y - dot(0, 1)->y) / 10);
  assert_int_equal(count_marks(IS_LINE, page_series[0]), 5 + 4); /* dots, lines */
  const Mark *name = text_mark("dipping"), *swatch = mark_of(IS_RECTANGLE, page_series[1], 0);
  assert_true(text_mark("rising")->x1 < swatch->x && swatch->x1 < name->x &&
              name->y < dot(0, 4)->y);
  assert_says("epoch", "loss", "panel");
  assert_true(dot(0, 0) > dot(1, 4)); /* the first curve is drawn last */
}

/* More than 64 points have no dots, but for the first and those after a gap. */
TEST(many_points_are_a_line) {
  double x[100];
  for (int i = 0; i < 100; i++) x[i] = i;
  draw_one(x, x, 100, linear, linear);
  assert_int_equal(count_marks(IS_LINE, page_series[0]), 1 + 99);
  draw_one(x, x, 64, linear, linear);
  assert_int_equal(count_marks(IS_LINE, page_series[0]), 64 + 63);
}

TEST(axes_from_zero) {
  static const double equal[] = {7, 7, 7, 7, 7}, zeros[] = {0, 0, 0, 0, 0};
  draw_one(one_to_five, rising, 5, linear, linear);
  assert_null(text_mark("0"));
  draw_one(one_to_five, rising, 5, linear, from_zero);
  const Mark *across = mark_of(IS_RECTANGLE, FAINT, 0); /* the x axis */
  assert_at(row_of("0"), across->y);
  assert_at(2 * dot(0, 0)->y, dot(0, 1)->y + across->y);
  for (int i = 0; i < 4; i++) { /* one value: the axis still has a length */
    draw_one(one_to_five, i < 2 ? equal : zeros, 5, linear, i % 2 ? from_zero : linear);
    assert_in_range(dot(0, 0)->y, 158, mark_of(IS_RECTANGLE, FAINT, 0)->y);
    assert_at(dot(0, 4)->y, dot(0, 0)->y);
    assert_at(dot(0, 4)->y, row_of(i < 2 ? "7" : "0"));
  }
}

TEST(logarithms) {
  static const double powers[] = {1, 10, 100, 1000}, x[] = {1, 2, 4, 8}, odd[] = {1, 3, 10, 20};
  draw_one(x, powers, 4, logarithmic, logarithmic);
  for (int i = 0; i < 4; i++) { /* all on one straight line */
    assert_at(dot(0, i)->x, middle_of((char[]){(char)('0' + (1 << i)), '\0'}));
    assert_at(dot(0, i)->x, dot(0, 0)->x + i * (dot(0, 3)->x - dot(0, 0)->x) / 3);
    assert_at(dot(0, i)->y, dot(0, 0)->y + i * (dot(0, 3)->y - dot(0, 0)->y) / 3);
  }
  assert_at(dot(0, 2)->y, row_of("100"));
  draw_one(odd, powers, 4, logarithmic,
           logarithmic); /* no powers of two: 1, 2 and 5 times those of ten */
  assert_at(dot(0, 2)->x, middle_of("10"));
  assert_true(text_mark("5") && !text_mark("4") && !text_mark("8"));
}

/* Steps are 1, 2 or 5 times a power of ten, whole numbers where all are. A logarithmic axis has
   those multiples of powers; more digits, or fewer powers, as there is room. */
TEST(numbers_at_an_axis) {
  enum { PLAIN, WHOLE, DECIMAL, BINARY }; /* the last two are logarithms */
  static const struct {
    double low, high;
    int kind, count;
    const char *first, *second;
  } axes[] = {{0, 10, PLAIN, 11, "0", "1"},
              {0, 1, PLAIN, 11, "0.0", "0.1"},
              {0, 1, WHOLE, 2, "0", "1"},
              {-3, 57, PLAIN, 12, "0", "5"},
              {-0.03, 0.02, PLAIN, 11, "-0.030", "-0.025"},
              {1e6, 2.2e6, PLAIN, 13, "1000000", "1100000"},
              {2, 2.5, DECIMAL, 3, "100", "200"},
              {2, 3, DECIMAL, 4, "100", "200"},
              {-1, 2.9, DECIMAL, 12, "0.1", "0.2"},
              {2, 6, DECIMAL, 5, "100", "1000"},
              {2, 26, DECIMAL, 13, "100", "10000"},
              {0, 1, BINARY, 4, "1", "2"},
              {2, 12, BINARY, 8, "256", "4096"}};
  foreach (a, axes) {
    const Axis axis = {.label = "",
                       .logarithmic = a->kind >= DECIMAL,
                       .from = 100,
                       .to = 1120,
                       .low = a->low,
                       .high = a->high,
                       .fractions = a->kind == PLAIN || a->kind == DECIMAL,
                       .not_binary = a->kind != BINARY};
    Canvas page;
    const Mark *text[64] = {NULL};
    int count = 0;
    canvas_open(&page, 1200, 100, &error);
    page_axis(&page, &axis);
    EACH_MARK(m) {
      if (m->kind == IS_TEXT) text[count++] = m;
    }
    assert_string_equal(text[0]->text, a->first);
    assert_string_equal(text[1]->text, a->second);
    assert_int_equal(count, a->count);
    while (count-- > 0)
      assert_at((text[count]->x + text[count]->x1) / 2, axis_place(&axis, atof(text[count]->text)));
  }
}

TEST(gaps) {
  const double y[] = {10, 20, NAN, 40, INFINITY};
  draw_one(one_to_five, y, 5, linear, linear);
  assert_int_equal(count_marks(IS_LINE, page_series[0]), 3 + 1);
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
  foreach (m, marks) {
    Axis axis = {.logarithmic = m->logarithmic, .mark = m->mark};
    draw_one(one_to_five, rising, 5, linear, axis);
    assert_null(mark_of(IS_RECTANGLE, MARK, 0));
    const double low = dot(0, 0)->y, high = dot(0, 4)->y;
    axis.mark_label = "marked";
    draw_one(one_to_five, rising, 5, linear, axis);
    const Mark *line = mark_of(IS_RECTANGLE, MARK, 0), *text = text_mark("marked");
    const bool widens = fabs(low - dot(0, 0)->y) + fabs(high - dot(0, 4)->y) > 1;
    assert_true(!line == !m->drawn && !text == !m->drawn);
    assert_int_equal(widens, m->drawn && m->mark != 30);
    if (!line) continue;
    const double y = (line->y + line->y1) / 2;
    if (m->mark == 30) assert_at(y, row_of("30"));
    if (m->mark == 80) assert_true(y < dot(0, 4)->y - 20 && text->y1 < y);
    if (m->mark == -30) assert_true(y > dot(0, 0)->y + 20);
  }
}

TEST(panels) {
  add("first", "rising", one_to_five, rising, 5);
  add("second", "dip", one_to_five, dipping, 5)->title = "";
  draw();
  assert_at(dot(0, 4)->y, row_of("50"));
  assert_true(dot(0, 5)->y - dot(0, 4)->y > 300); /* below the first panel */
  assert_true(dot(0, 5)->y < dot(0, 7)->y && dot(0, 5)->y == dot(0, 9)->y);
  assert_true(text_mark("dip")->y > dot(0, 0)->y);
}

/* Thin curves have the colours of those that they lie behind. */
TEST(thin_curves) {
  CurvePanel *panel = add("", "rising", one_to_five, rising, 5);
  add("", "dip", one_to_five, dipping, 5);
  for (int i = 0; i < 5; i++) line_chart_add(&chart, panel, ~1, one_to_five[i], rising[i]);
  draw();
  assert_int_equal(count_marks(IS_LINE, page_series[0]), 5 + 4);
  assert_int_equal(count_marks(IS_LINE, page_series[1]), 5 + 4 + 4); /* no dots on the thin one */
  assert_at(mark_of(IS_LINE, page_series[1], 0)->y, dot(0, 0)->y);
}

/* A chart has so many panels, and they so many curves; a panel without a point is left out, and a
   chart without one is refused. */
TEST(charts_have_limits) {
  static const double negative[] = {-1, -2, 0, -4, -5};
  for (int i = 0; i < LINE_CHART_MAX; i++)
    add("0", text_printf("curve %d", i), one_to_five, rising, 5);
  assert_int_equal(line_chart_curve(chart.panels, "another"), LINE_CHART_MAX);
  add("0", "another", one_to_five, dipping, 5);
  for (int i = 1; i < LINE_CHART_PANELS; i++)
    add(text_printf("%d", i), "below", one_to_five, negative, 5)->y.logarithmic = true;
  assert_null(line_chart_panel(&chart, "another"));
  assert_true(line_chart_far_apart(chart.panels, 201) && !line_chart_far_apart(chart.panels, 200));
  draw();
  assert_null(text_mark("another"));
  assert_null(text_mark("below"));
  assert_true(drawn.height < 600);
  for (int i = 0; i < 2; i++) {
    add("", "curve", one_to_five, negative, 5 * i)->y.logarithmic = true;
    FAILS(line_chart_draw(&chart, path, &error), "the chart 'title' has no point to draw");
  }
}

/* ---- dot charts ----------------------------------------------------------------------------- */

enum { BLUE = 0x0969da };
static DotChart dots = {
    "title",  "subtitle", 0,
    "marked", 3,          {{{"hundred"}, 100, BLUE}, {{"ten"}, 10, BLUE}, {{"one"}, 1, BLUE}}};

static void draw_dots(void) {
  OK(dot_chart_draw(&dots, path, &error));
  assert_int_equal(count_marks(IS_LINE, BLUE), dots.count); /* dots, and no bars */
}

TEST(places_are_logarithms) {
  draw_dots();
  const Mark *hundred = mark_of(IS_LINE, BLUE, 0), *ten = hundred + 4, *one = ten + 4;
  assert_int_equal(drawn.width, CHART_WIDTH);
  assert_true(ten->x - one->x > 100 && fabs(hundred->x - 2 * ten->x + one->x) < 1.1);
  assert_at(hundred->x, middle_of("100"));
  assert_true(text_mark("hundred")->x1 < one->x && text_mark("1.00 ms")->x > one->x);
  assert_true(text_mark("10.0 ms")->y1 > ten->y && text_mark("100 ms")->y < ten->y);
  assert_null(text_mark("marked"));
  dots.mark = 10;
  draw_dots();
  const Mark *mark = mark_of(IS_RECTANGLE, MARK, 0);
  ten = mark_of(IS_LINE, BLUE, 1);
  assert_true(mark < ten && text_mark("marked")); /* the dot lies on the mark's line */
  assert_at((mark->x + mark->x1) / 2, ten->x);
  dots.mark = 0.01; /* left of all dots */
  draw_dots();
  assert_at(mark_of(IS_RECTANGLE, MARK, 0)->x + 1, middle_of("0.01"));
  assert_says("marked: 0.0100 ms");
  dots.rows[2].ms = 0.04;
  draw_dots();
  assert_says("marked: 10.0 us", "40.0 us", "us, logarithmic scale");
  dots.rows[2].ms = 1;
  dots.mark = 0;
}

/* A long title is written smaller, to the margin on the right: saving asserts that. One value has
   an axis with a length. */
TEST(long_titles_fit) {
  dots.count = 1;
  dots.title = dots.subtitle = "A title of so many letters that it would not fit the picture at "
                               "the height that a title has otherwise, nor at half of it";
  draw_dots();
  assert_at(drawn.mark[0].x1, CHART_WIDTH - MARGIN);
  assert_at(mark_of(IS_LINE, BLUE, 0)->x, middle_of("100"));
}

TEST(values_without_a_logarithm) {
  foreach (value, VALUES(double, 0, -1, (double)NAN, (double)INFINITY)) {
    dots.count = 0;
    dot_chart_add(&dots, "a row", *value, BLUE);
    FAILS(dot_chart_draw(&dots, path, &error), "'a row'");
  }
}

/* A box around each digit has a colour that says whether the network is sure. */
TEST(boxes_tell_whether_it_is_sure) {
  enum { SIDE = 28, WIDE = 420, HIGH = 210 }; /* shown as large as it is */
  static uint8_t pixels[SIDE * SIDE], level[WIDE * HIGH];
  const Image image = {.width = WIDE, .height = HIGH, .level = level, .shrunk = 1};
  const Photograph photograph = {.count = 1, .box = {{50, 40, 100, 60}}, .pixels = pixels};
  for (int sure = 0; sure < 2; sure++) {
    const SeenAnswer answer = {(const double[]){[7] = 0.75}, 7, sure};
    Seen *seen = seen_open(SIDE, NULL);
    assert_non_null(seen);
    OK(seen_add(seen, "name", &image, &photograph, &answer, &error));
    const Mark *top = mark_of(IS_LINE, page_series[!sure], 0), *view = drawn.mark;
    assert_int_equal(count_marks(IS_LINE, page_series[!sure]), 4);
    assert_null(mark_of(IS_LINE, page_series[sure], 0));
    for (int i = 0; i < 4; i++) { /* two above and below, two at the sides */
      assert_at(top[i].x - view->x, i == 3 ? 152 : 48);
      assert_at(top[i].x1 - view->x, i == 1 ? 48 : 152);
      assert_at(top[i].y - view->y, i == 2 ? 102 : 38);
      assert_at(top[i].y1 - view->y, i == 0 ? 38 : 102);
    }
    assert_says("name", "7", sure ? "75.0%" : "75.0% unsure");
    OK(seen_save(seen, path, &error));
    assert_says("What the network saw", "1 picture with digits");
    seen_close(seen);
  }
}
