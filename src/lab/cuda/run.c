#include "lab/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <nvtx3/nvToolsExt.h>

#include "base/clock.h"
#include "base/sizes.h"
#include "measure/cuda/rung.h"

/* One topic, problem and size, while its rungs run. */
typedef struct {
  const LabHow *how;
  LabArrays arrays;
  struct cudaDeviceProp gpu;
  LabCall call; /* what all calls have in common */
} Stand;

/* ---- occupancy ------------------------------------------------------------------------------ */

enum { WARP = 32, SCHEDULERS = 4 };
enum {
  REGISTER_UNIT = 256,
  SHARED_UNIT = 128
}; /* what is handed out at once: to a warp, a block */

/* As the occupancy calculator of the CUDA Toolkit counts: registers are given to whole warps, each
   of a scheduler's own quarter; shared memory to blocks. */
const char *lab_limit(const struct cudaDeviceProp *gpu, const LabOccupancy *kernel) {
  const int warps = (int)ceil_div((size_t)kernel->threads, WARP);
  const int of_warp = (int)round_up((size_t)(kernel->registers * WARP), REGISTER_UNIT);
  const int warps_of_registers =
      of_warp ? gpu->regsPerMultiprocessor / SCHEDULERS / of_warp * SCHEDULERS
              : gpu->maxThreadsPerMultiProcessor;
  const size_t of_block = round_up(kernel->shared + gpu->reservedSharedMemPerBlock, SHARED_UNIT);
  const struct {
    const char *name;
    int blocks;
  } all[] = {{"threads", gpu->maxThreadsPerMultiProcessor / (warps * WARP)},
             {"blocks", gpu->maxBlocksPerMultiProcessor},
             {"registers", warps_of_registers / warps},
             {"shared", of_block ? (int)(gpu->sharedMemPerMultiprocessor / of_block)
                                 : gpu->maxBlocksPerMultiProcessor}};
  int least = 0;
  for (int i = 1; i < (int)(sizeof all / sizeof *all); i++)
    if (all[i].blocks < all[least].blocks) least = i;
  return all[least].name;
}

static cudaError_t find_occupancy(const Stand *s, const LabRecord *record, LabOccupancy *o) {
  struct cudaFuncAttributes kernel;
  if (!record->kernel) return cudaSuccess;
  TRY(cudaFuncGetAttributes(&kernel, record->kernel));
  o->threads = (int)(record->block[0] * record->block[1] * record->block[2]);
  o->registers = kernel.numRegs;
  o->shared = kernel.sharedSizeBytes + record->shared;
  TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&o->blocks, record->kernel, o->threads,
                                                    record->shared));
  o->limit = lab_limit(&s->gpu, o);
  return cudaSuccess;
}

/* ---- one call ------------------------------------------------------------------------------- */

static LabCall call_of(const Stand *s, const LabRow *row, int copy, LabRecord *record) {
  LabCall call = s->call;
  call.point = row->point;
  call.record = record;
  lab_arrays_give(&s->arrays, row->rung, copy, &call);
  return call;
}

/* Runs a row once and waits for it. *seconds: by the host's clock. Returns what the launch said,
   which may be an answer of the kernel's before. */
static cudaError_t run_once(const Stand *s, const LabRow *row, LabRecord *record, double *seconds) {
  const LabCall call = call_of(s, row, 0, record);
  const double start = seconds_now();
  nvtxRangePushA(row->rung->name);
  const cudaError_t launched = row->rung->launch(&call);
  nvtxRangePop();
  TRY(launched);
  TRY(cudaStreamSynchronize(call.stream));
  *seconds = seconds_now() - start;
  return cudaDeviceSynchronize(); /* what it queued elsewhere and did not wait for */
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

/* Judges the row's last run. */
static bool judge(const Stand *s, LabRow *row, Error *error) {
  const char *outside;
  const bool is_part = row->rung->kind == LAB_PART;
  if (!lab_arrays_fetch(&s->arrays, row->rung, &outside, error)) return false;
  row->outcome = outside ? LAB_WRONG : is_part ? LAB_UNCHECKED : LAB_RIGHT;
  if (outside) snprintf(row->note, sizeof row->note, "%s", outside);
  if (outside || is_part) return true;
  const LabVerdict v = lab_check(&s->arrays, row->rung);
  row->ulp = v.ulp;
  if (v.right) return true;
  row->outcome = LAB_WRONG;
  snprintf(row->note, sizeof row->note, "element %lld is %.9g, expected %.9g (allowed %.3g)",
           (long long)v.index, v.got, v.expected, v.allowed);
  return true;
}

/* Runs, and judges unless it is only profiled. *seconds: of the run. */
static bool check_once(const Stand *s, LabRow *row, double *seconds, Error *error) {
  const bool checks = s->how->mode != LAB_PROFILE;
  LabRecord record = {0};
  if (checks && !lab_arrays_poison(&s->arrays, error)) return false;
  const cudaError_t status = run_once(s, row, &record, seconds);
  if (status != cudaSuccess) return take_failure(s, row, status, error);
  return !checks || (cuda_done(find_occupancy(s, &record, &row->occupancy),
                               "asking for the occupancy", error) &&
                     judge(s, row, error));
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

/* `once`: the seconds of the run that was checked. */
static bool time_row(const Stand *s, LabRow *row, double once, Error *error) {
  char what[128];
  Rotation rotation = {.stand = s, .row = row};
  Rung rung = {what, queue_next, &rotation, .calls = 1,
               .mode = s->arrays.topic->on_host ? RUNG_ON_HOST : RUNG_QUEUED};
  snprintf(what, sizeof what, "timing rung %s of topic %s", row->rung->name, s->arrays.topic->name);
  row->samples = once > VERY_SLOW ? 1 : once > SLOW ? SLOW_SAMPLES : RUNG_SAMPLES;
  row->seconds = (Stats){once, once, once};
  if (once > VERY_SLOW) return true;
  if (once <= SLOW &&
      rung.mode ==
          RUNG_QUEUED) { /* the first run loaded the kernel: the second tells how long it takes */
    if (!rung_time(&rung, 1, &row->seconds, error)) return false;
    rung.calls = (int)fmin(fmax(ceil(SAMPLE_SECONDS / row->seconds.median), 1), MAX_CALLS);
  }
  return rung_time(&rung, row->samples, &row->seconds, error);
}

/* ---- a row ---------------------------------------------------------------------------------- */

static bool run_row(const Stand *s, LabRow *row, Error *error) {
  const LabRung *rung = row->rung;
  const LabArrays *a = &s->arrays;
  const LabText refused = lab_refusal(rung, &a->gpu, a->problem, a->size);
  double seconds = 0;
  if (rung->predicted) row->predicted = rung->predicted(&a->gpu, a->problem, a->size, row->point);
  if (*refused.text) {
    row->outcome = LAB_REFUSED;
    memcpy(row->note, refused.text, sizeof row->note);
    return true;
  }
  if (rung->kind == LAB_MISTAKE && s->how->mode != LAB_PROFILE) return check_mistake(s, row, error);
  if (!check_once(s, row, &seconds, error)) return false;
  if (s->how->mode != LAB_TIMES || row->outcome == LAB_WRONG) return true;
  return time_row(s, row, seconds, error);
}

/* ---- a table -------------------------------------------------------------------------------- */

/* Extra sizes: the last rung and the libraries. */
static bool is_wanted(const LabTable *table, const LabHow *how, const LabRow *row) {
  if (how->rung) return strcmp(row->rung->name, how->rung) == 0;
  if (!table->extra || row->rung->kind == LAB_LIBRARY) return true;
  const LabRung *end = table->topic->rungs + table->topic->rung_count;
  for (const LabRung *later = row->rung + 1; later < end; later++)
    if (later->kind == LAB_RUNG && lab_belongs(later, table->problem)) return false;
  return row->rung->kind == LAB_RUNG;
}

/* Runs what is wanted; the other rows go, when the lesson's measured column has been made from the
   times of all. */
static bool run_rows(const Stand *s, LabTable *table, Error *error) {
  const LabTopic *topic = table->topic;
  double seconds[LAB_ROWS];
  int kept = 0;
  for (int i = 0; i < table->count; i++) {
    LabRow *row = &table->rows[i];
    if (is_wanted(table, s->how, row) && !run_row(s, row, error)) return false;
    seconds[i] = row->seconds.median;
  }
  for (int i = 0; i < table->count; i++) {
    LabRow *row = &table->rows[i];
    if (topic->measured) row->measured = topic->measured(seconds, table->count, i);
    if (is_wanted(table, s->how, row)) table->rows[kept++] = *row;
  }
  table->count = kept;
  return true;
}

static cudaError_t open_streams(Stand *s) {
  LabCall *call = &s->call;
  int device;
  TRY(cudaGetDevice(&device));
  TRY(cudaGetDeviceProperties(&s->gpu, device));
  TRY(cudaStreamCreateWithFlags(&call->stream, cudaStreamNonBlocking));
  for (int i = 0; i < LAB_STREAMS; i++)
    TRY(cudaStreamCreateWithFlags(&call->streams[i], cudaStreamNonBlocking));
  for (int i = 0; i < LAB_EVENTS; i++)
    TRY(cudaEventCreateWithFlags(&call->events[i], cudaEventDisableTiming));
  return cudaSuccess;
}

static bool open_stand(Stand *s, const LabTable *table, Error *error) {
  const LabHow *how = s->how;
  LabArrays *a = &s->arrays;
  s->call = (LabCall){.problem = table->problem, .size = table->size, .gpu = &a->gpu};
  return lab_arrays_open(a, table, how->guarded, how->mode == LAB_TIMES, how->seed, error) &&
         (how->mode == LAB_PROFILE || lab_expect(a, error)) &&
         cuda_done(open_streams(s), "creating streams", error);
}

static void close_stand(Stand *s) {
  lab_arrays_close(&s->arrays);
  for (int i = 0; i < LAB_EVENTS; i++)
    if (s->call.events[i]) cudaEventDestroy(s->call.events[i]);
  for (int i = 0; i < LAB_STREAMS; i++)
    if (s->call.streams[i]) cudaStreamDestroy(s->call.streams[i]);
  if (s->call.stream) cudaStreamDestroy(s->call.stream);
}

bool lab_measure(LabTable *table, const LabHow *how, Error *error) {
  const LabTopic *topic = table->topic;
  const char *refused = topic->refuse ? topic->refuse(table->problem, table->size) : NULL;
  if (refused) {
    snprintf(table->reason, sizeof table->reason, "%s at %.72s: %s", topic->name,
             lab_size_text(topic, table->size).text, refused);
    return true;
  }
  Stand stand = {.how = how};
  const bool opened = open_stand(&stand, table, error), too_large = !opened && error->too_large;
  if (too_large) snprintf(table->reason, sizeof table->reason, "%.255s", error->text);
  const bool good = opened ? run_rows(&stand, table, error) : too_large;
  close_stand(&stand);
  return good;
}
