/* Line charts: where their points, numbers and marks are drawn, on the canvas and in the file. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "plot/line_chart.h"
#include "support/test.h"
#include "support/folder.h"
#include "support/stb_png.h"

static Error error;

static const double one_to_five[] = {1, 2, 3, 4, 5}, rising[] = {10, 20, 30, 40, 50},
                    dipping[] = {40, 12, 11, 12, 40};

static CurvePanel panel_of(const Curve *curves, int count) {
  return (CurvePanel){.title = "panel",
                      .x = {"epoch", false, false},
                      .y = {"loss", false, false},
                      .curves = curves,
                      .count = count,
                      .mark = NAN};
}

static LineChart chart_of(const CurvePanel *panels, int count) {
  return (LineChart){.title = "title", .subtitle = "subtitle", .panels = panels, .count = count};
}

static Canvas draw(const LineChart *chart) {
  Canvas picture;
  if (!line_chart_draw(chart, &picture, &error)) fail_msg("%s", error.text);
  return picture;
}

static bool has_colour(const Canvas *p, int x, int y, Colour colour) {
  assert_in_range(x, 0, p->width - 1);
  assert_in_range(y, 0, p->height - 1);
  return memcmp(p->pixels + 3 * (y * p->width + x), &colour, 3) == 0;
}

/* Where the numbers (x, y), on linear axes, are on the picture. */
static int column_of(const CurveFrame *f, double x) {
  return f->left + (int)lround((x - f->x_low) / (f->x_high - f->x_low) * (f->right - f->left));
}

static int row_of(const CurveFrame *f, double y) {
  return f->bottom - (int)lround((y - f->y_low) / (f->y_high - f->y_low) * (f->bottom - f->top));
}

/* Columns and rows in which the frame holds that colour. */
typedef struct {
  int left, right, top, bottom, count;
} Extent;

static Extent extent_of(const Canvas *p, const CurveFrame *f, Colour colour) {
  Extent e = {p->width, -1, p->height, -1, 0};
  for (int y = f->top; y < f->bottom; y++)
    for (int x = f->left; x < f->right; x++) {
      if (!has_colour(p, x, y, colour)) continue;
      e.left = x < e.left ? x : e.left;
      e.right = x > e.right ? x : e.right;
      e.top = y < e.top ? y : e.top;
      e.bottom = y > e.bottom ? y : e.bottom;
      e.count++;
    }
  return e;
}

static void assert_near(int got, int expected) {
  if (abs(got - expected) > 4) fail_msg("pixel %d is not near %d", got, expected); /* half a dot */
}

TEST(test_extremes) {
  const Curve curves[] = {{"rising", one_to_five, rising, 5}, {"dipping", one_to_five, dipping, 5}};
  const CurvePanel panel = panel_of(curves, 2);
  const LineChart chart = chart_of(&panel, 1);
  Canvas p = draw(&chart);
  const CurveFrame f = line_chart_frame(&chart, 0);
  assert_int_equal(p.width, LINE_CHART_WIDTH);
  assert_true(f.x_low < 1 && f.x_high > 5 && f.y_low < 10 && f.y_high > 50);
  const Extent up = extent_of(&p, &f, line_chart_colour(0)),
               dip = extent_of(&p, &f, line_chart_colour(1));
  assert_near(up.left, column_of(&f, 1));
  assert_near(up.right, column_of(&f, 5));
  assert_near(up.top, row_of(&f, 50));
  assert_near(up.bottom, row_of(&f, 10));
  assert_near(dip.top, row_of(&f, 40));
  assert_near(dip.bottom, row_of(&f, 11));
  /* the highest point is at the right end, the lowest in the middle */
  assert_true(has_colour(&p, column_of(&f, 5), row_of(&f, 50), line_chart_colour(0)));
  assert_true(has_colour(&p, column_of(&f, 3), row_of(&f, 11), line_chart_colour(1)));
  assert_true(has_colour(&p, column_of(&f, 2.5), row_of(&f, 25), line_chart_colour(0)));
  canvas_close(&p);
}

TEST(test_axes_from_zero) {
  const Curve curve = {"rising", one_to_five, rising, 5};
  CurvePanel panel = panel_of(&curve, 1);
  panel.y.from_zero = true;
  const LineChart chart = chart_of(&panel, 1);
  const CurveFrame f = line_chart_frame(&chart, 0);
  assert_true(f.y_low == 0 && f.y_high > 50);
  panel.y.from_zero = false;
  assert_true(line_chart_frame(&chart, 0).y_low > 0);
  static const double equal[] = {7, 7, 7, 7, 7}, zeros[] = {0, 0, 0, 0, 0};
  const double *const flat[] = {equal, zeros};
  for (int i = 0; i < 2; i++) { /* one value: the axis still has a length */
    const Curve constant = {"constant", one_to_five, flat[i], 5};
    panel.curves = &constant;
    for (int from_zero = 0; from_zero < 2; from_zero++) {
      panel.y.from_zero = from_zero;
      const CurveFrame g = line_chart_frame(&chart, 0);
      assert_true(g.y_low <= flat[i][0] && g.y_high > flat[i][0] && isfinite(g.y_high));
      Canvas p = draw(&chart);
      assert_true(extent_of(&p, &g, line_chart_colour(0)).count > 100);
      canvas_close(&p);
    }
  }
}

TEST(test_logarithms) {
  static const double powers[] = {1, 10, 100, 1000}, x[] = {1, 2, 4, 8};
  const Curve curve = {"powers", x, powers, 4};
  CurvePanel panel = panel_of(&curve, 1);
  panel.x.logarithmic = panel.y.logarithmic = true;
  const LineChart chart = chart_of(&panel, 1);
  Canvas p = draw(&chart);
  const CurveFrame f = line_chart_frame(&chart, 0);
  assert_true(f.y_low < 0 && f.y_low > -1 && f.y_high > 3 && f.y_high < 4);
  for (int i = 0; i < 4; i++) /* all on one straight line */
    assert_true(has_colour(&p, column_of(&f, i * log10(2)), row_of(&f, i), line_chart_colour(0)));
  canvas_close(&p);
}

TEST(test_gaps) {
  const double y[] = {10, 20, NAN, 40, INFINITY};
  const Curve curve = {"gaps", one_to_five, y, 5};
  const CurvePanel panel = panel_of(&curve, 1);
  const LineChart chart = chart_of(&panel, 1);
  Canvas p = draw(&chart);
  const CurveFrame f = line_chart_frame(&chart, 0);
  assert_true(f.y_high < 50 && f.x_high > 5);
  for (int gap = 0; gap < 2; gap++) { /* the second is at the end */
    const int end = gap ? f.right : column_of(&f, 4) - 5;
    for (int x = column_of(&f, gap ? 4 : 2) + 5; x < end; x++)
      for (int y_at = f.top; y_at < f.bottom; y_at++)
        assert_false(has_colour(&p, x, y_at, line_chart_colour(0)));
  }
  assert_true(has_colour(&p, column_of(&f, 4), row_of(&f, 40), line_chart_colour(0)));
  canvas_close(&p);
}

TEST(test_mark) {
  static const Colour RED = {209, 36, 47};
  const Curve curve = {"rising", one_to_five, rising, 5};
  CurvePanel panel = panel_of(&curve, 1);
  panel.mark = 80; /* above all points */
  panel.mark_label = "ceiling";
  const LineChart chart = chart_of(&panel, 1);
  Canvas p = draw(&chart);
  const CurveFrame f = line_chart_frame(&chart, 0);
  assert_true(f.y_high > 80);
  assert_true(has_colour(&p, column_of(&f, 3), row_of(&f, 80), RED));
  canvas_close(&p);
}

TEST(test_panels) {
  const Curve first = {"rising", one_to_five, rising, 5}, second = {"dip", one_to_five, dipping, 5};
  const CurvePanel panels[] = {panel_of(&first, 1), panel_of(&second, 1)};
  const LineChart chart = chart_of(panels, 2);
  Canvas p = draw(&chart);
  for (int i = 0; i < 2; i++) {
    const CurveFrame f = line_chart_frame(&chart, i);
    assert_true(f.bottom < p.height);
    assert_near(extent_of(&p, &f, line_chart_colour(0)).top, row_of(&f, i ? 40 : 50));
  }
  assert_true(line_chart_frame(&chart, 1).top > line_chart_frame(&chart, 0).bottom);
  canvas_close(&p);
}

TEST_WITH(test_file, folder_open, folder_close) {
  const char *path = folder_path("curves.png");
  const Curve curve = {"rising", one_to_five, rising, 5};
  const CurvePanel panel = panel_of(&curve, 1);
  const LineChart chart = chart_of(&panel, 1);
  Canvas p = draw(&chart);
  assert_true(canvas_save(&p, path, &error));
  int width, height, channels;
  uint8_t *read = stbi_load(path, &width, &height, &channels, 3);
  assert_non_null(read);
  assert_int_equal(width, LINE_CHART_WIDTH);
  assert_int_equal(height, p.height);
  const Canvas back = {.width = width, .height = height, .pixels = read};
  const CurveFrame f = line_chart_frame(&chart, 0);
  assert_true(has_colour(&back, column_of(&f, 5), row_of(&f, 50), line_chart_colour(0)));
  assert_true(has_colour(&back, column_of(&f, 1), row_of(&f, 10), line_chart_colour(0)));
  stbi_image_free(read);
  canvas_close(&p);
}

TEST(test_bad_charts) {
  static const double negative[] = {-1, -2, 0, -4, -5};
  const Curve none = {"none", one_to_five, rising, 0}, below = {"below", one_to_five, negative, 5};
  CurvePanel panel = panel_of(&none, 1);
  LineChart chart = chart_of(&panel, 1);
  Canvas p;
  assert_false(line_chart_draw(&chart, &p, &error));
  assert_non_null(strstr(error.text, "no point"));
  panel.curves = &below;
  panel.y.logarithmic = true;
  assert_false(line_chart_draw(&chart, &p, &error));
  panel.y.logarithmic = false;
  panel.count = LINE_CHART_MAX + 1;
  assert_false(line_chart_draw(&chart, &p, &error));
  assert_non_null(strstr(error.text, "9 curves"));
  chart.count = 0;
  assert_false(line_chart_draw(&chart, &p, &error));
  assert_non_null(strstr(error.text, "0 panels"));
}
