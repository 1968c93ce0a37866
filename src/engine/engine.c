/* Functions that all engines share: checks, sums over ranks, the choice of the device. */
#include "engine/engine.h"

#include <inttypes.h>
#include <string.h>

/* ---- checks --------------------------------------------------------------------------------- */

bool engine_has_rows(const EngineConfig *config, uint64_t first_row, uint64_t rows, Error *error) {
  const uint64_t capacity = config->dataset_rows;
  if (rows <= capacity && first_row <= capacity - rows) return true;
  return error_set(
      error, "rows %" PRIu64 " to %" PRIu64 " are outside the engine's dataset of %" PRIu64 " rows",
      first_row, first_row + rows, capacity);
}

bool engine_can_upload(const EngineConfig *config, uint64_t first_row, uint64_t rows,
                       Error *error) {
  if (!engine_has_rows(config, first_row, rows, error)) return false;
  return rows <= config->staging_rows ||
         error_set(error, "a staging buffer has no %" PRIu64 " rows, only %" PRIu64, rows,
                   config->staging_rows);
}

bool engine_can_train(const EngineConfig *config, const TrainRange *range, Error *error) {
  const uint64_t all = ceil_div(range->rows, (uint64_t)config->training.batch);
  const int inputs = config->network.size[0];
  if (!engine_has_rows(config, range->first_row, range->rows, error)) return false;
  if (range->steps > all || range->first_step > all - range->steps)
    return error_set(error, "%" PRIu64 " rows have no steps %" PRIu64 " to %" PRIu64, range->rows,
                     range->first_step, range->first_step + range->steps);
  if (augment_any(range->augment) && !augment_any(config->training.augment))
    return error_set(error, "the engine was not opened for augmented rows");
  return !augment_any(range->augment) || augment_side(inputs) ||
         error_set(error, "pictures of %d pixels are not square: they cannot be augmented", inputs);
}

bool engine_augments_alike(const TrainRange *a, const TrainRange *b) {
  return a->first_row == b->first_row && a->rows == b->rows &&
         augment_same(a->augment, b->augment) && a->augment_key == b->augment_key;
}

/* ---- pieces of work -------------------------------------------------------------------------- */

uint64_t engine_piece(const Engine *engine, uint64_t left, uint64_t rows) {
  const double operations = 4e9, per_row = 6.0 * (double)engine->config.network.parameters;
  const uint64_t most = (uint64_t)(operations / per_row) / rows;
  if (!engine->synchronous || left < most) return left;
  return most > 0 ? most : 1;
}

/* ---- ranks ---------------------------------------------------------------------------------- */

/* Adds the ranks' sums. Counts are exact in float64 up to 2^53. */
bool engine_ranks_collect(const EngineConfig *config, EngineSums *sums, Error *error) {
  double all[] = {sums->loss, (double)sums->correct, (double)sums->rows};
  if (!ranks_sum_doubles(config->ranks, all, sizeof all / sizeof *all, error)) return false;
  *sums = (EngineSums){all[0], (uint64_t)all[1], (uint64_t)all[2]};
  return true;
}

/* Adds the number of ranks to engine->device. If any rank could not open its engine (NULL), all
   ranks close their engines and fail. */
static Engine *join_ranks(Engine *engine, Ranks *ranks, Error *error) {
  Error mine = {.text = ""}; /* "" if this rank's engine is open */
  if (!engine) mine = *error;
  Error *all = ranks_gather(ranks, &mine, sizeof mine, error);
  bool good = all;
  for (int r = 0; good && r < ranks_count(ranks); r++)
    if (*all[r].text) *error = all[r], good = false;
  free(all);
  if (!engine || !good) {
    engine_close(engine);
    return NULL;
  }
  const int hosts = ranks_hosts(ranks);
  engine->device[80] = '\0'; /* leaves room for the text about ranks */
  text_append(engine->device, ", %d ranks%s", ranks_count(ranks),
              hosts > 1 ? text_format(" on %d hosts", hosts).text : "");
  return engine;
}

/* ---- the device that --device asks for ------------------------------------------------------- */

/* Checks that each rank has a GPU that works. If not, chooses the CPU and sets device->reason. */
static bool look(Device *device, Ranks *ranks, Error *error) {
  const bool mine = engine_cuda_available(&device->reason);
  double lacks = !mine; /* number of ranks without a GPU */
  device->looked = true;
  if (!ranks_sum_doubles(ranks, &lacks, 1, error)) return false;
  if (mine && lacks > 0) error_set(&device->reason, "another rank has no GPU");
  if (lacks > 0) device->choice = DEVICE_CPU;
  return true;
}

Engine *device_open(void *context, const EngineConfig *config, Error *error) {
  Device *device = context;
  /* With one launch queue, the driver creates a context 60 ms faster and destroys it 50 ms faster.
     Copies still overlap. Ranks keep the default queues, so that NCCL can overlap with kernels. */
  if (!config->ranks) setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 0);
  if (device->choice != DEVICE_CPU && config->ranks && !engine_cuda_take(config->ranks, error))
    return NULL;
  if (device->choice == DEVICE_AUTO && !device->looked && !look(device, config->ranks, error))
    return NULL;
  Engine *engine =
      (device->choice == DEVICE_CPU ? engine_cpu_open : engine_cuda_open)(config, error);
  return config->ranks ? join_ranks(engine, config->ranks, error) : engine;
}

bool device_fall_back(Device *device, bool able, Error *error) {
  if (!error->of_gpu) return false;
  device->reason = *error;
  if (device->choice == DEVICE_AUTO && able) {
    device->choice = DEVICE_CPU;
    return true;
  }
  return error_set(error, "%.400s; use --device cpu to run without a GPU", device->reason.text);
}
