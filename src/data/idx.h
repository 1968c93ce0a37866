/* Reads IDX files, the format in which MNIST, Fashion-MNIST, KMNIST and EMNIST are published
   (LeCun, Cortes, Burges, "The MNIST database of handwritten digits", 1998), as lines of CSV: each
   picture becomes a line of its label and its pixels. All that is known of rows of text (threads,
   chunks, checks, streaming) then holds for pictures, too. Other files are passed on as they are.

   Labels are in a file of their own. It is found by its name: beside train-images-idx3-ubyte.gz
   lies train-labels-idx1-ubyte.gz, packed or not. */
#pragma once

#include "data/source.h"

/* Zeros are an Idx that passes its source on. Only one thread at a time may use an Idx. */
typedef struct {
  uint32_t rows;          /* number of pictures; 0 if the source is not an IDX file */
  uint32_t height, width; /* of a picture, in pixels */
  uint8_t *labels;        /* `rows` labels, or NULL if there is no file of labels */
  bool ended;             /* idx_read has returned the last byte, or source->error is set */

  uint32_t turned;       /* number of pictures turned into lines */
  uint8_t *picture;      /* (height, width) */
  char *line;            /* the current line, or the first bytes of a file that is not IDX */
  size_t length, passed; /* its length; how many of its bytes were returned */
} Idx;

/* Looks whether an opened source is an IDX file, and then reads its header and its labels. Fails if
   it holds something else than pictures of bytes, or if the labels are not as many as the pictures.
   idx_close must be called even then. */
bool idx_open(Idx *idx, Source *source, Error *error);

/* Is source_read for the text of the rows: returns `size` bytes, or fewer at the end. */
size_t idx_read(Idx *idx, Source *source, char *bytes, size_t size);

void idx_close(Idx *idx);

enum { IDX_PATH = 4096, IDX_LABELS = IDX_PATH + 3 /* with ".gz" */ };

/* Sets `path` to the name under which the labels of the pictures `pictures` are expected, without
   ".gz". Returns false if the name does not say that the file holds pictures. */
bool idx_labels_path(const char *pictures, char path[IDX_PATH]);

/* Sets `path` to the existing file of labels that is read with the pictures `pictures`, if they are
   an IDX file, so that no output replaces it. Returns false if there is none: a file by that name
   that holds something else may be replaced. */
bool idx_labels_exist(const char *pictures, char path[IDX_LABELS]);
