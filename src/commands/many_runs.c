/* Runs that differ in their options: on the CPU as many at once as there are threads, so that
   nobody waits at a barrier; on a GPU as many as the engine may have members, each of a thread and
   all on the rows of the first one. A run takes over the engine of the one before it on its thread,
   with the rows that are there, where it would open the same one. It has the same bits as alone. */
#include <omp.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "commands/commands.h"

enum { MOST_MEMBERS = 64 };

/* The trainers of the first runs, one after the other. */
typedef struct {
  Trainer *rows; /* whose rows the others train on; NULL: each has its own */
  Trainer *trainer[MOST_MEMBERS];
  int opened, workers;
} Team;

/* Makes *o the options of a run. threads: 0: as many as the options say, or all. */
static TrainerConfig config_of(const ManyRuns *r, int run, int threads, Options *o) {
  *o = *r->options;
  TrainerConfig config = r->config(r->context, run, o);
  if (threads) config.training.threads = threads;
  if (config.training.threads == 0) config.training.threads = ranks_cores(r->ranks);
  return config;
}

/* Returns the trainer of a run: `last`, that of the run before it, or a new one in its place. */
static Trainer *open_run(ManyRuns *r, int run, int threads, Trainer *last, Options *o,
                         Error *error) {
  const TrainerConfig config = config_of(r, run, threads, o);
  if (last && trainer_serves(last, &config) && trainer_start_again(last, &config, error))
    return last;
  trainer_close(last);
  return trainer_open(&config, device_open, &r->device, error);
}

/* Returns how many train at once, each with rows of its own: on the CPU one on each thread, but no
   more than whose rows and arrays take half of the memory; on a GPU one. */
static int count_workers(const ManyRuns *r, const Engine *engine, int runs) {
  const EngineConfig *c = &engine->config;
  const size_t row = engine_row_stride(c->network.size[0]) + sizeof(uint16_t),
               bytes = c->dataset_rows * row + 8 * c->network.floats * sizeof(float),
               fit = (size_t)(memory_limit() / 2) / bytes;
  if (r->device.choice != DEVICE_CPU) return 1;
  return max_int(1, (int)min_size(fit, (size_t)min_int(runs, c->training.threads)));
}

/* Makes members for as many of the first runs as the GPU has room for, maybe none. */
static bool open_members(ManyRuns *r, Team *team, int runs, Error *error) {
  const TrainerEvents events = {.stop = stop_on_signal, .patience = 1};
  Trainer *first = team->trainer[0];
  Engine *engine = first->engine;
  const int most = r->several && first->resident && engine->call->members
                       ? engine->call->members(engine, min_int(MOST_MEMBERS, runs))
                       : 0;
  bool same = true;
  Options o;
  if (most == 0) return true;
  const TrainerResult loaded = trainer_load(first, &events, error);
  if (loaded == TRAINER_STOPPED) error_set(error, "interrupted: nothing was trained");
  if (loaded != TRAINER_DONE) return false;
  for (int i = 0; same && i < runs; i++) {
    const TrainerConfig config = config_of(r, r->first + i * r->step, 0, &o);
    same = trainer_serves(first, &config);
  }
  for (int i = 0; same && i < most; i++) {
    const TrainerConfig config = config_of(r, r->first + i * r->step, 0, &o);
    Trainer *member = trainer_join(first, &config, NULL);
    if (!member) break;
    team->rows = first;
    team->trainer[i] = member;
    team->opened = team->workers = i + 1;
  }
  const TrainerConfig config = config_of(r, r->first, 0, &o);
  return team->rows || trainer_start_again(first, &config, error);
}

/* A member that trains is waited for by the others. */
static bool attend(Trainer *trainer, bool attends, Error *error) {
  const EngineOperations *call = trainer ? trainer->engine->call : NULL;
  return !call || !call->attend || call->attend(trainer->engine, attends, error);
}

/* Trains all, then closes the team's trainers. */
static bool train_all(ManyRuns *r, Team *team, int runs, Error *error) {
  const int threads = team->trainer[0]->config.training.threads;
  bool good = true;
  omp_set_max_active_levels(2);
  omp_set_schedule(team->rows ? omp_sched_static : omp_sched_dynamic, 1);
#pragma omp parallel num_threads(team->workers)
  {
    Trainer *trainer = NULL;
    Options o;
#pragma omp single
    for (int i = omp_get_num_threads(); i < team->opened; i++)
      attend(team->trainer[i], false, NULL);
#pragma omp for ordered schedule(runtime)
    for (int i = 0; i < runs; i++) {
      const int run = r->first + i * r->step;
      Error why;
      bool go_on;
#pragma omp atomic read
      go_on = good;
      if (i < team->opened && !trainer) {
        trainer = team->trainer[i];
        team->trainer[i] = NULL;
        config_of(r, run, threads, &o);
      } else if (go_on) {
        trainer = open_run(r, run, threads, trainer, &o, &why);
      }
      const bool trained = trainer && go_on && attend(trainer, true, &why) &&
                           r->train(r->context, run, trainer, &why);
      attend(trainer, false, NULL);
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
  for (int i = 0; i < team->opened; i++) trainer_close(team->trainer[i]);
  trainer_close(team->rows);
  return good;
}

bool many_runs(ManyRuns *r, Error *error) {
  const int runs = (r->count - r->first + r->step - 1) / r->step;
  Options o;
  if (r->count > 1 && !source_can_repeat(r->options->train))
    return error_set(error,
                     "--train can be read only once, but each of %d networks reads it: give "
                     "it a file",
                     r->count);
  Team team = {.opened = 1};
  Trainer *first = open_run(r, r->first, 0, NULL, &o, error); /* shows what the others will take */
  if (!first) return false;
  r->several |= r->count > 1;
  team.trainer[0] = first;
  team.workers = count_workers(r, first->engine, runs);
  if (!open_members(r, &team, runs, error)) {
    trainer_close(first);
    return false;
  }
  if (!r->told) report_start(r->report, first, r->device.reason.text);
  if (!r->told && team.workers > 1) report_note(r->report, "at once  %d networks", team.workers);
  r->told = true;
  if (!team.rows)
    first->config.training.threads = first->engine->config.training.threads /= team.workers;
  return train_all(r, &team, runs, error);
}
