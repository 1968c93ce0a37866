/* The table of options of mlp-train. */
#include <math.h>
#include <string.h>

#include "cli/options.h"

const char *const options_optimizers[] = {[OPTIMIZER_SGD] = "sgd",
                                          [OPTIMIZER_NESTEROV] = "nesterov",
                                          [OPTIMIZER_ADAM] = "adam",
                                          [OPTIMIZER_ADAMW] = "adamw",
                                          [OPTIMIZERS] = NULL};
/* --lr auto with batches from 16 on. */
static const float rates[] = {[OPTIMIZER_SGD] = 0.05F,
                              [OPTIMIZER_NESTEROV] = 0.05F,
                              [OPTIMIZER_ADAM] = 0.001F,
                              [OPTIMIZER_ADAMW] = 0.001F};
_Static_assert(LENGTH(rates) == OPTIMIZERS, "every optimizer has a rate");
static const char *const precisions[] = {"fp32", "tf32", NULL}; /* in training.h's order */
static const char *const schedules[] = {"step", "constant", "cosine", "linear", NULL};
static const char *const augmentations[] = {"shift", "rotate", "scale", "shear", "elastic", NULL};
static const char *const monitors[] = {"accuracy", "loss", NULL};     /* MONITOR_... */
static const char *const devices[] = {"auto", "cuda", "cpu", NULL};   /* DEVICE_... */
static const char *const residencies[] = {"auto", "yes", "no", NULL}; /* RESIDENT_... */

/* Below a batch of 16 momentum's usual rate learns nothing. MNIST's accuracy after an epoch with
   batches of 1, 4 and 8 was best, 95.4 to 95.6%, with 0.05 batch / 64 of the rates tried; adam's
   with batches of 1 was 95.7% with a quarter of its usual rate, and 92.2% with the whole. */
float options_auto_rate(const Training *t) {
  const float rate = rates[t->rule.kind], batch = (float)t->batch;
  return t->batch >= 16                       ? rate
         : optimizer_has_second(t->rule.kind) ? rate * sqrtf(batch / 16)
                                              : rate * batch / 64;
}

/* A row of the table: long name, argument, default, kind, field; who takes it, what --resume makes
   of it; the help, and behind that what its value may be, its letter, and the group that begins. */
#define NAMED(NAME, ARGUMENT, INITIAL, KIND, FIELD, TAKERS, RESUME, ...)                           \
  OPTION_ROW(Options, NAME, ARGUMENT, INITIAL, KIND, FIELD, __VA_ARGS__, .takers = (TAKERS),       \
             .resume = (RESUME))

/* Rows whose field has the option's name: a setting of training; any other option; one without
   argument, and a file that is written, which one run has. */
#define SETTING(FIELD, ARGUMENT, INITIAL, KIND, ...)                                               \
  NAMED(#FIELD, ARGUMENT, INITIAL, KIND, training.FIELD, __VA_ARGS__)
#define ROW(FIELD, ARGUMENT, INITIAL, KIND, ...)                                                   \
  NAMED(#FIELD, ARGUMENT, INITIAL, KIND, FIELD, __VA_ARGS__)
#define FLAG(FIELD, TAKERS, ...) ROW(FIELD, NULL, NULL, option_yes_no, TAKERS, ONE_RUN, __VA_ARGS__)
#define OUTPUT(FIELD, INITIAL, TAKERS, ...)                                                        \
  ROW(FIELD, "FILE", INITIAL, option_path, TAKERS, ONE_RUN, __VA_ARGS__)

/* The values that a row allows; for a file its role, too, and how its name ends. */
#define GROUP(NAME) .group = (NAME)
#define SHORT(LETTER) .letter = (LETTER)
#define RANGE(LOW, HIGH) .low = (LOW), .high = (HIGH)
#define CHOICES(NAMES) .choices = (NAMES)
#define READS(ENDINGS) .file = FILE_INPUT, .endings = (ENDINGS)
#define READS_OR_SHARE(ENDINGS, HIGH) READS(ENDINGS), .high = (HIGH)
#define WRITES(ENDINGS) .file = FILE_OUTPUT, .endings = (ENDINGS)
#define EXCLUDES(WHY, ...) .because = (WHY), .excludes = {__VA_ARGS__}
#define WRITES_EVEN_BARE(ENDINGS) WRITES(ENDINGS), .may_lack_ending = true

/* clang-format off */
static const OptionRow table[] = {
  SETTING(hidden, "SIZES", "300,100", option_sizes, TRAINING, RESUME_FREE,
      "sizes of the hidden layers, or none",
      GROUP("network")),
  SETTING(classes, "N", "10", option_whole, TRAINING, RESUME_FREE,
      "number of classes; labels are 0 to N - 1",
      RANGE(2, NETWORK_MAX_CLASSES)),
  ROW(names, "FILE", "", option_list_or_path, ALL & ~FOR_SEEDS, ONE_RUN,
      "names of the classes, one on each line, or a list with commas; they are kept with the network",
      READS("txt")),

  SETTING(epochs, "N", "10", option_whole, TRAINING, RESUME_FREE,
      "passes over the training file",
      RANGE(1, 1000000), SHORT('e'), GROUP("training")),
  SETTING(batch, "ROWS", "64", option_whole, TRAINING, RESUME_EPOCH,
      "rows per training step",
      RANGE(1, 65536), SHORT('b')),
  NAMED("lr", "RATE", "auto", option_number_or_auto, training.schedule.rate, TRAINING, RESUME_FREE,
      "initial learning rate; auto: 0.05 for sgd and nesterov, 0.001 for adam and adamw, and less if "
      "--batch is below 16",
      RANGE(0, 100), SHORT('l')),
  NAMED("optimizer", "KIND", "sgd", option_choice, training.rule.kind, NO_PLAIN_STEP, RESUME_SAME,
      "rule that updates the weights",
      CHOICES(options_optimizers)),
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
  NAMED("label-smoothing", "E", "0", option_number, training.label_smoothing, NO_PLAIN_STEP, RESUME_FREE,
      "share of a training row's target that all classes have equally",
      RANGE(0, 0.9)),
  SETTING(dropout, "P", "0", option_shares, NO_PLAIN_STEP, RESUME_FREE,
      "share of a hidden layer's activations that a training step drops; or a share for each of "
      "these layers",
      RANGE(0, 0.95)),
  SETTING(ema, "D", "0", option_number, NO_PLAIN_STEP, RESUME_FREE,
      "use an average of the weights, which keeps D of itself in each step",
      RANGE(0, 0.99999)),
  NAMED("lr-decay", "FACTOR", "0.8", option_number, training.schedule.decay, TRAINING, RESUME_FREE,
      "multiplies the learning rate after each epoch, but not of a warm-up",
      RANGE(0, 1)),
  NAMED("lr-schedule", "KIND", "step", option_choice, training.schedule.kind, TRAINING, RESUME_FREE,
      "how the learning rate falls; step uses --lr-decay",
      CHOICES(schedules)),
  NAMED("warmup", "EPOCHS", "0", option_whole, training.schedule.warmup, TRAINING, RESUME_FREE,
      "first epochs, in which the learning rate rises",
      RANGE(0, 1000000)),
  NAMED("early-stop", "N", "0", option_whole, training.early_stop, ONE_RUN_ALONE, RESUME_FREE,
      "epochs to wait for a better test-acc or val-acc; 0: forever",
      RANGE(0, 1000000)),
  SETTING(monitor, "WHAT", "accuracy", option_choice, ONE_RUN_ALONE, RESUME_FREE,
      "what --early-stop and the best epoch go by",
      CHOICES(monitors)),
  SETTING(augment, "LIST", "none", option_strengths, TRAINING, RESUME_EPOCH,
      "augment the training rows, differently in every epoch; NAME=S: up to strength S",
      CHOICES(augmentations)),
  SETTING(seed, "N", "1", option_whole64, TRAINING, RESUME_ROWS,
      "sets the initial weights and the order of rows",
      RANGE(0, UINT32_MAX), SHORT('s')),
  ROW(ensemble, "N", NULL, option_whole, ONE_RUN_ALONE | FOR_ENSEMBLE, ONE_RUN,
      "train N networks, of this seed and those after it, and judge their committee",
      RANGE(1, ENSEMBLE_MAX)),
  ROW(seeds, "N", NULL, option_whole, ONE_RUN_ALONE | FOR_SEEDS, ONE_RUN,
      "train N networks, of this seed and those after it, to see what chance makes of them",
      RANGE(1, ENSEMBLE_MAX)),
  ROW(sweep, "LIST", NULL, option_name, ONE_RUN_ALONE | FOR_SWEEP, ONE_RUN,
      "find the best of lr=0.01:0.2:log,momentum=0.8,0.9 and other options, by validation rows"),
  ROW(trials, "N", NULL, option_whole, FOR_SWEEP | LEVELS, ONE_RUN,
      "with --sweep: combinations to try; the best third of them goes on to more epochs",
      RANGE(1, TRIALS_MOST)),

  ROW(train, "FILE", "data/mnist_train.csv", option_path, TRAINING, RESUME_ROWS,
      "CSV file to train on",
      READS("csv csv.gz"), GROUP("data")),
  ROW(test, "FILE", "auto", option_path_or_none, TRAINING | ROWS_WITH_LABELS, RESUME_FREE,
      "CSV file to test on after each epoch, or at the end with --validation; or none; auto: "
      "data/mnist_test.csv where --train is MNIST's; for a saved network its run's",
      READS("csv csv.gz")),
  ROW(validation, "FILE", "0", option_share_or_path, TRAINING, RESUME_ROWS,
      "CSV file to judge by after each epoch instead of --test, or a share of the training rows to "
      "hold out for that",
      READS_OR_SHARE("csv", 0.9)),
  NAMED("label-column", "C", "", option_name, label_column, TRAINING | ROWS_WITH_LABELS | FOR_PREDICT, RESUME_ROWS,
      "column of the labels: a number from 1, a name of the header, or last [the header's label, "
      "class, target, digit or y, else the first]"),
  NAMED("pixel-max", "V", "255", option_whole_or_auto, training.pixels.max, ALL, RESUME_SAME,
      "pixel that is 1 to the network; or auto: the largest of the training rows",
      RANGE(1, 255)),
  NAMED("mean", "M", "0", option_number, training.pixels.mean, ALL, RESUME_SAME,
      "taken from each pixel after that",
      RANGE(-100, 100)),
  NAMED("std", "S", "1", option_number, training.pixels.std, ALL, RESUME_SAME,
      "divisor of each pixel after that",
      RANGE(1e-6, 1e6)),
  SETTING(resident, "WHEN", "auto", option_choice, TRAINING, RESUME_EPOCH,
      "whether all rows stay on the device; else they are streamed every epoch",
      CHOICES(residencies)),

  ROW(device, "NAME", "auto", option_choice, ALL, RESUME_FREE,
      "where to train; auto: a CUDA GPU if one works, else the CPU",
      CHOICES(devices), SHORT('d'), GROUP("device")),
  NAMED("device-memory", "MB", "0", option_megabytes, training.device_memory, ALL, RANKS_FREE,
      "GPU memory to use at most; 0: no limit",
      RANGE(0, 1000000000)),
  SETTING(fusion, "LEVEL", "auto", option_choice, ALL, RESUME_FREE,
      "level of kernel fusion on a GPU; auto: the fastest",
      CHOICES(training_fusions), SHORT('f')),
  SETTING(precision, "P", "fp32", option_choice, ALL, RESUME_FREE,
      "precision of matrix products at fusion levels layer and step",
      CHOICES(precisions)),
  SETTING(threads, "N", "0", option_whole, ALL, RANKS_FREE,
      "CPU threads; 0: one per core",
      RANGE(0, 1024), SHORT('t')),

  ROW(quiet, NULL, "no", option_yes_no, ALL, ONE_RUN,
      "print only the last epoch",
      SHORT('q'), GROUP("output")),
  OUTPUT(log, "", ONE_RUN_ALONE | FOR_SEEDS,
      "write one line per epoch to FILE, .jsonl or .csv",
      WRITES("jsonl csv")),
  OUTPUT(plot, "", ONE_RUN_ALONE | FOR_SEEDS | FOR_SWEEP,
      "draw loss and accuracy over the epochs as a PNG",
      WRITES("png")),
  OUTPUT(weights, "", ONE_RUN_ALONE | ROWS_WITH_LABELS,
      "draw the filters of the first layer as a PNG",
      WRITES("png")),
  OUTPUT(mistakes, "", ONE_RUN_ALONE | ROWS_WITH_LABELS,
      "draw the most confidently wrong test or validation rows as a PNG",
      WRITES("png")),
  OUTPUT(confusion, "", ONE_RUN_ALONE | ROWS_WITH_LABELS,
      "draw the confusion matrix of the test or validation rows as a PNG",
      WRITES("png")),
  OUTPUT(html, "", ONE_RUN_ALONE | ROWS_WITH_LABELS,
      "write a web page on which one draws digits for the network, with mistakes of it on those rows",
      WRITES("html")),

  OUTPUT(save, "", ONE_RUN_ALONE | FOR_ENSEMBLE,
      "save the network in FILE, in safetensors format",
      WRITES_EVEN_BARE("safetensors st"), GROUP("model")),
  ROW(resume, "FILE", NULL, option_path, ONE_RUN_ALONE, ONE_RUN,
      "continue the run saved in FILE, and save it there",
      READS("safetensors best st"), EXCLUDES("--resume goes on with the run that it saved", "load", "init")),
  ROW(init, "FILE", NULL, option_path, ONE_RUN_ALONE, ONE_RUN,
      "start from the weights in FILE, in epoch 1 and with a fresh optimizer",
      READS("safetensors best st")),
  ROW(load, "FILE", NULL, option_paths, (ALL & ~TRAINING) | LEVELS, ONE_RUN,
      "load the network in FILE, for one of the following; given more than once: average what "
      "several networks predict",
      READS("safetensors best st")),
  FLAG(evaluate, ALL,
      "evaluate the loaded network on --test",
      EXCLUDES("use one", "predict", "classify")),
  ROW(predict, "FILE", NULL, option_path, ALL, ONE_RUN,
      "predict the class of each row of a file, with or without labels",
      READS("csv csv.gz"), EXCLUDES("use one", "classify")),
  OUTPUT(output, NULL, FOR_PREDICT | LEVELS,
      "write the predictions to FILE [standard output]",
      WRITES_EVEN_BARE("csv jsonl")),
  FLAG(probabilities, FOR_PREDICT | LEVELS,
      "with --predict: add the probability of every class"),
  FLAG(classify, ALL,
      "predict the digits in each picture named at the end"),
  ROW(confidence, "P", "0.9", option_number, FOR_CLASSIFY | LEVELS, ONE_RUN,
      "with --classify: an answer less likely than P is unsure",
      RANGE(0, 1)),
  FLAG(json, (ALL & ~TRAINING & ~FOR_HTML) | LEVELS,
      "print a line of JSON per picture, per row, or of an evaluation"),
  OUTPUT(show, NULL, FOR_CLASSIFY | LEVELS,
      "with --classify: draw the pictures and what the network saw of them as a PNG",
      WRITES("png")),

  NAMED("dry-run", NULL, NULL, option_yes_no, dry_run, ALL, ONE_RUN,
      "print the options as a configuration file and exit",
      GROUP("other")),
  ROW(config, "FILE", NULL, option_path, ALL, ONE_RUN,
      "read options from FILE, or a preset like record.conf; the command line wins",
      READS("conf"), SHORT('c')),

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
             "or not, or evaluates a saved one and predicts with it. Defaults are in\n"
             "[brackets].\n",
    .notes = "A file for --config has the groups above as [sections] and the long names of\n"
             "the options as keys, as --dry-run prints them. It is trusted as the\n"
             "command line is, but a file to be written that it alone names replaces none.\n"
             "Level epoch of --fusion takes one to five hidden layers, which fit the GPU, and\n"
             "batches of at most 128 on a GPU of compute capability 9.0. On older ones it\n"
             "takes two hidden layers, the second of at most 120, and batches of at most 64.\n"
             "auto takes the fastest level that is possible.\n"
             "A run that is interrupted is saved in the file of --save, and --resume continues\n"
             "it as if it had never stopped.\n"
             "Exit status: 0 for success, 1 for a failure, 2 for wrong usage, 130 or 143 when\n"
             "interrupted, 141 if the reader of standard output left.\n",
    .rows = table,
    .count = LENGTH(table)};

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
  return option_share(options->validation) != 0; /* NAN of a file */
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
