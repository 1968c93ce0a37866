/* The configuration file: reading one, and writing the options as one. */
#include <errno.h>
#include <ini.h>
#include <string.h>

#include "base/stream.h"
#include "base/nearest.h"
#include "cli/options.h"

/* ---- reading -------------------------------------------------------------------------------- */

typedef struct {
  const char *path;
  FILE *file;
  int line;     /* last read, from 1 */
  int bad_line; /* of the first error that we found, 0: none */
  bool seen[OPTION_ROWS];
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
  const char *start = line + strspn(line, " \t"), *carriage = strchr(line, '\r'),
             *end = *start == '[' ? strchr(start, ']') : NULL;
  const char *wrong = !strchr(line, '\n') && !feof(config->file) ? "the line is too long"
                      : carriage && carriage[1] && carriage[1] != '\n'
                          ? "lines must end with a line feed, not with a carriage return"
                      : end && !strchr("\r\n;#", end[1 + strspn(end + 1, " \t")])
                          ? "a key belongs on a line of its own, after that of its section"
                          : NULL;
  if (wrong) {
    config_error(config, config->line, wrong);
    return NULL;
  }
  memmove(line, start, strlen(start) + 1);
  for (char *c = line; !config->is_saved && (c = strchr(c, '#')); c++) /* as inih cuts at " ;" */
    if (c > line && strchr(" \t", c[-1])) {
      strcpy(c, "\n");
      break;
    }
  return line;
}

/* The row of a key. NULL with *error set, and the key that it may have meant: there is none. */
static const OptionRow *find_key(const char *key, Error *error) {
  Nearest nearest = nearest_to(key);
  foreach_row (row, &options_table) {
    if (!row->initial) continue;
    if (strcmp(row->name, key) == 0) return row;
    nearest_try(&nearest, row->name);
  }
  error_set(error, "unknown key '%s'", key);
  nearest_append(&nearest, "", error);
  return NULL;
}

/* inih's handler of `key = value`; 0 is failure. */
static int set_key(void *context, const char *section, const char *key, const char *value) {
  ConfigFile *config = context;
  Error error;
  const OptionRow *row = find_key(key, &error);
  bool *seen = row ? &config->seen[row - options_table.rows] : NULL;
  if (row && strcmp(option_group(row), section) != 0)
    error_set(&error, "'%s' belongs in section [%s], not [%s]", key, option_group(row), section);
  else if (row && config->is_saved && !options_is_saved(row))
    error_set(&error, "'%s' is not an option of a saved run", key);
  else if (row && *seen)
    error_set(&error, "'%s' is given twice", key);
  else if (row && ((!*value && !*row->initial) || /* no value, as the default */
                   row->kind->set(row, value, config->options, &error)))
    return *seen = true;
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

bool options_read_text(Options *options, const char *text, const char *name, Error *error) {
  if (!*text) return true; /* fmemopen takes no empty text */
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  FILE *file = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
  if (!file) return error_set(error, "cannot read the options in %s: %s", name, strerror(errno));
  return read_config(options, file, name, true, error);
}

/* ---- writing -------------------------------------------------------------------------------- */

void options_print_config(FILE *file, const Options *options, bool whole) {
  const char *group = NULL; /* not printed yet */
  bool first = true;
  foreach_row (row, &options_table) {
    if (row->group) group = row->group;
    if (!row->initial || !(whole || options_is_saved(row))) continue;
    const ShortText value = row->kind->get(row, options);
    if (!whole && !*value.text) continue;
    if (group) fprintf(file, "%s[%s]\n", first ? "" : "\n", group);
    group = NULL;
    first = false;
    fprintf(file, "%s =%s%s\n", row->name, *value.text ? " " : "", value.text);
  }
}

bool options_can_be_saved(const Options *options, Error *error) {
  foreach_row (row, &options_table) {
    if (!options_is_saved(row)) continue;
    const size_t length = strlen(row->kind->get(row, options).text),
                 room = OPTIONS_LINE - strlen(row->name) - strlen(" = ");
    if (length > room)
      return error_set(error,
                       "--%s is a name of %zu bytes, but a saved run can hold only %zu: use a "
                       "link or another folder",
                       row->name, length, room);
  }
  return true;
}
