/* The CPU engine: its memory and the calls of engine.h. It stores weights transposed, (in, out). It
   pads every row to GEMM_ALIGN floats, so that kernels need no code for partial vectors. Padding
   never reaches a result. */
#include "engine/engine_cpu.h"

#include <omp.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

enum {
  EVALUATION_ROWS = 256, /* minimum rows of a block, because each block reads all weights */
  CACHE_LINE = 64,       /* bytes */
};

/* Returns zeros, aligned to a cache line. cpu_close frees them. Once memory has run out, all later
   calls return NULL and only count the bytes, so the caller checks only the last call. */
static void *allocate(CpuEngine *cpu, size_t count, size_t size) {
  cpu->engine.taken += (double)count * (double)size + CACHE_LINE;
  if (cpu->blocks && !cpu->block[cpu->blocks - 1]) return NULL;
  char *block =
      cpu->engine.taken <= (double)cpu->most ? calloc(count * size + CACHE_LINE, 1) : NULL;
  cpu->block[cpu->blocks++] = block;
  return block ? block + (CACHE_LINE - (uintptr_t)block % CACHE_LINE) : NULL;
}

/* ---- the calls of engine.h ------------------------------------------------------------- */

static bool cpu_staging(Engine *engine, int index, StagingBuffer *out, Error *error) {
  (void)error;
  *out = ((CpuEngine *)engine)->staging[index];
  return true;
}

static bool cpu_upload(Engine *engine, int index, uint64_t first_row, uint64_t rows, Error *error) {
  CpuEngine *cpu = (CpuEngine *)engine;
  const StagingBuffer *from = &cpu->staging[index];
  if (!engine_can_upload(&engine->config, first_row, rows, error)) return false;
  memcpy(cpu->pixels + first_row * from->stride, from->pixels, rows * from->stride);
  memcpy(cpu->labels + first_row, from->labels, rows * sizeof *from->labels);
  cpu->drawn.rows = 0;
  return true;
}

static bool cpu_collect(Engine *engine, EngineSums *sums, Error *error) {
  CpuEngine *cpu = (CpuEngine *)engine;
  *sums = cpu->sums;
  cpu->sums = (EngineSums){0};
  return engine_ranks_collect(&engine->config, sums, error);
}

/* Returns the index in Layer.array of array number `a` of calls `read` and `write` (engine.h). */
static int array_of(const Training *training, size_t a) {
  if (a == 0 && training->ema > 0) return AVERAGE;
  return a > 0 && a <= training_moments(training) ? FIRST_MOMENT + (int)a - 1 : PARAMETERS;
}

/* Copies `from` to Layer.array[array] of all layers. If `from` is NULL, copies from there to `to`.
   `from` and `to` have the layout of network.h. */
static void copy_flat(CpuEngine *cpu, int array, const float *from, float *to) {
  const Network *network = &cpu->engine.config.network;
  if (to) memset(to, 0, network->floats * sizeof *to);
  for (int l = 0; l < network->layers; l++) {
    const Layer *layer = &cpu->layer[l];
    for (size_t o = 0; o < layer->outputs; o++)
      for (size_t i = 0; i <= layer->inputs; i++) { /* the last row is the bias */
        const bool bias = i == layer->inputs;
        const size_t flat =
            bias ? network->bias[l] + o : network->weight[l] + o * layer->inputs + i;
        float *own = layer->array[array] + (bias ? layer->in : i) * layer->out + o;
        if (to)
          to[flat] = *own;
        else
          *own = from[flat];
        if (from && !bias && l > 0 && array == PARAMETERS)
          layer->weight_copy[o * layer->in + i] = *own;
      }
  }
}

static bool cpu_read(Engine *engine, float *arrays, size_t count, Error *error) {
  (void)error;
  for (size_t a = 0; a < count; a++)
    copy_flat((CpuEngine *)engine, array_of(&engine->config.training, a), NULL,
              arrays + a * engine->config.network.floats);
  return true;
}

static bool cpu_write(Engine *engine, const float *arrays, size_t count, Error *error) {
  (void)error;
  for (size_t a = 0; a < count; a++)
    copy_flat((CpuEngine *)engine, array_of(&engine->config.training, a),
              arrays + a * engine->config.network.floats, NULL);
  if (count == 1) copy_flat((CpuEngine *)engine, PARAMETERS, arrays, NULL);
  return true;
}

static void cpu_close(Engine *engine) {
  CpuEngine *cpu = (CpuEngine *)engine;
  pthread_mutex_destroy(&cpu->barrier.mutex);
  pthread_cond_destroy(&cpu->barrier.opened);
  for (int i = 0; i < cpu->blocks; i++) free(cpu->block[i]);
  free(cpu);
}

/* ---- opening --------------------------------------------------------------------------- */

/* Makes the pointer point to `count` zeros, or sets it to NULL if memory runs out. */
#define ALLOCATE(cpu, pointer, count) ((pointer) = allocate(cpu, count, sizeof *(pointer)))

static void allocate_panels(CpuEngine *cpu, Panels *panels, size_t count, size_t length) {
  panels->length = length;
  ALLOCATE(cpu, panels->values, count * length * GEMM_PANEL);
  ALLOCATE(cpu, panels->index, count * length);
  ALLOCATE(cpu, panels->terms, count);
}

static bool allocate_all(CpuEngine *cpu) {
  const EngineConfig *config = &cpu->engine.config;
  const Training *training = &config->training;
  const int *size = config->network.size;
  size_t longest = cpu->capacity;
  for (int l = 0; l < config->network.layers; l++) {
    Layer *layer = &cpu->layer[l];
    layer->inputs = (size_t)size[l];
    layer->outputs = (size_t)size[l + 1];
    layer->in = l ? layer[-1].out : round_up(layer->inputs, GEMM_ALIGN);
    layer->out = round_up(layer->outputs, GEMM_ALIGN);
    if (layer->out % 256 == 0) /* rows of n * 1 KiB would map to few sets of the cache */
      layer->out += GEMM_ALIGN;
    if (layer->in > longest) longest = layer->in;
    if (layer->out > longest) longest = layer->out;
    const size_t floats = (layer->in + 1) * layer->out;
    for (size_t a = 0; a <= training_states(training); a++)
      ALLOCATE(cpu, layer->array[array_of(training, a)], floats);
    ALLOCATE(cpu, layer->y, cpu->capacity * layer->out);
    ALLOCATE(cpu, layer->dy, cpu->capacity * layer->out);
    if (l > 0) ALLOCATE(cpu, layer->weight_copy, layer->in * layer->out);
    layer->gradient = cpu->gradient_floats;
    cpu->gradient_floats += floats;
  }
  cpu->gradient_floats = round_up(cpu->gradient_floats, (size_t)ranks_count(config->ranks));
  if (config->ranks) ALLOCATE(cpu, cpu->gradients, cpu->gradient_floats);
  const size_t stride = cpu->layer[0].in;
  allocate_panels(cpu, &cpu->rows, cpu->capacity / GEMM_PANEL, stride);
  allocate_panels(cpu, &cpu->columns, stride / GEMM_PANEL, cpu->capacity);
  ALLOCATE(cpu, cpu->identity, longest);
  ALLOCATE(cpu, cpu->row, cpu->capacity);
  ALLOCATE(cpu, cpu->label, cpu->capacity);
  ALLOCATE(cpu, cpu->loss, cpu->capacity);
  ALLOCATE(cpu, cpu->correct, cpu->capacity);
  ALLOCATE(cpu, cpu->labels, config->dataset_rows);
  ALLOCATE(cpu, cpu->pixels, (config->dataset_rows + 1) * stride);
  if (augment_any(training->augment))
    ALLOCATE(cpu, cpu->augmented, (config->dataset_rows + 1) * stride);
  for (StagingBuffer *s = cpu->staging; s < cpu->staging + 2; s++) {
    s->stride = stride;
    ALLOCATE(cpu, s->labels, config->staging_rows);
    ALLOCATE(cpu, s->pixels, config->staging_rows * stride);
  }
  if (!cpu->staging[1].pixels) return false;
  for (size_t i = 0; i < longest; i++) cpu->identity[i] = (uint32_t)i;
  return true;
}

static const EngineOperations operations = {
    .staging = cpu_staging,
    .upload = cpu_upload,
    .train = cpu_train,
    .predict = cpu_predict,
    .collect = cpu_collect,
    .read = cpu_read,
    .write = cpu_write,
    .close = cpu_close,
};

/* Fills in *cpu, except for the values of the parameters. Returns false if memory runs out. */
static bool prepare(CpuEngine *cpu, const EngineConfig *config) {
  Engine *engine = &cpu->engine;
  engine->call = &operations;
  engine->config = *config;
  cpu->most = min_size(memory_limit(), SIZE_MAX / 2) / (uint64_t)max_int(config->engines, 1);
  cpu->engine.taken = (double)config->network.floats * sizeof(float); /* engine_cpu_open's array */
  engine->config.training.fusion = FUSION_LAYER;
  engine->config.training.precision = PRECISION_FP32;
  engine->synchronous = true;
  engine->memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
  cpu->kernels = gemm_kernels(0);
  const int threads = config->training.threads, cores = omp_get_num_procs();
  const ShortText of = text_format(" on %d core%s", cores, plural(cores));
  text_append(engine->device, "CPU, %d thread%s%s, %s", threads, plural(threads),
              threads > cores ? of.text : "", cpu->kernels->name);
  strcpy(engine->reason, "the only level the CPU supports");
  pthread_mutex_init(&cpu->barrier.mutex, NULL); /* on Linux, both calls always succeed */
  pthread_cond_init(&cpu->barrier.opened, NULL);
  const size_t rows = min_size((size_t)engine_rows(config), config->dataset_rows);
  cpu->capacity = round_up(rows > EVALUATION_ROWS ? rows : EVALUATION_ROWS, GEMM_PANEL);
  return allocate_all(cpu);
}

/* Starts OpenMP threads for all later regions. Returns their number, at most OMP_THREAD_LIMIT. */
static int start_threads(int count) {
  int running = 0;
  omp_set_dynamic(false); /* otherwise OpenMP may give a region fewer threads */
#pragma omp parallel num_threads(count) reduction(+ : running)
  running++;
  return running;
}

Engine *engine_cpu_open(const EngineConfig *config, Error *error) {
  EngineConfig able = *config;
  able.training.threads = start_threads(config->training.threads);
  CpuEngine *cpu = calloc(1, sizeof *cpu);
  float *parameters =
      cpu && prepare(cpu, &able) ? malloc(config->network.floats * sizeof *parameters) : NULL;
  if (parameters) {
    network_initialise(&config->network, config->training.seed, parameters);
    cpu_write(&cpu->engine, parameters, 1, error);
    free(parameters);
    return &cpu->engine;
  }
  const ShortText what = text_format("a network of %s, batches of %d and %llu rows on the CPU",
                                     network_text(&config->network).text, config->training.batch,
                                     (unsigned long long)config->dataset_rows);
  if (!cpu || memory_allows(cpu->engine.taken, cpu->most, what.text, error))
    error_set(error, "out of memory for %s", what.text);
  if (cpu) cpu_close(&cpu->engine);
  return NULL;
}
