/* The names of a network's classes, "T-shirt" instead of 0: a text of a line for each class in
   UTF-8, without a line feed at its end. NULL: classes are called by their numbers. */
#pragma once

#include <stdio.h>

#include "base/error.h"

typedef struct {
  char text[64];
} ClassName;

/* Returns the name of class c, or its number. Whatever shows a class to people asks this. */
ClassName class_name(const char *names, int c);

/* Prints JSON: `, "name": "T-shirt"`, nothing without names; a list of all names, or numbers. */
void class_name_print_json(FILE *file, const char *names, int c);
void class_names_print_json(FILE *file, const char *names, int classes);

/* Takes the blanks around each name away. Returns false if the names are not as many as `classes`,
   or one is empty, too long for a ClassName, no plain text or there twice. whose: for the error. */
bool class_names_settle(char *names, int classes, const char *whose, Error *error);

/* Replaces *names (NULL or malloc'ed) by the settled, comma-separated list of --names, unless that
   is "". */
bool class_names_read(const char *value, int classes, char **names, Error *error);
