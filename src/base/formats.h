/* Recognises files of a wrong format that are given as rows or as a network. */
#pragma once

#include <stddef.h>

#include "base/error.h"

typedef enum { FORMAT_ROWS, FORMAT_NETWORK } FormatWanted;

/* Returns false if the first bytes of a file are those of another known format. About 100 bytes are
   enough. The message is "NAME is FORMAT: advice on how to convert it". */
bool format_check(const char *name, const char *bytes, size_t length, FormatWanted wanted,
                  Error *error);
