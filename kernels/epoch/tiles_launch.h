/* The files of level `epoch`'s launcher share the kernel's variants and prepare(). */
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
  void (*kernel)(Job);
  size_t shared, pixels; /* bytes of struct Shared; bytes of all buffers of pixels */
  int turns;
};

/* The variants by file: clusters without second moments, clusters with second moments, mail on
   compute capability 9.0, mail from 8.0 on. Unused entries at an array's end have 0 rows. */
constexpr int VARIANTS = 4;
extern const Variant variants_first[VARIANTS], variants_second[VARIANTS], variants_mail[VARIANTS],
    variants_80[VARIANTS];

/* Queues the kernels that fill the job's arrays, with `rows` rows per step. tiles_prepare.cu */
cudaError_t prepare(const TilesJob &of, const Job &job, int rows, cudaStream_t stream);

} // namespace tiles
