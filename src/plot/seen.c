#include "plot/seen.h"

#include "base/sizes.h"
#include "plot/page.h"

enum { GAP = 12, CAPTION = 24 };  /* pixels; of what is written below a picture */
enum { VIEW = 420, DIGIT = 146 }; /* pixels of its longer side; from one digit to the next */
enum { COLUMNS = 6, LEFT = MARGIN + VIEW + 2 * GAP, WIDTH = LEFT + COLUMNS * DIGIT };

struct Seen {
  int side;
  const char *names;
  int count, shown;  /* pictures: all that were added; those with a canvas */
  int width, height; /* of the page */
  Canvas canvas[SEEN_MOST];
};

Seen *seen_open(int side, const char *names) {
  Seen *seen = malloc(sizeof *seen);
  if (seen) *seen = (Seen){.side = side, .names = names, .height = HEAD};
  return seen;
}

void seen_close(Seen *seen) {
  for (int i = 0; seen && i < seen->shown; i++) canvas_close(&seen->canvas[i]);
  free(seen);
}

/* Draws the box of a digit, and its tile. */
static void draw_digit(const Seen *seen, Canvas *c, const Grid *grid, const Photograph *p,
                       const SeenAnswer *answers, int i, int shrunk, double step) {
  const int side = seen->side;
  const PhotographBox *box = &p->box[i];
  const SeenAnswer *d = &answers[i];
  const Colour colour = page_series[d->sure ? 0 : 1];
  const int left = box->left / shrunk, right = left + box->width / shrunk;
  const int top = box->top / shrunk, bottom = top + box->height / shrunk;
  const double x[] = {MARGIN + left / step - 2, MARGIN + right / step + 2};
  const double y[] = {GAP + top / step - 2, GAP + bottom / step + 2};
  const ShortText number = p->count > 1 ? text_format("%d", i + 1) : (ShortText){""},
                  answer = text_format("%s%s%s", number.text, p->count > 1 ? ": " : "",
                                       class_name(seen->names, d->best).text),
                  percent = text_format("%.1f%%%s", 100 * d->probabilities[d->best],
                                        d->sure ? "" : " unsure");
  for (int k = 0; k < 2; k++) {
    canvas_line(c, x[0], y[k], x[1], y[k], 2, colour);
    canvas_line(c, x[k], y[0], x[k], y[1], 2, colour);
  }
  page_text(c, STARTS, x[0], y[0] - 5, SMALL, colour, number.text);
  page_tile(c, grid, i, p->pixels + i * side * side, side,
            (const Key[]){{INK, answer.text}, {colour, percent.text}}, 2);
}

bool seen_add(Seen *seen, const char *path, const Image *image, const Photograph *p,
              const SeenAnswer *answers, Error *error) {
  seen->count++;
  if (seen->shown == SEEN_MOST || seen->height > SEEN_TALLEST) return true;
  const double step = max_int(image->width, image->height) / (double)VIEW; /* levels per pixel */
  const int width = max_int(1, (int)(image->width / step)),
            height = max_int(1, (int)(image->height / step));
  const Grid grid = tile_grid(LEFT, GAP, DIGIT, COLUMNS, seen->side, 2);
  Canvas *c = &seen->canvas[seen->shown];
  if (!canvas_open(c, WIDTH, max_int(GAP + height + CAPTION, grid_end(&grid, p->count)), NULL))
    return error_set(error, "no memory to show %s", path);
  seen->shown++;
  seen->height += c->height;
  seen->width = max_int(seen->width, LEFT + min_int(p->count, COLUMNS) * DIGIT);
  for (int i = 0; i < width * height; i++) {
    const int x = i % width, y = i / width,
              right = min_int((int)((x + 0.5) * step), image->width - 1),
              down = min_int((int)((y + 0.5) * step), image->height - 1);
    canvas_rectangle(c, MARGIN + x, GAP + y, 1, 1,
                     0x10101u * image->level[down * image->width + right]);
  }
  page_text_within(c, STARTS, MARGIN, GAP + height + CAPTION - 7, SMALL, VIEW + GAP, PALE,
                   text_shown(path).text);
  for (int i = 0; i < p->count; i++) draw_digit(seen, c, &grid, p, answers, i, image->shrunk, step);
  return true;
}

bool seen_save(const Seen *seen, const char *path, Error *error) {
  const ShortText subtitle = text_format(seen->shown < seen->count ? "the first %d of %d pictures"
                                         : seen->shown == 1        ? "%d picture with digits"
                                                                   : "%d pictures with digits",
                                         seen->shown, seen->count);
  Canvas page;
  if (!page_open(&page, "What the network saw", subtitle.text, seen->width, seen->height + MARGIN,
                 error))
    return false;
  for (int i = 0, y = HEAD; i < seen->shown; y += seen->canvas[i++].height)
    canvas_paste(&page, y, &seen->canvas[i]);
  return page_save(&page, path, error);
}
