#include "train/train_log.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

struct TrainLog {
  FILE *file;
  bool csv;
  bool has_columns; /* of a .csv */
  char path[];      /* for errors */
};

/* ---- the file ----------------------------------------------------------------------------- */

static bool ends_in(const char *path, const char *ending) {
  const size_t length = strlen(path), size = strlen(ending);
  return length >= size && strcmp(path + length - size, ending) == 0;
}

TrainLog *train_log_open(const char *path, Error *error) {
  const bool csv = ends_in(path, ".csv");
  if (!csv && !ends_in(path, ".jsonl")) {
    error_set(error, "a log's name must end in .jsonl or .csv, and %s does not", path);
    return NULL;
  }
  TrainLog *log = malloc(sizeof *log + strlen(path) + 1);
  if (!log) {
    error_set(error, "no memory for the log %s", path);
    return NULL;
  }
  *log = (TrainLog){.file = fopen(path, "w"), .csv = csv};
  strcpy(log->path, path);
  if (log->file) return log;
  error_set(error, "cannot create the log %s: %s", path, strerror(errno));
  free(log);
  return NULL;
}

static bool fail(const TrainLog *log, Error *error) {
  return error_set(error, "cannot write the log %s: %s", log->path, strerror(errno));
}

/* What was written since the last line's end is a line. */
static bool end_line(TrainLog *log, Error *error) {
  putc('\n', log->file);
  return (fflush(log->file) == 0 && !ferror(log->file)) || fail(log, error);
}

bool train_log_close(TrainLog *log, Error *error) {
  if (!log) return true;
  const bool good = fclose(log->file) == 0 || fail(log, error);
  free(log);
  return good;
}

/* ---- numbers ------------------------------------------------------------------------------ */

/* In the order of the columns. */
static const char *const names[] = {"epoch",          "epochs",        "train_loss",
                                    "train_accuracy", "test_loss",     "test_accuracy",
                                    "learning_rate",  "train_seconds", "test_seconds",
                                    "train_rows",     "test_rows"};
enum { COLUMNS = sizeof names / sizeof *names };

typedef struct {
  double value[COLUMNS];
} Numbers;

static Numbers numbers_of(const EpochResult *r) {
  return (Numbers){{r->epoch, r->epochs, r->train_loss, r->train_accuracy, r->test_loss,
                    r->test_accuracy, r->learning_rate, r->train_seconds, r->test_seconds,
                    (double)r->train_rows, (double)r->test_rows}};
}

/* With as few digits as read back bit for bit; `other` if it is not finite. */
static void write_number(double value, const char *other, FILE *file) {
  enum { OFTEN = 15, ENOUGH = 17 }; /* digits for any float64 */
  char text[32] = "";
  for (int digits = OFTEN; digits <= ENOUGH; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  fputs(isfinite(value) ? text : other, file);
}

/* ---- lines -------------------------------------------------------------------------------- */

static bool write_comment(TrainLog *log, const TrainLogField *field, Error *error) {
  fprintf(log->file, "# %s: ", field->name);
  for (const char *c = field->value; *c; c++) {
    if (*c == '\\' || *c == '\n' || *c == '\r')
      fprintf(log->file, "\\%c", *c == '\n' ? 'n' : *c == '\r' ? 'r' : '\\');
    else
      putc(*c, log->file);
  }
  return end_line(log, error);
}

static bool write_csv_header(TrainLog *log, const TrainLogField *fields, int count, Error *error) {
  for (int i = 0; i < count; i++)
    if (!write_comment(log, &fields[i], error)) return false;
  if (log->has_columns) return true;
  log->has_columns = true;
  for (int i = 0; i < COLUMNS; i++) fprintf(log->file, i ? ",%s" : "%s", names[i]);
  return end_line(log, error);
}

static bool write_json_header(TrainLog *log, const TrainLogField *fields, int count, Error *error) {
  fputs("{\"kind\": \"run\"", log->file);
  for (int i = 0; i < count; i++) {
    fputs(", ", log->file);
    json_text(fields[i].name, log->file);
    fputs(": ", log->file);
    json_text(fields[i].value, log->file);
  }
  putc('}', log->file);
  return end_line(log, error);
}

bool train_log_header(TrainLog *log, const TrainLogField *fields, int count, Error *error) {
  return (log->csv ? write_csv_header : write_json_header)(log, fields, count, error);
}

bool train_log_epoch(TrainLog *log, const EpochResult *result, Error *error) {
  const Numbers numbers = numbers_of(result);
  if (!log->csv) fputs("{\"kind\": \"epoch\"", log->file);
  for (int i = 0; i < COLUMNS; i++) {
    if (!log->csv)
      fprintf(log->file, ", \"%s\": ", names[i]);
    else if (i > 0)
      putc(',', log->file);
    write_number(numbers.value[i], log->csv ? "" : "null", log->file);
  }
  if (!log->csv) putc('}', log->file);
  return end_line(log, error);
}
