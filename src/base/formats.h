/* Recognises files whose format is wrong for rows of data, for a network or for a picture. */
#pragma once

#include <stddef.h>

#include "base/error.h"

typedef enum { FORMAT_ROWS, FORMAT_NETWORK, FORMAT_PICTURE, FORMATS_WANTED } FormatWanted;

enum { FORMAT_START = 256 }; /* bytes of a file's start that are enough to recognise its format */

/* Returns false if `bytes`, the start of a file, show a known format other than the wanted format.
   Then *error becomes "NAME is FORMAT: what to do". Needs at most FORMAT_START bytes. */
bool format_check(const char *name, const char *bytes, size_t length, FormatWanted wanted,
                  Error *error);
