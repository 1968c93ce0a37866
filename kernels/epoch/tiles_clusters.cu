/* Finds how many clusters of blocks a GPU runs at once, and launches a kernel with clusters. */
#include "epoch/tiles_launch.h"

using namespace tiles;

int tiles_clusters(void) {
  return ask_once([] {
           int clusters = 0;
           cudaFuncAttributes of;
           const Variant &v = variants_first[1];
           const bool known =
               cudaFuncGetAttributes(&of, v.kernel) == cudaSuccess && of.ptxVersion >= 90 &&
               cudaFuncSetAttribute(v.kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) ==
                   cudaSuccess &&
               allow_shared(v.kernel, 232448) == cudaSuccess &&
               ask_clusters(v.kernel, THREADS, 232448, RANKS, &clusters) == cudaSuccess;
           launched(); /* forgets a failure */
           return 1 + (known ? clusters : 0);
         }) -
         1;
}

cudaError_t tiles::launch_clusters(const Variant &of, int blocks, size_t shared, const Job &job,
                                   cudaStream_t stream) {
  /* All blocks must run at once, because they wait for each other. */
  if (blocks > tiles_clusters() * RANKS) return cudaErrorCooperativeLaunchTooLarge;
  TRY(launched(cudaFuncSetAttribute(of.kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1)));
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {RANKS, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(THREADS);
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  Job copy = job;
  void *arguments[] = {&copy};
  return launched(cudaLaunchKernelExC(&config, of.kernel, arguments));
}
