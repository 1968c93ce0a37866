/* Members of an engine: networks that train at once on its rows. Each member is an engine of one
   thread, with parameters, an order, results and a stream of its own. Their calls of train meet,
   and one thread launches for all.

   There are three ways. On Hopper a network of two hidden layers that is not too large has a
   cluster of blocks (kernels/many/). Others that level epoch takes by tiles have a kernel each, as
   alone, so many at a time as the GPU has clusters for; these members wait for nobody. Where level
   epoch does not take the network, the members share the launches of level step: their arrays lie
   in one block of memory, all in the same places, so that a kernel finds those of its network by
   blockIdx.z (Networks in kernels.h).

   A network's bits are the same whoever trains beside it, but those of its level alone only by
   tiles. */
#include "engine/cuda/cuda_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"
#include "engine/cuda/gpu_limits.h"

_Static_assert((int)MANY_MOST <= (int)RENDEZVOUS_MOST, "all members of a launch can meet");

/* Parameters times rows of a step from which on a network fills a GPU alone. On an H100, ms per
   network and epoch, 16 at once instead of one: 16.8 instead of 28.6 at 8.5e7, that is
   784-1000-500-10 at 64 rows. */
static const double FILLS_FROM = 1e8;

bool engine_cuda_by_clusters(const CudaEngine *e) {
  return e->engine.config.training.fusion == FUSION_EPOCH && e->may_join &&
         many_takes(e->plan.shape) && e->engine.config.dataset_rows < 1 << 28 &&
         many_clusters() > 0;
}

static bool by_steps(const CudaEngine *e) {
  const EngineConfig *c = &e->engine.config;
  return c->training.fusion == FUSION_STEP && e->level == &level_layer && !c->ranks &&
         c->training.batch <= UPDATE_ROWS &&
         (double)c->network.parameters * c->training.batch < FILLS_FROM;
}

/* Kernels that wait for blocks of their own must all have room. One of a single cluster never
   waits, and more of them than there are clusters fill gaps. */
static int most_by_tiles(const CudaEngine *e) {
  GpuLimits limits;
  if (!e->may_join || e->tiles.clusters == 0 || !gpu_limits_read(&limits, NULL)) return 0;
  return e->tiles.clusters == 1 ? 2 * limits.clusters : limits.clusters / e->tiles.clusters;
}

/* By steps, the block is allocated for as many as there is room for. */
int cuda_members(Engine *engine, int wanted) {
  CudaEngine *first = (CudaEngine *)engine;
  Members *m = &first->members;
  if (engine_cuda_by_clusters(first)) return m->most = min_int(wanted, MANY_MOST);
  if (has_tiles(first)) return m->most = min_int(wanted, most_by_tiles(first));
  m->apart = by_steps(first) ? engine_cuda_member_bytes(first) : 0;
  for (m->most = m->apart ? min_int(wanted, NETWORKS_AT_ONCE) : 0; m->most > 0; m->most--)
    if (cuda_array(first, &m->d_block, (size_t)m->most, m->apart, NULL)) break;
  return m->most;
}

/* ---- by clusters ----------------------------------------------------------------------------- */

/* A Rendezvous's act. One thread waits for the GPU while the others sleep: if all did, they would
   keep the cores busy, and an event that wakes a thread tells of the end late. */
static int launch_clusters(void *context, void *const *brought, int count) {
  const CudaEngine *first = context;
  const Members *m = &first->members;
  ManyNetwork networks[MANY_MOST];
  for (int i = 0; i < count; i++) networks[i] = *(const ManyNetwork *)brought[i];
  TRY(launch_many(&m->job, networks, count, m->d_work, first->compute));
  return cudaStreamSynchronize(first->compute);
}

cudaError_t members_train(CudaEngine *e, const TrainRange *range, uint32_t position, uint32_t end) {
  float *before = e->replay.begins ? e->replay.d_before : NULL;
  ManyNetwork network = {
      .d_pixels = e->d_train_on,
      .first_row = (uint32_t)range->first_row,
      .rows = (uint32_t)range->rows,
      .shuffled = range->shuffled,
      .key = range->key,
      .position = position,
      .end = end,
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

static bool open_clusters(CudaEngine *first, Error *error) {
  const size_t batch = (size_t)first->engine.config.training.batch;
  const uint32_t steps = (uint32_t)ceil_div(first->engine.config.dataset_rows, batch);
  Members *m = &first->members;
  if (!cuda_array(first, &m->d_work, 1, many_work_bytes(steps, MANY_MOST), error)) return false;
  m->job = (ManyJob){.shape = first->plan.shape,
                     .layout = epoch_layout(first),
                     .d_labels = first->d_labels,
                     .stride = first->stride};
  snprintf(first->engine.reason, sizeof first->engine.reason,
           "a network in each cluster of 16 blocks, %d at a time", many_clusters());
  return true;
}

/* ---- by the launches of level step ----------------------------------------------------------- */

/* A member, and the steps that it is to train. */
typedef struct {
  int number;
  StepState state;
} MemberSteps;

/* A Rendezvous's act. Networks share launches if they are at the same step: one that was resumed
   may be elsewhere. */
static int launch_steps(void *context, void *const *brought, int count) {
  CudaEngine *first = context, *all = first->members.all;
  const MemberSteps *steps[NETWORKS_AT_ONCE] = {NULL};
  for (int i = 0; i < count; i++) {
    const MemberSteps *of = brought[i];
    steps[of->number] = of;
  }
  for (int n = 0; n < NETWORKS_AT_ONCE; n++) {
    if (!steps[n]) continue;
    const StepState state = steps[n]->state;
    Networks networks = {.apart = first->members.apart,
                         .own_pixels = all->d_train_on != first->d_pixels};
    for (int i = n; i < NETWORKS_AT_ONCE; i++) {
      if (!steps[i] || steps[i]->state.position != state.position ||
          steps[i]->state.end != state.end)
        continue;
      networks.numbers |= (uint64_t)i << 4 * networks.count++;
      steps[i] = NULL;
    }
    if (memcmp(&networks, &all->networks, sizeof networks) != 0) steps_forget(all);
    all->networks = networks;
    TRY(steps_train(all, state, 0));
  }
  return cudaStreamSynchronize(first->compute);
}

cudaError_t members_steps(CudaEngine *e, StepState state) {
  MemberSteps steps = {e->number, state};
  TRY(cudaStreamSynchronize(e->compute));
  return (cudaError_t)rendezvous_meet(&e->first->members.meeting, &steps);
}

/* Returns an engine without memory of its own that has the arrays of member 0. */
static CudaEngine *engine_of_all(CudaEngine *first, const CudaEngine *member, Error *error) {
  CudaEngine *all = malloc(sizeof *all);
  if (!all) return error_null(error, "out of memory for the engine");
  *all = *member;
  all->first = NULL;
  all->compute = first->compute;
  all->d_train_on = all->d_augmented ? all->d_augmented : all->d_pixels;
  snprintf(first->engine.reason, sizeof first->engine.reason, "networks share its launches");
  return all;
}

/* ---- both ways ------------------------------------------------------------------------------- */

/* The rows are there when the first member is. */
Engine *cuda_member(Engine *engine, Error *error) {
  CudaEngine *first = (CudaEngine *)engine;
  Members *m = &first->members;
  const bool steps = m->d_block, meets = !has_tiles(first) || engine_cuda_by_clusters(first);
  if (m->count == m->most) return error_null(error, "the engine has no room for another member");
  if (m->count == 0 && meets) {
    if (!steps && !open_clusters(first, error)) return NULL;
    rendezvous_open(&m->meeting, steps ? launch_steps : launch_clusters, first);
  }
  if (!cuda_done(cudaStreamSynchronize(first->compute), "uploading rows", error)) return NULL;
  Engine *member = engine_cuda_open_member(first, steps ? FUSION_STEP : FUSION_EPOCH, error);
  if (member &&
      (!steps || m->all || (m->all = engine_of_all(first, (CudaEngine *)member, error))) &&
      cuda_attend(member, true, error))
    return member;
  if (member) member->call->close(member);
  return NULL;
}

void members_close(CudaEngine *first) {
  Members *m = &first->members;
  if (m->meeting.act) rendezvous_close(&m->meeting);
  if (m->all) steps_forget(m->all);
  free(m->all);
}

bool cuda_attend(Engine *engine, bool attends, Error *error) {
  CudaEngine *e = (CudaEngine *)engine;
  if (!e->first) return true;
  if (attends != e->attends && !has_tiles(e))
    rendezvous_attend(&e->first->members.meeting, attends);
  e->attends = attends;
  return !attends || cuda_done(cudaSetDevice(e->device), "taking the GPU", error);
}
