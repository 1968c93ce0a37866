/* Writes JSON. */
#ifndef JSON_H
#define JSON_H

#include <stdio.h>

/* Writes a text in quotation marks, escaped as JSON wants it. A byte that is not UTF-8, which JSON
   cannot hold, becomes U+FFFD. */
void json_text(const char *text, FILE *file);

#endif
