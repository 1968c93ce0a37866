#include "engine/loader.h"

bool loader_feed(Engine *engine, DatasetReader *reader, const LoaderPlan *plan, uint64_t *rows,
                 Error *error) {
  const EngineConfig *config = &engine->config;
  *rows = 0;
  if (dataset_inputs(reader) != config->network.size[0]) {
    return error_set(error, "the file has %d pixels a row, but the network takes %d inputs",
                     dataset_inputs(reader), config->network.size[0]);
  }
  for (int slot = 0;; slot = 1 - slot) {
    EngineSlot buffer;
    size_t filled;
    if (!engine->call->slot(engine, slot, &buffer, error)) return false;
    if (!dataset_read(reader, buffer.pixels, buffer.stride, buffer.labels, config->slot_rows,
                      &filled, error)) {
      return false;
    }
    if (filled == 0) return true;
    const uint64_t first =
        plan->first_row + (plan->ring ? (uint64_t)slot * config->slot_rows : *rows);
    if (first + filled > config->store_rows) {
      return error_set(error, "the store of %llu rows is too small for the file",
                       (unsigned long long)config->store_rows);
    }
    if (!engine->call->upload(engine, slot, first, filled, error)) return false;
    *rows += filled;
    if (plan->use && !plan->use(plan->context, first, filled, error)) return false;
  }
}
