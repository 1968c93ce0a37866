#include "data/idx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sizes.h"

/* An IDX file begins with two zero bytes, the type of its values and the number of dimensions. Then
   comes each dimension as 4 bytes, the most significant first. */
enum { BYTES = 8, DIMENSION = 4, LABELS = 1, PICTURES = 3, HEADER = 4 + 3 * DIMENSION };

#define OTHER_TYPES "\x09\x0b\x0c\x0d\x0e" /* signed bytes, int16, int32, float32, float64 */
#define LABELS_BEGIN "\0\0\10\1"           /* the first four bytes of a file of labels */

enum { SIDE_MOST = 4096, DIGITS = 4 /* characters of a value and its separator, at most */ };

static uint32_t number_at(const uint8_t *bytes) {
  return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* ---- labels --------------------------------------------------------------------------------- */

/* Replaces the last `from` in the file's name by `to`. Returns false if there is none. */
static bool replace_last(char path[IDX_PATH], const char *from, const char *to) {
  char *name = strrchr(path, '/'), *found = NULL, rest[IDX_PATH];
  for (char *at = name ? name : path; (at = strstr(at, from)) != NULL; at++) found = at;
  if (!found) return false;
  strcpy(rest, found + strlen(from));
  const size_t room = IDX_PATH - (size_t)(found - path);
  return snprintf(found, room, "%s%s", to, rest) < (int)room;
}

bool idx_labels_path(const char *pictures, char path[IDX_PATH]) {
  if (snprintf(path, IDX_PATH, "%s", pictures) >= IDX_PATH) return false;
  char *ending = strrchr(path, '.');
  if (ending && strcmp(ending, ".gz") == 0) *ending = '\0';
  replace_last(path, "idx3", "idx1");
  return replace_last(path, "images", "labels") || replace_last(path, "imgs", "labels");
}

/* Reads all labels from an opened file. */
static bool take_labels(Idx *idx, Source *source, const char *pictures, Error *error) {
  uint8_t header[4 + DIMENSION], more;
  const bool is_labels = source_read(source, (char *)header, sizeof header) == sizeof header &&
                         memcmp(header, LABELS_BEGIN, 4) == 0;
  if (*source->error.text) return error_set(error, "%s", source->error.text);
  if (!is_labels) return error_set(error, "%s is not an IDX file of labels", source->name);
  if (number_at(header + 4) != idx->rows)
    return error_set(error, "%s holds %u labels, but %s holds %u pictures", source->name,
                     number_at(header + 4), pictures, idx->rows);
  idx->labels = make_array(idx->labels, idx->rows);
  if (!idx->labels) return error_set(error, "no memory to read %s", source->name);
  const size_t count = source_read(source, (char *)idx->labels, idx->rows);
  if (*source->error.text) return error_set(error, "%s", source->error.text);
  return (count == idx->rows && source_read(source, (char *)&more, 1) == 0) ||
         error_set(error, "%s %s its %u labels", source->name,
                   count < idx->rows ? "ends before the end of" : "does not end after", idx->rows);
}

/* Sets `path` to the file of labels that lies beside the pictures. Returns false if there is none.
 */
static bool find_beside(const char *pictures, char path[IDX_LABELS]) {
  if (!idx_labels_path(pictures, path)) return false;
  if (access(path, F_OK) != 0) strcat(path, ".gz");
  return access(path, F_OK) == 0;
}

bool idx_labels_exist(const char *pictures, char path[IDX_LABELS]) {
  char begin[4] = "";
  struct stat status;
  if (!find_beside(pictures, path) || stat(path, &status) != 0 || !S_ISREG(status.st_mode))
    return false;
  FILE *file = fopen(path, "re");
  const bool read = file && fread(begin, 1, sizeof begin, file) == sizeof begin;
  if (file) fclose(file);
  return read && (memcmp(begin, LABELS_BEGIN, 4) == 0 || memcmp(begin, "\x1f\x8b", 2) == 0);
}

/* Reads the labels that lie beside the pictures, if there are any. */
static bool find_labels(Idx *idx, const char *pictures, Error *error) {
  char path[IDX_LABELS];
  if (!find_beside(pictures, path)) return true;
  Source *source = malloc(sizeof *source);
  if (!source) return error_set(error, "no memory to read %s", path);
  const bool good = source_open(source, path, error) && take_labels(idx, source, pictures, error);
  source_close(source);
  free(source);
  return good;
}

/* ---- pictures ------------------------------------------------------------------------------- */

bool idx_open(Idx *idx, Source *source, Error *error) {
  *idx = (Idx){.line = malloc(HEADER)};
  if (!idx->line) return error_set(error, "no memory to read %s", source->name);
  idx->length = source_read(source, idx->line, HEADER);
  const uint8_t *header = (const uint8_t *)idx->line;
  if (idx->length < 4 || header[0] || header[1]) return true;
  if (header[2] && memchr(OTHER_TYPES, header[2], sizeof OTHER_TYPES))
    return error_set(error, "%s is an IDX file, but its values are not bytes", source->name);
  if (header[2] != BYTES) return true;
  if (header[3] == LABELS)
    return error_set(error, "%s is an IDX file of labels: give the file of its pictures",
                     source->name);
  if (header[3] != PICTURES || idx->length < HEADER)
    return error_set(error, "%s is an IDX file, but not one of pictures", source->name);
  idx->rows = number_at(header + 4);
  idx->height = number_at(header + 8);
  idx->width = number_at(header + 12);
  if (idx->rows == 0 || idx->height == 0 || idx->width == 0 || idx->height > SIDE_MOST ||
      idx->width > SIDE_MOST || idx->height * idx->width > SIDE_MOST)
    return error_set(error,
                     "%s holds %u pictures of %u x %u pixels: at least 1 picture of 1 to %d pixels "
                     "can be read",
                     source->name, idx->rows, idx->height, idx->width, SIDE_MOST);
  const size_t pixels = (size_t)idx->height * idx->width;
  free(idx->line);
  idx->length = 0;
  idx->line = malloc(DIGITS * (1 + pixels) + 1);
  idx->picture = malloc(pixels);
  if (!idx->line || !idx->picture) return error_set(error, "no memory to read %s", source->name);
  return find_labels(idx, source->name, error);
}

/* Writes a value and the character after it. Returns where the next value goes. */
static char *write_value(char *to, unsigned value, char after) {
  if (value >= 100) *to++ = (char)('0' + value / 100);
  if (value >= 10) *to++ = (char)('0' + value / 10 % 10);
  *to++ = (char)('0' + value % 10);
  *to++ = after;
  return to;
}

/* Turns the next picture into a line. Sets idx->ended if there is none. */
static void turn_picture(Idx *idx, Source *source) {
  const size_t pixels = (size_t)idx->height * idx->width;
  const bool is_last = idx->turned == idx->rows;
  const char *wrong = is_last ? "does not end after" : "ends before the end of";
  const size_t count = source_read(source, (char *)idx->picture, is_last ? 1 : pixels);
  if (!*source->error.text && count != (is_last ? 0 : pixels))
    error_set(&source->error, "%s %s its %u pictures", source->name, wrong, idx->rows);
  idx->ended = is_last || *source->error.text;
  if (idx->ended) return;
  char *to = idx->line;
  if (idx->labels) to = write_value(to, idx->labels[idx->turned], ',');
  for (size_t i = 0; i < pixels; i++)
    to = write_value(to, idx->picture[i], i + 1 < pixels ? ',' : '\n');
  idx->length = (size_t)(to - idx->line);
  idx->passed = 0;
  idx->turned++;
}

size_t idx_read(Idx *idx, Source *source, char *bytes, size_t size) {
  size_t count = 0;
  while (count < size && !idx->ended) {
    const size_t part = min_size(size - count, idx->length - idx->passed);
    memcpy(bytes + count, idx->line + idx->passed, part);
    idx->passed += part;
    count += part;
    if (idx->passed < idx->length) break;
    if (idx->rows > 0) {
      turn_picture(idx, source);
      continue;
    }
    count += source_read(source, bytes + count, size - count);
    idx->ended = source->ended;
    break;
  }
  return count;
}

void idx_close(Idx *idx) {
  free(idx->labels);
  free(idx->picture);
  free(idx->line);
  *idx = (Idx){0};
}
