#include "plot/seen.h"

#include "base/sizes.h"
#include "plot/page.h"

enum { GAP = 24, VIEW = 420, DIGIT = 146 }; /* pixels: of the longer side; to the next digit */
enum { COLUMNS = 6, LEFT = MARGIN + VIEW + GAP };

bool plot_seen(const char *name, const Image *image, const Photograph *p, const SeenAnswer *answers,
               int side, const char *names, const char *path, Error *error) {
  const double step = max_int(image->width, image->height) / (double)VIEW; /* levels per pixel */
  const int width = max_int(1, (int)(image->width / step)),
            height = max_int(1, (int)(image->height / step));
  const Grid grid = tile_grid(LEFT, HEAD, DIGIT, COLUMNS, side, 2);
  Canvas page;
  if (!page_open(&page, "What the network saw", text_shown(name).text,
                 LEFT + min_int(p->count, COLUMNS) * DIGIT,
                 max_int(HEAD + height, grid_end(&grid, p->count)) + MARGIN, error))
    return false;
  for (int i = 0; i < width * height; i++) {
    const int x = i % width, y = i / width,
              right = min_int((int)((x + 0.5) * step), image->width - 1),
              down = min_int((int)((y + 0.5) * step), image->height - 1);
    canvas_rectangle(&page, MARGIN + x, HEAD + y, 1, 1,
                     0x10101u * image->level[down * image->width + right]);
  }
  for (int i = 0; i < p->count; i++) {
    const PhotographBox *box = &p->box[i];
    const SeenAnswer *a = &answers[i];
    const double scale = 1 / (step * image->shrunk), left = MARGIN + box->left * scale - 2,
                 top = HEAD + box->top * scale - 2, right = left + box->width * scale + 4,
                 bottom = top + box->height * scale + 4;
    const Colour colour = page_series[a->sure ? 0 : 1];
    const ShortText number = text_format("%d", i + 1),
                    answer = text_format("%d: %s", i + 1, class_name(names, a->best).text),
                    percent = text_format("%.1f%%%s", 100 * a->probabilities[a->best],
                                          a->sure ? "" : " unsure");
    canvas_line(&page, left, top, right, top, 2, colour);
    canvas_line(&page, left, bottom, right, bottom, 2, colour);
    canvas_line(&page, left, top, left, bottom, 2, colour);
    canvas_line(&page, right, top, right, bottom, 2, colour);
    page_text(&page, STARTS, left, top - 5, SMALL, colour, number.text);
    page_tile(&page, &grid, i, p->pixels + i * side * side, side,
              (const Key[]){{INK, answer.text}, {colour, percent.text}}, 2);
  }
  return page_save(&page, path, error);
}
