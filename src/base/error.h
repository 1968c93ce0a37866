/* An error message. The function that understands a failure writes it; only main prints it. */
#pragma once

#include <stdbool.h>

typedef struct {
  char text[512]; /* one sentence without a newline: what failed, where, what to do */
  bool of_gpu;    /* the GPU failed, so the caller may retry on the CPU; see cuda_error.c */
  bool too_large; /* the work needs more memory than the host or the device has or may use */
  bool unread;    /* standard output is a closed pipe, as with `| head`, so no message is needed */
} Error;

/* Formats the message into *error, which may be NULL, and returns false, so that a failing function
   can end in `return error_set(error, ...)`. A message that is too long is cut. Escapes control
   characters as text_printable does, since a message may quote a hostile file. */
bool error_set(Error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __clang_analyzer__ /* the analyzer does not look into error.c */
static inline bool error_is_set(bool set) {
  (void)set;
  return false;
}
#define error_set(...) error_is_set(error_set(__VA_ARGS__))
#endif

/* Calls error_set and evaluates to NULL, for functions that return a pointer. */
#define error_null(...) (error_set(__VA_ARGS__), NULL)

/* Calls error_set, sets error->too_large and evaluates to false. */
#define error_too_large(error, ...)                                                                \
  (error_set(error, __VA_ARGS__) || ((error) && !((error)->too_large = true)))
