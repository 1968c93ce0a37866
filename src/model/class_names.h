/* The names of a network's classes: "T-shirt" instead of 0. */
#pragma once

#include <stdio.h>

#include "base/error.h"

/* A name in UTF-8. A network's are an array of (classes), NULL: its classes are called by their
   numbers. No two are the same, none is empty, and none has control characters. */
typedef struct {
  char text[64];
} ClassName;

/* Returns the name of class c, or its number. Whatever shows a class to people asks this. */
ClassName class_name(const ClassName *names, int c);

/* Returns the characters of class c's name. */
int class_name_length(const ClassName *names, int c);

/* Returns the characters of the longest name. */
int class_names_width(const ClassName *names, int classes);

/* Prints the name, in `width` columns from the right if it is shorter. */
void class_name_print(FILE *file, int width, const ClassName *names, int c);

/* Prints `, "name": "T-shirt"` behind a member of a JSON object; nothing if there are no names. */
void class_name_print_json(FILE *file, const ClassName *names, int c);

/* Prints all names, or numbers, as a list of JSON strings. */
void class_names_print_json(FILE *file, const ClassName *names, int classes);

/* Returns the names in a text with `separator` between them, without the blanks around each, to be
   freed; NULL with *error set: they are not as many as `classes`, or bad. whose: for the error. */
ClassName *class_names_parse(const char *text, char separator, int classes, const char *whose,
                             Error *error);

/* The same of what --names says: a list with commas, or a file with a name on each line. */
ClassName *class_names_read(const char *value, int classes, Error *error);
