#define _GNU_SOURCE /* for memmem */
#include "data/image.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/formats.h"
#include "base/sizes.h"
#include "base/stream.h"

/* Limits the memory that stb allocates for a picture, because a file of a few bytes can ask for
   gigabytes. Each array that stb allocates has an Array in front, which holds the array's size. */
typedef union {
  size_t size;
  max_align_t aligned;
} Array;

static _Thread_local size_t memory_left;
static _Thread_local bool memory_refused;

static void free_array(void *array) {
  if (!array) return;
  memory_left += ((Array *)array - 1)->size;
  free((Array *)array - 1);
}

/* Zeroes new memory because stb 2.27 reads a JPEG's tables even if the file has none. */
static void *resize_array(void *array, size_t size) {
  Array *old = array ? (Array *)array - 1 : NULL;
  const size_t old_size = old ? old->size : 0;
  memory_refused = memory_refused || size > memory_left + old_size;
  if (size > memory_left + old_size) return NULL;
  Array *resized = old ? realloc(old, sizeof *old + size) : calloc(1, sizeof *old + size);
  if (!resized) return NULL;
  memory_left = memory_left + old_size - size;
  resized->size = size;
  return resized + 1;
}

#define STBI_MALLOC(size) resize_array(NULL, size)
#define STBI_REALLOC(array, size) resize_array(array, size)
#define STBI_FREE(array) free_array(array)
#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_ONLY_BMP
#define STBI_ONLY_PNM
#define STBI_NO_GIF /* without it, stb 2.27 declares the GIF reader */
#define STBI_NO_STDIO
#ifndef __clang_analyzer__ /* the analyzer skips stb's code */
#define STB_IMAGE_IMPLEMENTATION
#define STBIDEF static __attribute__((unused))
#endif
/* Version 2.27 of stb_image.h declares the first of these names and defines the second, so
   compilers warn. Later versions have only the first name. Nothing here uses the function. */
#define stbi_set_unpremultiply_on_load_thread stbi__unpremultiply_on_load_thread
#include <stb/stb_image.h>

/* Maximum size of a file in bytes. A picture of IMAGE_MAX_PIXELS needs less, even uncompressed. */
enum { MAX_BYTES = 1 << 28 };

typedef struct {
  int width, height;
  uint8_t *level; /* (height, width, 2): brightness and alpha; free it with free_array */
} Grey;

/* ---- the file ----------------------------------------------------------------------------- */

/* Returns all bytes of a file or a pipe, or NULL on failure. The caller frees the bytes. */
static uint8_t *read_file(const char *path, int *length, Error *error) {
  FILE *file = stream_open_input(path);
  size_t capacity = 1 << 15, used = 0;
  uint8_t *bytes = NULL, *more = NULL;
  bool good = file || error_set(error, "cannot open %s: %s", path, strerror(errno));
  while (good && used < MAX_BYTES && (more = realloc(bytes, capacity *= 2))) {
    bytes = more;
    used += fread(bytes + used, 1, capacity - used, file);
    if (used < capacity) break;
  }
  if (good && !more)
    good = error_set(error, "no memory to read %s", path);
  else if (good && ferror(file))
    good = error_set(error, "cannot read %s: %s", path, strerror(errno));
  else if (good && used == MAX_BYTES)
    good = error_set(error, "%s has %d bytes or more: too many for a picture", path, MAX_BYTES);
  if (file) fclose(file);
  *length = (int)used;
  if (good) return bytes;
  free(bytes);
  return NULL;
}

/* Returns true if a JPEG has a Huffman table of more than 256 codes. Version 2.27 of stb would
   write such a table past the end of an array. Like stb, this function takes every 0xff 0xc4 as the
   start of tables, and bytes past the end of the file as zeros. */
static bool has_vast_table(const uint8_t *bytes, int length) {
  if (length < 1 || bytes[0] != 0xff) return false; /* not a JPEG */
  for (int at = 0; at + 4 < length; at++) {
    if (bytes[at] != 0xff || bytes[at + 1] != 0xc4) continue;
    int left = bytes[at + 2] * 256 + bytes[at + 3] - 2, table = at + 4;
    while (left > 0 && table < length && (bytes[table] & 0xef) < 4) { /* stb has tables 0 to 3 */
      int codes = 0;
      for (int i = 1; i <= 16 && table + i < length; i++) codes += bytes[table + i];
      if (codes > 256) return true;
      table += 17 + codes;
      left -= 17 + codes;
    }
  }
  return false;
}

/* Counts the scans of a JPEG as stb does: skips each segment by its length, and skips a scan's data
   up to the next marker. A marker is 0xff and then a code that is not 0, 0xff or a restart code. */
static int count_scans(const uint8_t *bytes, int length) {
  enum { RESTART = 0xd0, RESTARTS = 8, END = 0xd9, SCAN = 0xda };
  int scans = 0, at = 2;
  if (length < at || bytes[0] != 0xff) return 0; /* not a JPEG */
  while (at + 3 < length) {
    const int marker = bytes[at + 1];
    if (bytes[at] != 0xff || marker == 0 || marker == 0xff ||
        (marker >= RESTART && marker < RESTART + RESTARTS)) {
      at++;
      continue;
    }
    if (marker == END) break;
    scans += marker == SCAN;
    at += 2 + bytes[at + 2] * 256 + bytes[at + 3];
  }
  return scans;
}

enum { BMP_LEAST = 30 }; /* bytes of the shortest BMP, of one line and an old header */

static bool is_bmp(const uint8_t *bytes) {
  return memcmp(bytes, "BM", 2) == 0;
}

static uint32_t little_number_at(const uint8_t *bytes, int count) {
  uint32_t number = 0;
  for (int i = count; i-- > 0;) number = number << 8 | bytes[i];
  return number;
}

/* Returns the length of a BMP up to its last pixel, as its header says. Lines have a multiple of
   four bytes. */
static int64_t bmp_length(const uint8_t *bytes, int64_t width, int64_t height) {
  enum { OFFSET = 10, HEADER = 14, OLD_HEADER = 12, OLD_BITS = 24, BITS = 28 };
  const bool is_old = little_number_at(bytes + HEADER, 4) == OLD_HEADER;
  const int64_t bits = width * little_number_at(bytes + (is_old ? OLD_BITS : BITS), 2);
  return little_number_at(bytes + OFFSET, 4) + (bits + 31) / 32 * 4 * (height - 1) + (bits + 7) / 8;
}

/* Refuses a picture whose header or scans show that it is too large or cannot be read. */
static bool check_header(const char *path, const uint8_t *bytes, int length, const Grey *grey,
                         int channels, Error *error) {
  const int width = grey->width; /* below, stb gives a BMP a negative height if its top is first */
  const int height = is_bmp(bytes) && grey->height > INT_MIN ? abs(grey->height) : grey->height;
  if (width < 1 || height < 1) /* version 2.27 of stb accepts this in a PGM */
    return error_set(error, "%s has no pixels: %d x %d", path, width, height);
  if (width > IMAGE_MAX_SIDE || height > IMAGE_MAX_SIDE ||
      (int64_t)width * height > IMAGE_MAX_PIXELS)
    return error_set(error,
                     "%s is too large, %d x %d pixels: up to %d a side and %d in all can be read",
                     path, width, height, IMAGE_MAX_SIDE, IMAGE_MAX_PIXELS);
  const int scans = count_scans(bytes, length);
  if ((int64_t)width * height * scans > IMAGE_MAX_SCANNED)
    return error_set(error,
                     "%s is a JPEG of %d scans of %d x %d pixels: up to %d pixels in all scans "
                     "together can be read",
                     path, scans, width, height, IMAGE_MAX_SCANNED);
  /* stb reads past the end of the pixels of a PGM or PPM with 16 bits per level. */
  if (bytes[0] == 'P' && stbi_is_16_bit_from_memory(bytes, length))
    return error_set(error, "%s cannot be read as a PGM or PPM: its levels go above 255", path);
  const int head = snprintf(NULL, 0, "P5 %d %d 1 ", width, height);          /* shortest header */
  if (bytes[0] == 'P' && length < head + (int64_t)width * height * channels) /* stb accepts it */
    return error_set(error, "%s cannot be read as a PGM or PPM: it ends too early", path);
  if (is_bmp(bytes) && (length < BMP_LEAST || length < bmp_length(bytes, width, height)))
    return error_set(error, "%s cannot be read as a BMP: it ends too early", path);
  return true;
}

/* ---- the orientation ------------------------------------------------------------------------ */

enum { ORIENTATION = 0x0112, SHORT = 3, ENTRY = 12, UPRIGHT = 1, LAST = 8 };

/* The TIFF structure in an Exif segment. Its numbers are little-endian or big-endian. */
typedef struct {
  const uint8_t *bytes;
  size_t length;
  bool little;
} Tiff;

/* Reads the integer at index `at`, which has 2 or 4 bytes. Returns 0 if it extends past the end. */
static uint32_t number_at(const Tiff *tiff, size_t at, size_t bytes) {
  uint32_t number = 0;
  if (at > tiff->length || bytes > tiff->length - at) return 0;
  for (size_t i = 0; i < bytes; i++)
    number = number << 8 | tiff->bytes[at + (tiff->little ? bytes - 1 - i : i)];
  return number;
}

int exif_orientation(const uint8_t *bytes, size_t length) {
  static const char head[] = "Exif\0"; /* ends with two 0 bytes: \0 and the literal's own */
  const bool is_jpeg = length > 2 && memcmp(bytes, "\xff\xd8", 2) == 0;
  const uint8_t *exif =
      is_jpeg ? memmem(bytes, min_size(length, 1 << 16), head, sizeof head) : NULL;
  if (!exif) return UPRIGHT;
  Tiff tiff = {.bytes = exif + sizeof head,
               .length = length - (size_t)(exif - bytes) - sizeof head};
  if (tiff.length < 8) return UPRIGHT;
  tiff.little = tiff.bytes[0] == 'I';
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

/* ---- pixels -------------------------------------------------------------------------------- */

/* Checks the size before reading pixels, so that a false header causes no large allocation. */
static uint8_t *decode(const char *path, const uint8_t *bytes, int length, Grey *grey,
                       Error *error) {
  int channels, *width = &grey->width, *height = &grey->height;
  uint8_t *pixels = NULL;
  errno = 0;
  memory_left = IMAGE_MAX_MEMORY;
  memory_refused = false;
  if (length == 0) {
    error_set(error, "%s is empty", path);
    return NULL;
  }
  if (has_vast_table(bytes, length)) {
    error_set(error, "%s cannot be read as a JPEG: a Huffman table of it is too large", path);
    return NULL;
  }
  if (stbi_info_from_memory(bytes, length, width, height, &channels)) {
    if (!check_header(path, bytes, length, grey, channels, error)) return NULL;
    pixels = stbi_load_from_memory(bytes, length, width, height, &channels, STBI_grey_alpha);
  }
  if (pixels) return pixels;
  const char *reason = stbi_failure_reason();
  if (memory_refused)
    error_set(error, "%s takes more than %d MB of memory to read: too much for a picture", path,
              IMAGE_MAX_MEMORY / 1000000);
  else if (errno == ENOMEM) /* stb tries all formats; its message may be about the wrong one */
    error_set(error, "no memory to read %s", path);
  else if (format_check(path, (const char *)bytes, (size_t)length, FORMAT_PICTURE, error))
    error_set(error,
              "%s cannot be read as a PNG, JPEG, BMP or PGM: %s; convert other formats to PNG",
              path, *reason ? reason : "it ends too early"); /* stb found zeros in a PNG */
  return NULL;
}

/* Returns level (x, y) of the shrunk picture: the mean of its pixels on a white background. */
static uint8_t mean_level(const Grey *grey, int x, int y, int shrunk) {
  const int right = x + 1 < grey->width / shrunk ? (x + 1) * shrunk : grey->width;
  const int bottom = y + 1 < grey->height / shrunk ? (y + 1) * shrunk : grey->height;
  unsigned sum = 0;
  for (int row = y * shrunk; row < bottom; row++)
    for (int column = x * shrunk; column < right; column++) {
      const uint8_t *pixel = grey->level + 2 * (row * grey->width + column);
      const unsigned alpha = pixel[1];
      sum += (pixel[0] * alpha + 255 * (255 - alpha) + 127) / 255;
    }
  const unsigned count = (unsigned)((right - x * shrunk) * (bottom - y * shrunk));
  return (uint8_t)((sum + count / 2) / count);
}

/* Turns pixel (x, y) of the stored picture (height, width) into an index of the upright picture. */
static int upright(int orientation, int x, int y, int width, int height) {
  const bool across = orientation >= 5; /* rows become columns */
  const bool flips_x = strchr("\2\3\7\10", orientation), flips_y = strchr("\3\4\6\7", orientation);
  const int from_left = flips_x ? width - 1 - x : x;
  const int from_top = flips_y ? height - 1 - y : y;
  return across ? from_left * height + from_top : from_top * width + from_left;
}

/* Shrinks the picture and turns it upright. Returns false if memory runs out. */
static bool settle(const Grey *grey, int orientation, Image *image) {
  const int longer = max_int(grey->width, grey->height),
            shorter = min_int(grey->width, grey->height);
  const int shrunk = min_int((longer - 1) / IMAGE_MOST + 1, shorter);
  const int width = grey->width / shrunk, height = grey->height / shrunk;
  const bool across = orientation >= 5;
  const int sides[] = {width, height}, of_file[] = {grey->width, grey->height};
  *image = (Image){.width = sides[across],
                   .height = sides[!across],
                   .level = malloc((size_t)(width * height)),
                   .shrunk = shrunk,
                   .file_width = of_file[across],
                   .file_height = of_file[!across]};
  if (!image->level) return false;
  for (int i = 0; i < width * height; i++)
    image->level[upright(orientation, i % width, i / width, width, height)] =
        mean_level(grey, i % width, i / width, shrunk);
  return true;
}

bool image_read(const char *path, Image *image, Error *error) {
  Grey grey;
  int length;
  *image = (Image){0};
  uint8_t *bytes = read_file(path, &length, error);
  if (!bytes) return false;
  grey.level = decode(path, bytes, length, &grey, error);
  const int orientation = exif_orientation(bytes, (size_t)length);
  free(bytes);
  if (!grey.level) return false;
  const bool good = settle(&grey, orientation, image) || error_set(error, "no memory for %s", path);
  free_array(grey.level);
  return good;
}

void image_free(Image *image) {
  free(image->level);
  *image = (Image){0};
}
