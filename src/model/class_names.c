#include "model/class_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"
#include "base/stream.h"
#include "base/text.h"

ClassName class_name(const ClassName *names, int c) {
  ClassName number;
  if (names) return names[c];
  snprintf(number.text, sizeof number.text, "%d", c);
  return number;
}

int class_name_length(const ClassName *names, int c) {
  const ClassName name = class_name(names, c);
  int length = 0;
  for (const char *at = name.text; *at; at += text_character(at)) length++;
  return length;
}

int class_names_width(const ClassName *names, int classes) {
  int width = 0;
  for (int c = 0; c < classes; c++) width = max_int(width, class_name_length(names, c));
  return width;
}

void class_name_print(FILE *file, int width, const ClassName *names, int c) {
  fprintf(file, "%*s%s", max_int(width - class_name_length(names, c), 0), "",
          class_name(names, c).text);
}

void class_name_print_json(FILE *file, const ClassName *names, int c) {
  if (!names) return;
  fputs(", \"name\": ", file);
  json_text(class_name(names, c).text, file);
}

void class_names_print_json(FILE *file, const ClassName *names, int classes) {
  for (int c = 0; c < classes; c++) {
    fputs(c ? ", " : "[", file);
    json_text(class_name(names, c).text, file);
  }
  fputc(']', file);
}

/* ---- reading ------------------------------------------------------------------------------ */

/* Checks names[c] against the rules and those before it. */
static bool check_name(const ClassName *names, int c, const char *whose, Error *error) {
  const char *name = names[c].text;
  if (!*name) return error_set(error, "%s: name %d is empty", whose, c + 1);
  if (text_printable(NULL, 0, name) != strlen(name))
    return error_set(error, "%s: name %d, '%s', must be UTF-8 without control characters", whose,
                     c + 1, name);
  for (int before = 0; before < c; before++)
    if (strcmp(names[before].text, name) == 0)
      return error_set(error, "%s: names %d and %d are both '%s'", whose, before + 1, c + 1, name);
  return true;
}

ClassName *class_names_parse(const char *text, char separator, int classes, const char *whose,
                             Error *error) {
  const char between[] = {separator, '\0'};
  int count = 1;
  for (const char *c = text; *c; c++) count += *c == separator;
  if (count != classes) {
    error_set(error, "%s: %d names, but the network has %d classes", whose, count, classes);
    return NULL;
  }
  ClassName *names = calloc((size_t)classes, sizeof *names);
  bool good = names || error_set(error, "%s: no memory for %d names", whose, classes);
  for (int c = 0; good && c < classes; c++) {
    text += strspn(text, " \t");
    size_t whole = strcspn(text, between), length = whole;
    while (length > 0 && strchr(" \t\r", text[length - 1])) length--;
    if (length >= sizeof names[c].text)
      good = error_set(error, "%s: name %d has %zu bytes, but at most %zu are kept", whose, c + 1,
                       length, sizeof names[c].text - 1);
    else
      memcpy(names[c].text, text, length);
    good = good && check_name(names, c, whose, error);
    text += whole + 1;
  }
  if (good) return names;
  free(names);
  return NULL;
}

ClassName *class_names_read(const char *value, int classes, Error *error) {
  if (strchr(value, ',')) return class_names_parse(value, ',', classes, "--names", error);
  enum { ROOM = 1 << 18 }; /* bytes: of the most names, each as long as can be, and blanks */
  ClassName *names = NULL;
  char *text = calloc(ROOM, 1);
  errno = 0;
  FILE *file = text ? stream_open_input(value) : NULL;
  size_t length = file ? fread(text, 1, ROOM - 1, file) : 0;
  if (!text)
    error_set(error, "no memory for the names in %s", value);
  else if (!file || ferror(file))
    error_set(error, "--names: cannot read %s: %s; a list has commas between the names", value,
              strerror(errno));
  else {
    while (length > 0 && strchr("\r\n", text[length - 1])) text[--length] = '\0';
    const bool marked = strncmp(text, "\xef\xbb\xbf", 3) == 0; /* a byte order mark */
    names = class_names_parse(text + 3 * marked, '\n', classes, value, error);
  }
  if (file) fclose(file);
  free(text);
  return names;
}
