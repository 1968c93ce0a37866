#include "engine/loader.h"

bool loader_feed(Engine *engine, DatasetReader *reader, const LoaderPlan *plan, uint64_t *rows,
                 Error *error) {
  const EngineConfig *config = &engine->config;
  *rows = 0;
  if (dataset_inputs(reader) != config->network.size[0])
    return error_set(error, "the file has %d pixels a row, but the network takes %d inputs",
                     dataset_inputs(reader), config->network.size[0]);
  for (int index = 0;; index = 1 - index) {
    StagingBuffer buffer;
    size_t filled;
    if (!engine->call->staging(engine, index, &buffer, error)) return false;
    if (!dataset_read(reader, buffer.pixels, buffer.stride, buffer.labels, config->staging_rows,
                      &filled, error))
      return false;
    if (filled == 0) return true;
    const uint64_t first =
        plan->first_row + (plan->ring ? (uint64_t)index * config->staging_rows : *rows);
    if (first + filled > config->dataset_rows)
      return error_set(error, "the dataset of %llu rows is too small for the file",
                       (unsigned long long)config->dataset_rows);
    if (!engine->call->upload(engine, index, first, filled, error)) return false;
    *rows += filled;
    if (plan->use && !plan->use(plan->context, first, filled, error)) return false;
  }
}
