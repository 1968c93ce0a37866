#include "commands/train_log.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- columns ------------------------------------------------------------------------------ */

static const char columns[] = "epoch,epochs,train_loss,train_accuracy,test_loss,test_accuracy,"
                              "learning_rate,train_seconds,test_seconds,train_rows,test_rows,"
                              "val_loss,val_accuracy,val_seconds,val_rows,seed";
enum { COLUMNS = 16, LEARNING_RATE = 6 };

static double count_of(uint64_t rows) {
  return rows > 0 ? (double)rows : NAN;
}

/* ---- the file ----------------------------------------------------------------------------- */

/* Writes the beginning of a new log, or ends the last line of an old log. */
static bool begin(TrainLog *log, const char *names, Error *error) {
  int last;
  if (!line_file_begin(&log->lines, !log->append, &last, error)) return false;
  if (last != EOF && last != '\n') putc('\n', log->lines.file);
  if (log->csv && last == EOF) fprintf(log->lines.file, "%s\n", names);
  return true;
}

bool train_log_open(TrainLog *log, const char *path, bool append, Error *error) {
  const char *ending = strrchr(path, '.');
  *log = (TrainLog){.path = "", .append = append, .csv = ending && strcmp(ending, ".csv") == 0};
  if (*path && !line_file_open(&log->lines, path, error)) return false;
  log->path = path;
  return true;
}

/* Ends the line (in JSON, also its object) and flushes the line to the file. */
static bool end_line(const TrainLog *log, Error *error) {
  FILE *file = log->lines.file;
  fputs(log->csv ? "\n" : "}\n", file);
  return (fflush(file) == 0 && !ferror(file)) || line_file_failed(&log->lines, error);
}

bool train_log_close(TrainLog *log, Error *error) {
  return !log->path || !*log->path || line_file_close(&log->lines, error);
}

/* ---- lines -------------------------------------------------------------------------------- */

/* Writes a field of a header. Replaces each - in the name by _, so lr-decay becomes lr_decay. */
static void field(FILE *file, const char *name, const char *value, bool is_text) {
  fputs(", \"", file);
  for (const char *c = name; *c; c++) putc(*c == '-' ? '_' : *c, file);
  fputs("\": ", file);
  if (is_text)
    json_text(value, file);
  else
    fputs(value, file);
}

bool train_log_header(TrainLog *log, const Engine *engine, const Options *o, Error *error) {
  if (!*log->path) return true;
  if (!log->lines.file && !begin(log, columns, error)) return false;
  FILE *file = log->lines.file;
  if (log->csv) return fflush(file) == 0 || line_file_failed(&log->lines, error);
  fputs("{\"kind\": \"run\"", file);
  field(file, "version", MLP_TRAIN_VERSION, true);
  field(file, "device-in-use", engine->device, true);
  field(file, "fusion-in-use", training_fusions[engine->config.training.fusion], true);
  field(file, "fusion-reason", engine->reason, true);
  Options used = *o; /* a copy, which gets a number for --lr auto */
  used.training.schedule.rate = training_base_rate(&o->training);
  foreach_row (row, &options_table) {
    if (!row->initial) continue;
    const ShortText value = row->kind->get(row, &used);
    if (row->kind == &option_yes_no)
      field(file, row->name, strcmp(value.text, "yes") == 0 ? "true" : "false", false);
    else
      field(file, row->name, value.text, !row->kind->is_number);
  }
  return end_line(log, error);
}

bool train_log_data(TrainLog *log, const char *role, const TrainerFile *file, Error *error) {
  if (!*log->path || log->csv || !file->path) return true;
  char *text = data_to_json(&file->data);
  if (!text) return error_set(error, "no memory for the log %s", log->path);
  fprintf(log->lines.file, "{\"kind\": \"data\", \"role\": \"%s\", \"file\": ", role);
  json_text(file->path, log->lines.file);
  fprintf(log->lines.file, ", %.*s", (int)strlen(text) - 2,
          text + 1); /* the text without its braces */
  free(text);
  return end_line(log, error);
}

bool train_log_trial(TrainLog *log, const LoggedTrial *trial, Error *error) {
  if (!*log->path) return true;
  ShortText names = text_format("place,trial,val_accuracy,epochs");
  for (int i = 0; i < trial->options; i++) text_append(names.text, ",%s", trial->name[i]);
  if (!log->lines.file && !begin(log, names.text, error)) return false;
  FILE *file = log->lines.file;
  const char *unknown = log->csv ? "" : "null";
  const ShortText accuracy =
      isfinite(trial->accuracy) ? number_text(trial->accuracy, false) : text_format("%s", unknown);
  fprintf(file,
          log->csv ? "%d,%d,%s,%d"
                   : "{\"kind\": \"trial\", \"place\": %d, \"trial\": %d, \"val_accuracy\": %s, "
                     "\"epochs\": %d",
          trial->place, trial->number, accuracy.text, trial->epochs);
  for (int i = 0; i < trial->options; i++) {
    const bool quoted = log->csv && strchr(trial->value[i], ',');
    if (log->csv)
      fprintf(file, quoted ? ",\"%s\"" : ",%s", trial->value[i]);
    else
      field(file, trial->name[i], trial->value[i], true);
  }
  return end_line(log, error);
}

bool train_log_epoch(TrainLog *log, const EpochResult *r, Error *error) {
  enum { JUDGED = 4 }; /* number of results: loss, accuracy, seconds, rows */
  const double none[JUDGED] = {NAN, NAN, NAN, NAN},
               judged[JUDGED] = {r->test_loss, r->test_accuracy, r->test_seconds,
                                 count_of(r->test_rows)};
  const double *test = r->judged_by == JUDGED_BY_TEST ? judged : none;
  const double *val = r->judged_by == JUDGED_BY_VALIDATION ? judged : none;
  const double values[COLUMNS] = {
      r->epoch,         r->epochs,        r->train_loss, r->train_accuracy,       test[0], test[1],
      r->learning_rate, r->train_seconds, test[2],       count_of(r->train_rows), test[3], val[0],
      val[1],           val[2],           val[3],        (double)r->seed}; /* NAN means no value */
  const char *name = columns;
  if (!*log->path) return true;
  if (!log->csv)
    fprintf(log->lines.file, "{\"kind\": \"%s\"", r->train_rows > 0 ? "epoch" : "test");
  for (int i = 0; i < COLUMNS; i++) {
    const int length = (int)strcspn(name, ",");
    if (!log->csv)
      fprintf(log->lines.file, ", \"%.*s\": ", length, name);
    else if (i > 0)
      putc(',', log->lines.file);
    const char *unknown = log->csv ? "" : "null";
    fputs(isfinite(values[i]) ? number_text(values[i], i == LEARNING_RATE).text : unknown,
          log->lines.file);
    name += length + 1;
  }
  return end_line(log, error);
}
