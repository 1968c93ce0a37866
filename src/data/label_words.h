/* Finds out which words are the labels of a file. */
#pragma once

#include "data/dataset.h"

/* If the label of the first row of config->path is a word, reads all rows and sets *words to the
   different labels, sorted by their bytes, each on a line of its own; the caller frees them. Else,
   or if the file cannot be read, *words stays NULL: the reader of rows will say why. Returns false
   if there are more than DATASET_MAX_CLASSES words, or if memory runs out. */
bool label_words(const DatasetConfig *config, char **words, Error *error);
