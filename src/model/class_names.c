#include "model/class_names.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stream.h"
#include "model/network.h"

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

int class_names_lines(const char *names) {
  int count = 1;
  for (; (names = strchr(names, '\n')); names++) count++;
  return count;
}

/* Reads a file as a text without line feeds at its end, which the caller frees. */
static char *read_lines(const char *path, Error *error) {
  enum { MOST = 1 << 17 }; /* enough for 1024 names */
  char *text = calloc(1, MOST + 1);
  FILE *file = stream_open_input(path);
  size_t length = file && text ? fread(text, 1, MOST, file) : 0;
  const bool good = text && file && !ferror(file);
  if (!good)
    error_set(error, "--names: cannot read %s: %s; to list names, separate them with commas", path,
              strerror(errno));
  if (file) fclose(file);
  if (good && length > 0 && length < MOST && strlen(text) == length) {
    while (length > 0 && strchr("\r\n", text[length - 1])) text[--length] = '\0';
    return text;
  }
  if (good) error_set(error, "--names: %s is empty, too long or binary", path);
  free(text);
  return NULL;
}

/* Reads a line of EMNIST's mapping. Returns false if it is another line. */
static bool read_mapping(const char *line, int *class, int *code) {
  char rest;
  const size_t length = strcspn(line, "\n");
  return strspn(line, "0123456789 \t\r") == length &&
         sscanf(line, "%4d %4d%c", class, code, &rest) >= 2 &&
         *class<NETWORK_MAX_CLASSES && * code> ' ' && *code <= '~';
}

/* Turns EMNIST's mapping into names, in place of *text. Leaves other lines alone. */
static bool map_names(char **text, Error *error) {
  char name[NETWORK_MAX_CLASSES] = "";
  int class, code, classes = 0;
  for (const char *line = *text; line; line = strchr(line, '\n'), line += line != NULL) {
    if (!read_mapping(line, &class, &code)) return true;
    name[class] = (char)code;
    classes = class >= classes ? class + 1 : classes;
  }
  char *names = NULL;
  size_t size;
  FILE *file = open_memstream(&names, &size);
  if (!file) return error_set(error, "out of memory");
  for (int c = 0; c < classes; c++) {
    if (c > 0) putc('\n', file);
    if (name[c])
      putc(name[c], file);
    else
      fprintf(file, "%d", c); /* EMNIST's letters begin at class 1 */
  }
  const bool good = !ferror(file);
  if (fclose(file) != 0 || !good) {
    free(names);
    return error_set(error, "out of memory");
  }
  free(*text);
  *text = names;
  return true;
}

/* Returns the names that `value` has, one per line, which the caller frees. */
static char *list_names(const char *value, Error *error) {
  if (!strchr(value, ',')) {
    char *text = read_lines(value, error);
    if (text && map_names(&text, error)) return text;
    free(text);
    return NULL;
  }
  char *names = strdup(value);
  for (char *c = names; c && *c; c++)
    if (*c == ',') *c = '\n';
  return names ? names : error_null(error, "out of memory");
}

int class_names_count(const char *value) {
  Error why;
  char *names = list_names(value, &why);
  const int count = names ? class_names_lines(names) : 0;
  free(names);
  return count;
}

bool class_names_read(const char *value, int classes, char **names, Error *error) {
  if (!*value) return true;
  free(*names);
  *names = list_names(value, error);
  if (!*names) return false;
  return class_names_settle(*names, classes, "--names", error) &&
         class_names_check_numbers(*names, classes, "--names", error);
}

bool class_names_check_numbers(const char *names, int classes, const char *whose, Error *error) {
  for (int c = 0; c < classes; c++) { /* only class 3 may have the name "3" */
    char *end;
    const ShortText name = class_name(names, c);
    const double number = strtod(name.text, &end);
    if (!*end && number >= 0 && number < classes && number == floor(number) && number != c)
      return error_set(error, "%s: '%s' would name class %d, but as a label it is class %g", whose,
                       name.text, c, number);
  }
  return true;
}
