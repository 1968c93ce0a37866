/* Prints the lines of a training run. */
#include "train/report.h"

#include "base/output.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

Report report_open(bool quiet) {
  return (Report){.quiet = quiet, .shows_progress = !quiet && isatty(STDOUT_FILENO), .percent = -1};
}

enum { LINE = 1 << 12 }; /* bytes of a line, including its end; a longer line is cut */

static void clear_progress(Report *report) {
  if (report->percent >= 0) fputs("\r\033[K", stdout);
  report->percent = -1;
}

bool report_good(const Report *report, Error *error) {
  if (report->failed) *error = report->error;
  return !report->failed && standard_output_flush(error);
}

/* A line may quote the names of files, which may hold commands for a terminal. */
static void print_line(FILE *file, const char *line) {
  enum { ESCAPED = 4 }; /* bytes that a byte of the line takes at most */
  char shown[ESCAPED * LINE];
  text_printable(shown, sizeof shown, line);
  fprintf(file, "%s\n", shown);
}

void report_result(Report *report, const char *format, ...) {
  char line[LINE];
  if (report->failed) return;
  clear_progress(report);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  print_line(stdout, line);
  report->failed = !standard_output_flush(&report->error);
}

/* ---- numbers ------------------------------------------------------------------------------ */

/* Formats a number; NAN becomes "-". */
static ShortText fixed(double value, int decimals, const char *unit) {
  return isnan(value) ? text_format("-") : text_format("%.*f%s", decimals, value, unit);
}

/* Formats a time, such as "6.10ms", "61.0ms", "610ms" or "1.23s". */
static ShortText duration(double seconds) {
  const bool small = seconds < 0.9995;
  const double value = small ? 1e3 * seconds : seconds;
  const int decimals = (value < 9.995) + (value < 99.95);
  return fixed(value, decimals, small ? "ms" : "s");
}

/* Formats a rate, such as "9.8M", "78k" or "512". */
static ShortText rate(double per_second) {
  static const char *const units[] = {"", "k", "M", "G"};
  int unit = 0;
  for (; per_second >= 999.5 && unit < 3; unit++) per_second /= 1000;
  return fixed(per_second, unit && per_second < 9.95, units[unit]);
}

/* Formats a fraction of 1, such as "97.43%", "9.80%" or "100.0%". */
static ShortText percentage(double part) {
  return fixed(100 * part, part < 0.99995 ? 2 : 1, "%");
}

/* Formats a loss, such as "0.0874" or "12.345". */
static ShortText loss_text(double value) {
  return fixed(value, value < 9.99995 ? 4 : 3, "");
}

/* Formats an epoch's number as "epoch  3/10", equally wide for all epochs of a run. */
static ShortText epoch_text(int epoch, int epochs) {
  return text_format("epoch %*d/%d", snprintf(NULL, 0, "%d", epochs), epoch, epochs);
}

/* ---- lines -------------------------------------------------------------------------------- */

void report_remark(void *context, const char *line) {
  Report *report = context;
  if (!*line) return;
  if (!report->aside) {
    report_note(report, "note     %s", line);
    return;
  }
  clear_progress(report);
  print_line(stderr, text_format("mlp-train: note: %s", line).text);
}

/* Returns what may help a network that has not begun to learn, or "" if that is too soon to say. */
static ShortText learning_cure(const EpochResult *r, const Training *t) {
  enum { FEW_STEPS = 100 };
  const double begin = log(t->classes); /* the loss of equal probabilities, as at the start */
  const uint64_t batch = (uint64_t)t->batch, steps = (r->train_rows + batch - 1) / batch,
                 taken = steps * (uint64_t)r->epoch;
  const bool is_near = r->train_loss < 1.5 * begin; /* the rate may be too small, too */
  if (is_near && taken < FEW_STEPS) {
    if (r->epoch < r->epochs) return (ShortText){""};
    const char *smaller = t->batch >= 16 ? ", or a smaller --batch" : "";
    return text_format("it took only %" PRIu64 " step%s: more --epochs%s", taken,
                       taken == 1 ? "" : "s", smaller);
  }
  const char *higher = is_near ? "or a higher " : "";
  return text_format("try a lower %s--lr%s", higher, t->batch < 16 ? ", or a larger --batch" : "");
}

/* How many judging rows the network gets right, and how many the best constant answer does. */
typedef struct {
  uint64_t correct, most;
  bool one_answer; /* the network may have given the same answer for all rows */
} Judged;

/* Compares the network with constant answers on r->test_rows rows with these labels. */
static Judged compare_answers(const EpochResult *r, const DataSummary *judge) {
  Judged j = {.correct = (uint64_t)(r->test_accuracy * (double)r->test_rows + 0.5)};
  for (int c = 0; c < judge->classes; c++) {
    const uint64_t rows = judge->counts[c];
    if (rows > j.most) j.most = rows;
    j.one_answer |= rows > 0 && rows < judge->rows && rows == j.correct;
  }
  return j;
}

/* Returns true if the network answers training rows well, but none of the judging rows. */
static bool is_other_task(const EpochResult *r, const Training *t, const Judged *j) {
  enum { ENOUGH = 100 }; /* the answers to fewer rows may be wrong by chance */
  const double constant = (double)j->most / (double)r->test_rows;
  return !j->one_answer && r->test_rows >= ENOUGH && t->ema == 0 && constant < 0.5 &&
         r->train_accuracy > 2 * constant;
}

void report_learning(Report *report, const EpochResult *r, const Trainer *trainer) {
  const Training *t = trainer->config.training;
  const DataSummary *judge = &trainer->judge.data, *train = &trainer->train.data;
  const bool judged = r->test_rows > 0 && r->test_rows == judge->rows;
  const Judged j = judged ? compare_answers(r, judge) : (Judged){0};
  ShortText cure;
  if (report->has_warned || r->epoch <= t->schedule.warmup || (judged && j.correct > j.most) ||
      (train->sorted && train->streamed) /* another remark has said why it cannot learn */)
    return;
  if (judged && is_other_task(r, t, &j))
    cure = text_format("do the labels of %.300s mean what those of the training rows do?",
                       text_shown(trainer->judge.path).text);
  else if (j.one_answer || r->train_loss >= log(t->classes))
    cure = learning_cure(r, t);
  else
    return;
  if (!*cure.text) return;
  report->has_warned = true;
  report_remark(report,
                text_format("after epoch %d the network is no better than a constant answer: %s",
                            r->epoch, cure.text)
                    .text);
}

void report_start(Report *report, const Trainer *trainer, const char *reason) {
  const Engine *engine = trainer->engine;
  const Network *n = &engine->config.network;
  const Training *t = trainer->config.training;
  const double first = training_rate(t, 0), last = training_rate(t, t->epochs - 1);
  ShortText memory = {""};
  report->has_heading = false;
  if (report->quiet) return;
  if (engine->memory) memory = text_format(", %.1f GiB", (double)engine->memory / (1 << 30));
  report_result(report, *reason ? "device   %s%s (%s)" : "device   %s%s", engine->device,
                memory.text, reason);
  report_result(report, "network  %s, %zu parameters", network_text(n).text, n->parameters);
  report_result(report, "fusion   %s: %s", training_fusions[engine->config.training.fusion],
                engine->reason);
  report_result(report,
                first == last ? "rate     %.3g" : "rate     %.3g in epoch 1, %.3g in epoch %d",
                first, last, t->epochs);
  if (trainer->position.epoch > 0)
    report_result(report, "resumed  after epoch %d", trainer->position.epoch);
}

bool report_data(Report *report, const Trainer *t) {
  const TrainerConfig *c = &t->config;
  const DataSummary *judge = &t->judge.data;
  if (report->has_data || t->train.data.rows == 0) return false;
  report_note(report, "data     %s: %s, %s", c->train, data_text(&t->train.data).text,
              t->resident ? "resident" : "streamed every epoch");
  const char *other = c->hold_out > 0 ? "other " : "";
  if (t->judge.path && judge->rows > 0)
    report_note(report, "data     %s: %" PRIu64 " %srows%s", t->judge.path, judge->rows, other,
                t->judged_by == JUDGED_BY_VALIDATION ? " for validation" : "");
  if (t->judge.path != c->test)
    report_note(report, "data     %s", c->test ? c->test : "no test file");
  data_compare(c->train, &t->train.data, NULL, report_remark, report);
  if (t->before.rows > 0 && !data_are_equal(&t->before, &t->train.data))
    report_remark(report,
                  text_format("%.300s: the saved run had different rows or a different order%s",
                              text_shown(c->train).text,
                              c->hold_out > 0 ? ", and may have trained on rows that are "
                                                "held out now"
                                              : "")
                      .text);
  if (t->judge.path && c->hold_out == 0)
    data_compare(t->judge.path, judge, &t->train.data, report_remark, report);
  return report->has_data = true;
}

/* Every row starts with the word epoch and the heading does not, so `grep ^epoch` finds only rows.
   A line has at most 80 characters if the run has at most 999999 epochs. */
void report_epoch(Report *report, const EpochResult *r, bool is_last) {
  const ShortText epoch = epoch_text(r->epoch, r->epochs);
  if (report->quiet && !is_last) return;
  if (!report->has_heading)
    report_result(
        report, "%*s    loss     acc  %s   train    eval  img/s", (int)strlen(epoch.text), "",
        r->judged_by == JUDGED_BY_VALIDATION ? " val-loss   val-acc" : "test-loss  test-acc");
  report->has_heading = true;
  report_result(report, "%s  %6s  %6s  %9s  %8s  %6s  %6s  %5s", epoch.text,
                loss_text(r->train_loss).text, percentage(r->train_accuracy).text,
                loss_text(r->test_loss).text, percentage(r->test_accuracy).text,
                duration(r->train_seconds).text, duration(r->test_seconds).text,
                rate((double)(r->train_rows - r->rows_before) / r->train_seconds).text);
}

void report_totals(Report *report, const RunTotals *totals, double process) {
  report_note(report, "total    load %s  train %s  eval %s  process %s",
              duration(totals->load).text, duration(totals->train).text,
              duration(totals->test).text, duration(process).text);
}

void report_test(Report *report, const EpochResult *r) {
  report_result(report, "test     loss %s  acc %s  of %" PRIu64 " rows",
                loss_text(r->test_loss).text, percentage(r->test_accuracy).text, r->test_rows);
}

/* ---- progress and failure ----------------------------------------------------------------- */

void report_progress(Report *report, int epoch, int epochs, double done) {
  const int percent = (int)(100 * done);
  if (!report->shows_progress || percent == report->percent) return;
  report->percent = percent;
  printf("\r%s  %d%%\033[K", epoch_text(epoch, epochs).text, percent);
  fflush(stdout);
}

void report_failure(Report *report, const Error *error) {
  clear_progress(report);
  fflush(stdout);
  fprintf(stderr, "mlp-train: %s\n", error->text);
}
