/* Writing JSON. */
#ifndef JSON_H
#define JSON_H

#include <stdio.h>

/* Text in quotation marks, with what JSON wants escaped. Each byte that is not UTF-8, which JSON
   cannot hold, becomes U+FFFD. */
void json_text(const char *text, FILE *file);

#endif
