#include <stdio.h>
#include <stdlib.h>

#include <omp.h>

#include "predict/predict.h"
#include "engine/device.h"
#include "predict/evaluate.h"
#include "commands/commands.h"
#include "data/source.h"

enum { SLOT_ROWS = 8192, BATCH = 64 }; /* as training has them by default */

static Engine *open_engine(const Options *o, const Checkpoint *kept, Device *device, Error *error) {
  const EngineConfig config = {.network = kept->network,
                               .batch = BATCH,
                               .fusion = (Fusion)o->fusion,
                               .precision = (Precision)o->precision,
                               .device_memory = o->device_memory * 1000000,
                               .threads = o->threads ? o->threads : omp_get_num_procs(),
                               .store_rows = 2 * SLOT_ROWS,
                               .slot_rows = SLOT_ROWS};
  Engine *engine = device_open(device, &config, error);
  if (!engine || engine->call->write(engine, kept->parameters, NULL, error)) return engine;
  engine->call->close(engine);
  return NULL;
}

/* An engine with the network of options->load. */
static Engine *open_network(const Options *o, Device *device, Error *error) {
  Checkpoint kept;
  if (!checkpoint_load(&kept, o->load, error)) return NULL;
  Engine *engine = open_engine(o, &kept, device, error);
  if (!engine && device_fall_back(device, true, error))
    engine = open_engine(o, &kept, device, error);
  checkpoint_free(&kept);
  return engine;
}

static bool evaluate(Engine *engine, const Options *o, Error *error) {
  Scores scores;
  if (!judge(engine, o, &scores, error)) return false;
  scores_print(&scores, stdout);
  scores_close(&scores);
  return report_flush(error);
}

static bool predict(Engine *engine, const Options *o, Error *error) {
  const int threads = engine->config.threads;
  DatasetReader *reader = ask_open(engine, o->predict, threads, error);
  if (!reader) return false;
  const bool good =
      ask_predict(engine, reader, *o->output ? o->output : "-", o->probabilities, error);
  dataset_close(reader);
  return good && report_flush(error);
}

static bool answer(const Options *o, Device *device, Error *error) {
  Engine *engine = open_network(o, device, error);
  if (!engine) return false;
  const bool good = o->evaluate ? evaluate(engine, o, error)
                    : o->classify
                        ? ask_classify(engine, o->pictures, o->picture_count, stdout, error) &&
                              report_flush(error)
                        : predict(engine, o, error);
  engine->call->close(engine);
  return good;
}

/* Whether answers can be asked for once more: none was printed, and the rows are still there. */
static bool can_repeat(const Options *o) {
  if (o->classify || (*o->predict && !*o->output)) return false;
  return source_can_repeat(o->evaluate ? o->test : o->predict);
}

bool run_asking(const Options *o, Error *error) {
  Device device = {.choice = o->device};
  return answer(o, &device, error) ||
         (device_fall_back(&device, can_repeat(o), error) && answer(o, &device, error));
}
