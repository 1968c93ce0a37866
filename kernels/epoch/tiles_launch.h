/* The launcher's half of level epoch by tiles that is not in tiles.cu. */
#pragma once

#include "epoch/tiles_layout.cuh"

namespace tiles {

/* A kernel for batches of up to `rows` rows. second: by adam and adamw; ahead: Z1 before W1 is
   known. */
struct Variant {
  int rows;
  bool second;
  Way way;
  bool ahead;
  const void *kernel;
  size_t shared, pixels; /* bytes: of constant size; of all buffers */
  int turns;
};

/* With the head by clusters, without second moments and with them; with the head by mail; from
   compute capability 8.0 on. */
extern const Variant variants_first[3], variants_second[3], variants_mail[3], variants_80[4];

/* Starts a kernel whose blocks are clusters: tiles_clusters.cu. */
cudaError_t launch_clusters(const Variant &of, int blocks, size_t shared, const Job &job,
                            cudaStream_t stream);

/* Queues what fills the arrays of the job that are made before the launch; rows: of a step. */
cudaError_t prepare(const TilesJob &of, const Job &job, int rows, cudaStream_t stream);

} // namespace tiles
