/* Checks that no output of a run destroys an input, and that every output can be written. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "commands/commands.h"

bool run_files_derived(const Options *o, int index, char *path) {
  const char *save = *o->save ? o->save : o->resume;
  const char *slash = strrchr(save, '/'), *point = strrchr(save, '.');
  *path = '\0';
  const bool keeps_best = o->training.early_stop > 0 || options_validates(o);
  if (!*save || index >= (o->seeds ? o->seeds : keeps_best)) return false;
  if (!point || (slash && point < slash)) point = save + strlen(save);
  if (o->seeds)
    snprintf(path, DERIVED_PATH, "%.*s-%" PRIu64 "%s", (int)(point - save), save,
             o->training.seed + (uint64_t)index, point);
  else
    snprintf(path, DERIVED_PATH, "%s.best", save);
  return true;
}

bool run_files_save(const Trainer *trainer, const Options *o, const char *best, const char *path,
                    Error *error) {
  Checkpoint saved;
  char activation[] = CHECKPOINT_ACTIVATION;
  Options now = *o;
  if (!trainer_checkpoint(trainer, &saved, error)) return false;
  if (saved.step > 0) /* within an epoch, --resume must keep the order of rows */
    now.training.resident = trainer->resident ? RESIDENT_YES : RESIDENT_NO;
  saved.options = options_text(&now, false, error);
  saved.names = o->class_names;
  saved.activation = activation;
  const bool good = saved.options && (!*best || checkpoint_save(&saved, best, error)) &&
                    checkpoint_save(&saved, path, error);
  saved.names = saved.activation = NULL; /* they are not the checkpoint's to free */
  checkpoint_free(&saved);
  return good;
}

ShortText run_files_assumed(const Options *o, const Checkpoint *network, const char *path) {
  const PixelScale *p = &o->training.pixels;
  const bool relu = network->network.layers > 1 && !network->activation,
             pixels = training_pixel_factor(&o->training).is_default;
  const double std = p->std > 0 ? (double)p->std : 1;
  ShortText text = {""};
  if (*network->options || (!relu && !pixels)) return text;
  text = text_format("%.300s does not say how it was trained: assuming %s", text_shown(path).text,
                     relu ? "ReLU between layers" : "");
  if (relu && pixels) text_append(text.text, " and ");
  if (pixels)
    text_append(text.text, "pixels / 255, which --pixel-max, --mean and --std change");
  else
    text_append(text.text, ", and pixels (p / %g %c %g) / %g", training_white(&o->training),
                p->mean < 0 ? '+' : '-', fabs((double)p->mean), std);
  return text;
}

/* ---- formats ------------------------------------------------------------------------------ */

/* Returns true if `word` is one of `words`, which are separated by blanks. */
static bool is_among(const char *word, const char *words) {
  return !strchr(word, ' ') &&
         strstr(text_format(" %s ", words).text, text_format(" %s ", word).text);
}

/* Returns false if the ending of an output's name belongs to another format. */
static bool has_format(const OptionRow *row, const char *path, Error *error) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path,
             *ending = strrchr(name + strspn(name, "."), '.'), *second = strchr(row->endings, ' ');
  const int first = (int)strcspn(row->endings, " ");
  const ShortText or_second = second ? text_format(" or .%s", second + 1) : (ShortText){""};
  const bool fits = ending ? is_among(ending + 1, row->endings) : row->may_lack_ending;
  return fits || strncmp(path, "/dev/", 5) == 0 || output_is_in_place(path) ||
         error_set(error, "--%s writes a file whose name ends in .%.*s%s, not '%s'", row->name,
                   first, row->endings, or_second.text, path);
}

static const char *output_of(const OptionRow *row, const Options *o) {
  return row->file == FILE_OUTPUT ? row->kind->file(row, o, 0) : NULL;
}

/* ---- rows --------------------------------------------------------------------------------- */

static const char mnist_test[] = "data/mnist_test.csv";

/* If `path` is the default and only the cache has the file, sets `path` to the cache's file. */
static void find_in_cache(char *path, const char *initial) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  const bool has_cache = cache && *cache == '/'; /* XDG Base Directory: ignore relative paths */
  char cached[OPTIONS_PATH];
  if (strcmp(path, initial) != 0 || access(path, F_OK) == 0 || (!has_cache && !home)) return;
  const ShortText folder = text_format("%s", has_cache ? "" : "/.cache");
  const int length = snprintf(cached, sizeof cached, "%s%s/mlp-train/%s", has_cache ? cache : home,
                              folder.text, strrchr(initial, '/') + 1);
  if (length < (int)sizeof cached && access(cached, F_OK) == 0) strcpy(path, cached);
}

void run_files_find_cached(Options *o) {
  Options initial;
  options_default(&initial);
  if (o->load.count == 0 && options_test_is_auto(o)) {
    if (strcmp(o->train, initial.train) == 0)
      strcpy(o->test, mnist_test);
    else if (options_validates(o))
      strcpy(o->test, "none");
  }
  find_in_cache(o->train, initial.train);
  find_in_cache(o->test, mnist_test);
}

const char *run_files_judged(const Options *o) {
  if (*o->mistakes) return "mistakes";
  if (*o->confusion) return "confusion";
  return o->seeds ? "seeds" : NULL;
}

static bool rows_are_there(const Options *o, Error *error) {
  if (options_test_file(o) || options_test_is_auto(o)) return true;
  if (o->evaluate)
    return error_set(error, "--evaluate needs test rows; it cannot be combined with --test none");
  const char *judged = run_files_judged(o);
  if (o->seeds && *o->save && judged && strcmp(judged, "seeds") == 0) judged = NULL;
  if (!judged && o->training.early_stop) judged = "early-stop";
  return !judged || options_validates(o) || o->load.count > 0 ||
         error_set(error, "--%s needs rows to judge by; with --test none, add --validation 0.1%s",
                   judged, o->seeds ? ", or --save to keep the networks" : "");
}

static bool file_exists(const char *path, Error *error) {
  if (!path || strcmp(path, "-") == 0) return true;            /* standard input */
  if (access(path, F_OK) == 0 || errno != ENOENT) return true; /* the reader reports other errors */
  return error_set(error,
                   "%s does not exist: `make data`, scripts/download_mnist.sh or mlp-train-fetch "
                   "gets MNIST, mlp-digits draws digits_train.csv and digits_test.csv",
                   path);
}

/* The message about --validation helps users who have only a training file, as in competitions. */
bool run_files_are_there(const Options *o, Error *error) {
  if (!file_exists(o->train, error) || !file_exists(options_validation_file(o), error))
    return false;
  if (*o->sweep) return true; /* a sweep needs no test file */
  if (!options_test_is_auto(o)) return file_exists(options_test_file(o), error);
  return error_set(error,
                   "there is no test file: --validation 0.1 judges by a tenth of the rows of %s, "
                   "or name a file with --test",
                   o->train);
}

/* ---- all of it ---------------------------------------------------------------------------- */

/* Returns false if an output is also another file of the run. Unlike option_table_check_files,
   knows that --train is not read with --load, that --resume writes to its file without --save, that
   --seeds writes only files with derived names, and that --classify reads pictures. */
static bool no_file_is_lost(const Options *o, Error *error) {
  enum { NAMES = SEEDS_MOST + 1 };
  const int pictures = o->picture_count;
  char(*derived)[DERIVED_PATH] = make_array(derived, NAMES);
  NamedFile *list = make_array(list, OPTION_FILES + NAMES + pictures + 1 /* --names */);
  bool good = (derived && list) || error_too_large(error, "out of memory");
  int count = good ? option_table_files(&options_table, o, list) : 0;
  for (NamedFile *file = list; good && file < list + count; file++) {
    if (file->path == o->train && o->load.count > 0) file->path = NULL;
    if (file->path == o->resume) file->written = !*o->save;
    if (file->path == o->resume && strcmp(o->save, o->resume) == 0) file->path = NULL;
    if (file->path && file->written && file->path != o->output && strcmp(file->path, "-") == 0)
      good = error_set(error, "--%s cannot write to standard output: give it the name of a file",
                       file->option);
    if (file->path == o->save && o->seeds) file->path = NULL;
  }
  if (good && !strchr(o->names, ',')) list[count++] = (NamedFile){"names", o->names, false, false};
  for (int i = 0; good && run_files_derived(o, i, derived[i]); i++)
    list[count++] = (NamedFile){"save", derived[i], true, false};
  for (int i = 0; good && i < pictures; i++)
    list[count++] = (NamedFile){"classify", o->pictures[i], false, false};
  good = good && option_files_check(&options_table, list, count, error);
  free(derived);
  free(list);
  return good;
}

bool run_files_settle(Options *o, const Ranks *ranks, Error *error) {
  const bool is_first = ranks_number(ranks) == 0;
  o->quiet |= !is_first;
  foreach_row (row, &options_table) {
    char *path = (char *)o + row->field;
    if (!is_first && row->file == FILE_OUTPUT && !(path == o->save && o->seeds)) *path = '\0';
  }
  run_files_find_cached(o);
  if (!no_file_is_lost(o, error)) return false;
  foreach_row (row, &options_table)
    if (output_of(row, o) && !has_format(row, output_of(row, o), error)) return false;
  return rows_are_there(o, error);
}

/* Does not test the log, which train_log_open has opened. */
bool run_files_can_be_written(const Options *o, Error *error) {
  const char *save = *o->save ? o->save : o->resume;
  char derived[DERIVED_PATH];
  Error why;
  if (*save && !options_survive(o, false, save, &why))
    return error_set(error, "cannot save %s with the names in its options: %s; use other names",
                     save, why.text);
  if (*save && !o->seeds && !checkpoint_probe(save, error)) return false;
  for (int i = 0; run_files_derived(o, i, derived); i++)
    if (!checkpoint_probe(derived, error)) return false;
  foreach_row (row, &options_table) {
    const char *path = output_of(row, o);
    const bool is_other = path && path != o->save && path != o->output && path != o->log;
    if (is_other && !atomic_file_probe(path, error)) return false;
  }
  return true;
}

/* ---- what was written --------------------------------------------------------------------- */

void run_files_say_wrote(Report *report, const char *path, const char *what) {
  if (*path && !output_is_in_place(path)) report_note(report, "wrote    %s%s", path, what);
}

void run_files_say_drew(Report *report, const EvaluateConfig *drawn) {
  run_files_say_wrote(report, drawn->weights, "");
  run_files_say_wrote(report, drawn->mistakes, "");
  run_files_say_wrote(report, drawn->confusion, "");
  run_files_say_wrote(report, drawn->html, "");
}
