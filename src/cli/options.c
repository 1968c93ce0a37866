/* Defines and checks mlp-train's options, and reads and writes its configuration files. */
#include "cli/options.h"

#include <errno.h>
#include <ini.h>
#include <string.h>

#include "base/nearest.h"
#include "base/stream.h"
#include "data/idx.h"

/* In the order of Optimizer. */
const char *const options_optimizers[] = {"sgd", "nesterov", "adam", "adamw", NULL};
_Static_assert(LENGTH(options_optimizers) == OPTIMIZERS + 1, "every optimizer has a name");
static const char *const precisions[] = {"fp32", "tf32", NULL}; /* indexed by Precision */
static const char *const schedules[] = {"step", "constant", "cosine", "linear", NULL};
static const char *const augmentations[] = {"shift", "rotate", "scale", "shear", "elastic", NULL};
static const char *const devices[] = {"auto", "cuda", "cpu", NULL};   /* indexed by DeviceChoice */
static const char *const residencies[] = {"auto", "yes", "no", NULL}; /* indexed by RESIDENT_... */

/* Makes a row: long name, argument, default, kind, field, the commands that take the option, the
   rule for --resume, and the help. Allowed values, a letter and a group may follow the help. */
#define NAMED(NAME, ARGUMENT, INITIAL, KIND, FIELD, TAKERS, RESUME, ...)                           \
  OPTION_ROW(Options, NAME, ARGUMENT, INITIAL, KIND, FIELD, __VA_ARGS__, .takers = (TAKERS),       \
             .resume = (RESUME))

/* Make rows whose field has the option's name: SETTING for a field of Training, ROW for any other
   field, FLAG for an option without argument, OUTPUT for a file that one run writes. */
#define SETTING(FIELD, ARGUMENT, INITIAL, KIND, ...)                                               \
  NAMED(#FIELD, ARGUMENT, INITIAL, KIND, training.FIELD, __VA_ARGS__)
#define ROW(FIELD, ARGUMENT, INITIAL, KIND, ...)                                                   \
  NAMED(#FIELD, ARGUMENT, INITIAL, KIND, FIELD, __VA_ARGS__)
#define FLAG(FIELD, TAKERS, ...) ROW(FIELD, NULL, NULL, option_yes_no, TAKERS, ONE_RUN, __VA_ARGS__)
#define OUTPUT(FIELD, INITIAL, TAKERS, ...)                                                        \
  ROW(FIELD, "FILE", INITIAL, option_path, TAKERS, ONE_RUN, __VA_ARGS__)

/* Set optional members of a row: RANGE sets the limits of a number. READS marks a file that is
   read. WRITES marks a file that is written, and sets the allowed endings of its name. */
#define RANGE(LOW, HIGH) .low = (LOW), .high = (HIGH)
#define READS .file = FILE_INPUT
#define WRITES(ENDINGS) .file = FILE_OUTPUT, .endings = (ENDINGS)

/* clang-format off */
static const OptionRow table[] = {
  SETTING(hidden, "SIZES", "300,100", option_sizes, TRAINING, RESUME_FREE,
      "sizes of the hidden layers, or none",
      .group = "network"),
  SETTING(classes, "N", "10", option_whole, TRAINING, RESUME_FREE,
      "number of classes; labels are 0 to N - 1",
      RANGE(2, NETWORK_MAX_CLASSES)),
  ROW(names, "LIST", "", option_name, ALL, ONE_RUN,
      "names of the classes, separated by commas, or a file with a name per line; they are kept with the "
      "network [the labels of --train, if they are words]"),

  SETTING(epochs, "N", "10", option_whole, TRAINING, RESUME_FREE,
      "passes over the training file",
      RANGE(1, 1000000), .letter = 'e', .group = "training"),
  SETTING(batch, "ROWS", "64", option_whole, TRAINING, RESUME_EPOCH,
      "rows per training step",
      RANGE(1, 65536), .letter = 'b'),
  NAMED("lr", "RATE", "auto", option_number_or_auto, training.schedule.rate, TRAINING, RESUME_FREE,
      "initial learning rate; auto takes 0.05 for sgd and nesterov, 0.001 for adam and adamw, and "
      "less if --batch is below 16",
      RANGE(0, 100), .letter = 'l'),
  NAMED("optimizer", "KIND", "sgd", option_choice, training.rule.kind, TRAINING, RESUME_SAME,
      "rule that updates the weights",
      .choices = options_optimizers),
  NAMED("momentum", "M", "0.9", option_number, training.rule.momentum, TRAINING, RESUME_FREE,
      "sgd, nesterov: fraction of the last update that is added again",
      RANGE(0, 1)),
  NAMED("beta1", "B", "0.9", option_number, training.rule.beta1, TRAINING, RESUME_FREE,
      "adam, adamw: decay of the first-moment estimate",
      RANGE(0, 0.99999)),
  NAMED("beta2", "B", "0.999", option_number, training.rule.beta2, TRAINING, RESUME_FREE,
      "adam, adamw: decay of the second-moment estimate",
      RANGE(0, 0.99999)),
  NAMED("epsilon", "E", "1e-8", option_number, training.rule.epsilon, TRAINING, RESUME_FREE,
      "adam, adamw: added to the root of the second moment before dividing by it",
      RANGE(1e-16, 1)),
  NAMED("weight-decay", "D", "0", option_number, training.rule.weight_decay, TRAINING, RESUME_FREE,
      "pull of the weights, not the biases, towards 0",
      RANGE(0, 1)),
  NAMED("label-smoothing", "E", "0", option_number, training.label_smoothing, TRAINING, RESUME_FREE,
      "share of a training row's target that is spread equally over all classes",
      RANGE(0, 0.9)),
  SETTING(dropout, "P", "0", option_shares, TRAINING, RESUME_FREE,
      "share of a hidden layer's activations that a training step drops, or a list with a share "
      "for each hidden layer",
      RANGE(0, 0.95)),
  SETTING(ema, "D", "0", option_number, TRAINING, RESUME_FREE,
      "evaluate and save a moving average of the weights, which keeps D of itself in each step",
      RANGE(0, 0.99999)),
  NAMED("lr-decay", "FACTOR", "0.8", option_number, training.schedule.decay, TRAINING, RESUME_FREE,
      "multiplies the learning rate after each epoch, except during the warm-up",
      RANGE(0, 1)),
  NAMED("lr-schedule", "KIND", "step", option_choice, training.schedule.kind, TRAINING, RESUME_FREE,
      "how the learning rate falls; step uses --lr-decay",
      .choices = schedules),
  NAMED("warmup", "EPOCHS", "0", option_whole, training.schedule.warmup, TRAINING, RESUME_FREE,
      "number of first epochs in which the learning rate rises",
      RANGE(0, 1000000)),
  NAMED("early-stop", "N", "0", option_whole, training.early_stop, FOR_TRAIN, RESUME_FREE,
      "stop after N epochs without a better test-acc or val-acc; 0 never stops early",
      RANGE(0, 1000000)),
  SETTING(augment, "LIST", "none", option_strengths, TRAINING, RESUME_EPOCH,
      "augment the training rows, differently in every epoch; NAME=S sets the largest strength",
      .choices = augmentations),
  SETTING(seed, "N", "1", option_whole64, TRAINING, RESUME_ROWS,
      "sets the initial weights and the order of rows",
      RANGE(0, UINT32_MAX), .letter = 's'),
  ROW(seeds, "N", NULL, option_whole, FOR_TRAIN | FOR_SEEDS, ONE_RUN,
      "train N networks, with the seeds from --seed on, to see how results vary by chance",
      RANGE(1, SEEDS_MOST)),
  ROW(sweep, "LIST", NULL, option_name, FOR_TRAIN | FOR_SWEEP, ONE_RUN,
      "find the best values of options, as lr=0.01:0.2:log,momentum=0.8,0.9, by validation rows"),
  ROW(trials, "N", NULL, option_whole, FOR_SWEEP, ONE_RUN,
      "with --sweep, try N combinations; the best third of them trains for more epochs",
      RANGE(1, TRIALS_MOST)),

  ROW(train, "FILE", "data/mnist_train.csv", option_path, TRAINING, RESUME_ROWS,
      "CSV file to train on",
      READS, .group = "data"),
  ROW(test, "FILE", "auto", option_path_or_none, TRAINING | FOR_EVALUATE, RESUME_FREE,
      "CSV file to test on after each epoch (with --validation, at the end), or none; auto takes "
      "data/mnist_test.csv if --train is MNIST's, and the file of its run for a saved network",
      READS),
  ROW(validation, "FILE", "0", option_share_or_path, TRAINING, RESUME_ROWS,
      "CSV file to judge by after each epoch instead of --test, or the share of the training rows, "
      "as 0.1 or 10%, that is held out for this",
      READS, RANGE(1e-9, 0.9)), /* a smaller share is not one row of the most that a run may have */
  NAMED("label-column", "C", "", option_name, label_column, TRAINING | FOR_EVALUATE | FOR_PREDICT, RESUME_ROWS,
      "column of the labels: a number from 1, a name of the header, or last [the header's label, "
      "class, target, digit or y, else the first]"),
  NAMED("ignore-columns", "LIST", "", option_name, ignore_columns, TRAINING | FOR_EVALUATE | FOR_PREDICT, RESUME_ROWS,
      "columns that are neither label nor pixel, by numbers from 1 or names, as 2,name; those that "
      "the header calls id, ImageId, row or index are left out anyway"),
  NAMED("pixel-max", "V", "255", option_number, training.pixels.max, ALL, RESUME_SAME,
      "pixel value that becomes 1",
      RANGE(1, 255)),
  NAMED("mean", "M", "0", option_number, training.pixels.mean, ALL, RESUME_SAME,
      "number that is then subtracted from each pixel",
      RANGE(-100, 100)),
  NAMED("std", "S", "1", option_number, training.pixels.std, ALL, RESUME_SAME,
      "number that each pixel is then divided by",
      RANGE(1e-6, 1e6)),
  SETTING(resident, "WHEN", "auto", option_choice, TRAINING, RESUME_EPOCH,
      "whether all rows stay on the device; with no, they are streamed in every epoch",
      .choices = residencies),

  ROW(device, "NAME", "auto", option_choice, ALL, RESUME_FREE,
      "where to train; auto takes a CUDA GPU if one works, else the CPU",
      .choices = devices, .letter = 'd', .group = "device"),
  NAMED("device-memory", "MB", "0", option_megabytes, training.device_memory, ALL, RANKS_FREE,
      "most GPU memory to use; 0 sets no limit",
      RANGE(0, 1000000000)),
  SETTING(fusion, "LEVEL", "auto", option_choice, ALL, RESUME_FREE,
      "level of kernel fusion on a GPU; auto takes the fastest",
      .choices = training_fusions, .letter = 'f'),
  SETTING(precision, "P", "fp32", option_choice, ALL, RESUME_FREE,
      "precision of matrix products at fusion levels layer and step",
      .choices = precisions),
  SETTING(threads, "N", "0", option_whole, ALL, RANKS_FREE,
      "CPU threads; 0 takes one per core",
      RANGE(0, 1024), .letter = 't'),

  ROW(quiet, NULL, "no", option_yes_no, ALL, ONE_RUN,
      "print only the last epoch",
      .letter = 'q', .group = "output"),
  OUTPUT(log, "", FOR_TRAIN | FOR_SEEDS | FOR_SWEEP,
      "write one line per epoch (with --sweep, per trial) to FILE, .jsonl or .csv",
      WRITES("jsonl csv"), .lines = true),
  OUTPUT(plot, "", FOR_TRAIN | FOR_SEEDS | FOR_SWEEP,
      "draw loss and accuracy over the epochs as a PNG",
      WRITES("png")),
  OUTPUT(weights, "", FOR_TRAIN | FOR_EVALUATE,
      "draw the filters of the first layer as a PNG",
      WRITES("png")),
  OUTPUT(mistakes, "", FOR_TRAIN | FOR_EVALUATE,
      "draw the most confidently wrong test or validation rows as a PNG",
      WRITES("png")),
  OUTPUT(confusion, "", FOR_TRAIN | FOR_EVALUATE,
      "draw the confusion matrix of the test or validation rows as a PNG",
      WRITES("png")),
  OUTPUT(html, "", FOR_TRAIN | FOR_EVALUATE | FOR_HTML,
      "write a web page where you draw digits and the network reads them",
      WRITES("html")),

  OUTPUT(save, "", FOR_TRAIN | FOR_SEEDS,
      "save the network in FILE, in safetensors format; with --seeds, each in FILE-SEED",
      WRITES("safetensors st"), .may_lack_ending = true, .group = "model"),
  ROW(resume, "FILE", NULL, option_path, FOR_TRAIN, ONE_RUN,
      "continue the run saved in FILE, and save it there",
      READS),
  ROW(load, "FILE", NULL, option_paths, ALL & ~TRAINING, ONE_RUN,
      "load the network in FILE, for one of the following; given more than once, average the "
      "predictions of these networks",
      READS),
  FLAG(evaluate, FOR_EVALUATE,
      "evaluate the loaded network on --test"),
  ROW(predict, "FILE", NULL, option_path, FOR_PREDICT, ONE_RUN,
      "predict the class of each row of a file, with or without labels",
      READS),
  OUTPUT(output, NULL, FOR_PREDICT,
      "write the predictions to FILE [standard output]",
      WRITES("csv"), .may_lack_ending = true, .lines = true),
  FLAG(probabilities, FOR_PREDICT,
      "with --predict, add the probability of every class"),
  FLAG(classify, FOR_CLASSIFY,
      "predict the digits in each picture named at the end"),
  ROW(confidence, "P", "0.9", option_number, FOR_CLASSIFY, ONE_RUN,
      "with --classify, call an answer unsure if its probability is below P",
      RANGE(0, 1)),
  FLAG(json, FOR_EVALUATE | FOR_CLASSIFY,
      "print a line of JSON for each picture, or for the evaluation"),
  OUTPUT(show, NULL, FOR_CLASSIFY,
      "with --classify, draw the first picture and what the network saw of it as a PNG",
      WRITES("png")),

  NAMED("dry-run", NULL, NULL, option_yes_no, dry_run, ALL, ONE_RUN,
      "print the options as a configuration file and exit",
      .group = "other"),
  ROW(config, "FILE", NULL, option_paths, ALL, ONE_RUN,
      "read options from FILE, or a preset like record.conf; a later FILE wins over an earlier one, "
      "and the command line over all",
      READS, .letter = 'c'),

  OPTION_HELP, OPTION_VERSION
};
/* clang-format on */

const OptionTable options_table = {
    .program = "mlp-train",
    .usage = "Usage: mlp-train [OPTION]...\n"
             "       mlp-train --load FILE --evaluate\n"
             "       mlp-train --load FILE --predict FILE [--output FILE]\n"
             "       mlp-train --load FILE --classify PICTURE...\n"
             "       mlp-train --load FILE --html FILE\n"
             "Trains a multilayer perceptron on rows of pixels in a CSV file, gzipped\n"
             "or not. Evaluates a saved network, and predicts with it. Defaults are in\n"
             "[brackets].\n",
    .notes = "A file for --config has the groups above as [sections] and the long names of\n"
             "the options as keys, as --dry-run prints them.\n"
             "A run that is interrupted is saved in the file of --save, and --resume continues\n"
             "it as if it had never stopped. A second signal ends the program at once.\n"
             "Recipes, file formats and presets are described in recipes.md, formats.md and\n"
             "options.md: in docs/ of the sources, or in share/doc/mlp-train once installed.\n"
             "Exit status: 0 for success, 1 for a failure, 2 for wrong usage, 130 or 143 when\n"
             "interrupted, 141 if the reader of standard output left.\n",
    .rows = table,
    .count = LENGTH(table),
    .companion = idx_labels_exist};

bool options_is_saved(const OptionRow *row) {
  return row->initial && row->resume != ONE_RUN;
}

bool options_may_be_swept(const OptionRow *row) {
  return options_is_saved(row) && *row->initial && !row->file && row->takers & FOR_SWEEP &&
         row->field != offsetof(Options, training.epochs) &&
         row->field != offsetof(Options, training.resident) &&
         strcmp(option_group(row), "device") != 0;
}

double options_hold_out(const Options *options) {
  const double share = option_share(options->validation);
  return share > 0 ? share : 0;
}

const char *options_validation_file(const Options *options) {
  return isnan(option_share(options->validation)) ? options->validation : NULL;
}

bool options_validates(const Options *options) {
  return option_share(options->validation) != 0; /* true for NAN, which stands for a file */
}

bool options_test_is_auto(const Options *options) {
  return strcmp(options->test, "auto") == 0;
}

const char *options_test_file(const Options *options) {
  return strcmp(options->test, "none") == 0 || options_test_is_auto(options) ? NULL : options->test;
}

void options_default(Options *options) {
  memset(options, 0, sizeof *options);
  option_table_default(&options_table, options);
}

const char *options_changed(const Options *options, const Options *others, ResumeRule first,
                            ResumeRule last) {
  foreach_row (row, &options_table)
    if (row->resume >= (int)first && row->resume <= (int)last &&
        option_differs(row, options, others))
      return row->name;
  return NULL;
}

/* ---- options that contradict each other ----------------------------------------------------- */

/* Returns the command that the options ask for, or 0 if --load is given without a command. */
static unsigned command_of(const Options *o) {
  const bool trains = o->load.count == 0;
  if (trains && o->sweep[0]) return FOR_SWEEP;
  if (trains && o->seeds) return FOR_SEEDS;
  if (o->evaluate) return FOR_EVALUATE;
  if (o->predict[0]) return FOR_PREDICT;
  if (o->classify) return FOR_CLASSIFY;
  if (trains) return FOR_TRAIN; /* training can write a page, too, so --html comes last */
  return o->html[0] ? FOR_HTML : 0;
}

/* The options that ask for a command. Training has no such option. */
static const struct {
  unsigned taker;
  const char *name;
} askers[] = {{FOR_SWEEP, "sweep"},     {FOR_SEEDS, "seeds"},       {FOR_EVALUATE, "evaluate"},
              {FOR_PREDICT, "predict"}, {FOR_CLASSIFY, "classify"}, {FOR_HTML, "html"}};

/* Returns the names of the options that ask for these commands, such as "--evaluate, --predict". */
static ShortText asked_by(unsigned commands) {
  ShortText list = {""};
  foreach (asker, askers)
    if (asker->taker & commands)
      text_append(list.text, "%s--%s", *list.text ? ", " : "", asker->name);
  return list;
}

/* Returns the first option that differs from its default and that the command `taker` does not
   take, or NULL. */
static const OptionRow *misplaced(const Options *o, unsigned taker) {
  Options initial;
  options_default(&initial);
  foreach_row (row, &options_table)
    if (row->kind && !(row->takers & taker) && option_differs(row, o, &initial)) return row;
  return NULL;
}

static bool check_takers(const Options *o, unsigned command, Error *error) {
  const OptionRow *other = misplaced(o, command);
  const ShortText asked = asked_by(command);
  if (!other) return true;
  if (*asked.text)
    return error_set(error, "--%s has no effect with %s; remove it", other->name, asked.text);
  return error_set(error, "--%s can only be used with %s", other->name,
                   asked_by(other->takers).text);
}

/* Checks that the command uses the loaded networks and the arguments after the options, if any. */
static bool check_uses(const Options *o, unsigned command, Error *error) {
  const unsigned uses = command & (FOR_EVALUATE | FOR_PREDICT | FOR_CLASSIFY);
  if (uses && o->load.count == 0)
    return error_set(error, "%s needs a network; add --load FILE", asked_by(uses).text);
  if (command == 0)
    return error_set(error, "--load needs --evaluate, --predict, --classify or --html; to continue "
                            "training use --resume");
  if (o->load.count > 1 && (o->weights[0] || o->html[0]))
    return error_set(error, "--%s draws a single network; give --load only once",
                     o->weights[0] ? "weights" : "html");
  if (o->classify && o->picture_count == 0)
    return error_set(error, "--classify needs the names of pictures at the end of the command");
  return o->classify || o->picture_count == 0 ||
         error_set(error, "unexpected argument '%s'%s", o->pictures[0],
                   o->load.count > 0 ? "; write --load before each network" : "");
}

bool options_check(Options *options, Error *error) {
  const unsigned command = command_of(options);
  Training *t = &options->training;
  const int shares = t->dropout.count, layers = t->hidden.count;
  if (!check_uses(options, command, error) || !check_takers(options, command, error)) return false;
  if (command == FOR_SEEDS && t->seed + (uint64_t)options->seeds - 1 > UINT32_MAX)
    return error_set(error, "--seeds %d starting at --seed %llu would go past the largest seed, %u",
                     options->seeds, (unsigned long long)t->seed, UINT32_MAX);
  if (command == FOR_SWEEP) return true; /* each trial's options are checked later */
  if (training_drops(t) && shares != layers && !(shares == 1 && layers > 0))
    return error_set(error, "--dropout has %d value%s, but --hidden has %d layer%s", shares,
                     plural(shares), layers, plural(layers));
  return options->device != DEVICE_CPU || t->fusion == FUSION_AUTO || t->fusion == FUSION_LAYER ||
         error_set(error,
                   "--fusion %s needs a GPU; with --device cpu only level layer is available",
                   training_fusions[t->fusion]);
}

/* ---- reading a configuration file ------------------------------------------------------------ */

typedef struct {
  const char *path;
  FILE *file;
  int line;     /* number of the line read last, counted from 1 */
  int bad_line; /* number of the first line in which set_key found an error; 0 if none */
  bool seen[OPTION_ROWS];
  bool is_saved; /* the text is in memory and holds the options of a saved run */
  Options *options;
  Error *error;
} ConfigFile;

static bool config_error(ConfigFile *config, int line, const char *sentence) {
  config->bad_line = line;
  return error_set(config->error, "%s:%d: %s", config->path, line, sentence);
}

/* Returns what is wrong with a line, or NULL. */
static const char *wrong_in(const ConfigFile *config, const char *line) {
  const char *start = line + strspn(line, " \t"), *carriage = strchr(line, '\r'),
             *end = *start == '[' ? strchr(start, ']') : NULL;
  if (!strchr(line, '\n') && !feof(config->file)) return "the line is too long";
  if (carriage && carriage[1] && carriage[1] != '\n')
    return "lines must end with a line feed, not with a carriage return";
  if (end && !strchr("\r\n;#", end[1 + strspn(end + 1, " \t")]))
    return "a key belongs on a line of its own, after that of its section";
  return NULL;
}

/* Reads a line for inih. Removes blanks at its start, because inih would take an indented line as a
   continuation of the previous value. Also removes a comment after " #". */
static char *read_line(char *line, int size, void *context) {
  ConfigFile *config = context;
  if (config->bad_line || !fgets(line, size, config->file)) return NULL;
  config->line++;
  const char *start = line + strspn(line, " \t"), *wrong = wrong_in(config, line);
  if (wrong) {
    config_error(config, config->line, wrong);
    return NULL;
  }
  memmove(line, start, strlen(start) + 1);
  for (char *c = line; (c = strchr(c, '#')); c++) /* inih removes a comment after " ;" itself */
    if (c > line && strchr(" \t", c[-1])) {
      strcpy(c, "\n");
      break;
    }
  return line;
}

/* Returns the row of a key. For an unknown key, returns NULL, and *error suggests a similar key. */
static const OptionRow *find_key(const char *key, Error *error) {
  const char *known[OPTION_ROWS + 1] = {NULL};
  int count = 0;
  foreach_row (row, &options_table) {
    if (!row->initial) continue;
    if (strcmp(row->name, key) == 0) return row;
    known[count++] = row->name;
  }
  error_set(error, "unknown key '%s'", key);
  nearest_append(key, known, "", error);
  return NULL;
}

/* Handles `key = value` for inih. Returns 0 on failure. */
static int set_key(void *context, const char *section, const char *key, const char *value) {
  ConfigFile *config = context;
  Error error;
  const OptionRow *row = find_key(key, &error);
  bool *seen = row ? &config->seen[row - options_table.rows] : NULL;
  if (!row && config->is_saved) {
    ShortText *gone = &config->options->gone;
    const bool as_now = strcmp(key, "monitor") == 0 && strcmp(value, "accuracy") == 0;
    if (!as_now) text_append(gone->text, "%s--%s", *gone->text ? ", " : "", text_shown(key).text);
    return true;
  }
  if (row && strcmp(option_group(row), section) != 0)
    error_set(&error, "'%s' belongs in section [%s], not [%s]", key, option_group(row), section);
  else if (row && config->is_saved && !options_is_saved(row))
    error_set(&error, "'%s' is not an option of a saved run", key);
  else if (row && *seen)
    error_set(&error, "'%s' is given twice", key);
  else if (row && ((!*value && !*row->initial) || /* an empty value is valid if it is the default */
                   row->kind->set(row, value, config->options, &error)))
    return *seen = true;
  return config_error(config, config->line, error.text);
}

/* Reads the file's options and closes the file. */
static bool read_config(Options *options, FILE *file, const char *name, bool is_saved,
                        Error *error) {
  ConfigFile config = {
      .path = name, .file = file, .is_saved = is_saved, .options = options, .error = error};
  errno = 0;
  const int bad_line = ini_parse_stream(read_line, &config, set_key, &config);
  const int reading = ferror(file) ? errno : 0;
  fclose(file);
  if (reading) return error_set(error, "cannot read %s: %s", name, strerror(reading));
  if (bad_line && bad_line != config.bad_line)
    return config_error(&config, bad_line, "the line is not a [section], key = value or # comment");
  return !config.bad_line;
}

/* Opens a configuration file. A name without a folder may also name a preset. The presets'
   folder is beside the program in a checkout, and in ../share/mlp-train in an installation. */
static FILE *open_config(const char *path) {
  static const char *const folders[] = {"configs", "../share/mlp-train/configs"};
  char preset[3 * OPTIONS_PATH];
  FILE *file = stream_open_input(path);
  if (file || errno != ENOENT || strchr(path, '/')) return file;
  foreach (folder, folders) {
    const ShortText name = text_format("%s/%s", *folder, path);
    if (!file && text_beside_program(preset, sizeof preset, name.text))
      file = stream_open_input(preset);
  }
  if (!file) errno = ENOENT;
  return file;
}

bool options_read_file(Options *options, const char *path, Error *error) {
  FILE *file = open_config(path);
  if (!file) return error_set(error, "cannot open %s: %s", path, strerror(errno));
  return read_config(options, file, path, false, error);
}

static bool read_text(Options *options, const char *text, const char *name, bool is_saved,
                      Error *error) {
  if (!*text) return true; /* fmemopen does not accept an empty text */
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  FILE *file = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
  if (!file) return error_set(error, "cannot read the options in %s: %s", name, strerror(errno));
  return read_config(options, file, name, is_saved, error);
}

bool options_read_text(Options *options, const char *text, const char *name, Error *error) {
  return read_text(options, text, name, true, error);
}

ShortText options_gone_text(const Options *options, const char *path) {
  if (!*options->gone.text) return (ShortText){""};
  return text_format("%s was trained with %s, which this program no longer has",
                     text_shown(path).text, options->gone.text);
}

/* ---- writing a configuration file ------------------------------------------------------------ */

void options_print_config(FILE *file, const Options *options, bool whole) {
  const char *last = NULL; /* the group of the previous line */
  foreach_row (row, &options_table) {
    const char *group = option_group(row);
    if (!row->initial || !(whole || options_is_saved(row))) continue;
    const ShortText value = row->kind->get(row, options);
    if (!whole && !*value.text) continue;
    if (group != last) fprintf(file, "%s[%s]\n", last ? "\n" : "", group);
    last = group;
    fprintf(file, "%s =%s%s\n", row->name, *value.text ? " " : "", value.text);
  }
}

char *options_text(const Options *options, bool whole, Error *error) {
  /* open_memstream would cut the text without an error if memory ran out. */
  const size_t size = options_table.count * (OPTIONS_PATH + 64);
  char *text = calloc(size, 1);
  FILE *file = text ? fmemopen(text, size, "w") : NULL;
  if (file) {
    setbuf(file, NULL);
    options_print_config(file, options, whole);
  }
  if (file && fclose(file) == 0) return text;
  free(text);
  return error_null(error, "out of memory");
}

bool options_survive(const Options *options, bool whole, const char *name, Error *error) {
  Options loaded;
  char *text = options_text(options, whole, error);
  if (!text) return false;
  options_default(&loaded);
  const bool reads = text_is_utf8(text) ? read_text(&loaded, text, name, !whole, error)
                                        : error_set(error, "not UTF-8");
  free(text);
  if (!reads) return false;
  foreach_row (row, &options_table)
    if (row->initial && (whole || options_is_saved(row)) && option_differs(row, &loaded, options))
      return error_set(error, "--%s '%.150s' would be read back as '%.150s'", row->name,
                       row->kind->get(row, options).text, row->kind->get(row, &loaded).text);
  return true;
}

/* ---- the command line --------------------------------------------------------------------- */

OptionsResult options_parse(int argc, char **argv, Options *options, Error *error) {
  const Options before = *options;
  int first = argc;
  OptionsResult result = option_table_parse(&options_table, argc, argv, options, &first, error);
  if (result == OPTIONS_RUN && options->config.count > 0) { /* parse again: argv overrides files */
    const PathList files = options->config;
    *options = before;
    for (int i = 0; i < files.count; i++) {
      const NamedFile file = {"config", files.path[i], false, false};
      if (!same_file_check(&file, 1, error)) /* it would wait for itself */
        return option_files_refused(error);
      if (!options_read_file(options, files.path[i], error)) return OPTIONS_FAILURE;
    }
    result = option_table_parse(&options_table, argc, argv, options, &first, error);
  }
  if (result != OPTIONS_RUN) return result;
  options->pictures = argv + first;
  options->picture_count = argc - first;
  return options_check(options, error) ? OPTIONS_RUN : OPTIONS_USAGE;
}
