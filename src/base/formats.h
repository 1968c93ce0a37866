/* Recognises files that are given as rows or as a network but have another format. */
#pragma once

#include <stddef.h>

#include "base/error.h"

typedef enum { FORMAT_ROWS, FORMAT_NETWORK } FormatWanted;

/* Refuses a file of another known format, by its first bytes. About 100 bytes are enough. The error
   names the format and says how to convert the file. `name` begins the sentence. */
bool format_check(const char *name, const char *bytes, size_t length, FormatWanted wanted,
                  Error *error);
