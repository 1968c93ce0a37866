/* A summary of the rows of a file that was read. The reader fills the summary; a run prints it,
   logs it and saves it with the network; data_compare compares two summaries. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/text.h"

enum {
  DATASET_MAX_COLUMNS = 4097,
  DATASET_MAX_CLASSES = 1024,
  DATASET_NAMES = 1 << 16, /* room for names of pixels: 16 bytes for each of 4096 */
};

/* How the reader found the label's column. The last three are not in doubt. */
typedef enum {
  LABEL_NONE,       /* rows have no label */
  LABEL_FIRST,      /* it is the first column, as usual */
  LABEL_AS_TRAINED, /* it is in the same column as in the training rows */
  LABEL_ODD,        /* it is the only column of the header whose name has no number */
  LABEL_NAMED,      /* the header names it */
  LABEL_TOLD,       /* --label-column says so */
} LabelFound;

/* How the pixels of a line were put in the network's order. */
typedef enum {
  ORDER_KEPT,
  ORDER_DOUBTFUL, /* kept, although their numbers are in another order, because the names of the
                     training rows' pixels are unknown */
  ORDER_BY_NUMBER,
  ORDER_AS_TRAINED
} PixelOrder;

enum { LABEL_DIFFERS = -1 }; /* for DataSummary.label: several networks had it in several columns */

typedef struct {
  uint64_t rows;                        /* number of rows that the reader delivered */
  uint64_t counts[DATASET_MAX_CLASSES]; /* number of rows with each label */
  uint64_t alike;                       /* number of rows with the previous row's label */
  int columns, inputs, classes;         /* fields per line; pixels per row; number of classes */
  int least, greatest;                  /* the least and the greatest pixel value */
  double mean;                          /* the mean pixel value */
  bool header, sorted;                  /* true if line 1 is a header; true if data_is_sorted */

  /* The columns, as columns.h decides them. Texts are "" if unknown or if there is no header. */
  int label; /* the label's column, from 1; 0 if rows have no label, if it is in no column, or if it
                is unknown */
  LabelFound label_found;
  bool words;          /* labels are names of classes */
  bool mapped;         /* labels are numbers whose words are names of classes, as 8 for eight */
  int id;              /* the column that numbers the rows and is left out, from 1, or 0 */
  char ids[128];       /* all columns that are left out because they number rows, as "1, 3" */
  int header_label;    /* the column with a usual name of a label, from 1, or 0 */
  char label_name[64]; /* the header's name of the label's column */
  char
      names[DATASET_NAMES]; /* names of the pixels, in the network's order, each with a line feed */
  PixelOrder order;
  bool on_side;           /* pictures of EMNIST's IDX files lie on their side */
  bool counts_up;         /* the ignored labels are whole numbers, each one more than the last */
  bool constant;          /* the ignored labels are one whole number */
  uint64_t first_ignored; /* the first ignored label, if counts_up or constant */

  /* The file that the rows came from. */
  uint64_t file_rows; /* number of rows that were read, with the rows that split.h leaves out */
  uint64_t file_size; /* in bytes; 0 if it is a pipe */
  uint64_t device,
      inode; /* They identify the file on this machine. They are not saved, because a
                run that is repeated elsewhere must save the same bytes. 0 if unknown */

  /* The code that trains on the rows sets the next two fields. */
  int white;     /* the pixel value that the network reads as 1; 0 if unknown */
  bool streamed; /* rows are shuffled only within a staging buffer, not within the file */
} DataSummary;

/* Returns true if labels change from row to row less than half as often as in random order (a runs
   test: Wald and Wolfowitz, "On a test whether two samples are from the same population", 1940). If
   `so_far`, more rows may follow; then rows of a single label also count as sorted. */
bool data_is_sorted(const DataSummary *summary, bool so_far);

/* Returns a text such as "60000 rows, 10 classes, pixels 0 to 255". */
ShortText data_text(const DataSummary *summary);

/* data_to_json returns a JSON object, which the caller frees. It returns NULL if memory runs out.
   data_from_json reads such an object. It returns false if `text` is not a summary. */
char *data_to_json(const DataSummary *summary);
bool data_from_json(DataSummary *summary, const char *text);

/* Returns true if both have the same rows in the same order, as far as counts and the mean tell. */
bool data_are_equal(const DataSummary *a, const DataSummary *b);

/* Calls `say` with a line for each remark on the rows of file `name`; the line says what to do.
   Compares `rows` with `trained`, the summary of the training rows. `trained` is NULL if `rows` are
   the training rows, and has 0 rows if nothing is known of them. */
void data_compare(const char *name, const DataSummary *rows, const DataSummary *trained,
                  void (*say)(void *context, const char *line), void *context);
