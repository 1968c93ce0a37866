/* The table of options of mlp-train, and what reads the command line and configuration files by
   it. */
#include "cli/options.h"

#include <errno.h>
#include <ini.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/nearest.h"
#include "cli/option_kinds.h"

/* ---- the table ---------------------------------------------------------------------------- */

const char *const options_optimizers[] = {"sgd", "nesterov", "adam", "adamw", NULL};
const char *const options_fusions[] = {"auto", "none", "layer", "step", "epoch", "exercise", NULL};
static const char *const precisions[] = {"fp32", "tf32", NULL}; /* in engine.h's order */
static const char *const schedules[] = {"step", "constant", "cosine", "linear", NULL};
static const char *const augmentations[] = {"shift", "rotate", "scale", "shear", "elastic", NULL};
static const char *const devices[] = {"auto", "cuda", "cpu", NULL};   /* DEVICE_... */
static const char *const residencies[] = {"auto", "yes", "no", NULL}; /* RESIDENT_... */

#define FIELD(name) offsetof(Options, name)

/* clang-format off */
static const OptionRow table[] = {
  {.group = "network", .name = "hidden", .argument = "SIZES", .initial = "300,100",
   .help = "sizes of the hidden layers, or none",
   .kind = &option_sizes, .field = FIELD(hidden)},
  {.group = "network", .name = "classes", .argument = "N", .initial = "10",
   .help = "number of classes; labels are 0 to N - 1",
   .kind = &option_whole, .field = FIELD(classes), .low = 2, .high = NETWORK_MAX_CLASSES},

  {.group = "training", .name = "epochs", .letter = 'e', .argument = "N", .initial = "10",
   .help = "passes over the training file",
   .kind = &option_whole, .field = FIELD(epochs), .low = 1, .high = 1000000},
  {.group = "training", .name = "batch", .letter = 'b', .argument = "ROWS", .initial = "64",
   .help = "rows per training step",
   .kind = &option_whole, .field = FIELD(training.batch), .low = 1, .high = 65536},
  {.group = "training", .name = "lr", .letter = 'l', .argument = "RATE", .initial = "0.05",
   .help = "initial learning rate; adam and adamw want about 0.001",
   .kind = &option_number, .field = FIELD(lr), .low = 0, .high = 100},
  {.group = "training", .name = "optimizer", .argument = "KIND", .initial = "sgd",
   .help = "rule that updates the weights",
   .kind = &option_choice, .field = FIELD(training.rule.kind), .choices = options_optimizers},
  {.group = "training", .name = "momentum", .argument = "M", .initial = "0.9",
   .help = "sgd, nesterov: fraction of the last update that is added again",
   .kind = &option_number, .field = FIELD(training.rule.momentum), .low = 0, .high = 1},
  {.group = "training", .name = "beta1", .argument = "B", .initial = "0.9",
   .help = "adam and adamw: how much of its mean the gradient's mean keeps",
   .kind = &option_number, .field = FIELD(training.rule.beta1), .low = 0, .high = 0.99999},
  {.group = "training", .name = "beta2", .argument = "B", .initial = "0.999",
   .help = "adam and adamw: likewise of the mean of its squares",
   .kind = &option_number, .field = FIELD(training.rule.beta2), .low = 0, .high = 0.99999},
  {.group = "training", .name = "epsilon", .argument = "E", .initial = "1e-8",
   .help = "adam and adamw: added to the root of that mean, which it divides by",
   .kind = &option_number, .field = FIELD(training.rule.epsilon), .low = 1e-16, .high = 1},
  {.group = "training", .name = "weight-decay", .argument = "D", .initial = "0",
   .help = "pull of the weights, not the biases, towards 0",
   .kind = &option_number, .field = FIELD(training.rule.weight_decay), .low = 0, .high = 1},
  {.group = "training", .name = "label-smoothing", .argument = "E", .initial = "0",
   .help = "share of a training row's target that all classes have equally",
   .kind = &option_number, .field = FIELD(training.label_smoothing), .low = 0, .high = 0.9},
  {.group = "training", .name = "dropout", .argument = "P", .initial = "0",
   .help = "share of a hidden layer's activations that a training step drops; or a share for each "
           "of these layers",
   .kind = &option_shares, .field = FIELD(training.dropout), .low = 0, .high = 0.95},
  {.group = "training", .name = "ema", .argument = "D", .initial = "0",
   .help = "use an average of the weights, which keeps D of itself in each step",
   .kind = &option_number, .field = FIELD(training.ema), .low = 0, .high = 0.99999},
  {.group = "training", .name = "lr-decay", .argument = "FACTOR", .initial = "0.8",
   .help = "multiplies the learning rate after each epoch",
   .kind = &option_number, .field = FIELD(lr_decay), .low = 0, .high = 1},
  {.group = "training", .name = "lr-schedule", .argument = "KIND", .initial = "step",
   .help = "how the learning rate falls; step uses --lr-decay",
   .kind = &option_choice, .field = FIELD(lr_schedule), .choices = schedules},
  {.group = "training", .name = "warmup", .argument = "EPOCHS", .initial = "0",
   .help = "first epochs, in which the learning rate rises",
   .kind = &option_whole, .field = FIELD(warmup), .low = 0, .high = 1000000},
  {.group = "training", .name = "early-stop", .argument = "N", .initial = "0",
   .help = "epochs to wait for a better test-acc or val-acc; 0: forever",
   .kind = &option_whole, .field = FIELD(early_stop), .low = 0, .high = 1000000},
  {.group = "training", .name = "augment", .argument = "LIST", .initial = "none",
   .help = "augment the training rows, differently in every epoch; NAME=S: up to strength S",
   .kind = &option_strengths, .field = FIELD(training.augment), .choices = augmentations},
  {.group = "training", .name = "seed", .letter = 's', .argument = "N", .initial = "1",
   .help = "sets the initial weights and the order of rows",
   .kind = &option_whole64, .field = FIELD(training.seed), .low = 0, .high = UINT32_MAX},
  {.group = "training", .name = "ensemble", .argument = "N",
   .help = "train N networks, of this seed and those after it, and judge their committee",
   .kind = &option_whole, .field = FIELD(ensemble), .low = 1, .high = 1000},

  {.group = "data", .name = "train", .argument = "FILE", .initial = "data/mnist_train.csv",
   .help = "CSV to train on, label first",
   .kind = &option_path, .field = FIELD(train)},
  {.group = "data", .name = "test", .argument = "FILE", .initial = "data/mnist_test.csv",
   .help = "CSV to test on after each epoch, or at the end with --validation; or none",
   .kind = &option_path, .field = FIELD(test)},
  {.group = "data", .name = "validation", .argument = "FILE", .initial = "0",
   .help = "CSV to judge by after each epoch instead of --test, or a share of the training rows to "
           "hold out for that",
   .kind = &option_share_or_path, .field = FIELD(validation), .low = 0, .high = 0.9},
  {.group = "data", .name = "pixel-max", .argument = "V", .initial = "255",
   .help = "pixel that is 1 to the network; or auto: the largest of the training rows",
   .kind = &option_whole_or_auto, .field = FIELD(training.pixels.max), .low = 1, .high = 255},
  {.group = "data", .name = "mean", .argument = "M", .initial = "0",
   .help = "taken from each pixel after that",
   .kind = &option_number, .field = FIELD(training.pixels.mean), .low = -100, .high = 100},
  {.group = "data", .name = "std", .argument = "S", .initial = "1",
   .help = "what is left of a pixel is divided by S",
   .kind = &option_number, .field = FIELD(training.pixels.std), .low = 1e-6, .high = 1e6},
  {.group = "data", .name = "resident", .argument = "WHEN", .initial = "auto",
   .help = "whether all rows stay on the device; else they are streamed every epoch",
   .kind = &option_choice, .field = FIELD(resident), .choices = residencies},

  {.group = "device", .name = "device", .letter = 'd', .argument = "NAME", .initial = "auto",
   .help = "where to train; auto: a CUDA GPU if one works, else the CPU",
   .kind = &option_choice, .field = FIELD(device), .choices = devices},
  {.group = "device", .name = "device-memory", .argument = "MB", .initial = "0",
   .help = "GPU memory to use at most; 0: no limit",
   .kind = &option_megabytes, .field = FIELD(training.device_memory), .low = 0, .high = 1000000000},
  {.group = "device", .name = "fusion", .letter = 'f', .argument = "LEVEL", .initial = "auto",
   .help = "level of kernel fusion on a GPU; auto: the fastest",
   .kind = &option_choice, .field = FIELD(training.fusion), .choices = options_fusions},
  {.group = "device", .name = "precision", .argument = "P", .initial = "fp32",
   .help = "precision of matrix products at fusion levels layer and step",
   .kind = &option_choice, .field = FIELD(training.precision), .choices = precisions},
  {.group = "device", .name = "threads", .letter = 't', .argument = "N", .initial = "0",
   .help = "CPU threads; 0: one per core",
   .kind = &option_whole, .field = FIELD(training.threads), .low = 0, .high = 1024},

  {.group = "output", .name = "quiet", .letter = 'q', .initial = "no",
   .help = "print only the last epoch",
   .kind = &option_yes_no, .field = FIELD(quiet)},
  {.group = "output", .name = "log", .argument = "FILE", .initial = "",
   .help = "write one line per epoch to FILE, .jsonl or .csv",
   .kind = &option_path, .field = FIELD(log)},
  {.group = "output", .name = "plot", .argument = "FILE", .initial = "",
   .help = "draw loss and accuracy over the epochs as a PNG",
   .kind = &option_path, .field = FIELD(plot)},
  {.group = "output", .name = "weights", .argument = "FILE", .initial = "",
   .help = "draw the filters of the first layer as a PNG",
   .kind = &option_path, .field = FIELD(weights)},
  {.group = "output", .name = "mistakes", .argument = "FILE", .initial = "",
   .help = "draw the most confidently wrong test rows as a PNG",
   .kind = &option_path, .field = FIELD(mistakes)},
  {.group = "output", .name = "confusion", .argument = "FILE", .initial = "",
   .help = "draw the confusion matrix of the test rows as a PNG",
   .kind = &option_path, .field = FIELD(confusion)},

  {.group = "model", .name = "save", .argument = "FILE", .initial = "",
   .help = "save the network in FILE, in safetensors format",
   .kind = &option_path, .field = FIELD(save)},
  {.group = "model", .name = "resume", .argument = "FILE",
   .help = "continue the run saved in FILE, and save it there",
   .kind = &option_path, .field = FIELD(resume)},
  {.group = "model", .name = "load", .argument = "FILE",
   .help = "load the network in FILE, for one of the following; given more than once: average what "
           "several networks predict",
   .kind = &option_paths, .field = FIELD(load)},
  {.group = "model", .name = "evaluate",
   .help = "evaluate the loaded network on --test",
   .kind = &option_yes_no, .field = FIELD(evaluate)},
  {.group = "model", .name = "predict", .argument = "FILE",
   .help = "predict the class of each row of a CSV file, with or without labels",
   .kind = &option_path, .field = FIELD(predict)},
  {.group = "model", .name = "output", .argument = "FILE",
   .help = "write the predictions to FILE [standard output]",
   .kind = &option_path, .field = FIELD(output)},
  {.group = "model", .name = "probabilities",
   .help = "with --predict: add the probability of every class",
   .kind = &option_yes_no, .field = FIELD(probabilities)},
  {.group = "model", .name = "classify",
   .help = "predict the digits in each picture named at the end",
   .kind = &option_yes_no, .field = FIELD(classify)},
  {.group = "model", .name = "confidence", .argument = "P", .initial = "0.5",
   .help = "with --classify: an answer less likely than P is unsure",
   .kind = &option_number, .field = FIELD(confidence), .low = 0, .high = 1},
  {.group = "model", .name = "json",
   .help = "with --classify: print a line of JSON per picture",
   .kind = &option_yes_no, .field = FIELD(json)},
  {.group = "model", .name = "show", .argument = "FILE",
   .help = "with --classify: draw the pictures and what the network saw of them as a PNG",
   .kind = &option_path, .field = FIELD(show)},

  {.group = "other", .name = "tune", .argument = "FILE",
   .help = "only look for a learning rate: draw the loss as the rate grows over an epoch as a PNG",
   .kind = &option_path, .field = FIELD(tune)},
  {.group = "other", .name = "dry-run", .help = "print the options as a configuration file and exit",
   .kind = &option_yes_no, .field = FIELD(dry_run)},
  {.group = "other", .name = "config", .letter = 'c', .argument = "FILE",
   .help = "read options from FILE, or a preset like mnist.conf; the command line wins",
   .kind = &option_path, .field = FIELD(config)},
  OPTION_HELP("other"), OPTION_VERSION("other")
};
/* clang-format on */

enum { ROWS = sizeof table / sizeof table[0] };

const OptionTable options_table = {
    .program = "mlp-train",
    .usage = "Usage: mlp-train [OPTION]...\n"
             "       mlp-train --load FILE --evaluate\n"
             "       mlp-train --load FILE --predict FILE [--output FILE]\n"
             "       mlp-train --load FILE --classify PICTURE...\n"
             "Trains a multilayer perceptron on rows of pixels in a CSV file, or evaluates a\n"
             "saved one and predicts with it. Defaults are in [brackets].\n",
    .notes = "A file for --config has the groups above as [sections] and the long names of\n"
             "the options as keys; configs/mnist.conf holds the defaults.\n"
             "Level epoch of --fusion needs two hidden layers, the second of at most 120, and\n"
             "batches of at most 64; auto takes the fastest level that is possible.\n"
             "A run that is interrupted is saved in the file of --save, and --resume continues\n"
             "it as if it had never stopped.\n"
             "Exit status: 0 for success, 1 for a failure, 2 for wrong usage, 130 or 143 when\n"
             "interrupted.\n",
    .rows = table,
    .count = ROWS};

bool options_is_saved(const OptionRow *row) {
  return strcmp(row->group, "output") != 0 && strcmp(row->group, "model") != 0;
}

double options_hold_out(const Options *options) {
  const double share = option_share(options->validation);
  return share > 0 ? share : 0;
}

const char *options_validation_file(const Options *options) {
  return isnan(option_share(options->validation)) ? options->validation : NULL;
}

const char *options_test_file(const Options *options) {
  return strcmp(options->test, "none") == 0 ? NULL : options->test;
}

void options_default(Options *options) {
  memset(options, 0, sizeof *options);
  option_table_default(&options_table, options);
}

/* ---- the configuration file --------------------------------------------------------------- */

typedef struct {
  const char *path;
  FILE *file;
  int line;     /* last read, from 1 */
  int bad_line; /* of the first error that we found, 0: none */
  bool seen[ROWS];
  bool is_saved; /* the options of a saved run, in memory */
  Options *options;
  Error *error;
} ConfigFile;

static bool config_error(ConfigFile *config, int line, const char *sentence) {
  config->bad_line = line;
  return error_set(config->error, "%s:%d: %s", config->path, line, sentence);
}

/* inih's reader. It trims what a line starts with: to inih an indented line continues the value
   above, to us it is a line like any other. */
static char *read_line(char *line, int size, void *context) {
  ConfigFile *config = context;
  if (config->bad_line || !fgets(line, size, config->file)) return NULL;
  config->line++;
  if (!strchr(line, '\n') && !feof(config->file)) {
    config_error(config, config->line, "the line is too long");
    return NULL;
  }
  const char *start = line + strspn(line, " \t"), *carriage = strchr(line, '\r');
  if (carriage && carriage[1] && carriage[1] != '\n') {
    config_error(config, config->line,
                 "lines must end with a line feed, not with a carriage return");
    return NULL;
  }
  const char *end = *start == '[' ? strchr(start, ']') : NULL;
  if (end && !strchr("\r\n;#", end[1 + strspn(end + 1, " \t")])) {
    config_error(config, config->line,
                 "a key belongs on a line of its own, after that of its section");
    return NULL;
  }
  memmove(line, start, strlen(start) + 1);
  return line;
}

/* Says which key the name may have meant. */
static bool suggest_key(const char *name, Error *error) {
  Nearest nearest;
  nearest_start(&nearest, name);
  for (size_t i = 0; i < ROWS; i++)
    if (table[i].initial) nearest_try(&nearest, table[i].name);
  return nearest_append(&nearest, "", error);
}

/* inih's handler of `key = value`; 0 is failure. */
static int set_key(void *context, const char *section, const char *key, const char *value) {
  ConfigFile *config = context;
  Error error;
  size_t row = 0;
  while (row < ROWS && !(table[row].initial && strcmp(table[row].name, key) == 0)) row++;
  if (row == ROWS) {
    error_set(&error, "unknown key '%s'", key);
    suggest_key(key, &error);
  } else if (strcmp(table[row].group, section) != 0)
    error_set(&error, "'%s' belongs in section [%s], not [%s]", key, table[row].group, section);
  else if (config->is_saved && !options_is_saved(&table[row]))
    error_set(&error, "'%s' is not an option of a saved run", key);
  else if (config->seen[row])
    error_set(&error, "'%s' is given twice", key);
  else if ((!*value && !*table[row].initial) || /* no value, as the default */
           table[row].kind->set(&table[row], value, config->options, &error))
    return config->seen[row] = true;
  return config_error(config, config->line, error.text);
}

/* Closes the file. */
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

/* A name without a folder that is not in the working folder is one of the presets: beside the
   program in a checkout, under its prefix where it is installed. */
static FILE *open_config(const char *path) {
  static const char *const folders[] = {"configs", "../share/mlp-train/configs"};
  char program[OPTIONS_PATH], preset[3 * OPTIONS_PATH];
  FILE *file = fopen(path, "r");
  if (file || errno != ENOENT || strchr(path, '/')) return file;
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  program[length > 0 ? length : 0] = '\0';
  char *slash = strrchr(program, '/');
  for (size_t i = 0; slash && !file && i < sizeof folders / sizeof *folders; i++) {
    snprintf(preset, sizeof preset, "%.*s/%s/%s", (int)(slash - program), program, folders[i],
             path);
    file = fopen(preset, "r");
  }
  if (!file) errno = ENOENT;
  return file;
}

bool options_read_file(Options *options, const char *path, Error *error) {
  FILE *file = open_config(path);
  if (!file) return error_set(error, "cannot open %s: %s", path, strerror(errno));
  return read_config(options, file, path, false, error);
}

bool options_read_text(Options *options, const char *text, const char *name, Error *error) {
  if (!*text) return true; /* fmemopen takes no empty text */
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  FILE *file = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
  if (!file) return error_set(error, "cannot read the options in %s: %s", name, strerror(errno));
  return read_config(options, file, name, true, error);
}

void options_print_config(FILE *file, const Options *options, bool whole) {
  const char *group = "";
  for (size_t i = 0; i < ROWS; i++) {
    const OptionRow *row = &table[i];
    char value[OPTIONS_PATH];
    if (!row->initial || !(whole || options_is_saved(row))) continue;
    row->kind->get(row, options, value, sizeof value);
    if (strcmp(row->group, group) != 0) fprintf(file, "%s[%s]\n", *group ? "\n" : "", row->group);
    group = row->group;
    fprintf(file, "%s =%s%s\n", row->name, *value ? " " : "", value);
  }
}

bool options_can_be_saved(const Options *options, Error *error) {
  for (size_t i = 0; i < ROWS; i++) {
    const OptionRow *row = &table[i];
    char value[OPTIONS_PATH];
    if (!row->initial || !options_is_saved(row)) continue;
    row->kind->get(row, options, value, sizeof value);
    const size_t room = OPTIONS_LINE - strlen(row->name) - strlen(" = ");
    if (strlen(value) > room)
      return error_set(error,
                       "--%s is a name of %zu bytes, but a saved run can hold only %zu: use a "
                       "link or another folder",
                       row->name, strlen(value), room);
  }
  return true;
}

/* ---- the command line --------------------------------------------------------------------- */

static OptionsResult parse_command_line(int argc, char **argv, Options *options, Error *error) {
  int first = argc;
  const OptionsResult result =
      option_table_parse(&options_table, argc, argv, options, &first, error);
  options->command = argv[0];
  options->words = argv;
  options->word_count = argc;
  options->pictures = argv + first;
  options->picture_count = argc - first;
  return result;
}

/* --ensemble trains new networks, and writes these alone. */
static bool check_ensemble(const Options *o, Error *error) {
  const char *other = o->resume[0]      ? "resume"
                      : o->tune[0]      ? "tune"
                      : o->early_stop   ? "early-stop"
                      : o->log[0]       ? "log"
                      : o->plot[0]      ? "plot"
                      : o->weights[0]   ? "weights"
                      : o->mistakes[0]  ? "mistakes"
                      : o->confusion[0] ? "confusion"
                                        : NULL;
  return !o->ensemble || o->load.count > 0 || !other ||
         error_set(error, "--ensemble trains and saves several new networks: leave out --%s",
                   other);
}

/* --tune saves and writes nothing but its picture. */
static bool check_tune(const Options *o, Error *error) {
  const char *other = o->load.count > 0 ? "load"
                      : o->resume[0]    ? "resume"
                      : o->save[0]      ? "save"
                      : o->log[0]       ? "log"
                      : o->plot[0]      ? "plot"
                      : o->weights[0]   ? "weights"
                      : o->mistakes[0]  ? "mistakes"
                      : o->confusion[0] ? "confusion"
                                        : NULL;
  if (!o->tune[0]) return true;
  if (other)
    return error_set(error, "--tune only looks for a learning rate: leave out --%s", other);
  return o->resident != RESIDENT_NO ||
         error_set(error, "--tune trains on rows that stay on the device: leave out --resident no");
}

static bool drops(const Options *o) {
  for (int i = 0; i < o->training.dropout.count; i++)
    if (o->training.dropout.share[i] > 0) return true;
  return false;
}

static bool check_dropout(const Options *o, Error *error) {
  const int shares = o->training.dropout.count, layers = o->hidden.count;
  if (!drops(o) || shares == layers || (shares == 1 && layers > 0)) return true;
  return error_set(error, "--dropout has %d value%s, but --hidden has %d layer%s", shares,
                   shares == 1 ? "" : "s", layers, layers == 1 ? "" : "s");
}

/* Levels epoch and exercise have the plain step alone. */
static bool check_level(const Options *o, Error *error) {
  const bool scales = o->training.pixels.max < 255 && o->training.pixels.max != OPTIONS_AUTO;
  const char *other = o->training.fusion == FUSION_EPOCH && scales ? "pixel-max"
                      : o->training.fusion == FUSION_EPOCH && o->training.pixels.mean != 0 ? "mean"
                      : o->training.fusion == FUSION_EPOCH && o->training.pixels.std != 1  ? "std"
                      : o->training.rule.kind != OPTIMIZER_SGD ? "optimizer"
                      : o->training.label_smoothing > 0        ? "label-smoothing"
                      : drops(o)                               ? "dropout"
                      : o->training.ema > 0                    ? "ema"
                                                               : NULL;
  if (!other || (o->training.fusion != FUSION_EPOCH && o->training.fusion != FUSION_EXERCISE))
    return true;
  return error_set(error, "--fusion %s has no --%s: use --fusion step",
                   options_fusions[o->training.fusion], other);
}

/* Options that need each other, or exclude each other. */
static OptionsResult check_usage(const Options *o, Error *error) {
  const int uses = o->evaluate + (o->predict[0] != 0) + o->classify;
  bool good = check_tune(o, error) && check_ensemble(o, error);
  if (!good) return OPTIONS_USAGE;
  if (uses > 1)
    good = error_set(error, "--evaluate, --predict and --classify cannot be combined: use one");
  else if (uses && o->load.count == 0)
    good = error_set(error, "--%s needs a network: add --load FILE",
                     o->evaluate   ? "evaluate"
                     : o->classify ? "classify"
                                   : "predict");
  else if (!uses && o->load.count > 0)
    good = error_set(error, "--load needs --evaluate, --predict or --classify; to continue "
                            "training use --resume");
  else if (o->load.count > 1 && o->weights[0])
    good = error_set(error, "--weights draws one network: give it one --load");
  else if (o->resume[0] && o->load.count > 0)
    good = error_set(error, "--resume and --load cannot be combined: --resume continues training, "
                            "--load uses a trained network");
  else if (!o->predict[0] && (o->output[0] || o->probabilities))
    good = error_set(error, "--%s needs --predict FILE", o->output[0] ? "output" : "probabilities");
  else if (o->device == DEVICE_CPU && o->training.fusion != FUSION_AUTO &&
           o->training.fusion != FUSION_LAYER)
    good = error_set(error, "--fusion %s needs a GPU: --device cpu has level layer alone",
                     options_fusions[o->training.fusion]);
  else if (!check_dropout(o, error) || !check_level(o, error))
    good = false;
  else if (!o->classify && (o->json || o->show[0]))
    good = error_set(error, "--%s needs --classify PICTURE...", o->json ? "json" : "show");
  else if (o->classify && o->picture_count == 0)
    good = error_set(error, "--classify needs the names of pictures at the end of the command");
  else if (!o->classify && o->picture_count > 0)
    good = error_set(error, "unexpected argument '%s'", o->pictures[0]);
  return good ? OPTIONS_RUN : OPTIONS_USAGE;
}

OptionsResult options_parse(int argc, char **argv, Options *options, Error *error) {
  const Options before = *options;
  OptionsResult result = parse_command_line(argc, argv, options, error);
  if (result == OPTIONS_RUN && options->config[0]) { /* again: it wins over the file */
    char path[OPTIONS_PATH];
    strcpy(path, options->config);
    *options = before;
    if (!options_read_file(options, path, error)) return OPTIONS_FAILURE;
    result = parse_command_line(argc, argv, options, error);
  }
  return result == OPTIONS_RUN ? check_usage(options, error) : result;
}
