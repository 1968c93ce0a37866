/* Fuzzes the reader of pictures. The first byte of the input is a digit's side in pixels; the rest
   is the file. Each digit found must lie within the picture, and its darkest ink must be 255. Here
   stb is built with STBI_MAX_DIMENSIONS=1024, so that every input is read quickly. */
#include <string.h>

#include "fuzz.h"
#include "data/photograph.h"

static void require_digit(const uint8_t *pixels, int side) {
  uint8_t strongest = 0;
  for (int i = 0; i < side * side; i++)
    if (pixels[i] > strongest) strongest = pixels[i];
  REQUIRE(strongest == 255);
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
      const Box b = found.box[i];
      REQUIRE(b.left >= 0 && b.top >= 0 && box_width(b) >= 1 && box_height(b) >= 1);
      REQUIRE(b.right <= image.file_width && b.bottom <= image.file_height);
      require_digit(found.pixels + (size_t)i * (size_t)side * (size_t)side, side);
    }
  } else {
    REQUIRE(error.text[0]);
  }
  image_free(&image);
  return 0;
}
