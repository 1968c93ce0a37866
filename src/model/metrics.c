#include "model/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/text.h"

enum { MATRIX_CLASSES = 16 };

bool metrics_open(Metrics *metrics, int classes, Error *error) {
  *metrics = (Metrics){.classes = classes};
  metrics->counts = calloc((size_t)classes * (size_t)classes, sizeof *metrics->counts);
  return metrics->counts || error_set(error, "no memory for the metrics of %d classes", classes);
}

void metrics_close(Metrics *metrics) {
  free(metrics->counts);
  *metrics = (Metrics){0};
}

/* ---- counting ----------------------------------------------------------------------------- */

int argmax(const float *logits, int classes) {
  int best = 0;
  for (int c = 1; c < classes; c++)
    if (logits[c] > logits[best]) best = c;
  return best;
}

int metrics_add(Metrics *metrics, const float *logits, int label) {
  const int classes = metrics->classes, answer = argmax(logits, classes);
  const double largest = logits[answer];
  double sum = 0;
  for (int c = 0; c < classes; c++) sum += exp(logits[c] - largest);
  metrics->loss += log(sum) + largest - logits[label];
  metrics->counts[label * classes + answer]++;
  metrics->rows++;
  metrics->correct += answer == label;
  return answer;
}

void softmax(const float *logits, int classes, double *probabilities) {
  const double largest = logits[argmax(logits, classes)];
  double sum = 0;
  for (int c = 0; c < classes; c++) sum += probabilities[c] = exp(logits[c] - largest);
  for (int c = 0; c < classes; c++) probabilities[c] /= sum;
}

/* ---- printing ----------------------------------------------------------------------------- */

static uint64_t count(const Metrics *s, int truth, int answer) {
  return s->counts[truth * s->classes + answer];
}

static void print_part(FILE *file, int width, uint64_t part, uint64_t whole) {
  if (whole == 0)
    fprintf(file, "%*s", width, "-");
  else
    fprintf(file, "%*.2f%%", width - 1, 100 * (double)part / (double)whole);
}

/* Prints rows, precision, recall, F1 and name of a class, to the right of the confusion matrix. */
static void print_measures(const Metrics *s, FILE *file, int truth) {
  const uint64_t right = count(s, truth, truth);
  uint64_t rows = 0, answers = 0;
  for (int c = 0; c < s->classes; c++) rows += count(s, truth, c), answers += count(s, c, truth);
  fprintf(file, "%9" PRIu64, rows);
  print_part(file, 11, right, answers);
  print_part(file, 9, right, rows);
  print_part(file, 9, 2 * right, rows + answers);
  if (s->names) fprintf(file, "  %s", class_name(s->names, truth).text);
  putc('\n', file);
}

/* Prints the macro means: those of all classes that have rows or answers, each as heavy as another,
   with 0 for a quotient whose divisor is 0, as scikit-learn computes them. */
static void print_means(const Metrics *s, FILE *file, int width) {
  double precision = 0, recall = 0, f1 = 0;
  int classes = 0;
  for (int truth = 0; truth < s->classes; truth++) {
    const double right = (double)count(s, truth, truth);
    uint64_t rows = 0, answers = 0;
    for (int c = 0; c < s->classes; c++) rows += count(s, truth, c), answers += count(s, c, truth);
    if (rows + answers == 0) continue;
    classes++;
    precision += right / fmax(1, (double)answers);
    recall += right / fmax(1, (double)rows);
    f1 += 2 * right / (double)(rows + answers);
  }
  const double each = 100 / fmax(1, classes);
  fprintf(file, " mean%*s%9" PRIu64 "%10.2f%%%8.2f%%%8.2f%%\n", width * s->classes, "", s->rows,
          each * precision, each * recall, each * f1);
}

/* Returns a matrix column's width in characters. It is at least 5, and the largest count and a
   blank fit in it. */
static int matrix_width(const Metrics *s) {
  uint64_t largest = 0;
  for (int i = 0; i < s->classes * s->classes; i++)
    if (s->counts[i] > largest) largest = s->counts[i];
  const int width = snprintf(NULL, 0, " %" PRIu64, largest);
  return width > 5 ? width : 5;
}

static void print_classes(const Metrics *s, FILE *file, bool matrix) {
  const int width = matrix ? matrix_width(s) : 0;
  fprintf(file, matrix ? "truth  answer\n     " : "class");
  for (int answer = 0; matrix && answer < s->classes; answer++) fprintf(file, "%*d", width, answer);
  fprintf(file, "%9s%11s%9s%9s\n", "rows", "precision", "recall", "F1");
  for (int truth = 0; truth < s->classes; truth++) {
    fprintf(file, "%5d", truth);
    for (int answer = 0; matrix && answer < s->classes; answer++)
      if (count(s, truth, answer) > 0)
        fprintf(file, "%*" PRIu64, width, count(s, truth, answer));
      else /* a dot means 0, so that other counts stand out */
        fprintf(file, "%*s", width, ".");
    print_measures(s, file, truth);
  }
  print_means(s, file, width);
}

void metrics_print(const Metrics *s, FILE *file) {
  const bool matrix = s->classes <= MATRIX_CLASSES;
  fprintf(file, "loss %.4f  accuracy", s->loss / (double)s->rows);
  print_part(file, 8, s->correct, s->rows);
  fprintf(file, "  wrong %" PRIu64 " of %" PRIu64 " rows\n\n", s->rows - s->correct, s->rows);
  print_classes(s, file, matrix);
}

void metrics_print_json(const Metrics *s, FILE *file) {
  const double rows = (double)s->rows;
  fprintf(file, "{\"loss\": %s, \"accuracy\": %s, \"rows\": %" PRIu64 ", ",
          number_text(s->loss / rows, false).text,
          number_text((double)s->correct / rows, false).text, s->rows);
  if (s->names) {
    fputs("\"names\": ", file);
    class_names_print_json(file, s->names, s->classes);
    fputs(", ", file);
  }
  fputs("\"counts\": [", file);
  for (int truth = 0; truth < s->classes; truth++) {
    fputs(truth ? ", [" : "[", file);
    for (int answer = 0; answer < s->classes; answer++)
      fprintf(file, "%s%" PRIu64, answer ? ", " : "", count(s, truth, answer));
    fputc(']', file);
  }
  fputs("]}\n", file);
}
