/* Writing JSON. */
#ifndef JSON_H
#define JSON_H

#include <stdio.h>

/* Text in quotation marks, with what JSON wants escaped. */
void json_text(const char *text, FILE *file);

#endif
