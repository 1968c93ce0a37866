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

/* Returns false if a name is the number of another class: only class 3 may have the name "3". The
   error begins with `whose`. */
bool class_names_check_numbers(const char *names, int classes, const char *whose, Error *error);

/* Returns the number of lines of `names`. */
int class_names_lines(const char *names);

/* Returns the number of names that `value` of --names has, or 0 if it cannot be read. */
int class_names_count(const char *value);

/* Replaces *names (NULL or malloc'ed) by the names in `value`, the value of --names: names with
   commas between or, without a comma, a file. Its lines are a name each or, as in EMNIST's mapping,
   a class, the code of its character and perhaps more codes. Checks the names. Does nothing if
   `value` is "". */
bool class_names_read(const char *value, int classes, char **names, Error *error);
