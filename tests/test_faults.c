/* Every failure in turn: short runs of mlp-train-faults (see fault.c; its GPU is cuda_stand_in.c),
   in which each call that can fail does so once; then once more, and from there on all of its kind.
   Each run must end with a sentence that says what failed, or else as if nothing had; neither crash
   nor leak; and leave every file whole, the old one or the new one. Built with SANITIZE=1 it sees
   leaks; `make faults` does that, for every failure; else it is one in STRIDE, fewer with
   TEST_QUICK, or in $FAULTS_STRIDE. */
#define _XOPEN_SOURCE 700 /* realpath */
#include <dirent.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"
#include "support/folder.h"

static char program_path[PATH_MAX];

/* ---- runs --------------------------------------------------------------------------------- */

enum { MOST_ARGUMENTS = 32, MOST_OUTPUTS = 8 };

typedef struct {
  const char *name;
  const char *arguments[MOST_ARGUMENTS];
  const char *outputs[MOST_OUTPUTS]; /* files, besides standard output */
  bool cuda_alone;                   /* the GPU's calls are those that fail */
  int ends;                          /* of the end_folders that it may leave the files of; 0: one */
} Run;

#define SMALL                                                                                      \
  "--device", "cpu", "--threads", "2", "--classes", "2", "--hidden", "3", "--train", "train.csv",  \
      "--test", "test.csv"

#define ASK "--load", "net", "--device", "cpu"
/* A network that every level of fusion takes. */
#define ON_GPU SMALL, "--device", "cuda", "--hidden", "16,3", "--resident", "yes", "--epochs", "1"

static const Run runs[] = {
    {.name = "train",
     .arguments = {SMALL, "--resident", "yes", "--epochs", "1", "--save", "net", "--log",
                   "log.jsonl", "--config", "more.conf"},
     .outputs = {"net", "log.jsonl"}},
    {.name = "train, streamed",
     .arguments = {SMALL, "--epochs", "2", "--resident", "no", "--log", "log.jsonl"},
     .outputs = {"log.jsonl"}},
    {.name = "train, validated",
     .arguments = {SMALL, "--epochs", "1", "--resident", "yes", "--validation", "0.2", "--log",
                   "log.jsonl"},
     .outputs = {"log.jsonl"}},
    {.name = "resume",
     .arguments = {"--resume", "net", "--epochs", "2", "--resident", "yes", "--log", "log.jsonl"},
     .outputs = {"net", "log.jsonl"}},
    {.name = "evaluate", .arguments = {ASK, "--evaluate", "--test", "test.csv", "--threads", "2"}},
    {.name = "predict",
     .arguments = {ASK, "--predict", "test.csv", "--output", "out.csv", "--probabilities"},
     .outputs = {"out.csv"}},
    {.name = "predict, printed", .arguments = {ASK, "--predict", "test.csv", "--threads", "1"}},
    {.name = "classify", .arguments = {ASK, "--classify", "digit.pgm", "w.png"}},
    {.name = "classify, shown",
     .arguments = {ASK, "--json", "--show", "s.png", "--classify", "digit.pgm"},
     .outputs = {"s.png"}},
    {.name = "help", .arguments = {"--help"}},
    {.name = "curves",
     .arguments = {SMALL, "--epochs", "1", "--resident", "yes", "--plot", "c.png"},
     .outputs = {"c.png"}},
    {.name = "pictures",
     .arguments = {ASK, "--evaluate", "--test", "test.csv", "--weights", "w.png", "--mistakes",
                   "m.png", "--confusion", "c.png"},
     .outputs = {"w.png", "m.png", "c.png"}},
#ifdef HAVE_STAND_IN
    {.name = "GPU, layer",
     .arguments = {ON_GPU, "--fusion", "layer", "--save", "net"},
     .outputs = {"net"}},
    {.name = "GPU, none",
     .arguments = {ON_GPU, "--fusion", "none", "--save", "net"},
     .outputs = {"net"},
     .cuda_alone = true},
    {.name = "GPU, step, streamed",
     .arguments = {ON_GPU, "--fusion", "step", "--batch", "1", "--resident", "no", "--save", "net"},
     .outputs = {"net"},
     .cuda_alone = true},
    {.name = "GPU, epoch, distorted",
     .arguments = {ON_GPU, "--fusion", "epoch", "--augment", "shift", "--weights", "w.png"},
     .outputs = {"w.png"},
     .cuda_alone = true},
    {.name = "GPU or CPU",
     .arguments = {ON_GPU, "--device", "auto", "--epochs", "2", "--save", "net", "--log",
                   "log.jsonl"},
     .outputs = {"net", "log.jsonl"},
     .cuda_alone = true,
     .ends = 3},
    {.name = "GPU or CPU, evaluate",
     .arguments = {"--load", "net", "--evaluate", "--test", "test.csv", "--weights", "w.png"},
     .outputs = {"w.png"},
     .cuda_alone = true,
     .ends = 2},
    {.name = "GPU or CPU, predict",
     .arguments = {"--load", "net", "--predict", "test.csv", "--output", "out.csv"},
     .outputs = {"out.csv"},
     .cuda_alone = true,
     .ends = 2},
    {.name = "GPU, classify",
     .arguments = {"--load", "net", "--device", "cuda", "--classify", "digit.pgm", "w.png"},
     .cuda_alone = true},
#endif
};

/* Folders of whole runs, an epoch each: of the GPU, of the CPU, and of both. */
static const char *const end_folders[] = {"../after", "../after-cpu", "../after-both"};

/* ---- files -------------------------------------------------------------------------------- */

/* Returns what a file holds with a 0 behind it, "" if there is none. The caller frees it. */
static char *content_of(const char *place, const char *name, size_t *size) {
  char path[PATH_MAX], *text;
  snprintf(path, sizeof path, "%s/%s", place, name);
  FILE *file = fopen(path, "rb"), *content = open_memstream(&text, size);
  assert_non_null(content);
  for (int c; file && (c = fgetc(file)) != EOF;) fputc(c, content);
  if (file) fclose(file);
  assert_int_equal(fclose(content), 0);
  return text;
}

/* Removes `from` to the end of its line; returns the new size. */
static size_t cut(char *text, size_t size, char *from) {
  const char *end = from + strcspn(from, "\n");
  memmove(from, end, size + 1 - (size_t)(end - text));
  return size - (size_t)(end - from);
}

/* Cuts off what no two runs have in common: times. In an epoch's row they follow the last %. */
static size_t without_times(char *text, size_t size) {
  static const char *const starts[] = {"    load ", ", \"train_seconds\""};
  for (size_t s = 0; s < sizeof starts / sizeof *starts; s++)
    for (char *found; (found = strstr(text, starts[s]));) size = cut(text, size, found);
  for (char *row = text; (row = strstr(row, "\nepoch ")); row++) {
    char *last = row + 1 + strcspn(row + 1, "\n");
    while (last > row && *last != '%') last--;
    if (last > row) size = cut(text, size, last + 1);
  }
  return size;
}

typedef enum { OTHER, SAME, BEGINNING } Likeness;

static bool is_text(const char *name) {
  return strcmp(name, "out") == 0 || strncmp(name, "log", 3) == 0;
}

/* How the file of one folder is like that of another. */
static Likeness compare(const char *place, const char *other, const char *name) {
  size_t size, whole;
  char *text = content_of(place, name, &size), *model = content_of(other, name, &whole);
  if (is_text(name)) {
    size = without_times(text, size);
    whole = without_times(model, whole);
  }
  const bool begins = size <= whole && memcmp(text, model, size) == 0;
  const bool lines = size == 0 || text[size - 1] == '\n';
  free(text);
  free(model);
  return !begins ? OTHER : size == whole ? SAME : lines ? BEGINNING : OTHER;
}

static void copy(const char *from, const char *to, const char *name) {
  char path[PATH_MAX];
  size_t size;
  char *bytes = content_of(from, name, &size);
  snprintf(path, sizeof path, "%s/%s", to, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
  free(bytes);
}

/* Does `each` for every file of the working folder. */
static void each_file(const char *place, void (*each)(const char *name, void *context),
                      void *context) {
  DIR *directory = opendir(place);
  assert_non_null(directory);
  for (struct dirent *entry; (entry = readdir(directory));)
    if (*entry->d_name != '.') each(entry->d_name, context);
  closedir(directory);
}

static const char before[] = "../before";

static void remove_it(const char *name, void *context) {
  (void)context;
  assert_int_equal(unlink(name), 0);
}

static void restore_it(const char *name, void *context) {
  (void)context;
  copy(before, ".", name);
}

/* The working folder is as it was before the run. */
static void restore(void) {
  each_file(".", remove_it, NULL);
  each_file(before, restore_it, NULL);
}

/* ---- one run with one failure ------------------------------------------------------------- */

typedef enum { REFUSED, SURVIVED, BAD, OUTCOMES } Outcome;

typedef struct {
  unsigned long outcomes[OUTCOMES];
} Tally;

static void set(const char *name, const char *value) {
  assert_int_equal(value ? setenv(name, value, 1) : unsetenv(name), 0);
}

/* On the GPU that cuda_stand_in.c calls `gpu`. */
static int run(const Run *r, unsigned long at, bool more, const char *gpu) {
  char number[32];
  const char *argv[MOST_ARGUMENTS + 2] = {program_path};
  memcpy(argv + 1, r->arguments, sizeof r->arguments);
  snprintf(number, sizeof number, "%lu", at);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    set("FAULT_AT", number);
    set("FAULT_MORE", more ? "1" : NULL);
    set("FAULT_CUDA", r->cuda_alone ? "1" : NULL);
    set("FAULT_TOLD", "told");
    set("CUDA_STAND_IN", gpu);
    set("ASAN_OPTIONS", "detect_leaks=1:exitcode=99:allocator_may_return_null=1");
    const int out = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int err = open("err", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (dup2(out, 1) < 0 || dup2(err, 2) < 0) _exit(126);
    close(out);
    close(err);
    alarm(20);                                     /* a run that hangs is ended */
    execv(program_path, (char **)(uintptr_t)argv); // NOLINT(performance-no-int-to-ptr)
    _exit(126);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Returns what the sentence about a failure of this function must contain; fault.c sets errno. */
static const char *reason_of(const char *function) {
  static const struct {
    const char *functions;
    int cause;
  } reasons[] = {{"open openat", EMFILE},  {"read pread fsync close", EIO},
                 {"write", ENOSPC},        {"rename renameat", EACCES},
                 {"fchown fchmod", EPERM}, {"pthread_create", EAGAIN}};
  for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
    if (strstr(reasons[i].functions, function)) return strerror(reasons[i].cause);
  if (strstr(function, "cuda")) return "GPU";
  return "memory"; /* as in "no memory", "out of memory" and strerror(ENOMEM) */
}

/* Lines of one sentence each, `most` at most: standard output and the log may be said to be missing
   before the failure that ends the run. */
static bool are_sentences(const char *text, int most) {
  int count = 0;
  for (const char *end; *text; text = end + 1, count++) {
    end = strchr(text, '\n');
    if (strncmp(text, "mlp-train: ", 11) != 0 || !end) return false;
  }
  return count > 0 && count <= most;
}

typedef struct {
  const Run *run;
  bool well;
  char wrong[PATH_MAX]; /* "": nothing */
} Left;

/* Every file is as before the run or as after a whole one; a log may have ended early, and tells of
   both devices where there were two. */
static void judge_it(const char *name, void *context) {
  Left *left = context;
  const Run *r = left->run;
  bool output = strcmp(name, "out") == 0;
  if (strcmp(name, "err") == 0 || strcmp(name, "told") == 0) return;
  for (int i = 0; i < MOST_OUTPUTS && r->outputs[i]; i++) output |= !strcmp(name, r->outputs[i]);
  const Likeness likeness = compare(".", output ? end_folders[0] : before, name);
  bool good = likeness == SAME || (output && !left->well && compare(".", before, name) == SAME);
  for (int i = 1; output && i < r->ends; i++) good |= compare(".", end_folders[i], name) == SAME;
  if (output && is_text(name))
    good |= r->ends > 1 || (!left->well && (likeness == BEGINNING || strcmp(name, "out") == 0));
  if (!good)
    snprintf(left->wrong, sizeof left->wrong, "%s is neither the old one nor the new one", name);
}

static Outcome judge_run(const Run *r, unsigned long at, bool more, int status,
                         const char *function) {
  size_t size;
  char *said = content_of(".", "err", &size);
  /* A thread's memory is the C library's matter, which does not say what was missing. */
  const bool says = strstr(said, reason_of(function)) || strstr(said, "cannot start a thread");
  const bool refused = status == 1 && are_sentences(said, more ? 4 : 1) && says;
  const bool survived = status == 0 && size == 0;
  Left left = {.run = r, .well = survived};
  each_file(".", judge_it, &left);
  for (int i = 0; i < MOST_OUTPUTS && r->outputs[i]; i++)
    if (access(r->outputs[i], F_OK) != 0)
      snprintf(left.wrong, sizeof left.wrong, "%s is lost", r->outputs[i]);
  const bool bad = (!refused && !survived) || *left.wrong;
  if (bad)
    print_message("%s, failure %lu%s (%s): status %d, %s: %.1500s\n", r->name, at,
                  more ? " and on" : "", function, status,
                  *left.wrong ? left.wrong : "not what was expected", size ? said : "(silent)");
  free(said);
  return bad ? BAD : survived ? SURVIVED : REFUSED;
}

/* ---- all of them -------------------------------------------------------------------------- */

/* Failures number first, first + step, ... until there was nothing more to fail. */
static Tally try_all(const Run *r, unsigned long first, unsigned long step, bool more) {
  Tally tally = {{0}};
  for (unsigned long at = first;; at += step) {
    restore();
    const int status = run(r, at, more, "");
    size_t size;
    char *function = content_of(".", "told", &size);
    const bool none = size == 0;
    if (none && status != 0) {
      print_message("%s: status %d, and nothing failed\n", r->name, status);
      tally.outcomes[BAD]++;
    }
    if (!none) tally.outcomes[judge_run(r, at, more, status, function)]++;
    free(function);
    if (none) return tally;
  }
}

static void enter(const char *place) {
  if (mkdir(place, 0700) != 0) assert_int_equal(errno, EEXIST);
  assert_int_equal(chdir(place), 0);
}

/* In as many processes as there are cores, each in a folder of its own. */
static Tally try_on_every_core(const Run *r, unsigned long stride, bool more) {
  enum { MOST = 64 };
  int ends[2];
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  const int count = cores < 1 ? 1 : cores > MOST ? MOST : (int)cores;
  assert_int_equal(pipe(ends), 0);
  for (int i = 0; i < count; i++) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0) continue;
    char place[32];
    snprintf(place, sizeof place, "../core-%d", i);
    enter(place);
    const Tally tally =
        try_all(r, 1 + (unsigned long)i * stride, (unsigned long)count * stride, more);
    fflush(NULL);
    _exit(write(ends[1], &tally, sizeof tally) != sizeof tally);
  }
  assert_int_equal(close(ends[1]), 0);
  Tally all = {{0}};
  for (int i = 0; i < count; i++) {
    Tally tally;
    int status;
    assert_int_equal(read(ends[0], &tally, sizeof tally), sizeof tally);
    for (int o = 0; o < OUTCOMES; o++) all.outcomes[o] += tally.outcomes[o];
    assert_true(wait(&status) > 0);
    assert_int_equal(status, 0);
  }
  assert_int_equal(close(ends[0]), 0);
  return all;
}

static void run_whole(const Run *r, int end, const char *gpu) {
  enter(end_folders[end]);
  restore();
  assert_int_equal(run(r, 0, false, gpu), 0);
}

/* Makes the folders that whole runs leave. */
static void fill_end_folders(const Run *r) {
  run_whole(r, 0, "");
  if (r->ends >= 2) run_whole(r, 1, "none");
  if (r->ends < 3) return;
  Run first = *r;
  int count = 0;
  while (first.arguments[count]) count++;
  first.arguments[count] = "--epochs";
  first.arguments[count + 1] = "1";
  run_whole(&first, 2, "");
  const Run second = {.name = "second", .arguments = {"--resume", "net", "--epochs", "2"}};
  assert_int_equal(run(&second, 0, false, "none"), 0);
}

enum { STRIDE = 29 };

TEST(every_failure) {
  const char *given = getenv("FAULTS_STRIDE");
  const unsigned long usual = getenv("TEST_QUICK") ? 4 * STRIDE : STRIDE;
  const unsigned long stride = given ? strtoul(given, NULL, 10) : usual;
  Tally all = {{0}};
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
    for (int more = 0; more < 2; more++) {
      fill_end_folders(&runs[i]);
      const Tally tally = try_on_every_core(&runs[i], stride, more);
      print_message("%s%s: %lu refused, %lu survived, %lu wrong\n", runs[i].name,
                    more ? ", and on" : "", tally.outcomes[REFUSED], tally.outcomes[SURVIVED],
                    tally.outcomes[BAD]);
      for (int o = 0; o < OUTCOMES; o++) all.outcomes[o] += tally.outcomes[o];
    }
  print_message("%lu failures tried: %lu refused, %lu survived, %lu wrong\n",
                all.outcomes[REFUSED] + all.outcomes[SURVIVED] + all.outcomes[BAD],
                all.outcomes[REFUSED], all.outcomes[SURVIVED], all.outcomes[BAD]);
  assert_int_equal(all.outcomes[BAD], 0);
  assert_true(all.outcomes[REFUSED] > 0);
}

/* ---- GPUs that cannot be used ---------------------------------------------------------------- */

#ifdef HAVE_STAND_IN
/* A sentence and exit code 1; --device auto takes the CPU, and says why. */
TEST(useless_gpus) {
  static const struct {
    const char *gpu, *said;
  } cases[] = {
      {"none", "no GPU is visible"},
      {"no-driver", "no driver of an NVIDIA GPU is installed"},
      {"old-driver", "the GPU's driver serves CUDA 11.8, and this program was built with "},
      {"old-gpu", "this program has no code for the stand-in (compute capability 5.0)"},
      {"full", "MB of memory left: try --resident no"},
      {"", "MB that the GPU needs: try --resident no"},
  };
  static const Run cuda = {.name = "",
                           .arguments = {ON_GPU, "--device-memory", "1", "--save", "net"}},
                   automatic = {.name = "",
                                .arguments = {ON_GPU, "--device-memory", "1", "--save", "net",
                                              "--device", "auto"}};
  enter("../after");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    restore();
    assert_int_equal(run(&cuda, 0, false, cases[i].gpu), 1);
    size_t size;
    char *said = content_of(".", "err", &size);
    if (!strstr(said, cases[i].said)) fail_msg("%s: %s", cases[i].gpu, said);
    assert_true(are_sentences(said, 1));
    assert_non_null(strstr(said, "; --device cpu does without a GPU\n"));
    free(said);
    restore();
    assert_int_equal(run(&automatic, 0, false, cases[i].gpu), 0);
    said = content_of(".", "out", &size);
    assert_int_equal(strncmp(said, "device   CPU", 12), 0);
    if (!strstr(said, cases[i].said)) fail_msg("%s: %s", cases[i].gpu, said);
    free(said);
  }
}
#endif

/* ---- before ------------------------------------------------------------------------------- */

/* Rows of four pixels, 1 where the first is bright; some are labelled wrongly. */
static void write_rows(const char *name, int rows) {
  FILE *file = fopen(name, "w");
  assert_non_null(file);
  for (int i = 0; i < rows; i++)
    fprintf(file, "%d,%d,%d,%d,%d\n", i % 7 == 0 ? 0 : i % 2, i % 2 ? 200 + i % 50 : i % 90, i % 64,
            (3 * i) % 256, (5 * i) % 256);
  assert_int_equal(fclose(file), 0);
}

static int open_folders(void **state) {
  folder_open(state);
  assert_int_equal(chdir(folder), 0);
  enter("start");
  enter(before);
  write_rows("train.csv", 70);
  write_rows("test.csv", 20);
  folder_write("more.conf", "[training]\nbatch = 8\n");
  folder_write("digit.pgm", "P5 8 8 255\n"
                            "                   ~~      ~~      ~~      ~~                   ");
  static const Run first = {.name = "first",
                            .arguments = {SMALL, "--epochs", "1", "--batch", "8", "--save", "net"}};
  assert_int_equal(run(&first, 0, false, ""), 0);
  static const Run picture = {
      .name = "picture",
      .arguments = {ASK, "--evaluate", "--test", "test.csv", "--weights", "w.png"}};
  assert_int_equal(run(&picture, 0, false, ""), 0);
  assert_int_equal(unlink("out"), 0);
  assert_int_equal(unlink("err"), 0);
  static const char *const olds[] = {"log.jsonl", "out.csv", "c.png", "m.png", "s.png"};
  for (size_t i = 0; i < sizeof olds / sizeof *olds; i++) folder_write(olds[i], "an old file\n");
  return 0;
}

static int close_folders(void **state) {
  assert_int_equal(chdir("/"), 0);
  return folder_close(state);
}

TESTS_WITH(open_folders, close_folders);

int main(int argc, char **argv) {
  char self[PATH_MAX];
  if (argc < 1 || !realpath(argv[0], self)) return 1;
  snprintf(program_path, sizeof program_path, "%.4000s/mlp-train-faults", dirname(self));
  return tests_run();
}
