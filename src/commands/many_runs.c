/* Trains several runs with different options at once. Each worker is a thread that trains one run
   after the other. On the CPU there is one worker per thread of --threads, and each has its own
   rows. On a GPU there is one worker per member of the engine (see `members` in engine.h), and all
   use the first run's rows. A run reuses its worker's engine and rows if they fit. The result of a
   run, bit for bit, does not depend on the other runs. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "commands/commands.h"

enum { MOST_WORKERS = 1024, MOST_MEMBERS = 64 }; /* 1024 is the limit of --threads */

/* Bytes that the two readers of a run need, whatever the number of rows: buffers of the files and,
   for each reader, the text and the parsed rows of one thread. */
static const double READERS_BYTES = 4e6;

/* The workers, and the trainers of their first runs. trainer[0] is open from the start. */
typedef struct {
  ManyRuns *runs;
  int count, workers, opened; /* numbers of runs, of workers and of open trainers */
  Trainer *rows; /* the trainer whose rows all trainers use; NULL if each has its own rows */
  Trainer *trainer[MOST_MEMBERS];
  int threads;         /* number of threads of each worker's engine */
  atomic_int next;     /* the lowest run that no worker has begun */
  atomic_bool failed;  /* a run has failed, so no other run may begin */
  pthread_mutex_t one; /* guards the fields below */
  pthread_cond_t moved;
  int kept; /* number of runs whose results `keep` has handled */
  Error error;
} Team;

typedef struct {
  Team *team;
  int number;
  pthread_t thread;
} Worker;

/* Turns the number of a run on this rank into the number of the run on all ranks. */
static int run_of(const ManyRuns *r, int run) {
  return ranks_number(r->ranks) + run * ranks_count(r->ranks);
}

/* Sets *o to the options of a run and returns its trainer's configuration. The engine gets
   `threads` threads or, if `threads` is 0, as many as --threads says (by default one per core). */
static TrainerConfig config_of(const ManyRuns *r, int run, int threads, Options *o) {
  *o = *r->options;
  TrainerConfig config = r->config(r->context, run_of(r, run), o);
  config.threads = threads;
  return config;
}

/* Returns a trainer for a run. Uses `last`, the trainer of the worker's previous run, if it fits.
   Otherwise closes `last` and opens a new trainer. */
static Trainer *open_run(ManyRuns *r, int run, int threads, Trainer *last, Options *o,
                         Error *error) {
  const TrainerConfig config = config_of(r, run, threads, o);
  if (last && trainer_serves(last, &config) && trainer_start_again(last, &config, error))
    return last;
  trainer_close(last);
  return trainer_open(&config, device_open, &r->device, error);
}

/* ---- number of workers ---------------------------------------------------------------------- */

/* Returns how many workers the address space has room for. Beside its memory, a worker takes the
   stacks of its threads: those that train, and as many for each of two readers. */
static double workers_with_room(double each, int threads) {
  const uint64_t left = address_space_left();
  const double stacks = 3 * (double)address_space_of_thread(); /* per thread of the workers */
  if (left == UINT64_MAX) return MOST_WORKERS;
  return ((double)left - threads * stacks) / (each + stacks);
}

/* Returns the number of workers. On the CPU there is one per thread, but no more than can train
   networks of the first run's size in half of the memory. On a GPU, returns 1. */
static int count_workers(const Team *team) {
  const Trainer *first = team->trainer[0];
  const EngineConfig *c = &first->engine->config;
  const double row = (double)engine_row_stride(c->network.size[0]) + sizeof(uint16_t),
               parsed = (double)c->dataset_rows * row * (first->resident ? 1 : 2),
               each = first->engine->taken + parsed + READERS_BYTES;
  const int most = min_int(min_int(team->count, MOST_WORKERS), first->config.threads);
  if (team->runs->device.choice != DEVICE_CPU || most < 2) return 1;
  return max_int(
      1, (int)fmin(fmin(most, workers_with_room(each, most)), (double)memory_limit() / 2 / each));
}

/* Opens trainers, each with a member of the first run's engine (see `members` in engine.h): one for
   each run, as many as fit on the GPU. Each trainer gets a worker. */
static bool open_members(Team *team, Error *error) {
  const TrainerEvents events = {.patience = 1};
  ManyRuns *r = team->runs;
  Trainer *first = team->trainer[0];
  Engine *engine = first->engine;
  const bool may = r->several && first->resident && engine->call->members;
  const int most =
      may ? min_int(engine->call->members(engine), min_int(MOST_MEMBERS, team->count)) : 0;
  bool same = true;
  Options o;
  if (most == 0) return true;
  if (!trainer_load(first, &events, error))
    return first->stopped ? error_set(error, "interrupted: nothing was trained") : false;
  for (int i = 0; same && i < team->count; i++) {
    const TrainerConfig config = config_of(r, i, 0, &o);
    same = trainer_serves(first, &config);
  }
  for (int i = 0; same && i < most; i++) {
    const TrainerConfig config = config_of(r, i, 0, &o);
    Trainer *member = trainer_join(first, &config, NULL);
    if (!member) break;
    team->rows = first;
    team->trainer[i] = member;
    team->opened = team->workers = i + 1;
  }
  const TrainerConfig config = config_of(r, 0, 0, &o);
  return team->rows || trainer_start_again(first, &config, error);
}

/* ---- training ------------------------------------------------------------------------------- */

/* Waits until the results of all earlier runs are kept, then keeps the result of this run. */
static void keep(Team *team, int run, const Trainer *trainer, bool trained, const Options *o,
                 Error *why) {
  ManyRuns *r = team->runs;
  pthread_mutex_lock(&team->one);
  while (team->kept < run) pthread_cond_wait(&team->moved, &team->one);
  if (!team->failed && trained) report_data(r->report, trainer);
  if (!team->failed && !(trained && r->keep(r->context, run_of(r, run), trainer, o, why))) {
    team->error = *why;
    team->failed = true;
  }
  team->kept++;
  pthread_cond_broadcast(&team->moved);
  pthread_mutex_unlock(&team->one);
}

/* Trains the run with number worker->number first, then runs that no worker has begun. */
static void *work(void *context) {
  const Worker *worker = context;
  Team *team = worker->team;
  ManyRuns *r = team->runs;
  Trainer *trainer = NULL;
  Options o;
  pthread_mutex_lock(&team->one); /* waits until train_all knows the number of workers */
  pthread_mutex_unlock(&team->one);
  for (int run = worker->number; run < team->count; run = atomic_fetch_add(&team->next, 1)) {
    Error why;
    const bool begins = !team->failed;
    if (run < team->opened && !trainer) {
      trainer = team->trainer[run];
      team->trainer[run] = NULL;
      config_of(r, run, team->threads, &o);
    } else if (begins) {
      trainer = open_run(r, run, team->threads, trainer, &o, &why);
    }
    const bool trained = trainer && begins && r->train(r->context, run_of(r, run), trainer, &why);
    keep(team, run, trainer, trained, &o, &why);
  }
  trainer_close(trainer);
  return NULL;
}

/* Trains all runs. The calling thread is a worker. If a thread cannot start, others do its runs. */
static bool train_all(Team *team, Error *error) {
  Worker *workers = make_array(workers, team->workers);
  int started = 1;
  if (!workers) return error_set(error, "out of memory");
  pthread_mutex_init(&team->one, NULL); /* neither call can fail on Linux */
  pthread_cond_init(&team->moved, NULL);
  pthread_mutex_lock(&team->one);
  workers[0] = (Worker){.team = team};
  for (; started < team->workers; started++) {
    workers[started] = (Worker){.team = team, .number = started};
    if (pthread_create(&workers[started].thread, NULL, work, &workers[started]) != 0) break;
  }
  team->workers = started;
  atomic_init(&team->next, started);
  pthread_mutex_unlock(&team->one);
  work(&workers[0]);
  for (int i = 1; i < started; i++) pthread_join(workers[i].thread, NULL);
  pthread_mutex_destroy(&team->one);
  pthread_cond_destroy(&team->moved);
  free(workers);
  if (team->failed) *error = team->error;
  return !team->failed;
}

bool many_runs(ManyRuns *r, Error *error) {
  Team team = {.runs = r, .opened = 1};
  Options o;
  while (run_of(r, team.count) < r->count) team.count++;
  if (r->count > 1) {
    /* Kernels of different networks overlap only if they are in different hardware queues. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    /* By default CUDA loads a kernel at its first launch, which waits until the GPU is idle: here,
       until no other network trains. A run alone has nobody to wait for and starts faster so. */
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  }
  if (r->count > 1 && !source_can_repeat(r->options->train))
    return error_set(error,
                     "--train can be read only once, but each of %d networks reads it: give "
                     "it a file",
                     r->count);
  address_space_spare();
  Trainer *first = open_run(r, 0, 0, NULL, &o, error); /* count_workers needs the trainer's size */
  if (!first) return false;
  r->several |= r->count > 1;
  team.trainer[0] = first;
  team.workers = count_workers(&team);
  bool good = open_members(&team, error);
  team.threads = max_int(1, first->config.threads / (team.rows ? 1 : team.workers));
  if (good && !r->told) report_start(r->report, first, r->device.reason.text);
  if (good) report_data(r->report, first);
  if (good && !r->told && team.workers > 1)
    report_note(r->report, "at once  %d networks", team.workers);
  r->told |= good;
  if (good && !team.rows)
    first->config.threads = first->engine->config.training.threads = team.threads;
  good = good && train_all(&team, error);
  for (int i = 0; i < team.opened; i++) trainer_close(team.trainer[i]);
  trainer_close(team.rows);
  return good;
}
