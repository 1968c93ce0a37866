/* Training by several ranks. Each rank uses one GPU, and NCCL adds the ranks' gradients. Sums and
   updates run on their own streams, so they overlap with other layers' gradients and with the next
   step's forward. NCCL's order of additions depends only on the ranks and the number of values, and
   all ranks get the same bits. The first engine loads NCCL. */
#include "engine/cuda/around.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/nccl.h"

static const double CLOSE_SECONDS = 5;  /* maximum wait for other ranks while the engine closes */
static const double NAME_SECONDS = 0.5; /* time for the launcher to notice that a rank has ended */

/* ---- a GPU for each rank ------------------------------------------------------------------- */

typedef struct {
  char host[64], bus[32]; /* bus is "" if there is no GPU */
} GpuPlace;

/* Takes a GPU for this rank. Some launchers show a rank all GPUs of its host, some only one. */
bool engine_cuda_take(Ranks *ranks, Error *error) {
  const char *what = "finding the device";
  int devices = 0, device;
  GpuPlace mine = {0};
  if (cudaGetDeviceCount(&devices) != cudaSuccess) cudaGetLastError(); /* clears the error */
  if (devices > 0 &&
      (!cuda_done(cudaSetDevice(ranks_number_on_host(ranks) % devices), "taking a GPU", error) ||
       (gethostname(mine.host, sizeof mine.host - 1) != 0 &&
        !error_set(error, "this host has no name")) ||
       !cuda_done(cudaGetDevice(&device), what, error) ||
       !cuda_done(cudaDeviceGetPCIBusId(mine.bus, sizeof mine.bus, device), what, error)))
    return false;
  GpuPlace *all = ranks_gather(ranks, &mine, sizeof mine, error);
  bool good = all;
  for (int r = 0; good && r < ranks_count(ranks); r++)
    for (int s = 0; good && s < r; s++)
      if (*all[r].bus && memcmp(&all[r], &all[s], sizeof *all) == 0)
        good = error_set(error,
                         "ranks %d and %d would share a GPU of %s: start at most as many ranks as "
                         "there are GPUs, or use --device cpu",
                         s, r, all[r].host);
  free(all);
  return good;
}

/* Makes work queued on `stream` from now on wait for all work queued on `other` so far. */
static cudaError_t follow(cudaStream_t stream, cudaStream_t other, cudaEvent_t event) {
  TRY(cudaEventRecord(event, other));
  return cudaStreamWaitEvent(stream, event, 0);
}

#ifdef HAVE_NCCL

#include <nccl.h>

/* ---- NCCL ----------------------------------------------------------------------------------- */

static struct {
  __typeof__(ncclGetUniqueId) *get_unique_id;
  __typeof__(ncclCommInitRankConfig) *comm_init_rank_config;
  __typeof__(ncclAllReduce) *all_reduce;
  __typeof__(ncclCommDestroy) *comm_destroy;
  __typeof__(ncclCommAbort) *comm_abort;
  __typeof__(ncclGetErrorString) *get_error_string;
  /* NCCL before 2.27 lacks the next three functions. Then their pointers are NULL. */
  ncclResult_t (*mem_alloc)(void **pointer, size_t bytes);
  ncclResult_t (*mem_free)(void *pointer);
  ncclResult_t (*comm_window_register)(ncclComm_t comm, void *pointer, size_t bytes, void **window,
                                       int flags);
} nccl;

static bool load_nccl(Error *error) {
  enum { NEEDED = 6 };
  const struct {
    const char *name;
    void *function;
  } functions[] = {
      {"ncclGetUniqueId", &nccl.get_unique_id},
      {"ncclCommInitRankConfig", &nccl.comm_init_rank_config},
      {"ncclAllReduce", &nccl.all_reduce},
      {"ncclCommDestroy", &nccl.comm_destroy},
      {"ncclCommAbort", &nccl.comm_abort},
      {"ncclGetErrorString", &nccl.get_error_string},
      {"ncclMemAlloc", &nccl.mem_alloc},
      {"ncclMemFree", &nccl.mem_free},
      {"ncclCommWindowRegister", &nccl.comm_window_register},
  };
  if (nccl.all_reduce) return true;
  void *library = nccl_open();
  if (!library)
    return error_set(error, "ranks on GPUs need NCCL, but there is no libnccl.so.2: set NCCL_HOME "
                            "to the folder above its lib/, or use --device cpu");
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    void *symbol = dlsym(library, functions[i].name);
    if (!symbol && i < NEEDED) return error_set(error, "libnccl.so.2 has no %s", functions[i].name);
    memcpy(functions[i].function, &symbol, sizeof symbol);
  }
  return true;
}

static bool nccl_done(ncclResult_t result, const char *what, Error *error) {
  if (result == ncclSuccess) return true;
  error_set(error, "NCCL failed at %s: %s", what, nccl.get_error_string(result));
  if (error) error->of_gpu = true;
  return false;
}

static cudaError_t allocate_by_nccl(void **pointer, size_t bytes) {
  return nccl.mem_alloc(pointer, bytes) == ncclSuccess ? cudaSuccess : cudaErrorMemoryAllocation;
}

static cudaError_t free_by_nccl(void *pointer) {
  return nccl.mem_free(pointer) == ncclSuccess ? cudaSuccess : cudaErrorUnknown;
}

/* Blocks per NCCL kernel. NCCL's default (7 on an H200) is too few beside other kernels. */
enum { BLOCKS = 24 };

bool sums_open(RankSums *s, CudaMemory *memory, Error *error) {
  ncclUniqueId id = {0};
  int lowest, highest;
  if (!s->ranks) return true;
  if (!load_nccl(error) ||
      (ranks_number(s->ranks) == 0 && !nccl_done(nccl.get_unique_id(&id), "its start", error)) ||
      !ranks_broadcast(s->ranks, &id, sizeof id, error))
    return false;
  ncclComm_t comm;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.minCTAs = config.maxCTAs = BLOCKS;
  if (!nccl_done(nccl.comm_init_rank_config(&comm, ranks_count(s->ranks), id,
                                            ranks_number(s->ranks), &config),
                 "meeting the other ranks", error))
    return false;
  s->comm = comm;
  /* share_gradient needs memory that NCCL allocated. */
  if (nccl.mem_alloc && nccl.mem_free && nccl.comm_window_register) {
    s->allocate = allocate_by_nccl;
    s->release = free_by_nccl;
  }
  bool good = cuda_done(cudaDeviceGetStreamPriorityRange(&lowest, &highest),
                        "asking for priorities", error) &&
              cuda_stream(memory, &s->stream, highest, error) &&
              cuda_stream(memory, &s->updates, highest, error) &&
              cuda_event(memory, &s->ready, error) && cuda_event(memory, &s->summed, error);
  for (int l = 0; good && l < NETWORK_MAX_LAYERS; l++)
    good = cuda_event(memory, &s->updated[l], error);
  return good;
}

/* Lets NCCL's kernels read and write all ranks' d_gradient directly. All ranks call this. */
static ncclResult_t share_gradient(const Pass *p) {
  enum { SYMMETRIC = 1 }; /* NCCL_WIN_COLL_SYMMETRIC */
  const size_t bytes = p->config->network.floats * sizeof(float);
  void *window; /* freed with the communicator */
  p->around->sums.shares = true;
  return nccl.comm_window_register(p->around->sums.comm, p->arrays->d_gradient, bytes, &window,
                                   SYMMETRIC);
}

void sums_close(RankSums *s, bool breaks) {
  if (s->comm) (breaks ? nccl.comm_abort : nccl.comm_destroy)(s->comm);
  s->comm = NULL;
}

/* Queues the sum over ranks of `count` gradients. Later work on s->updates waits for it. */
static cudaError_t add_gradients(const Pass *p, size_t first, size_t count) {
  RankSums *s = &p->around->sums;
  float *d = p->arrays->d_gradient + first;
  TRY(follow(s->stream, s->compute, s->ready));
  ncclResult_t result = s->comm ? ncclSuccess : ncclInvalidUsage;
  if (result == ncclSuccess && s->allocate && !s->shares) result = share_gradient(p);
  if (result == ncclSuccess)
    result = nccl.all_reduce(d, d, count, ncclFloat32, ncclSum, s->comm, s->stream);
  if (result != ncclSuccess) return cudaErrorUnknown;
  return follow(s->updates, s->stream, s->summed);
}

#else

bool sums_open(RankSums *s, CudaMemory *memory, Error *error) {
  (void)memory;
  return !s->ranks ||
         error_set(error, "ranks on GPUs need NCCL, but this program was built without it: build "
                          "with NCCL_HOME=, the folder above its include/, or use --device cpu");
}

void sums_close(RankSums *s, bool breaks) {
  (void)s;
  (void)breaks;
}

static cudaError_t add_gradients(const Pass *p, size_t first, size_t count) {
  (void)p;
  (void)first;
  (void)count;
  return cudaErrorNotSupported;
}

#endif

bool sums_array(const RankSums *s, CudaMemory *memory, float **d_gradient, size_t count,
                Error *error) {
  const size_t size = sizeof **d_gradient;
  if (!s->allocate) return cuda_zeros(memory, d_gradient, count, size, error);
  return cuda_array_by(memory, s->allocate, s->release, d_gradient, count, size, error) &&
         cuda_done(cudaMemsetAsync(*d_gradient, 0, count * size, s->compute), "clearing", error);
}

/* ---- a step of several ranks ----------------------------------------------------------------- */

/* Minimum and maximum number of values that ranks add in one call of NCCL. To add 4 MB takes 30 us,
   half of which is fixed cost; to add 32 MB takes 100 us. */
enum { LEAST_OF_BUCKET = 1 << 20, MOST_OF_BUCKET = 1 << 23 };

/* Returns true if layers l to end - 1 form a bucket, whose gradients ranks add together. Most
   networks have three buckets: the last layers, with at most a quarter of the values; the middle
   layers; and the first layer, whose sum hardly overlaps with other work. */
static bool is_bucket(const Network *n, int l, int end) {
  const size_t all = layer_start(n, n->layers), past = layer_start(n, end);
  const size_t values = past - layer_start(n, l);
  if (l == 0 || values < LEAST_OF_BUCKET) return l == 0;
  return l == 1 || values >= MOST_OF_BUCKET ||
         (end == n->layers && past - layer_start(n, l - 1) > all / 4);
}

/* Updates layers first to end - 1 from the ranks' sums, while s->compute continues. */
static cudaError_t update_by_sums(const Pass *p, int first, int end) {
  RankSums *s = &p->around->sums;
  TRY(optimize(p, first, end, s->updates));
  for (int l = first; l < end; l++) s->bucket[l] = 1 + first;
  return cudaEventRecord(s->updated[first], s->updates);
}

/* Adds the ranks' gradients of layers l to s->end - 1 and updates these layers. But if l > 0,
   backward still needs layer l's old weights: then the next bucket updates layer l, too. */
static cudaError_t add_bucket(const Pass *p, int l) {
  RankSums *s = &p->around->sums;
  const Network *n = &p->config->network;
  const size_t start = layer_start(n, l);
  const int first = l > 0 ? l + 1 : 0;
  TRY(add_gradients(p, start, layer_start(n, s->end) - start));
  if (first < s->end) TRY(update_by_sums(p, first, s->end));
  if (s->late > 0) TRY(follow(s->updates, s->compute, s->ready));
  if (s->late > 0) TRY(update_by_sums(p, s->late, s->late + 1));
  s->late = s->end = l;
  return cudaSuccess;
}

/* Makes work queued on p->stream from now on wait for the updates of layers first to end - 1. */
static cudaError_t join_layers(const Pass *p, int first, int end) {
  RankSums *s = &p->around->sums;
  for (int l = first; l < end; l++) {
    const int bucket = s->bucket[l];
    if (bucket) TRY(cudaStreamWaitEvent(s->compute, s->updated[bucket - 1], 0));
    for (int other = 0; bucket && other < NETWORK_MAX_LAYERS; other++)
      if (s->bucket[other] == bucket) s->bucket[other] = 0;
  }
  return cudaSuccess;
}

static cudaError_t forward(const Pass *p, int l) {
  const int layers = p->config->network.layers;
  p->around->sums.end = layers;
  p->around->sums.late = 0;
  TRY(join_layers(p, l, p->inner->joins_late ? l + 1 : layers));
  return p->inner->forward(p, l);
}

static cudaError_t backward(const Pass *p, int l) {
  const int end = p->around->sums.end;
  if (l > 0 && !p->inner->each && is_bucket(&p->config->network, l, end)) {
    TRY(p->inner->update(p, l, end));
    TRY(add_bucket(p, l));
  }
  return p->inner->backward(p, l);
}

static cudaError_t update(const Pass *p, int first, int end) {
  (void)end; /* the layers from sums.end on are in buckets */
  TRY(p->inner->update(p, first, p->around->sums.end));
  return add_bucket(p, first);
}

static cudaError_t join(const Pass *p) {
  return join_layers(p, 0, p->config->network.layers);
}

Level level_by_ranks(const Level *inner) {
  Level level = *inner;
  level.forward = forward;
  level.backward = backward;
  level.update = update;
  level.each = false;
  level.join = join;
  return level;
}

/* ---- waiting -------------------------------------------------------------------------------- */

/* An NCCL kernel waits for other ranks forever, so this function stops if a rank is gone. A closing
   engine stops early: a launcher gives a failed rank only a few seconds to report the reason. */
bool sums_wait(RankSums *s, cudaEvent_t event, const char *what, Error *error) {
  const double began = seconds_now();
  cudaError_t status;
  if (!s->ranks)
    return cuda_done(event ? cudaEventSynchronize(event) : cudaStreamSynchronize(s->compute), what,
                     error);
  while ((status = event ? cudaEventQuery(event) : cudaStreamQuery(s->compute)) ==
         cudaErrorNotReady) {
    const bool late = s->closes && seconds_now() - began > CLOSE_SECONDS;
    if (late || !ranks_go_on(s->ranks, began, error)) {
      if (s->closes) sums_close(s, true);
      return false;
    }
    sched_yield();
  }
  if (cuda_done(status, what, error)) return true;
  /* A call may fail because another rank has ended. Wait for the launcher to name that rank. */
  const double failed = seconds_now();
  while (!s->closes && seconds_now() - failed < NAME_SECONDS && ranks_go_on(s->ranks, began, error))
    sched_yield();
  return false;
}
