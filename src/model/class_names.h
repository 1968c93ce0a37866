/* The names of a network's classes, such as "T-shirt" instead of 0. They are one text in UTF-8 with
   a line for each class and no line feed at its end. NULL means that classes are called by their
   numbers. */
#pragma once

#include <stdio.h>

#include "base/error.h"

typedef struct {
  char text[64];
} ClassName;

/* Returns the name of class c, or its number. All code that shows a class to people uses this. */
ClassName class_name(const char *names, int c);

/* Prints `, "name": "T-shirt"` as a part of JSON, or nothing if there are no names. The next
   function prints a list of all names or numbers. */
void class_name_print_json(FILE *file, const char *names, int c);
void class_names_print_json(FILE *file, const char *names, int classes);

/* Removes the blanks around each name. Returns false if the count of names is not `classes`, or if
   a name is empty, too long for a ClassName, not plain text, or given twice. whose: for the
   error. */
bool class_names_settle(char *names, int classes, const char *whose, Error *error);

/* Replaces *names (NULL or malloc'ed) by the checked names of --names, a comma-separated list,
   unless that is "". */
bool class_names_read(const char *value, int classes, char **names, Error *error);
