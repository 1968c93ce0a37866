#include "data/exif.h"

#include <stdbool.h>
#include <string.h>

enum { ORIENTATION = 0x0112, SHORT = 3, ENTRY = 12, UPRIGHT = 1, LAST = 8 };

/* The TIFF structure in an Exif segment, whose numbers are in either order of bytes. */
typedef struct {
  const uint8_t *bytes;
  size_t length;
  bool little;
} Tiff;

/* Returns a number of 2 or 4 bytes; 0 if it reaches over the end. */
static uint32_t number_at(const Tiff *tiff, size_t at, size_t bytes) {
  uint32_t number = 0;
  if (at > tiff->length || bytes > tiff->length - at) return 0;
  for (size_t i = 0; i < bytes; i++)
    number = number << 8 | tiff->bytes[at + (tiff->little ? bytes - 1 - i : i)];
  return number;
}

/* Returns the orientation of the first directory. Entries behind the end are read as zeros, which
   are not an orientation. */
static int orientation_in(Tiff tiff) {
  if (tiff.length < 8) return UPRIGHT;
  tiff.little = tiff.bytes[0] == 'I';
  if (tiff.bytes[0] != tiff.bytes[1] || (!tiff.little && tiff.bytes[0] != 'M')) return UPRIGHT;
  if (number_at(&tiff, 2, 2) != 42) return UPRIGHT;
  const size_t directory = number_at(&tiff, 4, 4), entries = number_at(&tiff, directory, 2);
  for (size_t i = 0; i < entries; i++) {
    const size_t entry = directory + 2 + i * ENTRY;
    if (number_at(&tiff, entry, 2) != ORIENTATION || number_at(&tiff, entry + 2, 2) != SHORT)
      continue;
    const uint32_t value = number_at(&tiff, entry + 8, 2);
    return value >= UPRIGHT && value <= LAST ? (int)value : UPRIGHT;
  }
  return UPRIGHT;
}

int exif_orientation(const uint8_t *bytes, size_t length) {
  enum { START = 0xd8, SCAN = 0xda, APPLICATION_1 = 0xe1, HEAD = 6 };
  static const uint8_t head[HEAD] = "Exif\0";
  if (length < 2 || bytes[0] != 0xff || bytes[1] != START) return UPRIGHT;
  for (size_t at = 2; at + 4 <= length && bytes[at] == 0xff && bytes[at + 1] != SCAN;) {
    if (bytes[at + 1] == 0xff) { /* one that fills up */
      at++;
      continue;
    }
    const size_t size = (size_t)bytes[at + 2] * 256 + bytes[at + 3]; /* these two included */
    if (size < 2 || size > length - at - 2) break;
    if (bytes[at + 1] == APPLICATION_1 && size >= 2 + HEAD &&
        memcmp(bytes + at + 4, head, HEAD) == 0)
      return orientation_in((Tiff){.bytes = bytes + at + 4 + HEAD, .length = size - 2 - HEAD});
    at += 2 + size;
  }
  return UPRIGHT;
}
