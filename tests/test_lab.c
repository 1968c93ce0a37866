/* Compares every rung of the kernel lab with its reference. The harness must find rungs that are
   wrong on purpose. TEST_QUICK, for compute-sanitizer, makes sizes small and omits guard zones. */
#include "support/cuda_only.h"

#include "base/random.h"
#include "engine/cuda/gpu_limits.h"
#include "lab/harness.h"

/* Checks a rule for topic t. The error message names `part`, the checked part of t. */
#define RULE(part, rule)                                                                           \
  if (!(rule)) fail_msg("%s: of '%s' it is not true that %s", t->name, part, #rule)

TEST(test_tables) {
  for (const LabTopic *const *topic = lab_topics; *topic; topic++) {
    const LabTopic *t = *topic;
    RULE("name", lab_find(t->name) == t);
    for (int d = lab_dims(t); d < LAB_DIMS; d++)
      RULE("dims", t->sizes[0].dim[d] == 1 && t->tested.dim[d] == 1);
    for (int p = 0; p < t->problem_count; p++)
      for (int i = 0; i < LAB_SIZES && t->sizes[i].dim[0]; i++)
        RULE(t->problems[p].name, !t->refuse || !t->refuse(p, t->sizes[i]));
    foreach_rung (rung, t) {
      RULE(rung->name, rung->lesson[strlen(rung->lesson) - 1] != '.');
      RULE(rung->name, !rung->points || (rung->point_count > 0 && t->point_name));
      RULE(rung->name, !rung->predicted || t->predicted_name);
      for (const LabRung *other = t->rungs; other < rung; other++)
        RULE(rung->name, strcmp(other->name, rung->name) != 0);
    }
  }
}

TEST(test_fill) {
  enum { COUNT = 100003 };
  float *values = allocate(COUNT, sizeof(float));
  uint16_t *rounded = allocate(COUNT, sizeof(uint16_t));
  double sum = 0, squares = 0;
  lab_fill(LAB_FLOAT32, values, COUNT, 5);
  lab_fill(LAB_BFLOAT16, rounded, COUNT, 5); /* a bfloat16 is the upper half of a float */
  for (int i = 0; i < COUNT; i++) {
    const double value = (double)values[i] / (i % 61 == 0 ? 100 : 1);
    const uint32_t bits = (uint32_t)rounded[i] << 16;
    float near;
    memcpy(&near, &bits, sizeof near);
    assert_close(near, values[i], 0x1p-8 * fabs((double)near));
    assert_true(fabs(value) <= 3);
    sum += value;
    squares += value * value;
  }
  assert_close(sum / COUNT, 0, 0.02);
  assert_close(squares / COUNT, 1, 0.02);
}

static double plane(LabSize size) {
  return (double)(size.dim[0] * size.dim[1]);
}

/* A reference whose expected output is the input. */
static void the_input(const LabRange *range) {
  const float *input = (const float *)range->h_in[0] + range->first;
  for (int64_t i = 0; i < range->count; i++) {
    range->expected[i] = (double)input[i];
    range->allowed[i] = 0;
  }
}

static const LabProblem copies[] = {
    {"", {LAB_FLOAT32}, LAB_FLOAT32, plane, the_input, .fill = NULL}};

static LabTopic topic_of(const LabRung *rungs, int count) {
  return (LabTopic){
      "copies", "copies of a plane",      "rows x columns", LAB_GB_PER_S, copies, 1, rungs,
      count,    .sizes = {{{100, 10, 1}}}};
}

/* The values of a multiprocessor of an H100, and what CUDA's occupancy calculator says of it. */
TEST(test_occupancy) {
  const LabRoom has = {.threads = 2048, .registers = 65536, .shared = 228 << 10, .blocks = 32};
  static const struct {
    LabRoom takes;
    int blocks;
    double percent;
    const char *limit;
  } cases[] = {{{256, 24, 1024, 1}, 8, 100, "threads"},
               {{256, 32, 1024, 1}, 8, 100, "threads, registers"},
               {{256, 33, 1024, 1}, 6, 75, "registers"},      /* 1280 a warp, 48 warps */
               {{256, 255, 1024, 1}, 1, 12.5, "registers"},   /* 8192 a warp, 8 warps */
               {{128, 16, 49152 + 1024, 1}, 4, 25, "shared"}, /* 4 times 49 KB are 196 KB */
               {{32, 16, 1024, 1}, 32, 50, "blocks"},
               {{1024, 64, 1024, 1}, 1, 50, "registers"},
               {{700, 16, 1024, 1}, 2, 68.75, "threads"}}; /* 22 warps, the last not whole */
  for (size_t i = 0; i < LENGTH(cases); i++) {
    const LabRoom fits = lab_fitting(&has, &cases[i].takes);
    const int blocks =
        (int)fmin(fmin(fits.threads, fits.registers), fmin(fits.shared, fits.blocks));
    assert_int_equal(blocks, cases[i].blocks);
    assert_close(lab_occupancy(&has, &cases[i].takes, blocks), cases[i].percent, 0);
    assert_string_equal(lab_limit(&has, &cases[i].takes).text, cases[i].limit);
  }
}

TEST(test_sizes) {
  const LabTopic copy_topic = topic_of(NULL, 0);
  LabSize size;
  assert_true(lab_parse_size(&copy_topic, "4096x37", &size, &error));
  assert_true(size.dim[0] == 4096 && size.dim[1] == 37 && size.dim[2] == 1);
  assert_string_equal(lab_size_text(&copy_topic, size).text, "4096x37");
  foreach (text, TEXTS("", "5", "5x", "5x6x7", "x6", "0x6", "5x0", "-5x6", "5 x6", "5x6 ", "5y6",
                       "axb", "5x-1", "99999999999999999999x1", "1048577x1048577"))
    FAILS(lab_parse_size(&copy_topic, *text, &size, &error), "--size");
  assert_true(lab_parse_size(&copy_topic, "1048576x1048576", &size, &error));
}

static const GpuLimits h100 = {.capability = 90, .multiprocessors = 132, .shared_bytes = 227 << 10};

/* On the emulator, returns true for the kinds of rungs that it cannot run. */
static bool is_absent(const LabRung *rung) {
  return ON_EMULATOR && (rung->kind == LAB_LIBRARY || rung->kind == LAB_PART);
}

static void needs_device(void) {
  if (!ON_EMULATOR) needs_gpu();
}

/* Returns the table that lab_measure fills. lab_measure must succeed. */
static json_t *measure(const LabTopic *topic, int problem, LabSize size, LabHow how) {
  json_t *table = lab_table(topic, problem, size);
  if (!lab_measure(table, topic, problem, size, &how, &error)) fail_msg("%s", error.text);
  return table;
}

static size_t bytes_of(const LabCall *call) {
  return (size_t)(sizeof(float) * plane(call->size));
}

static cudaError_t copy_right(const LabCall *call) {
  return cudaMemcpyAsync(call->d_out, call->d_in[0], bytes_of(call), cudaMemcpyDefault,
                         call->stream);
}

static cudaError_t unwritten_last(const LabCall *call) {
  return cudaMemcpyAsync(call->d_out, call->d_in[0], bytes_of(call) - sizeof(float),
                         cudaMemcpyDefault, call->stream);
}

/* Writes the right output. Then changes the byte at `place` of an array. */
static cudaError_t change(const LabCall *call, const void *array, int64_t place) {
  const cudaError_t status = copy_right(call);
  char *at = (char *)array + place; /* changes a const input on purpose */
  return status == cudaSuccess ? cudaMemsetAsync(at, 0x42, 1, call->stream) : status;
}

#define CHANGES(name, array, place)                                                                \
  static cudaError_t name(const LabCall *call) {                                                   \
    return change(call, call->array, place);                                                       \
  }
CHANGES(wrong_last, d_out, 3999)
CHANGES(write_behind, d_out, 4000)
CHANGES(write_before, d_out, -1)
CHANGES(write_behind_work, d_work, 1000)
CHANGES(change_input, d_in[0], 1)

static cudaError_t fail_to_launch(const LabCall *call) {
  (void)call;
  return cudaErrorInvalidConfiguration;
}

static size_t thousand(const LabCall *call) {
  (void)call;
  return 1000;
}

static const char *refuse_all(const LabCall *call) {
  (void)call;
  return "it serves nobody";
}

static void allow_all(const LabRange *range) {
  for (int64_t i = 0; i < range->count; i++) range->allowed[i] = INFINITY;
}

#define TRICK(name, launch, outcome, note, ...)                                                    \
  { {name, "", launch, NULL, __VA_ARGS__}, outcome, note }
static const struct {
  LabRung rung;
  const char *outcome, *note;
} tricks[] = {TRICK("right", copy_right, "", "", .kind = LAB_RUNG),
              TRICK("wrong", wrong_last, LAB_WRONG, "element 999 is ", .kind = LAB_RUNG),
              TRICK("loose", wrong_last, "", "", .allowed = allow_all),
              TRICK("unwritten", unwritten_last, LAB_WRONG, "element 999 is ", .kind = LAB_RUNG),
              TRICK("behind", write_behind, LAB_WRONG, "outside of the output", .kind = LAB_RUNG),
              TRICK("before", write_before, LAB_WRONG, "outside of the output", .kind = LAB_RUNG),
              TRICK("work", write_behind_work, LAB_WRONG, "outside of its work", .work = thousand),
              TRICK("fails", fail_to_launch, LAB_WRONG, "its launch failed", .kind = LAB_RUNG),
              TRICK("refuses", copy_right, LAB_REFUSED, "it serves nobody", .refuse = refuse_all),
              TRICK("part", unwritten_last, LAB_UNCHECKED, "", .kind = LAB_PART),
              TRICK("library", copy_right, "", "", .kind = LAB_LIBRARY),
              /* This rung must come last, since it makes the results of later rungs wrong. */
              TRICK("input", change_input, LAB_WRONG, "it changed an input", .kind = LAB_RUNG)};
enum { TRICKS = LENGTH(tricks) };

TEST(test_harness_catches) {
  needs_device();
  LabRung rungs[TRICKS];
  for (int i = 0; i < TRICKS; i++) rungs[i] = tricks[i].rung;
  const LabTopic topic = topic_of(rungs, TRICKS);
  const LabHow how = {.times = true, .guarded = true, .seed = 1};
  json_t *table = measure(&topic, 0, topic.sizes[0], how);
  for (size_t i = 0; i < TRICKS; i++) {
    const json_t *row = json_array_get(json_object_get(table, "rows"), i);
    if (is_absent(&rungs[i])) continue;
    if (!text_is(row, "check", tricks[i].outcome) || !strstr(text_of(row, "note"), tricks[i].note))
      fail_msg("%s: '%s', '%s'", rungs[i].name, text_of(row, "check"), text_of(row, "note"));
    const bool is_timed = !ON_EMULATOR && (text_is(row, "check", "") || text_is(row, "check", "-"));
    assert_true(isfinite(number_of(row, "ms")) == is_timed);
  }
  assert_false(lab_table_good(table));

  const LabSize huge = {{1 << 20, 1 << 20, 1}}; /* 8 TB */
  table = measure(&topic, 0, huge, how);
  assert_in(text_of(table, "reason"), "give a smaller --size");
}

static const char *refuse_large(const LabCall *call) {
  return plane(call->size) > 500 ? "it would take minutes" : NULL;
}

static const char *refuse_small(const LabCall *call) {
  return plane(call->size) < 500 ? "it has nothing to divide" : NULL;
}

TEST(test_rungs_of_other_sizes) {
  needs_device();
  const LabRung rungs[] = {{"always", "", copy_right, NULL, .all_sizes = true},
                           {"slow", "", copy_right, NULL, .refuse = refuse_large},
                           {"first", "", copy_right, NULL, .kind = LAB_RUNG},
                           {"last", "", copy_right, NULL, .kind = LAB_RUNG},
                           {"large", "", copy_right, NULL, .refuse = refuse_small},
                           {"library", "", copy_right, NULL, .kind = LAB_LIBRARY}};
  const LabTopic topic = topic_of(rungs, LENGTH(rungs)); /* its first size is 100 x 10 */
  static const struct {
    LabSize size;
    const char *rows[6];
  } cases[] = {{{{10, 10, 1}}, {"always", "slow", "last", "library"}},
               {{{200, 10, 1}}, {"always", "large", "library"}}};
  for (size_t i = 0; i < LENGTH(cases); i++) {
    json_t *table = measure(&topic, 0, cases[i].size, (LabHow){.last = true, .seed = 1});
    const json_t *rows = json_object_get(table, "rows");
    size_t count = 0;
    for (; cases[i].rows[count]; count++)
      assert_string_equal(text_of(json_array_get(rows, count), "rung"), cases[i].rows[count]);
    assert_int_equal(json_array_size(rows), count);
    json_decref(table);
  }
}

static const int64_t edges[] = {1,   2,   3,   7,   31,  32,   33,   61,   64,   127,
                                128, 129, 255, 257, 997, 1023, 1024, 1025, 4099, 65537};
enum { EDGES = LENGTH(edges), SIZES = EDGES + 1 + 12 };

static int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Returns size `index`. Edge cases come first, then the largest size, then random sizes. */
static LabSize size_to_test(const LabTopic *topic, int index) {
  static const int factor[LAB_DIMS] = {1, 7, 11}; /* coprime to EDGES, so all edges occur */
  LabSize size;
  for (int d = 0; d < LAB_DIMS; d++) {
    const int64_t most = smaller(topic->tested.dim[d], !quick()              ? INT64_MAX
                                                       : lab_dims(topic) > 1 ? 130
                                                                             : 5000);
    const float random = random_unit(random_words((uint64_t)index, 2, (uint64_t)d).word[0]);
    size.dim[d] = smaller(most, index < EDGES    ? edges[index * factor[d] % EDGES]
                                : index == EDGES ? most
                                                 : (int64_t)exp(random * log((double)most + 1)));
  }
  return size;
}

/* Returns a small size that blocks divide. Some rungs refuse all others, and the few sizes of
   TEST_QUICK may all be such. */
static LabSize even_size(const LabTopic *topic) {
  LabSize size;
  for (int d = 0; d < LAB_DIMS; d++)
    size.dim[d] = smaller(topic->tested.dim[d], lab_dims(topic) > 1 ? 128 : 1024);
  return size;
}

/* Checks all rungs at a size, or at the next size that the topic accepts. Adds 1 to right[i] if
   rung i did not refuse the size. */
static void check_size(const LabTopic *topic, int problem, LabSize size, uint64_t seed,
                       int *right) {
  for (int d = lab_dims(topic) - 1; d >= 0 && topic->refuse && topic->refuse(problem, size); d--)
    size.dim[d] += (8 - size.dim[d] % 8) % 8;
  json_t *table = measure(topic, problem, size, (LabHow){.guarded = !quick(), .seed = seed});
  const json_t *row;
  size_t i;
  json_array_foreach (json_object_get(table, "rows"), i, row) {
    if (text_is(row, "check", LAB_WRONG))
      fail_msg("%s %s at %s, rung %s, point %g: %s", topic->name, topic->problems[problem].name,
               text_of(table, "size"), text_of(row, "rung"), number_of(row, "point"),
               text_of(row, "note"));
    for (int r = 0; r < topic->rung_count; r++)
      if (text_is(row, "rung", topic->rungs[r].name))
        right[r] += !text_is(row, "check", LAB_REFUSED);
  }
  json_decref(table);
}

/* A rung may refuse all sizes only if the GPU or the build is too old, or a library is missing. */
static void check_refused(const LabTopic *topic, const LabRung *rung) {
  GpuLimits gpu;
  OK(gpu_limits_read(&gpu, &error));
  LabCall call = {.size = topic->tested, .gpu = &gpu};
  const ShortText here = lab_refusal(rung, &call);
  call.gpu = &h100;
  const ShortText there = lab_refusal(rung, &call);
  const bool is_older = gpu.capability < rung->capability;
  if (!*here.text || (!is_older && *there.text && rung->kind != LAB_LIBRARY))
    fail_msg("%s: %s refused everything: %s", topic->name, rung->name, here.text);
  print_message("%s: %s is left out: %s\n", topic->name, rung->name, here.text);
}

TEST(test_every_rung) {
  needs_device();
  for (const LabTopic *const *topic = lab_topics; *topic; topic++) {
    const LabTopic *t = *topic;
    int right[64] = {0};
    for (int p = 0; p < t->problem_count; p++)
      for (int i = 0; i < SIZES; i += ON_EMULATOR ? SIZES / 2 : quick() ? SIZES / 5 : 1)
        check_size(t, p, size_to_test(t, i), (uint64_t)i + 1, right);
    for (int p = 0; p < t->problem_count && quick(); p++) check_size(t, p, even_size(t), 1, right);
    /* This size has more tiles than any GPU has multiprocessors, so blocks process several. */
    for (int p = 0; p < t->problem_count && t == &lab_matmul && !quick(); p++)
      check_size(t, p, (LabSize){{2049, 4361, 72}}, 1, right);
    for (int i = 0; i < t->rung_count; i++)
      if (right[i] == 0 && !is_absent(&t->rungs[i])) check_refused(t, &t->rungs[i]);
  }
}
