#include "lab/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <nvtx3/nvToolsExt.h>

#include "base/clock.h"
#include "base/sizes.h"
#include "measure/cuda/gpu_rates.h"

/* One topic, problem and size, while its rungs run. */
typedef struct {
  const LabHow *how;
  LabArrays arrays;
  LabReference reference; /* of zeros in LAB_PROFILE */
  cudaStream_t stream, streams[LAB_STREAMS];
  cudaEvent_t events[LAB_EVENTS], around[2]; /* around: a call, to time it */
} Stand;

/* ---- occupancy ------------------------------------------------------------------------------ */

enum { WARP = 32, SCHEDULERS = 4 };
enum {
  REGISTER_UNIT = 256,
  SHARED_UNIT = 128
}; /* what is handed out at once: to a warp, a block */

/* As the occupancy calculator of the CUDA Toolkit counts: registers are given to whole warps, each
   of a scheduler's own quarter; shared memory to blocks. */
const char *lab_limit(const LabLimits *limits, const LabOccupancy *kernel) {
  const int warps = (int)ceil_div((size_t)kernel->threads, WARP);
  const int of_warp = (int)round_up((size_t)(kernel->registers * WARP), REGISTER_UNIT);
  const int warps_of_registers =
      of_warp ? limits->registers / SCHEDULERS / of_warp * SCHEDULERS : limits->threads;
  const int of_block = (int)round_up(kernel->shared + limits->reserved, SHARED_UNIT);
  const struct {
    const char *name;
    int blocks;
  } all[] = {{"threads", limits->threads / (warps * WARP)},
             {"blocks", limits->blocks},
             {"registers", warps_of_registers / warps},
             {"shared", of_block ? (int)limits->shared / of_block : limits->blocks}};
  int least = 0;
  for (int i = 1; i < (int)(sizeof all / sizeof *all); i++)
    if (all[i].blocks < all[least].blocks) least = i;
  return all[least].name;
}

static cudaError_t find_limits(LabLimits *limits) {
  int device, shared, reserved;
  TRY(cudaGetDevice(&device));
  TRY(cudaDeviceGetAttribute(&limits->threads, cudaDevAttrMaxThreadsPerMultiProcessor, device));
  TRY(cudaDeviceGetAttribute(&limits->blocks, cudaDevAttrMaxBlocksPerMultiprocessor, device));
  TRY(cudaDeviceGetAttribute(&limits->registers, cudaDevAttrMaxRegistersPerMultiprocessor, device));
  TRY(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device));
  TRY(cudaDeviceGetAttribute(&reserved, cudaDevAttrReservedSharedMemoryPerBlock, device));
  limits->shared = (size_t)shared;
  limits->reserved = (size_t)reserved;
  return cudaSuccess;
}

static cudaError_t find_occupancy(const LabRecord *record, LabOccupancy *o) {
  struct cudaFuncAttributes kernel;
  LabLimits limits;
  TRY(find_limits(&limits));
  TRY(cudaFuncGetAttributes(&kernel, record->kernel));
  o->threads = (int)(record->block[0] * record->block[1] * record->block[2]);
  o->registers = kernel.numRegs;
  o->shared = kernel.sharedSizeBytes + record->shared;
  TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&o->blocks, record->kernel, o->threads,
                                                    record->shared));
  o->limit = lab_limit(&limits, o);
  return cudaSuccess;
}

/* ---- one call ------------------------------------------------------------------------------- */

static LabCall call_of(const Stand *s, const LabRow *row, int copy, LabRecord *record) {
  const LabArrays *a = &s->arrays;
  const int place = row->rung->pageable ? LAB_PAGEABLE : LAB_PINNED;
  LabCall call = {.problem = a->problem,
                  .size = a->size,
                  .point = row->point,
                  .gpu = &a->gpu,
                  .d_work = lab_block_copy(a, &a->work, 0),
                  .stream = s->stream,
                  .record = record};
  void *out = lab_block_copy(a, &a->out[place], copy);
  if (a->topic->on_host)
    call.h_out = out;
  else
    call.d_out = out;
  for (int i = 0; i < LAB_INPUTS; i++)
    (a->topic->on_host ? call.h_in : call.d_in)[i] = lab_block_copy(a, &a->in[place][i], copy);
  memcpy(call.streams, s->streams, sizeof call.streams);
  memcpy(call.events, s->events, sizeof call.events);
  return call;
}

/* Runs a row once and waits for it. *seconds: by the host's clock for topics on_host. Returns what
   the launch said, which may be an answer of the kernel's before. */
static cudaError_t run_once(const Stand *s, const LabRow *row, LabRecord *record, double *seconds) {
  const LabCall call = call_of(s, row, 0, record);
  float ms = 0;
  const double start = seconds_now();
  TRY(cudaEventRecord(s->around[0], s->stream));
  nvtxRangePushA(row->rung->name);
  const cudaError_t launched = row->rung->launch(&call);
  nvtxRangePop();
  TRY(launched);
  TRY(cudaEventRecord(s->around[1], s->stream));
  TRY(cudaStreamSynchronize(s->stream));
  *seconds = seconds_now() - start;
  TRY(cudaDeviceSynchronize()); /* what it queued elsewhere and did not wait for */
  TRY(cudaEventElapsedTime(&ms, s->around[0], s->around[1]));
  if (!s->arrays.topic->on_host) *seconds = (double)ms / 1e3;
  return cudaSuccess;
}

/* A failure is an outcome of the row's, unless the GPU will run nothing more in this process. */
static bool take_failure(const Stand *s, LabRow *row, cudaError_t status, Error *error) {
  cudaGetLastError(); /* told now: the next launch must not report it again */
  const cudaError_t after = cudaDeviceSynchronize();
  if (after != cudaSuccess)
    return error_set(error,
                     "rung %s of topic %s stopped the GPU (%s): nothing more can run in "
                     "this process",
                     row->rung->name, s->arrays.topic->name, cudaGetErrorString(status));
  row->outcome = LAB_WRONG;
  snprintf(row->note, sizeof row->note, "its launch failed: %s", cudaGetErrorString(status));
  return true;
}

/* ---- checks --------------------------------------------------------------------------------- */

static void describe(LabRow *row, const LabVerdict *v) {
  snprintf(row->note, sizeof row->note, "element %lld is %.9g, expected %.9g (allowed %.3g)",
           (long long)v->index, v->got, v->expected, v->allowed);
}

/* Judges the row's last run. */
static bool judge(const Stand *s, LabRow *row, Error *error) {
  const char *outside;
  LabVerdict verdict;
  if (!lab_arrays_fetch(&s->arrays, row->rung, &outside, error)) return false;
  row->outcome = row->rung->kind == LAB_PART ? LAB_UNCHECKED : LAB_RIGHT;
  if (outside) {
    row->outcome = LAB_WRONG;
    snprintf(row->note, sizeof row->note, "%s", outside);
  }
  if (outside || row->rung->kind == LAB_PART) return true;
  if (!lab_check(&s->reference, row->rung, s->arrays.h_out, &verdict, error)) return false;
  row->ulp = verdict.ulp;
  if (verdict.right) return true;
  row->outcome = LAB_WRONG;
  describe(row, &verdict);
  return true;
}

/* Runs and judges. *seconds: of the run. */
static bool check_once(const Stand *s, LabRow *row, double *seconds, Error *error) {
  LabRecord record = {0};
  if (!lab_arrays_poison(&s->arrays, row->rung, error)) return false;
  const cudaError_t status = run_once(s, row, &record, seconds);
  if (status != cudaSuccess) return take_failure(s, row, status, error);
  if (record.kernel && !cuda_done(find_occupancy(&record, &row->occupancy),
                                  "asking for the "
                                  "occupancy",
                                  error))
    return false;
  return judge(s, row, error);
}

enum { TRIES = 5 }; /* what a race makes may be right by chance */

static bool check_mistake(const Stand *s, LabRow *row, Error *error) {
  double seconds;
  for (int i = 0; i < TRIES; i++) {
    if (!check_once(s, row, &seconds, error)) return false;
    if (row->outcome != LAB_WRONG) continue;
    row->outcome = LAB_CAUGHT;
    return true;
  }
  row->outcome = LAB_MISSED;
  snprintf(row->note, sizeof row->note, "an intended mistake that passed the check");
  return true;
}

/* ---- times ---------------------------------------------------------------------------------- */

static const double SAMPLE_SECONDS = 5e-3; /* long beside the events' resolution of 0.5 us */
/* Slower calls are repeated less: nobody waits for nine of them, and nothing disturbs them much. */
static const double SLOW = 0.2, VERY_SLOW = 1;
enum { SLOW_SAMPLES = 3, MAX_CALLS = 1000 };

typedef struct {
  const Stand *stand;
  const LabRow *row;
  int next; /* copy of the arrays */
} Rotation;

static cudaError_t queue_next(void *context, cudaStream_t stream) {
  Rotation *r = context;
  LabCall call = call_of(r->stand, r->row, r->next, NULL);
  r->next = (r->next + 1) % r->stand->arrays.copies;
  call.stream = stream;
  return r->row->rung->launch(&call);
}

/* By the host's clock, until the stream has done it all. */
static cudaError_t time_on_host(const Stand *s, const LabRow *row, int samples, Stats *times) {
  const LabCall call = call_of(s, row, 0, NULL);
  double seconds[GPU_SAMPLES];
  for (int i = -1; i < samples; i++) {
    const double start = seconds_now();
    TRY(row->rung->launch(&call));
    TRY(cudaStreamSynchronize(s->stream));
    if (i >= 0) seconds[i] = seconds_now() - start;
  }
  *times = stats_of(seconds, samples);
  return cudaSuccess;
}

/* `once`: the seconds of the run that was checked. */
static bool time_row(const Stand *s, LabRow *row, double once, Error *error) {
  char what[128];
  Rotation rotation = {.stand = s, .row = row};
  GpuWork work = {queue_next, &rotation, 1, false};
  snprintf(what, sizeof what, "timing rung %s of topic %s", row->rung->name, s->arrays.topic->name);
  row->samples = once > VERY_SLOW ? 1 : once > SLOW ? SLOW_SAMPLES : GPU_SAMPLES;
  row->seconds = (Stats){once, once, once};
  if (once > VERY_SLOW) return true;
  if (s->arrays.topic->on_host)
    return cuda_done(time_on_host(s, row, row->samples, &row->seconds), what, error);
  if (once <= SLOW) { /* the first run loaded the kernel: the second tells how long it takes */
    if (!gpu_time(what, work, 1, &row->seconds, error)) return false;
    work.calls = (int)fmin(fmax(ceil(SAMPLE_SECONDS / row->seconds.median), 1), MAX_CALLS);
  }
  return gpu_time(what, work, row->samples, &row->seconds, error);
}

/* ---- a row ---------------------------------------------------------------------------------- */

static bool profile_row(const Stand *s, LabRow *row, Error *error) {
  LabRecord record = {0};
  double seconds;
  const cudaError_t status = run_once(s, row, &record, &seconds);
  return status == cudaSuccess || take_failure(s, row, status, error);
}

static bool run_row(const Stand *s, LabRow *row, Error *error) {
  const LabRung *rung = row->rung;
  const LabArrays *a = &s->arrays;
  const LabNote refused = lab_refusal(rung, &a->gpu, a->problem, a->size);
  double seconds = 0;
  if (rung->predicted) row->predicted = rung->predicted(&a->gpu, a->problem, a->size, row->point);
  if (*refused.text) {
    row->outcome = LAB_REFUSED;
    memcpy(row->note, refused.text, sizeof row->note);
    return true;
  }
  if (s->how->mode == LAB_PROFILE) return profile_row(s, row, error);
  if (rung->kind == LAB_MISTAKE) return check_mistake(s, row, error);
  if (!check_once(s, row, &seconds, error)) return false;
  if (s->how->mode != LAB_TIMES || row->outcome == LAB_WRONG) return true;
  return time_row(s, row, seconds, error);
}

/* ---- a table -------------------------------------------------------------------------------- */

/* A row for every rung of the problem and point, whether it is run or not. */
static bool make_rows(LabTable *table, Error *error) {
  const LabTopic *topic = table->topic;
  int count = 0, made = 0;
  for (int i = 0; i < topic->rung_count; i++)
    count += topic->rungs[i].points ? topic->rungs[i].point_count : 1;
  table->rows = calloc((size_t)count + 1, sizeof *table->rows); /* never of 0 bytes */
  if (!table->rows) return error_set(error, "no memory for the rungs of %s", topic->name);
  for (int i = 0; i < topic->rung_count; i++) {
    const LabRung *rung = &topic->rungs[i];
    if (!lab_belongs(rung, table->problem)) continue;
    for (int p = 0; p < (rung->points ? rung->point_count : 1); p++)
      table->rows[made++] = (LabRow){.rung = rung,
                                     .number = i + 1,
                                     .point = rung->points ? rung->points[p] : 0,
                                     .ulp = NAN,
                                     .seconds = {NAN, NAN, NAN},
                                     .predicted = NAN,
                                     .measured = NAN};
  }
  table->count = made;
  return true;
}

/* Extra sizes: the last rung and the libraries. */
static bool is_wanted(const LabTable *table, const LabHow *how, const LabRow *row) {
  if (how->rung) return strcmp(row->rung->name, how->rung) == 0;
  if (!table->extra || row->rung->kind == LAB_LIBRARY) return true;
  int last = 0;
  for (int i = 0; i < table->count; i++)
    if (table->rows[i].rung->kind == LAB_RUNG && table->rows[i].number > last)
      last = table->rows[i].number;
  return row->number == last;
}

/* The lesson's measured column, from all rows' times; then the rows that were not wanted go. */
static bool finish_rows(LabTable *table, const LabHow *how, Error *error) {
  double *seconds = malloc(((size_t)table->count + 1) * sizeof *seconds);
  if (!seconds) return error_set(error, "no memory for the rungs of %s", table->topic->name);
  for (int i = 0; i < table->count; i++) seconds[i] = table->rows[i].seconds.median;
  for (int i = 0; i < table->count && table->topic->measured; i++)
    table->rows[i].measured = table->topic->measured(seconds, table->count, i);
  free(seconds);
  int kept = 0;
  for (int i = 0; i < table->count; i++)
    if (is_wanted(table, how, &table->rows[i])) table->rows[kept++] = table->rows[i];
  table->count = kept;
  return true;
}

static bool open_streams(Stand *s, Error *error) {
  static const char what[] = "creating streams";
  bool good = cuda_done(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking), what, error);
  for (int i = 0; good && i < LAB_STREAMS; i++)
    good = cuda_done(cudaStreamCreateWithFlags(&s->streams[i], cudaStreamNonBlocking), what, error);
  for (int i = 0; good && i < LAB_EVENTS; i++)
    good = cuda_done(cudaEventCreateWithFlags(&s->events[i], cudaEventDisableTiming), what, error);
  for (int i = 0; good && i < 2; i++) good = cuda_done(cudaEventCreate(&s->around[i]), what, error);
  return good;
}

static void close_stand(Stand *s) {
  lab_reference_close(&s->reference);
  lab_arrays_close(&s->arrays);
  for (int i = 0; i < 2; i++)
    if (s->around[i]) cudaEventDestroy(s->around[i]);
  for (int i = 0; i < LAB_EVENTS; i++)
    if (s->events[i]) cudaEventDestroy(s->events[i]);
  for (int i = 0; i < LAB_STREAMS; i++)
    if (s->streams[i]) cudaStreamDestroy(s->streams[i]);
  if (s->stream) cudaStreamDestroy(s->stream);
}

/* *fits: false if the arrays have no room on the GPU. */
static bool open_stand(Stand *s, const LabTable *table, bool *fits, Error *error) {
  const LabHow *how = s->how;
  return lab_arrays_open(&s->arrays, table->topic, table->problem, table->size, how->guard,
                         how->mode == LAB_TIMES, how->seed, fits, error) &&
         (how->mode == LAB_PROFILE ||
          lab_reference_open(&s->reference, table->topic, table->problem, table->size,
                             (const void *const *)s->arrays.h_in, error)) &&
         open_streams(s, error);
}

static bool run_rows(const Stand *s, LabTable *table, Error *error) {
  for (int i = 0; i < table->count; i++)
    if (is_wanted(table, s->how, &table->rows[i]) && !run_row(s, &table->rows[i], error))
      return false;
  return finish_rows(table, s->how, error);
}

bool lab_measure(LabTable *table, const LabTopic *topic, int problem, LabSize size, bool extra,
                 const LabHow *how, Error *error) {
  const char *refused = topic->refuse ? topic->refuse(problem, size) : NULL;
  *table = refused ? (LabTable){.topic = topic, .problem = problem, .size = size, .extra = extra}
                   : lab_table(topic, problem, size, extra);
  if (refused) {
    snprintf(table->reason, sizeof table->reason, "%s at %s: %s", topic->name,
             lab_size_text(topic, size).text, refused);
    return true;
  }
  Stand stand = {.how = how};
  Error local;
  bool fits = true;
  const bool opened = open_stand(&stand, table, &fits, &local);
  if (!fits) snprintf(table->reason, sizeof table->reason, "%.255s", local.text);
  bool good = opened || !fits || error_set(error, "%s", local.text);
  if (opened) good = make_rows(table, error) && run_rows(&stand, table, error);
  close_stand(&stand);
  return good;
}
