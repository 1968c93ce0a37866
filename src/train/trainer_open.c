/* Opens and closes trainers with their files and engines, and restores saved runs. */
#include "train/trainer.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "engine/loader.h"

/* ---- opening ------------------------------------------------------------------------------ */

bool trainer_open_file(const Trainer *t, TrainerFile *file, Error *error) {
  const TrainerConfig *c = &t->config;
  const size_t ahead = t->resident ? 0 : 2 * t->staging_rows;
  file->reader =
      dataset_open(&(DatasetConfig){.path = file->path,
                                    .classes = c->training->classes,
                                    .threads = c->threads,
                                    .label = c->label_column,
                                    .left_out = c->ignore_columns,
                                    .names = c->names,
                                    .found_names = c->found_names,
                                    .trains = !file->judges,
                                    .trained = file->judges ? &t->train.data : &t->before,
                                    .ahead = ahead,
                                    .hold_out = c->hold_out,
                                    .seed = c->training->seed,
                                    .held_out = file->judges},
                   error);
  if (!file->reader) return false;
  const struct stat *stamp = &dataset_source(file->reader)->stamp;
  if (file->rows == 0) {
    file->stamp = *stamp;
    file->data = *dataset_summary(file->reader); /* its columns; it has read no rows yet */
    file->data.words = c->found_names && (!c->from || t->before.words);
  }
  if (source_stamps_equal(stamp, &file->stamp)) return true;
  trainer_close_file(file);
  return error_set(error, "%s changed after it was first read", file->path);
}

void trainer_close_file(TrainerFile *file) {
  dataset_close(file->reader);
  file->reader = NULL;
}

const char *trainer_judge_option(const Trainer *t) {
  return t->judged_by == JUDGED_BY_VALIDATION ? "validation" : "test";
}

/* Refuses a batch with fewer rows than ranks, and options that need a second pass over a source
   that can be read only once. */
static bool check_config(const Trainer *t, Error *error) {
  const TrainerConfig *c = &t->config;
  const bool trains = source_can_repeat(c->train), judges = source_can_repeat(t->judge.path);
  const bool judge_is_last = t->judged_by == JUDGED_BY_TEST || !c->test;
  const int ranks = ranks_count(c->ranks);
  ShortText why = {""};
  if (c->training->batch < ranks)
    return error_set(error, "--batch %d leaves some of %d ranks without a row: choose a larger one",
                     c->training->batch, ranks);
  if (trains && judges) return true;
  if (c->ranks)
    why = text_format("%d ranks read it", ranks);
  else if (!t->resident && c->training->epochs > 1)
    why = text_format("--resident no reads it in every epoch");
  else if (c->hold_out > 0)
    why = text_format("--validation %g reads it twice", c->hold_out);
  else if (!judges && judge_is_last && c->rereads_test)
    why = text_format("--%s reads it again", c->rereads_test);
  return !*why.text || error_set(error, "--%s can be read only once, but %s: give it a file",
                                 trains ? trainer_judge_option(t) : "train", why.text);
}

static bool open_files(Trainer *t, Error *error) {
  const char *path = t->judge.path;
  trainer_close_file(&t->train);
  trainer_close_file(&t->judge);
  if (!check_config(t, error) || !trainer_open_file(t, &t->train, error)) return false;
  if (!path) return true;
  if (!trainer_open_file(t, &t->judge, error)) return false;
  const int train = dataset_inputs(t->train.reader), judge = dataset_inputs(t->judge.reader);
  if (train == judge) return true;
  if (judge == train - 1)
    return error_set(
        error,
        "%s has no label column: its rows have %d fields, but those of %s have a label and as "
        "many pixels; use --test none --validation 0.1 to hold out a tenth of those",
        path, train, t->train.path);
  return error_set(error, "%s has %d pixels a row but %s has %d", path, judge, t->train.path,
                   train);
}

/* Sets *rows to the number of rows that a dataset for both files needs. Fails if there are too many
   to be resident. With --resident auto, the rows, their labels and their copies for the upload may
   take half of the host's memory. The limit does not depend on the memory that is free now. If it
   did, a repeated run might stream its rows, in another order, and give other bits. */
static bool count_rows(Trainer *t, uint64_t *rows, Error *error) {
  const uint64_t memory = memory_limit();
  const size_t inputs = (size_t)dataset_inputs(t->train.reader),
               row = inputs + engine_row_stride((int)inputs) + 2 * sizeof(uint16_t);
  uint64_t most = UINT32_MAX; /* a TrainRange cannot have more rows */
  if (t->config.training->resident == RESIDENT_AUTO && memory / 2 / row < most)
    most = memory / 2 / row;
  *rows = dataset_max_rows(t->train.reader, most);
  if (*rows <= most && t->judge.reader) *rows += dataset_max_rows(t->judge.reader, most - *rows);
  if (*rows == 0) *rows = 1; /* if the file has no valid row, the reader will report it */
  return *rows <= most ||
         error_too_large(error, "%s has too many rows to be resident: try --resident no",
                         t->config.train);
}

/* Refuses a saved run whose network or batch size does not fit, before the engine takes memory. */
static bool check_from(const Trainer *t, const Network *network, Error *error) {
  const Checkpoint *from = t->config.from;
  const uint64_t batch = (uint64_t)t->config.training->batch;
  if (!from) return true;
  if (memcmp(from->network.size, network->size, sizeof network->size) != 0)
    return error_set(error,
                     "%s holds a network of %s, but %s, --hidden and --classes ask for one of %s",
                     t->config.from_name, network_text(&from->network).text, t->config.train,
                     network_text(network).text);
  const bool fits =
      from->step == 0
          ? from->rows == 0
          : from->step <= UINT32_MAX && from->rows <= from->step * batch &&
                from->rows > (from->step - 1) * batch; /* the last step may have fewer rows */
  return fits || error_set(error,
                           "%s was interrupted in the middle of an epoch; finish the epoch with "
                           "the original --batch",
                           t->config.from_name);
}

/* Sets kind[CHECKPOINT_ARRAYS] to the kinds of an engine's arrays, in the engine's order. Returns
   the number of arrays. */
static int list_arrays(const Training *training, CheckpointArray *kind) {
  int count = 0;
  kind[count++] = CHECKPOINT_PARAMETERS;
  kind[count++] = CHECKPOINT_MOMENTUM;
  if (training_moments(training) > 1) kind[count++] = CHECKPOINT_SECOND_MOMENT;
  if (training->ema > 0) kind[count++] = CHECKPOINT_RAW;
  return count;
}

/* Sets t->before to the training rows of checkpoint `from`, or to zeros if they are unknown. */
static void see_before(Trainer *t, const Checkpoint *from) {
  t->before = (DataSummary){0};
  if (from && from->data) data_from_json(&t->before, from->data);
}

/* Sets the engine and the position to the state in checkpoint `from`, or to the start of a run if
   `from` is NULL. Moments that the checkpoint lacks become 0. If CHECKPOINT_RAW is missing,
   training continues from CHECKPOINT_PARAMETERS. */
static bool go_on_from(Trainer *t, const Checkpoint *from, Error *error) {
  const EngineConfig *config = &t->engine->config;
  CheckpointArray kind[CHECKPOINT_ARRAYS];
  const int count = list_arrays(&config->training, kind);
  const size_t floats = config->network.floats;
  float *arrays = calloc((size_t)count * floats, sizeof *arrays);
  if (!arrays) return error_set(error, "out of memory continuing a run");
  t->position = from ? *from : (Checkpoint){.test_accuracy = NAN, .best_accuracy = NAN};
  t->position.parameters = NULL; /* `from` keeps its arrays and texts */
  t->position.options = t->position.names = t->position.activation = t->position.data = NULL;
  see_before(t, from);
  if (!from) network_initialise(&config->network, t->config.training->seed, arrays);
  const float *raw = from ? checkpoint_array(from, CHECKPOINT_RAW) : arrays;
  if (!raw) raw = from->parameters;
  for (int a = 0; a < count; a++) {
    float *to = arrays + (size_t)a * floats;
    const bool trained = kind[a] == CHECKPOINT_RAW ||
                         (kind[a] == CHECKPOINT_PARAMETERS && config->training.ema == 0);
    const float *values = trained ? raw : NULL;
    if (!trained && from) values = checkpoint_array(from, kind[a]);
    if (values && values != to) memcpy(to, values, floats * sizeof *arrays);
  }
  const bool good = t->engine->call->write(t->engine, arrays, (size_t)count, error);
  free(arrays);
  return good;
}

/* Returns true on all ranks if `good` is true on all ranks, otherwise false on all ranks. */
static bool all_good(Ranks *ranks, bool good, Error *error) {
  double bad = !good; /* the number of ranks that failed */
  if (!ranks_sum_doubles(ranks, &bad, 1, good ? error : NULL)) return false;
  if (!good || bad == 0) return good;
  return error_too_large(error,
                         "another rank has too little memory for resident rows: try --resident no");
}

/* Opens the files and the engine. Leaves t->engine NULL if the engine cannot be opened. */
static bool open_all(Trainer *t, bool resident, TrainerOpenEngine *open, void *context,
                     Error *error) {
  TrainerConfig *c = &t->config;
  t->resident = resident;
  if (!open_files(t, error)) return false;
  EngineConfig config = {.training = *c->training,
                         .ranks = c->ranks,
                         .dataset_rows = 2 * t->staging_rows,
                         .staging_rows = t->staging_rows};
  config.training.threads = c->threads;
  if (!network_init(&config.network, dataset_inputs(t->train.reader), c->training->hidden.size,
                    c->training->hidden.count, c->training->classes, error))
    return false;
  if (!check_from(t, &config.network, error)) return false;
  if (resident && !all_good(c->ranks, count_rows(t, &config.dataset_rows, error), error))
    return false;
  t->engine = open(context, &config, error);
  if (t->engine) c->training = &t->engine->config.training;
  return t->engine && (!c->from || go_on_from(t, c->from, error));
}

/* Sets the file whose rows judge the network. */
static void choose_judge(Trainer *t) {
  const TrainerConfig *c = &t->config;
  t->judge.judges = true;
  t->judge.path = c->test;
  t->judged_by = c->test ? JUDGED_BY_TEST : JUDGED_BY_NONE;
  if (!c->validation && c->hold_out == 0) return;
  t->judge.path = c->validation ? c->validation : c->train;
  t->judged_by = JUDGED_BY_VALIDATION;
}

/* Opens everything again for rows that are streamed, if they do not fit in the memory of the host
   or the device, --resident allows it, and the files can be read again. */
static bool stream_instead(Trainer *t, TrainerOpenEngine *open, void *context, Error *error) {
  return t->config.training->resident == RESIDENT_AUTO && !t->engine && error->too_large &&
         source_can_repeat(t->train.path) && source_can_repeat(t->judge.path) &&
         open_all(t, false, open, context, error);
}

Trainer *trainer_open(const TrainerConfig *config, TrainerOpenEngine *open, void *context,
                      Error *error) {
  Trainer *t = calloc(1, sizeof *t);
  if (!t) return error_null(error, "out of memory");
  t->config = *config;
  if (t->config.threads == 0) t->config.threads = config->training->threads;
  if (t->config.threads == 0) t->config.threads = ranks_cores(config->ranks);
  see_before(t, config->from); /* the files' columns are compared with it */
  t->train.path = config->train;
  choose_judge(t);
  t->staging_rows = loader_staging_rows(config->training->batch);
  t->position.test_accuracy = t->position.best_accuracy = NAN;
  t->opened = seconds_now();
  if (open_all(t, config->training->resident != RESIDENT_NO, open, context, error) ||
      stream_instead(t, open, context, error))
    return t;
  trainer_close(t);
  return NULL;
}

/* Sets the settings in which runs that share an engine may differ. */
static void set_run(Training *to, const Training *of) {
  to->epochs = of->epochs;
  to->schedule = of->schedule;
  to->early_stop = of->early_stop;
  to->seed = of->seed;
  to->rule = of->rule;
}

bool trainer_serves(const Trainer *t, const TrainerConfig *config) {
  const Training *own = t->config.training, *asked = config->training;
  const bool loaded = t->resident && t->train.rows > 0 && (!t->judge.path || t->judge.rows > 0);
  Training next = *own;
  set_run(&next, asked);
  next.fusion = asked->fusion; /* the engine's are those in use; all runs ask for the same */
  next.precision = asked->precision;
  next.threads = asked->threads;
  return loaded && !t->config.ranks && own->rule.kind == asked->rule.kind &&
         memcmp(&next, asked, sizeof next) == 0 && t->config.hold_out == config->hold_out &&
         (t->config.hold_out == 0 || own->seed == asked->seed);
}

bool trainer_start_again(Trainer *t, const TrainerConfig *config, Error *error) {
  Training *training = &t->engine->config.training;
  set_run(training, config->training);
  t->config = *config;
  t->config.training = training;
  t->config.threads = training->threads;
  return go_on_from(t, config->from, error);
}

Trainer *trainer_join(const Trainer *first, const TrainerConfig *config, Error *error) {
  Trainer *t = malloc(sizeof *t);
  if (!t) return error_null(error, "out of memory");
  *t = *first;
  t->train.reader = t->judge.reader = NULL;
  t->engine = first->engine->call->member(first->engine, error);
  if (t->engine && trainer_start_again(t, config, error)) return t;
  trainer_close(t);
  return NULL;
}

void trainer_close(Trainer *t) {
  if (!t) return;
  trainer_close_file(&t->train);
  trainer_close_file(&t->judge);
  engine_close(t->engine);
  free(t);
}

bool trainer_checkpoint(const Trainer *t, Checkpoint *checkpoint, Error *error) {
  *checkpoint = t->position;
  checkpoint->network = t->engine->config.network;
  checkpoint->data = t->train.data.rows > 0 ? data_to_json(&t->train.data) : NULL;
  checkpoint->count = list_arrays(&t->engine->config.training, checkpoint->kind);
  const size_t count = (size_t)checkpoint->count;
  checkpoint->parameters = malloc(count * checkpoint->network.floats * sizeof(float));
  if (checkpoint->parameters && (checkpoint->data || t->train.data.rows == 0)
          ? t->engine->call->read(t->engine, checkpoint->parameters, count, error)
          : error_set(error, "out of memory saving the network"))
    return true;
  checkpoint_free(checkpoint);
  return false;
}
