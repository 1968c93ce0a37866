/* Runs mlp-train-faults many times, and each time makes another call of the system or of CUDA fail
   (see fault.c; cuda_stand_in.c is the GPU). Each call fails in two runs: first alone, then
   together with all later calls of its kind. A run must say in a sentence what failed, or succeed
   as if nothing had failed. It must not crash or leak memory. Every file must be complete, in its
   old or its new version. Only a build with SANITIZE=1 finds leaks; `make faults` makes this build
   and tests every call. Otherwise, this program tests one call in STRIDE, or one in 4 * STRIDE with
   TEST_QUICK, or one in n with FAULTS_STRIDE=n. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include <fcntl.h>
#include <glob.h>
#include <libgen.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "support/folder.h"
#include "support/process.h"

static char *program_path;

typedef struct {
  const char *arguments;
  const char *outputs; /* names of output files, in addition to standard output */
  int ends; /* if 0, any call may fail, and files must end as in end_folders[0]; if not, only
               CUDA calls fail, and files may end as in any of the first `ends` end_folders */
} Run;

#define SMALL "--device cpu --threads 2 --classes 2 --hidden 3 --train train.csv --test test.csv "
#define ASK "--load net --device cpu "
/* A network that every level of fusion supports. */
#define ON_GPU SMALL "--device cuda --hidden 16,3 --resident yes --epochs 1 "

static const Run runs[] = {
    {SMALL "--resident yes --epochs 1 --save net --log log.jsonl --config more.conf",
     "net log.jsonl", 0},
    {SMALL "--epochs 2 --resident no --log log.jsonl", "log.jsonl", 0},
    {SMALL "--epochs 1 --resident yes --validation 0.2 --log log.jsonl", "log.jsonl", 0},
    {"--resume net --epochs 2 --resident yes --log log.jsonl", "net log.jsonl", 0},
    {ASK "--evaluate --test test.csv --threads 2", NULL, 0},
    {ASK "--predict test.csv --output out.csv --probabilities", "out.csv", 0},
    {ASK "--predict test.csv --threads 1", NULL, 0},
    {ASK "--classify digit.pgm w.png", NULL, 0},
    {ASK "--json --show s.png --classify digit.pgm", "s.png", 0},
    {"--help", NULL, 0},
    {SMALL "--epochs 1 --resident yes --plot c.png", "c.png", 0},
    {ASK "--evaluate --test test.csv --weights w.png --mistakes m.png --confusion c.png "
         "--html p.html",
     "w.png m.png c.png p.html", 0},
#ifdef HAVE_STAND_IN
    {ON_GPU "--fusion layer --save net", "net", 0},
    {ON_GPU "--fusion none --save net", "net", 1},
    {ON_GPU "--fusion step --batch 1 --resident no --save net", "net", 1},
    {ON_GPU "--fusion epoch --augment shift --weights w.png", "w.png", 1},
    {ON_GPU "--device auto --epochs 2 --save net --log log.jsonl", "net log.jsonl", 3},
    {"--load net --evaluate --test test.csv --weights w.png", "w.png", 2},
    {"--load net --predict test.csv --output out.csv", "out.csv", 2},
    {"--load net --device cuda --classify digit.pgm w.png", NULL, 1},
#endif
};

/* Folders of runs without failures: with the stand-in GPU; without it; with it only in epoch 1. */
static const char *const end_folders[] = {"../after", "../after-cpu", "../after-both"};

typedef enum { OTHER, SAME, BEGINNING } Likeness;

/* Compares a file with the file of that name in folder `other`. A missing file counts as empty. */
static Likeness compare(const char *other, const char *name) {
  const Content a = read_content(name), model = read_content(text_printf("%s/%s", other, name));
  const bool begins = a.size <= model.size && memcmp(a.bytes, model.bytes, a.size) == 0;
  const bool lines = a.size == 0 || a.bytes[a.size - 1] == '\n';
  return !begins ? OTHER : a.size == model.size ? SAME : lines ? BEGINNING : OTHER;
}

static const char before[] = "../before";

static glob_t files_of(const char *place) {
  glob_t files = {0};
  assert_int_not_equal(glob(text_printf("%s/*", place), 0, NULL, &files), GLOB_NOSPACE);
  return files;
}

/* Puts the files from before the run back into the working folder. The rows are links, because a
   network is saved with the inode of its training file. */
static void restore(void) {
  assert_int_equal(system("rm -f * && cp ../before/* . && ln -sf ../before/t*.csv ."), 0);
}

/* ---- one run with one failure ------------------------------------------------------------- */

typedef enum { REFUSED, SURVIVED, BAD, OUTCOMES } Outcome;

/* Number of runs per outcome, in memory that all processes share. */
static atomic_ulong *tally;

/* Runs the program on stand-in GPU `gpu`. Call `at` fails; if `more`, later such calls also do. */
static int run(const Run *r, unsigned long at, bool more, const char *gpu) {
  char *words = keep(strdup(r->arguments)), *argv[34] = {program_path};
  int argc = 1;
  for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) argv[argc++] = word;
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    set_variable("FAULT_AT", text_printf("%lu", at));
    set_variable("FAULT_MORE", more ? "1" : NULL);
    set_variable("FAULT_CUDA", r->ends > 0 ? "1" : NULL);
    set_variable("FAULT_TOLD", "told");
    set_variable("CUDA_STAND_IN", gpu);
    set_variable("ASAN_OPTIONS", "detect_leaks=1:exitcode=99:allocator_may_return_null=1");
    const int out = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int err = open("err", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (dup2(out, 1) < 0 || dup2(err, 2) < 0) _exit(126);
    close(out);
    close(err);
    alarm(60); /* ends a run that hangs, even if others slow the machine down */
    execv(program_path, argv);
    _exit(126);
  }
  return process_status(child);
}

/* Returns words that the error message must contain if `function` fails (see fault.c). */
static const char *reason_of(const char *function) {
  static const struct {
    const char *functions;
    int cause;
  } reasons[] = {{"open mkostemp", EMFILE}, {"read pread fsync close", EIO},
                 {"write", ENOSPC},         {"rename", EACCES},
                 {"fchmod", EPERM},         {"pthread_create", EAGAIN}};
  foreach (r, reasons)
    if (strstr(r->functions, function)) return strerror(r->cause);
  if (strstr(function, "cuda")) return "GPU";
  return "memory"; /* as in "no memory", "out of memory" and strerror(ENOMEM) */
}

/* Returns true if the text has at most `most` lines, each with one error. Errors of standard output
   and of the log may come before the error that ends the run. */
static bool are_sentences(const char *text, int most) {
  int count = 0;
  for (const char *end; *text; text = end + 1, count++) {
    end = strchr(text, '\n');
    if (strncmp(text, "mlp-train: ", 11) != 0 || !end) return false;
  }
  return count > 0 && count <= most;
}

/* Returns true if the file is whole: unchanged by the run, or as a run without failures leaves it.
   The log of a failed run may end early. Logs that may name two devices are not compared. */
static bool is_whole(const char *name, const Run *r, bool well) {
  const bool output = strcmp(name, "out") == 0 || (r->outputs && strstr(r->outputs, name));
  if (strcmp(name, "err") == 0 || strcmp(name, "told") == 0) return true;
  const Likeness likeness = compare(output ? end_folders[0] : before, name);
  bool good = likeness == SAME || (output && !well && compare(before, name) == SAME);
  for (int i = 1; output && i < r->ends; i++) good |= compare(end_folders[i], name) == SAME;
  if (output && strncmp(name, "log", 3) == 0)
    good |= r->ends > 1 || (!well && likeness == BEGINNING);
  if (strcmp(name, "out") == 0) good |= r->ends > 1 || !well;
  return good;
}

static void judge_run(const Run *r, unsigned long at, bool more, int status, const char *function) {
  const Content err = read_content("err");
  const char *said = (const char *)err.bytes;
  /* If memory for a thread is missing, the message may name only the thread. */
  const bool says = strstr(said, reason_of(function)) || strstr(said, "cannot start a thread");
  const bool refused = status == 1 && are_sentences(said, more ? 4 : 1) && says;
  const bool survived = status == 0 && err.size == 0;
  const char *wrong = "";
  glob_t here = files_of("."), old = files_of(before);
  for (size_t i = 0; i < here.gl_pathc; i++)
    if (!is_whole(basename(here.gl_pathv[i]), r, survived))
      wrong = text_printf("%s is neither the old one nor the new one", here.gl_pathv[i]);
  for (size_t i = 0; i < old.gl_pathc; i++)
    if (access(basename(old.gl_pathv[i]), F_OK) != 0)
      wrong = text_printf("%s is lost", old.gl_pathv[i]);
  globfree(&here);
  globfree(&old);
  const bool bad = (!refused && !survived) || *wrong;
  if (bad)
    print_message("%s, failure %lu%s (%s): status %d, %s: %.1500s\n", r->arguments, at,
                  more ? " and on" : "", function, status, *wrong ? wrong : "not what was expected",
                  err.size ? said : "(silent)");
  tally[bad ? BAD : survived ? SURVIVED : REFUSED]++;
}

/* ---- all of them -------------------------------------------------------------------------- */

/* Makes one call fail per run: call `first`, then every step-th call up to `last` or the end. */
static void try_all(const Run *r, unsigned long first, unsigned long step, unsigned long last,
                    bool more) {
  for (unsigned long at = first; at <= last; at += step) {
    restore();
    const int status = run(r, at, more, "");
    const Content told = read_content("told");
    const bool none = told.size == 0;
    if (none && status != 0) {
      print_message("%s: status %d, and nothing failed\n", r->arguments, status);
      tally[BAD]++;
    }
    if (!none) judge_run(r, at, more, status, (char *)told.bytes);
    free_kept();
    if (none) return;
  }
}

static void enter(const char *place) {
  if (mkdir(place, 0700) != 0) assert_int_equal(errno, EEXIST);
  assert_int_equal(chdir(place), 0);
}

/* Tries every stride-th call. The calls are divided among processes, one process per core. */
static void try_on_every_core(const Run *r, unsigned long stride, bool more) {
  const unsigned long cores = (unsigned long)sysconf(_SC_NPROCESSORS_ONLN);
  for (unsigned long i = 0; i < cores; i++) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0) continue;
    enter(text_printf("../core-%lu", i));
    try_all(r, 1 + i * stride, cores * stride, ULONG_MAX, more);
    fflush(NULL);
    _exit(0);
  }
  for (unsigned long i = 0; i < cores; i++) {
    int status;
    assert_true(wait(&status) > 0);
    assert_int_equal(status, 0);
  }
}

static void run_whole(const Run *r, int end, const char *gpu) {
  enter(end_folders[end]);
  restore();
  assert_int_equal(run(r, 0, false, gpu), 0);
}

/* Fills end_folders by runs without failures. */
static void fill_end_folders(const Run *r) {
  run_whole(r, 0, "");
  if (r->ends >= 2) run_whole(r, 1, "none");
  if (r->ends < 3) return;
  const Run first = {text_printf("%s --epochs 1", r->arguments), NULL, 1},
            second = {"--resume net --epochs 2", NULL, 1};
  run_whole(&first, 2, "");
  assert_int_equal(run(&second, 0, false, "none"), 0);
}

enum { STRIDE = 29, EARLY = 40 }; /* EARLY: number of calls before the command line is read */

TEST(every_failure) {
  const char *given = getenv("FAULTS_STRIDE");
  const unsigned long usual = getenv("TEST_QUICK") ? 4 * STRIDE : STRIDE;
  const unsigned long stride = given ? strtoul(given, NULL, 10) : usual;
  const size_t size = OUTCOMES * sizeof *tally;
  tally = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(tally, MAP_FAILED);
  fill_end_folders(runs);
  enter("../core-0");
  try_all(runs, 1, 1, EARLY, false);
  foreach (r, runs)
    for (int more = 0; more < 2; more++) {
      fill_end_folders(r);
      try_on_every_core(r, stride, more);
      print_message("up to %s%s: %lu refused, %lu survived, %lu wrong\n", r->arguments,
                    more ? ", and on" : "", tally[REFUSED], tally[SURVIVED], tally[BAD]);
    }
  assert_int_equal(tally[BAD], 0);
  assert_true(tally[REFUSED] > 0);
}

/* Writes rows of four pixels, with label 1 if the first pixel is bright. Some labels are wrong. */
static void write_rows(const char *name, int rows) {
  FILE *file = folder_create(name);
  for (int i = 0; i < rows; i++)
    fprintf(file, "%d,%d,%d,%d,%d\n", i % 7 == 0 ? 0 : i % 2, i % 2 ? 200 + i % 50 : i % 90, i % 64,
            (3 * i) % 256, (5 * i) % 256);
  close_file(file);
}

static int open_folders(void **state) {
  char *self = keep(realpath("/proc/self/exe", NULL));
  program_path = text_printf("%s/mlp-train-faults", dirname(self));
  assert_int_equal(folder_enter(state), 0);
  enter("start");
  enter(before);
  write_rows("train.csv", 70);
  write_rows("test.csv", 20);
  folder_write("more.conf", "[training]\nbatch = 8\n");
  folder_write("digit.pgm", "P5 8 8 255\n"
                            "                   ~~      ~~      ~~      ~~                   ");
  foreach (r, VALUES(Run, {SMALL "--epochs 1 --batch 8 --save net", NULL, 0},
                     {ASK "--evaluate --test test.csv --weights w.png", NULL, 0}))
    assert_int_equal(run(r, 0, false, ""), 0);
  assert_int_equal(unlink("out"), 0);
  assert_int_equal(unlink("err"), 0);
  foreach (old, TEXTS("log.jsonl", "out.csv", "c.png", "m.png", "s.png"))
    folder_write(*old, "an old file\n");
  return 0;
}

TESTS_WITH(open_folders, folder_close);
