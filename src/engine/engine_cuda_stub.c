/* Stands in for the CUDA engine in a build without nvcc. */
#include "engine/engine.h"

#ifndef HAVE_CUDA

static const char absent[] = "this program was built without CUDA; with an NVIDIA GPU `make run` "
                             "fetches nvcc and builds it again, or use --device cpu";

Engine *engine_cuda_open(const EngineConfig *config, Error *error) {
  (void)config;
  return error_null(error, "%s", absent);
}

bool engine_cuda_take(Ranks *ranks, Error *error) {
  (void)ranks;
  (void)error;
  return true;
}

bool engine_cuda_available(Error *reason) {
  return error_set(reason, "built without CUDA"); /* the line `device` says so: short */
}

#endif
