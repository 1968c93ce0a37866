/* Describes the GPU, and measures what it can do at most and how long each kernel of level layer
   takes. */
#include "bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/cuda/cuda_state.h"
#include "engine/cuda/gpu_limits.h"
#include "measure/cuda/ceilings.h"

/* ---- lines ---------------------------------------------------------------------------------- */

bool bench_add(Record *record, const char *kind, const char *name, double value, const char *unit,
               double batch, double share, Error *error) {
  json_t *line = record_line(kind);
  record_text(line, "name", name);
  record_number(line, "batch", batch);
  record_number(line, "value", value);
  record_text(line, "unit", unit);
  record_number(line, "share", share);
  record_number(line, "bound", 1 / (1 - share));
  return record_add(record, line, true, error);
}

bool bench_machine(Record *record, const char *what, const char *command, Error *error) {
  GpuMachine machine;
  if (!gpu_machine(&machine, error)) return false;
  memcpy(record->gpu, machine.name, sizeof record->gpu);
  json_t *line = record_line("machine");
  record_text(line, "name", what);
  record_text(line, "driver", machine.driver);
  record_number(line, "cores", (double)sysconf(_SC_NPROCESSORS_ONLN));
  record_text(line, "date", machine.date);
  record_text(line, "command", command);
  return record_add(record, line, true, error);
}

/* ---- ceilings ------------------------------------------------------------------------------- */

/* A CeilingUse. */
static bool add_ceiling(void *record, Ceiling which, double value, Error *error) {
  const Rung *rung = &ceilings[which];
  return bench_add(record, "ceiling", rung->name, value, rung->unit, NAN, NAN, error);
}

bool bench_ceilings(Record *record, Error *error) {
  return ceilings_measure(CEILING_COPY, CEILING_FMA, add_ceiling, record, error) &&
         ceilings_measure(CEILING_SGEMM_FP32, CEILINGS, add_ceiling, record, error);
}

/* ---- the kernels of a step at level layer ------------------------------------------------------
 */

enum { MAX_KERNELS = 3 * NETWORK_MAX_LAYERS, KERNEL_CALLS = 100 };

/* A kernel of the engine's step. */
typedef struct {
  CudaEngine *engine;
  BatchView batch;
  enum { FORWARD, HEAD, BACKWARD, UPDATE } operation;
  int layer;
  char name[96];
  double us;
} Kernel;

/* A Rung's run. Learning rate 0: the weights stay what they are however often it is called. */
static cudaError_t run_kernel(void *context, cudaStream_t stream) {
  const Kernel *k = context;
  CudaEngine *e = k->engine;
  const Level *level = e->level;
  const cudaStream_t own = e->compute;
  e->compute = stream;
  const cudaError_t status = k->operation == FORWARD ? level->forward(e, k->batch, k->layer, true)
                             : k->operation == HEAD  ? level->loss(e, k->batch, true)
                             : k->operation == BACKWARD
                                 ? level->backward(e, k->batch, k->layer)
                                 : level->update(e, k->batch, 0, k->layer + 1);
  e->compute = own;
  return status;
}

static bool time_kernel(Kernel *k, Error *error) {
  static const char *const names[] = {"forward", "last layer and back", "backward",
                                      "gradients and updates of all layers"};
  const int *size = k->engine->engine.config.network.size + k->layer,
            back = k->operation == BACKWARD;
  const Rung rung = {k->name, run_kernel, k, KERNEL_CALLS, true, 1, "us"};
  snprintf(k->name, sizeof k->name, k->operation == UPDATE ? "%s" : "%s, %d to %d",
           names[k->operation], size[back], size[!back]);
  return rung_value(&rung, &k->us, error);
}

/* Times the kernels in the order of a step, so that each finds what the one before it wrote. */
static bool time_step(CudaEngine *e, Kernel *kernels, int *count, Error *error) {
  const int last = e->engine.config.network.layers - 1, rows = e->engine.config.training.batch;
  const BatchView batch = {.d_pixels = e->d_pixels,
                           .d_labels = e->d_labels,
                           .d_order = e->d_order,
                           .stride = e->stride,
                           .d_state = e->d_state,
                           .rows = rows};
  *count = 0;
  for (int l = 0; l < last; l++) kernels[(*count)++] = (Kernel){e, batch, FORWARD, l, "", 0};
  kernels[(*count)++] = (Kernel){e, batch, HEAD, last, "", 0};
  for (int l = last - 1; l > 0; l--) kernels[(*count)++] = (Kernel){e, batch, BACKWARD, l, "", 0};
  kernels[(*count)++] = (Kernel){e, batch, UPDATE, last, "", 0};
  const StepState state = {.end = (uint32_t)rows};
  bool good = cuda_done(launch_order(e->d_order, 0, (uint32_t)rows, 1, 1, e->compute), "shuffling",
                        error) &&
              cuda_done(launch_begin(e->d_state, state, e->compute), "preparing a batch", error) &&
              cuda_done(cudaDeviceSynchronize(), "preparing a batch", error);
  for (int i = 0; good && i < *count; i++) good = time_kernel(&kernels[i], error);
  return good;
}

bool bench_kernels(Record *record, const EngineConfig *config, Error *error) {
  Kernel kernels[MAX_KERNELS];
  int count;
  Engine *engine = engine_cuda_open_with(config, &level_layer, NULL, NULL, error);
  bool good = engine &&
              bench_fill(engine, &(BenchRows){.inputs = config->network.size[0]}, error) &&
              time_step((CudaEngine *)engine, kernels, &count, error);
  if (engine) engine->call->close(engine);
  double sum = 0;
  for (int i = 0; good && i < count; i++) sum += kernels[i].us;
  for (int i = 0; good && i < count; i++)
    good = bench_add(record, "kernel", kernels[i].name, kernels[i].us, "us", config->training.batch,
                     kernels[i].us / sum, error);
  return good;
}

double bench_mail(const Network *network, int batch) {
  EpochPlan plan;
  GpuLimits limits;
  Error ignored; /* no plan, no mail */
  const char *why_not;
  const int *size = network->size;
  const EpochShape shape = {size[0], size[1], size[2], size[3], batch};
  if (network->layers != 3 || !gpu_limits_read(&limits, &ignored)) return 0;
  plan_epoch(shape, &limits, &plan, &why_not);
  return why_not ? 0 : (double)plan.step_mail;
}
