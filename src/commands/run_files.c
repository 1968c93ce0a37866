/* The files that a run names: no output may destroy an input, and every output can be written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/output.h"
#include "base/text.h"
#include "commands/commands.h"
#include "model/checkpoint.h"

enum { NAMES = 15 };

void run_files_best(const Options *o, char *path) {
  const char *save = *o->save ? o->save : o->resume;
  *path = '\0';
  if (*save && o->early_stop) snprintf(path, BEST_PATH, "%s.best", save);
}

char *run_files_text(const Options *o, Error *error) {
  const size_t size =
      options_table.count *
      (OPTIONS_PATH + 64); /* open_memstream would not tell that its text ends early */
  char *text = calloc(size, 1);
  FILE *file = text ? fmemopen(text, size, "w") : NULL;
  if (file) {
    setbuf(file, NULL);
    options_print_config(file, o, false);
  }
  if (file && fclose(file) == 0) return text;
  free(text);
  error_set(error, "out of memory");
  return NULL;
}

void run_files_leave(Options *o, const Ranks *ranks) {
  if (ranks_number(ranks) == 0) return;
  o->quiet = true;
  if (!o->ensemble) *o->save = '\0';
  *o->log = *o->plot = *o->weights = *o->mistakes = *o->confusion = '\0';
}

static int list_files(const Options *o, const char *best, NamedFile *files) {
  const bool saves_there = *o->resume && !*o->save; /* the file that is resumed takes the network */
  const NamedFile all[NAMES] = {{"--train", o->load.count > 0 ? "" : o->train, false},
                                {"--test", options_test_file(o), false},
                                {"--validation", options_validation_file(o), false},
                                {"--config", o->config, false},
                                {"--predict", o->predict, false},
                                {"--resume", o->resume, saves_there},
                                {"--save", o->save, true},
                                {"--save", best, true},
                                {"--log", o->log, true},
                                {"--plot", o->plot, true},
                                {"--weights", o->weights, true},
                                {"--mistakes", o->mistakes, true},
                                {"--confusion", o->confusion, true},
                                {"--show", o->show, true},
                                {"--tune", o->tune, true}};
  memcpy(files, all, sizeof all);
  int count = NAMES;
  for (int i = 0; i < o->load.count; i++)
    files[count++] = (NamedFile){"--load", o->load.path[i], false};
  return count;
}

/* ---- formats ------------------------------------------------------------------------------ */

/* What the name of an output may end in. */
typedef struct {
  const char *option, *path;
  const char *endings[3]; /* NULL behind the last */
  bool may_have_none;
} Format;

/* What follows the last point of a file's name; NULL: it has none. */
static const char *ending_of(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  name += strspn(name, ".");
  const char *point = strrchr(name, '.');
  return point ? point + 1 : NULL;
}

/* How the file gets the ending that was asked for, as `; ...`; "" if we do not know. */
static const char *advice_for(const char *ending) {
  static const char *const advice[][2] = {
      {"pt", "; docs/formats.md has the lines that convert it for PyTorch"},
      {"pth", "; docs/formats.md has the lines that convert it for PyTorch"},
      {"pdf", "; ImageMagick converts it: convert FILE.png FILE.pdf"},
      {"jpg", "; ImageMagick converts it: convert FILE.png FILE.jpg"},
      {"jpeg", "; ImageMagick converts it: convert FILE.png FILE.jpeg"},
  };
  for (size_t i = 0; i < sizeof advice / sizeof *advice; i++)
    if (strcmp(ending, advice[i][0]) == 0) return advice[i][1];
  return "";
}

static bool has_format(const Format *format, Error *error) {
  const char *ending = ending_of(format->path), *const *allowed = format->endings;
  if (!*format->path || strncmp(format->path, "/dev/", 5) == 0) return true;
  if (!ending && format->may_have_none) return true;
  for (int i = 0; ending && allowed[i]; i++)
    if (strcmp(ending, allowed[i]) == 0) return true;
  return error_set(error, "--%s writes a file that ends in .%s%s%s, not '%s'%s", format->option,
                   allowed[0], allowed[1] ? " or ." : "", allowed[1] ? allowed[1] : "",
                   format->path, ending ? advice_for(ending) : "");
}

static bool formats_are_right(const Options *o, Error *error) {
  const Format formats[] = {{"save", o->save, {"safetensors", "st"}, true},
                            {"output", o->output, {"csv"}, true},
                            {"log", o->log, {"jsonl", "csv"}, false},
                            {"plot", o->plot, {"png"}, false},
                            {"weights", o->weights, {"png"}, false},
                            {"mistakes", o->mistakes, {"png"}, false},
                            {"confusion", o->confusion, {"png"}, false},
                            {"show", o->show, {"png"}, false},
                            {"tune", o->tune, {"png"}, false}};
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (!has_format(&formats[i], error)) return false;
  return true;
}

/* ---- rows --------------------------------------------------------------------------------- */

static bool validates(const Options *o) {
  return options_hold_out(o) > 0 || options_validation_file(o);
}

/* Where nothing is at the default path, the file of that name in the user's cache, if it is there.
 */
static void find_in_cache(char *path, const char *initial) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  const bool has_cache = cache && *cache == '/'; /* others are to be ignored: XDG Base Directory */
  char cached[OPTIONS_PATH];
  if (strcmp(path, initial) != 0 || access(path, F_OK) == 0 || (!has_cache && !home)) return;
  const int length = snprintf(cached, sizeof cached, "%s%s/mlp-train/%s", has_cache ? cache : home,
                              has_cache ? "" : "/.cache", strrchr(initial, '/') + 1);
  if (length < (int)sizeof cached && access(cached, F_OK) == 0) strcpy(path, cached);
}

void run_files_settle(Options *o) {
  Options initial;
  options_default(&initial);
  if (o->load.count == 0 && validates(o) && strcmp(o->test, initial.test) == 0 &&
      strcmp(o->train, initial.train) != 0)
    strcpy(o->test, "none");
  find_in_cache(o->train, initial.train);
  find_in_cache(o->test, initial.test);
}

static bool rows_are_there(const Options *o, Error *error) {
  if (options_test_file(o)) return true;
  if (*o->mistakes || *o->confusion || o->evaluate)
    return error_set(error, "--%s wants test rows: it cannot be combined with --test none",
                     o->evaluate    ? "evaluate"
                     : *o->mistakes ? "mistakes"
                                    : "confusion");
  return !o->early_stop || validates(o) || o->load.count > 0 ||
         error_set(error, "--early-stop wants rows to judge by: with --test none, add "
                          "--validation 0.1");
}

/* ---- all of it ---------------------------------------------------------------------------- */

/* --show may not replace a picture that is asked about. */
static bool shows_elsewhere(const Options *o, Error *error) {
  NamedFile files[] = {{"--show", o->show, true}, {"--classify", NULL, false}};
  for (int i = 0; *o->show && i < o->picture_count; i++) {
    files[1].path = o->pictures[i];
    if (!same_file_check(files, 2, error)) return false;
  }
  return true;
}

bool run_files_are_right(const Options *o, Error *error) {
  NamedFile files[NAMES + OPTIONS_LOADS + 1];
  char best[BEST_PATH];
  run_files_best(o, best);
  int count = list_files(o, best, files);
  if (*o->output) files[count++] = (NamedFile){"--output", o->output, true};
  for (int i = 0; i < count; i++)
    if (files[i].written && files[i].path != o->output && strcmp(files[i].path, "-") == 0)
      return error_set(error, "%s cannot write to standard output: give it the name of a file",
                       files[i].option);
  return same_file_check(files, count, error) && shows_elsewhere(o, error) &&
         formats_are_right(o, error) && rows_are_there(o, error);
}

bool run_files_can_be_written(const Options *o, Error *error) {
  const char *save = *o->save ? o->save : o->resume;
  const char *pictures[] = {o->plot, o->weights, o->mistakes, o->confusion};
  char best[BEST_PATH];
  run_files_best(o, best);
  if (*save && (!options_can_be_saved(o, error) || !checkpoint_probe(save, error))) return false;
  if (*best && !checkpoint_probe(best, error)) return false;
  for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++)
    if (*pictures[i] && !atomic_file_probe(pictures[i], error)) return false;
  return true;
}

/* ---- what was written --------------------------------------------------------------------- */

bool run_files_say_wrote(Report *report, const char *path, const char *what, Error *error) {
  enum { NAME = 4 * BEST_PATH }; /* written out */
  FileTarget target;
  char name[NAME], line[NAME + 128];
  if (!*path || !file_target_find(&target, path) || target.kind != TARGET_REGULAR) return true;
  text_printable(name, sizeof name, path);
  snprintf(line, sizeof line, "wrote    %s%s", name, what);
  return report_note(report, line, error);
}

bool run_files_say_drew(Report *report, const EvaluateConfig *drawn, Error *error) {
  return run_files_say_wrote(report, drawn->weights, "", error) &&
         run_files_say_wrote(report, drawn->mistakes, "", error) &&
         run_files_say_wrote(report, drawn->confusion, "", error);
}
