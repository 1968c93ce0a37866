/* The picture of what a network saw has a box around each digit, in a colour that says whether it
   is sure. */
#include "plot/seen.h"
#include "support/test.h"
#include "support/folder.h"
#include "support/stb_png.h"

enum { SIDE = 28, WIDTH = 420, HEIGHT = 210 }; /* shown as large as it is */

/* Pixels of the PNG of one picture with a box of 100 x 60 that are about as red, green and blue. */
static int count_pixels(bool sure, int red, int green, int blue) {
  static uint8_t pixels[SIDE * SIDE], level[WIDTH * HEIGHT];
  const SeenDigit digit = {pixels, 50, 40, 100, 60, 7, 0.75, sure};
  const SeenPicture picture = {"name", level, WIDTH, HEIGHT, &digit, 1};
  Error error;
  Seen *seen = seen_open(SIDE);
  assert_non_null(seen);
  assert_true(seen_add(seen, &picture, &error));
  assert_true(seen_save(seen, folder_path("seen.png"), &error));
  seen_close(seen);
  int width, height, channels, count = 0;
  uint8_t *png = stbi_load(folder_path("seen.png"), &width, &height, &channels, 3);
  assert_non_null(png);
  for (const uint8_t *p = png; p < png + 3 * width * height; p += 3)
    count += abs(p[0] - red) < 9 && abs(p[1] - green) < 9 && abs(p[2] - blue) < 9;
  stbi_image_free(png);
  return count;
}

/* Its lines are two pixels wide; what is written below in the same colour is less. */
TEST_WITH(boxes_tell_whether_it_is_sure, folder_open, folder_close) {
  assert_in_range(count_pixels(true, 0, 114, 178), 2 * 2 * (100 + 60), 1000);
  assert_int_equal(count_pixels(true, 213, 94, 0), 0);
  assert_in_range(count_pixels(false, 213, 94, 0), 2 * 2 * (100 + 60), 1500);
  assert_int_equal(count_pixels(false, 0, 114, 178), 0);
}
