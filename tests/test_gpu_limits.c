/* Tests plans for every card in the table of docs/gpus.md. Needs CUDA's headers, but no GPU. */
#include "support/cuda_only.h"
#include "engine/cuda/cuda_state.h"
#include "engine/cuda/gpu_limits.h"

/* ---- the environment ------------------------------------------------------------------------ */

static const GpuLimits h100 = {90, 132, 227 << 10, WIDE_WHERE_FASTER, WIDE_BY_WGMMA, 7},
                       t4 = {75, 40, 64 << 10, WIDE_NEVER, WIDE_BY_NOTHING, 0};

/* MLP_TEST_GPU lowers a GPU's limits but never raises them. Kernels for wide layers stay off if the
   GPU cannot run them. */
TEST(test_environment_lowers) {
  const struct {
    const char *size, *wide; /* values of MLP_TEST_GPU and MLP_TEST_WIDE */
    GpuLimits from;
    int kilobytes, multiprocessors, wide_when; /* expected; kilobytes is 0 if a value is bad */
  } cases[] = {{NULL, NULL, h100, 227, 132, WIDE_WHERE_FASTER},
               {"99:20", "always", h100, 99, 20, WIDE_WHERE_POSSIBLE},
               {"1024:9999", "always", t4, 64, 40, WIDE_NEVER},
               {"63:1", NULL, h100, 0, 0, 0},
               {"64:8 ", NULL, h100, 0, 0, 0},
               {NULL, "yes", h100, 0, 0, 0}};
  foreach (of, cases) {
    GpuLimits limits = of->from;
    set_variable("MLP_TEST_GPU", of->size);
    set_variable("MLP_TEST_WIDE", of->wide);
    const bool good = gpu_limits_lower(&limits, &error);
    set_variable("MLP_TEST_GPU", NULL);
    set_variable("MLP_TEST_WIDE", NULL);
    if (of->kilobytes == 0) {
      FAILS(good, of->wide ? "MLP_TEST_WIDE=yes" : text_printf("MLP_TEST_GPU=%s:", of->size));
      assert_false(error.of_gpu); /* true would let the run continue on the CPU */
      continue;
    }
    OK(good);
    assert_int_equal(limits.shared_bytes, of->kilobytes << 10);
    assert_int_equal(limits.multiprocessors, of->multiprocessors);
    assert_int_equal(limits.wide, of->wide_when);
  }
}

/* ---- plans ---------------------------------------------------------------------------------- */

static Engine engine_for(const int *hidden, int batch, Fusion fusion) {
  Engine engine = {.config.training = {.batch = batch, .fusion = fusion, .threads = 1}};
  OK(network_init(&engine.config.network, 784, hidden, 2, 10, &error));
  return engine;
}

/* The table in docs/gpus.md says which level --fusion auto chooses on each card for the default
   network. If auto does not choose epoch, --fusion epoch must fail with the reason auto gave. */
TEST(test_levels_on_every_card) {
  static const int hidden[] = {300, 100};
  char line[512], name[64], takes[32];
  int cards = 0, major, minor, kilobytes;
  FILE *file = fopen("docs/gpus.md", "r");
  if (!file) fail_msg("docs/gpus.md cannot be read: run this test in the repository's root");
  while (fgets(line, sizeof line, file)) {
    TilesPlan plan;
    GpuLimits limits = {0};
    if (sscanf(line, "| %63[^|]| %d.%d | %d | %d | %*[^|]| `%31[a-z]` |", name, &major, &minor,
               &limits.multiprocessors, &kilobytes, takes) != 6)
      continue;
    limits.capability = 10 * major + minor;
    limits.shared_bytes = (size_t)kilobytes << 10;
    limits.clusters = kilobytes == 227 ? limits.multiprocessors / 16 - 1 : 0;
    Engine engine = engine_for(hidden, 64, FUSION_AUTO),
           asked = engine_for(hidden, 64, FUSION_EPOCH);
    OK(engine_cuda_choose(&engine, &limits, &plan, &error));
    if (strcmp(training_fusions[engine.config.training.fusion], takes) != 0)
      fail_msg("docs/gpus.md: on %s auto does not take `%s`", name, takes);
    const bool epoch = engine_cuda_choose(&asked, &limits, &plan, &error);
    assert_int_equal(epoch, strcmp(takes, "epoch") == 0);
    if (!epoch) assert_in(error.text, engine.reason + strlen("not epoch: "));
    cards++;
  }
  fclose(file);
  assert_true(cards >= 15);
}

/* Returns true if the case has a plan, as expected. If a refusal is expected, checks the refusal's
   reason and returns false. */
static bool planned(ptrdiff_t number, const char *why_not, const char *expected) {
  if (!expected && why_not) fail_msg("case %td: %s", number, why_not);
  if (!expected) return true;
  assert_non_null(why_not);
  assert_in(why_not, expected);
  return false;
}

/* Level epoch has a plan for cases at each of its limits, and refuses cases beyond a limit. */
TEST(test_limits_of_epoch) {
#define HOPPER(kilobytes, clusters)                                                                \
  { 90, 132, (kilobytes) << 10, WIDE_NEVER, WIDE_BY_NOTHING, clusters }
#define OLDER(capability, multiprocessors, kilobytes)                                              \
  { capability, multiprocessors, (kilobytes) << 10, WIDE_NEVER, WIDE_BY_NOTHING, 0 }
  const struct {
    TilesShape shape;
    GpuLimits limits;
    int rows, blocks;
    const char *why_not;
  } cases[] = {{{2, {784, 128, 10}, 64, 0, 0, 0}, HOPPER(227, 7), 64, 16, NULL},
               {{2, {784, 129, 10}, 64, 0, 0, 0}, HOPPER(227, 7), 64, 32, NULL},
               {{2, {784, 897, 12}, 64, 0, 0, 0}, HOPPER(227, 7), 64, 132, NULL},
               {{2, {784, 897, 13}, 64, 0, 0, 0}, HOPPER(227, 7), 0, 0, "up to 12 classes"},
               {{2, {784, 1049, 10}, 64, 0, 0, 0}, HOPPER(227, 7), 0, 0, "more multiprocessors"},
               {{2, {784, 128, 10}, 64, 0, 0, 0}, HOPPER(199, 1), 0, 0, "more shared memory"},
               {{2, {784, 128, 10}, 128, 1, 1, 1}, HOPPER(227, 1), 128, 16, NULL},
               {{3, {784, 300, 100, 10}, 65, 0, 0, 0}, HOPPER(227, 4), 128, 64, NULL},
               {{3, {784, 300, 100, 10}, 65, 0, 0, 0}, HOPPER(227, 3), 128, 132, NULL},
               {{3, {784, 300, 100, 10}, 65, 1, 0, 0}, HOPPER(227, 3), 0, 0, "batches up to 64"},
               {{2, {784, 1024, 10}, 128, 0, 0, 0}, HOPPER(227, 7), 128, 132, NULL},
               {{3, {784, 512, 512, 10}, 65, 0, 0, 0}, HOPPER(227, 7), 0, 0, "shared memory"},
               {{1, {784, 10}, 64, 0, 0, 0}, HOPPER(227, 7), 64, 2, NULL},
               {{1, {784, 16}, 65, 1, 1, 0}, HOPPER(227, 7), 128, 2, NULL},
               {{1, {784, 10}, 64, 0, 0, 0}, OLDER(80, 108, 163), 0, 0, "clusters of blocks"},
               {{7, {784}, 64, 0, 0, 0}, HOPPER(227, 7), 0, 0, "up to five hidden layers"},
               {{2, {785, 128, 10}, 64, 0, 0, 0}, HOPPER(227, 7), 0, 0, "up to 784 inputs"},
               {{2, {784, 128, 17}, 64, 0, 0, 0}, HOPPER(227, 7), 0, 0, "up to 16 classes"},
               {{2, {784, 128, 10}, 129, 0, 0, 0}, HOPPER(227, 7), 0, 0, "batches up to 128"},
               {{3, {784, 300, 100, 10}, 64, 0, 0, 0}, OLDER(80, 108, 163), 64, 108, NULL},
               {{3, {784, 300, 100, 10}, 64, 1, 1, 1}, OLDER(86, 52, 99), 64, 52, NULL},
               {{3, {784, 300, 100, 10}, 64, 0, 0, 0}, OLDER(86, 51, 99), 0, 0, "multiprocessors"},
               {{2, {784, 128, 10}, 65, 0, 0, 0}, OLDER(86, 52, 99), 0, 0, "batches up to 64"},
               {{2, {784, 128, 13}, 64, 0, 0, 0}, OLDER(86, 52, 99), 0, 0, "up to 12 classes"},
               {{2, {784, 128, 10}, 64, 0, 0, 0}, OLDER(80, 108, 64), 0, 0, "shared memory"},
               {{2, {784, 128, 10}, 64, 0, 0, 0}, OLDER(75, 68, 64), 0, 0, "capability 8.0"}};
#undef HOPPER
#undef OLDER
  foreach (of, cases) {
    TilesPlan plan;
    const char *why_not = plan_tiles(of->shape, &of->limits, &plan);
    assert_int_equal(plan.blocks, of->blocks);
    if (!planned(of - cases, why_not, of->why_not)) continue;
    assert_int_equal(plan.rows, of->rows);
    assert_int_equal(plan.steps % EPOCH_DIRECT, 0);
    assert_true(plan.shared_bytes <= of->limits.shared_bytes && tiles_work_bytes(&plan) > 0);
  }
}

/* Tests which layers and options allow several networks to train at once, each in one cluster. */
TEST(test_suits_many) {
  const struct {
    int hidden[2];
    Training training;
    bool suits;
  } cases[] = {{{300, 100}, {.batch = 64}, true},
               {{46, 7}, {.batch = 64}, true},
               {{45, 7}, {.batch = 64}, false},
               {{300, 100}, {.batch = 64, .label_smoothing = 0.1f}, false},
               {{300, 100}, {.batch = 64, .ema = 0.9f}, false},
               {{300, 100}, {.batch = 64, .rule = {.kind = OPTIMIZER_ADAM}}, false}};
  foreach (of, cases) {
    Engine engine = engine_for(of->hidden, 64, FUSION_AUTO);
    engine.config.training = of->training;
    assert_int_equal(engine_cuda_suits_many(&engine.config), of->suits);
  }
}

/* The work, the level and MLP_TEST_WIDE decide whether the kernels for wide layers are used. If
   they are, engine.reason names their instruction. */
TEST(test_wide_where_faster) {
  const struct {
    int hidden[2], batch;
    Fusion fusion;
    int wide;
    WideBy by;
    bool used;
  } cases[] = {{{2500, 2000}, 4096, FUSION_STEP, WIDE_WHERE_FASTER, WIDE_BY_WGMMA, true},
               {{2500, 2000}, 4096, FUSION_NONE, WIDE_WHERE_FASTER, WIDE_BY_WGMMA, false},
               {{2500, 2000}, 4096, FUSION_STEP, WIDE_NEVER, WIDE_BY_NOTHING, false},
               {{300, 100}, 1024, FUSION_STEP, WIDE_WHERE_FASTER, WIDE_BY_WGMMA, true},
               {{300, 100}, 512, FUSION_STEP, WIDE_WHERE_FASTER, WIDE_BY_WGMMA, false},
               {{300, 100}, 64, FUSION_STEP, WIDE_WHERE_POSSIBLE, WIDE_BY_WGMMA, true},
               {{2500, 2000}, 128, FUSION_STEP, WIDE_WHERE_FASTER, WIDE_BY_MMA, true},
               {{2500, 2000}, 127, FUSION_STEP, WIDE_WHERE_FASTER, WIDE_BY_MMA, false},
               {{300, 100}, 64, FUSION_STEP, WIDE_WHERE_POSSIBLE, WIDE_BY_MMA, true}};
  foreach (of, cases) {
    GpuLimits limits = h100;
    limits.wide = of->wide;
    limits.wide_by = of->by;
    Engine engine = engine_for(of->hidden, of->batch, of->fusion);
    engine_cuda_choose_wide(&engine, &limits);
    assert_int_equal(engine.wide, of->used);
    assert_string_equal(engine.reason, !of->used                 ? ""
                                       : of->by == WIDE_BY_WGMMA ? ", wide layers by wgmma"
                                                                 : ", wide layers by mma.sync");
  }
}
