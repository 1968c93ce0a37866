/* Decides from the first line of a CSV file which column is the label and which columns are pixels,
   and in which order the pixels go to the network. Every reader of rows asks this one function, so
   that --train, --test, --evaluate and --predict never disagree about a file. */
#pragma once

#include <stddef.h>

#include <csv.h>

#include "base/error.h"
#include "data/summary.h"

/* CSV_REPALL_NL makes libcsv report blank lines, too. */
enum { CSV_OPTIONS = CSV_STRICT | CSV_STRICT_FINI | CSV_REPALL_NL };

#define STRAY_QUOTE "a stray quote"

/* CSV_NONE means that there is no such line or column. */
#define CSV_NONE UINT64_MAX

enum { COLUMNS_LEFT_OUT = 64 }; /* maximum number of columns that are left out */

/* STOP_ID: it numbers the rows. STOP_ALSO_ID: so does an earlier column. */
typedef enum { STOP_LABEL, STOP_ID, STOP_ALSO_ID, STOP_OTHER } StopKind;

/* A column that is not a pixel. */
typedef struct {
  size_t column; /* of the file, from 0 */
  size_t pixels; /* number of pixels before it */
  StopKind kind;
} ColumnStop;

/* The columns of a file: pixels and, if `labelled`, a label. Other columns are left out. */
typedef struct {
  size_t columns, inputs;
  char separator;
  bool named;            /* the first line is a header */
  bool labelled, judged; /* rows have a label; labels are checked (if false, they become 0) */
  size_t label;          /* number of pixels before the label, if `labelled` */
  size_t label_at;       /* the label's column in the file, counted from 0, if `labelled` */
  ColumnStop stop[COLUMNS_LEFT_OUT + 1]; /* (stops): the columns that are not pixels, in order */
  size_t stops;
  uint16_t *order;   /* (inputs): the network's pixel for each pixel of a line; NULL means that
                        they are in the same order; owned */
  int classes;       /* labels are below this number */
  const char *names; /* class names that labels may use, one per line; NULL if there are none */
  bool words;        /* the names were the labels of the training rows, so a number is no class */
} CsvColumns;

/* Where lines come from. A line of a picture has no header. Its label, if it has one, is first. */
typedef enum { LINES_OF_TEXT, LINES_OF_PICTURES, LINES_OF_LABELLED_PICTURES } LinesOf;

/* What is known of a file before its first line is read. */
typedef struct {
  const char *file;     /* the file's name in messages */
  const char *label;    /* the label's column: a number from 1, a header name, "last", or "" */
  const char *left_out; /* columns to leave out, by number or name with commas between, or "" */
  int inputs;           /* the number of pixels of a row, or 0 if the first line gives it */
  bool predicts;        /* rows may lack a label, and labels are ignored */
  const DataSummary *trained; /* the training rows of the network that gets the rows, or NULL */
  LinesOf lines;              /* unless of text, label and left_out do not matter */
} ColumnsKnown;

/* Learns the separator, the header and the columns from the first line, line[length], of a file.
   Sets *columns, apart from `classes` and `names`, and the fields of *summary that describe
   columns.

   The line is a header if its first field cannot start a number, if a field names the label's
   column, or if the fields are the columns' numbers from 0 or 1, as pandas writes them.

   The label's column is, in this order: known->label; the column with the name of the training
   rows' label; the column that the header calls label, class, target, digit or y; the only column
   of a header whose name does not end in a digit; the column of the training rows' label; the first
   column. A file with as many columns as the network has pixels has no label.

   If `trained` has names of pixels, the header must have the same names, which may be in another
   order. Otherwise the header's numbers give the order of pixels, because tables of databases and
   pandas may be sorted by name: pixel0, pixel1, pixel10.

   A column that the header calls id, imageid, image_id, row, idx, index or Unnamed: 0, or a first
   column without a name, numbers the rows and is left out, unless it is the label.

   Returns false if the line is blank or badly quoted, if known->left_out names no column, if the
   label or the pixels cannot be told, or if memory runs out. The caller frees columns->order even
   then. */
bool columns_decide(const ColumnsKnown *known, const char *line, size_t length, CsvColumns *columns,
                    DataSummary *summary, Error *error);

/* Returns the stop at a column of the file, from 0, or NULL if the column is a pixel. */
const ColumnStop *columns_stop(const CsvColumns *columns, size_t column);

/* Returns true if two lists of pixel names (DataSummary.names) are the same, or count the pixels of
   the same name from 0 and from 1. An unknown list, "", is like every other list. */
bool columns_alike(const char *names, const char *others);
