/* Prints the output of mlp-train. Lines go to standard output, which is flushed after each line.
   Errors go to standard error. A terminal also shows the progress of an epoch. If standard output
   cannot be written, printing stops, and report_good says why. */
#pragma once

#include "train/trainer.h"

typedef struct Report {
  bool quiet;          /* true if only the last epoch is printed */
  bool shows_progress; /* true if standard output is a terminal and `quiet` is false */
  bool has_data;       /* true once report_data has printed its lines */
  bool has_heading;    /* true once report_epoch has printed its heading */
  bool has_warned;     /* true once report_learning has printed its remark */
  int percent;         /* the last percentage shown, or -1 */
  bool aside;          /* true if remarks go to standard error instead of standard output */
  bool failed;         /* true if standard output cannot be written */
  Error error;         /* why standard output cannot be written */
} Report;

Report report_open(bool quiet);

/* Returns true if all output so far was written, including the output of other modules. */
bool report_good(const Report *report, Error *error);

/* Prints the lines before the first epoch. `reason` says why no GPU is used, or is "". */
void report_start(Report *report, const Trainer *trainer, const char *reason);

/* Prints the files that were read, their rows, and remarks on the rows, and returns true. Prints
   nothing and returns false if the training rows are not yet known or were already printed. */
bool report_data(Report *report, const Trainer *trainer);

/* Prints a remark, at most once per run, if the training loss is at least ln(classes) (the loss of
   guessing) or if the network seems to predict the same class for all judging rows. Prints nothing
   if more judging rows are right than any constant answer gets right, or if the rows are streamed
   in the order of their labels, because then no --lr helps. If the network answers the training
   rows well, the remark asks whether the judging rows have the same labels. */
void report_learning(Report *report, const EpochResult *result, const Trainer *trainer);

/* Prints a remark on the run with advice, unless `line` is "". `report` is a Report; its type is
   void *, so that data_compare can take this function as `say`. */
void report_remark(void *report, const char *line);

/* Prints the row of an epoch, and a heading above the first row:

                  loss     acc  test-loss  test-acc   train    eval  img/s
   epoch  3/10  0.0874  97.43%     0.0802    97.62%  6.10ms  0.31ms   9.8M

   With validation rows the heading says val-loss and val-acc. */
void report_epoch(Report *report, const EpochResult *result, bool is_last);

/* Shows the progress of an epoch until the next line is printed. `done` grows from 0 to 1. */
void report_progress(Report *report, int epoch, int epochs, double done);

void report_totals(Report *report, const RunTotals *totals, double process);

/* Prints the final test loss and accuracy of a run whose epochs were judged by validation rows. */
void report_test(Report *report, const EpochResult *result);

/* Prints a line, even if report->quiet is true. `format` is as in printf. */
void report_result(Report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints a line unless the report is quiet. The arguments are (report, format, ...). */
#define report_note(report, ...) ((report)->quiet ? (void)0 : report_result(report, __VA_ARGS__))

/* Prints `mlp-train: sentence` on standard error. */
void report_failure(Report *report, const Error *error);
