/* The files that a run names: no output may destroy an input, and every output can be written. */
#include <string.h>

#include "base/atomic_file.h"
#include "base/same_file.h"
#include "commands/commands.h"
#include "model/checkpoint.h"

enum { NAMES = 12 };

/* Pictures to classify come on top: none of them is written in a run that classifies. */
static int list_files(const Options *o, NamedFile *files) {
  const bool saves_there = *o->resume && !*o->save; /* the file that is resumed takes the network */
  const NamedFile all[NAMES] = {{"--train", *o->load ? "" : o->train, false},
                                {"--test", o->test, false},
                                {"--config", o->config, false},
                                {"--load", o->load, false},
                                {"--predict", o->predict, false},
                                {"--resume", o->resume, saves_there},
                                {"--save", o->save, true},
                                {"--log", o->log, true},
                                {"--plot", o->plot, true},
                                {"--weights", o->weights, true},
                                {"--mistakes", o->mistakes, true},
                                {"--confusion", o->confusion, true}};
  memcpy(files, all, sizeof all);
  return NAMES;
}

bool run_files_differ(const Options *o, Error *error) {
  NamedFile files[NAMES + 1];
  int count = list_files(o, files);
  if (*o->output) files[count++] = (NamedFile){"--output", o->output, true};
  for (int i = 0; i < count; i++)
    if (files[i].written && files[i].path != o->output && strcmp(files[i].path, "-") == 0)
      return error_set(error, "%s cannot write to standard output: give it the name of a file",
                       files[i].option);
  return same_file_check(files, count, error);
}

bool run_files_can_be_written(const Options *o, Error *error) {
  const char *save = *o->save ? o->save : o->resume;
  const char *pictures[] = {o->plot, o->weights, o->mistakes, o->confusion};
  if (*save && (!options_can_be_saved(o, error) || !checkpoint_probe(save, error))) return false;
  for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++)
    if (*pictures[i] && !atomic_file_probe(pictures[i], error)) return false;
  return true;
}
