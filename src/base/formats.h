/* Recognises files whose format is wrong for rows of data or for a network. */
#pragma once

#include <stddef.h>

#include "base/error.h"

typedef enum { FORMAT_ROWS, FORMAT_NETWORK } FormatWanted;

/* Returns false if `bytes`, the start of a file, show a known format that is not the wanted format.
   About 100 bytes are enough. *error becomes "NAME is FORMAT: advice on how to convert it". */
bool format_check(const char *name, const char *bytes, size_t length, FormatWanted wanted,
                  Error *error);
