/* Tests the results of the CPU engine, and of the CUDA engine at every level of fusion, with every
   training option. Results must be near the float64 reference. Repeated training must give the same
   bits, even if the steps are divided into more calls. test_engine_interface.c tests the other
   promises of engine.h. */
#include "support/engine_tests.h"
#ifdef HAVE_CUDA
#include "kernels.h"
#endif

/* ---- against the reference ------------------------------------------------------------------ */

static bool wide; /* true while the kernels for wide layers are tested */

static void assert_at_most(const char *name, const char *who, const char *what, double off,
                           double limit) {
  if (!(off <= limit))
    fail_msg("%s, %s: error of the %s %.3g, allowed %.3g", name, who, what, off, limit);
}

/* An optimizer and training options, to be tested in place of plain SGD. */
typedef struct {
  const char *name;
  Optimizer optimizer;
  float rule[4]; /* learning rate, beta1, beta2, epsilon */
  float smoothing, dropout[2], ema;
  PixelScale pixels;
} Variant;

static EngineConfig config_for(const Case *c, const Variant *v) {
  EngineConfig config = config_of(c, FUSION_AUTO, c->rows, whole_batches(c, c->rows));
  if (!v) return config;
  const float *rule = v->rule;
  config.training.rule =
      (OptimizerRule){v->optimizer, c->momentum, c->weight_decay, rule[1], rule[2], rule[3]};
  config.training.label_smoothing = v->smoothing;
  config.training.ema = v->ema;
  config.training.pixels = v->pixels;
  config.training.dropout.count = c->hidden_count;
  for (int l = 0; l < c->hidden_count; l++) config.training.dropout.share[l] = v->dropout[l];
  return config;
}

/* The results of training, and the sums of a final evaluation of all rows. */
typedef struct {
  Outcome o;
  EngineSums evaluated;
} Trained;

static Trained train_case(int level, const Case *c, const Variant *v, const Data *data,
                          void (*way)(void *engine, TrainRange range)) {
  Engine *engine = open_config(config_for(c, v), level);
  send_all(engine, data, c->rows);
  for_steps(c, way, engine);
  Trained t = {.o = outcome_of(engine)};
  OK(engine_evaluate(engine, 0, c->rows, &error));
  t.evaluated = collect(engine);
  close_engine(engine);
  return t;
}

/* Checks the errors after about 50 steps. The error of the weights is relative to the distance that
   training moved them (way_error). Float32 products are exact to about 1e-6, and each step adds
   such an error to the weights. The largest measured error is 5e-6; the bound 2e-5 is 4 times as
   large. Products in tf32, and wide layers with one fp16 term, cause errors of 8e-5 to 3e-2. With
   one fp16 term, the momentum is off by up to 0.11. Two bf16 terms cause errors of 2e-3. A missing
   gradient, an extra row or a wrong mean causes an error over 1e-3.

   Only a ReLU can amplify a rounding. If its input is almost 0, the engine may compute a positive
   input and the reference a negative one, or the reverse. Then only one of the two passes on the
   row's gradient. This is a flip. With `flips`, one run in twelve had one; the largest error of 48
   runs was 6e-4. Forced flips changed plain SGD's momentum, the last gradient, by 0.038 and 0.013.

   On the CPU, the bounds allow a flip. If one of 300 units flips for one of 16 rows, the momentum
   changes by 1e-3 and the weights by 1e-5. Rounding alone changes them by 4e-7 and by 2e-7.

   With options, the largest measured error is 2e-6 on the CPU and less on an H200. A flip adds
   about 1e-4. A missing correction, a rate applied twice or decay of the biases adds over 1e-2. */
static void assert_near(int level, const Case *c, const Variant *v, const Trained *t,
                        const Reference *r, const Data *data) {
  const bool cpu = level == CPU, tf32 = !cpu && levels[level].precision == PRECISION_TF32;
  const double limit = v              ? 1e-3
                       : cpu          ? 3e-5
                       : tf32 && wide ? 6e-2
                       : c->flips     ? 1e-2
                       : tf32         ? 2e-3
                                      : 2e-5;
  const double of_state = cpu && !v        ? 2e-3
                          : tf32 && wide   ? 0.25
                          : c->flips && !v ? 5e-2
                                           : 2 * limit;
  const double of_loss = cpu ? 1e-5 : limit / 10;
  const char *who = text_printf("%s, %s", v ? v->name : "plain", levels[level].name);
  const Outcome *o = &t->o;
  EngineSums evaluation = {0};
  reference_evaluate(&r->config, r->parameters, data->pixels, data->inputs, data->labels, 0,
                     c->rows, &evaluation);
  assert_at_most(c->name, who, "parameters",
                 way_error(o->parameters, r->parameters, cpu && !v ? NULL : r->start, o->floats),
                 limit);
  for (size_t at = 0; at < o->states * o->floats; at += o->floats)
    assert_at_most(c->name, who, "state",
                   way_error(o->momentum + at, r->momentum + at, NULL, o->floats), of_state);
  assert_at_most(c->name, who, "loss", fabs(o->sums.loss / r->sums.loss - 1),
                 v ? limit / 10 : of_loss);
  if (v)
    assert_at_most(c->name, who, "evaluation", fabs(t->evaluated.loss / evaluation.loss - 1),
                   limit / 10);
  else /* counts may differ by a row whose largest two logits are almost equal */
    assert_at_most(c->name, who, "correct count",
                   fabs((double)o->sums.correct - (double)r->sums.correct),
                   c->flips && !cpu ? 0.01 * (double)r->sums.rows : 1);
  assert_int_equal(o->sums.rows, r->sums.rows);
}

/* Trains the case at all levels of [first, end) that accept it. Compares the results with the
   reference, and bit by bit with a second run and with a run in several calls. */
static void check_case(const Case *c, const Variant *v, int first, int end) {
  const Data data = make_data(c);
  if (strcmp(c->name, "black rows") == 0) memset(data.pixels + 50 * 8, 0, 50 * 20);
  const Reference r = run_reference(c, config_for(c, v), &data);
  for (int level = first; level < end; level++) {
    Engine *engine = open_config(config_for(c, v), level);
    if (!engine) continue; /* the level refuses the case */
    close_engine(engine);
    const Trained whole = train_case(level, c, v, &data, train_whole);
    assert_near(level, c, v, &whole, &r, &data);
    if (quick() && !v && strcmp(c->name, cases[SHORT].name) != 0) continue; /* to save time */
    const Trained again = train_case(level, c, v, &data, train_whole),
                  parts = train_case(level, c, v, &data, train_in_parts);
    assert_same_outcome(&whole.o, &again.o, 0);
    /* a GPU first sums the losses of each call, so the total rounds differently with more calls */
    assert_same_outcome(&whole.o, &parts.o, level == CPU ? 0 : 1e-12);
    assert_true(whole.evaluated.loss == parts.evaluated.loss);
  }
  close_engines(NULL);
}

/* The default network, on rows with as many zeros as MNIST's and a short last batch. Then networks
   whose layers are no multiples of a tile. */
static const Case shapes[] = {
    {"default", 784, {300, 100}, 2, 10, 16, 75, USUAL(50), 0},
    {"1 input, no hidden layer", 1, {0}, 0, 2, 3, 7, USUAL(20), 7},
    {"a layer of 1", 65, {63, 1, 33}, 3, 5, 5, 23, USUAL(20), 7},
    {"nearly black", 100, {31, 29}, 2, 1024, 48, 60, USUAL(20), -1},
    {"long batch", 40, {100}, 1, 10, 300, 700, USUAL(20), 0},
    {"black rows", 50, {20}, 1, 3, 8, 40, USUAL(20), 2},
};

/* Adam divides a gradient by the root of its mean square. A gradient of mere rounding errors would
   then move a weight by a full step, so epsilon is larger than rounding errors. */
#define BY(kind, ...) .optimizer = OPTIMIZER_##kind, .rule = {__VA_ARGS__}
#define ADAM 0.001f, 0.9f, 0.999f, 1e-4f
static const Variant variants[] = {
    {"adam without a first moment", BY(ADAM, 0.01f, 0, 0.5f, 1e-3f)},
    {"adamw without a mean square", BY(ADAMW, 0.001f, 0.5f, 0, 1e-3f)},
    {"label smoothing", BY(SGD, 0.05f), .smoothing = 0.2f},
    {"dropout", BY(SGD, 0.05f), .dropout = {0.5f, 0.25f}},
    {"dropout of the first layer", BY(SGD, 0.05f), .dropout = {0.9f, 0}},
    {"dropout, others", BY(NESTEROV, 0.05f), .smoothing = 0.1f, .dropout = {0.2f, 0.2f}},
    {"average", BY(SGD, 0.05f), .ema = 0.9f},
    {"average of adam", BY(ADAM, ADAM), .ema = 0.75f},
    {"pixels of 0 to 99", BY(SGD, 0.02f), .pixels = {99, 0, 1}},
    {"normalised pixels", BY(SGD, 0.02f), .pixels = {255, 0.1307f, 0.3081f}},
    {"normalised, dropout", BY(SGD, 0.02f), .dropout = {0.2f, 0.2f}, .pixels = {200, -0.5f, 2}},
};

/* Steps have 48 rows; the last step of an epoch has 20. With 20 classes, the last layer is too wide
   for one kernel. The last network uses large tiles with dropout. */
static const Case networks[] = {
    {"10 classes", 100, {70, 33}, 2, 10, 48, 260, 0, 0.9f, 0.01f, 50, 3, true, true, 0},
    {"one hidden layer", 100, {130}, 1, 16, 48, 260, 0, 0.9f, 0.01f, 50, 3, true, true, 0},
    {"many units", 20, {1000}, 1, 10, 48, 260, 0, 0.9f, 0.01f, 50, 3, true, false, 0},
    {"20 classes", 64, {50}, 1, 20, 48, 260, 0, 0.9f, 0.01f, 50, 3, true, true, 0},
    {"1024 rows", 64, {261, 257}, 2, 10, 1024, 1500, 0, 0.9f, 0.01f, 3, 3, true, false, 0},
};

static void check_variant(const Variant *v, int first, int end) {
  foreach (network, networks) {
    Case c = *network;
    c.learning_rate = v->rule[0];
    if (network->quick || (!quick() && v->dropout[0] != 0)) check_case(&c, v, first, end);
  }
}

/* Checks every optimizer and every option on every network, at levels [first, end). */
static void check_options(int first, int end) {
  for (int kind = 0; kind < OPTIMIZERS; kind++) {
    const Optimizer of = (Optimizer)kind;
    const char *name = text_printf("optimizer %d", kind);
    const Variant second = {.name = name, .optimizer = of, .rule = {ADAM}},
                  linear = {.name = name, .optimizer = of, .rule = {0.05f}};
    check_variant(optimizer_has_second(of) ? &second : &linear, first, end);
  }
  foreach (v, variants) check_variant(v, first, end);
}

/* The CPU's kernels skip rows of zeros. Training on such rows must be as exact as on other rows. */
ENGINE_TEST(test_results_of_the_cpu) {
  foreach (c, shapes) check_case(c, NULL, CPU, 0);
  foreach (of, cases) {
    Case c = *of;
    c.steps = min_size(c.steps, c.inputs > 100 ? 4 : 20);
    if (!quick() || of == &cases[SHORT]) check_case(&c, NULL, CPU, 0);
  }
  check_options(CPU, 0);
}

ENGINE_TEST(test_results_of_cuda) {
  needs_gpu();
  foreach (c, cases)
    if (!quick() || c->quick) check_case(c, NULL, 0, tested_levels());
  for (int level = 0; level <= EPOCH && !wide; level++)
    if (!quick() || level != STEP) check_options(level, level + 1);
}

/* Networks for level epoch that use every variant of its kernels: layers of one cluster and of
   several clusters, a head that gets its input by mail, short steps, partly filled last tiles and
   clusters, several numbers of classes. After these, random networks are drawn. */
static const Case tiles[] = {
    {"128 at 64", 784, {128}, 1, 10, 64, 1000, 0.05f, 0.9f, 0.0f, 70, 1, true, false, 0},
    {"128 at 32", 784, {128}, 1, 10, 32, 1000, 0.05f, 0.9f, 0.001f, 70, 1, true, false, 0},
    {"128 at 128", 784, {128}, 1, 10, 128, 1000, 0.05f, 0.9f, 0.001f, 20, 1, true, false, 0},
    {"512 at 50", 784, {512}, 1, 16, 50, 333, 0.05f, 0.9f, 0.001f, 20, 1, true, false, 0},
    {"893 at 100", 300, {893}, 1, 13, 100, 333, 0.05f, 0.9f, 0.001f, 20, 1, true, false, 0},
    {"300,100 at 128", 784, {300, 100}, 2, 10, 128, 1000, 0.05f, 0.9f, 0.0f, 20, 1, true, false, 0},
    {"256,128 at 64", 784, {256, 128}, 2, 10, 64, 1000, 0.05f, 0.9f, 0.0f, 70, 1, true, false, 0},
    {"256,128,64", 784, {256, 128, 64}, 3, 10, 64, 1000, 0.05f, 0.9f, 0.0f, 70, 1, true, false, 0},
    {"17,9,130", 333, {17, 9, 130}, 3, 11, 33, 100, 0.05f, 0.9f, 0.01f, 20, 1, true, false, 0},
    {"1000 at 64", 784, {1000}, 1, 12, 64, 300, 0.05f, 0.9f, 0.001f, 20, 1, true, false, 0},
    {"500,500 at 30", 784, {500, 500}, 2, 10, 30, 300, 0.05f, 0.9f, 0.0f, 20, 1, true, false, 0},
    {"11 at 1", 50, {11}, 1, 3, 1, 70, 0.01f, 0.9f, 0.01f, 70, 1, true, true, 0},
};

ENGINE_TEST(test_tiles) {
  needs_gpu();
  enum { RANDOM = 40 };
  uint64_t drawn = 0;
  for (int n = 0; n < (int)LENGTH(tiles) + (quick() ? 0 : RANDOM); n++) {
    Case c = tiles[n % (int)LENGTH(tiles)];
    const int seed = n - (int)LENGTH(tiles);
#define DRAWN(most) (int)(random_words(7, (uint64_t)seed, drawn++).word[0] % (uint32_t)(most))
    if (seed >= 0) {
      c = (Case){.name = "random", .rows = 400, .seed = 3, .flips = true};
      c.learning_rate = 0.03f, c.momentum = 0.9f, c.weight_decay = 0.001f, c.steps = 20;
      c.inputs = 1 + DRAWN(784);
      c.hidden_count = 1 + DRAWN(3);
      c.classes = 2 + DRAWN(15);
      c.batch = 1 + DRAWN(128);
      for (int l = 0; l < c.hidden_count; l++) {
        const int most = DRAWN(2) ? 300 : 60;
        c.hidden[l] = 1 + DRAWN(most);
      }
    }
#undef DRAWN
    if (!quick() || c.quick) check_case(&c, NULL, EPOCH, EPOCH + 1);
  }
}

static void check_same_bits(int level, const Case *c, const Data *data) {
  const Outcome whole = train_case(level, c, NULL, data, train_whole).o,
                parts = train_case(level, c, NULL, data, train_in_parts).o;
  assert_same_outcome(&whole, &parts, level == CPU ? 0 : 1e-12);
}

/* Trains more steps than a launch of level epoch holds, and ranges that end within a launch. */
EACH_LEVEL(test_same_bits_of_long_ranges, tested_levels()) {
  const Case c = {"1500 steps", 50,   {33, 20}, 2,  6,     2,     2999, 0.01f,
                  0.5f,         0.0f, 1600,     33, false, false, 0};
  check_level(check_same_bits, level, &c);
}

/* ---- evaluation and prediction -------------------------------------------------------------- */

/* Returns the sums that evaluation must give for the logits. Computes like the CPU engine. */
enum { FIRST = 20, CLASSES = 10 };
static EngineSums expected_sums(const float *logits, const uint16_t *labels, uint64_t rows) {
  EngineSums sums = {.rows = rows};
  for (uint64_t r = 0; r < rows; r++, logits += CLASSES) {
    double sum = 0;
    int best = 0;
    for (int k = 1; k < CLASSES; k++)
      if (logits[k] > logits[best]) best = k;
    for (int k = 0; k < CLASSES; k++) sum += (double)expf(logits[k] - logits[best]);
    sums.loss += log(sum) + (double)logits[best] - (double)logits[labels[r]];
    sums.correct += best == labels[r];
  }
  return sums;
}

/* Row FIRST and all later rows are evaluated. An engine cannot evaluate so many rows at once. */
static const Case evaluated = {"evaluation", 20,   {16, 12}, 2,  CLASSES, 16,    20513, 0.05f,
                               0.9f,         0.0f, 0,        54, false,   false, 0};

/* Evaluation agrees with the reference, and with the logits that prediction returns. Evaluation and
   prediction change no parameter. Prediction waits for queued work and does not change the sums.
   Before training, the two largest logits of a row differ by at least 1e-4, so the correct count
   must be exact. The losses are exact to about 2^-24. On the CPU, a row's logits have the same bits
   whichever row is the first that is predicted. */
CONTRACT(test_evaluation, tested_levels(), &evaluated) {
  const uint64_t rows = quick() ? 100 : c->rows, count = rows - FIRST;
  const uint64_t epochs = rows == 100 ? 30 : 1, part = count - 13; /* 30 epochs fit 100 rows */
  const size_t bytes = CLASSES * sizeof(float);
  const bool rounds = wide && levels[level].precision == PRECISION_TF32; /* factors round to fp16 */
  float *queued = allocate(count, bytes), *again = allocate(count, bytes);
  float *rest = allocate(part + 1, bytes);
  Case of = *c;
  of.rows = rows;
  Engine *engine = open_level(&of, level, rows, 4096);
  send_all(engine, data, rows);
  OK(engine_evaluate(engine, FIRST, count, &error));
  const Outcome before = outcome_of(engine);
  const EngineConfig config = config_of(c, FUSION_NONE, rows, rows);
  EngineSums sums = {0};
  reference_evaluate(&config, doubles_of(before.parameters, before.floats), data->pixels,
                     data->inputs, data->labels, FIRST, count, &sums);
  assert_int_equal(before.sums.rows, count);
  assert_close((double)before.sums.correct, (double)sums.correct,
               rounds ? 0.01 * (double)count : 0);
  assert_close(before.sums.loss, sums.loss, (rounds ? 1e-2 : 1e-6) * sums.loss);

  for (uint64_t e = 1; e <= epochs; e++) train(engine, epoch_of(&of, e));
  OK(engine->call->predict(engine, FIRST, count, queued, &error));
  const Outcome trained = outcome_of(engine);
  assert_int_equal(trained.sums.rows, epochs * rows);
  OK(engine_evaluate(engine, FIRST, count, &error));
  OK(engine->call->predict(engine, FIRST, count, again, &error));
  assert_memory_equal(queued, again, count * bytes);
  const Outcome after = outcome_of(engine);
  assert_same_bits(&trained, &after);
  const EngineSums expected = expected_sums(again, data->labels + FIRST, count);
  assert_int_equal(after.sums.rows, expected.rows);
  assert_int_equal(after.sums.correct, expected.correct);
  assert_true(epochs == 1 || expected.correct > count / 2);
  assert_close(after.sums.loss, expected.loss, (level == CPU ? 1e-12 : 1e-6) * expected.loss);
  OK(engine->call->predict(engine, rows - part, part, rest, &error));
  if (level == CPU) assert_memory_equal(rest, again + 13 * CLASSES, part * bytes);
  assert_true(rest[part * CLASSES] == 0); /* nothing is written after the last row */
  OK(engine->call->predict(engine, rows, 0, NULL, &error));
  assert_int_equal(collect(engine).rows, 0);
}

static void needs_wide(void) {
  needs_gpu();
#ifdef HAVE_CUDA
  if (!wide_by()) skip();
#endif
}

/* Runs two tests again with the kernels for wide layers. These kernels are used for such small
   networks only if MLP_TEST_WIDE forces it. */
ENGINE_TEST(test_wide_layers) {
  static void (*const tests[])(void **) = {test_results_of_cuda, test_evaluation_of_cuda};
  needs_wide();
  set_variable("MLP_TEST_WIDE", "always");
  assert_true(open_level(&cases[MNIST], STEP, cases[MNIST].rows, cases[MNIST].rows)->wide);
  wide = true;
  foreach (test, tests) (*test)(state);
  wide = false;
  set_variable("MLP_TEST_WIDE", NULL);
}

/* If the kernels for wide layers meet numbers beyond fp16, level layer repeats the work without
   these kernels. Results must have the bits of a run that never used such kernels. Numbers get too
   large because the last rows are 255 times as bright as the rows that set the scales. */
ENGINE_TEST(test_wide_overflow) {
  enum { LAYER = 1, ALL = 480, DARK = 300 };
  const Case c = {"overflow", 40,   {61, 30}, 2,  10,    160,   ALL, 0.05f,
                  0.9f,       0.0f, 0,        54, false, false, 0};
  Outcome outcome[2];
  float logits[2][ALL * 10];
  needs_wide();
  Data data = make_data(&c);
  for (size_t i = 0; i < ALL * data.inputs; i++)
    data.pixels[i] = i < DARK * data.inputs ? data.pixels[i] > 127 : 255;
  for (int is_wide = 0; is_wide < 2; is_wide++) {
    set_variable("MLP_TEST_WIDE", is_wide ? "always" : "never");
    Engine *engine = open_loaded(&c, LAYER, &data);
    for (uint64_t first = 0; first < 3; first++) {
      TrainRange range = epoch_of(&c, 1);
      range.shuffled = false, range.first_step = first, range.steps = 1;
      train(engine, range);
    }
    OK(engine_evaluate(engine, 0, ALL, &error));
    outcome[is_wide] = outcome_of(engine);
    OK(engine->call->predict(engine, 0, ALL, logits[is_wide], &error));
    assert_same_outcome(&outcome[0], &outcome[is_wide], 0);
    assert_int_equal(engine->replays, is_wide ? 2 : 0);
    close_engine(engine);
  }
  assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
  set_variable("MLP_TEST_WIDE", NULL);
}

/* Level epoch meets numbers beyond fp16: a weight, activations of bright pixels, a gradient of a
   steep last layer, or weights after steps at an extreme rate. Then level layer repeats all work
   since the last check. Results must have the bits of a run of level layer. */
ENGINE_TEST(test_tiles_overflow) {
  enum { LAYER = 1 };
  const struct {
    float weight, last, rate, std; /* weight: a first-layer weight; last: a last-layer weight */
  } cases_of[] = {{300, 0, 0.01f, 1},
                  {-300, 0, 0.01f, 1},
                  {0, 0, 0.01f, 1e-4f},
                  {0, 3e4f, 0.01f, 1},
                  {0, 0, 1e20f, 1}};
  Case c = cases[SHORT];
  needs_gpu();
  c.hidden_count = 1;
  const Data data = make_data(&c);
  foreach (of, cases_of) {
    Outcome outcome[2];
    const int levels_of[] = {LAYER, EPOCH};
    for (int way = 0; way < 2; way++) {
      EngineConfig config = config_of(&c, FUSION_AUTO, c.rows, (uint64_t)c.batch);
      config.training.pixels = (PixelScale){255, 0.1f, of->std};
      Engine *engine = open_config(config, levels_of[way]);
      if (!engine) skip_because("level epoch takes no such network here");
      const Network *n = &config.network;
      float *parameters = allocate(n->floats, sizeof *parameters);
      network_initialise(n, 1, parameters);
      if (of->weight != 0) parameters[n->weight[0] + 3] = of->weight;
      if (of->last > 0) parameters[n->weight[1] + 5] = of->last;
      OK(engine->call->write(engine, parameters, 1, &error));
      send_all(engine, &data, c.rows);
      for (uint64_t epoch = 0; epoch < 3; epoch++) {
        TrainRange range = epoch_of(&c, epoch);
        range.learning_rate = of->rate;
        train(engine, range);
      }
      assert_true(engine->replays == 0);
      outcome[way] = outcome_of(engine);
      assert_same_bits(&outcome[0], &outcome[way]);
      assert_int_equal(outcome[0].sums.correct, outcome[way].sums.correct);
      assert_true((engine->replays > 0) == (way == 1));
      close_engine(engine);
    }
  }
}
