/* The command line of mlp-train, and the rules for options that do not go together. */
#include <inttypes.h>
#include <string.h>

#include "cli/options.h"

/* ---- what does not go together ------------------------------------------------------------- */

/* The command that the options ask for; 0: none, with --load alone. */
static unsigned command_of(const Options *o) {
  const bool trains = o->load.count == 0;
  return trains && o->sweep[0]   ? FOR_SWEEP
         : trains && o->ensemble ? FOR_ENSEMBLE
         : trains && o->seeds    ? FOR_SEEDS
         : o->evaluate           ? FOR_EVALUATE
         : o->predict[0]         ? FOR_PREDICT
         : o->classify           ? FOR_CLASSIFY
         : trains                ? FOR_TRAIN
         : o->html[0]            ? FOR_HTML
                                 : 0;
}

/* The first option with another value than the default that `taker` does not take. given: on the
   command line; a configuration file may be for several commands. NULL: none. */
static const OptionRow *misplaced(const Options *o, unsigned taker, bool given) {
  Options initial;
  options_default(&initial);
  if (!isnan(o->training.schedule.rate))
    initial.training.schedule.rate = options_auto_rate(&o->training);
  if (o->training.pixels.max == OPTIONS_AUTO) initial.training.pixels.max = OPTIONS_AUTO;
  foreach_row (row, &options_table)
    if (row->kind && !(row->takers & taker) &&
        !(given && o->configured[row - options_table.rows]) && option_differs(row, o, &initial))
      return row;
  return NULL;
}

/* --ensemble, --seeds and --sweep train new networks; the first writes these alone, the others
   none. */
static bool check_command(const Options *o, unsigned command, Error *error) {
  if (!(command & SEVERAL_RUNS)) return true;
  const OptionRow *other = misplaced(o, command, false);
  if (other)
    return error_set(error, "--%s: leave out --%s",
                     command == FOR_ENSEMBLE ? "ensemble trains and saves several new networks"
                     : command == FOR_SEEDS  ? "seeds compares several new networks"
                                             : "sweep compares several new networks",
                     other->name);
  const uint64_t last = o->training.seed + (uint64_t)(o->ensemble + o->seeds);
  return last <= (uint64_t)UINT32_MAX + 1 ||
         error_set(error, "--%s needs seeds up to %" PRIu64 ", but --seed goes up to %u",
                   o->seeds ? "seeds" : "ensemble", last - 1, UINT32_MAX);
}

static bool check_dropout(const Options *o, Error *error) {
  const int shares = o->training.dropout.count, layers = o->training.hidden.count;
  if (!training_drops(&o->training) || shares == layers || (shares == 1 && layers > 0)) return true;
  return error_set(error, "--dropout has %d value%s, but --hidden has %d layer%s", shares,
                   plural(shares), layers, plural(layers));
}

static bool check_level(const Options *o, Error *error) {
  const Fusion level = o->training.fusion;
  if (o->device == DEVICE_CPU && level != FUSION_AUTO && level != FUSION_LAYER)
    return error_set(error, "--fusion %s needs a GPU: --device cpu has level layer alone",
                     training_fusions[level]);
  const unsigned taker = level == FUSION_EXERCISE ? AT_EXERCISE : ALL;
  const OptionRow *other = misplaced(o, taker, false);
  return !other || error_set(error, "--fusion %s has no --%s: use --fusion step",
                             training_fusions[level], other->name);
}

/* The option that asks what a loaded network is for. */
static const char *use_of(const Options *o) {
  return o->evaluate ? "evaluate" : o->classify ? "classify" : o->predict[0] ? "predict" : "html";
}

static bool check_uses(const Options *o, unsigned command, Error *error) {
  const bool uses = o->evaluate || o->predict[0] || o->classify;
  const OptionRow *other;
  if (uses && o->load.count == 0)
    return error_set(error, "--%s needs a network: add --load FILE", use_of(o));
  if (!uses && !o->html[0] && o->load.count > 0)
    return error_set(error, "--load needs --evaluate, --predict, --classify or --html; to continue "
                            "training use --resume");
  if (o->load.count > 1 && (o->weights[0] || o->html[0]))
    return error_set(error, "--%s draws one network: give it one --load",
                     o->weights[0] ? "weights" : "html");
  if (!(command & SEVERAL_RUNS) && (other = misplaced(o, command, true)))
    return o->load.count > 0
               ? error_set(error, "--%s has no use for --%s: leave it out", use_of(o), other->name)
               : error_set(error, "--%s needs %s", other->name,
                           other->takers & FOR_SWEEP         ? "--sweep LIST"
                           : !(other->takers & FOR_CLASSIFY) ? "--predict FILE"
                           : other->takers & FOR_PREDICT     ? "--evaluate, --predict or --classify"
                                                             : "--classify PICTURE...");
  if (o->classify && o->picture_count == 0)
    return error_set(error, "--classify needs the names of pictures at the end of the command");
  return o->classify || o->picture_count == 0 ||
         error_set(error, "unexpected argument '%s'%s", o->pictures[0],
                   o->load.count > 0 ? ": write --load before each network" : "");
}

bool options_check(Options *options, Error *error) {
  const unsigned command = command_of(options);
  Options initial;
  options_default(&initial);
  if (!option_table_check_pairs(&options_table, options, &initial, error)) return false;
  if (!check_command(options, command, error) || !check_uses(options, command, error)) return false;
  if (command == FOR_SWEEP) return true; /* what its trials do not change is checked with them */
  if (isnan(options->training.schedule.rate))
    options->training.schedule.rate = options_auto_rate(&options->training);
  return check_dropout(options, error) && check_level(options, error);
}

/* ---- the command line --------------------------------------------------------------------- */

static OptionsResult parse_command_line(int argc, char **argv, Options *options, Error *error) {
  int first = argc;
  const OptionsResult result =
      option_table_parse(&options_table, argc, argv, options, &first, error);
  options->words = argv;
  options->word_count = argc;
  options->pictures = argv + first;
  options->picture_count = argc - first;
  return result;
}

OptionsResult options_parse(int argc, char **argv, Options *options, Error *error) {
  const Options before = *options;
  OptionsResult result = parse_command_line(argc, argv, options, error);
  if (result == OPTIONS_RUN && options->config[0]) { /* again: it wins over the file */
    const Options alone = *options;
    *options = before;
    if (!options_read_file(options, alone.config, error)) return OPTIONS_FAILURE;
    result = parse_command_line(argc, argv, options, error);
    foreach_row (row, &options_table)
      options->configured[row - options_table.rows] =
          row->kind && option_differs(row, options, &alone);
  }
  if (result != OPTIONS_RUN) return result;
  return options_check(options, error) ? OPTIONS_RUN : OPTIONS_USAGE;
}
