/* The rows of an epoch on their way to the engine: from a file that is read again in every epoch,
   or from the dataset, where they have stayed. */
#include "train/trainer.h"

/* Opens a file that was read before, and refuses it if it has become another one. */
static DatasetReader *open_again(const Trainer *t, bool judges, Error *error) {
  DatasetReader *reader = trainer_open_reader(t, judges, error);
  const struct stat *before = judges ? &t->test_stamp : &t->train_stamp;
  if (!reader || source_stamps_equal(&dataset_source(reader)->stamp, before)) return reader;
  error_set(error, "%s changed since it was read first", judges ? t->judge : t->config.train);
  dataset_close(reader);
  return NULL;
}

/* Begins a pass: sets the loader's reader unless the rows have stayed in the dataset. */
static bool begin(Trainer *t, TrainerPass *p, Error *error) {
  DatasetReader **reader = p->judges ? &t->test : &t->train;
  const uint64_t start = p->judges && t->resident ? t->train_rows : 0;
  p->began = true;
  p->loader = (Loader){.engine = t->engine, .start = start, .ring = !t->resident};
  if (t->resident && (p->judges ? t->test_rows : t->train_rows) > 0) return true;
  if (!*reader) *reader = open_again(t, p->judges, error);
  p->loader.reader = *reader;
  return *reader;
}

/* Takes what is known of the rows that have been read of a file. */
static void take_summary(Trainer *t, bool judges) {
  DataSummary *s = judges ? &t->test_data : &t->train_data;
  if ((judges ? t->test_rows : t->train_rows) > 0) return;
  *s = *dataset_summary(judges ? t->test : t->train);
  s->streamed = !t->resident;
  s->white = (int)training_white(&t->config.training);
}

/* The file has been read to its end. */
static bool end(Trainer *t, const TrainerPass *p, Error *error) {
  DatasetReader **reader = p->judges ? &t->test : &t->train;
  trainer_close_reader(reader);
  *(p->judges ? &t->test_rows : &t->train_rows) = p->loader.done;
  return p->loader.done > 0 ||
         error_set(error, "--validation %g leaves no row of %s to %s: choose another share",
                   t->config.hold_out, t->config.train, p->judges ? "judge by" : "train on");
}

bool trainer_next(Trainer *t, TrainerPass *p, Error *error) {
  Loader *l = &p->loader;
  p->number += p->began;
  if (!p->began && !begin(t, p, error)) return false;
  if (l->reader) {
    const bool good = loader_next(l, error);
    if (good) take_summary(t, p->judges);
    if (good && l->rows > 0) return true;
    if (good) return end(t, p, error);
    trainer_close_reader(p->judges ? &t->test : &t->train);
    return false;
  }
  const uint64_t left = (p->judges ? t->test_rows : t->train_rows) - l->done;
  l->first_row = l->start + l->done;
  l->rows = min_size(left, p->most);
  l->done += l->rows;
  return true;
}

bool trainer_load_rows(Trainer *t, bool judges, Error *error) {
  TrainerPass pass = {.judges = judges};
  bool good;
  while ((good = trainer_next(t, &pass, error)) && pass.loader.rows > 0) {
  }
  return good;
}
