/* Members of an engine: networks that train at once (kernels/many/) on its rows. Each member is an
   engine of one thread, with parameters, an order, results and a stream of its own. Their calls of
   train meet, and one thread launches for all. */
#include "engine/cuda/cuda_state.h"

#include <stdio.h>

_Static_assert((int)MANY_MOST <= (int)RENDEZVOUS_MOST, "all members of a launch can meet");

/* Members take what level epoch takes, but for some sizes. */
int cuda_members(Engine *engine) {
  const CudaEngine *e = (CudaEngine *)engine;
  const bool takes = engine->config.training.fusion == FUSION_EPOCH && e->may_join &&
                     many_takes(e->plan.shape) && engine->config.dataset_rows < 1 << 28;
  return takes && many_clusters() > 0 ? MANY_MOST : 0;
}

/* A Rendezvous's act. One thread waits for the GPU while the others sleep: if all did, they would
   keep the cores busy, and an event that wakes a thread tells of the end late. */
static int launch_all(void *context, void *const *brought, int count) {
  const CudaEngine *first = context;
  const Members *m = &first->members;
  ManyNetwork networks[MANY_MOST];
  for (int i = 0; i < count; i++) networks[i] = *(const ManyNetwork *)brought[i];
  TRY(launch_many(&m->job, networks, count, m->d_work, first->compute));
  return cudaStreamSynchronize(first->compute);
}

cudaError_t members_train(CudaEngine *e, const TrainRange *range) {
  const uint64_t batch = (uint64_t)e->engine.config.training.batch,
                 end = (range->first_step + range->steps) * batch;
  float *before = e->replay.begins ? e->replay.d_before : NULL;
  ManyNetwork network = {
      .d_pixels = e->d_train_on,
      .first_row = (uint32_t)range->first_row,
      .rows = (uint32_t)range->rows,
      .shuffled = range->shuffled,
      .key = range->key,
      .position = (uint32_t)(range->first_step * batch),
      .end = (uint32_t)(end < range->rows ? end : range->rows),
      .learning_rate = range->learning_rate,
      .rule = update_rule(e),
      .d_parameters = e->d_parameters,
      .d_momentum = e->d_momentum,
      .d_before = {before, before ? before + e->engine.config.network.floats : NULL},
      .results = e->results,
      .d_sums = e->d_sums};
  e->replay.begins = false;
  TRY(cudaStreamSynchronize(e->compute));
  return (cudaError_t)rendezvous_meet(&e->first->members.meeting, &network);
}

static bool open_members(CudaEngine *first, Error *error) {
  const Network *n = &first->engine.config.network;
  const size_t batch = (size_t)first->engine.config.training.batch;
  const uint32_t steps = (uint32_t)ceil_div(first->engine.config.dataset_rows, batch);
  Members *m = &first->members;
  if (!cuda_array(first, &m->d_work, 1, many_work_bytes(steps, MANY_MOST), error)) return false;
  rendezvous_open(&m->meeting, launch_all, first);
  m->job =
      (ManyJob){.shape = first->plan.shape, .d_labels = first->d_labels, .stride = first->stride};
  for (int l = 0; l < n->layers; l++) {
    m->job.layout.weight[l] = n->weight[l];
    m->job.layout.bias[l] = n->bias[l];
  }
  snprintf(first->engine.reason, sizeof first->engine.reason,
           "a network in each cluster of 16 blocks, %d at a time", many_clusters());
  return true;
}

/* The rows are there when the first member is. */
Engine *cuda_member(Engine *engine, Error *error) {
  CudaEngine *first = (CudaEngine *)engine;
  if ((!first->members.d_work && !open_members(first, error)) ||
      !cuda_done(cudaStreamSynchronize(first->compute), "uploading rows", error))
    return NULL;
  Engine *member = engine_cuda_open_member(first, error);
  if (member && cuda_attend(member, true, error)) return member;
  if (member) member->call->close(member);
  return NULL;
}

bool cuda_attend(Engine *engine, bool attends, Error *error) {
  CudaEngine *e = (CudaEngine *)engine;
  if (!e->first) return true;
  if (attends != e->attends) rendezvous_attend(&e->first->members.meeting, attends);
  e->attends = attends;
  return !attends || cuda_done(cudaSetDevice(e->device), "taking the GPU", error);
}
