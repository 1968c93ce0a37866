/* Runs that differ in their options, on the CPU as many at once as there are threads: then nobody
   waits at a barrier. A run takes over the engine of the one before it on its thread, with the rows
   that are there, where it would open the same one. It has the same bits as alone either way. */
#include <omp.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "commands/commands.h"
#include "data/source.h"

/* Returns the trainer of a run: `last`, that of the run before it, or a new one in its place.
   threads: 0: as many as the options say, or all. */
static Trainer *open_run(ManyRuns *r, int run, int threads, Trainer *last, Options *o,
                         Error *error) {
  *o = *r->options;
  TrainerConfig config = r->config(r->context, run, o);
  if (threads) config.training.threads = threads;
  if (config.training.threads == 0) config.training.threads = ranks_cores(r->ranks);
  if (last && !r->loses_rows && trainer_serves(last, &config) &&
      trainer_start_again(last, &config, error))
    return last;
  trainer_close(last);
  return trainer_open(&config, device_open, &r->device, error);
}

/* Returns how many train at once: on the CPU one on each thread, but no more than whose rows and
   arrays take half of the memory; on a GPU one. */
static int count_workers(const ManyRuns *r, const Engine *engine, int runs) {
  const EngineConfig *c = &engine->config;
  const size_t row = engine_row_stride(c->network.size[0]) + sizeof(uint16_t),
               bytes = c->dataset_rows * row + 8 * c->network.floats * sizeof(float),
               fit = (size_t)(memory_limit() / 2) / bytes;
  if (r->device.choice != DEVICE_CPU) return 1;
  return max_int(1, (int)min_size(fit, (size_t)min_int(runs, c->training.threads)));
}

bool many_runs(ManyRuns *r, Error *error) {
  const int runs = (r->count - r->first + r->step - 1) / r->step;
  bool good = true;
  Options o;
  if (r->count > 1 && !source_can_repeat(r->options->train))
    return error_set(error,
                     "--train can be read only once, but each of %d networks reads it: give "
                     "it a file",
                     r->count);
  Trainer *first = open_run(r, r->first, 0, NULL, &o, error); /* shows what the others will take */
  if (!first) return false;
  const int workers = count_workers(r, first->engine, runs);
  if (!r->told) report_start(r->report, first, r->device.reason.text);
  if (!r->told && workers > 1) report_note(r->report, "at once  %d networks", workers);
  r->told = true;
  const int threads = first->config.training.threads = first->engine->config.training.threads /=
      workers;
  omp_set_max_active_levels(2);
#pragma omp parallel num_threads(workers) firstprivate(o)
  {
    Trainer *trainer = NULL;
#pragma omp for ordered schedule(dynamic, 1)
    for (int i = 0; i < runs; i++) {
      const int run = r->first + i * r->step;
      Error why;
      bool go_on;
#pragma omp atomic read
      go_on = good;
      if (i == 0)
        trainer = first;
      else if (go_on)
        trainer = open_run(r, run, threads, trainer, &o, &why);
      const bool trained = trainer && go_on && r->train(r->context, run, trainer, &why);
#pragma omp ordered
      {
        if (good && !(trained && r->keep(r->context, run, trainer, &o, &why))) {
          *error = why;
#pragma omp atomic write
          good = false;
        }
      }
    }
    trainer_close(trainer);
  }
  return good;
}
