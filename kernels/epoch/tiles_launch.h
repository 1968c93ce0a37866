/* The host code of level `epoch` shares the variants of the kernel, and prepare(). */
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

/* One array per file. variants_first and variants_second use clusters; variants_second has second
   moments. variants_mail (for compute capability 9.0) and variants_80 (from 8.0 on) use mail.
   Unused entries have 0 rows. */
constexpr int VARIANTS = 4;
extern const Variant variants_first[VARIANTS], variants_second[VARIANTS], variants_mail[VARIANTS],
    variants_80[VARIANTS];

/* Queues the kernels that fill the job's arrays, with `rows` rows per step. In tiles_prepare.cu. */
cudaError_t prepare(const TilesJob &of, const Job &job, int rows, cudaStream_t stream);

} // namespace tiles
