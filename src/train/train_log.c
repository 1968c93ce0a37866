#define _GNU_SOURCE /* memfd_create */
#include "train/train_log.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/text.h"
#include "base/output.h"

struct TrainLog {
  FILE *file;   /* NULL: not opened yet */
  int lock;     /* the file, where it was opened to be locked alone; else -1 */
  bool is_held; /* the file is one in memory, for headers while an old log stands */
  bool csv, append;
  bool old;         /* there is a log that the first epoch replaces or continues */
  bool cut_short;   /* its last line has no end */
  bool has_columns; /* of a .csv */
  char path[];      /* for errors */
};

/* ---- columns ------------------------------------------------------------------------------ */

static const char columns[] = "epoch,epochs,train_loss,train_accuracy,test_loss,test_accuracy,"
                              "learning_rate,train_seconds,test_seconds,train_rows,test_rows,"
                              "val_loss,val_accuracy,val_seconds,val_rows,seed";
enum { COLUMNS = 16, LEARNING_RATE = 6 };

static double count_of(uint64_t rows) {
  return rows > 0 ? (double)rows : NAN;
}

/* ---- the file ----------------------------------------------------------------------------- */

static bool fail(const TrainLog *log, Error *error) {
  return error_set(error, "cannot write the log %s: %s", log->path, strerror(errno));
}

/* Finds out how the log that is to be continued ends, and whether it names our columns. */
static bool read_old(TrainLog *log, Error *error) {
  const char *rest = columns; /* of the line; NULL: it is another one */
  FILE *file = fopen(log->path, "r");
  for (int c; file && (c = getc(file)) != EOF;) {
    log->cut_short = c != '\n';
    if (c == '\n') {
      log->has_columns |= rest && !*rest;
      rest = columns;
    } else if (rest) {
      rest = *rest == c ? rest + 1 : NULL;
    }
  }
  const bool good = (file && !ferror(file)) ||
                    error_set(error, "cannot read the log %s: %s", log->path, strerror(errno));
  if (file) fclose(file);
  return good;
}

/* Opens a regular file for this run alone. What is in it stays. */
static bool lock_file(TrainLog *log, Error *error) {
  if (log->lock >= 0) return true;
  log->lock = open(log->path, O_WRONLY | O_CREAT | O_CLOEXEC | (log->append ? O_APPEND : 0), 0666);
  if (log->lock < 0)
    return error_set(error, "cannot create the log %s: %s", log->path, strerror(errno));
  return flock(log->lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK ||
         error_set(error, "another run writes the log %s: give each run its own --log", log->path);
}

static bool open_file(TrainLog *log, FILE *file, Error *error) {
  log->file = file;
  if (!file) return error_set(error, "cannot create the log %s: %s", log->path, strerror(errno));
  if (log->cut_short) putc('\n', file);
  return true;
}

/* Opens the file, and writes what was held. */
static bool open_regular(TrainLog *log, Error *error) {
  FILE *held = log->file;
  if (held && !log->is_held) return true;
  if (!lock_file(log, error)) return false;
  if (!log->append && ftruncate(log->lock, 0) != 0) return fail(log, error);
  bool good = open_file(log, fdopen(log->lock, "w"), error);
  if (good) log->lock = -1;
  if (held) rewind(held);
  for (int c; good && held && (c = getc(held)) != EOF;) putc(c, log->file);
  if (good && held && ferror(held)) good = fail(log, error);
  if (held) fclose(held);
  log->is_held = false;
  return good;
}

/* Opens what can be opened now, and sees to it that the rest can be later. */
static bool find_file(TrainLog *log, Error *error) {
  FileTarget target;
  if (!file_target_find(&target, log->path) || !file_target_may_write(&target))
    return fail(log, error);
  if (target.kind == TARGET_NEW) return atomic_file_probe(log->path, error);
  if (target.kind != TARGET_REGULAR)
    return open_file(log, file_target_open_in_place(&target), error);
  log->old = target.status.st_size > 0;
  return lock_file(log, error) && (!log->old || !log->append || read_old(log, error));
}

TrainLog *train_log_open(const char *path, bool append, Error *error) {
  const char *ending = strrchr(path, '.');
  const bool csv = ending && strcmp(ending, ".csv") == 0;
  if (!csv && !(ending && strcmp(ending, ".jsonl") == 0))
    return error_null(error, "a log's name must end in .jsonl or .csv, and %s does not", path);
  TrainLog *log = malloc(sizeof *log + strlen(path) + 1);
  if (!log) return error_null(error, "no memory for the log %s", path);
  *log = (TrainLog){.csv = csv, .append = append, .lock = -1};
  strcpy(log->path, path);
  if (find_file(log, error)) return log;
  train_log_close(log, NULL);
  return NULL;
}

/* Ends the line, in JSON its object, too, and sees to it that it is in the file. */
static bool end_line(const TrainLog *log, Error *error) {
  fputs(log->csv ? "\n" : "}\n", log->file);
  return (fflush(log->file) == 0 && !ferror(log->file)) || fail(log, error);
}

bool train_log_close(TrainLog *log, Error *error) {
  if (!log) return true;
  const bool good = !log->file || fclose(log->file) == 0 || fail(log, error);
  if (log->lock >= 0) close(log->lock);
  free(log);
  return good;
}

/* ---- lines -------------------------------------------------------------------------------- */

/* The names of options are written as the other names are: lr_decay. */
bool train_log_header(TrainLog *log, const TrainLogField *fields, int count, Error *error) {
  if (!log->file && log->old) {
    log->is_held = (log->file = fdopen(memfd_create("log", MFD_CLOEXEC), "w+"));
    if (!log->file) return error_set(error, "no memory for the log %s", log->path);
  }
  if (!log->file && !open_regular(log, error)) return false;
  FILE *file = log->file;
  if (log->csv && log->has_columns) return true;
  log->has_columns = true;
  fputs(log->csv ? columns : "{\"kind\": \"run\"", file);
  for (int i = 0; !log->csv && i < count; i++) {
    fputs(", \"", file);
    for (const char *c = fields[i].name; *c; c++) putc(*c == '-' ? '_' : *c, file);
    fputs("\": ", file);
    if (fields[i].is_json)
      fputs(fields[i].value, file);
    else
      json_text(fields[i].value, file);
  }
  return end_line(log, error);
}

bool train_log_data(TrainLog *log, const char *role, const char *path, const DataSummary *summary,
                    Error *error) {
  if (log->csv) return true;
  char *text = data_to_json(summary);
  if (!text) return error_set(error, "no memory for the log %s", log->path);
  const bool good = open_regular(log, error);
  if (good) {
    fprintf(log->file, "{\"kind\": \"data\", \"role\": \"%s\", \"file\": ", role);
    json_text(path, log->file);
    fprintf(log->file, ", %.*s", (int)strlen(text) - 2, text + 1); /* end_line ends the object */
  }
  free(text);
  return good && end_line(log, error);
}

bool train_log_epoch(TrainLog *log, const EpochResult *r, Error *error) {
  enum { JUDGED = 4 }; /* loss, accuracy, seconds, rows: of test or of validation rows */
  const double none[JUDGED] = {NAN, NAN, NAN, NAN},
               judged[JUDGED] = {r->test_loss, r->test_accuracy, r->test_seconds,
                                 count_of(r->test_rows)};
  const double *test = r->judged_by == JUDGED_BY_TEST ? judged : none;
  const double *val = r->judged_by == JUDGED_BY_VALIDATION ? judged : none;
  const double values[COLUMNS] = {
      r->epoch,         r->epochs,        r->train_loss, r->train_accuracy,       test[0], test[1],
      r->learning_rate, r->train_seconds, test[2],       count_of(r->train_rows), test[3], val[0],
      val[1],           val[2],           val[3],        (double)r->seed}; /* NAN: there is none */
  const char *name = columns;
  if (!open_regular(log, error)) return false;
  if (!log->csv) fprintf(log->file, "{\"kind\": \"%s\"", r->train_rows > 0 ? "epoch" : "test");
  for (int i = 0; i < COLUMNS; i++) {
    const int length = (int)strcspn(name, ",");
    if (!log->csv)
      fprintf(log->file, ", \"%.*s\": ", length, name);
    else if (i > 0)
      putc(',', log->file);
    fputs(isfinite(values[i]) ? number_text(values[i], i == LEARNING_RATE).text
          : log->csv          ? ""
                              : "null",
          log->file);
    name += length + 1;
  }
  return end_line(log, error);
}
