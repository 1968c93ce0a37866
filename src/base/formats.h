/* Recognises files whose format is wrong for rows of data or for a network. */
#pragma once

#include <stddef.h>

#include "base/error.h"

typedef enum { FORMAT_ROWS, FORMAT_NETWORK } FormatWanted;

/* Returns false if `bytes`, the start of a file, show a known format other than the wanted format.
   Then *error becomes "NAME is FORMAT: advice on how to convert it". About 100 bytes are enough. */
bool format_check(const char *name, const char *bytes, size_t length, FormatWanted wanted,
                  Error *error);
