#include "base/error.h"

#include <stdarg.h>

#include "base/text.h"

bool(error_set)(Error *error, const char *format, ...) {
  if (!error) return false;
  error->of_gpu = error->too_large = error->unread = false;
  va_list arguments;
  va_start(arguments, format);
  char text[sizeof error->text];
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  text_printable(error->text, sizeof error->text, text);
  return false;
}
