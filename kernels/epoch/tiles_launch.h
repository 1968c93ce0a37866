/* The launcher's half of level epoch by tiles that is not in tiles.cu. */
#pragma once

#include "epoch/tiles_layout.cuh"

namespace tiles {

/* Queues what fills the arrays of the job that are made before the launch; rows: of a step. */
cudaError_t prepare(const TilesJob &of, const Job &job, int rows, cudaStream_t stream);

} // namespace tiles
