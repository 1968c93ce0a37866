/* mlp-lab: the kernel lab. See --help. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/sizes.h"
#include "cli/option_kinds.h"
#include "lab/harness.h"

/* Returns the record that messages suggest to a user who has no GPU: that of an installation, if
   this program is installed, else that of the checkout. */
static ShortText shown(void) {
  char path[1024];
  const bool is_installed =
      text_beside_program(path, sizeof path, "../share/doc/mlp-train/lab-h200.json") &&
      access(path, R_OK) == 0;
  return text_format("%s", is_installed ? path : "docs/results/lab-h200.json");
}

#ifdef ON_EMULATOR
static const bool is_emulator = true;
#else
static const bool is_emulator = false;
#endif

/* The options, and the state of a run. */
typedef struct {
  bool lists, device, levels;
  const char *topic; /* NULL means all topics */
  const char *problem, *size, *rung, *json, *plot, *from;
  bool check, markdown;
  enum { ON_GPU, ON_EMULATED } on;
  HiddenSizes hidden; /* the hidden layers of 'levels'; a count of -1 means that none were given */
  int batch;          /* the rows of a step of 'levels'; 0 means that none were given */
  LabSize parsed;     /* the value of --size */
  Record known, measured; /* known: --from's record or all topics; measured: results of this run */
  bool wrong;             /* true if a rung is wrong or could not run */
} Lab;

#define ROW(...) OPTION_ROW(Lab, __VA_ARGS__)
#define WORD(word, what, member, role, text)                                                       \
  ROW(word, what, NULL, option_word, member, text, .file = (role))
static const OptionRow rows[] = {
    WORD("problem", "NAME", problem, FILE_NONE, "run only this problem of the topic"),
    WORD("size", "AxB", size, FILE_NONE, "run another size; 'mlp-lab list TOPIC' shows the order"),
    WORD("rung", "NAME", rung, FILE_NONE, "run only this rung"),
    ROW("check", NULL, NULL, option_yes_no, check, "check, but do not time"),
    ROW("on", "WHAT", NULL, option_choice, on,
        "emulator: check and count at a small size, without a GPU [gpu]",
        .choices = (const char *const[]){"gpu", "emulator", NULL}),
    ROW("json", "FILE", NULL, option_word, json,
        "write the measurements as JSON objects, one per line", .file = FILE_OUTPUT, .lines = true),
    WORD("plot", "FILE", plot, FILE_OUTPUT, "draw the sweeps of a topic as a PNG picture"),
    ROW("markdown", NULL, NULL, option_yes_no, markdown, "print the tables as Markdown"),
    ROW("hidden", "LIST", NULL, option_sizes, hidden,
        "hidden layers of the network of 'levels' [300,100]"),
    ROW("batch", "N", NULL, option_whole, batch, "rows of the training step of 'levels' [64]",
        .low = 1, .high = 65536),
    WORD("from", "FILE", from, FILE_INPUT, "show what --json has written; needs no GPU"),
    OPTION_HELP,
    OPTION_VERSION};

static const OptionTable table = {
    .program = "mlp-lab",
    .usage = "Usage: mlp-lab TOPIC [OPTION]...\n"
             "       mlp-lab all [OPTION]...\n"
             "       mlp-lab list [TOPIC]\n"
             "       mlp-lab device [OPTION]...\n"
             "       mlp-lab levels --on emulator [OPTION]...\n"
             "Runs a ladder of kernels, each rung a small step from the last: checks each rung\n"
             "against a reference, times it, and compares it with the limits of this GPU and\n"
             "with a library.\n"
             "\n"
             "  list                     list the topics, or the problems and rungs of a TOPIC\n"
             "  device                   show what this GPU can do, in theory and as measured\n"
             "  levels                   count what a training step asks of memory at levels\n"
             "                           none and layer of fusion\n",
    .notes = "Exit status: 0 for success; 1 if a rung is wrong, or a file or the GPU fails; 2\n"
             "for wrong usage.\n",
    .rows = rows,
    .count = LENGTH(rows)};

/* Returns a table of lab->topic that is for the problem and contains the rung, or NULL if there is
   no such table. If `problem` or `rung` is NULL, any problem or rung matches. */
static const json_t *find_table(const Lab *lab, const char *rung, const char *problem) {
  foreach_of (line, &lab->known, "table", "topic", lab->topic, "problem", problem) {
    foreach_in (row, json_object_get(line, "rows"))
      if (!rung || text_is(row, "rung", rung)) return line;
  }
  return NULL;
}

/* Reads the arguments that are not options: TOPIC, "all", "list", "list TOPIC", "device" or
   "levels". */
static bool parse_words(int count, char **words, Lab *lab, Error *error) {
  if (count == 0) return error_set(error, "name a topic, or 'all', 'list', 'device' or 'levels'");
  lab->lists = strcmp(words[0], "list") == 0;
  lab->device = strcmp(words[0], "device") == 0;
  lab->levels = strcmp(words[0], "levels") == 0;
  if (lab->lists ? count > 1 : !lab->device && !lab->levels && strcmp(words[0], "all") != 0)
    lab->topic = words[lab->lists];
  if (count > 1 + lab->lists)
    return error_set(error, "unexpected argument '%s'", words[1 + lab->lists]);
  if (!lab->topic || (!*lab_topics && !lab->from)) return true;
  if (lab_topic_line(&lab->known, lab->topic)) return true;
  return lab->from
             ? error_set(error, "unknown topic '%s': 'mlp-lab list --from %s' lists what it has",
                         lab->topic, lab->from)
             : error_set(error, "unknown topic '%s': 'mlp-lab list' lists all topics%s", lab->topic,
                         is_emulator ? "; math and transfers need a GPU" : "");
}

/* Checks the options of 'levels', which no topic has. */
static bool parse_levels(Lab *lab, const char *one, Error *error) {
  const bool sized = lab->hidden.count >= 0 || lab->batch > 0;
  if (!lab->levels && sized)
    return error_set(error, "--hidden and --batch are for 'levels' only; a topic has --size");
  if (lab->levels && (one || lab->check))
    return error_set(error, "'levels' takes only --on, --hidden, --batch, --json, --markdown and "
                            "--from");
  if (lab->from && sized)
    return error_set(error, "--from shows what was recorded: remove --hidden and --batch");
  if (lab->hidden.count < 0) lab->hidden = (HiddenSizes){2, {300, 100}};
  if (lab->batch == 0) lab->batch = 64;
  return true;
}

/* Checks the options whose values depend on the topic. */
static bool parse_rest(Lab *lab, Error *error) {
  const char *one = lab->rung ? "--rung" : NULL;
  if (lab->size) one = "--size";
  if (lab->problem) one = "--problem";
  if (lab->plot) one = "--plot";
  if (lab->lists && (one || lab->json || lab->markdown || lab->check))
    return error_set(error, "'list' does not take options");
  if (lab->device && (one || lab->check || lab->on == ON_EMULATED))
    return error_set(error, "'device' takes only --json, --markdown and --from");
  if (!parse_levels(lab, one, error)) return false;
  if (lab->on == ON_EMULATED && !lab->lists) lab->check = true;
  if (one && !lab->topic) return error_set(error, "%s needs one topic, not 'all'", one);
  if (!*lab_topics && !lab->from) return true;
  if ((lab->rung || lab->problem) && !find_table(lab, lab->rung, lab->problem))
    return lab->rung
               ? error_set(error, "%s has no rung '%s': 'mlp-lab list %s' lists what it has",
                           lab->topic, lab->rung, lab->topic)
               : error_set(error, "%s has no problem '%s': 'mlp-lab list %s' lists what it has",
                           lab->topic, lab->problem, lab->topic);
  if (lab->from && (lab->size || lab->rung || lab->json || lab->check))
    return error_set(error, "--from shows what was recorded: it can only be combined with "
                            "--problem, --plot and --markdown");
  return !lab->size || lab_parse_size(lab_find(lab->topic), lab->size, &lab->parsed, error);
}

/* Replaces this process by mlp-lab-emulator: the same program, built for the emulator, in the same
   folder. */
static bool become_emulated(char **given, Error *error) {
  char path[PATH_MAX];
  if (is_emulator) return true;
  if (text_beside_program(path, sizeof path, "mlp-lab-emulator")) execv(path, given);
  return error_set(error, "cannot run %s: %s: `make` builds it where there is a C++ compiler", path,
                   strerror(errno));
}

static OptionsResult parse(int count, char **given, Lab *lab, Error *error) {
  int first;
  const OptionsResult result = option_table_parse(&table, count, given, lab, &first, error);
  if (result != OPTIONS_RUN) return result;
  if (!option_table_check_files(&table, lab, error)) return option_files_refused(error);
  if (lab->on == ON_EMULATED && !become_emulated(given, error)) return OPTIONS_FAILURE;
  if (!lab->from) lab_add_all(&lab->known);
  if (!(lab->from ? lab_read(&lab->known, lab->from, error) : record_good(&lab->known, error)))
    return OPTIONS_FAILURE;
  return parse_words(count - first, given + first, lab, error) && parse_rest(lab, error)
             ? OPTIONS_RUN
             : OPTIONS_USAGE;
}

/* Prints a topic's problems, sizes and rungs. scripts/profile.py parses these lines, whose first
   word says what the line describes. */
static void list_topic(const Lab *lab) {
  const LabTopic *live = lab->from ? NULL : lab_find(lab->topic);
  const json_t *topic = lab_topic_line(&lab->known, lab->topic);
  printf("topic %s: %s\n", lab->topic, text_of(topic, "title"));
  foreach_problem (line, &lab->known, lab->topic)
    if (*text_of(line, "problem")) printf("problem %s\n", text_of(line, "problem"));
  if (live) printf("size %s: %s\n", lab_size_text(live, live->sizes[0]).text, live->dims);
  if (live && live->metric) printf("metric %s: %s\n", live->metric, live->metric_name);
  foreach_in (rung, json_object_get(topic, "rungs"))
    printf("%s %s: %s\n", text_of(rung, "kind"), text_of(rung, "rung"), text_of(rung, "lesson"));
}

static bool list(const Lab *lab, Error *error) {
  if (!*lab_topics && !lab->from)
    return error_set(
        error, "this program was built without kernels: list --from %s lists those of a record",
        shown().text);
  if (lab->topic)
    list_topic(lab);
  else
    foreach_of (line, &lab->known, "topic", NULL)
      printf("%-14s %s\n", text_of(line, "topic"), text_of(line, "title"));
  return true;
}

/* Measures a problem at all sizes, or at one size if --check, --rung or --size is given. */
static bool measure_problem(Lab *lab, const LabTopic *topic, int problem, Error *error) {
  LabHow how = {.times = !lab->check, .rung = lab->rung, .guarded = true, .seed = 1};
  const int sizes = !lab->size && !lab->rung && how.times ? LAB_SIZES : 1;
  for (int i = 0; i < sizes && topic->sizes[i].dim[0]; i++) {
    LabSize size = is_emulator ? lab_small_size(topic) : topic->sizes[i];
    if (lab->size) size = lab->parsed;
    json_t *ladder = lab_table(topic, problem, size);
    how.last = i > 0;
    if (!lab_measure(ladder, topic, problem, size, &how, error)) {
      json_decref(ladder);
      return false;
    }
    if (!lab_table_good(ladder) || (i == 0 && *text_of(ladder, "reason"))) lab->wrong = true;
    lab_add_table(&lab->measured, ladder);
    if (!record_good(&lab->measured, error)) return false;
  }
  return true;
}

static bool run_topic(Lab *lab, const Record *record, const char *topic, Error *error) {
  const LabTopic *live = lab->from ? NULL : lab_find(topic);
  int p = -1;
  if (live) lab_add_topic(&lab->measured, live);
  foreach_problem (line, &lab->known, topic) {
    const char *problem = text_of(line, "problem");
    p++;
    if (lab->problem && strcmp(problem, lab->problem) != 0) continue;
    if (lab->rung && !find_table(lab, lab->rung, problem)) continue;
    if (live && !measure_problem(lab, live, p, error)) return false;
    lab_print(record, topic, problem, lab->markdown);
    if (!standard_output_flush(error)) return false;
  }
  return true;
}

/* Counts the levels, unless --from has read them, and prints them. */
static bool run_levels(Lab *lab, const Record *record, Error *error) {
  if (!lab->from && !lab_count_levels(&lab->measured, &lab->hidden, lab->batch, error))
    return false;
  lab_print_levels(record, lab->markdown);
  lab->wrong = !lab_levels_good(record);
  return standard_output_flush(error);
}

/* Fails if --from's record has nothing of what is to be shown, because a heading without a table
   would look like a result. */
static bool has_results(const Lab *lab, Error *error) {
  const char *missing = "topics", *writer = "all";
  bool has = record_first(&lab->known, "topic");
  if (lab->levels) {
    has = record_first(&lab->known, "level");
    missing = "levels", writer = "levels --on emulator";
  } else if (lab->device) {
    has = record_first(&lab->known, "device") || record_first(&lab->known, "ceiling");
    missing = "limits of a GPU", writer = "device";
  }
  return !lab->from || has ||
         error_set(error, "%s has no %s: 'mlp-lab %s --json FILE' writes them", lab->from, missing,
                   writer);
}

static bool run(Lab *lab, Error *error) {
  const Record *record = lab->from ? &lab->known : &lab->measured;
  const char *topic = lab->topic ? lab->topic : "all";
  const char *word = lab->device ? "device" : topic;
  if (lab->levels && !lab->from && lab->on != ON_EMULATED)
    return error_set(error, "the emulator counts levels: add --on emulator; mlp-bench times them");
  const bool fits = gpu_start && is_emulator == (lab->on == ON_EMULATED);
  Error reason = {.text = "this program was built without CUDA"};
  if (!lab->from && !(fits && gpu_start(&reason)))
    return error_set(error, "%s; mlp-lab %s --from %s shows a recorded run%s", reason.text, word,
                     shown().text, lab->device ? "" : ", --on emulator checks and counts here");
  if (!lab->from && (!record_create(&lab->measured, lab->json, error) ||
                     !lab_machine(&lab->measured, !lab->check, error)))
    return false;
  record_print_machine(record, "The kernel lab", stdout, lab->markdown);
  if (lab->device) {
    lab_print_device(record, lab->markdown);
    return standard_output_flush(error);
  }
  if (lab->levels) return run_levels(lab, record, error);
  foreach_of (line, &lab->known, "topic", "topic", lab->topic)
    if (!run_topic(lab, record, text_of(line, "topic"), error)) return false;
  return !lab->plot || lab_plot(record, lab->topic, lab->problem, lab->plot, error);
}

int main(int count, char **given) {
  standard_output_open();
  interrupt_catch(true);
  Lab lab = {.hidden = {.count = -1}};
  Error error, unwritten;
  bool good = false;
  OptionsResult result = parse(count, given, &lab, &error);
  if (result == OPTIONS_RUN && has_results(&lab, &error))
    good = lab.lists ? list(&lab, &error) : run(&lab, &error);
  good = record_close(&lab.measured, good, &error);
  if (good && lab.wrong)
    good = error_set(&error, "%s: see above",
                     lab.levels ? "a level is wrong" : "a rung is wrong or could not be run");
  record_close(&lab.known, true, &unwritten);
  if (result == OPTIONS_RUN && !good) {
    standard_output_flush(&unwritten); /* print the results before the error message */
    result = OPTIONS_FAILURE;
  }
  return option_table_end(&table, result, "mlp-lab", &error);
}
