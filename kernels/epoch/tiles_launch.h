/* What the files of level epoch's launcher share. */
#pragma once

#include "epoch/tiles_layout.cuh"

namespace tiles {

/* One compiled variant of the kernel, for batches of up to `rows` rows. `second` is true for adam
   and adamw. `ahead` is true if Z1 is computed before W1 is known. */
struct Variant {
  int rows;
  bool second;
  Way way;
  bool ahead;
  const void *kernel;
  size_t shared, pixels; /* in bytes: struct Shared, and all buffers of pixels */
  int turns;
};

/* The variants by file: clusters without second moments, clusters with second moments, mail on
   compute capability 9.0, mail from 8.0 on. */
extern const Variant variants_first[3], variants_second[3], variants_mail[3], variants_80[4];

/* Starts a kernel with clusters of blocks. tiles_clusters.cu */
cudaError_t launch_clusters(const Variant &of, int blocks, size_t shared, const Job &job,
                            cudaStream_t stream);

/* Queues kernels that fill the job's arrays, for `rows` rows per step. tiles_prepare.cu */
cudaError_t prepare(const TilesJob &of, const Job &job, int rows, cudaStream_t stream);

} // namespace tiles
