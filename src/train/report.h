/* What mlp-train prints: plain lines on standard output, each flushed as soon as it is whole,
   errors on standard error, and on a terminal a progress bar that the next line replaces.

   Every function but report_failure and report_progress returns false with *error set when
   standard output cannot be written. */
#ifndef REPORT_H
#define REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "model/metrics.h"
#include "model/network.h"

typedef struct {
  bool quiet;   /* the last epoch's line alone */
  bool has_bar; /* progress is shown: standard output is a terminal, and not quiet */
  int percent;  /* of the bar on the screen, -1: none */
} Report;

Report report_open(bool quiet);

/* The lines before the first epoch. */
typedef struct {
  const char *device, *device_reason; /* reason: why not another, "" for none */
  uint64_t memory;                    /* bytes, 0: unknown */
  const Network *network;
  const char *fusion, *fusion_reason;
  const char *train, *test; /* file names */
  bool resident;
  int resumed; /* epochs that were trained before, 0: a new run */
} ReportStart;

bool report_start(Report *report, const ReportStart *start, Error *error);

/* epoch  3/10  loss 0.0874  acc 97.43%  test-loss 0.0802  test-acc 97.62%  train 6.10 ms ... */
bool report_epoch(Report *report, const EpochResult *result, Error *error);

/* Shows which part of an epoch's training is done, 0 to 1. */
void report_progress(Report *report, int epoch, int epochs, double done);

bool report_totals(Report *report, const RunTotals *totals, double process, Error *error);

/* A line of another kind, none when quiet. */
bool report_note(Report *report, const char *line, Error *error);

/* Writes out what was printed on standard output by other means. */
bool report_flush(Error *error);

/* `mlp-train: sentence` on standard error. */
void report_failure(Report *report, const Error *error);

#endif
