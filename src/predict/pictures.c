/* Predicts the digits in pictures, and prints the answers as text or JSON. */
#include "predict/predict.h"

#include <limits.h>

#include "base/interrupt.h"
#include "base/output.h"
#include "plot/figures.h"
#include "train/report.h"

/* The state of predict_pictures. */
typedef struct {
  Engine *engine;
  const Pictures *pictures;
  int side, classes;
  SeenAnswer answer[PHOTOGRAPH_MOST]; /* the answers to one picture's digits */
  bool shown;                         /* true once --show has drawn its picture */
  Error failure;                      /* error of the latest picture without an answer, or "" */
} Answers;

/* The text of a row of digits. If the classes have names, blanks separate the names. */
typedef char RowText[PHOTOGRAPH_MOST * (CLASS_NAME_MOST + 2)];

/* Writes a row of digits, which starts at digit `first`, as text. Unsure digits become "?". Returns
   the index after the row's last digit. */
static int write_row(const Answers *a, const Photograph *photograph, int first, RowText text) {
  int i = first;
  for (; i < photograph->count && photograph->row[i] == photograph->row[first]; i++) {
    if (a->pictures->names && i > first) *text++ = ' ';
    text +=
        sprintf(text, "%s",
                a->answer[i].sure ? class_name(a->pictures->names, a->answer[i].best).text : "?");
  }
  return i;
}

/* ---- lines of text ------------------------------------------------------------------------ */

/* Writes the answers as text. A box is written as the argument of ImageMagick's -crop. */
static void write_text(const Answers *a, const char *path, const Photograph *photograph) {
  char name[4 * PATH_MAX];
  RowText row;
  text_printable(name, sizeof name, path);
  for (int i = 0; i < photograph->count; i++) {
    const Box box = photograph->box[i];
    const SeenAnswer *answer = &a->answer[i];
    printf("%s  ", name);
    if (photograph->count > 1)
      printf("%dx%d+%d+%d  ", box_width(box), box_height(box), box.left, box.top);
    printf("%s  %.2f%%%s\n", class_name(a->pictures->names, answer->best).text,
           100 * answer->probabilities[answer->best], answer->sure ? "" : "  unsure");
  }
  for (int i = 0; photograph->count > 1 && i < photograph->count;) {
    printf("%s  line %d  ", name, photograph->row[i] + 1);
    i = write_row(a, photograph, i, row);
    printf("%s\n", row);
  }
}

/* ---- lines of JSON ------------------------------------------------------------------------ */

static void write_json(const Answers *a, const char *path, const Image *image,
                       const Photograph *photograph) {
  RowText row;
  fputs("{\"picture\": ", stdout);
  json_text(path, stdout);
  printf(", \"width\": %d, \"height\": %d, \"digits\": [", image->file_width, image->file_height);
  for (int i = 0; i < photograph->count; i++) {
    const Box box = photograph->box[i];
    const SeenAnswer *answer = &a->answer[i];
    printf("%s{\"box\": [%d, %d, %d, %d], \"answer\": %d", i ? ", " : "", box.left, box.top,
           box_width(box), box_height(box), answer->best);
    if (a->pictures->names) {
      fputs(", \"name\": ", stdout);
      json_text(class_name(a->pictures->names, answer->best).text, stdout);
    }
    printf(", \"sure\": %s, \"probabilities\": [", answer->sure ? "true" : "false");
    for (int c = 0; c < a->classes; c++) printf(c ? ", %.6g" : "%.6g", answer->probabilities[c]);
    fputs("]}", stdout);
  }
  fputs("], \"rows\": [", stdout);
  for (int i = 0; i < photograph->count; json_text(row, stdout)) {
    fputs(i ? ", " : "", stdout);
    i = write_row(a, photograph, i, row);
  }
  fputs("]}\n", stdout);
}

/* ---- one picture -------------------------------------------------------------------------- */

/* Uploads digit i of the picture to dataset row 0, predicts it and sets a->answer[i]. */
static bool answer_digit(Answers *a, const char *path, const Photograph *photograph, int i,
                         Error *error) {
  const uint8_t *ink = photograph->pixels + i * a->side * a->side;
  SeenAnswer *answer = &a->answer[i];
  Engine *engine = a->engine;
  float logits[NETWORK_MAX_CLASSES];
  if (!picture_upload(engine, ink, error) || !engine->call->predict(engine, 0, 1, logits, error) ||
      !predict_check_logits(logits, a->classes, path, 0, error))
    return false;
  softmax(logits, a->classes, answer->probabilities);
  answer->best = argmax(logits, a->classes);
  answer->sure = answer->probabilities[answer->best] >= a->pictures->confidence;
  return true;
}

static bool answer_picture(Answers *a, const char *path, Error *error) {
  Image image;
  Photograph photograph;
  const bool is_image = image_read(path, &image, error), ending = interrupt_pending();
  if (ending || !is_image || !photograph_find(&image, path, a->side, &photograph, error)) {
    image_free(&image);
    if (ending) return error_set(error, "interrupted");
    /* Reports the previous picture's error now. The caller reports the last picture's. */
    if (*a->failure.text) report_failure(a->pictures->report, &a->failure);
    a->failure = *error;
    return true;
  }
  bool good = true;
  for (int i = 0; good && i < photograph.count; i++)
    good = answer_digit(a, path, &photograph, i, error);
  if (good && a->pictures->json)
    write_json(a, path, &image, &photograph);
  else if (good)
    write_text(a, path, &photograph);
  if (good && !a->shown && *a->pictures->show)
    good = a->shown = plot_seen(path, &image, &photograph, a->answer, a->side, a->pictures->names,
                                a->pictures->show, error);
  image_free(&image);
  return good;
}

/* ---- all pictures ------------------------------------------------------------------------- */

bool predict_pictures(Engine *engine, const Pictures *pictures, Error *error) {
  const Network *network = &engine->config.network;
  const int inputs = network->size[0], side = augment_side(inputs);
  if (side < 2)
    return error_set(error, "the network takes %d pixels, which do not make a square picture",
                     inputs);
  Answers a = {
      .engine = engine, .pictures = pictures, .side = side, .classes = network_classes(network)};
  bool good = true;
  for (int i = 0; good && i < pictures->count; i++)
    good = answer_picture(&a, pictures->paths[i], error);
  good = good && standard_output_flush(error);
  if (!*a.failure.text) return good;
  if (good)
    *error = a.failure; /* the caller reports *error */
  else
    report_failure(pictures->report, &a.failure);
  return false;
}
