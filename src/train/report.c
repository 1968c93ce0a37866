#include "train/report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

Report report_open(bool quiet) {
  return (Report){.quiet = quiet, .has_bar = !quiet && isatty(STDOUT_FILENO), .percent = -1};
}

static void clear_progress(Report *report) {
  if (report->percent >= 0) fputs("\r\033[K", stdout);
  report->percent = -1;
}

bool report_flush(Error *error) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return true;
  return error_set(error, "cannot write to standard output: %s", strerror(errno));
}

__attribute__((format(printf, 3, 4))) static bool print_line(Report *report, Error *error,
                                                             const char *format, ...) {
  clear_progress(report);
  va_list arguments;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  putchar('\n');
  return report_flush(error);
}

/* ---- numbers of a fixed width ------------------------------------------------------------- */

typedef struct {
  char text[32];
} Text;

/* Decimals that leave three digits. */
static int decimals(double value) {
  if (value < 9.995) return 2;
  return value < 99.95 ? 1 : 0;
}

/* "6.10 ms", "61.0 ms", " 610 ms", "1.23 s " */
static Text duration(double seconds) {
  const bool small = seconds < 0.9995;
  const double value = small ? 1e3 * seconds : seconds;
  Text t;
  snprintf(t.text, sizeof t.text, "%4.*f %-2s", decimals(value), value, small ? "ms" : "s");
  return t;
}

/* "9.8M", " 78k", "512k" */
static Text rate(double per_second) {
  static const char units[] = " kMG";
  int unit = 0;
  while (per_second >= 999.5 && units[unit + 1]) {
    per_second /= 1000;
    unit++;
  }
  Text t;
  snprintf(t.text, sizeof t.text, "%3.*f%c", unit && per_second < 9.95, per_second, units[unit]);
  return t;
}

/* Five characters: "97.43", " 9.80", "100.0". */
static Text percentage(double part) {
  Text t;
  snprintf(t.text, sizeof t.text, "%5.*f", part < 0.99995 ? 2 : 1, 100 * part);
  return t;
}

/* Six characters up to 99.999: "0.0874", "12.345". */
static Text loss(double value) {
  Text t;
  snprintf(t.text, sizeof t.text, "%6.*f", value < 9.99995 ? 4 : 3, value);
  return t;
}

static int decimal_width(int number) {
  return snprintf(NULL, 0, "%d", number);
}

/* ---- lines -------------------------------------------------------------------------------- */

bool report_start(Report *report, const ReportStart *start, Error *error) {
  if (report->quiet) return true;
  char memory[32] = "", network[NETWORK_TEXT], reason[sizeof(Error) + 4] = "";
  if (start->memory)
    snprintf(memory, sizeof memory, ", %.1f GiB", (double)start->memory / (1 << 30));
  if (start->device_reason[0]) snprintf(reason, sizeof reason, " (%s)", start->device_reason);
  network_describe(start->network, network);
  return print_line(report, error, "device   %s%s%s", start->device, memory, reason) &&
         print_line(report, error, "network  %s, %zu parameters", network,
                    start->network->parameters) &&
         print_line(report, error, "fusion   %s: %s", start->fusion, start->fusion_reason) &&
         print_line(report, error, "data     %s and %s, %s", start->train, start->test,
                    start->resident ? "resident" : "streamed every epoch") &&
         (start->resumed == 0 ||
          print_line(report, error, "resumed  after epoch %d", start->resumed));
}

bool report_epoch(Report *report, const EpochResult *r, Error *error) {
  if (report->quiet && r->epoch < r->epochs) return true;
  return print_line(report, error,
                    "epoch %*d/%d  loss %s  acc %s%%  test-loss %s  test-acc %s%%  "
                    "train %s  eval %s  %s img/s",
                    decimal_width(r->epochs), r->epoch, r->epochs, loss(r->train_loss).text,
                    percentage(r->train_accuracy).text, loss(r->test_loss).text,
                    percentage(r->test_accuracy).text, duration(r->train_seconds).text,
                    duration(r->test_seconds).text,
                    rate((double)r->train_rows / r->train_seconds).text);
}

bool report_totals(Report *report, const RunTotals *totals, double process, Error *error) {
  if (report->quiet) return true;
  return print_line(report, error, "total    load %s  train %s  eval %s  process %s",
                    duration(totals->load).text, duration(totals->train).text,
                    duration(totals->test).text, duration(process).text);
}

bool report_note(Report *report, const char *line, Error *error) {
  return report->quiet || print_line(report, error, "%s", line);
}

/* ---- progress and failure ----------------------------------------------------------------- */

void report_progress(Report *report, int epoch, int epochs, double done) {
  static const char full[] = "########################################";
  const int percent = (int)(100 * done), width = (int)(sizeof full - 1);
  if (!report->has_bar || percent == report->percent) return;
  report->percent = percent;
  printf("\repoch %*d/%d  [%-*.*s] %3d%%", decimal_width(epochs), epoch, epochs, width,
         percent * width / 100, full, percent);
  fflush(stdout);
}

void report_failure(Report *report, const Error *error) {
  clear_progress(report);
  fflush(stdout);
  fprintf(stderr, "mlp-train: %s\n", error->text);
}
