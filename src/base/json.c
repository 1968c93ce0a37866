#include "base/json.h"

void json_text(const char *text, FILE *file) {
  putc('"', file);
  for (const char *c = text; *c; c++) {
    if (*c == '"' || *c == '\\')
      fprintf(file, "\\%c", *c);
    else if ((unsigned char)*c < ' ')
      fprintf(file, "\\u%04x", (unsigned)*c);
    else
      putc(*c, file);
  }
  putc('"', file);
}
