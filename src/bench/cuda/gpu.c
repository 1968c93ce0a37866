/* Describes the GPU, and measures what it can do at most and how long each kernel of level layer
   takes. */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "bench/cuda/cublas.h"
#include "engine/cuda/gpu_limits.h"
#include "kernels.h"

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

static bool add_ceiling(Record *record, const char *name, double value, const char *unit,
                        Error *error) {
  return bench_add(record, "ceiling", name, value, unit, NAN, NAN, error);
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

/* The median seconds of one call of the work. */
static bool time_work(const char *name, GpuWork work, double *seconds, Error *error) {
  Stats times;
  if (!gpu_time(name, work, GPU_SAMPLES, &times, error)) return false;
  *seconds = times.median;
  return true;
}

static bool add_rates(Record *record, Error *error) {
  double copy, link;
  return gpu_copy_rate(&copy, error) &&
         add_ceiling(record, BENCH_COPY, copy / 1e9, "GB/s", error) &&
         gpu_link_rate(&link, error) &&
         add_ceiling(record, BENCH_PINNED, link / 1e9, "GB/s", error);
}

enum { SGEMM_SIDE = 4096 };

typedef struct {
  cublasHandle_t cublas;
  float *d_a, *d_b, *d_c;
} Sgemm;

static cudaError_t queue_sgemm(void *context, cudaStream_t stream) {
  const Sgemm *s = context;
  const float one = 1, zero = 0;
  const int n = SGEMM_SIDE;
  if (cublasSetStream(s->cublas, stream) != CUBLAS_STATUS_SUCCESS ||
      cublasSgemm(s->cublas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, s->d_a, n, s->d_b, n, &zero,
                  s->d_c, n) != CUBLAS_STATUS_SUCCESS)
    return cudaErrorUnknown;
  return cudaSuccess;
}

static bool add_sgemm_rate(Record *record, Sgemm *sgemm, const char *name, cublasMath_t math,
                           Error *error) {
  double seconds;
  return cublas_done(cublasSetMathMode(sgemm->cublas, math), name, error) &&
         time_work(name, (GpuWork){queue_sgemm, sgemm, 8, false}, &seconds, error) &&
         add_ceiling(record, name, 2 * pow(SGEMM_SIDE, 3) / seconds / 1e12, "TFLOP/s", error);
}

/* count random numbers from -1 to 1 on the device: zeros would be multiplied faster. */
static bool random_floats(float **d_out, size_t count, uint64_t seed, Error *error) {
  float *h = malloc(count * sizeof *h);
  if (!h) return error_set(error, "no memory for %zu random numbers", count);
  for (size_t i = 0; i < count; i += 4) {
    const RandomWords words = random_words(seed, 0, i);
    for (size_t k = 0; k < 4 && i + k < count; k++) h[i + k] = 2 * random_unit(words.word[k]) - 1;
  }
  const size_t bytes = count * sizeof *h;
  const bool good =
      cuda_done(cudaMalloc((void **)d_out, bytes), "allocating", error) &&
      cuda_done(cudaMemcpy(*d_out, h, bytes, cudaMemcpyHostToDevice), "copying", error);
  free(h);
  return good;
}

static bool measure_sgemm(Record *record, Error *error) {
  const size_t count = (size_t)SGEMM_SIDE * SGEMM_SIDE;
  Sgemm s = {0};
  const bool good =
      cublas_done(cublasCreate(&s.cublas), "starting", error) &&
      random_floats(&s.d_a, count, 1, error) && random_floats(&s.d_b, count, 2, error) &&
      cuda_done(cudaMalloc((void **)&s.d_c, count * sizeof(float)), "allocating", error) &&
      add_sgemm_rate(record, &s, BENCH_SGEMM_FP32, CUBLAS_DEFAULT_MATH, error) &&
      add_sgemm_rate(record, &s, BENCH_SGEMM_TF32, CUBLAS_TF32_TENSOR_OP_MATH, error);
  cudaFree(s.d_a);
  cudaFree(s.d_b);
  cudaFree(s.d_c);
  if (s.cublas) cublasDestroy(s.cublas);
  return good;
}

enum { LAUNCH_THREADS = 256, LAUNCHES = 1000, BARRIERS = 4096, ROUND_TRIPS = 4096 };

static cudaError_t queue_nothing(void *blocks, cudaStream_t stream) {
  return launch_nothing(*(const int *)blocks, LAUNCH_THREADS, stream);
}

static cudaError_t queue_barriers(void *blocks, cudaStream_t stream) {
  return launch_barriers(*(const int *)blocks, BARRIERS, stream);
}

typedef struct {
  void *d_mail;
  uint32_t stamp;
} Mail;

static cudaError_t queue_ping_pong(void *context, cudaStream_t stream) {
  Mail *mail = context;
  const uint32_t first = mail->stamp;
  mail->stamp += 2 * ROUND_TRIPS;
  return launch_ping_pong(mail->d_mail, first, ROUND_TRIPS, stream);
}

/* `pieces`: how many of what is measured a call of the work has. */
static bool add_time(Record *record, const char *name, GpuWork work, int pieces, Error *error) {
  double seconds;
  return time_work(name, work, &seconds, error) &&
         add_ceiling(record, name, seconds / pieces * 1e6, "us", error);
}

/* A block on every multiprocessor. */
static bool measure_launches(Record *record, Error *error) {
  int device, blocks;
  Mail mail = {.stamp = 1};
  const bool good =
      cuda_done(cudaGetDevice(&device), "finding the device", error) &&
      cuda_done(cudaDeviceGetAttribute(&blocks, cudaDevAttrMultiProcessorCount, device),
                "finding the device", error) &&
      add_time(record, "kernel launch, back to back",
               (GpuWork){queue_nothing, &blocks, LAUNCHES, false}, 1, error) &&
      add_time(record, "kernel as a graph's node",
               (GpuWork){queue_nothing, &blocks, LAUNCHES, true}, 1, error) &&
      add_time(record, BENCH_BARRIER, (GpuWork){queue_barriers, &blocks, 1, false}, BARRIERS,
               error) &&
      cuda_done(cudaMalloc(&mail.d_mail, PING_PONG_BYTES), "allocating", error) &&
      cuda_done(cudaMemset(mail.d_mail, 0, PING_PONG_BYTES), "clearing", error) &&
      cuda_done(cudaDeviceSynchronize(), "clearing", error) &&
      add_time(record, "packet from block to block", (GpuWork){queue_ping_pong, &mail, 1, false},
               2 * ROUND_TRIPS, error);
  cudaFree(mail.d_mail);
  return good;
}

bool bench_ceilings(Record *record, Error *error) {
  return add_rates(record, error) && measure_sgemm(record, error) &&
         measure_launches(record, error);
}

/* ---- the kernels of a step at level layer -----------------------------------------------------
 */

typedef enum { FORWARD, HEAD, BACKWARD, UPDATE } Operation;

/* A batch of random rows, and the kernel that is measured. */
typedef struct {
  const Network *network;
  BatchView batch;
  StepState *d_state;
  uint8_t *d_pixels;
  uint16_t *d_labels;
  uint32_t *d_order;
  RowResults results;
  float *d_parameters, *d_momentum;
  void *d_work; /* of the gradient updates */
  float *d_activation[NETWORK_MAX_LAYERS + 1], *d_delta[NETWORK_MAX_LAYERS + 1];
  Operation operation;
  int layer;
} Step;

static cudaError_t queue_updates(const Step *s, cudaStream_t stream) {
  const Network *n = s->network;
  LayerUpdate updates[NETWORK_MAX_LAYERS];
  for (int l = 0; l < n->layers; l++)
    updates[l] = (LayerUpdate){.d_x = l > 0 ? s->d_activation[l] : NULL,
                               .d_dz = s->d_delta[l + 1],
                               .d_w = s->d_parameters + n->weight[l],
                               .d_b = s->d_parameters + n->bias[l],
                               .d_vw = s->d_momentum + n->weight[l],
                               .d_vb = s->d_momentum + n->bias[l],
                               .in = n->size[l],
                               .out = n->size[l + 1]};
  return launch_updates(s->batch, (UpdateRule){0.9f, 0.0f}, updates, n->layers, 3, s->d_work,
                        stream);
}

static cudaError_t queue_kernel(void *context, cudaStream_t stream) {
  const Step *s = context;
  const Network *n = s->network;
  const int l = s->layer, in = n->size[l], out = n->size[l + 1], rows = s->batch.rows;
  const LayerInput input = {l > 0 ? s->d_activation[l] : NULL, s->batch};
  float *d_w = s->d_parameters + n->weight[l], *d_b = s->d_parameters + n->bias[l];
  switch (s->operation) {
  case FORWARD:
    return launch_forward(input, d_w, d_b, s->d_activation[l + 1], in, out, l < n->layers - 1,
                          (Dropout){0}, 3, stream);
  case HEAD:
    return launch_head(s->batch, s->d_activation[l], d_w, d_b, NULL, s->d_delta[l + 1],
                       s->d_delta[l], in, out, (Dropout){0}, s->results, stream);
  case BACKWARD:
    return launch_backward(s->d_delta[l + 1], d_w, s->d_activation[l], s->d_delta[l], rows, in, out,
                           (Dropout){0}, 3, stream);
  default:
    return queue_updates(s, stream);
  }
}

static bool device_array(void *pointer, size_t bytes, Error *error) {
  void **d_array = pointer;
  return cuda_done(cudaMalloc(d_array, bytes), "allocating", error) &&
         cuda_done(cudaMemset(*d_array, 0, bytes), "clearing", error);
}

static bool to_device(void *d_to, const void *from, size_t bytes, Error *error) {
  return cuda_done(cudaMemcpy(d_to, from, bytes, cudaMemcpyHostToDevice), "copying", error);
}

/* Random pixels, and weights as a training starts from. Learning rate 0: they stay what they are
   however often a kernel runs. */
static bool fill_step(Step *s, Error *error) {
  const size_t rows = (size_t)s->batch.rows, pixel_bytes = rows * s->batch.stride;
  const size_t parameter_bytes = s->network->floats * sizeof(float);
  const StepState state = {.end = (uint32_t)rows};
  uint8_t *pixels = malloc(pixel_bytes);
  float *parameters = malloc(parameter_bytes);
  bool good = false;
  if (!pixels || !parameters) {
    error_set(error, "no memory for a batch");
  } else {
    for (size_t i = 0; i < pixel_bytes; i++) pixels[i] = (uint8_t)random_words(3, 0, i).word[0];
    network_initialise(s->network, 1, parameters);
    good = to_device(s->d_pixels, pixels, pixel_bytes, error) &&
           to_device(s->d_parameters, parameters, parameter_bytes, error) &&
           to_device(s->d_state, &state, sizeof state, error) &&
           cuda_done(launch_order(s->d_order, 0, (uint32_t)rows, 1, 1, NULL), "shuffling", error) &&
           cuda_done(cudaDeviceSynchronize(), "preparing a batch", error);
  }
  free(pixels);
  free(parameters);
  return good;
}

static bool open_step(Step *s, const Network *network, int batch, Error *error) {
  const size_t rows = (size_t)batch, stride = engine_row_stride(network->size[0]);
  s->network = network;
  if (!device_array(&s->d_pixels, rows * stride, error) ||
      !device_array(&s->d_labels, rows * sizeof(uint16_t), error) ||
      !device_array(&s->d_order, rows * sizeof(uint32_t), error) ||
      !device_array(&s->d_state, sizeof(StepState), error) ||
      !device_array(&s->results.d_loss, rows * sizeof(float), error) ||
      !device_array(&s->results.d_correct, rows, error) ||
      !device_array(&s->d_parameters, network->floats * sizeof(float), error) ||
      !device_array(&s->d_momentum, network->floats * sizeof(float), error) ||
      !device_array(&s->d_work, update_work_bytes(), error))
    return false;
  for (int l = 1; l <= network->layers; l++) {
    const size_t bytes = rows * (size_t)network->size[l] * sizeof(float);
    if (!device_array(&s->d_activation[l], bytes, error) ||
        !device_array(&s->d_delta[l], bytes, error))
      return false;
  }
  s->batch = (BatchView){.d_pixels = s->d_pixels,
                         .d_labels = s->d_labels,
                         .d_order = s->d_order,
                         .stride = stride,
                         .d_state = s->d_state,
                         .rows = batch};
  return fill_step(s, error);
}

static void close_step(Step *s) {
  void *device[] = {s->d_pixels,     s->d_labels,       s->d_order,
                    s->d_state,      s->results.d_loss, s->results.d_correct,
                    s->d_parameters, s->d_momentum,     s->d_work};
  for (size_t i = 0; i < sizeof device / sizeof *device; i++) cudaFree(device[i]);
  for (int l = 1; l <= NETWORK_MAX_LAYERS; l++) {
    cudaFree(s->d_activation[l]);
    cudaFree(s->d_delta[l]);
  }
}

enum { MAX_KERNELS = 3 * NETWORK_MAX_LAYERS, KERNEL_CALLS = 100 };

typedef struct {
  char name[96];
  double us;
} Kernel;

/* Times kernel (operation, layer). */
static bool time_kernel(Step *s, Operation operation, int layer, Kernel *kernel, Error *error) {
  static const char *const names[] = {"forward", "last layer and back", "backward",
                                      "gradients and updates of all layers"};
  const int *size = s->network->size;
  if (operation == UPDATE)
    snprintf(kernel->name, sizeof kernel->name, "%s", names[operation]);
  else
    snprintf(kernel->name, sizeof kernel->name, "%s, %d to %d", names[operation],
             size[operation == BACKWARD ? layer + 1 : layer],
             size[operation == BACKWARD ? layer : layer + 1]);
  s->operation = operation;
  s->layer = layer;
  if (!time_work(kernel->name, (GpuWork){queue_kernel, s, KERNEL_CALLS, true}, &kernel->us, error))
    return false;
  kernel->us *= 1e6;
  return true;
}

/* In the order of a step, so that each kernel finds what the one before it wrote. *count must be
   0 before. */
static bool time_step(Step *s, Kernel kernels[MAX_KERNELS], int *count, Error *error) {
  const int layers = s->network->layers;
  for (int l = 0; l < layers - 1; l++)
    if (!time_kernel(s, FORWARD, l, &kernels[(*count)++], error)) return false;
  if (!time_kernel(s, HEAD, layers - 1, &kernels[(*count)++], error)) return false;
  for (int l = layers - 2; l > 0; l--)
    if (!time_kernel(s, BACKWARD, l, &kernels[(*count)++], error)) return false;
  return time_kernel(s, UPDATE, 0, &kernels[(*count)++], error);
}

bool bench_kernels(Record *record, const Network *network, int batch, Error *error) {
  Step step = {0};
  Kernel kernels[MAX_KERNELS];
  int count = 0;
  bool good = open_step(&step, network, batch, error) && time_step(&step, kernels, &count, error);
  close_step(&step);
  double sum = 0;
  for (int i = 0; good && i < count; i++) sum += kernels[i].us;
  for (int i = 0; good && i < count; i++)
    good = bench_add(record, "kernel", kernels[i].name, kernels[i].us, "us", batch,
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
