/* Uses saved networks: --evaluate, --predict, --classify and --html. */
#include <string.h>

#include "commands/commands.h"
#include "data/columns.h"
#include "engine/loader.h"

enum { BATCH = 64 }; /* the default of --batch */

typedef struct {
  Options o;            /* the caller's options, with class_names, --test and --label-column set */
  DataSummary *trained; /* (o.load.count): summaries of the networks' training rows; 0 rows if a
                           network's are unknown. The reader of rows gets the first one */
  Report *report;
  Device device;
  bool began;    /* set once the networks are open */
  bool held_out; /* the rows to evaluate are those that judged the run, not test rows */
} Asked;

/* Notes which file is the training file, by the path that the network kept, if it is still there.
 */
static void find_training_file(DataSummary *trained, const char *path) {
  struct stat status;
  if (stat(path, &status) != 0 || !S_ISREG(status.st_mode)) return;
  trained->device = status.st_dev;
  trained->inode = status.st_ino;
}

/* Sets --test auto to the run's test file or, if it has none, to the rows that it held out. */
static void take_judges(Asked *a, const Options *run) {
  Options *o = &a->o;
  strcpy(o->test, run->test);
  if (!o->evaluate || options_test_file(run) || !options_validates(run) || o->load.count > 1)
    return;
  strcpy(o->train, run->train);
  strcpy(o->validation, run->validation);
  if (!*o->ignore_columns) strcpy(o->ignore_columns, run->ignore_columns);
  o->training.seed = run->training.seed;
  a->held_out = true;
}

/* Opens an engine with the saved network and its pixel scale. Completes `own`, the summary of its
   training rows. A file that another program wrote has
   no pixel scale, so the scale comes from the command line. */
static Engine *open_engine(Asked *a, const Checkpoint *saved, DataSummary *own, const char *path,
                           Error *error) {
  Options *o = &a->o, trained = *o;
  if (*saved->options) {
    options_default(&trained);
    if (!options_read_text(&trained, saved->options, path, error)) return NULL;
    if (options_test_is_auto(o)) take_judges(a, &trained);
    find_training_file(own, trained.train);
    if (!*o->label_column && a->trained->label == 0) /* saved by an older version */
      strcpy(o->label_column, trained.label_column);
  } else {
    report_remark(a->report, run_files_assumed(o, saved, path).text);
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

/* Refuses a network of a committee whose pixels had other names or another order in training. Notes
   if its label was in another column than the first network's. */
static bool columns_agree(Asked *a, int number, Error *error) {
  DataSummary *first = a->trained, *own = first + number;
  if (!columns_alike(first->names, own->names))
    return error_set(
        error,
        "%s and %s were trained on columns with different names or in a different order, "
        "so they cannot read the same rows",
        a->o.load.path[number], a->o.load.path[0]);
  if (first->label && own->label && first->label != own->label) first->label = LABEL_DIFFERS;
  return true;
}

static Engine *open_network(Asked *a, int number, Error *error) {
  Checkpoint saved;
  const char *path = a->o.load.path[number];
  if (!checkpoint_load(&saved, path, error)) return NULL;
  const char *names = a->o.class_names; /* the class names of an earlier network */
  if (!*a->o.names && names && saved.names && strcmp(names, saved.names) != 0) {
    error_set(error, "%s and %s have different class names; give names for both with --names", path,
              a->o.load.path[0]);
    checkpoint_free(&saved);
    return NULL;
  }
  if (!names) {
    a->o.class_names = saved.names;
    saved.names = NULL;
  }
  if (saved.data) data_from_json(&a->trained[number], saved.data);
  Engine *engine = columns_agree(a, number, error)
                       ? open_engine(a, &saved, &a->trained[number], path, error)
                       : NULL;
  checkpoint_free(&saved);
  return engine;
}

/* Opens an engine with the networks of --load. Several networks become a committee. */
static Engine *open_networks(Asked *asked, Error *error) {
  Engine *engine[OPTIONS_LOADS];
  const PathList *load = &asked->o.load;
  int count = 0;
  for (bool good = true; good && count < load->count;) {
    engine[count] = open_network(asked, count, error);
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

/* Prints how the rows differ from the training rows. In a committee, each network scales pixels
   itself, so that networks that were trained on another range than the first get their own lines.
 */
static void compare(Asked *a, const char *path, const DataSummary *rows) {
  const DataSummary *first = a->trained;
  data_compare(path, rows, first, report_remark, a->report);
  for (int n = 1; n < a->o.load.count; n++)
    if (first[n].rows > 0 && first[n].greatest != first->greatest)
      data_compare(text_format("%.150s with %.150s", path, a->o.load.path[n]).text, rows, first + n,
                   report_remark, a->report);
}

/* Remarks if the network answers no better than a constant, although no class has half of the rows.
   Then the rows may be of another task with as many pixels. */
static void doubt(Asked *a, const char *path, const Metrics *metrics, const DataSummary *rows) {
  enum { ENOUGH = 100 }; /* the answers to fewer rows may be wrong by chance */
  uint64_t most = 0;
  for (int c = 0; c < rows->classes; c++) most = rows->counts[c] > most ? rows->counts[c] : most;
  if (metrics->rows >= ENOUGH && metrics->correct <= most && 2 * most < metrics->rows)
    report_remark(a->report, text_format("%.300s: the network is no better than a constant answer: "
                                         "do the labels mean what they did in training?",
                                         text_shown(path).text)
                                 .text);
}

static bool evaluate(Engine *engine, Asked *a, Error *error) {
  const Options *o = &a->o;
  EvaluateConfig config = evaluate_config(o);
  Metrics metrics;
  DataSummary read = {0};
  config.read = &read;
  config.rows.trained = a->trained;
  if (!o->evaluate) config.rows.path = NULL; /* --html needs no rows */
  if (!evaluate_file(engine, &config, &metrics, error)) return false;
  if (o->evaluate) (o->json ? metrics_print_json : metrics_print)(&metrics, stdout);
  if (o->evaluate) doubt(a, config.rows.path, &metrics, &read);
  metrics_close(&metrics);
  if (a->held_out)
    report_remark(a->report, text_format("%.300s: the validation rows of the run",
                                         text_shown(config.rows.path).text)
                                 .text);
  else
    compare(a, config.rows.path, &read);
  if (!o->json) run_files_say_drew(a->report, &config);
  return true;
}

static bool predict(Engine *engine, Asked *a, Error *error) {
  const Options *o = &a->o;
  const DatasetConfig rows = {.path = o->predict,
                              .label = o->label_column,
                              .left_out = o->ignore_columns,
                              .predicts = true,
                              .trained = a->trained};
  DatasetReader *reader = predict_open(engine, rows, error);
  if (!reader) return false;
  const char *output = *o->output ? o->output : "-";
  const bool good = predict_to_file(
      engine, reader, output, a->trained->words ? o->class_names : NULL, o->probabilities, error);
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
  a->held_out &= !options_test_file(o);
  return options_test_file(o) || a->held_out ||
         error_set(error, "%s does not say which rows test it: name a file with --test",
                   o->load.path[0]);
}

static bool run(Asked *a, Error *error) {
  Options *o = &a->o;
  Engine *engine = open_networks(a, error);
  a->began = engine;
  bool (*answer)(Engine *, Asked *, Error *) = *o->predict ? predict : evaluate;
  if (o->classify) answer = classify;
  const bool good = engine && find_test(a, error) &&
                    class_names_read(o->names, network_classes(&engine->config.network),
                                     &o->class_names, error) &&
                    answer(engine, a, error) && report_good(a->report, error);
  engine_close(engine);
  free(o->class_names);
  o->class_names = NULL;
  return good;
}

/* Runs the command. If the GPU fails and --device is auto, the CPU does the work. */
static bool run_or_fall_back(Asked *a, Error *error) {
  if (run(a, error)) return true;
  const Options *o = &a->o; /* after a GPU failure: print no result and read no pipe twice */
  const bool able =
      !a->began || (!o->classify && (!*o->predict || *o->output) &&
                    source_can_repeat(*o->predict ? o->predict : options_test_file(o)));
  return device_fall_back(&a->device, able, error) && run(a, error);
}

bool predict_command(const Options *options, Report *report, Error *error) {
  Asked asked = {.o = *options, .report = report, .device = {.choice = options->device}};
  asked.o.class_names = NULL;
  if (!run_files_can_be_written(options, error)) return false;
  asked.trained = make_array(asked.trained, options->load.count);
  if (!asked.trained) return error_set(error, "out of memory");
  const bool good = run_or_fall_back(&asked, error);
  free(asked.trained);
  return good;
}
