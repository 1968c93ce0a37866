/* mlp-lab: the kernel lab; see --help. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/output.h"
#include "base/text.h"
#include "cli/option_kinds.h"
#include "lab/harness.h"

/* The record that a reader without a GPU is pointed to. */
#define SHOWN "docs/results/lab-h100.json"

typedef enum { RUN, LIST, DEVICE } Task;

typedef struct {
  Task task;
  const char *topic;    /* NULL: all */
  const LabTopic *live; /* the same, unless it is one of a record */
  const char *problem, *size, *rung, *json, *markdown, *plot, *from, *sources;
  bool check, profile;
  LabSize parsed; /* --size */
} Arguments;

/* ---- the command line ----------------------------------------------------------------------- */

#define WORD(word, what, member, role, text)                                                       \
  {                                                                                                \
    .name = (word), .argument = (what), .help = (text), .kind = &option_word,                      \
    .field = offsetof(Arguments, member), .file = (role)                                           \
  }
static const OptionRow rows[] = {
    WORD("problem", "NAME", problem, FILE_NONE, "run only this problem of the topic"),
    WORD("size", "AxB", size, FILE_NONE, "run another size; 'mlp-lab list TOPIC' shows the order"),
    WORD("rung", "NAME", rung, FILE_NONE, "run only this rung"),
    {.name = "check",
     .help = "check, but do not time",
     .kind = &option_yes_no,
     .field = offsetof(Arguments, check)},
    {.name = "profile",
     .help = "run each rung once for a profiler, without checks or times",
     .kind = &option_yes_no,
     .field = offsetof(Arguments, profile)},
    WORD("json", "FILE", json, FILE_OUTPUT, "write the measurements as JSON objects, one per line"),
    WORD("markdown", "FILE", markdown, FILE_OUTPUT, "write the tables as Markdown"),
    WORD("plot", "FILE.png", plot, FILE_OUTPUT,
         "draw the ladder; for 'all', one FILE-TOPIC.png per topic"),
    WORD("from", "FILE", from, FILE_INPUT, "show what --json has written; needs no GPU"),
    WORD("sources", "HEX", sources, FILE_NONE, "digest of the sources, for the record"),
    OPTION_HELP(NULL),
    OPTION_VERSION(NULL)};

static const OptionTable table = {
    "mlp-lab",
    "Usage: mlp-lab TOPIC [OPTION]...\n"
    "       mlp-lab all [OPTION]...\n"
    "       mlp-lab list [TOPIC]\n"
    "       mlp-lab device\n"
    "Runs a ladder of kernels, each rung a small step from the last: checks each rung\n"
    "against a reference, times it, and compares it with the limits of this GPU and\n"
    "with a library.\n"
    "\n"
    "  list                     list the topics, or the problems and rungs of a TOPIC\n"
    "  device                   describe this GPU and measure what it can do at most\n",
    "Exit status: 0 for success; 1 if a rung is wrong, an intended mistake passes the\n"
    "check, or a file or the GPU fails; 2 for wrong usage.\n",
    rows, sizeof rows / sizeof *rows};

/* The problems of a topic: what it has, or what the record has of it. */
static int problems_of(const Arguments *a, const Record *record, const char *topic,
                       const char *problems[LAB_PROBLEMS]) {
  const LabTopic *live = a->from ? NULL : lab_find(lab_topics, topic);
  for (int i = 0; live && i < live->problem_count; i++) problems[i] = live->problems[i].name;
  return live ? live->problem_count : lab_problems(record, topic, problems);
}

static bool find_problem(const Arguments *a, const Record *record, Error *error) {
  const char *problems[LAB_PROBLEMS];
  char names[256] = "";
  size_t used = 0;
  const int count = problems_of(a, record, a->topic, problems);
  for (int i = 0; i < count; i++) {
    if (strcmp(problems[i], a->problem) == 0) return true;
    if (used < sizeof names)
      used +=
          (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", problems[i]);
  }
  if (!*names) return error_set(error, "%s has only one problem: leave out --problem", a->topic);
  return error_set(error, "%s has no problem '%s'; it has %s", a->topic, a->problem, names);
}

/* problem: an index, -1: any. */
static bool has_rung(const LabTopic *topic, const char *name, int problem) {
  for (int i = 0; i < topic->rung_count; i++)
    if (strcmp(topic->rungs[i].name, name) == 0)
      return problem < 0 || lab_belongs(&topic->rungs[i], problem);
  return false;
}

static bool knows_rung(const Arguments *a, const Record *record) {
  size_t i;
  const json_t *line;
  json_array_foreach(record->lines, i, line) if (line_is(line, "lab-rung") &&
                                                 text_is(line, "topic", a->topic) &&
                                                 text_is(line, "rung", a->rung)) return true;
  return a->live && has_rung(a->live, a->rung, -1);
}

/* The words beside the options: a task or a topic. */
static bool parse_words(int count, char **words, const Record *record, Arguments *a, Error *error) {
  if (count == 0) return error_set(error, "name a topic, or 'all', 'list' or 'device'");
  const char *first = words[0];
  int most = 1;
  a->topic = first;
  if (strcmp(first, "device") == 0) {
    a->task = DEVICE;
    a->topic = NULL;
  } else if (strcmp(first, "list") == 0) {
    a->task = LIST;
    a->topic = count > 1 ? words[1] : NULL;
    most = 2;
  } else if (strcmp(first, "all") == 0)
    a->topic = NULL;
  if (count > most) return error_set(error, "unexpected argument '%s'", words[most]);
  if (!a->topic) return true;
  if (!*lab_topics && !a->from)
    return error_set(error, "this program was built without CUDA: --from %s shows a recorded run",
                     SHOWN);
  a->live = a->from ? NULL : lab_find(lab_topics, a->topic);
  return a->live || record_find(record, "lab-topic", "topic", a->topic) ||
         error_set(error, "unknown topic '%s': 'mlp-lab list' lists all topics", a->topic);
}

/* Checks what only makes sense with the topic known. */
static bool parse_rest(const Record *record, Arguments *a, Error *error) {
  const char *one = a->problem ? "--problem" : a->size ? "--size" : a->rung ? "--rung" : NULL;
  const bool no_times = a->check || a->profile;
  if (a->task != RUN && (one || a->json || a->markdown || a->plot || no_times))
    return error_set(error, "'%s' does not take options", a->task == LIST ? "list" : "device");
  if (one && !a->topic) return error_set(error, "%s needs one topic, not 'all'", one);
  if (a->plot && no_times)
    return error_set(error,
                     "--plot cannot be combined with --check or --profile: they measure no times");
  if (a->rung && !knows_rung(a, record))
    return error_set(error, "%s has no rung '%s': 'mlp-lab list %s' lists its rungs", a->topic,
                     a->rung, a->topic);
  if (a->from && (a->size || a->rung || a->json || a->sources || no_times))
    return error_set(error,
                     "--from shows what was recorded: it goes with --problem, --markdown and "
                     "--plot alone");
  if (a->problem && !find_problem(a, record, error)) return false;
  for (int p = 0; a->rung && a->problem && p < a->live->problem_count; p++)
    if (strcmp(a->live->problems[p].name, a->problem) == 0 && !has_rung(a->live, a->rung, p))
      return error_set(error, "the rung '%s' is not of the problem '%s': leave out --problem",
                       a->rung, a->problem);
  return !a->size || lab_parse_size(a->live, a->size, &a->parsed, error);
}

static OptionsResult parse(int count, char **given, Arguments *a, Record *record, Error *error) {
  int first;
  *a = (Arguments){.task = RUN};
  const OptionsResult result = option_table_parse(&table, count, given, a, &first, error);
  if (result != OPTIONS_RUN) return result;
  return (!a->from || lab_read(record, a->from, error)) &&
                 parse_words(count - first, given + first, record, a, error) &&
                 parse_rest(record, a, error) && option_table_check_files(&table, a, error)
             ? OPTIONS_RUN
             : OPTIONS_USAGE;
}

/* ---- list ----------------------------------------------------------------------------------- */

/* The points of a rung that is swept: its own, or those that the record has of it. */
static void list_points(const Record *record, const LabTopic *live, int rung, const json_t *line) {
  const char *topic = text_of(line, "topic"), *name = text_of(line, "rung"), *problem = NULL;
  const json_t *row;
  size_t i;
  printf("points %s:", name);
  for (int p = 0; live && p < live->rungs[rung].point_count; p++)
    printf(" %lld", (long long)live->rungs[rung].points[p]);
  json_array_foreach(record->lines, i, row) {
    if (!line_is(row, "lab") || !text_is(row, "topic", topic) || !text_is(row, "rung", name))
      continue;
    if (!problem) problem = text_of(row, "problem");
    if (text_is(row, "problem", problem)) printf(" %.0f", number_of(row, "point"));
  }
  putchar('\n');
}

/* A word first on every line: scripts/profile.sh reads this. */
static void list_topic(const Arguments *a, const Record *record) {
  const LabTopic *t = a->live;
  const char *problems[LAB_PROBLEMS];
  const int count = problems_of(a, record, a->topic, problems);
  const json_t *line;
  size_t i;
  int rung = 0;
  printf("topic %s: %s\n", a->topic,
         text_of(record_find(record, "lab-topic", "topic", a->topic), "title"));
  for (int p = 0; p < count; p++)
    if (*problems[p]) printf("problem %s\n", problems[p]);
  if (t) printf("size %s: %s\n", lab_size_text(t, t->size).text, t->dims);
  if (t && t->metric) printf("metric %s: %s\n", t->metric, t->metric_name);
  json_array_foreach(record->lines, i, line) {
    if (!line_is(line, "lab-rung") || !text_is(line, "topic", a->topic)) continue;
    printf("%s %s: %s\n", text_of(line, "kind"), text_of(line, "rung"), text_of(line, "lesson"));
    if (number_of(line, "sweep") > 0) list_points(record, t, rung, line);
    rung++;
  }
}

static bool list(const Arguments *a, Record *record, Error *error) {
  for (const LabTopic *const *t = lab_topics; *t && !a->from; t++)
    if (!lab_add_topic(record, *t, error)) return false;
  if (a->topic) {
    list_topic(a, record);
    return true;
  }
  size_t i;
  const json_t *line;
  json_array_foreach(record->lines, i, line) if (line_is(line, "lab-topic"))
      printf("%-14s %s\n", text_of(line, "topic"), text_of(line, "title"));
  return true;
}

/* ---- running -------------------------------------------------------------------------------- */

/* The state of a run. */
typedef struct {
  const Arguments *arguments;
  Record *record;
  FILE *markdown;
  bool right; /* nothing was wrong so far */
} Lab;

/* Measures a problem: at the ladder's size, and at the others unless one size or rung was asked
   for, or no times. */
static bool measure_problem(Lab *lab, const LabTopic *topic, int problem, Error *error) {
  const Arguments *a = lab->arguments;
  const LabHow how = {.mode = a->check     ? LAB_CHECKS
                              : a->profile ? LAB_PROFILE
                                           : LAB_TIMES,
                      .rung = a->rung,
                      .guard = 1024,
                      .seed = 1};
  const int sizes = !a->size && !a->rung && how.mode == LAB_TIMES ? topic->size_count : 0;
  for (int i = -1; i < sizes; i++) {
    const LabSize size = i >= 0 ? topic->sizes[i] : a->size ? a->parsed : topic->size;
    LabTable measured;
    bool good = lab_measure(&measured, topic, problem, size, i >= 0, &how, error);
    if (good && !lab_table_good(&measured)) lab->right = false;
    good = good && lab_add_table(lab->record, &measured, error);
    lab_table_close(&measured);
    if (!good) return false;
  }
  return true;
}

/* With all topics, FILE-TOPIC.png for FILE.png. */
static bool plot(const Lab *lab, const char *topic, Error *error) {
  const Arguments *a = lab->arguments;
  char path[4096];
  const size_t length = strlen(a->plot);
  const size_t stem = length > 4 && strcmp(a->plot + length - 4, ".png") == 0 ? length - 4 : length;
  snprintf(path, sizeof path, "%.*s-%s.png", (int)stem, a->plot, topic);
  return lab_plot(lab->record, topic, a->problem, a->topic ? a->plot : path, error);
}

static bool run_topic(Lab *lab, const char *topic, Error *error) {
  const Arguments *a = lab->arguments;
  const LabTopic *live = a->from ? NULL : lab_find(lab_topics, topic);
  const char *problems[LAB_PROBLEMS];
  const int count = problems_of(a, lab->record, topic, problems);
  if (live && !lab_add_topic(lab->record, live, error)) return false;
  for (int p = 0; p < count; p++) {
    if (a->problem && strcmp(problems[p], a->problem) != 0) continue;
    if (a->rung && !has_rung(live, a->rung, p)) continue;
    if (live && !measure_problem(lab, live, p, error)) return false;
    lab_print(lab->record, topic, problems[p], stdout, false);
    if (lab->markdown) lab_print(lab->record, topic, problems[p], lab->markdown, true);
    if (!standard_output_flush(error)) return false;
  }
  return !a->plot || plot(lab, topic, error);
}

static bool run_topics(Lab *lab, Error *error) {
  const Arguments *a = lab->arguments;
  bool good = true;
  lab_print_machine(lab->record, stdout, false);
  if (lab->markdown) lab_print_machine(lab->record, lab->markdown, true);
  if (a->topic)
    good = run_topic(lab, a->topic, error);
  else if (!a->from)
    for (const LabTopic *const *t = lab_topics; good && *t; t++)
      good = run_topic(lab, (*t)->name, error);
  else
    for (size_t i = 0; good && i < json_array_size(lab->record->lines); i++) {
      const json_t *line = json_array_get(lab->record->lines, i);
      good = !line_is(line, "lab-topic") || run_topic(lab, text_of(line, "topic"), error);
    }
  if (!good) return false;
  return lab->right || error_set(error, "a rung is wrong or could not be run: see above");
}

static bool run(const Arguments *a, Record *record, const char *command, Error *error) {
  Lab lab = {.arguments = a, .record = record, .right = true};
  Error reason;
  record->sources = a->sources;
  if (!a->from) {
    if (!lab_start(&reason))
      return error_set(error, "%s; mlp-lab %s --from %s shows a recorded run", reason.text,
                       a->topic ? a->topic : "all", SHOWN);
    if (!record_create(record, a->json, error) ||
        !lab_machine(record, command, !a->check && !a->profile, error))
      return false;
  }
  const bool good = file_create(a->markdown, &lab.markdown, error) && run_topics(&lab, error);
  return file_close(a->markdown, lab.markdown, good, error);
}

/* ---- main ----------------------------------------------------------------------------------- */

static bool do_task(const Arguments *a, Record *record, const char *command, Error *error) {
  if (a->task == LIST) return list(a, record, error);
  return a->task == DEVICE ? lab_device(stdout, error) : run(a, record, command, error);
}

int main(int count, char **given) {
  standard_output_open();
  interrupt_catch(true);
  signal(SIGPIPE, SIG_IGN); /* a closed pipe is a failed write, reported like any other */
  Arguments arguments;
  Record record = {.lines = NULL};
  Error error, unwritten;
  char command[512];
  text_command_line(command, sizeof command, count, given); /* parsing moves the words about */
  const OptionsResult result = parse(count, given, &arguments, &record, &error);
  if (result != OPTIONS_RUN) {
    record_close(&record, false, &unwritten);
    return option_table_end(&table, result, "mlp-lab", &error);
  }
  bool good = do_task(&arguments, &record, command, &error);
  good = record_close(&record, good, &error);
  if (good && standard_output_flush(&error)) return 0;
  if (!good) standard_output_flush(&unwritten); /* what was printed comes before why it ended */
  fprintf(stderr, "mlp-lab: %s\n", error.text);
  return 1;
}
