/* IDX files, as MNIST is published (LeCun, Cortes, Burges, 1998): a header, then pictures of bytes;
   their labels are in a file of their own beside it, which is named like it with "labels" for
   "images" and "idx1" for "idx3", and may be packed when it is not, or the other way round. */
#pragma once

#include <limits.h>

#include "data/source.h"

enum { IDX_HEADER = 16 };

/* The pictures of a file, from front to back. */
typedef struct {
  uint64_t rows; /* that the header says; 0: not an IDX file */
  uint64_t read; /* of them */
  size_t inputs; /* bytes of a picture */
  int classes;   /* labels are below it */
  bool labelled; /* they are read, too */
  Source labels;
  char name[PATH_MAX]; /* of the labels' file */
} Idx;

/* Returns true if a file that begins with these bytes is an IDX file. */
bool idx_is(const char *bytes, size_t length);

/* Opens the file that `images` reads, which begins with these bytes. inputs: bytes that a picture
   must have; 0: any number up to `most`, and labels. Fails if it is no file of pictures, not as
   long as it says, or has not as many labels. source_close(&idx->labels) is due all the same. */
bool idx_open(Idx *idx, const Source *images, const char *bytes, size_t length, size_t inputs,
              size_t most, Error *error);

/* Reads on behind the first `length` bytes of pixels, up to `rows` pictures, with their labels, or
   0 for each. Returns how many there were before the end or a fault, then in images->error. */
size_t idx_read(Idx *idx, Source *images, uint8_t *pixels, size_t length, uint16_t *labels,
                size_t rows);
