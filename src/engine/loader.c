#include "engine/loader.h"

static bool fits_network(const Loader *l, Error *error) {
  const int inputs = dataset_inputs(l->reader), wanted = l->engine->config.network.size[0];
  return inputs == wanted || error_set(error, "%s has %d pixels a row, but the network takes %d",
                                       dataset_source(l->reader)->name, inputs, wanted);
}

bool loader_next(Loader *l, Error *error) {
  const uint64_t most = l->engine->config.staging_rows;
  const EngineOperations *call = l->engine->call;
  StagingBuffer buffer;
  size_t filled;
  l->rows = 0;
  if (!fits_network(l, error) || !call->staging(l->engine, l->index, &buffer, error) ||
      !dataset_read(l->reader, buffer.pixels, buffer.stride, buffer.labels, most, &filled, error))
    return false;
  if (filled == 0) return true;
  l->first_row = l->start + (l->ring ? (uint64_t)l->index * most : l->done);
  if (!call->upload(l->engine, l->index, l->first_row, filled, error)) return false;
  l->rows = filled;
  l->done += filled;
  l->index = 1 - l->index;
  return true;
}
