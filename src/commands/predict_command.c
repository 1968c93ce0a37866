
#include <omp.h>

#include "commands/commands.h"
#include "engine/loader.h"
#include "predict/pictures.h"

enum { BATCH = 64 }; /* as training has it by default */

/* Pixels have the scale that the network was trained with; of another program's file, that of the
   command line. */
static Engine *open_engine(const Options *o, const Checkpoint *saved, const char *path,
                           Device *device, Error *error) {
  Options trained = *o;
  if (*saved->options) {
    options_default(&trained);
    if (!options_read_text(&trained, saved->options, path, error)) return NULL;
  }
  const EngineConfig config = {
      .network = saved->network,
      .training = {.pixels = trained.training.pixels,
                   .batch = BATCH,
                   .fusion = o->training.fusion,
                   .precision = o->training.precision,
                   .device_memory = o->training.device_memory,
                   .threads = o->training.threads ? o->training.threads : omp_get_num_procs()},
      .engines = o->load.count,
      .dataset_rows = 2 * LOADER_ROWS,
      .staging_rows = LOADER_ROWS};
  Engine *engine = device_open(device, &config, error);
  if (!engine || engine->call->write(engine, saved->parameters, 1, error)) return engine;
  engine->call->close(engine);
  return NULL;
}

/* An engine with the network in the file. names: those of the first network that has some. */
static Engine *open_network(const Options *o, const char *path, Device *device, char **names,
                            Error *error) {
  Checkpoint saved;
  if (!checkpoint_load(&saved, path, error)) return NULL;
  if (!*names) {
    *names = saved.names;
    saved.names = NULL;
  }
  Engine *engine = open_engine(o, &saved, path, device, error);
  if (!engine && device_fall_back(device, true, error))
    engine = open_engine(o, &saved, path, device, error);
  checkpoint_free(&saved);
  return engine;
}

/* An engine with the networks of options->load, which are to predict for the same rows. */
static Engine *open_networks(const Options *o, Device *device, char **names, Error *error) {
  Engine *engine[OPTIONS_LOADS];
  const PathList *load = &o->load;
  int count = 0;
  for (bool good = true; good && count < load->count;) {
    engine[count] = open_network(o, load->path[count], device, names, error);
    if (!engine[count]) break;
    const Network *a = &engine[0]->config.network, *b = &engine[count++]->config.network;
    const int inputs = a->size[0], classes = network_classes(a);
    good = (inputs == b->size[0] && classes == network_classes(b)) ||
           error_set(error, "%s has %d inputs and %d classes, but %s has %d and %d",
                     load->path[count - 1], b->size[0], network_classes(b), load->path[0], inputs,
                     classes);
    if (good && count == load->count)
      return count == 1 ? engine[0] : committee_open(engine, count, error);
  }
  while (count-- > 0) engine[count]->call->close(engine[count]);
  return NULL;
}

static bool evaluate(Engine *engine, const Options *o, Report *report, Error *error) {
  const EvaluateConfig config = evaluate_config(o);
  Metrics metrics;
  if (!evaluate_file(engine, &config, &metrics, error)) return false;
  if (o->evaluate) (o->json ? metrics_print_json : metrics_print)(&metrics, stdout);
  metrics_close(&metrics);
  if (!o->json) run_files_say_drew(report, &config);
  return true;
}

static bool predict(Engine *engine, const Options *o, Report *report, Error *error) {
  const DatasetConfig rows = {
      .path = o->predict, .label = o->label_column, .inputs = engine->config.network.size[0]};
  DatasetReader *reader = predict_open(engine, rows, error);
  if (!reader) return false;
  const PredictFormat format = {*o->output ? o->output : "-", o->probabilities, o->json,
                                o->class_names};
  const bool good = predict_to_file(engine, reader, &format, error);
  dataset_close(reader);
  if (good && !o->json) run_files_say_wrote(report, o->output, "");
  return good;
}

/* A PictureFailed. */
static void say(void *report, const Error *error) {
  report_failure(report, error);
}

static bool classify(Engine *engine, const Options *o, Report *report, Error *error) {
  const Pictures pictures = {.paths = o->pictures,
                             .count = o->picture_count,
                             .confidence = o->confidence,
                             .json = o->json,
                             .show = o->show,
                             .names = o->class_names,
                             .file = stdout,
                             .failed = say,
                             .context = report};
  if (!predict_pictures(engine, &pictures, error)) return false;
  if (!o->json) run_files_say_wrote(report, o->show, "");
  return true;
}

static bool run(const Options *options, Device *device, Report *report, Error *error) {
  Options named = *options;
  const Options *o = &named;
  named.class_names = NULL;
  Engine *engine = open_networks(o, device, &named.class_names, error);
  const bool good = engine &&
                    class_names_read(o->names, network_classes(&engine->config.network),
                                     &named.class_names, error) &&
                    (o->classify   ? classify(engine, o, report, error)
                     : *o->predict ? predict(engine, o, report, error)
                                   : evaluate(engine, o, report, error)) &&
                    report_good(report, error);
  if (engine) engine->call->close(engine);
  free(named.class_names);
  return good;
}

/* True if predictions can begin again: none was printed, and the rows are still there. */
static bool can_repeat(const Options *o) {
  return !o->classify && (!*o->predict || *o->output) &&
         source_can_repeat(*o->predict ? o->predict : options_test_file(o));
}

bool predict_command(const Options *o, Report *report, Error *error) {
  Device device = {.choice = o->device};
  if (!run_files_can_be_written(o, error)) return false;
  return run(o, &device, report, error) ||
         (device_fall_back(&device, can_repeat(o), error) && run(o, &device, report, error));
}
