/* Chooses a level of fusion and a precision from the GPU's limits. Nothing here calls CUDA. */
#include "engine/cuda/cuda_state.h"

#include <string.h>

/* Wide-layer kernels are used if rows >= WIDE_FROM_ROWS and parameters * rows >= WIDE_FROM. For
   784-300-100-10 with 1024 rows, an epoch took 3.58 ms with them and 3.83 ms without; for
   784-1000-500-10, 14.6 and 16.4 with 256 rows, 27.5 and 20.5 with 128 (H200, mma.sync, fp32). */
static const double WIDE_FROM_ROWS = 128, WIDE_FROM = 2.5e8;

/* On H200s, two ranks were slower than one if parameters * (rows per rank) was below RANKS_FROM. */
static const double RANKS_FROM = 3e8;

/* One bit for each set of kernels that supports only some networks. */
enum { OF_WIDE = 1, OF_EPOCH = 2, OF_MANY = 4, OF_EXERCISE = 8 };

/* Returns a requirement of `kernels` (OF_ bits) that the configuration does not meet, or NULL. */
static const char *unsuited(const EngineConfig *c, int kernels) {
  const Training *t = &c->training;
  const struct {
    bool is_other;
    int kernels;
    const char *taken;
  } rules[] = {
      {t->rule.kind != OPTIMIZER_SGD, OF_MANY | OF_EXERCISE, "the optimizer sgd"},
      {t->label_smoothing > 0, OF_MANY | OF_EXERCISE, "no label smoothing"},
      {training_drops(t), OF_MANY | OF_EXERCISE | OF_WIDE, "no dropout"},
      {t->ema > 0, OF_MANY | OF_EXERCISE | OF_WIDE, "no average of weights"},
      {!training_pixel_factor(t).is_default, OF_MANY | OF_WIDE, "pixels over 255 alone"},
      {c->ranks, OF_EPOCH | OF_MANY | OF_EXERCISE, "one rank"},
      {c->network.layers != 3, OF_MANY, "two hidden layers"},
      {c->network.layers == 1, OF_WIDE, "hidden layers"},
  };
  foreach (rule, rules)
    if (rule->is_other && rule->kernels & kernels) return rule->taken;
  return NULL;
}

/* Replaces tf32 by fp32, except for levels layer and step on GPUs with bf16 tensor cores. */
static void choose_precision(Engine *engine, const GpuLimits *limits) {
  const Fusion fusion = engine->config.training.fusion;
  if (engine->config.training.precision == PRECISION_FP32) return;
  const bool has_terms = fusion == FUSION_LAYER || fusion == FUSION_STEP;
  const bool has_bf16 = limits->capability >= 80;
  if (!has_terms || !has_bf16) engine->config.training.precision = PRECISION_FP32;
  const char *is = has_bf16 ? "tf32" : "fp32: no bf16 tensor cores";
  text_append(engine->reason, ", at %s", has_terms ? is : "fp32");
}

/* Plans level epoch. Returns the reason why level epoch cannot run, or "". */
static ShortText plan_level_epoch(const EngineConfig *c, const GpuLimits *limits,
                                  TilesPlan *tiles) {
  const Network *n = &c->network;
  const Training *t = &c->training;
  const char *why_not = unsuited(c, OF_EPOCH);
  TilesShape shape = {.layers = n->layers,
                      .batch = t->batch,
                      .second = optimizer_has_second(t->rule.kind),
                      .average = t->ema > 0,
                      .drops = training_drops(t)};
  if (why_not) return text_format("level epoch takes %s", why_not);
  for (int l = 0; l <= n->layers && l <= TILES_LAYERS; l++) shape.size[l] = n->size[l];
  why_not = plan_tiles(shape, limits, tiles);
  if (why_not) *tiles = (TilesPlan){0};
  return text_format("%s", why_not ? why_not : "");
}

bool engine_cuda_choose(Engine *engine, const GpuLimits *limits, TilesPlan *tiles, Error *error) {
  const EngineConfig *c = &engine->config;
  const Fusion asked = c->training.fusion;
  const Fusion level = asked == FUSION_EXERCISE ? asked : FUSION_EPOCH;
  ShortText why_not = {""};
  *tiles = (TilesPlan){0};
  if (asked == FUSION_EXERCISE && unsuited(c, OF_EXERCISE))
    why_not = text_format("level exercise takes %s", unsuited(c, OF_EXERCISE));
  if (asked == FUSION_AUTO || asked == FUSION_EPOCH) why_not = plan_level_epoch(c, limits, tiles);
  if (asked == level && *why_not.text)
    return error_set(error, "--fusion %s cannot run this network here: %s; use --fusion auto",
                     training_fusions[level], why_not.text);
  if (asked != FUSION_AUTO) {
    strcpy(engine->reason, "as asked");
  } else if (!*why_not.text) {
    engine->config.training.fusion = FUSION_EPOCH;
    strcpy(engine->reason, "the fastest level");
  } else {
    engine->config.training.fusion = FUSION_STEP;
    const bool waits = c->ranks && (double)c->network.parameters * engine_rows(c) < RANKS_FROM;
    *engine->reason = '\0';
    text_append(engine->reason, "not epoch: %s%s", why_not.text,
                waits ? "; with so little work, a single rank is faster" : "");
  }
  choose_precision(engine, limits);
  return true;
}

bool engine_cuda_suits_many(const EngineConfig *c) {
  const int *size = c->network.size;
  return !unsuited(c, OF_MANY) && size[1] > (size[3] - 1) / 3 * 15;
}

void engine_cuda_choose_wide(Engine *engine, const GpuLimits *limits) {
  const EngineConfig *c = &engine->config;
  const bool has_products = c->training.fusion == FUSION_LAYER || c->training.fusion == FUSION_STEP;
  const double parameters = (double)c->network.parameters, rows = engine_rows(c);
  const bool faster = rows >= WIDE_FROM_ROWS && parameters * rows >= WIDE_FROM;
  engine->wide = limits->wide != WIDE_NEVER && has_products && !unsuited(c, OF_WIDE) &&
                 (limits->wide == WIDE_WHERE_POSSIBLE || faster);
  if (!engine->wide) return;
  text_append(engine->reason, ", wide layers by %s",
              limits->wide_by == WIDE_BY_WGMMA ? "wgmma" : "mma.sync");
}
