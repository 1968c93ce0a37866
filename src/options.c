#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <ini.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- setters: one a kind of value --------------------------------------------------------- */

static void *field_of(const OptionRow *row, Options *options) {
  return (char *)options + row->field;
}

static bool parse_whole(const OptionRow *row, const char *value, uint64_t *whole, Error *error) {
  char *end = NULL;
  *whole = strtoull(value, &end, 10); /* too great is ULLONG_MAX: above every limit */
  if (isdigit((unsigned char)value[0]) && !*end && (double)*whole >= row->low &&
      (double)*whole <= row->high)
    return true;
  return error_set(error, "--%s wants a whole number from %.0f to %.0f, not '%s'", row->name,
                   row->low, row->high, value);
}

static bool set_int(const OptionRow *row, const char *value, Options *options, Error *error) {
  uint64_t whole;
  if (!parse_whole(row, value, &whole, error)) return false;
  *(int *)field_of(row, options) = (int)whole;
  return true;
}

static bool set_seed(const OptionRow *row, const char *value, Options *options, Error *error) {
  uint64_t whole;
  if (!parse_whole(row, value, &whole, error)) return false;
  *(uint64_t *)field_of(row, options) = whole;
  return true;
}

static bool set_float(const OptionRow *row, const char *value, Options *options, Error *error) {
  char *end = NULL;
  errno = 0;
  const float number = strtof(value, &end);
  if (value[0] && !isspace((unsigned char)value[0]) && !*end && !errno && isfinite(number) &&
      (double)number >= row->low && (double)number <= row->high) {
    *(float *)field_of(row, options) = number;
    return true;
  }
  return error_set(error, "--%s wants a number from %g to %g, not '%s'", row->name, row->low,
                   row->high, value);
}

static bool set_yes_no(const OptionRow *row, const char *value, Options *options, Error *error) {
  const bool yes = strcmp(value, "yes") == 0;
  if (!yes && strcmp(value, "no") != 0)
    return error_set(error, "--%s is yes or no in a file, not '%s'", row->name, value);
  *(bool *)field_of(row, options) = yes;
  return true;
}

/* "auto|cuda|cpu" */
static void join_choices(const OptionRow *row, char *text, size_t size) {
  size_t used = 0;
  for (int i = 0; row->choices[i] && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%s", i ? "|" : "", row->choices[i]);
}

static bool set_choice(const OptionRow *row, const char *value, Options *options, Error *error) {
  for (int i = 0; row->choices[i]; i++)
    if (strcmp(value, row->choices[i]) == 0) {
      *(int *)field_of(row, options) = i;
      return true;
    }
  char choices[128];
  join_choices(row, choices, sizeof choices);
  return error_set(error, "--%s wants %s, not '%s'", row->name, choices, value);
}

static bool set_path(const OptionRow *row, const char *value, Options *options, Error *error) {
  if (!value[0]) return error_set(error, "--%s wants the name of a file, not ''", row->name);
  if (strlen(value) >= OPTIONS_PATH)
    return error_set(error, "--%s wants a file's name of at most %d bytes, not %zu", row->name,
                     OPTIONS_PATH - 1, strlen(value));
  strcpy(field_of(row, options), value);
  return true;
}

static bool set_sizes(const OptionRow *row, const char *value, Options *options, Error *error) {
  OptionSizes sizes = {0};
  bool good = true;
  const char *next = strcmp(value, "none") == 0 ? NULL : value;
  while (good && next) {
    char *end = NULL;
    const unsigned long size = strtoul(next, &end, 10);
    good = isdigit((unsigned char)next[0]) && (!*end || *end == ',') && size >= 1 &&
           size <= NETWORK_MAX_HIDDEN && sizes.count < NETWORK_MAX_LAYERS - 1;
    if (good) sizes.size[sizes.count++] = (int)size;
    next = *end ? end + 1 : NULL;
  }
  if (!good)
    return error_set(error,
                     "--%s wants none, or 1 to %d sizes from 1 to %d with commas between, not '%s'",
                     row->name, NETWORK_MAX_LAYERS - 1, NETWORK_MAX_HIDDEN, value);
  *(OptionSizes *)field_of(row, options) = sizes;
  return true;
}

/* ---- the table ---------------------------------------------------------------------------- */

const char *const options_fusions[] = {"auto", "none", "layer", "step", "epoch", NULL};
static const char *const devices[] = {"auto", "cuda", "cpu", NULL};   /* DEVICE_... */
static const char *const residencies[] = {"auto", "yes", "no", NULL}; /* RESIDENT_... */

#define FIELD(name) offsetof(Options, name)

/* clang-format off */
static const OptionRow table[] = {
  {.group = "network", .name = "hidden", .argument = "SIZES", .initial = "300,100",
   .help = "sizes of the hidden layers, or none",
   .set = set_sizes, .field = FIELD(hidden)},
  {.group = "network", .name = "classes", .argument = "N", .initial = "10",
   .help = "labels are 0 to N - 1",
   .set = set_int, .field = FIELD(classes), .low = 2, .high = NETWORK_MAX_CLASSES},

  {.group = "training", .name = "epochs", .letter = 'e', .argument = "N", .initial = "10",
   .help = "passes over the training file",
   .set = set_int, .field = FIELD(epochs), .low = 1, .high = 1000000},
  {.group = "training", .name = "batch", .letter = 'b', .argument = "ROWS", .initial = "64",
   .help = "rows of a training step",
   .set = set_int, .field = FIELD(batch), .low = 1, .high = 65536},
  {.group = "training", .name = "lr", .letter = 'l', .argument = "RATE", .initial = "0.05",
   .help = "learning rate of the first epoch",
   .set = set_float, .field = FIELD(lr), .low = 0, .high = 100},
  {.group = "training", .name = "momentum", .argument = "M", .initial = "0.9",
   .help = "part of the last update that is made again",
   .set = set_float, .field = FIELD(momentum), .low = 0, .high = 1},
  {.group = "training", .name = "weight-decay", .argument = "D", .initial = "0",
   .help = "pull of the weights towards 0, biases left alone",
   .set = set_float, .field = FIELD(weight_decay), .low = 0, .high = 1},
  {.group = "training", .name = "lr-decay", .argument = "FACTOR", .initial = "0.8",
   .help = "factor of the learning rate after each epoch",
   .set = set_float, .field = FIELD(lr_decay), .low = 0, .high = 1},
  {.group = "training", .name = "seed", .letter = 's', .argument = "N", .initial = "1",
   .help = "of the first weights and the rows' order",
   .set = set_seed, .field = FIELD(seed), .low = 0, .high = UINT32_MAX},

  {.group = "data", .name = "train", .argument = "FILE", .initial = "data/mnist_train.csv",
   .help = "CSV to train on, label first",
   .set = set_path, .field = FIELD(train)},
  {.group = "data", .name = "test", .argument = "FILE", .initial = "data/mnist_test.csv",
   .help = "CSV to test on after each epoch",
   .set = set_path, .field = FIELD(test)},
  {.group = "data", .name = "resident", .argument = "WHEN", .initial = "auto",
   .help = "keep all rows on the device; no: stream them",
   .set = set_choice, .field = FIELD(resident), .choices = residencies},

  {.group = "device", .name = "device", .letter = 'd', .argument = "NAME", .initial = "auto",
   .help = "auto is a CUDA GPU if there is one",
   .set = set_choice, .field = FIELD(device), .choices = devices},
  {.group = "device", .name = "fusion", .letter = 'f', .argument = "LEVEL", .initial = "auto",
   .help = "what a GPU launch holds",
   .set = set_choice, .field = FIELD(fusion), .choices = options_fusions},
  {.group = "device", .name = "threads", .letter = 't', .argument = "N", .initial = "0",
   .help = "of the CPU, 0: one a core",
   .set = set_int, .field = FIELD(threads), .low = 0, .high = 1024},

  {.group = "output", .name = "quiet", .letter = 'q', .initial = "no",
   .help = "print the last epoch's line alone",
   .set = set_yes_no, .field = FIELD(quiet)},

  {.group = "other", .name = "config", .letter = 'c', .argument = "FILE",
   .help = "read options from FILE; the command line wins",
   .set = set_path, .field = FIELD(config)},
  {.group = "other", .name = "help", .letter = 'h', .help = "print this and exit"},
  {.group = "other", .name = "version", .help = "print the version and exit"},
};
/* clang-format on */

enum { ROWS = sizeof table / sizeof table[0] };

const OptionRow *options_table(size_t *count) {
  *count = ROWS;
  return table;
}

void options_default(Options *options) {
  memset(options, 0, sizeof *options);
  for (size_t i = 0; i < ROWS; i++)
    if (table[i].initial) table[i].set(&table[i], table[i].initial, options, NULL);
}

/* ---- the configuration file --------------------------------------------------------------- */

typedef struct {
  const char *path;
  FILE *file;
  int line;     /* last read, from 1 */
  int bad_line; /* of the first error that we found, 0: none */
  bool seen[ROWS];
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
  const char *start = line + strspn(line, " \t");
  memmove(line, start, strlen(start) + 1);
  return line;
}

/* inih's handler of `key = value`; 0 is failure. */
static int set_key(void *context, const char *section, const char *key, const char *value) {
  ConfigFile *config = context;
  Error error;
  size_t row = 0;
  while (row < ROWS && !(table[row].initial && strcmp(table[row].name, key) == 0)) row++;
  if (row == ROWS)
    error_set(&error, "there is no key '%s'", key);
  else if (strcmp(table[row].group, section) != 0)
    error_set(&error, "'%s' belongs in section [%s], not [%s]", key, table[row].group, section);
  else if (config->seen[row])
    error_set(&error, "'%s' is given a second time", key);
  else if (table[row].set(&table[row], value, config->options, &error))
    return config->seen[row] = true;
  return config_error(config, config->line, error.text);
}

bool options_read_file(Options *options, const char *path, Error *error) {
  ConfigFile config = {.path = path, .file = fopen(path, "r"), .options = options, .error = error};
  if (!config.file) return error_set(error, "cannot open %s: %s", path, strerror(errno));
  errno = 0;
  const int bad_line = ini_parse_stream(read_line, &config, set_key, &config);
  const int reading = ferror(config.file) ? errno : 0;
  fclose(config.file);
  if (reading) return error_set(error, "cannot read %s: %s", path, strerror(reading));
  if (bad_line && bad_line != config.bad_line)
    return config_error(&config, bad_line, "the line is no [section], key = value or # comment");
  return !config.bad_line;
}

/* ---- the command line --------------------------------------------------------------------- */

/* What getopt_long returns for a row. */
static int code_of(const OptionRow *row) {
  return row->letter ? row->letter : 256 + (int)(row - table);
}

static const OptionRow *row_of(int code) {
  for (size_t i = 0; i < ROWS; i++)
    if (code_of(&table[i]) == code) return &table[i];
  return NULL;
}

/* The sentence for getopt_long's '?' and ':'. optopt is the row's code or an unknown letter,
   0 for an unknown long name. */
static OptionsResult wrong_usage(bool missing, char *const *argv, Error *error) {
  const OptionRow *row = row_of(optopt);
  if (row && missing)
    error_set(error, "--%s wants an argument", row->name);
  else if (row)
    error_set(error, "--%s takes no argument", row->name);
  else if (optopt)
    error_set(error, "there is no option '-%c'", optopt);
  else
    error_set(error, "there is no option '%s'", argv[optind - 1]);
  return OPTIONS_USAGE;
}

static OptionsResult parse_command_line(int argc, char **argv, Options *options, Error *error) {
  struct option names[ROWS + 1] = {{0}};
  char letters[2 * ROWS + 2] = ":"; /* a missing argument is ':', not '?' */
  size_t used = 1;
  for (size_t i = 0; i < ROWS; i++) {
    const bool argument = table[i].argument != NULL;
    names[i] = (struct option){.name = table[i].name,
                               .has_arg = argument ? required_argument : no_argument,
                               .val = code_of(&table[i])};
    if (table[i].letter) letters[used++] = table[i].letter;
    if (table[i].letter && argument) letters[used++] = ':';
  }
  opterr = 0;
  optind = 0; /* start anew */
  for (int code; (code = getopt_long(argc, argv, letters, names, NULL)) != -1;) {
    if (code == '?' || code == ':') return wrong_usage(code == ':', argv, error);
    const OptionRow *row = row_of(code);
    if (!row->set) return strcmp(row->name, "help") == 0 ? OPTIONS_HELP : OPTIONS_VERSION;
    if (!row->set(row, row->argument ? optarg : "yes", options, error)) return OPTIONS_USAGE;
  }
  if (optind == argc) return OPTIONS_RUN;
  error_set(error, "'%s' is no option", argv[optind]);
  return OPTIONS_USAGE;
}

OptionsResult options_parse(int argc, char **argv, Options *options, Error *error) {
  options_default(options);
  const OptionsResult result = parse_command_line(argc, argv, options, error);
  if (result != OPTIONS_RUN || !options->config[0]) return result;
  if (!options_read_file(options, options->config, error)) return OPTIONS_FAILURE;
  return parse_command_line(argc, argv, options, error); /* again: it wins over the file */
}

/* ---- help --------------------------------------------------------------------------------- */

static void print_row(FILE *file, const OptionRow *row) {
  char left[64], choices[128] = "";
  snprintf(left, sizeof left, "%c%c%c --%s %s", row->letter ? '-' : ' ',
           row->letter ? row->letter : ' ', row->letter ? ',' : ' ', row->name,
           row->argument ? row->argument : "");
  if (row->choices) join_choices(row, choices, sizeof choices);
  fprintf(file, "  %-23s %s%s%s", left, choices, row->choices ? ": " : "", row->help);
  if (row->initial && row->argument) fprintf(file, " [%s]", row->initial);
  fputc('\n', file);
}

void options_print_help(FILE *file) {
  fputs("Usage: ./mlp-train [OPTION]...\n"
        "Trains a multilayer perceptron on rows of pixels in a CSV file. [Defaults] in brackets.\n",
        file);
  for (size_t i = 0; i < ROWS; i++) {
    if (i == 0 || strcmp(table[i].group, table[i - 1].group) != 0)
      fprintf(file, "\n%s:\n", table[i].group);
    print_row(file, &table[i]);
  }
  fputs("\nA file for --config has the groups as [sections] and the long names as keys:\n"
        "configs/mnist.conf is the defaults. Exit status: 0, 1 for a failure, 2 for wrong usage.\n",
        file);
}
