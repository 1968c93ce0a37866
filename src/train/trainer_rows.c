/* The rows of an epoch on their way to the engine: from a file that is read again in every epoch,
   or from the dataset, where they have stayed. */
#include "train/trainer.h"

/* Begins a pass: sets the loader's reader unless the rows have stayed in the dataset. */
static bool begin(Trainer *t, TrainerPass *p, Error *error) {
  TrainerFile *file = p->file;
  const uint64_t start = file->judges && t->resident ? t->train.rows : 0;
  p->began = true;
  p->loader = (Loader){.engine = t->engine, .start = start, .ring = !t->resident};
  if (t->resident && file->rows > 0) return true;
  if (!file->reader && !trainer_open_file(t, file, error)) return false;
  p->loader.reader = file->reader;
  return true;
}

/* Takes what is known of the rows that have been read of a file. */
static void take_summary(const Trainer *t, TrainerFile *file) {
  if (file->rows > 0) return;
  file->data = *dataset_summary(file->reader);
  file->data.streamed = !t->resident;
  file->data.white = (int)training_white(&t->config.training);
}

/* The file has been read to its end. */
static bool end(const Trainer *t, const TrainerPass *p, Error *error) {
  trainer_close_file(p->file);
  p->file->rows = p->loader.done;
  return p->loader.done > 0 ||
         error_set(error, "--validation %g leaves no row of %s to %s: choose another share",
                   t->config.hold_out, t->config.train, p->file->judges ? "judge by" : "train on");
}

bool trainer_next(Trainer *t, TrainerPass *p, Error *error) {
  Loader *l = &p->loader;
  p->number += p->began;
  if (!p->began && !begin(t, p, error)) return false;
  if (l->reader) {
    const bool good = loader_next(l, error);
    if (good) take_summary(t, p->file);
    if (good && l->rows > 0) return true;
    if (good) return end(t, p, error);
    trainer_close_file(p->file);
    return false;
  }
  l->first_row = l->start + l->done;
  l->rows = min_size(p->file->rows - l->done, p->most);
  l->done += l->rows;
  return true;
}

bool trainer_load_rows(Trainer *t, TrainerFile *file, Error *error) {
  TrainerPass pass = {.file = file};
  bool good;
  while ((good = trainer_next(t, &pass, error)) && pass.loader.rows > 0) {
  }
  return good;
}
