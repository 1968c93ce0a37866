/* An update of the CPU engine by any rule of optimizer.h.

   The momentum rule of sgd is part of the product that forms the gradient (gemm_cpu_tile.h). Others
   divide and take roots: here the product leaves a tile of the gradient in the cache, and a loop
   over it, of vectors as this file is compiled without math errors in errno, applies the rule. */
#include "engine/engine_cpu.h"

enum { TILE_COLUMNS = 64 }; /* the widest tile of gemm_cpu.c */

static const float zeros[TILE_COLUMNS] __attribute__((aligned(64)));

/* Updates `count` neighbours by a rule of this kind. */
static inline __attribute__((always_inline)) void
optimize_by(const Optimizer kind, OptimizerRule rule, OptimizerStep step, float decay, size_t count,
            const float *restrict g, float *restrict w, float *restrict m, float *restrict v) {
  rule.kind = kind;
  for (size_t i = 0; i < count; i++) optimizer_value(rule, step, decay, g[i], w + i, m + i, v + i);
}

/* Makes the kind a constant in each call: a loop with a branch would not become vectors. */
static void optimize(OptimizerRule rule, OptimizerStep step, float decay, size_t count,
                     const float *g, float *w, float *m, float *v) {
  switch (rule.kind) {
  case OPTIMIZER_SGD:
    optimize_by(OPTIMIZER_SGD, rule, step, decay, count, g, w, m, v);
    break;
  case OPTIMIZER_NESTEROV:
    optimize_by(OPTIMIZER_NESTEROV, rule, step, decay, count, g, w, m, v);
    break;
  case OPTIMIZER_ADAM:
    optimize_by(OPTIMIZER_ADAM, rule, step, decay, count, g, w, m, v);
    break;
  case OPTIMIZER_ADAMW:
    optimize_by(OPTIMIZER_ADAMW, rule, step, decay, count, g, w, m, v);
    break;
  }
}

/* Returns the second moment, or for a rule without one anything that is not NULL. */
static float *second_of(float *const moment[ENGINE_CPU_MOMENTS]) {
  return moment[1] ? moment[1] : moment[0];
}

void cpu_optimize_weights(CpuEngine *cpu, int l, size_t panel, size_t column, size_t columns,
                          const GemmTerms *terms, OptimizerStep step) {
  const Layer *layer = &cpu->layer[l];
  const OptimizerRule rule = cpu->engine.config.training.rule;
  float tile[GEMM_PANEL * TILE_COLUMNS] __attribute__((aligned(64)));
  cpu->kernels->forward(terms, columns, zeros, false, tile, TILE_COLUMNS);
  for (size_t r = 0; r < GEMM_PANEL; r++) {
    const size_t row = panel * GEMM_PANEL + r, at = row * layer->out + column;
    float *const *moment = layer->weight_moment;
    optimize(rule, step, rule.weight_decay, columns, tile + r * TILE_COLUMNS, layer->weight + at,
             moment[0] + at, second_of(moment) + at);
    for (size_t c = 0; layer->weight_copy && c < columns; c++)
      layer->weight_copy[(column + c) * layer->in + row] = layer->weight[at + c];
  }
}

void cpu_optimize_bias(CpuEngine *cpu, int l, size_t column, const float sum[GEMM_ALIGN],
                       OptimizerStep step) {
  const Layer *layer = &cpu->layer[l];
  float *const *moment = layer->bias_moment;
  optimize(cpu->engine.config.training.rule, step, 0, GEMM_ALIGN, sum, layer->bias + column,
           moment[0] + column, second_of(moment) + column);
}

void cpu_average(float *average, const float *values, size_t count, float keeps) {
  for (size_t i = 0; i < count; i++) average[i] += (1 - keeps) * (values[i] - average[i]);
}
