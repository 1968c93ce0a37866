/* The reader of pictures: a byte says the side, the rest is the file. Each digit must have ink of
   full strength in a box of 20/28 of the side, its centre of mass in the middle or the box at the
   edge of the page. Stb is built with STBI_MAX_DIMENSIONS=1024 here, so that inputs stay quick. */
#include <math.h>
#include <string.h>

#include "fuzz.h"
#include "data/photograph.h"

/* Along one direction: ink of each line of pixels. */
static void require_centred(const double *ink, int side) {
  const int box = (int)round(side * 20 / 28.0), middle = side / 2;
  int begin = 0, end = side;
  while (ink[begin] == 0) begin++;
  while (ink[end - 1] == 0) end--;
  REQUIRE(end - begin <= box);
  double mass = 0, moment = 0;
  for (int i = begin; i < end; i++) {
    mass += ink[i];
    moment += ink[i] * i;
  }
  const double centre = moment / mass;
  /* Half a pixel, and that pixels were rounded to bytes after their place was found. */
  const double most = 0.5 + 0.5 * box * box * box / mass;
  REQUIRE(fabs(centre - middle) <= most || (centre > middle && end <= box) ||
          (centre < middle && begin >= side - box));
}

static void require_digit(const uint8_t *pixels, int side) {
  double columns[64] = {0}, rows[64] = {0};
  uint8_t strongest = 0;
  for (int y = 0; y < side; y++)
    for (int x = 0; x < side; x++) {
      const uint8_t ink = pixels[y * side + x];
      columns[x] += ink;
      rows[y] += ink;
      if (ink > strongest) strongest = ink;
    }
  REQUIRE(strongest == 255);
  require_centred(columns, side);
  require_centred(rows, side);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return -1;
  const int side = 2 + data[0] % 63;
  Image image;
  Photograph found;
  Error error = {.text = ""};
  if (!image_read(fuzz_file(data + 1, size - 1), &image, &error)) {
    REQUIRE(error.text[0]);
    return 0;
  }
  REQUIRE(image.width >= 1 && image.height >= 1 && image.shrunk >= 1);
  if (photograph_find(&image, "it", side, &found, &error)) {
    REQUIRE(found.count >= 1 && found.count <= PHOTOGRAPH_MOST);
    for (int i = 0; i < found.count; i++) {
      const PhotographBox b = found.box[i];
      REQUIRE(b.left >= 0 && b.top >= 0 && b.width >= 1 && b.height >= 1);
      REQUIRE(b.left + b.width <= image.file_width && b.top + b.height <= image.file_height);
      require_digit(found.pixels + (size_t)i * (size_t)side * (size_t)side, side);
    }
    photograph_free(&found);
  } else {
    REQUIRE(error.text[0]);
  }
  image_free(&image);
  return 0;
}
