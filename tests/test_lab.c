/* The kernel lab without a GPU: its topics' tables, and the parts of mlp-lab on arrays made up
   here. Without nvcc the tables are those of the emulator. Reports are in test_lab_report.c, and
   rungs run in test_lab_rungs.c, on a GPU or on the emulator. */
#include "support/cuda_only.h"

#include <ctype.h>

#include "support/copies.h"

static bool is_word(const char *name) {
  const size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_");
  return islower((unsigned char)*name) && !name[length] && length <= 24;
}

static bool is_in(const char *name, const char *const *names) {
  for (; *names; names++)
    if (strcmp(*names, name) == 0) return true;
  return false;
}

static bool is_sentence(const char *text) {
  return text && *text && text[strlen(text) - 1] != '.' && !strstr(text, ". ") &&
         !strchr(text, '\n');
}

/* What must be true of the topic t, and of what is called `part` in it. */
#define RULE(part, rule)                                                                           \
  if (!(rule)) fail_msg("%s: of '%s' it is not true that %s", t->name, part, #rule)

static void check_rung(const LabTopic *t, const LabRung *rung) {
  const int64_t *points = rung->points;
  RULE(rung->name, is_word(rung->name) && is_sentence(rung->lesson) && rung->launch);
  for (const LabRung *other = t->rungs; other < rung; other++)
    RULE(rung->name, strcmp(other->name, rung->name) != 0);
  RULE(rung->name, !points || (rung->point_count > 0 && t->point_name));
  for (int i = 1; points && i < rung->point_count; i++) RULE(rung->name, points[i] > points[i - 1]);
  RULE(rung->name, !rung->pageable || t->on_host);
  RULE(rung->name, !rung->predicted || t->predicted_name);
}

static void check_problem(const LabTopic *t, int problem) {
  const LabProblem *p = &t->problems[problem];
  RULE(p->name, is_word(p->name) || (t->problem_count == 1 && !*p->name));
  for (int i = 0; i < problem; i++) RULE(p->name, strcmp(t->problems[i].name, p->name) != 0);
  RULE(p->name, p->out != LAB_NOTHING);
  for (int i = 0; i < LAB_SIZES && t->sizes[i].dim[0]; i++) {
    const LabSize size = t->sizes[i];
    RULE(lab_size_text(t, size).text, !t->refuse || !t->refuse(problem, size));
    RULE(p->name, lab_bytes(t, problem, size) > 0 && lab_count(t, problem, size, -1) > 0);
    RULE(p->name, p->operations(size) >= (t->unit == LAB_GFLOP_PER_S));
  }
}

static void check_topic(const LabTopic *t) {
  int rows = 0;
  RULE("name", is_word(t->name) && lab_find(t->name) == t);
  RULE("name", !is_in(t->name, (const char *const[]){"all", "list", "device", NULL}));
  RULE("title", is_sentence(t->title));
  RULE("dims", lab_dims(t) >= 1 && lab_dims(t) <= LAB_DIMS);
  for (int d = 0; d < LAB_DIMS; d++) {
    RULE("dims", t->sizes[0].dim[d] >= 1 && t->tested.dim[d] >= 1);
    RULE("dims", d < lab_dims(t) || (t->sizes[0].dim[d] == 1 && t->tested.dim[d] == 1));
  }
  RULE("names", !t->metric == !t->metric_name && !t->measured == !t->measured_name);
  RULE("counts", t->problem_count > 0 && t->problem_count <= LAB_PROBLEMS && t->rung_count > 0);
  for (int i = 0; i < t->problem_count; i++) check_problem(t, i);
  for (int i = 0; i < t->rung_count; i++) {
    check_rung(t, &t->rungs[i]);
    rows += t->rungs[i].points ? t->rungs[i].point_count : 1;
  }
  RULE("counts", rows <= LAB_ROWS);
}

TEST(test_tables) {
  int count = 0;
  for (const LabTopic *const *t = lab_topics; *t; t++, count++)
    if ((*t)->rung_count > 0) check_topic(*t); /* the emulator has two without rungs */
  assert_int_equal(count, 12);
  assert_null(lab_find("nonsense"));
}

TEST(test_fill) {
  enum { COUNT = 100003 };
  float *values = allocate(COUNT, sizeof(float)), *again = allocate(COUNT, sizeof(float));
  double sum = 0, squares = 0, largest = 0;
  lab_fill(LAB_FLOAT32, values, COUNT, 5);
  for (int i = 0; i < COUNT; i++) {
    const double value = (double)values[i] / (i % 61 == 0 ? 100 : 1);
    assert_true(fabs(value) <= 3);
    if (i % 61) assert_true(value * 0x1p20 == floor(value * 0x1p20));
    largest = fmax(largest, fabs((double)values[i]));
    sum += value;
    squares += value * value;
  }
  assert_true(largest > 200);
  assert_close(sum / COUNT, 0, 0.02);
  assert_close(squares / COUNT, 1, 0.02);
  lab_fill(LAB_FLOAT32, again, 1001, 5);
  assert_memory_equal(again, values, sizeof(float) * 1001);
  lab_fill(LAB_FLOAT32, again, COUNT, 6);
  assert_true(again[1] != values[1] || again[2] != values[2]);

  uint32_t all = 0, every = UINT32_MAX, *words = (uint32_t *)(void *)values;
  lab_fill(LAB_INT32, words, 1003, 5);
  for (int i = 0; i < 1003; i++) all |= words[i], every &= words[i];
  assert_int_equal(all, UINT32_MAX);
  assert_int_equal(every, 0);

  /* As floats whose lower half is 0, rounded to the nearest. */
  uint16_t *rounded = (uint16_t *)(void *)again;
  lab_fill(LAB_FLOAT32, values, 1003, 5);
  lab_fill(LAB_BFLOAT16, rounded, 1003, 5);
  for (int i = 0; i < 1003; i++) {
    const uint32_t bits = (uint32_t)rounded[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    assert_close(value, values[i], 0x1p-8 * fabs((double)value));
  }
}

static double many(LabSize size) {
  return 1e6 * few(size);
}

static const LabProblem copies[] = {COPY("exact", few), COPY("sampled", many)};

static const LabRung plain[] = {{"plain", "a lesson", .launch = NULL}};

static const LabTopic copy_topic = {"copies", "copies of a plane", COPIES(copies, plain),
                                    .sizes = {{{100, 10, 1}}}, .tested = {{1, 1, 1}}};

TEST(test_sizes) {
  LabSize size;
  assert_int_equal(lab_dims(&copy_topic), 2);
  assert_true(lab_parse_size(&copy_topic, "4096x37", &size, &error));
  assert_true(size.dim[0] == 4096 && size.dim[1] == 37 && size.dim[2] == 1);
  assert_string_equal(lab_size_text(&copy_topic, size).text, "4096x37");
  foreach (text, TEXTS("", "5", "5x", "5x6x7", "x6", "0x6", "5x0", "-5x6", "5 x6", "5x6 ", "5y6",
                       "axb", "5x-1", "99999999999999999999x1", "1048577x1048577"))
    FAILS(lab_parse_size(&copy_topic, *text, &size, &error), "--size");
  assert_true(lab_parse_size(&copy_topic, "1048576x1048576", &size, &error));
}

/* ---- checking ------------------------------------------------------------------------------- */

enum { ROWS = 700, COLUMNS = 211, COUNT = ROWS * COLUMNS };
static const LabSize SIZE = {{ROWS, COLUMNS, 1}};

static float input[COUNT], output[COUNT];

static FIXTURE(make_input) {
  lab_fill(LAB_FLOAT32, input, COUNT, 1);
  return 0;
}

static LabArrays expect(int problem, LabSize size) {
  LabArrays arrays = {
      &copy_topic, {.problem = problem, .size = size}, .h_in = {input}, .h_out = output};
  OK(lab_expect(&arrays, &error));
  return arrays;
}

/* Forgotten at the end of its block. */
#define ARRAYS __attribute__((cleanup(forget))) LabArrays

static void forget(LabArrays *arrays) {
  free(arrays->expected);
  free(arrays->allowed);
}

/* The verdict on the input itself with elements [first, first + count) set to `value`. */
static LabVerdict verdict_on(const LabArrays *arrays, const LabRung *rung, int64_t first,
                             int64_t count, float value) {
  memcpy(output, input, sizeof input);
  for (int64_t i = 0; i < count; i++) output[first + i] = value;
  return lab_check(arrays, rung);
}

TEST_WITH(test_wrong_elements_are_found, make_input, NULL) {
  ARRAYS whole = expect(0, SIZE), sampled = expect(1, SIZE), one = expect(1, (LabSize){{1, 1, 1}});
  assert_true(whole.ranges > 1); /* or only one thread would look */
  assert_true(verdict_on(&whole, plain, 0, 0, 0).right);
  assert_true(verdict_on(&sampled, plain, 0, 0, 0).right);
  static const int64_t at[] = {0, 1, 65535, 65536, 65537, 131071, COUNT - 1};
  foreach (i, at) {
    const LabVerdict v = verdict_on(&whole, plain, *i, COUNT - *i, 12345);
    assert_true(!v.right && v.index == *i);
    assert_true(v.got == 12345 && v.expected == (double)input[*i]);
    assert_false(verdict_on(&whole, plain, *i, 1, NAN).right); /* never written */
  }
  assert_false(verdict_on(&sampled, plain, 0, 1, 1e9f).right);
  assert_int_equal(verdict_on(&sampled, plain, COUNT - 1, 1, 1e9f).index, COUNT - 1);
  assert_false(verdict_on(&sampled, plain, 1000, 50000, NAN).right);
  assert_true(sampled.ranges * sampled.length < COUNT / 10);
  assert_true(verdict_on(&one, plain, 1, COUNT - 1, NAN).right); /* one element is looked at */
  assert_false(verdict_on(&one, plain, 0, 1, NAN).right);
}

static void allow_two(const LabRange *range) {
  for (int64_t i = 0; i < range->count; i++) range->allowed[i] = 2;
}

TEST_WITH(test_bounds, make_input, NULL) {
  const LabRung loose = {.name = "loose", .allowed = allow_two};
  ARRAYS arrays = expect(0, SIZE);
  const int64_t last = COUNT - 1;
  const float near = nextafterf(input[last], INFINITY);
  const LabVerdict v = verdict_on(&arrays, plain, last, 1, near);
  assert_false(v.right);
  assert_true(v.ulp == 1);
  assert_true(verdict_on(&arrays, &loose, last, 1, near).right);
  assert_true(verdict_on(&arrays, &loose, last, 1, input[last] + 1.9f).right);
  assert_false(verdict_on(&arrays, &loose, last, 1, input[last] + 2.1f).right);
  assert_false(verdict_on(&arrays, &loose, last, 1, NAN).right);
  assert_false(verdict_on(&arrays, &loose, last, 1, INFINITY).right);
  forget(&arrays);

  const float kept = input[3]; /* what must not be a number may be no number alone */
  input[3] = NAN;
  input[4] = INFINITY;
  arrays = expect(0, SIZE);
  assert_true(verdict_on(&arrays, plain, 0, 0, 0).right);
  assert_int_equal(verdict_on(&arrays, plain, 3, 1, 0).index, 3);
  assert_int_equal(verdict_on(&arrays, plain, 4, 1, -INFINITY).index, 4);
  input[3] = input[4] = kept;
}

/* ---- GPUs that are not here ------------------------------------------------------------------ */

#define GPU(capability, multiprocessors, kilobytes)                                                \
  { capability, multiprocessors, (kilobytes) << 10, WIDE_NEVER, WIDE_BY_NOTHING, 0 }

/* At the size of its ladder a rung that serves an H100 is refused, with the reason, on a GPU that
   lacks what it needs, and on no other. */
TEST(test_rungs_on_other_gpus) {
  static const struct {
    GpuLimits gpu;
    const char *refused[8];
    bool hopper; /* what takes instructions of compute capability 9.0 is refused, too */
  } cases[] = {
      {GPU(75, 40, 64),
       {"sorted-ranges", "asynchronous", "async-copies", "tensor-cores", "stages", "cublas-bf16",
        "cublas-tf32"},
       true},
      {GPU(75, 132, 227), /* code for 7.5 on an H100 */
       {"asynchronous", "async-copies", "tensor-cores", "stages", "cublas-bf16", "cublas-tf32"},
       true},
      {GPU(86, 28, 99), {NULL}, true},
      {GPU(80, 108, 163), {NULL}, true},
      {GPU(90, 132, 227), {NULL}, false},
      {GPU(120, 170, 99), {NULL}, true},
  };
  static const char *const hopper[9] = {"tma",      "wgmma",     "specialised", "clusters",
                                        "one-term", "two-terms", "no-wait",     "no-swizzle"};
  static const GpuLimits h100 = GPU(90, 132, 227);
  foreach (c, cases)
    for (const LabTopic *const *t = lab_topics; *t; t++)
      for (int r = 0; r < (*t)->rung_count; r++) {
        const LabRung *rung = &(*t)->rungs[r];
        const LabCall call = {.size = (*t)->sizes[0], .gpu = &c->gpu},
                      there = {.size = (*t)->sizes[0], .gpu = &h100};
        if (*lab_refusal(rung, &there).text) continue;
        const ShortText note = lab_refusal(rung, &call);
        const bool refused =
            is_in(rung->name, c->refused) || (c->hopper && is_in(rung->name, hopper));
        if ((*note.text != '\0') != refused)
          fail_msg("%s: %s with %d: '%s'", (*t)->name, rung->name, c->gpu.capability, note.text);
      }
}

/* 65536 bins of 4 bytes, or of 2, need more shared memory than small GPUs have. */
TEST(test_refused_for_shared_memory) {
  const LabSize many = {{1 << 20, 65536, 1}};
  const LabRung *wide = lab_histogram.rungs;
  while (strcmp(wide->name, "wide-loads") != 0) wide++;
  const GpuLimits h100 = GPU(90, 132, 227), ada = GPU(89, 128, 99);
  const LabCall on_h100 = {.size = many, .gpu = &h100}, on_ada = {.size = many, .gpu = &ada};
  assert_string_equal(lab_refusal(wide, &on_h100).text, "");
  assert_in(lab_refusal(wide, &on_ada).text, "do not fit into shared memory");
  const LabRung newer = {.name = "newer", .capability = 90};
  assert_string_equal(lab_refusal(&newer, &on_ada).text,
                      "it needs compute capability 9.0, this GPU or the code for it has 8.9");
}

TEST(test_refused_without_a_second_gpu) {
  static const GpuLimits h100 = GPU(90, 132, 227);
  const LabCall call = {.size = lab_reduce.sizes[0], .gpu = &h100};
  const LabRung *two = lab_reduce.rungs;
  int count = 0;
  while (strcmp(two->name, "two-gpus") != 0) two++;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2)
    assert_string_equal(lab_refusal(two, &call).text,
                        "it needs two GPUs, one of which reads the other's memory");
}

#if !ON_EMULATOR

/* The figures of the occupancy calculator for compute capability 9.0. */
TEST(test_limits) {
  const struct cudaDeviceProp hopper = {.maxThreadsPerMultiProcessor = 2048,
                                        .maxBlocksPerMultiProcessor = 32,
                                        .regsPerMultiprocessor = 65536,
                                        .sharedMemPerMultiprocessor = 233472,
                                        .reservedSharedMemPerBlock = 1024};
  const struct {
    int threads, registers;
    size_t shared;
    const char *limit;
  } cases[] = {{1024, 32, 0, "threads"},   {1024, 33, 0, "registers"}, {256, 40, 0, "registers"},
               {256, 32, 0, "threads"},    {32, 32, 0, "blocks"},      {64, 16, 0, "threads"},
               {128, 16, 65536, "shared"}, {100, 32, 0, "threads"},    {256, 64, 200000, "shared"}};
  foreach (c, cases) {
    const LabOccupancy kernel = {
        .threads = c->threads, .registers = c->registers, .shared = c->shared};
    assert_string_equal(lab_limit(&hopper, &kernel), c->limit);
  }
}

#endif
