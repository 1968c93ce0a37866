#include "model/class_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/stream.h"
#include "base/text.h"

ClassName class_name(const char *names, int c) {
  ClassName name;
  for (int before = 0; names && before < c; before++) names = strchr(names, '\n') + 1;
  if (names)
    snprintf(name.text, sizeof name.text, "%.*s", (int)strcspn(names, "\n"), names);
  else
    snprintf(name.text, sizeof name.text, "%d", c);
  return name;
}

void class_name_print_json(FILE *file, const char *names, int c) {
  if (!names) return;
  fputs(", \"name\": ", file);
  json_text(class_name(names, c).text, file);
}

void class_names_print_json(FILE *file, const char *names, int classes) {
  for (int c = 0; c < classes; c++) {
    fputs(c ? ", " : "[", file);
    json_text(class_name(names, c).text, file);
  }
  fputc(']', file);
}

bool class_names_settle(char *names, int classes, const char *whose, Error *error) {
  int count = 0;
  char *name = names; /* where the next one goes; until the end, each ends in a 0 */
  for (char *at = names, *end; at; at = end) {
    at += strspn(at, " \t");
    size_t length = strcspn(at, "\n");
    end = at[length] ? at + length + 1 : NULL;
    while (length > 0 && strchr(" \t\r", at[length - 1])) length--;
    memmove(name, at, length);
    name[length] = '\0';
    count++;
    if (length == 0 || length >= sizeof(ClassName) || text_printable(NULL, 0, name) != length)
      return error_set(error,
                       "%s: name %d, '%s', must be 1 to %zu bytes of UTF-8 without control "
                       "characters",
                       whose, count, name, sizeof(ClassName) - 1);
    for (const char *other = names; other < name; other += strlen(other) + 1)
      if (strcmp(other, name) == 0) return error_set(error, "%s: '%s' is there twice", whose, name);
    name += length + 1;
  }
  for (char *c = names; c < name - 1; c++)
    if (!*c) *c = '\n';
  return count == classes || error_set(error, "%s: %d name%s, but the network has %d classes",
                                       whose, count, count == 1 ? "" : "s", classes);
}

/* Returns the text of a file with names, NULL on failure. */
static char *read_file(const char *path, Error *error) {
  enum { ROOM = 1 << 18 }; /* bytes: of the most names, each as long as can be, and blanks */
  char *text = calloc(ROOM, 1);
  errno = 0;
  FILE *file = text ? stream_open_input(path) : NULL;
  size_t length = file ? fread(text, 1, ROOM - 1, file) : 0;
  const bool good =
      (file && !ferror(file)) ||
      error_set(error, "--names: cannot read %s: %s; a list has commas", path, strerror(errno));
  if (file) fclose(file);
  while (length > 0 && strchr("\r\n", text[length - 1])) text[--length] = '\0';
  if (good && strncmp(text, "\xef\xbb\xbf", 3) == 0) /* a byte order mark */
    memmove(text, text + 3, length - 2);
  if (good) return text;
  free(text);
  return NULL;
}

bool class_names_read(const char *value, int classes, char **names, Error *error) {
  const bool is_list = strchr(value, ',');
  if (!*value) return true;
  free(*names);
  *names = is_list ? strdup(value) : read_file(value, error);
  for (char *c = *names; is_list && c && *c; c++)
    if (*c == ',') *c = '\n';
  return *names ? class_names_settle(*names, classes, is_list ? "--names" : value, error)
                : is_list && error_set(error, "out of memory");
}
