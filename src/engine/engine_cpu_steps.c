/* A training step of the CPU engine on OpenMP threads. A call of train is one parallel region. A
   step has two halves; each ends with a barrier. In the first half, each thread runs forward and
   backward for its own rows. In the second half, each thread computes the gradient of its own
   weights over all rows, and updates these weights. No sum is split over threads, so the bits do
   not depend on the number of threads. With several ranks, threads store gradients, which the ranks
   add before the update. */
#include "engine/engine_cpu.h"
#include "activation.h"

#include <omp.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

_Static_assert(GEMM_PANEL == 4, "pack looks at four pixels at a time");

enum {
  BARRIER_SPINS = 1000, /* about 20 us, longer than the usual wait */
  MOST_COLUMNS = 64,    /* columns of the widest tile of gemm_cpu.c */
};

/* If `flush`, makes this thread replace numbers below 1e-38 by 0, because such numbers are slow on
   some processors. Otherwise, ends the replacement. */
static void flush_denormals(bool flush) {
#ifdef __SSE2__
  const unsigned both = 0x8040; /* bits of MXCSR: flush to zero, denormals are zero */
  _mm_setcsr(flush ? _mm_getcsr() | both : _mm_getcsr() & ~both);
#else
  (void)flush;
#endif
}

/* Returns the calling thread's Team. Calls flush_denormals(true); the caller must end the flushing.
   All threads of a team make the same calls with their Team, in the same order. */
static Team join_team(void) {
  flush_denormals(true);
  return (Team){(size_t)omp_get_thread_num(), (size_t)omp_get_num_threads()};
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

/* Packs a panel of four rows, with pixels as terms. If `columns`, packs a panel of four columns,
   with rows as terms. If the network reads black as 0, skips terms whose four pixels are black. */
static inline __attribute__((always_inline)) void pack(CpuEngine *cpu, Panels *panels, size_t panel,
                                                       size_t count, const bool columns) {
  const PixelFactor by = training_pixel_factor(&cpu->engine.config.training);
  const bool all = by.offset != 0;
  const size_t first = panel * GEMM_PANEL;
  const uint8_t *const *row = cpu->row + (columns ? 0 : first);
  float *values = panels->values + panel * panels->length * GEMM_PANEL;
  uint32_t *index = panels->index + panel * panels->length;
  size_t terms = 0;
#define PIXEL(term, m) (columns ? row[term][first + (m)] : row[m][term])
  for (size_t i = 0; i < count; i++) {
    index[terms] = (uint32_t)i;
    terms += all || (PIXEL(i, 0) | PIXEL(i, 1) | PIXEL(i, 2) | PIXEL(i, 3)) != 0;
  }
  for (size_t j = 0; j < terms; j++)
    for (size_t m = 0; m < GEMM_PANEL; m++)
      values[j * GEMM_PANEL + m] = PIXEL(index[j], m) * by.factor - by.offset;
#undef PIXEL
  panels->terms[panel] = terms;
}

static GemmTerms packed(const Panels *panels, size_t panel, const float *b, size_t b_row) {
  const size_t first = panel * panels->length;
  const float *values = panels->values + first * GEMM_PANEL;
  const uint32_t *index = panels->index + first;
  return (GemmTerms){values, 1, GEMM_PANEL, index, panels->terms[panel], b, b_row};
}

/* ---- the first half of a step: rows ---------------------------------------------------------- */

/* Finds and packs the rows at positions [first, first + rows) of the range's window. */
static void fetch(CpuEngine *cpu, const TrainRange *range, uint64_t first, size_t rows, Team team) {
  const size_t stride = cpu->staging[0].stride;
  const uint8_t *pixels = augment_any(range->augment) ? cpu->augmented : cpu->pixels;
  OWN_PANELS (p, rows, team) {
    for (size_t r = p * GEMM_PANEL; r < (p + 1) * GEMM_PANEL; r++) {
      uint64_t row = cpu->engine.config.dataset_rows; /* the black row after the dataset */
      if (r < rows) {
        const uint32_t position = (uint32_t)(first + r), window = (uint32_t)range->rows;
        row = range->first_row +
              (range->shuffled ? random_permute(position, window, range->key) : position);
        cpu->label[r] = cpu->labels[row];
      }
      cpu->row[r] = pixels + row * stride;
    }
    pack(cpu, &cpu->rows, p, cpu->layer->inputs, false);
  }
}

/* Computes the output of layer l with the parameters in `array`, PARAMETERS or AVERAGE. */
static void forward(CpuEngine *cpu, int l, int array, size_t rows, Team team) {
  const Layer *layer = &cpu->layer[l];
  const bool activates = l + 1 < cpu->engine.config.network.layers;
  const size_t width = cpu->kernels->width;
  const float *biases = layer->array[array] + layer->in * layer->out;
  for (size_t column = 0; column < layer->out; column += width) {
    const float *weight = layer->array[array] + column;
    OWN_PANELS (p, rows, team) {
      const float *x = l > 0 ? cpu->layer[l - 1].y + p * GEMM_PANEL * layer->in : NULL;
      const GemmTerms of =
          x ? (GemmTerms){x, layer->in, 1, cpu->identity, layer->inputs, weight, layer->out}
            : packed(&cpu->rows, p, weight, layer->out);
      cpu->kernels->forward(&of, min_size(width, layer->out - column), biases + column, activates,
                            layer->y + p * GEMM_PANEL * layer->out + column, layer->out);
    }
  }
}

/* Applies dropout to this thread's rows of layer l's output. `first` is the position of row 0. */
static void drop(CpuEngine *cpu, const TrainRange *range, int l, uint64_t first, size_t rows,
                 Team team) {
  const Layer *layer = &cpu->layer[l];
  const float share = training_dropout(&cpu->engine.config.training, l), scale = 1 / (1 - share);
  OWN_ROWS (r, rows, team) {
    float *y = layer->y + r * layer->out;
    for (size_t n = 0; n < layer->outputs; n += 4) { /* the last 4 may include padding */
      const RandomWords words = random_dropout(range->dropout_key, (uint32_t)l + 1,
                                               (uint32_t)(first + r), (uint32_t)(n / 4));
      for (size_t i = 0; i < 4; i++)
        y[n + i] = activation_drop(y[n + i], scale, random_drops(words.word[i], share));
    }
  }
}

/* Computes each row's loss, whether its prediction is correct, and the gradient of the logits. The
   loss to differentiate is the mean over `all_rows` rows. */
static void loss(CpuEngine *cpu, size_t rows, size_t all_rows, float smoothing, Team team) {
  const Layer *layer = &cpu->layer[cpu->engine.config.network.layers - 1];
  const size_t classes = layer->outputs;
  OWN_ROWS (r, rows, team) {
    const float *logit = layer->y + r * layer->out;
    float *dy = layer->dy + r * layer->out;
    const size_t label = cpu->label[r];
    size_t best = 0;
    for (size_t c = 1; c < classes; c++)
      if (logit[c] > logit[best]) best = c;
    double sum = 0, all = 0;
    for (size_t c = 0; c < classes; c++) {
      dy[c] = expf(logit[c] - logit[best]);
      sum += dy[c];
      all += logit[c];
    }
    cpu->loss[r] = log(sum) + logit[best] - logit[label];
    if (smoothing > 0) cpu->loss[r] -= smoothing * (all / (double)classes - logit[label]);
    cpu->correct[r] = best == label;
    const float scale = (float)(1 / sum), mean = 1.0f / (float)all_rows;
    const float others = smoothing / (float)classes, own = 1 - smoothing + others;
    for (size_t c = 0; c < classes; c++)
      dy[c] = mean * (dy[c] * scale - (c == label ? own : others));
  }
}

/* Computes the gradient of layer l - 1 from the gradient of layer l. At a dropped output the slope
   is 0 (activation_drop). All other gradients are scaled like the outputs in drop(). */
static void backward(CpuEngine *cpu, int l, size_t rows, Team team) {
  const Layer *layer = &cpu->layer[l], *below = &cpu->layer[l - 1];
  const size_t width = cpu->kernels->width;
  const float share = training_dropout(&cpu->engine.config.training, l - 1),
              scale = 1 / (1 - share);
  for (size_t column = 0; column < layer->in; column += width) {
    OWN_PANELS (p, rows, team) {
      const size_t at = p * GEMM_PANEL * layer->in + column;
      const float *dy = layer->dy + p * GEMM_PANEL * layer->out, *w = layer->weight_copy + column;
      const GemmTerms terms = {dy, layer->out, 1, cpu->identity, layer->outputs, w, layer->in};
      cpu->kernels->backward(&terms, min_size(width, layer->in - column), below->y + at, scale,
                             below->dy + at, layer->in);
    }
  }
  if (share > 0)
    OWN_ROWS (r, rows, team)
      for (size_t i = 0; i < layer->in; i++) below->dy[r * layer->in + i] *= scale;
}

/* ---- the second half of a step: weights ------------------------------------------------------ */

/* Returns the first panel of weights that a thread owns. Thread t owns panels first_panel(t) to
   first_panel(t + 1) - 1 in every step, so the weights stay in the cache of the thread's core. */
static size_t first_panel(const Layer *layer, size_t thread, size_t threads) {
  return layer->in / GEMM_ALIGN * thread / threads * (GEMM_ALIGN / GEMM_PANEL);
}

/* The use of a gradient. */
typedef enum {
  UPDATE,          /* compute the gradient and update the weights */
  STORE,           /* compute the gradient and store it */
  UPDATE_BY_STORED /* update the weights from the stored gradient */
} Use;

/* Returns the terms of a tile of layer l's weight gradient: panel p, columns from `column` on. */
static GemmTerms gradient_terms(const CpuEngine *cpu, int l, size_t p, size_t column, size_t rows,
                                Use use) {
  static const float one[GEMM_PANEL * GEMM_PANEL] = {1, 0, 0, 0, 0, 1, 0, 0,
                                                     0, 0, 1, 0, 0, 0, 0, 1};
  const Layer *layer = &cpu->layer[l];
  const size_t first = p * GEMM_PANEL;
  const float *dy = layer->dy + column;
  if (use == UPDATE_BY_STORED) {
    const float *stored = cpu->gradients + layer->gradient + first * layer->out + column;
    return (GemmTerms){one, GEMM_PANEL, 1, cpu->identity, GEMM_PANEL, stored, layer->out};
  }
  if (l == 0) return packed(&cpu->columns, p, dy, layer->out);
  const float *x = cpu->layer[l - 1].y + first;
  return (GemmTerms){x, 1, layer->in, cpu->identity, rows, dy, layer->out};
}

static void update_weights(CpuEngine *cpu, int l, size_t rows, OptimizerStep step, Use use,
                           Team team) {
  static const float zeros[MOST_COLUMNS] __attribute__((aligned(64)));
  const OptimizerRule *rule = &cpu->engine.config.training.rule;
  const GemmKernels *kernels = cpu->kernels;
  const Layer *layer = &cpu->layer[l];
  const size_t end = first_panel(layer, team.thread + 1, team.threads);
  float tile[GEMM_PANEL * MOST_COLUMNS] __attribute__((aligned(64)));
  for (size_t p = first_panel(layer, team.thread, team.threads); p < end; p++) {
    if (l == 0 && use != UPDATE_BY_STORED) pack(cpu, &cpu->columns, p, rows, true);
    for (size_t column = 0; column < layer->out; column += kernels->width) {
      const size_t columns = min_size(kernels->width, layer->out - column);
      const size_t first = p * GEMM_PANEL, at = first * layer->out + column;
      const GemmTerms terms = gradient_terms(cpu, l, p, column, rows, use);
      float *copy = l > 0 ? layer->weight_copy + column * layer->in + first : NULL;
      if (use == STORE) {
        kernels->forward(&terms, columns, zeros, false, cpu->gradients + layer->gradient + at,
                         layer->out);
      } else if (rule->kind == OPTIMIZER_SGD) {
        kernels->update(&terms, columns, rule, step.rate, layer->array[PARAMETERS] + at,
                        layer->array[FIRST_MOMENT] + at, layer->out, copy, layer->in);
      } else {
        kernels->forward(&terms, columns, zeros, false, tile, MOST_COLUMNS);
        for (size_t r = 0; r < GEMM_PANEL; r++) {
          const size_t row = at + r * layer->out;
          cpu_optimize(cpu, layer, row, columns, tile + r * MOST_COLUMNS, rule->weight_decay, step);
          for (size_t c = 0; copy && c < columns; c++)
            copy[c * layer->in + r] = layer->array[PARAMETERS][row + c];
        }
      }
    }
  }
}

static void update_bias(CpuEngine *cpu, int l, size_t rows, OptimizerStep step, Use use,
                        Team team) {
  const Layer *layer = &cpu->layer[l];
  for (size_t column = team.thread * GEMM_ALIGN; column < layer->out;
       column += team.threads * GEMM_ALIGN) {
    const size_t at = layer->in * layer->out + column;
    float sum[GEMM_ALIGN] = {0};
    if (use == UPDATE_BY_STORED) memcpy(sum, cpu->gradients + layer->gradient + at, sizeof sum);
    for (size_t r = 0; r < rows && use != UPDATE_BY_STORED; r++)
      for (size_t c = 0; c < GEMM_ALIGN; c++) sum[c] += layer->dy[r * layer->out + column + c];
    if (use == STORE)
      memcpy(cpu->gradients + layer->gradient + at, sum, sizeof sum);
    else
      cpu_optimize(cpu, layer, at, GEMM_ALIGN, sum, 0, step);
  }
}

/* Updates this thread's part of a layer's average. The caller has updated all parameters. */
static void average(const Layer *layer, float keeps, Team team) {
  const size_t lines = (layer->in + 1) * layer->out / GEMM_ALIGN;
  const size_t from = GEMM_ALIGN * part_start(lines, team.thread, team.threads);
  const size_t end = GEMM_ALIGN * part_start(lines, team.thread + 1, team.threads);
  cpu_average(layer->array[AVERAGE] + from, layer->array[PARAMETERS] + from, end - from, keeps);
}

static void add_sums(CpuEngine *cpu, size_t rows) {
  for (size_t r = 0; r < rows; r++) {
    cpu->sums.loss += cpu->loss[r];
    cpu->sums.correct += cpu->correct[r];
  }
  cpu->sums.rows += rows;
}

/* Updates all layers or stores their gradients. `updates` is the number of earlier updates. */
static void update_all(CpuEngine *cpu, size_t rows, const TrainRange *range, uint32_t updates,
                       Use use, Team team) {
  const EngineConfig *config = &cpu->engine.config;
  const OptimizerStep by = optimizer_step(config->training.rule, range->learning_rate, updates);
  for (int l = config->network.layers - 1; l >= 0; l--) {
    update_weights(cpu, l, rows, by, use, team);
    update_bias(cpu, l, rows, by, use, team);
  }
  wait_for_all(&cpu->barrier, team);
  for (int l = 0; l < config->network.layers && config->training.ema > 0 && use != STORE; l++)
    average(&cpu->layer[l], optimizer_average_keeps(config->training.ema, updates), team);
}

/* Runs step `step` of a range. Returns false if ranks cannot add gradients (see cpu->failure). */
static bool train_step(CpuEngine *cpu, const TrainRange *range, uint64_t step, Team team) {
  const EngineConfig *config = &cpu->engine.config;
  const uint64_t batch = (uint64_t)config->training.batch;
  uint64_t first = step * batch;
  const size_t all_rows = min_size(batch, range->rows - first);
  uint64_t rows = all_rows;
  engine_own_rows(config, &first, &rows);
  const uint32_t updates = (uint32_t)(range->updates + step - range->first_step);
  const int layers = config->network.layers;
  fetch(cpu, range, first, rows, team);
  for (int l = 0; l < layers; l++) {
    forward(cpu, l, PARAMETERS, rows, team);
    if (l + 1 < layers && training_dropout(&config->training, l) > 0)
      drop(cpu, range, l, first, rows, team);
  }
  loss(cpu, rows, all_rows, config->training.label_smoothing, team);
  for (int l = layers - 1; l > 0; l--) backward(cpu, l, rows, team);
  wait_for_all(&cpu->barrier, team);
  if (team.thread == 0) add_sums(cpu, rows);
  if (cpu->gradients) {
    update_all(cpu, rows, range, updates, STORE, team);
    if (team.thread == 0) /* only thread 0 talks to the other ranks */
      ranks_sum_floats(config->ranks, cpu->gradients, cpu->gradient_floats, &cpu->failure);
    wait_for_all(&cpu->barrier, team);
    if (*cpu->failure.text) return false;
  }
  update_all(cpu, rows, range, updates, cpu->gradients ? UPDATE_BY_STORED : UPDATE, team);
  return true;
}

/* ---- the calls of engine.h ------------------------------------------------------------------- */

/* Writes augmented copies of the window's rows to cpu->augmented, unless it already has them. */
static void augment(CpuEngine *cpu, const TrainRange *range) {
  const int side = augment_side(cpu->engine.config.network.size[0]);
  const size_t stride = cpu->staging[0].stride;
  if (engine_augments_alike(&cpu->drawn, range)) return;
#pragma omp parallel for num_threads(cpu->engine.config.training.threads)
  for (uint64_t r = 0; r < range->rows; r++) {
    const size_t at = (range->first_row + r) * stride;
    augment_row(range->augment, range->augment_key, (uint32_t)r, cpu->pixels + at,
                cpu->augmented + at, side);
  }
  cpu->drawn = *range;
}

bool cpu_train(Engine *engine, const TrainRange *range, Error *error) {
  CpuEngine *cpu = (CpuEngine *)engine;
  if (!engine_can_train(&engine->config, range, error)) return false;
  if (augment_any(range->augment)) augment(cpu, range);
  *cpu->failure.text = '\0';
#pragma omp parallel num_threads(engine->config.training.threads)
  {
    const Team team = join_team();
    uint64_t s = 0;
    while (s < range->steps && train_step(cpu, range, range->first_step + s, team)) s++;
    flush_denormals(false);
  }
  return !*cpu->failure.text || error_set(error, "%s", cpu->failure.text);
}

/* Each thread writes the logits of its own rows without waiting for other threads. */
bool cpu_predict(Engine *engine, uint64_t first_row, uint64_t rows, float *logits, Error *error) {
  CpuEngine *cpu = (CpuEngine *)engine;
  if (!engine_has_rows(&engine->config, first_row, rows, error)) return false;
  const TrainRange range = {.first_row = first_row, .rows = rows};
  const int layers = engine->config.network.layers;
  const Layer *last = &cpu->layer[layers - 1];
  const size_t classes = last->outputs;
#pragma omp parallel num_threads(engine->config.training.threads)
  {
    const Team team = join_team();
    for (uint64_t first = 0; first < rows; first += cpu->capacity) {
      const size_t count = min_size(rows - first, cpu->capacity);
      fetch(cpu, &range, first, count, team);
      for (int l = 0; l < layers; l++)
        forward(cpu, l, cpu->layer[l].array[AVERAGE] ? AVERAGE : PARAMETERS, count, team);
      OWN_ROWS (r, logits ? count : 0, team)
        memcpy(logits + (first + r) * classes, last->y + r * last->out, classes * sizeof *logits);
      if (logits) continue;
      loss(cpu, count, count, 0, team);
      wait_for_all(&cpu->barrier, team);
      if (team.thread == 0) add_sums(cpu, count);
      wait_for_all(&cpu->barrier, team);
    }
    flush_denormals(false);
  }
  return true;
}
