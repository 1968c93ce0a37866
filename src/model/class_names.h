/* The names of a network's classes, such as "T-shirt" instead of 0. All names are one UTF-8 text
   with a line for each class. The last line has no line feed. NULL means that the classes have
   numbers, but no names. */
#pragma once

#include "base/error.h"
#include "base/text.h"

enum { CLASS_NAME_MOST = 63 }; /* maximum bytes of a name */

/* Returns class c as people see it: its name, or its number if there are no names. */
ShortText class_name(const char *names, int c);

/* Prints all names or, if there are no names, all numbers, as a JSON list. */
void class_names_print_json(FILE *file, const char *names, int classes);

/* Removes the blanks around each name. Returns false if there are not `classes` names, or if a
   name is empty, longer than CLASS_NAME_MOST, not plain text, or given twice. The error begins with
   `whose`. */
bool class_names_settle(char *names, int classes, const char *whose, Error *error);

/* Replaces *names (NULL or malloc'ed) by the names in `value`, the comma-separated list of --names,
   and checks them. Does nothing if `value` is "". */
bool class_names_read(const char *value, int classes, char **names, Error *error);
