#include "engine/loader.h"

bool loader_next(Loader *l, Error *error) {
  const EngineConfig *config = &l->engine->config;
  const EngineOperations *call = l->engine->call;
  StagingBuffer buffer;
  size_t filled;
  l->rows = 0;
  if (dataset_inputs(l->reader) != config->network.size[0])
    return error_set(error, "%s has %d pixels a row, but the network takes %d",
                     dataset_source(l->reader)->name, dataset_inputs(l->reader),
                     config->network.size[0]);
  if (!call->staging(l->engine, l->index, &buffer, error)) return false;
  if (!dataset_read(l->reader, buffer.pixels, buffer.stride, buffer.labels, config->staging_rows,
                    &filled, error))
    return false;
  if (filled == 0) return true;
  l->first_row = l->start + (l->ring ? (uint64_t)l->index * config->staging_rows : l->done);
  if (l->first_row + filled > config->dataset_rows)
    return error_set(error, "the dataset of %llu rows is too small for the file",
                     (unsigned long long)config->dataset_rows);
  if (!call->upload(l->engine, l->index, l->first_row, filled, error)) return false;
  l->rows = filled;
  l->done += filled;
  l->index = 1 - l->index;
  return true;
}
