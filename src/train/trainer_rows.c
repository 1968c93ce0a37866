/* The rows of an epoch on their way to the engine: from a file that is read again in every epoch,
   or from the dataset, where they have stayed. A rank reads those that it trains on. */
#include "train/trainer.h"

#include <inttypes.h>
#include <stdlib.h>

/* Opens a file that was read before, and refuses it if it has become another one. */
static DatasetReader *open_again(const Trainer *t, bool judges, Error *error) {
  DatasetReader *reader = trainer_open_reader(t, judges, error);
  const struct stat *before = judges ? &t->test_stamp : &t->train_stamp;
  if (!reader || source_stamps_equal(&dataset_source(reader)->stamp, before)) return reader;
  error_set(error, "%s changed since it was read first", judges ? t->judge : t->config.train);
  dataset_close(reader);
  return NULL;
}

bool own_rows(const StreamedEpoch *epoch, int rank, int ranks, RowSet *set, Error *error) {
  const size_t part = (size_t)rank, parts = (size_t)ranks;
  *set = (RowSet){epoch->rows, calloc(epoch->rows / 8 + 1, 1)};
  if (!set->bits)
    return error_set(error, "no memory for the numbers of %" PRIu64 " rows", epoch->rows);
  for (uint64_t first = 0; first < epoch->rows; first += epoch->window) {
    const uint64_t rows = min_size(epoch->rows - first, epoch->window);
    const uint64_t key = random_order_key(epoch->order_key, first / epoch->window);
    for (uint64_t step = 0; step < rows; step += epoch->batch) {
      const uint64_t of_step = min_size(rows - step, epoch->batch);
      const uint64_t end = step + part_start(of_step, part + 1, parts);
      for (uint64_t p = step + part_start(of_step, part, parts); p < end; p++)
        row_set_add(set, first + random_permute((uint32_t)p, (uint32_t)rows, key));
    }
  }
  return true;
}

/* From the second pass on a rank parses those rows of a file that it trains on, and no others: then
   the number of rows is known, and that all of them are right. Who is held out follows from the
   labels of all rows, so then all are parsed. */
static bool choose_rows(Trainer *t, int epoch, Error *error) {
  const Ranks *ranks = t->config.ranks;
  const StreamedEpoch way = {t->train_rows, t->staging_rows, (uint64_t)t->config.training.batch,
                             trainer_order_key(t, epoch)};
  free(t->own.bits);
  t->own.bits = NULL;
  return !ranks || t->resident || t->train_rows == 0 || t->config.hold_out > 0 ||
         own_rows(&way, ranks_number(ranks), ranks_count(ranks), &t->own, error);
}

/* Begins a pass: sets the loader's reader unless the rows have stayed in the dataset. */
static bool begin(Trainer *t, TrainerPass *p, Error *error) {
  DatasetReader **reader = p->judges ? &t->test : &t->train;
  const uint64_t start = p->judges && t->resident ? t->train_rows : 0;
  p->began = true;
  p->loader = (Loader){.engine = t->engine, .start = start, .ring = !t->resident};
  if (t->resident && (p->judges ? t->test_rows : t->train_rows) > 0) return true;
  if (!*reader && !p->judges && !choose_rows(t, p->epoch, error)) return false;
  if (!*reader) *reader = open_again(t, p->judges, error);
  p->loader.reader = *reader;
  return *reader;
}

/* Takes what is known of the rows that have been read of a file. From the second pass on ranks read
   some of them. */
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
  const bool good = p->judges || dataset_check_labels(*reader, error);
  trainer_close_reader(reader);
  if (!good) return false;
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
