/* Uses saved networks: --evaluate, --predict, --classify and --html. */
#include <string.h>

#include "commands/commands.h"
#include "engine/loader.h"

enum { BATCH = 64 }; /* the default of --batch */

typedef struct {
  Options o;           /* the caller's options, with class_names, --test and --label-column set */
  DataSummary trained; /* summary of the first network's training rows; has 0 rows if unknown */
  Report *report;
  Device device;
  bool began; /* set once the networks are open */
} Asked;

/* Opens an engine with the saved network and its pixel scale. A file that another program wrote has
   no pixel scale, so the scale comes from the command line. */
static Engine *open_engine(Asked *a, const Checkpoint *saved, const char *path, Error *error) {
  Options *o = &a->o, trained = *o;
  if (*saved->options) {
    options_default(&trained);
    if (!options_read_text(&trained, saved->options, path, error)) return NULL;
    if (options_test_is_auto(o)) strcpy(o->test, trained.test);
    if (!*o->label_column) strcpy(o->label_column, trained.label_column);
  }
  const EngineConfig config = {
      .network = saved->network,
      .training = {.pixels = trained.training.pixels,
                   .batch = BATCH,
                   .fusion = o->training.fusion,
                   .precision = o->training.precision,
                   .device_memory = o->training.device_memory,
                   .threads = o->training.threads ? o->training.threads : ranks_cores(NULL)},
      .engines = o->load.count,
      .dataset_rows = 2 * LOADER_ROWS,
      .staging_rows = LOADER_ROWS};
  Engine *engine = device_open(&a->device, &config, error);
  if (engine && engine->call->write(engine, saved->parameters, 1, error)) {
    report_remark(a->report, options_gone_text(&trained, path).text);
    return engine;
  }
  engine_close(engine);
  return NULL;
}

static Engine *open_network(Asked *a, const char *path, Error *error) {
  Checkpoint saved;
  if (!checkpoint_load(&saved, path, error)) return NULL;
  const char *names = a->o.class_names; /* the class names of an earlier network */
  if (!*a->o.names && names && saved.names && strcmp(names, saved.names) != 0) {
    error_set(error, "the class names of %s are not those of %s: --names gives names for both",
              path, a->o.load.path[0]);
    checkpoint_free(&saved);
    return NULL;
  }
  if (!names) {
    a->o.class_names = saved.names;
    saved.names = NULL;
  }
  if (a->trained.rows == 0 && saved.data) data_from_json(&a->trained, saved.data);
  Engine *engine = open_engine(a, &saved, path, error);
  checkpoint_free(&saved);
  return engine;
}

/* Opens an engine with the networks of --load. Several networks become a committee. */
static Engine *open_networks(Asked *asked, Error *error) {
  Engine *engine[OPTIONS_LOADS];
  const PathList *load = &asked->o.load;
  int count = 0;
  for (bool good = true; good && count < load->count;) {
    engine[count] = open_network(asked, load->path[count], error);
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
  while (count-- > 0) engine_close(engine[count]);
  return NULL;
}

/* Prints how the rows differ from the training rows if the training rows' summary was saved. */
static void compare(Asked *a, const char *path, const DataSummary *rows) {
  if (a->trained.rows > 0) data_compare(path, rows, &a->trained, report_remark, a->report);
}

static bool evaluate(Engine *engine, Asked *a, Error *error) {
  const Options *o = &a->o;
  EvaluateConfig config = evaluate_config(o);
  Metrics metrics;
  DataSummary read = {0};
  config.read = &read;
  if (!o->evaluate) config.rows.path = NULL; /* --html needs no rows */
  if (!evaluate_file(engine, &config, &metrics, error)) return false;
  if (o->evaluate) (o->json ? metrics_print_json : metrics_print)(&metrics, stdout);
  metrics_close(&metrics);
  compare(a, config.rows.path, &read);
  if (!o->json) run_files_say_drew(a->report, &config);
  return true;
}

static bool predict(Engine *engine, Asked *a, Error *error) {
  const Options *o = &a->o;
  const DatasetConfig rows = {
      .path = o->predict, .label = o->label_column, .inputs = engine->config.network.size[0]};
  DatasetReader *reader = predict_open(engine, rows, error);
  if (!reader) return false;
  const char *output = *o->output ? o->output : "-";
  const bool good = predict_to_file(engine, reader, output, o->probabilities, error);
  if (good) compare(a, o->predict, dataset_summary(reader));
  dataset_close(reader);
  if (good && strcmp(output, "-") != 0) run_files_say_wrote(a->report, output, "");
  return good;
}

static bool classify(Engine *engine, Asked *a, Error *error) {
  const Options *o = &a->o;
  const Pictures pictures = {.paths = o->pictures,
                             .count = o->picture_count,
                             .confidence = o->confidence,
                             .json = o->json,
                             .show = o->show,
                             .names = o->class_names,
                             .report = a->report};
  if (!predict_pictures(engine, &pictures, error)) return false;
  if (!o->json) run_files_say_wrote(a->report, o->show, "");
  return true;
}

/* Replaces --test auto once the networks are loaded. */
static bool find_test(Asked *a, Error *error) {
  Options *o = &a->o;
  if (!o->evaluate) return true;
  run_files_find_cached(o);
  return options_test_file(o) ||
         error_set(error, "%s does not say which rows test it: name a file with --test",
                   o->load.path[0]);
}

static bool run(Asked *a, Error *error) {
  Options *o = &a->o;
  Engine *engine = open_networks(a, error);
  a->began = engine;
  const bool good = engine && find_test(a, error) &&
                    class_names_read(o->names, network_classes(&engine->config.network),
                                     &o->class_names, error) &&
                    (o->classify   ? classify(engine, a, error)
                     : *o->predict ? predict(engine, a, error)
                                   : evaluate(engine, a, error)) &&
                    report_good(a->report, error);
  engine_close(engine);
  free(o->class_names);
  o->class_names = NULL;
  return good;
}

bool predict_command(const Options *options, Report *report, Error *error) {
  Asked asked = {.o = *options, .report = report, .device = {.choice = options->device}};
  asked.o.class_names = NULL;
  if (!run_files_can_be_written(options, error)) return false;
  if (run(&asked, error)) return true;
  const Options *o = &asked.o; /* after a GPU failure: print no result and read no pipe twice */
  const bool able =
      !asked.began || (!o->classify && (!*o->predict || *o->output) &&
                       source_can_repeat(*o->predict ? o->predict : options_test_file(o)));
  return device_fall_back(&asked.device, able, error) && run(&asked, error);
}
