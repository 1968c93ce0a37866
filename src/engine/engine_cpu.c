/* The CPU engine: the training step of engine.h on OpenMP threads.

   A call of train is one parallel region, and a step in it has two parts. In the first, every
   thread takes rows through the network and back: pixels, forward, loss, backward. In the
   second, every thread takes weights: their gradient over all rows, and the update. A barrier
   ends each part. No sum is ever split between threads and a weight has always the same
   owner, so the bits do not depend on the number of threads.

   Inside, a layer's weights are kept transposed, (in, out), and every row is padded to
   GEMM_ALIGN floats: no kernel has an edge to look after. A product's terms are real ones,
   so that nothing which lies in the padding reaches a result. */
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/augment.h"
#include "engine/engine.h"
#include "engine/gemm_cpu.h"
#include "base/random.h"

_Static_assert(GEMM_PANEL == 4, "pack_rows and pack_columns look at four pixels at a time");

enum {
  EVALUATION_ROWS = 256, /* at least, of a block: it reads the weights once */
  BARRIER_SPINS = 1000,  /* some 20 us: more than what separates the threads of a step */
  CACHE_LINE = 64,       /* bytes */
  MAX_BLOCKS = 8 * NETWORK_MAX_LAYERS + 16,
};

/* OpenMP's own barrier may spin for milliseconds. That costs a step dear as soon as threads
   outnumber cores, as they do while the data is still being parsed: this one soon sleeps. */
typedef struct {
  pthread_mutex_t mutex;
  pthread_cond_t opened;
  atomic_size_t arrived, phase;
} Barrier;

typedef struct {
  size_t in, out;                  /* padded */
  float *weight, *weight_momentum; /* (in, out) */
  float *weight_copy;              /* (out, in), for backward; NULL in the first layer */
  float *bias, *bias_momentum;     /* (out) */
  float *y;                        /* (capacity, out): after the ReLU; the last layer's logits */
  float *dy;                       /* (capacity, out): the gradient of y before the ReLU */
} Layer;

/* The pixels of a block of rows as panels for GemmTerms, scaled, without the terms that are
   0 in a whole panel: panel p has terms[p] of at most `length`. */
typedef struct {
  size_t length;
  float *values;   /* (panels, length, GEMM_PANEL) */
  uint32_t *index; /* (panels, length) */
  size_t *terms;   /* (panels) */
} Panels;

typedef struct {
  Engine engine; /* first: an Engine * of this file is a CpuEngine * */
  const GemmKernels *kernels;
  size_t capacity; /* rows of the largest block, a multiple of GEMM_PANEL */
  Layer layer[NETWORK_MAX_LAYERS];
  uint32_t *identity;   /* 0, 1, 2, ...: the index of a product that leaves nothing out */
  const uint8_t **row;  /* (capacity) the block's rows in the dataset */
  uint16_t *label;      /* (capacity) */
  Panels rows, columns; /* panels of rows for forward, of pixels for the gradient */
  double *loss;         /* (capacity) */
  bool *correct;        /* (capacity) */
  uint8_t *pixels;      /* the dataset: (dataset_rows + 1, stride), the last row black */
  uint16_t *labels;     /* (dataset_rows) */
  uint8_t *augmented;   /* as pixels; NULL until a range asks for it */
  TrainRange drawn;     /* whose rows `augmented` holds; rows 0: nobody's */
  StagingBuffer staging[2];
  EngineSums sums;
  Barrier barrier;
  void *block[MAX_BLOCKS]; /* all that was allocated */
  int blocks;
} CpuEngine;

/* Of rows a thread takes panels thread, thread + threads, ...; for weights see first_panel. */
typedef struct {
  size_t thread, threads;
} Team;

static size_t round_up(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Zeros on a cache line's boundary, freed with the engine. NULL when there is no memory, and from
   then on, so that one check of the last call is enough. */
static void *allocate(CpuEngine *cpu, size_t count, size_t size) {
  if (cpu->blocks && !cpu->block[cpu->blocks - 1]) return NULL;
  char *block = count < SIZE_MAX / 2 / size ? calloc(count * size + CACHE_LINE, 1) : NULL;
  cpu->block[cpu->blocks++] = block;
  return block ? block + (CACHE_LINE - (uintptr_t)block % CACHE_LINE) : NULL;
}

static void wait_for_all(Barrier *barrier, Team team) {
  const size_t phase = atomic_load(&barrier->phase);
  if (atomic_fetch_add(&barrier->arrived, 1) + 1 == team.threads) {
    atomic_store(&barrier->arrived, 0);
    pthread_mutex_lock(&barrier->mutex);
    atomic_store(&barrier->phase, phase + 1);
    pthread_mutex_unlock(&barrier->mutex);
    pthread_cond_broadcast(&barrier->opened);
    return;
  }
  for (int spin = 0; spin < BARRIER_SPINS; spin++) {
    if (atomic_load(&barrier->phase) != phase) return;
#ifdef __SSE2__
    _mm_pause();
#endif
  }
  pthread_mutex_lock(&barrier->mutex);
  while (atomic_load(&barrier->phase) == phase)
    pthread_cond_wait(&barrier->opened, &barrier->mutex);
  pthread_mutex_unlock(&barrier->mutex);
}

/* ---- the pixels of a block ------------------------------------------------------------- */

/* Both list the terms that are lit first: a black one's place is taken by the next. */
static void pack_rows(CpuEngine *cpu, size_t panel) {
  const uint8_t *const *row = cpu->row + panel * GEMM_PANEL;
  const size_t inputs = (size_t)cpu->engine.config.network.size[0];
  float *values = cpu->rows.values + panel * cpu->rows.length * GEMM_PANEL;
  uint32_t *index = cpu->rows.index + panel * cpu->rows.length;
  size_t terms = 0;
  for (size_t i = 0; i < inputs; i++) {
    index[terms] = (uint32_t)i;
    terms += (row[0][i] | row[1][i] | row[2][i] | row[3][i]) != 0;
  }
  for (size_t j = 0; j < terms; j++)
    for (size_t m = 0; m < GEMM_PANEL; m++)
      values[j * GEMM_PANEL + m] = (float)row[m][index[j]] * (1.0f / 255.0f);
  cpu->rows.terms[panel] = terms;
}

static void pack_columns(CpuEngine *cpu, size_t panel, size_t rows) {
  const uint8_t *const *row = cpu->row;
  const size_t first = panel * GEMM_PANEL;
  float *values = cpu->columns.values + panel * cpu->columns.length * GEMM_PANEL;
  uint32_t *index = cpu->columns.index + panel * cpu->columns.length;
  size_t terms = 0;
  for (size_t r = 0; r < rows; r++) {
    const uint8_t *pixel = row[r] + first;
    index[terms] = (uint32_t)r;
    terms += (pixel[0] | pixel[1] | pixel[2] | pixel[3]) != 0;
  }
  for (size_t j = 0; j < terms; j++)
    for (size_t m = 0; m < GEMM_PANEL; m++)
      values[j * GEMM_PANEL + m] = (float)row[index[j]][first + m] * (1.0f / 255.0f);
  cpu->columns.terms[panel] = terms;
}

static GemmTerms packed(const Panels *panels, size_t panel, const float *b, size_t b_row) {
  return (GemmTerms){.a = panels->values + panel * panels->length * GEMM_PANEL,
                     .a_row = 1,
                     .a_term = GEMM_PANEL,
                     .index = panels->index + panel * panels->length,
                     .terms = panels->terms[panel],
                     .b = b,
                     .b_row = b_row};
}

/* ---- a step's first part: rows ----------------------------------------------------------- */

/* Finds and packs the rows at positions [first, first + rows) of the range's window. */
static void fetch(CpuEngine *cpu, const TrainRange *range, uint64_t first, size_t rows, Team team) {
  const size_t stride = cpu->staging[0].stride;
  const uint8_t *pixels = range->augment ? cpu->augmented : cpu->pixels;
  for (size_t p = team.thread; p * GEMM_PANEL < rows; p += team.threads) {
    for (size_t r = p * GEMM_PANEL; r < (p + 1) * GEMM_PANEL; r++) {
      uint64_t row = cpu->engine.config.dataset_rows; /* black, past the last */
      if (r < rows) {
        const uint32_t position = (uint32_t)(first + r), window = (uint32_t)range->rows;
        row = range->first_row +
              (range->shuffled ? random_permute(position, window, range->key) : position);
        cpu->label[r] = cpu->labels[row];
      }
      cpu->row[r] = pixels + row * stride;
    }
    pack_rows(cpu, p);
  }
}

static void forward(CpuEngine *cpu, int l, size_t rows, Team team) {
  const Layer *layer = &cpu->layer[l];
  const bool relu = l + 1 < cpu->engine.config.network.layers;
  const size_t width = cpu->kernels->width;
  for (size_t column = 0; column < layer->out; column += width) {
    const float *weight = layer->weight + column;
    for (size_t p = team.thread; p * GEMM_PANEL < rows; p += team.threads) {
      GemmTerms terms;
      if (l == 0)
        terms = packed(&cpu->rows, p, weight, layer->out);
      else
        terms = (GemmTerms){.a = cpu->layer[l - 1].y + p * GEMM_PANEL * layer->in,
                            .a_row = layer->in,
                            .a_term = 1,
                            .index = cpu->identity,
                            .terms = (size_t)cpu->engine.config.network.size[l],
                            .b = weight,
                            .b_row = layer->out};
      cpu->kernels->forward(&terms, least(width, layer->out - column), layer->bias + column, relu,
                            layer->y + p * GEMM_PANEL * layer->out + column, layer->out);
    }
  }
}

/* Loss and correctness of row r of `rows`, and the gradient of the mean loss in its logits. */
static void row_loss(CpuEngine *cpu, size_t r, size_t rows) {
  const int layers = cpu->engine.config.network.layers;
  const size_t classes = (size_t)cpu->engine.config.network.size[layers];
  const Layer *layer = &cpu->layer[layers - 1];
  const float *logit = layer->y + r * layer->out;
  float *dy = layer->dy + r * layer->out;
  const size_t label = cpu->label[r];
  size_t best = 0;
  for (size_t c = 1; c < classes; c++)
    if (logit[c] > logit[best]) best = c;
  double sum = 0;
  for (size_t c = 0; c < classes; c++) {
    dy[c] = expf(logit[c] - logit[best]);
    sum += (double)dy[c];
  }
  cpu->loss[r] = log(sum) + (double)logit[best] - (double)logit[label];
  cpu->correct[r] = best == label;
  const float scale = (float)(1 / sum), mean = 1.0f / (float)rows;
  for (size_t c = 0; c < classes; c++) dy[c] = mean * (dy[c] * scale - (c == label ? 1.0f : 0.0f));
}

static void loss(CpuEngine *cpu, size_t rows, Team team) {
  for (size_t p = team.thread; p * GEMM_PANEL < rows; p += team.threads)
    for (size_t r = p * GEMM_PANEL; r < least((p + 1) * GEMM_PANEL, rows); r++)
      row_loss(cpu, r, rows);
}

/* From the gradient of layer l's output to that of the layer below. */
static void backward(CpuEngine *cpu, int l, size_t rows, Team team) {
  const Layer *layer = &cpu->layer[l], *below = &cpu->layer[l - 1];
  const size_t width = cpu->kernels->width;
  for (size_t column = 0; column < layer->in; column += width) {
    for (size_t p = team.thread; p * GEMM_PANEL < rows; p += team.threads) {
      const size_t at = p * GEMM_PANEL * layer->in + column;
      const GemmTerms terms = {.a = layer->dy + p * GEMM_PANEL * layer->out,
                               .a_row = layer->out,
                               .a_term = 1,
                               .index = cpu->identity,
                               .terms = (size_t)cpu->engine.config.network.size[l + 1],
                               .b = layer->weight_copy + column,
                               .b_row = layer->in};
      cpu->kernels->backward(&terms, least(width, layer->in - column), below->y + at,
                             below->dy + at, layer->in);
    }
  }
}

/* ---- a step's second part: weights ------------------------------------------------------- */

/* Thread t owns a layer's panels from first_panel(t) to first_panel(t + 1), in every step, and
   finds them in its cache. They are neighbours, whole cache lines of the copy too: no thread
   writes, or fetches ahead, what another owns. */
static size_t first_panel(const Layer *layer, size_t thread, size_t threads) {
  return layer->in / GEMM_ALIGN * thread / threads * (GEMM_ALIGN / GEMM_PANEL);
}

static void update_weights(CpuEngine *cpu, int l, size_t rows, const GemmUpdate *by, Team team) {
  const Layer *layer = &cpu->layer[l];
  const size_t width = cpu->kernels->width;
  const size_t end = first_panel(layer, team.thread + 1, team.threads);
  for (size_t p = first_panel(layer, team.thread, team.threads); p < end; p++) {
    if (l == 0) pack_columns(cpu, p, rows);
    for (size_t column = 0; column < layer->out; column += width) {
      const float *dy = layer->dy + column;
      const size_t at = p * GEMM_PANEL * layer->out + column;
      GemmTerms terms;
      float *copy = NULL;
      if (l == 0) {
        terms = packed(&cpu->columns, p, dy, layer->out);
      } else {
        terms = (GemmTerms){.a = cpu->layer[l - 1].y + p * GEMM_PANEL,
                            .a_row = 1,
                            .a_term = layer->in,
                            .index = cpu->identity,
                            .terms = rows,
                            .b = dy,
                            .b_row = layer->out};
        copy = layer->weight_copy + column * layer->in + p * GEMM_PANEL;
      }
      cpu->kernels->update(&terms, least(width, layer->out - column), by, layer->weight + at,
                           layer->weight_momentum + at, layer->out, copy, layer->in);
    }
  }
}

static void update_bias(CpuEngine *cpu, int l, size_t rows, const GemmUpdate *by, Team team) {
  const Layer *layer = &cpu->layer[l];
  for (size_t column = team.thread * GEMM_ALIGN; column < layer->out;
       column += team.threads * GEMM_ALIGN) {
    float sum[GEMM_ALIGN] = {0};
    for (size_t r = 0; r < rows; r++)
      for (size_t c = 0; c < GEMM_ALIGN; c++) sum[c] += layer->dy[r * layer->out + column + c];
    for (size_t c = 0; c < GEMM_ALIGN; c++) {
      float *v = layer->bias_momentum + column + c;
      *v = by->momentum * *v + sum[c];
      layer->bias[column + c] -= by->learning_rate * *v;
    }
  }
}

static void add_sums(CpuEngine *cpu, size_t rows) {
  for (size_t r = 0; r < rows; r++) {
    cpu->sums.loss += cpu->loss[r];
    cpu->sums.correct += cpu->correct[r];
  }
  cpu->sums.rows += rows;
}

static void train_step(CpuEngine *cpu, const TrainRange *range, uint64_t step, Team team) {
  const EngineConfig *config = &cpu->engine.config;
  const uint64_t batch = (uint64_t)config->batch, first = step * batch;
  const size_t rows = (size_t)(range->rows - first < batch ? range->rows - first : batch);
  const GemmUpdate by = {config->momentum, config->weight_decay, range->learning_rate};
  const int layers = config->network.layers;
  fetch(cpu, range, first, rows, team);
  for (int l = 0; l < layers; l++) forward(cpu, l, rows, team);
  loss(cpu, rows, team);
  for (int l = layers - 1; l > 0; l--) backward(cpu, l, rows, team);
  wait_for_all(&cpu->barrier, team);
  if (team.thread == 0) add_sums(cpu, rows);
  for (int l = layers - 1; l >= 0; l--) {
    update_weights(cpu, l, rows, &by, team);
    update_bias(cpu, l, rows, &by, team);
  }
  wait_for_all(&cpu->barrier, team);
}

/* Numbers below 1e-38 count as 0 in this thread: the momentum of a weight that is no longer
   trained fades to them, and they slow some processors down a hundredfold. */
static unsigned flush_denormals(void) {
#ifdef __SSE2__
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040); /* flush to zero, denormals are zero */
  return before;
#else
  return 0;
#endif
}

static void restore_denormals(unsigned before) {
#ifdef __SSE2__
  _mm_setcsr(before);
#else
  (void)before;
#endif
}

/* ---- the calls of engine.h ------------------------------------------------------------- */

static bool cpu_staging(Engine *engine, int index, StagingBuffer *out, Error *error) {
  (void)error;
  *out = ((CpuEngine *)engine)->staging[index];
  return true;
}

static bool in_store(const Engine *engine, uint64_t first_row, uint64_t rows, Error *error) {
  const uint64_t capacity = engine->config.dataset_rows;
  if (rows <= capacity && first_row <= capacity - rows) return true;
  return error_set(error, "rows %llu to %llu are outside the engine's dataset of %llu rows",
                   (unsigned long long)first_row, (unsigned long long)(first_row + rows),
                   (unsigned long long)capacity);
}

static bool cpu_upload(Engine *engine, int index, uint64_t first_row, uint64_t rows, Error *error) {
  CpuEngine *cpu = (CpuEngine *)engine;
  const StagingBuffer *from = &cpu->staging[index];
  if (!in_store(engine, first_row, rows, error)) return false;
  if (rows > engine->config.staging_rows)
    return error_set(error, "a staging buffer has no %llu rows, only %llu",
                     (unsigned long long)rows, (unsigned long long)engine->config.staging_rows);
  memcpy(cpu->pixels + first_row * from->stride, from->pixels, rows * from->stride);
  memcpy(cpu->labels + first_row, from->labels, rows * sizeof *from->labels);
  cpu->drawn.rows = 0;
  return true;
}

/* Distorts the rows of the range's window into `augmented`, unless they are there. */
static bool augment(CpuEngine *cpu, const TrainRange *range, Error *error) {
  const int inputs = cpu->engine.config.network.size[0], side = augment_side(inputs);
  const size_t stride = cpu->staging[0].stride, rows = cpu->engine.config.dataset_rows + 1;
  const TrainRange *d = &cpu->drawn;
  if (!side)
    return error_set(error, "pictures of %d pixels are not square: they cannot be augmented",
                     inputs);
  if (d->first_row == range->first_row && d->rows == range->rows && d->augment == range->augment &&
      d->augment_key == range->augment_key)
    return true;
  if (!cpu->augmented) cpu->augmented = allocate(cpu, rows, stride);
  if (!cpu->augmented)
    return error_set(error, "no %.1f MB of memory for augmented rows: try --resident no",
                     (double)(rows * stride) / 1e6);
#pragma omp parallel for num_threads(cpu->engine.config.threads)
  for (uint64_t r = 0; r < range->rows; r++) {
    const size_t at = (range->first_row + r) * stride;
    augment_row(range->augment, range->augment_key, (uint32_t)r, cpu->pixels + at,
                cpu->augmented + at, side);
  }
  cpu->drawn = *range;
  return true;
}

static bool cpu_train(Engine *engine, const TrainRange *range, Error *error) {
  CpuEngine *cpu = (CpuEngine *)engine;
  const uint64_t batch = (uint64_t)engine->config.batch;
  const uint64_t all = (range->rows + batch - 1) / batch;
  if (!in_store(engine, range->first_row, range->rows, error)) return false;
  if (range->steps > all || range->first_step > all - range->steps)
    return error_set(error, "%llu rows have no steps %llu to %llu", (unsigned long long)range->rows,
                     (unsigned long long)range->first_step,
                     (unsigned long long)(range->first_step + range->steps));
  if (range->augment && !augment(cpu, range, error)) return false;
#pragma omp parallel num_threads(engine->config.threads)
  {
    const Team team = {(size_t)omp_get_thread_num(), (size_t)omp_get_num_threads()};
    const unsigned before = flush_denormals();
    for (uint64_t s = 0; s < range->steps; s++) train_step(cpu, range, range->first_step + s, team);
    restore_denormals(before);
  }
  return true;
}

static bool cpu_evaluate(Engine *engine, uint64_t first_row, uint64_t rows, Error *error) {
  CpuEngine *cpu = (CpuEngine *)engine;
  if (!in_store(engine, first_row, rows, error)) return false;
  const TrainRange range = {.first_row = first_row, .rows = rows};
#pragma omp parallel num_threads(engine->config.threads)
  {
    const Team team = {(size_t)omp_get_thread_num(), (size_t)omp_get_num_threads()};
    const unsigned before = flush_denormals();
    for (uint64_t first = 0; first < rows; first += cpu->capacity) {
      const size_t count = rows - first < cpu->capacity ? rows - first : cpu->capacity;
      fetch(cpu, &range, first, count, team);
      for (int l = 0; l < engine->config.network.layers; l++) forward(cpu, l, count, team);
      loss(cpu, count, team);
      wait_for_all(&cpu->barrier, team);
      if (team.thread == 0) add_sums(cpu, count);
      wait_for_all(&cpu->barrier, team);
    }
    restore_denormals(before);
  }
  return true;
}

/* Without a barrier: a thread's rows depend on no other thread. */
static bool cpu_predict(Engine *engine, uint64_t first_row, uint64_t rows, float *logits,
                        Error *error) {
  CpuEngine *cpu = (CpuEngine *)engine;
  const int layers = engine->config.network.layers;
  const size_t classes = (size_t)engine->config.network.size[layers];
  const Layer *last = &cpu->layer[layers - 1];
  if (!in_store(engine, first_row, rows, error)) return false;
  const TrainRange range = {.first_row = first_row, .rows = rows};
#pragma omp parallel num_threads(engine->config.threads)
  {
    const Team team = {(size_t)omp_get_thread_num(), (size_t)omp_get_num_threads()};
    const unsigned before = flush_denormals();
    for (uint64_t first = 0; first < rows; first += cpu->capacity) {
      const size_t count = rows - first < cpu->capacity ? rows - first : cpu->capacity;
      fetch(cpu, &range, first, count, team);
      for (int l = 0; l < layers; l++) forward(cpu, l, count, team);
      for (size_t p = team.thread; p * GEMM_PANEL < count; p += team.threads)
        for (size_t r = p * GEMM_PANEL; r < least((p + 1) * GEMM_PANEL, count); r++)
          memcpy(logits + (first + r) * classes, last->y + r * last->out, classes * sizeof *logits);
    }
    restore_denormals(before);
  }
  return true;
}

static bool cpu_collect(Engine *engine, EngineSums *sums, Error *error) {
  (void)error;
  CpuEngine *cpu = (CpuEngine *)engine;
  *sums = cpu->sums;
  cpu->sums = (EngineSums){0};
  return true;
}

/* One of the engine's two arrays as network.h lays it out. */
static void read_flat(const CpuEngine *cpu, bool momentum, float *flat) {
  const Network *network = &cpu->engine.config.network;
  memset(flat, 0, network->floats * sizeof *flat);
  for (int l = 0; l < network->layers; l++) {
    const Layer *layer = &cpu->layer[l];
    const float *weight = momentum ? layer->weight_momentum : layer->weight;
    const float *bias = momentum ? layer->bias_momentum : layer->bias;
    const size_t in = (size_t)network->size[l], out = (size_t)network->size[l + 1];
    for (size_t o = 0; o < out; o++)
      for (size_t i = 0; i < in; i++)
        flat[network->weight[l] + o * in + i] = weight[i * layer->out + o];
    memcpy(flat + network->bias[l], bias, out * sizeof *flat);
  }
}

static void write_flat(CpuEngine *cpu, bool momentum, const float *flat) {
  const Network *network = &cpu->engine.config.network;
  for (int l = 0; l < network->layers; l++) {
    Layer *layer = &cpu->layer[l];
    float *weight = momentum ? layer->weight_momentum : layer->weight;
    float *bias = momentum ? layer->bias_momentum : layer->bias;
    const size_t in = (size_t)network->size[l], out = (size_t)network->size[l + 1];
    for (size_t o = 0; o < out; o++)
      for (size_t i = 0; i < in; i++)
        weight[i * layer->out + o] = flat[network->weight[l] + o * in + i];
    if (l > 0 && !momentum)
      for (size_t o = 0; o < out; o++)
        memcpy(layer->weight_copy + o * layer->in, flat + network->weight[l] + o * in,
               in * sizeof *flat);
    memcpy(bias, flat + network->bias[l], out * sizeof *flat);
  }
}

static bool cpu_read(Engine *engine, float *parameters, float *momentum, Error *error) {
  (void)error;
  if (parameters) read_flat((CpuEngine *)engine, false, parameters);
  if (momentum) read_flat((CpuEngine *)engine, true, momentum);
  return true;
}

static bool cpu_write(Engine *engine, const float *parameters, const float *momentum,
                      Error *error) {
  (void)error;
  if (parameters) write_flat((CpuEngine *)engine, false, parameters);
  if (momentum) write_flat((CpuEngine *)engine, true, momentum);
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

static void allocate_panels(CpuEngine *cpu, Panels *panels, size_t count, size_t length) {
  panels->length = length;
  panels->values = allocate(cpu, count * length * GEMM_PANEL, sizeof *panels->values);
  panels->index = allocate(cpu, count * length, sizeof *panels->index);
  panels->terms = allocate(cpu, count, sizeof *panels->terms);
}

/* Floats of a row of `size` values. Rows 1 KiB apart or a multiple of it would fall on few of a
   cache's sets. */
static size_t row_length(size_t size) {
  const size_t length = round_up(size, GEMM_ALIGN);
  return length % 256 ? length : length + GEMM_ALIGN;
}

static bool allocate_all(CpuEngine *cpu) {
  const EngineConfig *config = &cpu->engine.config;
  const Network *network = &config->network;
  size_t longest = cpu->capacity;
  for (int l = 0; l < network->layers; l++) {
    Layer *layer = &cpu->layer[l];
    layer->in = l ? cpu->layer[l - 1].out : round_up((size_t)network->size[0], GEMM_ALIGN);
    layer->out = row_length((size_t)network->size[l + 1]);
    if (layer->in > longest) longest = layer->in;
    if (layer->out > longest) longest = layer->out;
    layer->weight = allocate(cpu, layer->in * layer->out, sizeof(float));
    layer->weight_momentum = allocate(cpu, layer->in * layer->out, sizeof(float));
    layer->bias = allocate(cpu, layer->out, sizeof(float));
    layer->bias_momentum = allocate(cpu, layer->out, sizeof(float));
    layer->y = allocate(cpu, cpu->capacity * layer->out, sizeof(float));
    layer->dy = allocate(cpu, cpu->capacity * layer->out, sizeof(float));
    if (l > 0) layer->weight_copy = allocate(cpu, layer->in * layer->out, sizeof(float));
  }
  const size_t inputs = cpu->layer[0].in, staging_rows = config->staging_rows;
  allocate_panels(cpu, &cpu->rows, cpu->capacity / GEMM_PANEL, inputs);
  allocate_panels(cpu, &cpu->columns, inputs / GEMM_PANEL, cpu->capacity);
  cpu->identity = allocate(cpu, longest, sizeof *cpu->identity);
  cpu->row = allocate(cpu, cpu->capacity, sizeof *cpu->row);
  cpu->label = allocate(cpu, cpu->capacity, sizeof *cpu->label);
  cpu->loss = allocate(cpu, cpu->capacity, sizeof *cpu->loss);
  cpu->correct = allocate(cpu, cpu->capacity, sizeof *cpu->correct);
  cpu->labels = allocate(cpu, config->dataset_rows, sizeof *cpu->labels);
  cpu->pixels = allocate(cpu, config->dataset_rows + 1, inputs);
  for (int s = 0; s < 2; s++) {
    cpu->staging[s].stride = inputs;
    cpu->staging[s].labels = allocate(cpu, staging_rows, sizeof *cpu->staging[s].labels);
    cpu->staging[s].pixels = allocate(cpu, staging_rows, inputs);
  }
  if (!cpu->staging[1].pixels) return false;
  for (size_t i = 0; i < longest; i++) cpu->identity[i] = (uint32_t)i;
  return true;
}

static const EngineOperations operations = {
    .staging = cpu_staging,
    .upload = cpu_upload,
    .train = cpu_train,
    .evaluate = cpu_evaluate,
    .predict = cpu_predict,
    .collect = cpu_collect,
    .read = cpu_read,
    .write = cpu_write,
    .close = cpu_close,
};

/* Everything but the parameters; false when there is no memory. */
static bool prepare(CpuEngine *cpu, const EngineConfig *config) {
  Engine *engine = &cpu->engine;
  engine->call = &operations;
  engine->config = *config;
  engine->config.fusion = FUSION_LAYER;
  engine->config.precision = PRECISION_FP32;
  engine->memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
  cpu->kernels = gemm_kernels(0);
  snprintf(engine->device, sizeof engine->device, "CPU, %d thread%s, %s", config->threads,
           config->threads == 1 ? "" : "s", cpu->kernels->name);
  snprintf(engine->reason, sizeof engine->reason, "the CPU engine has no other");
  pthread_mutex_init(&cpu->barrier.mutex, NULL); /* on Linux neither can fail */
  pthread_cond_init(&cpu->barrier.opened, NULL);
  const uint64_t rows = least(config->dataset_rows, (size_t)config->batch);
  cpu->capacity = round_up(rows > EVALUATION_ROWS ? rows : EVALUATION_ROWS, GEMM_PANEL);
  return allocate_all(cpu);
}

Engine *engine_cpu_open(const EngineConfig *config, Error *error) {
  if (config->batch < 1 || config->threads < 1 || !config->dataset_rows || !config->staging_rows) {
    error_set(error,
              "the batch, threads, dataset and staging buffers of an engine must be at least 1");
    return NULL;
  }
  CpuEngine *cpu = calloc(1, sizeof *cpu);
  float *parameters = malloc(config->network.floats * sizeof *parameters);
  const bool ready = cpu && prepare(cpu, config) && parameters;
  if (ready) {
    network_initialise(&config->network, config->seed, parameters);
    write_flat(cpu, false, parameters);
  } else {
    error_set(error, "out of memory for a CPU engine of %llu rows and %zu parameters",
              (unsigned long long)config->dataset_rows, config->network.parameters);
    if (cpu) cpu_close(&cpu->engine);
  }
  free(parameters);
  return ready ? &cpu->engine : NULL;
}
