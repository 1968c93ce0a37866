#include "data/idx.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* Types of values: unsigned bytes, which pictures have, and the others up to float64. */
enum { BYTES = 8, FLOAT64 = 14 };
enum { LABELS_HEADER = 8 };

bool idx_is(const char *bytes, size_t length) {
  return length >= 4 && bytes[0] == 0 && bytes[1] == 0 && bytes[2] >= BYTES && bytes[2] <= FLOAT64;
}

/* Number `index` of a header, the highest byte first. */
static uint64_t number(const char *bytes, int index) {
  const unsigned char *b = (const unsigned char *)bytes + 4 * index;
  return (uint64_t)b[0] << 24 | (uint64_t)b[1] << 16 | (uint64_t)b[2] << 8 | b[3];
}

/* ---- the labels' file ---------------------------------------------------------------------- */

static bool name_labels(Idx *idx, const char *images, Error *error) {
  const char *slash = strrchr(images, '/'), *base = slash ? slash + 1 : images;
  const char *word = strstr(base, "images"), *kind = strstr(base, "idx3");
  const size_t length = strlen(images);
  if (!word || length + sizeof ".gz" > sizeof idx->name)
    return error_set(error,
                     "%s is an IDX file: its name must have \"images\" in it, so that its labels "
                     "are found beside it",
                     images);
  memcpy(idx->name, images, length + 1);
  memcpy(idx->name + (word - images), "labels", strlen("labels"));
  if (kind) idx->name[kind - images + 3] = '1';
  if (access(idx->name, F_OK) == 0) return true;
  const bool packed = length > 3 && strcmp(images + length - 3, ".gz") == 0;
  strcpy(idx->name + length - 3 * packed, packed ? "" : ".gz");
  if (access(idx->name, F_OK) == 0) return true;
  strcpy(idx->name + length - 3 * packed, packed ? ".gz" : "");
  return error_set(error, "%s has no labels beside it: there is no %s", images, idx->name);
}

static bool open_labels(Idx *idx, const char *images, Error *error) {
  char header[LABELS_HEADER];
  if (!name_labels(idx, images, error) || !source_open(&idx->labels, idx->name, error))
    return false;
  const size_t length = source_read(&idx->labels, header, sizeof header);
  if (*idx->labels.error.text) return error_set(error, "%s", idx->labels.error.text);
  if (length < sizeof header || !idx_is(header, length) || header[2] != BYTES || header[3] != 1)
    return error_set(error, "%s is not an IDX file of labels", idx->name);
  return number(header, 1) == idx->rows ||
         error_set(error, "%s has %" PRIu64 " pictures, but %s has %" PRIu64 " labels", images,
                   idx->rows, idx->name, number(header, 1));
}

/* ---- both of them -------------------------------------------------------------------------- */

bool idx_open(Idx *idx, const Source *images, const char *bytes, size_t length, size_t inputs,
              size_t most, Error *error) {
  const char *name = images->name;
  if (bytes[2] != BYTES || bytes[3] != 3 || length < IDX_HEADER)
    return error_set(error, "%s is an IDX file%s, but not of pictures of bytes", name,
                     bytes[3] == 1 ? " of labels" : "");
  const uint64_t height = number(bytes, 2), width = number(bytes, 3);
  const uint64_t size = height <= most && width <= most ? height * width : 0;
  if (size < 1 || size > most || (inputs > 0 && size != inputs))
    return error_set(error, "%s has pictures of %" PRIu64 " x %" PRIu64 " pixels, but %s%zu", name,
                     height, width, inputs ? "the network takes " : "a row is 1 to ",
                     inputs ? inputs : most);
  idx->rows = number(bytes, 1);
  idx->inputs = size;
  idx->labelled = inputs == 0;
  if (idx->rows == 0) return error_set(error, "%s has no pictures", name);
  if (images->size > 0 && !images->packed && images->size != IDX_HEADER + idx->rows * size)
    return error_set(
        error, "%s is damaged: %" PRIu64 " pictures take %" PRIu64 " bytes, but it has %" PRIu64,
        name, idx->rows, IDX_HEADER + idx->rows * size, images->size);
  return !idx->labelled || open_labels(idx, name, error);
}

/* Returns how many labels are good; where there are fewer than pictures, *error says why. */
static size_t read_labels(Idx *idx, uint16_t *labels, size_t rows, Error *error) {
  for (size_t r = 0; r < rows; r++) {
    unsigned char label = 0;
    if (idx->labelled && source_read(&idx->labels, (char *)&label, 1) == 0) {
      error_set(error, "%s is cut off", idx->name);
      if (*idx->labels.error.text) *error = idx->labels.error;
      return r;
    }
    if (label >= idx->classes) {
      error_set(error, "%s: label %" PRIu64 " is %d, not from 0 to %d", idx->name,
                idx->read + r + 1, label, idx->classes - 1);
      return r;
    }
    labels[r] = label;
  }
  return rows;
}

size_t idx_read(Idx *idx, Source *images, uint8_t *pixels, size_t length, uint16_t *labels,
                size_t rows) {
  char more;
  length += source_read(images, (char *)pixels + length, rows * idx->inputs - length);
  size_t count = length / idx->inputs;
  if (count > idx->rows - idx->read) count = idx->rows - idx->read;
  const bool last = idx->read + count == idx->rows;
  if (!*images->error.text &&
      (last ? length != count * idx->inputs || source_read(images, &more, 1) : images->ended))
    error_set(&images->error, "%s is damaged: it does not end behind picture %" PRIu64,
              images->name, idx->rows);
  const size_t good = read_labels(idx, labels, count, &images->error);
  if (last && good == count && idx->labelled && source_read(&idx->labels, &more, 1))
    error_set(&images->error, "%s is damaged: it goes on behind label %" PRIu64, idx->name,
              idx->rows);
  idx->read += good;
  images->ended |= last || *images->error.text;
  return good;
}
