/* Handles text from outside, such as file names and the content of files. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Returns the number of bytes, 1 to 4, of the UTF-8 character (RFC 3629) at the start of `text`, or
   0 if there is no valid character. The end of the text counts as a character of one byte. */
int text_character(const char *text);

bool text_is_utf8(const char *text);

/* Copies the text. Control characters and bytes that are not UTF-8 become escapes such as \x1b, so
   that the text cannot command a terminal. Like snprintf, returns the length of the whole result,
   cuts the result if it does not fit and ends `target` with a 0. `target` may be NULL if `size` is
   0. */
size_t text_printable(char *target, size_t size, const char *text);

/* Appends text, formatted as by printf, to the text in target[size]. Text that does not fit is
   cut. */
void text_append_to(char *target, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Calls text_append_to with the size of an array of char. */
#define text_append(ARRAY, ...) text_append_to((ARRAY), sizeof(ARRAY), __VA_ARGS__)

/* Writes a text in quotation marks with JSON's escapes. "<" is escaped, too, so that the
   text cannot end a script in a web page. A byte that is not UTF-8 becomes U+FFFD. */
void json_text(const char *text, FILE *file);

/* A line of text. Text that does not fit is cut. */
typedef struct {
  char text[1024];
} ShortText;

ShortText text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns a copy of the text with escapes for what is not printable (see text_printable). */
ShortText text_shown(const char *text);

/* Returns the plural ending of a noun: "s", or "" if the count is 1. */
static inline const char *plural(int count) {
  return count == 1 ? "" : "s";
}

/* Returns the text of a number, or "-" if it is not finite. Smaller numbers get more decimals. */
ShortText text_of_number(double value);

/* Returns the shortest text that reads back as the same number: as a float32 if `is_float`,
   otherwise as a float64. */
ShortText number_text(double value, bool is_float);

/* Prints text, starting at column `column`, and ends the line. Breaks lines at blanks so that none
   is longer than `width` columns. Indents the later lines by `indent` columns. */
void text_print_wrapped(FILE *file, const char *text, int column, int indent, int width);

/* Sets path[size] to the path of file `name` in the folder of this program. Returns false if the
   path is too long or unknown. */
bool text_beside_program(char *path, size_t size, const char *name);
