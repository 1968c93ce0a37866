/* Plans for GPUs that are not here: the limits of a GPU are values, so every card of the
   table in docs/gpus.md can be planned for without any. Needs CUDA's headers, but no GPU. */
#include "support/cuda_only.h"
#include "engine/cuda/cuda_state.h"
#include "engine/cuda/gpu_limits.h"

/* ---- the environment ------------------------------------------------------------------------ */

static const GpuLimits h100 = {90, 132, 227 << 10, WIDE_WHERE_FASTER, WIDE_BY_WGMMA, 7},
                       t4 = {75, 40, 64 << 10, WIDE_NEVER, WIDE_BY_NOTHING, 0};

/* A GPU never gets more than it has, nor kernels for wide layers that it cannot run. */
TEST(test_environment_lowers) {
  const struct {
    const char *size, *wide; /* of the variables */
    GpuLimits from;
    int kilobytes, multiprocessors, wide_when; /* kilobytes 0: refused */
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
      assert_false(error.of_gpu); /* or the run would go on with the CPU */
      continue;
    }
    OK(good);
    assert_int_equal(limits.shared_bytes, of->kilobytes << 10);
    assert_int_equal(limits.multiprocessors, of->multiprocessors);
    assert_int_equal(limits.wide, of->wide_when);
  }
}

/* ---- the table of cards --------------------------------------------------------------------- */

typedef struct {
  char name[64], state[32], takes[32];
  GpuLimits limits;
} Card;

enum { MOST_CARDS = 64 };

static Card cards[MOST_CARDS];
static int card_count;

/* Reads the rows of the Markdown table, their cells without blanks and backquotes. */
static FIXTURE(read_cards) {
  set_variable("MLP_TEST_GPU", NULL);
  set_variable("MLP_TEST_WIDE", NULL);
  FILE *file = fopen("docs/gpus.md", "r");
  char line[512];
  if (!file) fail_msg("docs/gpus.md cannot be read: run this test in the repository's root");
  while (card_count < MOST_CARDS && fgets(line, sizeof line, file)) {
    int major, minor, kilobytes;
    Card *card = &cards[card_count];
    if (sscanf(line, "| %63[^|]| %d.%d | %d | %d | %31[^|]| `%31[a-z]` |", card->name, &major,
               &minor, &card->limits.multiprocessors, &kilobytes, card->state, card->takes) != 7)
      continue;
    card->limits.capability = 10 * major + minor;
    card->limits.shared_bytes = (size_t)kilobytes << 10;
    foreach (text, VALUES(char *, card->name, card->state))
      for (size_t n = strlen(*text); n > 0 && (*text)[n - 1] == ' '; n--) (*text)[n - 1] = '\0';
    card_count++;
  }
  fclose(file);
  assert_in_range(card_count, 15, MOST_CARDS - 1);
  return 0;
}

TESTS_WITH(read_cards, NULL);

#define EACH_CARD(card) /* NOLINTNEXTLINE(bugprone-macro-parentheses) */                           \
  for (const Card *card = cards; card < cards + card_count; card++)

typedef struct {
  const char *name;
  int sizes[5], layers, batch;
} Wish;

/* The first is the default network, as in the table. */
static const Wish wishes[] = {{"784-300-100-10, batch 64", {784, 300, 100, 10}, 3, 64},
                              {"784-300-100-10, batch 256", {784, 300, 100, 10}, 3, 256},
                              {"784-512-120-10, batch 64", {784, 512, 120, 10}, 3, 64},
                              {"784-500-300-100-10, batch 64", {784, 500, 300, 100, 10}, 4, 64}};

static Engine engine_for(const Wish *wish, Fusion fusion, Precision precision) {
  Engine engine = {
      .config.training = {
          .batch = wish->batch, .fusion = fusion, .precision = precision, .threads = 1}};
  OK(network_init(&engine.config.network, wish->sizes[0], wish->sizes + 1, wish->layers - 1,
                  wish->sizes[wish->layers], &error));
  return engine;
}

/* The same after engine_cuda_choose, which must not refuse it. */
static Engine choose(const Wish *w, Fusion fusion, Precision precision, const GpuLimits *limits) {
  EpochPlan plan;
  TilesPlan tiles;
  Engine engine = engine_for(w, fusion, precision);
  OK(engine_cuda_choose(&engine, limits, &tiles, &plan, &error));
  return engine;
}

/* A card on which auto does not take it refuses --fusion epoch with auto's reason; every other
   level is never refused. */
static void check_wish(const Card *card, const Wish *wish) {
  EpochPlan plan;
  TilesPlan tiles;
  const Engine engine = choose(wish, FUSION_AUTO, PRECISION_FP32, &card->limits);
  Engine asked = engine_for(wish, FUSION_EPOCH, PRECISION_FP32);
  const bool epoch = engine_cuda_choose(&asked, &card->limits, &tiles, &plan, &error);
  const char *name = epoch ? "epoch" : "step";
  print_message("%-26s %-30s %-6s %s\n", card->name, wish->name, name, engine.reason);
  assert_int_equal(engine.config.training.fusion, epoch ? FUSION_EPOCH : FUSION_STEP);
  if (epoch) { /* which needs more than the 48 KB that need not be asked for, and many blocks */
    GpuLimits small = card->limits, few = card->limits;
    small.shared_bytes = 48 << 10;
    few.multiprocessors = 1;
    assert_true(card->limits.capability >= 80);
    assert_int_equal(wish->layers, 3);
    foreach (less, VALUES(GpuLimits, small, few))
      assert_int_equal(choose(wish, FUSION_AUTO, PRECISION_FP32, less).config.training.fusion,
                       FUSION_STEP);
  } else {
    assert_memory_equal(engine.reason, "not epoch: ", 11);
    assert_true(strlen(engine.reason) > 20);
    FAILS(epoch, engine.reason + strlen("not epoch: "));
  }
  if (wish == wishes && strcmp(card->takes, name) != 0)
    fail_msg("docs/gpus.md: on %s auto takes `%s`", card->name, name);
  foreach (one, VALUES(Fusion, FUSION_NONE, FUSION_LAYER, FUSION_STEP, FUSION_EXERCISE)) {
    const Engine level = choose(wish, *one, PRECISION_FP32, &card->limits);
    assert_int_equal(level.config.training.fusion, *one);
    assert_string_equal(level.reason, "as asked");
  }
  /* The longest line that there is must fit. */
  const Engine longest = choose(wish, FUSION_AUTO, PRECISION_TF32, &card->limits);
  assert_true(strlen(longest.reason) < sizeof longest.reason - 1);
}

TEST(test_levels_on_every_card) {
  EACH_CARD(card)
  foreach (wish, wishes) check_wish(card, wish);
}

/* Level epoch plans at its limits, and refuses one beyond each. */
TEST(test_limits_of_epoch) {
  const EpochShape usual = {784, 300, 100, 10, 64};
  const struct {
    EpochShape shape;
    int multiprocessors, kilobytes, depth, row_blocks, blocks; /* depth 0: refused */
    const char *why_not;
  } cases[] = {{usual, 130, 227, 1, 80, 130, NULL},
               {usual, 129, 227, 2, 80, 120, NULL},
               {usual, 65, 99, 2, 40, 65, NULL},
               {usual, 64, 99, 0, 0, 0, "more multiprocessors"},
               {usual, 132, 64, 0, 0, 0, "more shared memory"},
               {{784, 128, 64, 10, 64}, 39, 99, 2, 24, 39, NULL},
               {{784, 60, 30, 10, 1}, 13, 99, 2, 8, 13, NULL},
               {{150, 481, 120, 12, 64}, 170, 99, 2, 72, 144, NULL},
               {{784, 600, 120, 12, 64}, 130, 99, 2, 80, 130, NULL},
               {{784, 601, 120, 12, 64}, 170, 227, 0, 0, 0, "first hidden layers up to 600"},
               {{784, 60, 121, 12, 64}, 170, 227, 0, 0, 0, "second hidden layers up to 120"},
               {{784, 45, 120, 10, 64}, 170, 227, 0, 0, 0, "three classes a tile"},
               {{1279, 300, 120, 12, 64}, 160, 227, 1, 80, 160, NULL},
               {{1280, 300, 120, 12, 64}, 170, 227, 0, 0, 0, "up to 1279 inputs"},
               {{784, 60, 120, 12, 65}, 170, 227, 0, 0, 0, "batches up to 64"}};
  foreach (of, cases) {
    const GpuLimits limits = {80,         of->multiprocessors, (size_t)of->kilobytes << 10,
                              WIDE_NEVER, WIDE_BY_NOTHING,     0};
    EpochPlan plan;
    const char *why_not;
    plan_epoch(of->shape, &limits, &plan, &why_not);
    if (!of->depth) {
      assert_non_null(why_not);
      assert_in(why_not, of->why_not);
      continue;
    }
    if (why_not) fail_msg("case %td: %s", of - cases, why_not);
    assert_int_equal(plan.depth, of->depth);
    assert_int_equal(plan.row_blocks, of->row_blocks);
    assert_int_equal(plan.blocks, of->blocks);
  }
}

/* Tiles are planned at their limits, and refused beyond each. */
TEST(test_limits_of_tiles) {
  const struct {
    TilesShape shape;
    int clusters, kilobytes, rows, planned; /* planned: blocks; 0: refused */
    const char *why_not;
  } cases[] = {{{2, {784, 128, 10}, 64, 0, 0, 0}, 7, 227, 64, 16, NULL},
               {{2, {784, 129, 10}, 64, 0, 0, 0}, 7, 227, 64, 32, NULL},
               {{2, {784, 897, 12}, 64, 0, 0, 0}, 7, 227, 64, 132, NULL},
               {{2, {784, 897, 13}, 64, 0, 0, 0}, 7, 227, 0, 0, "up to 12 classes"},
               {{2, {784, 1049, 10}, 64, 0, 0, 0}, 7, 227, 0, 0, "more multiprocessors"},
               {{2, {784, 128, 10}, 64, 0, 0, 0}, 1, 199, 0, 0, "more shared memory"},
               {{2, {784, 128, 10}, 128, 1, 1, 1}, 1, 227, 128, 16, NULL},
               {{3, {784, 300, 100, 10}, 65, 0, 0, 0}, 4, 227, 128, 64, NULL},
               {{3, {784, 300, 100, 10}, 65, 0, 0, 0}, 3, 227, 0, 0, "batches up to 64"},
               {{7, {784}, 64, 0, 0, 0}, 7, 227, 0, 0, "up to five hidden layers"},
               {{1, {784, 10}, 64, 0, 0, 0}, 7, 227, 0, 0, "it takes hidden layers"},
               {{2, {785, 128, 10}, 64, 0, 0, 0}, 7, 227, 0, 0, "up to 784 inputs"},
               {{2, {784, 128, 17}, 64, 0, 0, 0}, 7, 227, 0, 0, "up to 16 classes"},
               {{2, {784, 128, 10}, 129, 0, 0, 0}, 7, 227, 0, 0, "batches up to 128"},
               {{2, {784, 128, 10}, 64, 0, 0, 0}, 0, 227, 0, 0, "clusters of blocks"}};
  foreach (of, cases) {
    GpuLimits limits = h100;
    TilesPlan plan;
    const char *why_not;
    limits.clusters = of->clusters;
    limits.shared_bytes = (size_t)of->kilobytes << 10;
    plan_tiles(of->shape, &limits, &plan, &why_not);
    if (!of->planned) {
      assert_non_null(why_not);
      assert_in(why_not, of->why_not);
      assert_int_equal(plan.blocks, 0);
      continue;
    }
    if (why_not) fail_msg("case %td: %s", of - cases, why_not);
    assert_int_equal(plan.rows, of->rows);
    assert_int_equal(plan.blocks, of->planned);
    assert_int_equal(plan.steps % EPOCH_DIRECT, 0);
    assert_true(plan.shared_bytes <= limits.shared_bytes && tiles_work_bytes(&plan) > 0);
  }
}

/* Wide layers take what has enough work for them, by either instruction, and say so. */
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
               {{300, 100}, 64, FUSION_EPOCH, WIDE_WHERE_POSSIBLE, WIDE_BY_WGMMA, false},
               {{2500, 2000}, 128, FUSION_STEP, WIDE_WHERE_FASTER, WIDE_BY_MMA, true},
               {{2500, 2000}, 127, FUSION_STEP, WIDE_WHERE_FASTER, WIDE_BY_MMA, false},
               {{300, 100}, 64, FUSION_STEP, WIDE_WHERE_POSSIBLE, WIDE_BY_MMA, true}};
  foreach (of, cases) {
    GpuLimits limits = h100;
    limits.wide = of->wide;
    limits.wide_by = of->by;
    Engine engine = {.config.training = {.batch = of->batch, .fusion = of->fusion}};
    OK(network_init(&engine.config.network, 784, of->hidden, 2, 10, &error));
    engine_cuda_choose_wide(&engine, &limits);
    assert_int_equal(engine.wide, of->used);
    const char *by = strstr(engine.reason, "wide layers by ");
    assert_int_equal(by != NULL, of->used);
    if (by)
      assert_string_equal(by + strlen("wide layers by "),
                          of->by == WIDE_BY_WGMMA ? "wgmma" : "mma.sync");
  }
}
