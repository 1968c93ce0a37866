/* Runs that differ in their options, on the CPU as many at once as there are threads: then nobody
   waits at a barrier, and a run has the same bits as alone. */
#include <omp.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "commands/commands.h"
#include "data/source.h"

/* threads: 0: as many as the options say, or all. */
static Trainer *open_run(ManyRuns *r, int run, int threads, Options *o, Error *error) {
  *o = *r->options;
  TrainerConfig config = r->config(r->context, run, o);
  if (threads) config.training.threads = threads;
  if (config.training.threads == 0) config.training.threads = ranks_cores(r->ranks);
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
  Trainer *trainer = open_run(r, r->first, 0, &o, error); /* shows what the others will take */
  if (!trainer) return false;
  const int workers = count_workers(r, trainer->engine, runs);
  if (!r->told) report_start(r->report, trainer, r->device.reason.text);
  if (!r->told && workers > 1) report_note(r->report, "at once  %d networks", workers);
  r->told = true;
  const int threads = trainer->engine->config.training.threads /= workers;
  omp_set_max_active_levels(2);
#pragma omp parallel for ordered schedule(dynamic, 1) num_threads(workers) firstprivate(o, trainer)
  for (int i = 0; i < runs; i++) {
    const int run = r->first + i * r->step;
    Error why;
    bool go_on;
#pragma omp atomic read
    go_on = good;
    if (i > 0) trainer = go_on ? open_run(r, run, threads, &o, &why) : NULL;
    const bool trained = trainer && go_on && r->train(r->context, run, trainer, &why);
#pragma omp ordered
    {
      if (good && !(trained && r->keep(r->context, run, trainer, &o, &why))) {
        *error = why;
#pragma omp atomic write
        good = false;
      }
    }
    trainer_close(trainer);
  }
  return good;
}
