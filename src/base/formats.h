/* Files that are taken for rows or for a network, and are something else. */
#pragma once

#include <stddef.h>

#include "base/error.h"

typedef enum { FORMAT_ROWS, FORMAT_NETWORK } FormatWanted;

/* Refuses a file by its first bytes (some 100 are enough), if they are those of a known format: the
   error says which, and how to make of it what is wanted. `name` begins the sentence. */
bool format_check(const char *name, const char *bytes, size_t length, FormatWanted wanted,
                  Error *error);
