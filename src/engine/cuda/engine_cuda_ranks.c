/* Training by several ranks. Each rank uses one GPU, and NCCL adds the ranks' gradients. Sums and
   updates run on their own streams, so they overlap with other layers' gradients and with the next
   step's forward. NCCL's order of additions depends only on the ranks and the number of values, and
   all ranks get the same bits. The first engine loads NCCL. */
#include "engine/cuda/cuda_state.h"

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

bool sums_open(CudaEngine *e, Error *error) {
  Ranks *ranks = e->engine.config.ranks;
  RankSums *s = &e->sums;
  ncclUniqueId id = {0};
  int lowest, highest;
  if (!ranks) return true;
  if (!load_nccl(error) ||
      (ranks_number(ranks) == 0 && !nccl_done(nccl.get_unique_id(&id), "its start", error)) ||
      !ranks_broadcast(ranks, &id, sizeof id, error))
    return false;
  ncclComm_t comm;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.minCTAs = config.maxCTAs = BLOCKS;
  if (!nccl_done(
          nccl.comm_init_rank_config(&comm, ranks_count(ranks), id, ranks_number(ranks), &config),
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
              cuda_stream(e, &s->stream, highest, error) &&
              cuda_stream(e, &s->updates, highest, error) && cuda_event(e, &s->ready, error) &&
              cuda_event(e, &s->summed, error);
  for (int l = 0; good && l < NETWORK_MAX_LAYERS; l++) good = cuda_event(e, &s->updated[l], error);
  return good;
}

/* Lets NCCL's kernels read and write all ranks' d_gradient directly. All ranks call this. */
static ncclResult_t share_gradient(CudaEngine *e) {
  enum { SYMMETRIC = 1 }; /* NCCL_WIN_COLL_SYMMETRIC */
  const size_t bytes = e->engine.config.network.floats * sizeof(float);
  void *window; /* freed with the communicator */
  e->sums.shares = true;
  return nccl.comm_window_register(e->sums.comm, e->d_gradient, bytes, &window, SYMMETRIC);
}

void sums_close(CudaEngine *e, bool breaks) {
  if (e->sums.comm) (breaks ? nccl.comm_abort : nccl.comm_destroy)(e->sums.comm);
  e->sums.comm = NULL;
}

cudaError_t sums_add(CudaEngine *e, size_t first, size_t count) {
  RankSums *s = &e->sums;
  float *d = e->d_gradient + first;
  TRY(follow(s->stream, e->compute, s->ready));
  ncclResult_t result = s->comm ? ncclSuccess : ncclInvalidUsage;
  if (result == ncclSuccess && s->allocate && !s->shares) result = share_gradient(e);
  if (result == ncclSuccess)
    result = nccl.all_reduce(d, d, count, ncclFloat32, ncclSum, s->comm, s->stream);
  if (result != ncclSuccess) return cudaErrorUnknown;
  return follow(s->updates, s->stream, s->summed);
}

#else

bool sums_open(CudaEngine *e, Error *error) {
  return !e->engine.config.ranks ||
         error_set(error, "ranks on GPUs need NCCL, but this program was built without it: build "
                          "with NCCL_HOME=, the folder above its include/, or use --device cpu");
}

void sums_close(CudaEngine *e, bool breaks) {
  (void)e;
  (void)breaks;
}

cudaError_t sums_add(CudaEngine *e, size_t first, size_t count) {
  (void)e;
  (void)first;
  (void)count;
  return cudaErrorNotSupported;
}

#endif

bool sums_array(CudaEngine *e, Error *error) {
  const size_t count = e->engine.config.network.floats, size = sizeof(float);
  if (!e->sums.allocate) return cuda_zeros(e, &e->d_gradient, count, size, error);
  return cuda_array_by(e, e->sums.allocate, e->sums.release, &e->d_gradient, count, size, error) &&
         cuda_done(cudaMemsetAsync(e->d_gradient, 0, count * size, e->compute), "clearing", error);
}

cudaError_t sums_follow(CudaEngine *e) {
  return follow(e->sums.updates, e->compute, e->sums.ready);
}

cudaError_t sums_updated(CudaEngine *e, int first, int end) {
  for (int l = first; l < end; l++) e->sums.bucket[l] = 1 + first;
  return cudaEventRecord(e->sums.updated[first], e->sums.updates);
}

cudaError_t sums_join(CudaEngine *e, int first, int end) {
  for (int l = first; l < end; l++) {
    const int bucket = e->sums.bucket[l];
    if (bucket) TRY(cudaStreamWaitEvent(e->compute, e->sums.updated[bucket - 1], 0));
    for (int other = 0; bucket && other < NETWORK_MAX_LAYERS; other++)
      if (e->sums.bucket[other] == bucket) e->sums.bucket[other] = 0;
  }
  return cudaSuccess;
}

/* ---- waiting -------------------------------------------------------------------------------- */

/* An NCCL kernel waits for other ranks forever, so this function stops if a rank is gone. A closing
   engine stops early: a launcher gives a failed rank only a few seconds to report the reason. */
bool sums_wait(CudaEngine *e, cudaEvent_t event, const char *what, Error *error) {
  const double began = seconds_now();
  Ranks *ranks = e->engine.config.ranks;
  cudaError_t status;
  if (!ranks)
    return cuda_done(event ? cudaEventSynchronize(event) : cudaStreamSynchronize(e->compute), what,
                     error);
  while ((status = event ? cudaEventQuery(event) : cudaStreamQuery(e->compute)) ==
         cudaErrorNotReady) {
    const bool late = e->sums.closes && seconds_now() - began > CLOSE_SECONDS;
    if (late || !ranks_go_on(ranks, began, error)) {
      if (e->sums.closes) sums_close(e, true);
      return false;
    }
    sched_yield();
  }
  if (cuda_done(status, what, error)) return true;
  /* A call may fail because another rank has ended. Wait for the launcher to name that rank. */
  const double failed = seconds_now();
  while (!e->sums.closes && seconds_now() - failed < NAME_SECONDS &&
         ranks_go_on(ranks, began, error))
    sched_yield();
  return false;
}
