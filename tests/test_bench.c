/* mlp-bench's parts: its lines, what it counts from shapes, its reports; on a GPU, the cuBLAS level
   against the CPU engine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "support/test.h"
#include "support/cuda.h"
#include "support/folder.h"
#include "base/random.h"
#include "exercise/reference.h"
#include "base/stats.h"

static Error error;

static const char *path;

static int open_folder(void **state) {
  folder_open(state);
  path = folder_path("lines.json");
  return 0;
}

static Record read_record(const char *text) {
  Record record = {.lines = NULL};
  folder_write_json(path, text);
  if (!bench_read(&record, path, &error)) fail_msg("%s", error.text);
  return record;
}

static void close_record(Record *record) {
  OK(record_close(record, true, &error));
}

static void assert_near(double value, double expected) {
  if (!(fabs(value - expected) <= 1e-7 * fabs(expected)))
    fail_msg("%.12g is not %.12g", value, expected);
}

/* ---- lines -------------------------------------------------------------------------------- */

#define IN_FOLDER(name) TEST_WITH(name, open_folder, folder_close)

IN_FOLDER(test_bad_lines) {
  static const char *const bad[] = {"[1]", "{'case': 5}", "{'batch': 5}",
                                    "{'case': 'epoch', 'batch': '64'}", "{}"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    Record record = {.lines = NULL};
    char text[256];
    snprintf(text, sizeof text, "{'case':'epoch'}\n\n%s\n", bad[i]);
    folder_write_json(path, text);
    if (bench_read(&record, path, &error)) fail_msg("'%s' was taken", bad[i]);
    assert_non_null(strstr(error.text, "lines.json is no record of mlp-bench, line 3"));
    close_record(&record);
  }
}

IN_FOLDER(test_values_are_found) {
  Record record = read_record("{'case':'ceiling','name':'copy','value':2958.5}\n");
  assert_near(bench_value(&record, "ceiling", "copy"), 2958.5);
  assert_true(isnan(bench_value(&record, "ceiling", "paste")));
  close_record(&record);
}

/* ---- counting ----------------------------------------------------------------------------- */

TEST(test_times) {
  double odd[] = {5, 1, 3}, even[] = {4, 1, 2, 9}, one[] = {7};
  const Stats a = stats_of(odd, 3), b = stats_of(even, 4), c = stats_of(one, 1);
  assert_true(a.median == 3 && a.low == 1 && a.high == 5);
  assert_true(b.median == 3 && b.low == 1 && b.high == 9);
  assert_true(c.median == 7 && c.low == 7 && c.high == 7);
}

static Network network_of(int inputs, int hidden1, int hidden2, int classes) {
  const int hidden[] = {hidden1, hidden2};
  Network network;
  assert_true(network_init(&network, inputs, hidden, 2, classes, &error));
  return network;
}

/* A step of 64 rows of MNIST's network is 72 MFLOP: 2 P B forward, 2 P B for the gradients of the
   weights, 2 (P - 784 300) B for those of the hidden values. */
TEST(test_flops) {
  const Network network = network_of(784, 300, 100, 10);
  const double p = 784 * 300 + 300 * 100 + 100 * 10;
  assert_near(bench_flops_per_row(&network), 4 * p + 2 * (p - 784 * 300));
  assert_near(64 * bench_flops_per_row(&network), 72115200);
}

/* 5-4-3-2 at batch 7, counted by hand, kernel by kernel: floats read and written. */
TEST(test_bytes) {
  const Network n = network_of(5, 4, 3, 2);
  const double x = 35, h1 = 28, h2 = 21, z = 14; /* values of 7 rows */
  const double w1 = 20, w2 = 12, w3 = 6, b1 = 4, b2 = 3, b3 = 2, values = 47;
  const double forward = (x + w1 + h1) + (h1 + w2 + h2) + (h2 + w3 + z);
  const double biases = (2 * h1 + b1) + (2 * h2 + b2) + (2 * z + b3), relu = 2 * (h1 + h2);
  const double gradients = forward + (h1 + b1) + (h2 + b2) + (z + b3);
  const double back = (z + w3 + h2) + (h2 + w2 + h1) + 3 * (h2 + h1);
  const double common = 35 + 4 * (x + forward + biases + relu + gradients + back);
  assert_near(bench_bytes(FUSION_NONE, &n, 7, 0),
              common + 4 * (2 * z + z + 2 * z) + 7 * (2 + 5 + 2) + 4 * 5 * values);
  assert_near(bench_bytes(BENCH_CUBLAS, &n, 7, 0),
              common + 4 * 2 * z + 7 * 7 + 4 * 5 * (double)n.floats);
  const double layer = (35 + 4 * (w1 + b1 + h1)) + 4 * (h1 + w2 + b2 + h2) +
                       (4 * (h2 + w3 + b3 + z + h2) + 7 * 7) + /* the last layer and back */
                       4 * (h2 + w2 + 2 * h1) + (35 + 4 * (h1 + 4 * (w1 + b1))) +
                       4 * (h1 + h2 + 4 * (w2 + b2)) + 4 * (h2 + z + 4 * (w3 + b3));
  assert_near(bench_bytes(FUSION_LAYER, &n, 7, 0), layer);
  assert_near(bench_bytes(FUSION_STEP, &n, 7, 0), layer);
  assert_near(bench_bytes(FUSION_EPOCH, &n, 7, 1000), 7 * (3 * 5 + 2 + 5) + 8 * 64 * 64 + 2000);
}

TEST(test_floor) {
  const Network network = network_of(784, 300, 100, 10);
  const BenchRates fast_memory = {1e12, 1e30, 1e-6}, fast_arithmetic = {1e30, 1e9, 1e-6};
  const double steps = 938; /* of 64 rows, the last one short */
  assert_near(bench_floor_seconds(&fast_memory, &network, 64, 60000),
              60000 * 1126800e-12 + 2e-6 * steps);
  assert_near(bench_floor_seconds(&fast_arithmetic, &network, 64, 60000),
              60000 * 786e-9 + 2e-6 * steps);
}

/* ---- reports ------------------------------------------------------------------------------ */

static const char sample[] =
    "{'case':'machine','name':'784-300-100-10 on train.csv','gpu':'GPU 1',"
    "'driver':'580.1','cores':16,'date':'2026-11-20','command':'./mlp-bench',"
    "'sources':'abc'}\n"
    "{'case':'ceiling','name':'grid barrier','value':1.12,'unit':'us'}\n"
    "{'case':'floor','batch':64,'precision':'fp32','value':2.5,'unit':'ms'}\n"
    "{'case':'floor','batch':64,'precision':'tf32','value':2,'unit':'ms'}\n"
    "{'case':'kernel','name':'forward','batch':64,'value':3,'share':0.75,'bound':4}"
    "\n"
    "{'case':'kernel','name':'forward','batch':256,'value':9,'share':0.5,'bound':2}"
    "\n"
    "{'case':'run','name':'starting','value':400,'share':0.8,'bound':5}\n"
    "{'case':'run','name':'training','value':100,'share':0.2,'bound':1.25}\n"
    "{'case':'alone','name':'parsing','value':123.4}\n"
    "{'case':'epoch','fusion':'step','batch':64,'precision':'fp32','epochs':9,"
    "'ms_per_epoch':20,'bytes_per_step':6500000,'test_accuracy':0.98125}\n"
    "{'case':'epoch','fusion':'epoch','batch':64,'precision':'fp32','epochs':9,"
    "'ms_per_epoch':5,'chosen':1}\n"
    "{'case':'epoch','fusion':'cublas','batch':64,'precision':'tf32','epochs':9,"
    "'ms_per_epoch':4}\n"
    "{'case':'epoch','fusion':'epoch','batch':256,'precision':'fp32',"
    "'reason':'it takes batches up to 64'}\n"
    "{'case':'epoch','peer':'JAX','batch':64,'precision':'tf32','epochs':9,"
    "'ms_per_epoch':35}\n"
    "{'case':'epoch','peer':'JAX','batch':256,'precision':'fp32','epochs':9,"
    "'ms_per_epoch':16}\n"
    "{'case':'wide','name':'50,40','fusion':'step','batch':64,'precision':'tf32',"
    "'epochs':5,'ms_per_epoch':8,'min_ms':7,'max_ms':9,'test_accuracy':0.5}\n"
    "{'case':'wide','name':'50,40','peer':'JAX','batch':64,'precision':'tf32',"
    "'epochs':5,'ms_per_epoch':12}\n"
    "{'case':'wide','name':'50,30','peer':'JAX','batch':64,'precision':'tf32',"
    "'epochs':5,'ms_per_epoch':11}\n"
    "{'case':'wide','name':'50,30','peer':'PyTorch','batch':64,'precision':"
    "'tf32',"
    "'reason':'no time'}\n"
    "{'case':'peers','name':'JAX 0.11','command':'scripts/compare_peers.py'}\n";

static char *print_log(const Record *log, bool markdown) {
  static char text[65536];
  FILE *file = tmpfile();
  assert_non_null(file);
  bench_print(log, file, markdown);
  rewind(file);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  return text;
}

/* The line of `text` that has all of `words`, one after the other. */
static void assert_line(const char *text, const char *const *words) {
  for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
    char copy[1024];
    snprintf(copy, sizeof copy, "%.*s", (int)strcspn(line, "\n"), line);
    const char *at = copy;
    int found = 0;
    for (; words[found] && (at = strstr(at, words[found])); found++) at += strlen(words[found]);
    if (!words[found]) return;
  }
  fail_msg("no line with '%s', '%s', ... in:\n%s", words[0], words[1] ? words[1] : "", text);
}
#define HAS_LINE(text, ...) assert_line(text, (const char *const[]){__VA_ARGS__, NULL})

IN_FOLDER(test_tables) {
  Record log = read_record(sample);
  for (int markdown = 0; markdown < 2; markdown++) {
    const char *text = print_log(&log, markdown != 0);
    HAS_LINE(text, "GPU 1, driver 580.1; 16 CPU cores; 2026-11-20");
    HAS_LINE(text, "JAX 0.11", "scripts/compare_peers.py");
    HAS_LINE(text, "64", "fusion step", "fp32", "20.0", "6.50", "8.00", "4.00", "98.12%");
    HAS_LINE(text, "64", "fusion epoch (auto)", "fp32", "5.00", "2.00", "1.00");
    HAS_LINE(text, "64", "cuBLAS", "tf32", "4.00", "2.00", "0.80"); /* of our fp32: no tf32 */
    HAS_LINE(text, "64", "JAX", "tf32", "35.0", "17.5", "7.00");
    HAS_LINE(text, "256", "JAX", "fp32", "16.0", "-", "-"); /* nothing of ours, no floor */
    HAS_LINE(text, "fusion epoch, batch 256, fp32: it takes batches up to 64");
    HAS_LINE(text, "50,40", "64", "fusion step", "tf32", "8.00", "7.00", "9.00", "1.00", "50.00%");
    HAS_LINE(text, "50,40", "64", "JAX", "tf32", "12.0", "1.50", "-");
    HAS_LINE(text, "50,30", "64", "JAX", "tf32", "11.0", "-", "-"); /* nothing of ours */
    HAS_LINE(text, "PyTorch, hidden layers 50,30, batch 64, tf32: no time");
    HAS_LINE(text, "grid barrier", "1.12", "us");
    HAS_LINE(text, "forward", "3.00 us  75% x4.00", "9.00 us  50% x2.00");
    HAS_LINE(text, "starting", "400.0", "80.0%", "x5.00");
    HAS_LINE(text, "the whole process", "500.0");
    HAS_LINE(text, "parsing", "123.4");
    assert_int_equal(strstr(text, "## An epoch") != NULL, markdown);
    assert_int_equal(strstr(text, "| ---: |") != NULL, markdown);
  }
  close_record(&log);
}

/* Slowest first within a batch; a tf32 epoch is compared with ours at tf32 and at fp32, an fp32
   epoch with ours at fp32 alone. */
IN_FOLDER(test_order_and_precision) {
  char text[sizeof sample + 256];
  snprintf(text, sizeof text, "%s%s", sample,
           "{'case':'epoch','fusion':'epoch','batch':64,'precision':'tf32',"
           "'ms_per_epoch':3.5}\n");
  Record log = read_record(text);
  const char *table = print_log(&log, false);
  HAS_LINE(table, "JAX", "tf32", "35.0", "10.0");
  HAS_LINE(table, "64", "fusion step", "fp32", "20.0", "4.00");
  const char *jax = strstr(table, "JAX                "), *step = strstr(table, "fusion step"),
             *epoch = strstr(table, "fusion epoch (auto)");
  assert_true(jax && step && epoch && jax < step && step < epoch);
  close_record(&log);
}

IN_FOLDER(test_nothing_measured) {
  Record log = {.lines = NULL};
  assert_non_null(print_log(&log, false));
  assert_false(bench_plot(&log, path, &error));
  assert_non_null(strstr(error.text, "no epoch was measured"));
}

IN_FOLDER(test_plot) {
  static const unsigned char signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  Record log = read_record(sample);
  assert_true(bench_plot(&log, path, &error));
  unsigned char head[24] = {0};
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fread(head, 1, sizeof head, file), sizeof head);
  fclose(file);
  assert_memory_equal(head, signature, 8);
  assert_int_equal(head[22] * 256 + head[23], 112 + 4 * 36 + 74); /* the bars of batch 64 alone */
  assert_false(bench_plot(&log, "/no/such/folder/x.png", &error));
  close_record(&log);
}

/* ---- the cuBLAS level ----------------------------------------------------------------------- */

#ifdef HAVE_CUDA

enum { ROWS = 330, BATCH = 32, INPUTS = 50, CLASSES = 10 };

/* Uploads the same random rows to any engine. */
static void fill(Engine *engine) {
  for (int buffer = 0; buffer < 2; buffer++) {
    StagingBuffer to;
    const uint64_t first = buffer ? (uint64_t)engine->config.staging_rows : 0;
    const uint64_t rows = buffer ? ROWS - first : first + engine->config.staging_rows;
    assert_true(engine->call->staging(engine, buffer, &to, &error));
    reference_fill_pixels(to.pixels, rows * to.stride, (uint64_t)buffer);
    reference_fill_labels(to.labels, rows, CLASSES, (uint64_t)buffer + 2);
    assert_true(engine->call->upload(engine, buffer, first, rows, &error));
  }
}

/* Two epochs, one after the other in the file's order and shuffled, in two ranges each. */
static EngineSums train(Engine *engine) {
  EngineSums sums;
  for (uint64_t epoch = 0; epoch < 2; epoch++) {
    TrainRange range = {.rows = ROWS,
                        .shuffled = epoch > 0,
                        .key = random_order_key(5, epoch),
                        .steps = 4,
                        .learning_rate = 0.05f};
    assert_true(engine->call->train(engine, &range, &error));
    range.first_step = 4;
    range.steps = (ROWS + BATCH - 1) / BATCH - 4;
    assert_true(engine->call->train(engine, &range, &error));
  }
  assert_true(engine->call->collect(engine, &sums, &error));
  assert_int_equal(sums.rows, 2 * ROWS);
  return sums;
}

TEST(test_cublas_level) {
  needs_gpu();
  const EngineConfig config = {
      .network = network_of(INPUTS, 33, 20, CLASSES),
      .training = {.batch = BATCH, .seed = 3, .rule.momentum = 0.9f, .threads = 2},
      .dataset_rows = ROWS,
      .staging_rows = 6 * BATCH};
  Engine *engine[2] = {engine_cpu_open(&config, &error), bench_cublas_open(&config, &error)};
  assert_non_null(engine[0]);
  if (!engine[1]) fail_msg("%s", error.text);
  EngineSums trained[2], tested[2];
  float *parameters[2], *momentum[2];
  for (int i = 0; i < 2; i++) {
    fill(engine[i]);
    trained[i] = train(engine[i]);
    assert_true(engine[i]->call->evaluate(engine[i], 7, ROWS - 7, &error));
    assert_true(engine[i]->call->collect(engine[i], &tested[i], &error));
    parameters[i] = malloc(config.network.floats * sizeof(float));
    momentum[i] = malloc(config.network.floats * sizeof(float));
    assert_true(engine[i]->call->read(engine[i], parameters[i], momentum[i], &error));
  }
  assert_true(fabs(trained[1].loss - trained[0].loss) < 1e-4 * trained[0].loss);
  assert_true(fabs(tested[1].loss - tested[0].loss) < 1e-4 * tested[0].loss);
  assert_int_equal(tested[1].rows, ROWS - 7);
  for (size_t i = 0; i < config.network.floats; i++)
    if (!(fabs((double)(parameters[1][i] - parameters[0][i])) < 1e-4 &&
          fabs((double)(momentum[1][i] - momentum[0][i])) < 1e-3))
      fail_msg("parameter %zu is %g, on the CPU %g", i, (double)parameters[1][i],
               (double)parameters[0][i]);
  assert_true(engine[1]->call->write(engine[1], parameters[0], momentum[0], &error));
  assert_true(engine[1]->call->read(engine[1], parameters[1], NULL, &error));
  assert_memory_equal(parameters[0], parameters[1], config.network.floats * sizeof(float));
  for (int i = 0; i < 2; i++) {
    engine[i]->call->close(engine[i]);
    free(parameters[i]);
    free(momentum[i]);
  }
}

#endif
