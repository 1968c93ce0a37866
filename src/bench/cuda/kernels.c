/* Describes the GPU, and measures what it can do and how long each kernel of level layer takes. */
#include "bench/bench.h"
#include "engine/cuda/cuda_state.h"
#include "measure/cuda/ceilings.h"

/* The ceiling of multiply-adds is the lab's. What could not be measured is left out. */
bool bench_gpu(Record *record, const char *name, const char *command, const char *sources,
               Error *error) {
  GpuMachine gpu;
  if (!gpu_machine(&gpu, error)) return false;
  record_add_machine(record, gpu.name, gpu.driver, name, command, sources);
  ceilings_add(record, CEILING_COPY, CEILING_FMA, error);
  ceilings_add(record, CEILING_SGEMM_FP32, CEILINGS, error);
  return record_good(record, error);
}

/* ---- the kernels of a step at level layer ---------------------------------------------------- */

enum { MOST_KERNELS = 2 * NETWORK_MAX_LAYERS, KERNEL_CALLS = 100 };

/* One kernel of the engine's step. */
typedef struct {
  CudaEngine *engine;
  BatchView batch;
  int number; /* in the step, from 0: forward, the last layer there and back, backward, updates */
} Kernel;

/* Returns the layer of a kernel, if it belongs to one. */
static int layer_of(int number, int last) {
  return number <= last ? number : 2 * last - number;
}

/* A Rung's run. The learning rate is 0, so the weights stay the same however often it runs. */
static cudaError_t run_kernel(void *context, cudaStream_t stream) {
  const Kernel *k = context;
  CudaEngine *e = k->engine;
  const int last = e->engine.config.network.layers - 1, l = layer_of(k->number, last);
  cudaStream_t own = e->compute;
  e->compute = stream;
  const cudaError_t status = k->number < last        ? e->level->forward(e, k->batch, l, true)
                             : k->number == last     ? e->level->loss(e, k->batch, true)
                             : k->number == 2 * last ? e->level->update(e, k->batch, 0, last + 1)
                                                     : e->level->backward(e, k->batch, l);
  e->compute = own;
  return status;
}

/* Times the kernels in the order of a step, so that each finds what the one before it wrote. */
static bool time_step(CudaEngine *e, ShortText *names, double *us, Error *error) {
  const Network *n = &e->engine.config.network;
  const int last = n->layers - 1, rows = e->engine.config.training.batch;
  const StepState state = {.end = (uint32_t)rows, .rule = e->engine.config.training.rule};
  Kernel k = {e, batch_view(e, e->d_pixels, rows), 0};
  k.batch.d_order = e->d_order;
  bool good = cuda_done(launch_order(e->d_order, 0, (uint32_t)rows, 1, 1, e->compute), "shuffling",
                        error) &&
              cuda_done(launch_begin(e->d_state, state, e->compute), "preparing a batch", error) &&
              cuda_done(cudaDeviceSynchronize(), "preparing a batch", error);
  for (; good && k.number <= 2 * last; k.number++) {
    const int *size = n->size + layer_of(k.number, last), back = k.number > last;
    names[k.number] = k.number == 2 * last ? text_format("gradients and updates of all layers")
                                           : text_format("%s, %d to %d",
                                                         back               ? "backward"
                                                         : k.number == last ? "last layer and back"
                                                                            : "forward",
                                                         size[back], size[!back]);
    const Rung rung = {names[k.number].text, run_kernel, &k, KERNEL_CALLS, RUNG_GRAPH, 1, "us"};
    good = rung_value(&rung, &us[k.number], error);
  }
  return good;
}

bool bench_kernels(Record *record, const EngineConfig *config, Error *error) {
  ShortText names[MOST_KERNELS];
  double us[MOST_KERNELS] = {0}, sum = 0;
  const int count = 2 * config->network.layers - 1;
  const ShortText of = text_format("a step of %d rows at level layer", config->training.batch);
  Engine *engine = engine_cuda_open_with(config, &level_layer, NULL, NULL, error);
  bool good = engine &&
              bench_fill(engine, &(BenchRows){.inputs = config->network.size[0]}, error) &&
              time_step((CudaEngine *)engine, names, us, error);
  if (engine) engine->call->close(engine);
  for (int i = 0; good && i < count; i++) sum += us[i];
  for (int i = 0; good && i < count; i++)
    bench_add_part(record, of.text, names[i].text, us[i], "us", us[i] / sum);
  return good;
}
