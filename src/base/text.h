/* Text that others wrote: names of files and what stands in them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Returns the bytes of the UTF-8 character (RFC 3629) that `text` begins with, 1 to 4, or 0 if it
   begins with none. The end of the text counts as a character of one byte. */
int text_character(const char *text);

bool text_is_utf8(const char *text);

/* Copies the text with control characters and bytes that are not UTF-8 written like \x1b, so that
   it cannot command a terminal. Returns the length of the whole and ends `target` with a 0, as
   snprintf does; `target` may be NULL if `size` is 0. What does not fit is left out. */
size_t text_printable(char *target, size_t size, const char *text);

/* Adds to the text in target[size] what printf would print. What does not fit is cut. */
void text_append(char *target, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes a text in quotation marks, escaped as JSON wants it, and "<" too, so that it ends no
   script of a web page. A byte that is not UTF-8, which JSON cannot hold, becomes U+FFFD. */
void json_text(const char *text, FILE *file);

/* A line of text. What does not fit is cut. */
typedef struct {
  char text[1024];
} ShortText;

/* Returns what printf would print. */
ShortText text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns the text as text_printable has it. */
ShortText text_shown(const char *text);

/* Returns the ending of a noun that is counted. */
static inline const char *plural(int count) {
  return count == 1 ? "" : "s";
}

/* Returns a number with three digits or more; "-" if it is not finite. */
ShortText text_of_number(double value);

/* Returns a number with as few digits as read back bit for bit, as float32 if it is one. */
ShortText number_text(double value, bool is_float);

/* Joins the words of a command by spaces, for a record of measurements. Leaves out --sources and
   the digest after it, which change with every commit. What does not fit is cut. */
void text_command_line(char *target, size_t size, int count, char **words);

/* Prints text from `column` on, broken at blanks into lines of at most `width` columns that start
   at `indent`, and ends the line. */
void text_print_wrapped(FILE *file, const char *text, int column, int indent, int width);

/* Sets path[size] to the file `name` in the folder of this program. */
bool text_beside_program(char *path, size_t size, const char *name);
