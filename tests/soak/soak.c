/* soak MINUTES [SEED]: random runs of mlp-train, each in two ways that must give the same network.

   One way reads plain files and is left alone. The other one may read the same rows written
   otherwise (quoted, with a header, CRLF), packed by gzip, through a pipe or from standard input,
   with other threads and, where the order of rows does not depend on it, another --resident; it is
   interrupted by signals at random moments and resumed, on the next --threads. Then both networks
   are the same in every bit, epochs and accuracies included, and so are the best networks and the
   predictions for the test file; the logs differ in seconds alone, and in the training loss by
   1e-12 of it. Standard error holds nothing but the sentence of an interrupted run, and no
   temporary file is left.

   Case N of seed S is case 0 of seed S + N. The first case that fails ends the program: its folder
   is kept, and in it the file `commands`, which says what ran. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "base/clock.h"
#include "base/random.h"
#include "model/checkpoint.h"

enum {
  MOST_PIXELS = 300000, /* of a training file */
  MOST_STEPS = 4000,    /* of a run: threads that share two cores wait long for each other */
  END = 60,             /* seconds that a run may take under a sanitizer on a busy machine */
  ANSWER = 20, /* seconds from a signal to the end; 2 are promised where nothing else runs */
};

static char program[PATH_MAX], place[PATH_MAX];
static uint64_t seed, counter; /* of the case; how often it drew */

/* ---- failing and drawing ------------------------------------------------------------------ */

__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("FAILED: ");
  vprintf(format, arguments);
  va_end(arguments);
  printf("\n%s/commands says what ran; SEED=%llu repeats it\n", place, (unsigned long long)seed);
  exit(1);
}

static void check(bool good, const char *what) {
  if (!good) fail("%s: %s", what, strerror(errno));
}

/* Below `below`. */
static int draw(int below) {
  return (int)(random_words(seed, 0x736f616b /* "soak" */, counter++).word[0] % (uint32_t)below);
}

/* From low to high, small ones as often as large ones. */
static int draw_size(int low, int high) {
  int most = high;
  while (most / 2 > low && draw(2)) most /= 2;
  return low + draw(most - low + 1);
}

static bool chance(int percent) {
  return draw(100) < percent;
}

/* ---- what was done ------------------------------------------------------------------------ */

static struct {
  int pairs, diverged, threads, resident; /* pairs; those with that difference */
  int quoted, packed, piped;              /* files of the other way */
  int early, within, between, testing; /* interruptions: before there was anything to save, ... */
  double answer;                       /* the longest time from a signal to the end, in seconds */
} done;

static void print_done(double seconds) {
  printf(
      "%4.0f s  %d pairs agree, %d of other threads, %d of other --resident, %d diverged\n"
      "        files: %d of other CSV, %d by gzip, %d through a pipe or standard input\n"
      "        signals: %d before training, %d within and %d between epochs, %d in the test after "
      "the last; the end came within %.1f s\n",
      seconds, done.pairs, done.threads, done.resident, done.diverged, done.quoted, done.packed,
      done.piped, done.early, done.within, done.between, done.testing, done.answer);
  fflush(stdout);
}

/* ---- the words of a command --------------------------------------------------------------- */

enum { MOST_WORDS = 64, WORD = 64 };

typedef struct {
  int count;
  char word[MOST_WORDS][WORD];
} Command;

__attribute__((format(printf, 2, 3))) static void add(Command *c, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (c->count == MOST_WORDS || vsnprintf(c->word[c->count++], WORD, format, arguments) >= WORD)
    fail("a command is too long");
  va_end(arguments);
}

/* ---- a file of rows, written in some way --------------------------------------------------- */

typedef enum { PLAIN, PACKED, PIPED, STANDARD_INPUT } Source;

typedef struct {
  Source source;
  bool other_csv;     /* quotes, CRLF, a header, blank lines at the end */
  const char *option; /* what the program is told */
  const char *file;   /* the rows */
} Rows;

/* Row r of the file that is drawn from `salt`; a label is often told by the pixels. */
static void write_row(gzFile file, uint64_t salt, int row, int inputs, int classes,
                      const char *format, const char *end) {
  int sum = 0;
  uint8_t pixels[1024];
  for (int i = 0; i < inputs; i++) {
    const RandomWords w = random_words(seed, salt, (uint64_t)row << 16 | (uint64_t)(i / 16));
    pixels[i] = (uint8_t)(w.word[i / 4 % 4] >> 8 * (i % 4));
    if (i < 2) sum += pixels[i];
  }
  gzprintf(file, format, row % 5 == 0 ? row % classes : sum * classes / 511);
  for (int i = 0; i < inputs; i++) {
    gzputc(file, ',');
    gzprintf(file, format, pixels[i]);
  }
  gzputs(file, end);
}

static void write_rows(const Rows *rows, uint64_t salt, int count, int inputs, int classes) {
  const bool packed = rows->source == PACKED, other = rows->other_csv;
  gzFile file = gzopen(rows->file, packed ? "wb1" : "wbT"); /* T: as it is */
  check(file != NULL, rows->file);
  if (other) {
    gzputs(file, "\xef\xbb\xbflabel");
    for (int i = 0; i < inputs; i++) gzprintf(file, ",pixel%d", i);
    gzputs(file, "\r\n");
  }
  for (int row = 0; row < count; row++) {
    if (packed && row == count / 3) { /* another member */
      check(gzclose(file) == Z_OK, rows->file);
      file = gzopen(rows->file, "ab9");
      check(file != NULL, rows->file);
    }
    const bool quoted = other && row % 7 == 3;
    write_row(file, salt, row, inputs, classes, quoted ? "\"%d\"" : "%d",
              other && row % 3 ? "\r\n" : "\n");
  }
  if (other) gzputs(file, "\n\n");
  check(gzclose(file) == Z_OK, rows->file);
}

/* Starts a process that writes the file to the pipe once; 0 where the rows want none. */
static pid_t feed(const Rows *rows) {
  if (rows->source != PIPED) return 0;
  const pid_t child = fork();
  check(child >= 0, "fork");
  if (child > 0) return child;
  signal(SIGPIPE, SIG_DFL);
  char bytes[5000];
  const int from = open(rows->file, O_RDONLY), to = open(rows->option, O_WRONLY);
  for (ssize_t size; from >= 0 && to >= 0 && (size = read(from, bytes, sizeof bytes)) > 0;)
    if (write(to, bytes, (size_t)size) != size) break;
  _exit(0);
}

static void end_feeding(pid_t feeder) {
  if (feeder == 0) return;
  kill(feeder, SIGKILL);
  waitpid(feeder, NULL, 0);
}

/* ---- a run of the program ------------------------------------------------------------------ */

static void note(const Command *c, const char *input, const char *output, const char *how) {
  FILE *file = fopen("commands", "a");
  check(file != NULL, "commands");
  fputs("mlp-train", file);
  for (int i = 0; i < c->count; i++) fprintf(file, " %s", c->word[i]);
  fprintf(file, " <%s >%s   # %s\n", input, output, how);
  check(fclose(file) == 0, "commands");
}

static void redirect(const char *path, int flags, int target) {
  const int file = open(path, flags, 0600);
  if (file < 0 || dup2(file, target) < 0) _exit(126);
}

static pid_t start(const Command *c, const char *input, const char *output) {
  char *argv[MOST_WORDS + 2] = {program};
  for (int i = 0; i < c->count; i++) argv[i + 1] = (char *)c->word[i];
  const pid_t child = fork();
  check(child >= 0, "fork");
  if (child > 0) return child;
  redirect(input, O_RDONLY, STDIN_FILENO);
  redirect(output, O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
  redirect("err", O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
  execv(program, argv);
  _exit(127);
}

/* Waits until the process has ended or so many seconds have passed: false. *status: its exit
   status, or -N: signal N ended it. */
static bool ended_within(pid_t process, double seconds, int *status) {
  const struct timespec millisecond = {.tv_nsec = 1000000};
  const double began = seconds_now();
  for (;;) {
    int raw;
    const pid_t got = waitpid(process, &raw, WNOHANG);
    check(got >= 0, "waitpid");
    if (got > 0) {
      *status = WIFEXITED(raw) ? WEXITSTATUS(raw) : -WTERMSIG(raw);
      return true;
    }
    if (seconds_now() - began > seconds) return false;
    nanosleep(&millisecond, NULL);
  }
}

/* Returns what the last run said on standard error. */
static const char *said(void) {
  static char text[8192];
  FILE *file = fopen("err", "r");
  check(file != NULL, "err");
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  return text;
}

/* Runs it to its end: 0, with nothing said, or 1 where the loss diverged. */
static int run(const Command *c, const Rows *train, const Rows *test, const char *output) {
  const char *input = train->source == STANDARD_INPUT ? train->file : "/dev/null";
  const pid_t feeders[] = {feed(train), feed(test)};
  int status;
  note(c, input, output, "to its end");
  const pid_t process = start(c, input, output);
  const bool ended = ended_within(process, END, &status);
  if (!ended) kill(process, SIGKILL);
  end_feeding(feeders[0]);
  end_feeding(feeders[1]);
  if (!ended) fail("the last command does not end");
  if (status == 1 && strstr(said(), ": try a lower --lr")) return 1;
  if (status != 0 || *said()) fail("the last command: status %d, it said: %s", status, said());
  return 0;
}

/* Runs the command and sends a signal after so many seconds. True if that ended it; *trained: in
   the test of the network that it had trained. */
static bool run_interrupted(const Command *c, const Rows *train, const Rows *test, double seconds,
                            bool *trained, int *status) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  const int number = numbers[draw(3)];
  const char *input = train->source == STANDARD_INPUT ? train->file : "/dev/null";
  const pid_t feeders[] = {feed(train), feed(test)};
  char how[64];
  snprintf(how, sizeof how, "signal %d after %.3f s", number, seconds);
  note(c, input, "out", how);
  const pid_t process = start(c, input, "out");
  bool ended = ended_within(process, seconds, status);
  if (!ended) {
    const double began = seconds_now();
    check(kill(process, number) == 0, "kill");
    ended = ended_within(process, ANSWER, status);
    if (!ended) kill(process, SIGKILL);
    const double answer = seconds_now() - began;
    if (answer > done.answer) done.answer = answer;
  }
  end_feeding(feeders[0]);
  end_feeding(feeders[1]);
  if (!ended) fail("the last command does not end %d s after its signal", ANSWER);
  if (*status == 1 && strstr(said(), ": try a lower --lr")) return false;
  if (*status == 0 && !*said()) return false; /* it had come to its end */
  const char *text = said(), *line = strchr(text, '\n');
  const bool early = *status == -number || strcmp(text, "mlp-train: interrupted\n") == 0;
  const bool within = strstr(text, "interrupted in epoch") && strstr(text, "--resume b.st");
  const bool between = strstr(text, "interrupted after epoch") && strstr(text, "--resume b.st");
  *trained = strstr(text, "interrupted after the last epoch") && strstr(text, "--load b.st");
  if ((*status != -number && *status != 128 + number) || (line && line[1]) ||
      !(early || within || between || *trained))
    fail("the last command: status %d, it said: %s", *status, text);
  done.early += early;
  done.within += within;
  done.between += between;
  done.testing += *trained;
  return true;
}

/* ---- what must be the same ----------------------------------------------------------------- */

static void load(Checkpoint *saved, const char *path) {
  Error error;
  if (!checkpoint_load(saved, path, &error)) fail("%s: %s", path, error.text);
}

/* All but the options, which name other files. */
static void compare_networks(const char *path, const char *other) {
  Checkpoint a, b;
  load(&a, path);
  load(&b, other);
  const size_t bytes = a.network.floats * sizeof(float);
  if (memcmp(&a.network, &b.network, sizeof a.network) != 0) fail("the shapes differ");
  if (a.count != b.count || memcmp(a.kind, b.kind, sizeof a.kind) != 0)
    fail("the states of training are of other kinds");
  if (memcmp(a.parameters, b.parameters, bytes) != 0) fail("the parameters differ");
  if (memcmp(a.parameters, b.parameters, (size_t)a.count * bytes) != 0)
    fail("the state of training differs");
  if (a.updates != b.updates) fail("the updates differ");
  if (a.epoch != b.epoch || a.step != b.step || a.correct != b.correct || a.rows != b.rows ||
      a.best_epoch != b.best_epoch || memcmp(&a.loss, &b.loss, sizeof a.loss) != 0 ||
      memcmp(&a.test_accuracy, &b.test_accuracy, sizeof a.test_accuracy) != 0 ||
      memcmp(&a.best_accuracy, &b.best_accuracy, sizeof a.best_accuracy) != 0)
    fail("the positions differ");
  checkpoint_free(&a);
  checkpoint_free(&b);
}

enum { COLUMNS = 15, TRAIN_LOSS = 2, TRAIN_SECONDS = 7, TEST_SECONDS = 8, VAL_SECONDS = 13 };

/* The next epoch of a log, after its headings, -1 for a column that is empty; false at the end.
   The line of a test after the last epoch, which may have been interrupted, is passed over. */
static bool read_epoch(FILE *log, double column[COLUMNS]) {
  char line[512];
  while (fgets(line, sizeof line, log)) {
    if (*line < '0' || *line > '9') continue;
    char *at = line;
    for (int i = 0; i < COLUMNS; i++) {
      char *end;
      column[i] = strtod(at, &end);
      if (end == at) column[i] = -1;
      if (*end != (i + 1 < COLUMNS ? ',' : '\n')) fail("a bad line in a log: %s", line);
      at = end + 1;
    }
    if (column[TRAIN_LOSS] >= 0) return true;
  }
  return false;
}

/* An epoch's training loss is a sum of sums, one for each part of it that was trained at a time. */
static bool is_same(int column, double a, double b) {
  if (column == TRAIN_SECONDS || column == TEST_SECONDS || column == VAL_SECONDS) return true;
  return a == b || (column == TRAIN_LOSS && a - b <= 1e-12 * a && b - a <= 1e-12 * a);
}

static void compare_logs(void) {
  FILE *a = fopen("a.csv", "r"), *b = fopen("b.csv", "r");
  if (!a || !b) fail("a log is missing");
  double line[COLUMNS], other[COLUMNS];
  for (int epoch = 1;; epoch++) {
    const bool more = read_epoch(a, line);
    if (more != read_epoch(b, other)) fail("a log lacks epoch %d", epoch);
    if (!more) break;
    for (int i = 0; i < COLUMNS; i++)
      if (!is_same(i, line[i], other[i]))
        fail("the logs differ in line %d, column %d: %.17g and %.17g", epoch, i + 1, line[i],
             other[i]);
  }
  fclose(a);
  fclose(b);
}

static void compare_files(const char *path, const char *other) {
  FILE *a = fopen(path, "r"), *b = fopen(other, "r");
  if (!a || !b) fail("%s or %s is missing", path, other);
  int byte;
  do {
    byte = getc(a);
    if (byte != getc(b)) fail("%s and %s differ", path, other);
  } while (byte != EOF);
  fclose(a);
  fclose(b);
}

/* ---- a case --------------------------------------------------------------------------------- */

static void empty_place(void) {
  DIR *directory = opendir(".");
  check(directory != NULL, place);
  for (struct dirent *entry; (entry = readdir(directory));)
    if (entry->d_name[0] != '.') unlink(entry->d_name);
  closedir(directory);
}

static void check_no_temporaries(void) {
  DIR *directory = opendir(".");
  check(directory != NULL, place);
  for (struct dirent *entry; (entry = readdir(directory));)
    if (strstr(entry->d_name, ".tmp.")) fail("%s was left", entry->d_name);
  closedir(directory);
}

/* Options that both ways share. Returns the epochs. */
static int draw_options(Command *c, int rows, bool square) {
  static const char *const schedules[] = {"step", "constant", "cosine", "linear"};
  static const char *const augmentations[] = {"shift", "rotate=90,scale", "elastic",
                                              "shift,rotate,scale=0.3,shear,elastic=6"};
  static const char *const optimizers[] = {"nesterov", "adam", "adamw"};
  const int epochs = 1 + draw(4), layers = draw(4);
  int batch = draw_size(1, 2 * rows);
  while ((rows + batch - 1) / batch * epochs > MOST_STEPS) batch *= 2;
  char hidden[WORD] = "none";
  for (int i = 0, used = 0; i < layers; i++)
    used += snprintf(hidden + used, sizeof hidden - (size_t)used, "%s%d", i ? "," : "",
                     draw_size(1, 70));
  add(c, "--device"), add(c, "cpu");
  add(c, "--hidden"), add(c, "%s", hidden);
  add(c, "--epochs"), add(c, "%d", epochs);
  add(c, "--batch"), add(c, "%d", batch);
  add(c, "--lr"), add(c, "%g", 0.001 * draw_size(1, 100));
  add(c, "--lr-schedule"), add(c, "%s", schedules[draw(4)]);
  add(c, "--momentum"), add(c, "%g", 0.1 * draw(10));
  if (chance(50)) add(c, "--optimizer"), add(c, "%s", optimizers[draw(3)]);
  if (chance(20)) add(c, "--label-smoothing"), add(c, "%g", 0.1 * draw(5));
  if (chance(20) && layers > 0) add(c, "--dropout"), add(c, "%g", 0.1 * draw(9));
  if (chance(20)) add(c, "--ema"), add(c, "%g", 0.09 * (1 + draw(10)));
  if (chance(20)) add(c, "--mean"), add(c, "%g", 0.1 * draw(5)), add(c, "--std"), add(c, "0.5");
  if (chance(30)) add(c, "--weight-decay"), add(c, "%g", 0.0001 * draw(100));
  if (chance(30)) add(c, "--warmup"), add(c, "%d", draw(3));
  if (chance(30)) add(c, "--early-stop"), add(c, "%d", 1 + draw(2));
  if (square && chance(50)) add(c, "--augment"), add(c, "%s", augmentations[draw(4)]);
  add(c, "--seed"), add(c, "%d", draw(1000));
  return epochs;
}

/* The other way to write and read rows. A pipe is read once: not where every epoch streams it. */
static Rows draw_rows(bool may_pipe, bool is_train) {
  static const char *const names[2][2] = {{"b.test", "b.test.pipe"}, {"b.train", "b.train.pipe"}};
  Rows rows = {.other_csv = chance(50), .file = names[is_train][0], .option = names[is_train][0]};
  rows.source = chance(30) ? PACKED : may_pipe && chance(50) ? PIPED : PLAIN;
  if (is_train && may_pipe && chance(15)) rows.source = STANDARD_INPUT;
  if (rows.source == PIPED) {
    rows.option = names[is_train][1];
    check(mkfifo(rows.option, 0600) == 0, rows.option);
  }
  if (rows.source == STANDARD_INPUT) rows.option = "-";
  done.quoted += rows.other_csv;
  done.packed += rows.source == PACKED;
  done.piped += rows.source == PIPED || rows.source == STANDARD_INPUT;
  return rows;
}

static void add_way(Command *c, const Rows *train, const Rows *test, const char *resident,
                    int threads, const char *save, const char *log) {
  add(c, "--train"), add(c, "%s", train->option);
  add(c, "--test"), add(c, "%s", test->option);
  add(c, "--resident"), add(c, "%s", resident);
  add(c, "--threads"), add(c, "%d", threads);
  add(c, "--save"), add(c, "%s", save);
  add(c, "--log"), add(c, "%s", log);
}

/* The other way: interrupted up to three times within about as many seconds as the first one took,
   then to its end. Returns the status. */
static int run_and_resume(const Command *first, const Rows *train, const Rows *test,
                          double seconds) {
  Command c = *first;
  for (int times = draw(4); times > 0; times--) {
    int status;
    bool trained = false;
    if (!run_interrupted(&c, train, test, seconds * draw(1000) / 1000, &trained, &status))
      return status;
    if (trained) return 0;
    if (access("b.st", F_OK) != 0) continue;
    c.count = 0;
    add(&c, "--resume"), add(&c, "b.st");
    add(&c, "--log"), add(&c, "b.csv");
    add(&c, "--threads"), add(&c, "%d", 1 + draw(4));
  }
  return run(&c, train, test, "out");
}

static void predict(const char *network, const Rows *rows, const char *output, bool probabilities) {
  const Rows none = {.source = PLAIN};
  Command c = {0};
  add(&c, "--load"), add(&c, "%s", network);
  add(&c, "--device"), add(&c, "cpu");
  add(&c, "--threads"), add(&c, "%d", 1 + draw(4));
  add(&c, "--predict"), add(&c, "%s", rows->option);
  if (probabilities) add(&c, "--probabilities");
  run(&c, &none, rows, output);
}

static void try_case(void) {
  static const char *const all[] = {"yes", "no", "auto"};
  const bool square = chance(40);
  const int side = 2 + draw(9), inputs = square ? side * side : draw_size(1, 200);
  const int most = MOST_PIXELS / inputs, rows = draw_size(1, most < 20000 ? most : 20000);
  const int test_rows = draw_size(1, rows < 3000 ? rows : 3000), classes = 2 + draw(12);
  Command c = {0};
  add(&c, "--classes"), add(&c, "%d", classes);
  const int epochs = draw_options(&c, rows, square), threads[] = {1 + draw(4), 1 + draw(4)};
  /* Rows that are streamed are shuffled within a staging buffer, after the first epoch. */
  const bool streams = chance(40);
  const char *resident = all[streams];
  const char *other = epochs == 1 ? all[draw(3)] : streams ? "no" : all[draw(2) * 2];
  const bool may_pipe = epochs == 1 || !streams;
  const bool holds_out = chance(30) && rows >= 20 * classes; /* or no row might be left */
  if (holds_out) add(&c, "--validation"), add(&c, "0.%d", 1 + draw(5)); /* reads rows twice */
  const Rows train = {.file = "a.train", .option = "a.train"};
  const Rows test = {.file = "a.test", .option = "a.test"};
  const Rows other_train = draw_rows(may_pipe && !holds_out, true),
             other_test = draw_rows(may_pipe, false);
  write_rows(&train, 1, rows, inputs, classes);
  write_rows(&other_train, 1, rows, inputs, classes);
  write_rows(&test, 2, test_rows, inputs, classes);
  write_rows(&other_test, 2, test_rows, inputs, classes);

  Command a = c, b = c;
  add_way(&a, &train, &test, resident, threads[0], "a.st", "a.csv");
  add_way(&b, &other_train, &other_test, other, threads[1], "b.st", "b.csv");
  done.threads += threads[0] != threads[1];
  done.resident += resident != other;
  const double began = seconds_now();
  const int status = run(&a, &train, &test, "out");
  const double seconds = seconds_now() - began;
  if (run_and_resume(&b, &other_train, &other_test, seconds) != status)
    fail("one run diverged and the other did not");
  check_no_temporaries();
  done.pairs++;
  done.diverged += status;
  if (status != 0) return;
  compare_networks("a.st", "b.st");
  if (access("a.st.best", F_OK) == 0) compare_networks("a.st.best", "b.st.best");
  compare_logs();
  const bool probabilities = chance(50);
  predict("a.st", &test, "a.predictions", probabilities);
  predict("b.st", &other_test, "b.predictions", probabilities);
  compare_files("a.predictions", "b.predictions");
}

int main(int argc, char **argv) {
  char *end = NULL;
  const double minutes = argc > 1 ? strtod(argv[1], &end) : 0;
  if (argc > 3 || !(minutes > 0) || *end) {
    fputs("usage: soak MINUTES [SEED]\n", stderr);
    return 2;
  }
  const uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
  signal(SIGPIPE, SIG_IGN);
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP}; /* a shell may have them ignored */
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) signal(numbers[i], SIG_DFL);
  char top[PATH_MAX / 2];
  check(getcwd(top, sizeof top) != NULL, "getcwd");
  snprintf(program, sizeof program, "%s/" PROGRAM_FOLDER "/mlp-train", top);
  snprintf(place, sizeof place, "%s/" PROGRAM_FOLDER "/soak-%llu", top, (unsigned long long)first);
  check(mkdir(place, 0700) == 0 || errno == EEXIST, place);
  check(chdir(place) == 0, place);
  printf("soak: seed %llu, in %s\n", (unsigned long long)first, place);
  fflush(stdout);
  const double began = seconds_now();
  double next = began + 60;
  for (seed = first; seconds_now() - began < 60 * minutes; seed++) {
    counter = 0;
    empty_place();
    try_case();
    if (seconds_now() < next) continue;
    print_done(seconds_now() - began);
    next += 60;
  }
  print_done(seconds_now() - began);
  empty_place();
  check(rmdir(place) == 0, place);
  return 0;
}
