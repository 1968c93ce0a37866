#include "model/class_names.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ShortText class_name(const char *names, int c) {
  for (int before = 0; names && before < c; before++) names = strchr(names, '\n') + 1;
  return names ? text_format("%.*s", (int)strcspn(names, "\n"), names) : text_format("%d", c);
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
  char *name = names; /* the next name; each name ends in a 0 byte until all are checked */
  for (char *at = names, *end; at; at = end) {
    at += strspn(at, " \t");
    size_t length = strcspn(at, "\n");
    end = at[length] ? at + length + 1 : NULL;
    while (length > 0 && strchr(" \t\r", at[length - 1])) length--;
    memmove(name, at, length);
    name[length] = '\0';
    count++;
    if (length == 0 || length > CLASS_NAME_MOST || text_printable(NULL, 0, name) != length)
      return error_set(error,
                       "%s: name %d, '%.*s', must be 1 to %d bytes of UTF-8 without control "
                       "characters",
                       whose, count, CLASS_NAME_MOST + 1, name, CLASS_NAME_MOST);
    for (const char *other = names; other < name; other += strlen(other) + 1)
      if (strcmp(other, name) == 0) return error_set(error, "%s: '%s' appears twice", whose, name);
    name += length + 1;
  }
  for (char *c = names; c < name - 1; c++)
    if (!*c) *c = '\n';
  return count == classes || error_set(error, "%s: %d name%s, but the network has %d classes",
                                       whose, count, count == 1 ? "" : "s", classes);
}

bool class_names_read(const char *value, int classes, char **names, Error *error) {
  if (!*value) return true;
  free(*names);
  *names = strdup(value);
  for (char *c = *names; c && *c; c++)
    if (*c == ',') *c = '\n';
  if (!*names) return error_set(error, "out of memory");
  if (!class_names_settle(*names, classes, "--names", error)) return false;
  for (int c = 0; c < classes; c++) { /* only class 3 may have the name "3" */
    char *end;
    const ShortText name = class_name(*names, c);
    const double number = strtod(name.text, &end);
    if (!*end && number >= 0 && number < classes && number == floor(number) && number != c)
      return error_set(error, "--names: '%s' would name class %d, but as a label it is class %g",
                       name.text, c, number);
  }
  return true;
}
