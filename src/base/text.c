#include "base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int text_character(const char *text) {
  static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000}; /* least[n]: smallest n-byte code */
  const unsigned first = (unsigned char)*text;
  int length = 1;
  if (first >= 0x80) length = 2 + (first >= 0xe0) + (first >= 0xf0);
  unsigned code = first & (length == 1 ? 0x7f : 0x7fu >> length);
  if (first >= 0x80 && first < 0xc0) return 0;
  for (int i = 1; i < length; i++) {
    if ((text[i] & 0xc0) != 0x80) return 0; /* the 0 at the end of the text fails here, too */
    code = code << 6 | (text[i] & 0x3f);
  }
  const bool is_surrogate = code >> 11 == 0x1b;
  return code < least[length] || code > 0x10ffff || is_surrogate || first > 0xf4 ? 0 : length;
}

bool text_is_utf8(const char *text) {
  for (int length = 1; *text && length; text += length) length = text_character(text);
  return !*text;
}

/* Returns true for ASCII's control characters and for U+0080 to U+009F. Terminals obey them all. */
static bool is_control(const char *character) {
  const unsigned char first = (unsigned char)character[0], second = (unsigned char)character[1];
  return first < ' ' || first == 0x7f || (first == 0xc2 && second < 0xa0);
}

size_t text_printable(char *target, size_t size, const char *text) {
  size_t length = 0, written = 0;
  for (int bytes; *text; text += bytes) {
    char piece[24];
    const int character = text_character(text);
    const bool plain = character && !is_control(text);
    bytes = character ? character : 1;
    size_t count = 0;
    for (int i = 0; i < bytes; i++)
      count += (size_t)snprintf(piece + count, sizeof piece - count, plain ? "%c" : "\\x%02x",
                                (unsigned char)text[i]);
    if (written == length && written + count < size) {
      memcpy(target + written, piece, count);
      written += count;
    }
    length += count;
  }
  if (size > 0) target[written] = '\0';
  return length;
}

void text_append_to(char *target, size_t size, const char *format, ...) {
  const size_t used = strlen(target);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(target + used, size - used, format, arguments);
  va_end(arguments);
}

void json_text(const char *text, FILE *file) {
  putc('"', file);
  for (int length; *text; text += length ? length : 1) {
    length = text_character(text);
    if (length == 0)
      fputs("\\ufffd", file);
    else if (*text == '"' || *text == '\\')
      fprintf(file, "\\%c", *text);
    else if (is_control(text) || *text == '<') /* U+0080 to U+009F are \xc2 and this code */
      fprintf(file, "\\u%04x", (unsigned)(unsigned char)text[length - 1]);
    else
      fwrite(text, 1, (size_t)length, file);
  }
  putc('"', file);
}

ShortText text_format(const char *format, ...) {
  ShortText t;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(t.text, sizeof t.text, format, arguments);
  va_end(arguments);
  return t;
}

ShortText text_shown(const char *text) {
  ShortText shown;
  text_printable(shown.text, sizeof shown.text, text);
  return shown;
}

ShortText text_of_number(double value) {
  if (!isfinite(value)) return text_format("-");
  const double size = fabs(value);
  const int decimals = 2 * (size < 0.0995) + (size < 9.995) + (size < 99.95);
  return text_format("%.*f", decimals, value);
}

ShortText number_text(double value, bool is_float) {
  enum { OFTEN = 15, ENOUGH = 17 }; /* digits; 15 often suffice for a float64, 17 always do */
  ShortText n;
  for (int digits = is_float ? 1 : OFTEN; digits <= ENOUGH; digits++) {
    n = text_format("%.*g", digits, value);
    if (is_float ? strtof(n.text, NULL) == (float)value : strtod(n.text, NULL) == value) break;
  }
  return n;
}

void text_print_wrapped(FILE *file, const char *text, int column, int indent, int width) {
  for (bool first = true; *text; first = false) {
    const int length = (int)strcspn(text, " ");
    if (!first && column + 1 + length > width) {
      fprintf(file, "\n%*s", indent, "");
      column = indent;
    } else if (!first) {
      fputc(' ', file);
      column++;
    }
    fwrite(text, 1, (size_t)length, file);
    column += length;
    text += length;
    text += strspn(text, " ");
  }
  fputc('\n', file);
}

bool text_beside_program(char *path, size_t size, const char *name) {
  const ssize_t length = readlink("/proc/self/exe", path, size - 1);
  path[length > 0 ? length : 0] = '\0';
  char *slash = strrchr(path, '/');
  if (!slash) return false;
  const size_t left = size - (size_t)(slash + 1 - path);
  return (size_t)snprintf(slash + 1, left, "%s", name) < left;
}
