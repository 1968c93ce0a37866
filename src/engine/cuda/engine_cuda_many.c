/* Members of an engine: networks that train at once on its rows. Each member is an engine with
   parameters, an order, results and a stream of its own, and launches kernels that leave room for
   those of other members. On Hopper a network of two hidden layers that is not too large has a
   cluster of blocks (kernels/many/). Other networks that level epoch takes by tiles have the kernel
   that they have alone. Networks that train otherwise train one after the other.

   A network's bits are the same whoever trains beside it. They are those of its level alone only by
   tiles. */
#include "engine/cuda/cuda_state.h"

#include <stdio.h>

#include "engine/cuda/gpu_limits.h"

/* The GPU runs as many clusters as it has room for, and the others wait. With many that wait all of
   16 networks are done at nearly the same time; with twice the clusters the last two would train
   alone, while most of the GPU is idle. */
enum { MOST_BY_CLUSTERS = 64 };

bool engine_cuda_by_clusters(const CudaEngine *e) {
  return e->engine.config.training.fusion == FUSION_EPOCH && e->may_join &&
         many_takes(e->plan.shape) && e->engine.config.dataset_rows < 1 << 28 &&
         many_clusters() > 0;
}

/* Kernels by tiles that wait for blocks of their own must all have room. One of a single cluster
   never waits, and more of them than there are clusters fill gaps. */
int cuda_members(Engine *engine) {
  const CudaEngine *e = (const CudaEngine *)engine;
  GpuLimits limits;
  if (engine_cuda_by_clusters(e)) return MOST_BY_CLUSTERS;
  if (!e->may_join || !has_tiles(e) || e->tiles.clusters == 0 || !gpu_limits_read(&limits, NULL))
    return 0;
  return e->tiles.clusters == 1 ? 2 * limits.clusters : limits.clusters / e->tiles.clusters;
}

Engine *cuda_member(Engine *engine, Error *error) {
  CudaEngine *first = (CudaEngine *)engine;
  if (!cuda_done(cudaStreamSynchronize(first->compute), "uploading rows", error)) return NULL;
  if (engine_cuda_by_clusters(first))
    snprintf(engine->reason, sizeof engine->reason,
             "a network in each cluster of 16 blocks, %d at a time", many_clusters());
  return engine_cuda_open_member(first, error);
}
