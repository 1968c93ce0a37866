#include "base/json.h"

#include "base/text.h"

void json_text(const char *text, FILE *file) {
  putc('"', file);
  for (int length; *text; text += length ? length : 1) {
    length = text_character(text);
    if (length == 0)
      fputs("\\ufffd", file);
    else if (*text == '"' || *text == '\\')
      fprintf(file, "\\%c", *text);
    else if ((unsigned char)*text < ' ')
      fprintf(file, "\\u%04x", (unsigned)*text);
    else
      fwrite(text, 1, (size_t)length, file);
  }
  putc('"', file);
}
