/* Finds the launcher, loads MPI, and detects ranks that have ended. */
#include "ranks/ranks.h"

#include <dlfcn.h>
#include <errno.h>
#include <omp.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "base/sizes.h"
#include "base/text.h"
#include "ranks/ranks_mpi.h"

static const double LOOK_SECONDS = 0.02;  /* time between two checks for missing ranks */
static const double PATIENCE_SECONDS = 5; /* longest wait for other ranks after a signal */
static const double SPEECH_SECONDS = 1;   /* longest wait for another rank to report a failure */
static const double GLANCE_SECONDS = 0.2; /* longest wait of the function was_said */

/* A rank's process. kill() and /proc show it only to ranks of its host and its PID namespace. */
typedef struct {
  char host[64], pids[32];
  pid_t process;
} Peer;

struct Ranks {
  const RanksMpi *mpi;
  int number, count;
  Peer *peers; /* (count) */
  double next_look, waits_since;
  Error missing;     /* message about the missing rank, or empty */
  bool gone, speaks; /* gone: a rank has ended. speaks: this rank must report it */
};

/* ---- the launcher ------------------------------------------------------------------------- */

/* Returns the number in the first environment variable that has text, or 0. NULL ends the list. */
static int first_number(const char *const *variables) {
  const char *text = NULL;
  for (; *variables && !(text && *text); variables++) text = getenv(*variables);
  return text ? max_int(atoi(text), 0) : 0;
}

/* Returns the number of ranks. Each launcher (Open MPI's mpirun, hydra of MPICH and Intel MPI, or
   srun) sets one of these variables. */
static int launched_ranks(void) {
  static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS",
                                      NULL};
  return first_number(sizes);
}

bool ranks_launched(void) {
  return launched_ranks() > 1;
}

int ranks_launched_as(void) {
  static const char *const numbers[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                        "SLURM_PROCID", NULL};
  return first_number(numbers);
}

/* ---- opening ------------------------------------------------------------------------------ */

/* Loads libmlp-ranks.so from the first place that has it. Places are relative to the program's
   folder. The symbols become global, because Open MPI looks up its own symbols by name. */
static void *load_library(Error *error) {
  static const char *const places[] = {"libmlp-ranks.so", "build/libmlp-ranks.so",
                                       "../lib/mlp-train/libmlp-ranks.so"};
  char path[1100];
  foreach (place, places) {
    if (!text_beside_program(path, sizeof path, *place) || access(path, F_OK) != 0) continue;
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!library) error_set(error, "cannot load MPI: %s", dlerror());
    return library;
  }
  return error_null(error,
                    "a launcher started %d processes, but this program was built without MPI: "
                    "`make setup MPI=1` installs it, then `make` builds with it",
                    launched_ranks());
}

/* A RanksWait: returns true if this process must go on waiting for other ranks. */
static bool wait_on(void *context) {
  Ranks *ranks = context;
  return !ranks->peers || ranks_go_on(ranks, ranks->waits_since, NULL);
}

Ranks *ranks_open(Error *error) {
  void *library = load_library(error);
  if (!library) return NULL;
  const RanksMpi *(*functions)(void);
  *(void **)&functions = dlsym(library, "ranks_mpi");
  Ranks *ranks = functions ? calloc(1, sizeof *ranks) : NULL;
  if (!ranks)
    return error_null(error, functions ? "out of memory"
                                       : "libmlp-ranks.so does not belong to this program");
  ranks->mpi = functions();
  ranks->mpi->open(&ranks->number, &ranks->count, wait_on, ranks);
  Peer mine = {.process = getpid()};
  if (gethostname(mine.host, sizeof mine.host - 1) != 0) strcpy(mine.host, "?");
  if (readlink("/proc/self/ns/pid", mine.pids, sizeof mine.pids - 1) < 0) mine.process = 0;
  if (ranks->count == 1 && launched_ranks() != 1)
    error_set(error,
              "the launcher started %d processes, but MPI knows of one: start them with the mpirun "
              "of the MPI that this program was built with, or `srun --mpi=pmix`",
              launched_ranks());
  else if ((ranks->peers = ranks_gather(ranks, &mine, sizeof mine, error)))
    return ranks;
  ranks_close(ranks);
  return NULL;
}

void ranks_close(Ranks *ranks) {
  if (!ranks) return;
  ranks->mpi->close();
  free(ranks->peers);
  free(ranks);
}

void ranks_abort(Ranks *ranks, int status) {
  if (ranks) ranks->mpi->abort(status);
  _exit(status);
}

int ranks_number(const Ranks *ranks) {
  return ranks ? ranks->number : 0;
}

int ranks_count(const Ranks *ranks) {
  return ranks ? ranks->count : 1;
}

/* Returns the number of ranks below `end` that are on the host of rank `rank`. */
static int count_on_host(const Ranks *ranks, int rank, int end) {
  int count = 0;
  for (int r = 0; r < end; r++) count += strcmp(ranks->peers[r].host, ranks->peers[rank].host) == 0;
  return count;
}

int ranks_number_on_host(const Ranks *ranks) {
  return ranks ? count_on_host(ranks, ranks->number, ranks->number) : 0;
}

int ranks_hosts(const Ranks *ranks) {
  int hosts = 0;
  for (int r = 0; r < ranks_count(ranks); r++)
    hosts += !ranks || count_on_host(ranks, r, r) == 0; /* r is the first rank of its host */
  return hosts;
}

int ranks_cores(const Ranks *ranks) {
  const int allowed = cores_at(""), cores = min_int(omp_get_max_threads(), allowed);
  if (!ranks) return cores;
  const int online = min_int((int)sysconf(_SC_NPROCESSORS_ONLN), allowed),
            neighbours = max_int(1, count_on_host(ranks, ranks->number, ranks->count));
  return max_int(1, min_int(cores, online / neighbours));
}

/* ---- who is gone -------------------------------------------------------------------------- */

/* Returns true if this process can see whether rank r is alive. */
static bool is_neighbour(const Ranks *ranks, int r) {
  const Peer *mine = &ranks->peers[ranks->number], *other = &ranks->peers[r];
  return other->process && strcmp(mine->host, other->host) == 0 &&
         strcmp(mine->pids, other->pids) == 0;
}

/* Returns the state of rank r as a letter of /proc, or 0 if it is unknown. X means that the rank
   has ended and its launcher has read its exit status. Z (a zombie) means that it has ended, but
   the launcher has not yet read the status. In /proc/N/stat, the state follows the program's name,
   which is in brackets and may contain any bytes. */
static char state_of(const Ranks *ranks, int r) {
  char text[256];
  const int process = (int)ranks->peers[r].process;
  if (!is_neighbour(ranks, r)) return '\0';
  if (kill(process, 0) != 0 && errno == ESRCH) return 'X';
  FILE *file = fopen(text_format("/proc/%d/stat", process).text, "r");
  const size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
  if (file) fclose(file);
  text[size] = '\0';
  const char *name_end = strrchr(text, ')');
  if (!name_end || strlen(name_end) < 3) return '\0';
  return name_end[2];
}

static bool has_ended(const Ranks *ranks, int r) {
  const char state = state_of(ranks, r);
  return state == 'X' || state == 'Z';
}

/* Looks for ranks of this host that have ended. Sets ranks->missing to a message about the lowest.
   If two have ended, one of them has reported the other, so this rank reports nothing. */
static void look_who_is_gone(Ranks *ranks) {
  int ended = 0;
  bool is_first = true; /* true if this rank is the first that is left on its host */
  for (int r = 0; r < ranks->count; r++)
    if (!has_ended(ranks, r))
      is_first &= r >= ranks->number || !is_neighbour(ranks, r);
    else if (ended++ == 0)
      error_set(&ranks->missing, "rank %d, process %d on %s, ended before the others did", r,
                (int)ranks->peers[r].process, ranks->peers[r].host);
  ranks->gone = ended > 0;
  ranks->speaks = ended == 1 && is_first;
}

bool ranks_go_on(Ranks *ranks, double waited, Error *error) {
  const double now = seconds_now();
  if (!ranks || (now < ranks->next_look && !*ranks->missing.text)) return true;
  ranks->next_look = now + LOOK_SECONDS;
  if (!*ranks->missing.text) look_who_is_gone(ranks);
  if (!*ranks->missing.text && interrupt_pending() && now - waited > PATIENCE_SECONDS)
    error_set(&ranks->missing, "interrupted, while other ranks were waited for");
  return !*ranks->missing.text || error_set(error, "%s", ranks->missing.text);
}

static void nap(void) {
  nanosleep(&(struct timespec){0, 20000000}, NULL);
}

/* Returns true if another rank has reported a failure and ended. In that case mpirun sends SIGTERM
   at once. If a rank was killed instead, mpirun sends SIGTERM only a second later. */
static bool was_said(const Ranks *ranks, int signal, double began) {
  for (; seconds_now() - began < GLANCE_SECONDS; nap()) {
    if (interrupt_pending() != signal) return true;
    for (int r = 0; signal && r < ranks_count(ranks); r++)
      if (r != ranks_number(ranks) && has_ended(ranks, r)) return true;
  }
  return false;
}

/* If a rank is gone, only the rank whose ranks->speaks is true reports it. All other ranks wait,
   because mpirun would end the reporting rank as soon as another rank exits. */
bool ranks_may_speak(const Ranks *ranks) {
  const double began = seconds_now();
  const int signal = interrupt_pending();
  if (ranks && (ranks->gone || signal) && was_said(ranks, signal, began)) return false;
  if (ranks && ranks->gone) {
    while (!ranks->speaks && seconds_now() - began < SPEECH_SECONDS) nap();
    return ranks->speaks;
  }
  for (int r = 0; r < ranks_number(ranks); r++)
    for (; state_of(ranks, r) != 'X'; nap()) {
      if (interrupt_pending() != signal) return false;
      if (seconds_now() - began > SPEECH_SECONDS) return true;
    }
  return true;
}

/* ---- communication ------------------------------------------------------------------------ */

/* Calls a function of libmlp-ranks.so. Fails without calling it if a rank is missing. */
#define CALL(ranks, function, ...)                                                                 \
  ((ranks)->waits_since = seconds_now(),                                                           \
   (!*(ranks)->missing.text && (ranks)->mpi->function(__VA_ARGS__)) ||                             \
       error_set(error, "%s",                                                                      \
                 *(ranks)->missing.text ? (ranks)->missing.text                                    \
                                        : "out of memory for what ranks send"))

bool ranks_sum_floats(Ranks *ranks, float *values, size_t count, Error *error) {
  return !ranks || CALL(ranks, sum_floats, values, count);
}

void *ranks_gather(Ranks *ranks, const void *mine, size_t size, Error *error) {
  void *all = calloc((size_t)ranks_count(ranks), size);
  if (!all) return error_null(error, "out of memory for what ranks send");
  if (!ranks) return memcpy(all, mine, size);
  if (CALL(ranks, gather, mine, size, all)) return all;
  free(all);
  return NULL;
}

bool ranks_broadcast(Ranks *ranks, void *bytes, size_t size, Error *error) {
  void *all = ranks_gather(ranks, bytes, size, error);
  if (!all) return false;
  memcpy(bytes, all, size); /* rank 0's bytes come first */
  free(all);
  return true;
}

/* Each rank gets the values of all ranks and adds them itself, because there are few values. */
bool ranks_sum_doubles(Ranks *ranks, double *values, size_t count, Error *error) {
  if (!ranks || count == 0) return true;
  double *all = ranks_gather(ranks, values, count * sizeof *values, error);
  if (!all) return false;
  for (size_t i = 0; i < count; i++) {
    values[i] = all[i];
    for (int r = 1; r < ranks_count(ranks); r++) values[i] += all[(size_t)r * count + i];
  }
  free(all);
  return true;
}

bool ranks_interrupted(Ranks *ranks, int *signal, int *number, Error *error) {
  const int mine = interrupt_pending();
  int *all = ranks_gather(ranks, &mine, sizeof mine, error);
  *signal = 0;
  if (!all) return false;
  for (int r = 0; r < ranks_count(ranks) && !*signal; r++) {
    *signal = all[r];
    *number = r;
  }
  free(all);
  return true;
}
