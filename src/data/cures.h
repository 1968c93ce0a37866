/* Says what to do about a file of rows that could not be read. */
#pragma once

#include "data/columns.h"

/* Reads the file at `path` again, after the reader refused line `line` (from 1), column `column`
   (from 1; 0 means the whole line), and appends to *error what to do about it. Appends nothing if
   no known cure fits all of the file, or if the file can be read only once. */
void cures_append(const char *path, const CsvColumns *columns, uint64_t line, size_t column,
                  Error *error);
