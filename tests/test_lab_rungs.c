/* The kernel lab on a GPU: every rung of every topic against its reference, and a topic of our own
   whose rungs are wrong in every way that the harness must catch.

   TEST_QUICK in the environment is for compute-sanitizer: fewer and smaller sizes, and no guard
   zones, for memcheck finds the first byte outside an allocation. */
#include "support/cuda_only.h"
#include "engine/cuda/gpu_limits.h"
#include "support/copies.h"
#include "base/random.h"

/* The emulator serves instead of a GPU, but for libraries and parts. */
static bool is_absent(const LabRung *rung) {
  return ON_EMULATOR && (rung->kind == LAB_LIBRARY || rung->kind == LAB_PART);
}

static void needs_device(void) {
  if (!ON_EMULATOR) needs_gpu();
}

/* Measures, or fails the test: lab_measure. */
static LabTable measure(const LabTopic *topic, int problem, LabSize size, LabHow how) {
  LabTable table = lab_table(topic, problem, size, false);
  if (!lab_measure(&table, &how, &error)) fail_msg("%s", error.text);
  return table;
}

/* ---- rungs that are wrong on purpose -------------------------------------------------------- */

static const LabProblem copies[] = {COPY("", few)};

static size_t bytes_of(const LabCall *call) {
  return sizeof(float) * (size_t)plane(call->size);
}

static cudaError_t copy_right(const LabCall *call) {
  return cudaMemcpyAsync(call->d_out, call->d_in[0], bytes_of(call), cudaMemcpyDefault,
                         call->stream);
}

static cudaError_t unwritten_last(const LabCall *call) {
  return cudaMemcpyAsync(call->d_out, call->d_in[0], bytes_of(call) - sizeof(float),
                         cudaMemcpyDefault, call->stream);
}

/* Copies, then changes a byte of an array, `place` from its start. */
static cudaError_t change(const LabCall *call, const void *array, int64_t place) {
  const cudaError_t status = copy_right(call);
  char *at = (char *)array + place; /* an input is const, with good reason */
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

#define TRICK(name, launch, outcome, note, ...)                                                    \
  { {name, "", launch, NULL, __VA_ARGS__}, outcome, note }
static const struct {
  LabRung rung;
  LabOutcome outcome;
  const char *note;
} tricks[] = {TRICK("right", copy_right, LAB_RIGHT, "", .kind = LAB_RUNG),
              TRICK("wrong", wrong_last, LAB_WRONG, "element 999 is ", .kind = LAB_RUNG),
              TRICK("unwritten", unwritten_last, LAB_WRONG, "element 999 is ", .kind = LAB_RUNG),
              TRICK("behind", write_behind, LAB_WRONG, "outside of the output", .kind = LAB_RUNG),
              TRICK("before", write_before, LAB_WRONG, "outside of the output", .kind = LAB_RUNG),
              TRICK("work", write_behind_work, LAB_WRONG, "outside of its work", .work = thousand),
              TRICK("fails", fail_to_launch, LAB_WRONG, "its launch failed", .kind = LAB_RUNG),
              TRICK("refuses", copy_right, LAB_REFUSED, "it serves nobody", .refuse = refuse_all),
              TRICK("part", unwritten_last, LAB_UNCHECKED, "", .kind = LAB_PART),
              TRICK("mistake", wrong_last, LAB_CAUGHT, "element 999 is ", .kind = LAB_MISTAKE),
              TRICK("no-mistake", copy_right, LAB_MISSED, "passed the check", .kind = LAB_MISTAKE),
              TRICK("library", copy_right, LAB_RIGHT, "", .kind = LAB_LIBRARY),
              /* Last: what follows would be wrong, too. */
              TRICK("input", change_input, LAB_WRONG, "it changed an input", .kind = LAB_RUNG)};
enum { TRICKS = LENGTH(tricks) };

TEST(test_harness_catches) {
  needs_device();
  LabRung rungs[TRICKS];
  for (int i = 0; i < TRICKS; i++) rungs[i] = tricks[i].rung;
  const LabTopic topic = {"tricks", "copies gone wrong", COPIES(copies, rungs),
                          .sizes = {{{100, 10, 1}}}};
  const LabHow how = {.mode = LAB_TIMES, .guarded = true, .seed = 1};
  LabTable table = measure(&topic, 0, topic.sizes[0], how);
  assert_int_equal(table.count, topic.rung_count);
  for (int i = 0; i < table.count; i++) {
    const LabRow *row = &table.rows[i];
    if (is_absent(row->rung)) continue;
    if (row->outcome != tricks[i].outcome || !strstr(row->note, tricks[i].note))
      fail_msg("%s: outcome %d, '%s'", row->rung->name, (int)row->outcome, row->note);
    const bool timed = !ON_EMULATOR && (row->outcome == LAB_RIGHT || row->outcome == LAB_UNCHECKED);
    assert_true(isfinite(row->seconds.median) == timed);
  }
  assert_false(lab_table_good(&table));

  const LabSize huge = {{1 << 20, 1 << 20, 1}}; /* 8 TB */
  table = measure(&topic, 0, huge, how);
  assert_in(table.reason, "give a smaller --size");
}

static const int64_t edges[] = {1,   2,   3,   7,   31,  32,   33,   61,   64,   127,
                                128, 129, 255, 257, 997, 1023, 1024, 1025, 4099, 65537};
enum { EDGES = LENGTH(edges), SIZES = EDGES + 1 + 12 };

static int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Size `index` of SIZES to be tested: the edges, in every dimension another one; the topic's
   largest; then random ones, as many small as large. */
static LabSize size_to_test(const LabTopic *topic, int index) {
  static const int factor[LAB_DIMS] = {1, 7, 11}; /* no divisors of EDGES: all edges come */
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

/* Checks all rungs at that size; *right: how often, of each. A size that the topic refuses becomes
   larger, from the last dimension on, until it is served: a multiple of 8, if that helps. */
static void check_size(const LabTopic *topic, int problem, LabSize size, uint64_t seed,
                       int *right) {
  for (int d = lab_dims(topic) - 1; d >= 0 && topic->refuse && topic->refuse(problem, size); d--)
    size.dim[d] += (8 - size.dim[d] % 8) % 8;
  const LabTable table = measure(topic, problem, size,
                                 (LabHow){.mode = LAB_CHECKS, .guarded = !quick(), .seed = seed});
  for (int i = 0; i < table.count; i++) {
    const LabRow *row = &table.rows[i];
    if (row->outcome == LAB_WRONG)
      fail_msg("%s %s at %s, rung %s, point %lld: %s", topic->name, topic->problems[problem].name,
               lab_size_text(topic, size).text, row->rung->name, (long long)row->point, row->note);
    right[row->rung - topic->rungs] += row->outcome == LAB_RIGHT || row->outcome == LAB_UNCHECKED;
  }
}

/* Mistakes are run at the size of the ladder alone: at length 1 there may be no wrong way. */
static LabTopic without_mistakes(const LabTopic *topic, LabRung *rungs) {
  LabTopic rest = *topic;
  rest.rungs = rungs;
  rest.rung_count = 0;
  for (int i = 0; i < topic->rung_count; i++)
    if (topic->rungs[i].kind != LAB_MISTAKE) rungs[rest.rung_count++] = topic->rungs[i];
  return rest;
}

/* A rung may refuse everything only if that is the fault of the GPU, or of the code for it: an H100
   would be served. A library may be missing, and so may a second GPU. */
static void check_refused(const LabTopic *topic, const LabRung *rung) {
  static const GpuLimits h100 = {90, 132, 227 << 10, WIDE_NEVER, WIDE_BY_NOTHING, 0};
  GpuLimits gpu;
  OK(gpu_limits_read(&gpu, &error));
  LabCall call = {.size = topic->tested, .gpu = &gpu};
  const ShortText here = lab_refusal(rung, &call);
  call.gpu = &h100;
  const ShortText there = lab_refusal(rung, &call);
  const bool is_older = gpu.capability < rung->capability;
  if (!*here.text || (!is_older && *there.text && rung->kind != LAB_LIBRARY &&
                      strcmp(rung->name, "two-gpus-resident") != 0))
    fail_msg("%s: %s refused everything: %s", topic->name, rung->name, here.text);
  print_message("%s: %s is left out: %s\n", topic->name, rung->name, here.text);
}

TEST(test_every_rung) {
  needs_device();
  for (const LabTopic *const *t = lab_topics; *t; t++) {
    LabRung rungs[64];
    int right[64] = {0};
    const LabTopic rest = without_mistakes(*t, rungs);
    for (int p = 0; p < rest.problem_count; p++)
      for (int i = 0; i < SIZES; i += ON_EMULATOR ? SIZES / 2 : quick() ? SIZES / 5 : 1)
        check_size(&rest, p, size_to_test(*t, i), (uint64_t)i + 1, right);
    /* Blocks that stay for more than one tile: more tiles than any GPU has multiprocessors. */
    for (int p = 0; p < rest.problem_count && *t == &lab_matmul && !quick(); p++)
      check_size(&rest, p, (LabSize){{2049, 4361, 72}}, 1, right);
    for (int i = 0; i < rest.rung_count; i++)
      if (right[i] == 0 && !is_absent(&rungs[i])) check_refused(*t, &rungs[i]);
  }
}

/* The largest error of a rung of matmul at one size, in units in the last place; -1 where the GPU
   cannot run it. */
static double largest_error(const char *rung, int problem) {
  const LabHow how = {.mode = LAB_CHECKS, .rung = rung, .seed = 3};
  const LabTable table = measure(&lab_matmul, problem, (LabSize){{257, 131, 200}}, how);
  assert_int_equal(table.count, 1);
  return table.rows[0].outcome == LAB_RIGHT ? table.rows[0].ulp : -1;
}

/* Three products of fp16 terms have few times the error of float32's own arithmetic, as tensor
   cores cut off where it rounds; one has hundreds of times. A bound for every order of additions
   tells less. */
TEST(test_two_terms_are_float32) {
  needs_gpu();
  const double plain = largest_error("warp-tiles", 0);
  const double two = largest_error("two-terms", 0), one = largest_error("one-term", 2);
  if (two < 0) skip();
  if (two > 8 * plain || one < 20 * two)
    fail_msg("%g ulp, by two terms %g, by one term %g", plain, two, one);
}

TEST(test_mistakes) {
  needs_gpu();
  for (const LabTopic *const *t = lab_topics; *t && !quick(); t++)
    for (int r = 0; r < (*t)->rung_count; r++) {
      const LabRung *rung = &(*t)->rungs[r];
      if (rung->kind != LAB_MISTAKE) continue;
      const LabHow how = {.mode = LAB_CHECKS, .rung = rung->name, .guarded = true, .seed = 1};
      int problem = 0; /* the first that it belongs to */
      while (!lab_belongs(rung, problem)) problem++;
      const LabTable table = measure(*t, problem, (*t)->sizes[0], how);
      assert_int_equal(table.count, rung->points ? rung->point_count : 1);
      if (table.rows[0].outcome != LAB_CAUGHT && table.rows[0].outcome != LAB_REFUSED)
        fail_msg("%s: %s: %s", (*t)->name, how.rung, table.rows[0].note);
    }
}
