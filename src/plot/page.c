#include "plot/page.h"

#include <math.h>
#include <stdio.h>

#include "base/sizes.h"

const Colour page_series[PAGE_SERIES] = {{0, 114, 178},   {213, 94, 0},   {0, 158, 115},
                                         {204, 121, 167}, {86, 180, 233}, {230, 159, 0},
                                         {90, 90, 90},    {140, 86, 75}};

bool page_open(Canvas *page, const char *title, const char *subtitle, int width, int height,
               Error *error) {
  if (!canvas_open(page, width, height, PAPER, error)) return false;
  page_text_within(page, MARGIN, 44, TITLE, width - 2 * MARGIN, INK, title);
  page_text_within(page, MARGIN, 74, TEXT, width - 2 * MARGIN, PALE, subtitle);
  return true;
}

int page_width(int content, const char *title, const char *subtitle) {
  const int text = max_int(page_text_width(TITLE, title), page_text_width(TEXT, subtitle));
  return 2 * MARGIN + max_int(content, text);
}

bool page_save(Canvas *page, const char *path, Error *error) {
  const bool saved = canvas_save(page, path, error);
  canvas_close(page);
  return saved;
}

/* ---- text ----------------------------------------------------------------------------------- */

void page_text(Canvas *page, TextPlace place, double x, double baseline, double height,
               Colour colour, const char *text) {
  const double before = place == STARTS ? 0 : canvas_text_width(height, text);
  canvas_text(page, place == CENTRED ? x - before / 2 : x - before, baseline, height, text, colour);
}

void page_text_within(Canvas *page, double x, double baseline, double height, double width,
                      Colour colour, const char *text) {
  const double wanted = canvas_text_width(height, text);
  canvas_text(page, x, baseline, wanted > width ? height * width / wanted : height, text, colour);
}

int page_text_width(double height, const char *text) {
  return (int)ceil(canvas_text_width(height, text));
}

/* ---- axes ----------------------------------------------------------------------------------- */

static double place(const Axis *axis, double number) {
  return axis->from + (number - axis->low) / (axis->high - axis->low) * (axis->to - axis->from);
}

double axis_place(const Axis *axis, double value) {
  return place(axis, axis->logarithmic ? log10(value) : value);
}

/* The smallest of 1, 2, 5 times a power of ten that is at least `least`. */
static double round_step(double least) {
  const double power = pow(10, floor(log10(least)));
  for (int i = 0; i < 3; i++) {
    const double step = power * (double[]){1, 2, 5}[i];
    if (step >= least * (1 - 1e-9)) return step;
  }
  return 10 * power;
}

typedef struct {
  const Axis *axis;
  Tick *ticks;
  int count;
} Ticks;

/* Adds a tick at a number of the axis, if it is on the axis. */
static void add(Ticks *t, double number, double value, bool fixed, int digits) {
  if (number < t->axis->low || number > t->axis->high || t->count == AXIS_TICKS) return;
  Tick *tick = &t->ticks[t->count++];
  tick->at = place(t->axis, number);
  snprintf(tick->text, sizeof tick->text, fixed ? "%.*f" : "%.*g", digits, value);
}

/* Adds powers of ten; 2 and 5 times them, and the rest, where there is room. */
static void add_decades(Ticks *t, int wanted) {
  const double decades = t->axis->high - t->axis->low;
  const int step = max_int(1, (int)ceil(decades / wanted));
  for (int power = (int)floor(t->axis->low); power <= (int)ceil(t->axis->high); power++)
    for (int digit = 1; digit <= 9; digit++) {
      const double value = digit * pow(10, power);
      const bool two_or_five = digit == 2 || digit == 5;
      if (digit == 1 ? power % step == 0 : decades < (two_or_five ? 4 : 0.7))
        add(t, log10(value), value, false, 6);
    }
}

static void add_powers_of_two(Ticks *t) {
  const int first = (int)ceil(t->axis->low / log10(2)), last = (int)floor(t->axis->high / log10(2));
  for (int power = first; power <= last; power += 1 + (last - first) / 16)
    add(t, power * log10(2), ldexp(1, power), false, 10);
}

/* Adds multiples of a round step, with as many decimals as tell one from the next. */
static void add_steps(Ticks *t, int wanted, bool whole) {
  double step = round_step((t->axis->high - t->axis->low) / wanted);
  if (whole) step = fmax(step, 1);
  const int decimals = max_int(0, (int)-floor(log10(step) + 1e-9));
  for (double n = ceil(t->axis->low / step); n * step <= t->axis->high; n++)
    add(t, n * step, n == 0 ? 0 : n * step, true, decimals);
}

int axis_ticks(const Axis *axis, int wanted, AxisNumbers numbers, Tick *ticks) {
  Ticks t = {axis, ticks, 0};
  if (!axis->logarithmic)
    add_steps(&t, wanted, numbers == WHOLE_NUMBERS);
  else if (numbers == POWERS_OF_TWO)
    add_powers_of_two(&t);
  else
    add_decades(&t, wanted);
  return t.count;
}
