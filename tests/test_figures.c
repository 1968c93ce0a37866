/* The pictures of a run: what charts are asked to draw, and the list of what the others draw. */
#include "base/random.h"
#include "plot/figures.h"
#include "plot/line_chart.h"
#include "support/marks.h"

static const char path[] = "plot.png";

static char *chart; /* the words and the numbers of the last line chart */

/* Stands in for line_chart_draw.c. */
bool line_chart_draw(LineChart *c, const char *to, Error *cause) {
  (void)to, (void)cause;
  FILE *file = text_open();
  fprintf(file, "%s\n%s\n", c->title, c->subtitle);
  for (const CurvePanel *p = c->panels; p < c->panels + c->count; p++) {
    if (p->y.low > p->y.high) continue;
    fprintf(file, "%s: %s, %s%s", p->title ? p->title : "", p->x.label, p->y.label,
            p->y.logarithmic ? " (logarithms)" : "");
    fprintf(file, p->x.mark_label ? ", %s %g\n" : "\n", p->x.mark_label, p->x.mark);
    for (int k = 0; k < 2 * p->count; k++) { /* each, and the thin ones behind it */
      const int curve = k % 2 ? ~(k / 2) : k / 2;
      if (!line_chart_next(c, NULL, p, curve)) continue;
      fputs(k % 2 ? "thin" : p->curves[curve].text, file);
      for (const CurvePoint *q = NULL; (q = line_chart_next(c, q, p, curve));)
        fprintf(file, " %g,%.4g", q->x, q->y);
      fputs("\n", file);
    }
  }
  chart = text_close(file);
  line_chart_close(c);
  return true;
}

enum { MOST = 1000 };
static EpochResult results[MOST];

static void make_results(int count, JudgedBy judge) {
  for (int i = 0; i < count; i++) {
    const double part = 1.0 / (i + 1);
    results[i] = (EpochResult){.epoch = i + 1,
                               .epochs = count,
                               .train_loss = 0.2 + 0.3 * part,
                               .train_accuracy = 0.97 - 0.1 * part,
                               .test_loss = judge == JUDGED_BY_NONE ? NAN : 0.7 + 0.1 * part,
                               .test_accuracy = judge == JUDGED_BY_NONE ? NAN : 0.8 - 0.1 * part,
                               .train_rows = 60000,
                               .test_rows = 10000,
                               .judged_by = judge};
  }
}

static void assert_chart(int count, const char *wanted) {
  OK(plot_curves(results, 1, count, path, &error));
  assert_string_equal(chart, wanted);
}

#define ROWS "60000 training rows, each judged as it is trained on"

TEST(curves) {
  make_results(2, JUDGED_BY_TEST);
  assert_chart(
      2, "Test accuracy 75.00% after epoch 2\n" ROWS "; 10000 test rows, judged after each epoch\n"
         "Loss: epoch, cross-entropy, best epoch 2\ntraining 1,0.5 2,0.35\ntest 1,0.8 2,0.75\n"
         "Accuracy: epoch, percent, best epoch 2\ntraining 1,87 2,92\ntest 1,70 2,75\n");
  make_results(3, JUDGED_BY_VALIDATION);
  results[0].test_accuracy = results[1].test_accuracy = 0.9; /* the first of the best */
  results[1].train_loss = INFINITY;
  results[2].test_loss = 0.01;
  assert_chart(3, "Validation accuracy 76.67% after epoch 3, best 90.00% after epoch 1\n" ROWS
                  "; 10000 validation rows, judged after each epoch\n"
                  "Loss: epoch, cross-entropy, logarithmic scale (logarithms), best epoch 1\n"
                  "training 1,0.5 2,inf 3,0.3\nvalidation 1,0.8 2,0.75 3,0.01\n"
                  "Accuracy: epoch, percent, best epoch 1\n"
                  "training 1,87 2,92 3,93.67\nvalidation 1,90 2,90 3,76.67\n");
  results[2].test_loss = 0; /* has no logarithm */
  OK(plot_curves(results, 1, 3, path, &error));
  assert_null(strstr(chart, "logarithm"));
  make_results(MOST, JUDGED_BY_TEST);
  OK(plot_curves(results, 1, MOST, path, &error));
  assert_in(chart, " 1000,79.99");
}

/* Without rows to judge by there is one curve; without a finite loss, one panel. */
TEST(fewer_curves) {
  make_results(2, JUDGED_BY_NONE);
  assert_chart(2, "2 epochs\n" ROWS "\nLoss: epoch, cross-entropy\ntraining 1,0.5 2,0.35\n"
                  "Accuracy: epoch, percent\ntraining 1,87 2,92\n");
  results[0].train_loss = results[1].train_loss = NAN;
  assert_chart(2, "2 epochs\n" ROWS "\nAccuracy: epoch, percent\ntraining 1,87 2,92\n");
  results[0].train_accuracy = results[1].train_accuracy = NAN;
  FAILS(plot_curves(results, 1, 2, path, &error),
        "no epoch has a finite loss or accuracy to draw in plot.png");
  FAILS(plot_curves(results, 1, 0, path, &error),
        "no epoch was trained: there is nothing to draw in plot.png");
}

/* The mean of two runs, and each, behind a gap. */
TEST(several_runs) {
  make_results(4, JUDGED_BY_NONE);
  results[2].epoch = 1, results[3].epoch = 2;
  OK(plot_curves(results, 2, 2, path, &error));
  assert_string_equal(chart, "2 epochs\nmean of 2 runs, and each; " ROWS
                             "\nLoss: epoch, cross-entropy\ntraining 1,0.4 2,0.3125\n"
                             "thin nan,nan 1,0.5 2,0.35 nan,nan 1,0.3 2,0.275\n"
                             "Accuracy: epoch, percent\ntraining 1,90.33 2,93.25\n"
                             "thin nan,nan 1,87 2,92 nan,nan 1,93.67 2,94.5\n");
}

static Network network;
static float *parameters, *weights; /* weights: of the first layer, zeros */

static void make_network(int inputs, int filters) {
  OK(network_init(&network, inputs, &filters, 1, 10, &error));
  parameters = allocate(network.floats, sizeof *parameters);
  weights = parameters + network.weight[0];
}

static void draw_weights(int images) {
  OK(plot_weights(&network, parameters, path, &error));
  assert_int_equal(count_marks(IS_IMAGE, 0), images);
}

static const Mark *image(int index) {
  return mark_of(IS_IMAGE, 0, index);
}

TEST(one_scale_for_all_weights) {
  enum { INPUTS = 12, FILTERS = 7, ALL = INPUTS * FILTERS };
  make_network(INPUTS, FILTERS);
  for (uint32_t i = 0; i < ALL; i++)
    weights[i] = (float)random_permute(i, ALL, 5) - 41; /* -41 to 42, each once */
  draw_weights(FILTERS);
  for (int i = 0; i < ALL; i++) {
    const double w = (double)weights[i];
    assert_int_equal(image(i / INPUTS)->pixels[i % INPUTS],
                     w > 41 ? 255 : lround(128 + 127 * w / 41));
  }
}

/* All weights are 0, but for one. */
static void assert_greys(int lone) {
  draw_weights(10);
  for (int i = 0; i < 7840; i++)
    assert_int_equal(image(i / 784)->pixels[i % 784], i == lone ? 255 : 128);
}

TEST(the_scale) {
  make_network(784, 10);
  assert_greys(-1);
  assert_says("grey: 0, as all weights are");
  weights[7 * 784 + 300] = 0.5F;
  assert_greys(7 * 784 + 300);

  for (int i = 0; i < 7840; i++) weights[i] = i % 2 ? 0.1F : -0.05F;
  weights[1] = 100; /* a few beyond all others do not make these grey */
  weights[2] = INFINITY, weights[4] = -INFINITY, weights[6] = NAN;
  for (int i = 0; i < 784; i++) weights[784 * 5 + i] = INFINITY;
  draw_weights(10);
  const uint8_t *first = image(0)->pixels, *last = image(9)->pixels;
  assert_true(first[1] == 255 && first[2] == 255 && first[4] == 1 && first[6] == 128);
  assert_int_equal(last[1], 255);
  assert_in_range(last[2], 63, 66);
}

/* Filters of all shapes lie beside each other on a page that can be drawn. */
TEST(filter_shapes) {
  static const struct {
    int inputs, width;
  } shapes[] = {{1, 1}, {2, 1}, {12, 3}, {13, 1}, {15, 3}, {784, 28}, {4093, 1}, {4096, 64}};
  foreach (shape, shapes)
    for (int filters = 1; filters <= 4 * FIGURES_MAX_FILTERS; filters *= 4) {
      make_network(shape->inputs, filters);
      draw_weights(filters < FIGURES_MAX_FILTERS ? filters : FIGURES_MAX_FILTERS);
      for (const Mark *m = image(0); m < drawn.end; m++) {
        assert_true(m->width == shape->width && m->width * m->height == shape->inputs);
        assert_true(m->x1 - m->x >= 2 * m->width);
        if (m > image(0) && m->y == m[-1].y) assert_true(m->x > m[-1].x1);
        if (m > image(0) && m->y != m[-1].y) assert_true(m->y > m[-1].y1 && m->x == MARGIN);
      }
    }
}

TEST(many_filters) {
  make_network(9, FIGURES_MAX_FILTERS + 1);
  for (int f = 0; f <= FIGURES_MAX_FILTERS; f++) weights[9 * f + f % 9] = 1;
  draw_weights(FIGURES_MAX_FILTERS);
  assert_says("First layer: the first 1024 of 1025 filters of 3 x 3 weights");
  for (int i = 0; i < 9 * FIGURES_MAX_FILTERS; i++)
    assert_int_equal(image(0)[i / 9].pixels[i % 9], i % 9 == i / 9 % 9 ? 255 : 128);
}

enum { SIDE = 12, MISTAKES = 64 };

/* Names of what is drawn, one as long as can be; NULL: numbers. */
static const char *names,
    four[] = "T-shirt\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\nBag\nHat";

/* Under each digit are three lines: truth, prediction, row. Saving asserts that none meet. */
static void assert_mistakes(const Mistake *mistakes, int count, int side) {
  OK(plot_mistakes(mistakes, count, side, names, path, &error));
  for (int i = 0; i < count; i++) {
    const Mark *m = image(i);
    assert_memory_equal(m->pixels, mistakes[i].pixels, (size_t)(side * side));
    assert_in_range(m->x1 - m->x, 100, 200);
    for (int line = 1; line <= 3; line++)
      assert_true(m[line].kind == IS_TEXT && m[line].x == m->x && m[line].y >= m[line - 1].y1);
  }
  assert_null(image(count));
}

TEST(mistakes) {
  static uint8_t pixels[MISTAKES][64 * 64];
  Mistake mistakes[MISTAKES];
  for (int m = 0; m < MISTAKES; m++) {
    for (int i = 0; i < SIDE * SIDE; i++) pixels[m][i] = (uint8_t)(i * 7 + m * 31);
    mistakes[m] = (Mistake){pixels[m], m % 10, 9 - m % 10, 1 - m / 100.0, (uint64_t)m * 1000 + 1};
  }
  assert_mistakes(mistakes, MISTAKES, SIDE);
  assert_says("The 64 most confident mistakes");
  assert_true(image(7)->y == image(0)->y && image(8)->y > image(0)->y); /* eight in a row */
  assert_mistakes(mistakes, 9, SIDE);
  for (int side = 1; side <= 64; side *= 8) assert_mistakes(mistakes, 1, side);
  assert_says("The most confident mistake", "truth 0", "prediction 9: 100.00%", "row 1");
  for (int m = 0; m < MISTAKES; m++) /* long captions */
    mistakes[m] = (Mistake){pixels[m], 1023, 1022, 0.99999999, UINT64_MAX};
  assert_mistakes(mistakes, MISTAKES, SIDE);
  assert_says("prediction 1022: >99.99%");
  names = four;
  for (int m = 0; m < MISTAKES; m++) mistakes[m].truth = 2, mistakes[m].prediction = m % 2;
  assert_mistakes(mistakes, MISTAKES, SIDE);
  assert_says("truth Bag", "prediction T-shirt: >99.99%", "prediction xxxx");
  names = NULL;
  assert_mistakes(NULL, 0, SIDE);
  assert_says("No mistakes");
  assert_true(drawn.width > 200 && drawn.height > 80);
}

static Metrics scores;    /* of the picture that is drawn */
static const Mark *cells; /* each with a number */
static bool has_numbers;

static void count(int truth, int prediction, uint64_t rows) {
  scores.counts[truth * scores.classes + prediction] += rows;
  scores.rows += rows;
  scores.correct += truth == prediction ? rows : 0;
}

/* The rectangles after the frame are the cells, row by row; a cell's number follows it. */
static const Mark *cell(int index) {
  return cells + (has_numbers ? 2 : 1) * index;
}

/* Draws the matrix; each number lies within its cell, and the cells within the frame. The colours
   are as `wanted` says, row by row: blue, red or white. */
static void draw_confusion(const char *wanted) {
  OK(plot_confusion(&scores, path, &error));
  const Mark *frame = mark_of(IS_RECTANGLE, GRID, count_marks(IS_RECTANGLE, GRID) - 1);
  cells = frame + 1;
  has_numbers = scores.classes <= FIGURES_MAX_NUMBERS;
  for (int i = 0; i < scores.classes * scores.classes; i++) {
    const Mark *m = cell(i), *number = m + 1;
    const int red = colour_part(m->colour, 0), blue = colour_part(m->colour, 2);
    assert_int_equal(m->kind, IS_RECTANGLE);
    assert_true(m->x > frame->x && m->y > frame->y && m->x1 < frame->x1 && m->y1 < frame->y1);
    assert_int_equal(wanted[i], m->colour == PAPER ? 'w'
                                : blue > red + 10  ? 'b'
                                : red > blue + 10  ? 'r'
                                                   : '?');
    if (!has_numbers) continue;
    assert_int_equal(strtoull(number->text, NULL, 10), scores.counts[i]);
    assert_true(number->x > m->x && number->x1 < m->x1 && number->y > m->y && number->y1 < m->y1);
  }
}

TEST(confusion) {
  OK(metrics_open(&scores, 4, &error));
  count(0, 0, 1000);
  count(1, 1, 5);
  count(1, 3, 5); /* half of its row, though few */
  count(2, 2, 900);
  count(2, 0, 100);
  count(2, 1, 1); /* class 3 has no row */
  draw_confusion("bwwwwbwrrrbwwwww");
  /* the larger share of the row is the darker */
  assert_true(cell(0)->colour < cell(10)->colour && cell(10)->colour < cell(5)->colour);
  assert_true(colour_part(cell(7)->colour, 2) < colour_part(cell(8)->colour, 2) &&
              colour_part(cell(8)->colour, 2) < colour_part(cell(9)->colour, 2));
  assert_true(cell(0)[1].colour == PAPER); /* white on dark cells */
  assert_true(cell(9)[1].colour == INK && cell(15)[1].colour == FAINT);
  assert_says("Confusion matrix, accuracy 94.73%", "1905 of 2011 rows right", "truth", "prediction",
              "right", "0.1% of the truth's rows");
  assert_at(middle_of("3"), (cell(3)->x + cell(3)->x1) / 2);
  scores.names = four; /* stand where numbers do */
  draw_confusion("bwwwwbwrrrbwwwww");
  const Mark *row = text_mark("Bag"), *column = row + 1;
  assert_at(row->y1 - SMALL / 2.0, (cell(8)->y + cell(8)->y1) / 2);
  assert_at((column->x + column->x1) / 2, (cell(2)->x + cell(2)->x1) / 2);
  assert_true(row->x1 < cell(0)->x && column->y > cell(12)->y1 && !text_mark("3"));
  metrics_close(&scores);
}

/* Large counts fit into their cells, the largest matrix on a page. */
TEST(many_classes) {
  static char wanted[NETWORK_MAX_CLASSES * NETWORK_MAX_CLASSES];
  foreach (classes,
           VALUES(int, 2, FIGURES_MAX_NUMBERS, FIGURES_MAX_NUMBERS + 1, 100, NETWORK_MAX_CLASSES)) {
    OK(metrics_open(&scores, *classes, &error));
    memset(wanted, 'w', sizeof wanted);
    draw_confusion(wanted); /* of no rows */
    for (int c = 0; c < *classes; c++) {
      count(c, c, c % 2 ? 88888888888 : 90);
      count(c, (c + 5) % *classes, c % 2 ? 9999999999 : 10);
      wanted[c * *classes + (c + 5) % *classes] = 'r';
      wanted[c * *classes + c] = 'b';
    }
    draw_confusion(wanted);
    assert_true(cell(0)->x1 - cell(0)->x >= 2);
    if (*classes > 2) assert_true(cell(*classes - 1)->x1 - cell(0)->x > 800);
    metrics_close(&scores);
  }
}
