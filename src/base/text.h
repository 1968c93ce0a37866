/* Text that others wrote: names of files and what stands in them. */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the UTF-8 character (RFC 3629) that `text` begins with, 1 to 4; 0 if it begins with
   none. An end of text counts as a character of one byte. */
int text_character(const char *text);

bool text_is_utf8(const char *text);

/* Copies the text with its control characters and what is not UTF-8 written as \x1b, so that it
   cannot command a terminal. Like snprintf, returns the length of the whole, and ends `target`,
   which may be NULL if `size` is 0, with a 0; what does not fit is left out. */
size_t text_printable(char *target, size_t size, const char *text);

/* Copies the text as a shell takes it for one word: as it is, or between single quotes. What does
   not fit is cut. */
void text_shell_word(char *target, size_t size, const char *text);

/* The words of a command with spaces between them, for a record of measurements; but for --sources
   and the digest after it, which change with every commit. What does not fit is cut. */
void text_command_line(char *target, size_t size, int count, char **words);

#endif
