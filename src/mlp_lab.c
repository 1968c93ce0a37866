/* mlp-lab: the kernel lab; see --help. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/harness.h"
#include "base/interrupt.h"
#include "base/output.h"
#include "base/text.h"

static const char help[] =
    "Usage: mlp-lab TOPIC [OPTION]...\n"
    "       mlp-lab all [OPTION]...\n"
    "       mlp-lab list [TOPIC]\n"
    "       mlp-lab device\n"
    "Runs a ladder of kernels, each rung a small step from the last: checks each rung\n"
    "against a reference, times it, and compares it with the limits of this GPU and\n"
    "with a library.\n"
    "\n"
    "  list             list the topics, or the problems and rungs of a TOPIC\n"
    "  device           describe this GPU and measure what it can do at most\n"
    "  --problem NAME   run only this problem of the topic\n"
    "  --size AxB       run another size; 'mlp-lab list TOPIC' shows the order\n"
    "  --rung NAME      run only this rung\n"
    "  --check          check, but do not time\n"
    "  --profile        run each rung once for a profiler, without checks or times\n"
    "  --json FILE      write the measurements as JSON objects, one per line\n"
    "  --markdown FILE  write the tables as Markdown\n"
    "  --plot FILE.png  draw the ladder; for 'all', one FILE-TOPIC.png per topic\n"
    "  --from FILE      show what --json has written; needs no GPU\n"
    "  --sources HEX    digest of the sources, for the record\n"
    "  --help           print this help and exit\n"
    "  --version        print the version and exit\n"
    "\n"
    "Exit status: 0 for success; 1 if a rung is wrong, an intended mistake passes the\n"
    "check, or a file or the GPU fails; 2 for wrong usage.\n";

/* What a reader without a GPU is pointed to. */
#define RECORD "docs/results/lab-h100.json"

typedef enum { RUN, LIST, DEVICE, HELP, VERSION } Task;

typedef struct {
  Task task;
  const LabTopic *topic; /* NULL: all */
  int problem;           /* -1: all */
  bool has_size;
  LabSize size;
  LabHow how;
  const char *json, *markdown, *plot, *from, *sources;
  const LabTopic *const *topics; /* lab_topics, or those of the record */
} Arguments;

/* ---- the command line ----------------------------------------------------------------------- */

static bool find_problem(const LabTopic *topic, const char *name, int *problem, Error *error) {
  char names[256] = "";
  size_t used = 0;
  for (int i = 0; i < topic->problem_count; i++) {
    if (strcmp(topic->problems[i].name, name) == 0) {
      *problem = i;
      return true;
    }
    if (used < sizeof names)
      used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                               topic->problems[i].name);
  }
  if (!*topic->problems[0].name)
    return error_set(error, "%s has only one problem: leave out --problem", topic->name);
  return error_set(error, "%s has no problem '%s'; it has %s", topic->name, name, names);
}

/* problem: an index, -1: any. */
static bool has_rung(const LabTopic *topic, const char *name, int problem) {
  for (int i = 0; i < topic->rung_count; i++)
    if (strcmp(topic->rungs[i].name, name) == 0)
      return problem < 0 || lab_belongs(&topic->rungs[i], problem);
  return false;
}

/* The words before the options: a task or a topic. */
static bool parse_words(int count, char **words, Arguments *a, Error *error) {
  if (count == 0) return error_set(error, "name a topic, or 'all', 'list' or 'device'");
  const char *first = words[0], *topic = first;
  int most = 1;
  if (strcmp(first, "device") == 0) {
    a->task = DEVICE;
    topic = NULL;
  } else if (strcmp(first, "list") == 0) {
    a->task = LIST;
    topic = count > 1 ? words[1] : NULL;
    most = 2;
  } else if (strcmp(first, "all") == 0)
    topic = NULL;
  if (count > most) return error_set(error, "unexpected argument '%s'", words[most]);
  if (!topic) return true;
  if (!*a->topics)
    return error_set(error, "this program was built without CUDA: --from %s shows a recorded run",
                     RECORD);
  a->topic = lab_find(a->topics, topic);
  return a->topic || error_set(error, "unknown topic '%s': 'mlp-lab list' lists all topics", topic);
}

/* What only makes sense with the topic known. */
static bool parse_rest(Arguments *a, const char *problem, const char *size, Error *error) {
  const char *one = problem ? "--problem" : size ? "--size" : a->how.rung ? "--rung" : NULL;
  if (a->task != RUN && (one || a->json || a->markdown || a->plot || a->how.mode != LAB_TIMES))
    return error_set(error, "'%s' does not take options", a->task == LIST ? "list" : "device");
  if (one && !a->topic) return error_set(error, "%s needs one topic, not 'all'", one);
  if (a->plot && a->how.mode != LAB_TIMES)
    return error_set(error,
                     "--plot cannot be combined with --check or --profile: they measure no times");
  if (a->how.rung && !has_rung(a->topic, a->how.rung, -1))
    return error_set(error, "%s has no rung '%s': 'mlp-lab list %s' lists its rungs",
                     a->topic->name, a->how.rung, a->topic->name);
  if (a->from && (size || a->how.rung || a->json || *a->sources || a->how.mode != LAB_TIMES))
    return error_set(error,
                     "--from shows what was recorded: it goes with --problem, --markdown and "
                     "--plot alone");
  a->has_size = size != NULL;
  if (problem && !find_problem(a->topic, problem, &a->problem, error)) return false;
  if (a->how.rung && !has_rung(a->topic, a->how.rung, a->problem))
    return error_set(error, "the rung '%s' is not of the problem '%s': leave out --problem",
                     a->how.rung, problem);
  return (!size || lab_parse_size(a->topic, size, &a->size, error));
}

/* The topics are those of the record, if there is one. */
static bool read_record(Arguments *a, LabReplay *replay, Error *error) {
  if (!a->from) return true;
  if (!lab_replay_open(replay, a->from, error)) return false;
  a->topics = replay->topics;
  return true;
}

static bool parse_arguments(int count, char **given, Arguments *a, LabReplay *replay,
                            Error *error) {
  static const struct option known[] = {{"problem", required_argument, NULL, 'p'},
                                        {"size", required_argument, NULL, 's'},
                                        {"rung", required_argument, NULL, 'r'},
                                        {"check", no_argument, NULL, 'c'},
                                        {"profile", no_argument, NULL, 'n'},
                                        {"json", required_argument, NULL, 'j'},
                                        {"markdown", required_argument, NULL, 'm'},
                                        {"plot", required_argument, NULL, 'g'},
                                        {"sources", required_argument, NULL, 'd'},
                                        {"from", required_argument, NULL, 'f'},
                                        {"help", no_argument, NULL, 'h'},
                                        {"version", no_argument, NULL, 'v'},
                                        {NULL, 0, NULL, 0}};
  const char *problem = NULL, *size = NULL;
  *a = (Arguments){
      .problem = -1, .sources = "", .topics = lab_topics, .how = {.guard = 1024, .seed = 1}};
  opterr = 0;
  for (;;) {
    const int at = optind;
    const int option = getopt_long(count, given, ":", known, NULL);
    if (option == -1) break;
    switch (option) { /* clang-format off */
    case 'p': problem = optarg; break;
    case 's': size = optarg; break;
    case 'r': a->how.rung = optarg; break;
    case 'c': a->how.mode = LAB_CHECKS; break;
    case 'n': a->how.mode = LAB_PROFILE; break;
    case 'j': a->json = optarg; break;
    case 'm': a->markdown = optarg; break;
    case 'g': a->plot = optarg; break;
    case 'd': a->sources = optarg; break;
    case 'f': a->from = optarg; break;
    case 'h': a->task = HELP; return true;
    case 'v': a->task = VERSION; return true;
    case ':': return error_set(error, "%s needs an argument", given[optind - 1]);
    default: return error_set(error, "unknown option '%s'", given[optind > at ? optind - 1 : at]);
    } /* clang-format on */
  }
  const NamedFile files[] = {{"--json", a->json, true},
                             {"--markdown", a->markdown, true},
                             {"--plot", a->plot, true},
                             {"--from", a->from, false}};
  return read_record(a, replay, error) && parse_words(count - optind, given + optind, a, error) &&
         parse_rest(a, problem, size, error) &&
         same_file_check(files, (int)(sizeof files / sizeof *files), error);
}

/* ---- list ----------------------------------------------------------------------------------- */

/* A word first on every line: scripts/profile.sh reads this. */
static void list_topic(const LabTopic *t) {
  printf("topic %s: %s\n", t->name, t->title);
  for (int i = 0; i < t->problem_count; i++)
    if (*t->problems[i].name) printf("problem %s\n", t->problems[i].name);
  if (t->size.dim[0]) printf("size %s: %s\n", lab_size_text(t, t->size).text, t->dims);
  if (t->metric) printf("metric %s: %s\n", t->metric, t->metric_name);
  for (int i = 0; i < t->rung_count; i++) {
    const LabRung *rung = &t->rungs[i];
    printf("%s %s: %s\n", lab_kinds[rung->kind], rung->name, rung->lesson);
    if (rung->points) printf("points %s:", rung->name);
    for (int p = 0; rung->points && p < rung->point_count; p++)
      printf(" %lld%s", (long long)rung->points[p], p == rung->point_count - 1 ? "\n" : "");
  }
}

static void list_topics(const LabTopic *const *t) {
  for (; *t; t++) printf("%-14s %s\n", (*t)->name, (*t)->title);
}

/* ---- running -------------------------------------------------------------------------------- */

/* What is open while topics run. */
typedef struct {
  const Arguments *arguments;
  const LabReplay *replay; /* NULL: everything is measured */
  LabMachine machine;
  FILE *json, *markdown;
  bool right; /* nothing was wrong so far */
} Lab;

static bool measure(Lab *lab, const LabTopic *topic, int problem, LabSize size, bool extra,
                    LabTable *table, Error *error) {
  if (!lab_measure(table, topic, problem, size, extra, &lab->arguments->how, error)) return false;
  if (!lab_table_good(table)) lab->right = false;
  if (lab->json) lab_json(&lab->machine, table, lab->json);
  return !lab->json || (fflush(lab->json) == 0 && !ferror(lab->json)) ||
         error_set(error, "cannot write %s: %s", lab->arguments->json, strerror(errno));
}

/* The tables of one problem, from tables[0]: at the ladder's size, and at the others unless one
   size or rung was asked for, or no times. */
static bool measure_problem(Lab *lab, const LabTopic *topic, int problem, LabTable *tables,
                            int *count, Error *error) {
  const Arguments *a = lab->arguments;
  const bool others = !a->has_size && !a->how.rung && a->how.mode == LAB_TIMES;
  const int sizes = others ? topic->size_count : 0;
  *count = 0;
  for (int i = -1; i < sizes; i++) {
    const LabSize size = i >= 0 ? topic->sizes[i] : a->has_size ? a->size : topic->size;
    if (!measure(lab, topic, problem, size, i >= 0, &tables[(*count)++], error)) return false;
  }
  return true;
}

/* The same as they were recorded; their rows stay the record's. */
static void recall_problem(const LabReplay *replay, const LabTopic *topic, int problem,
                           LabTable *tables, int *count) {
  *count = 0;
  for (int i = 0; i < replay->count; i++)
    if (replay->tables[i].topic == topic && replay->tables[i].problem == problem)
      tables[(*count)++] = replay->tables[i];
}

static bool run_problem(Lab *lab, const LabTopic *topic, int problem, LabTable *tables, int *count,
                        Error *error) {
  if (lab->replay)
    recall_problem(lab->replay, topic, problem, tables, count);
  else if (!measure_problem(lab, topic, problem, tables, count, error))
    return false;
  if (*count == 0) return true;
  lab_print(&lab->machine, tables, *count, stdout, false);
  if (lab->markdown) lab_print(&lab->machine, tables, *count, lab->markdown, true);
  return standard_output_flush(error);
}

/* With all topics, FILE-TOPIC.png for FILE.png. */
static bool plot(const Lab *lab, const LabTopic *topic, const LabTable *tables, int count,
                 Error *error) {
  const Arguments *a = lab->arguments;
  char path[4096];
  const size_t length = strlen(a->plot);
  const size_t stem = length > 4 && strcmp(a->plot + length - 4, ".png") == 0 ? length - 4 : length;
  if (a->topic) return lab_plot(&lab->machine, tables, count, a->plot, error);
  snprintf(path, sizeof path, "%.*s-%s.png", (int)stem, a->plot, topic->name);
  return lab_plot(&lab->machine, tables, count, path, error);
}

static bool run_topic(Lab *lab, const LabTopic *topic, Error *error) {
  const Arguments *a = lab->arguments;
  const int room =
      lab->replay ? lab->replay->count : topic->problem_count * (1 + topic->size_count);
  LabTable *tables = calloc((size_t)room, sizeof *tables);
  int count = 0;
  bool good = tables || error_set(error, "no memory for %d tables", room);
  if (lab->json) lab_json_topic(topic, lab->json);
  for (int p = 0; good && p < topic->problem_count; p++) {
    int added = 0;
    if (a->problem >= 0 && a->problem != p) continue;
    if (a->how.rung && !has_rung(topic, a->how.rung, p)) continue;
    good = run_problem(lab, topic, p, tables + count, &added, error);
    count += added;
  }
  good = good && (!a->plot || plot(lab, topic, tables, count, error));
  for (int i = 0; i < count && !lab->replay; i++) lab_table_close(&tables[i]);
  free(tables);
  return good;
}

static bool open_file(const char *path, FILE **file, Error *error) {
  if (!path || (*file = fopen(path, "w"))) return true;
  return error_set(error, "cannot create %s: %s", path, strerror(errno));
}

static bool close_file(const char *path, FILE *file, bool good, Error *error) {
  if (!file) return good;
  const bool written = !ferror(file);
  if ((fclose(file) == 0 && written) || !good) return good;
  return error_set(error, "cannot write %s: %s", path, strerror(errno));
}

static bool run_topics(Lab *lab, Error *error) {
  const LabTopic *one[] = {lab->arguments->topic, NULL};
  const LabTopic *const *topics = *one ? one : lab->arguments->topics;
  lab_print_machine(&lab->machine, stdout, false);
  if (lab->markdown) lab_print_machine(&lab->machine, lab->markdown, true);
  if (lab->json) lab_json_machine(&lab->machine, lab->json);
  for (; *topics; topics++)
    if (!run_topic(lab, *topics, error)) return false;
  return lab->right || error_set(error, "a rung is wrong or could not be run: see above");
}

/* Fails in one sentence, which says what can be done without a GPU. */
static bool start(Lab *lab, Error *error) {
  const Arguments *a = lab->arguments;
  Error reason;
  if (lab->replay) {
    lab->machine = lab->replay->machine;
    return true;
  }
  snprintf(lab->machine.sources, sizeof lab->machine.sources, "%s", a->sources);
  if (!lab_start(&reason))
    return error_set(error, "%s; mlp-lab %s --from %s shows a recorded run", reason.text,
                     a->topic ? a->topic->name : "all", RECORD);
  return lab_machine(&lab->machine, a->how.mode == LAB_TIMES, error);
}

static bool run(const Arguments *a, const LabReplay *replay, const char *command, Error *error) {
  Lab lab = {.arguments = a, .replay = a->from ? replay : NULL, .right = true};
  snprintf(lab.machine.command, sizeof lab.machine.command, "%s", command);
  bool good = start(&lab, error) && open_file(a->json, &lab.json, error) &&
              open_file(a->markdown, &lab.markdown, error) && run_topics(&lab, error);
  good = close_file(a->json, lab.json, good, error);
  return close_file(a->markdown, lab.markdown, good, error);
}

/* ---- main ----------------------------------------------------------------------------------- */

static bool do_task(const Arguments *a, const LabReplay *replay, const char *command,
                    Error *error) {
  switch (a->task) {
  case HELP:
    fputs(help, stdout);
    return true;
  case VERSION:
    puts("mlp-lab " MLP_TRAIN_VERSION);
    return true;
  case LIST:
    if (a->topic)
      list_topic(a->topic);
    else
      list_topics(a->topics);
    return true;
  case DEVICE:
    return lab_start(error) && lab_device(stdout, error);
  default:
    return run(a, replay, command, error);
  }
}

int main(int count, char **given) {
  standard_output_open();
  interrupt_catch(true);
  signal(SIGPIPE, SIG_IGN); /* a closed pipe is a failed write, reported like any other */
  Arguments arguments;
  LabReplay replay = {.count = 0};
  Error error;
  char command[512];
  text_command_line(command, sizeof command, count, given); /* getopt_long moves the words about */
  if (!parse_arguments(count, given, &arguments, &replay, &error)) {
    fprintf(stderr, "mlp-lab: %s\nTry 'mlp-lab --help'.\n", error.text);
    lab_replay_close(&replay);
    return 2;
  }
  const bool good = do_task(&arguments, &replay, command, &error);
  lab_replay_close(&replay);
  Error unwritten;
  if (good && standard_output_flush(&error)) return 0;
  if (!good) standard_output_flush(&unwritten); /* what was printed comes before why it ended */
  fprintf(stderr, "mlp-lab: %s\n", error.text);
  return 1;
}
