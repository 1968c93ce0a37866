/* The picture of what a network saw has a box around each digit, in a colour that says whether it
   is sure. */
#include "plot/page.h"
#include "plot/seen.h"
#include "support/marks.h"

enum { SIDE = 28, WIDTH = 420, HEIGHT = 210 }; /* shown as large as it is */

TEST(boxes_tell_whether_it_is_sure) {
  static const uint8_t pixels[SIDE * SIDE], level[WIDTH * HEIGHT];
  for (int sure = 0; sure < 2; sure++) {
    const SeenDigit digit = {pixels, 50, 40, 100, 60, 7, 0.75, sure};
    Seen *seen = seen_open(SIDE);
    assert_non_null(seen);
    OK(seen_add(seen, &(SeenPicture){"name", level, WIDTH, HEIGHT, &digit, 1}, &error));
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
    OK(seen_save(seen, "seen.png", &error));
    assert_says("What the network saw", "1 picture with digits");
    seen_close(seen);
  }
}
