/* Updates the CPU engine's parameters by the rules of optimizer.h. Under sgd, gemm_cpu_tile.h
   updates the weights instead. Some rules take square roots. To let the compiler vectorise square
   roots, this file is compiled without errno for math errors. */
#include "engine/engine_cpu.h"

/* Updates `count` adjacent parameters by an optimizer of this kind. */
static inline __attribute__((always_inline)) void
optimize_by(const Optimizer kind, OptimizerRule rule, OptimizerStep step, float decay, size_t count,
            const float *restrict g, float *restrict w, float *restrict m, float *restrict v) {
  rule.kind = kind;
  for (size_t i = 0; i < count; i++) optimizer_value(rule, step, decay, g[i], w + i, m + i, v + i);
}

/* Passes rule.kind as a constant. A loop that branches on the kind would not be vectorised. */
void cpu_optimize(const CpuEngine *cpu, const Layer *layer, size_t at, size_t count,
                  const float *gradient, float decay, OptimizerStep step) {
  const OptimizerRule rule = cpu->engine.config.training.rule;
  float *const *array = layer->array, *w = array[PARAMETERS] + at, *m = array[FIRST_MOMENT] + at;
  float *v = array[SECOND_MOMENT] ? array[SECOND_MOMENT] + at : m; /* no second moment: v unused */
#define BY(KIND)                                                                                   \
  case KIND:                                                                                       \
    optimize_by(KIND, rule, step, decay, count, gradient, w, m, v);                                \
    break;
  switch (rule.kind) {
    EACH_OPTIMIZER(BY)
  case OPTIMIZERS:
    break;
  }
#undef BY
}

void cpu_average(float *average, const float *values, size_t count, float keeps) {
  for (size_t i = 0; i < count; i++) average[i] += (1 - keeps) * (values[i] - average[i]);
}
