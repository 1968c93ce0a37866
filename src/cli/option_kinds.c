#include "cli/option_kinds.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/augment.h"
#include "base/nearest.h"
#include "engine/training.h"

static void *field_of(const OptionRow *row, void *options) {
  return (char *)options + row->field;
}

static const void *value_of(const OptionRow *row, const void *options) {
  return (const char *)options + row->field;
}

static bool parse_whole(const OptionRow *row, const char *value, uint64_t *whole, Error *error) {
  char *end = NULL;
  errno = 0;
  *whole = strtoull(value, &end, 10);
  if (isdigit((unsigned char)value[0]) && !*end && !errno && (double)*whole >= row->low &&
      (double)*whole <= row->high)
    return true;
  const uint64_t high = row->high < 0x1p64 ? (uint64_t)row->high : UINT64_MAX;
  return error_set(error, "--%s must be a whole number from %.0f to %" PRIu64 ", not '%s'",
                   row->name, row->low, high, value);
}

static bool set_int(const OptionRow *row, const char *value, void *options, Error *error) {
  uint64_t whole;
  if (!parse_whole(row, value, &whole, error)) return false;
  *(int *)field_of(row, options) = (int)whole;
  return true;
}

static void get_int(const OptionRow *row, const void *options, char *text, size_t size) {
  snprintf(text, size, "%d", *(const int *)value_of(row, options));
}

const OptionKind option_whole = {set_int, get_int, NULL, true};

static bool set_whole_or_auto(const OptionRow *row, const char *value, void *options,
                              Error *error) {
  uint64_t whole = 0;
  if (strcmp(value, "auto") != 0 && !parse_whole(row, value, &whole, NULL))
    return error_set(error, "--%s must be auto, or a whole number from %.0f to %.0f, not '%s'",
                     row->name, row->low, row->high, value);
  *(float *)field_of(row, options) = (float)whole;
  return true;
}

static void get_whole_or_auto(const OptionRow *row, const void *options, char *text, size_t size) {
  const float number = *(const float *)value_of(row, options);
  snprintf(text, size, number == 0 ? "auto" : "%.0f", (double)number);
}

const OptionKind option_whole_or_auto = {set_whole_or_auto, get_whole_or_auto, NULL, false};

static bool set_whole64(const OptionRow *row, const char *value, void *options, Error *error) {
  uint64_t whole;
  if (!parse_whole(row, value, &whole, error)) return false;
  *(uint64_t *)field_of(row, options) = whole;
  return true;
}

static void get_whole64(const OptionRow *row, const void *options, char *text, size_t size) {
  snprintf(text, size, "%llu", (unsigned long long)*(const uint64_t *)value_of(row, options));
}

const OptionKind option_whole64 = {set_whole64, get_whole64, NULL, true};

enum { MEGABYTE = 1000000 };

static bool set_megabytes(const OptionRow *row, const char *value, void *options, Error *error) {
  uint64_t whole;
  if (!parse_whole(row, value, &whole, error)) return false;
  *(uint64_t *)field_of(row, options) = whole * MEGABYTE;
  return true;
}

static void get_megabytes(const OptionRow *row, const void *options, char *text, size_t size) {
  const uint64_t *bytes = value_of(row, options);
  snprintf(text, size, "%llu", (unsigned long long)(*bytes / MEGABYTE));
}

const OptionKind option_megabytes = {set_megabytes, get_megabytes, NULL, true};

/* The number that the text begins with, NAN where that is none the row may have; *end follows it.
 */
static float parse_float(const OptionRow *row, const char *text, char **end) {
  errno = 0;
  const float number = strtof(text, end);
  const bool underflows = errno == ERANGE && number == 0; /* what is only denormal is a number */
  const bool good = *text && !isspace((unsigned char)*text) && *end != text && !underflows &&
                    (double)number >= row->low && (double)number <= row->high;
  return good ? number : NAN;
}

static bool set_float(const OptionRow *row, const char *value, void *options, Error *error) {
  char *end;
  const float number = parse_float(row, value, &end);
  if (isfinite(number) && !*end) {
    *(float *)field_of(row, options) = number;
    return true;
  }
  return error_set(error, "--%s must be a number from %g to %g, not '%s'", row->name, row->low,
                   row->high, value);
}

/* As few digits as bring the same number back. */
static void print_float(float number, char *text, size_t size) {
  for (int digits = 1; digits <= 9; digits++) {
    snprintf(text, size, "%.*g", digits, (double)number);
    if (strtof(text, NULL) == number) return;
  }
}

static void get_float(const OptionRow *row, const void *options, char *text, size_t size) {
  print_float(*(const float *)value_of(row, options), text, size);
}

const OptionKind option_number = {set_float, get_float, NULL, true};

static bool set_yes_no(const OptionRow *row, const char *value, void *options, Error *error) {
  const bool yes = strcmp(value, "yes") == 0;
  if (!yes && strcmp(value, "no") != 0)
    return error_set(error, "--%s must be yes or no, not '%s'", row->name, value);
  *(bool *)field_of(row, options) = yes;
  return true;
}

static void get_yes_no(const OptionRow *row, const void *options, char *text, size_t size) {
  snprintf(text, size, "%s", *(const bool *)value_of(row, options) ? "yes" : "no");
}

const OptionKind option_yes_no = {set_yes_no, get_yes_no, NULL, false};

static bool set_choice(const OptionRow *row, const char *value, void *options, Error *error) {
  for (int i = 0; row->choices[i]; i++)
    if (strcmp(value, row->choices[i]) == 0) {
      *(int *)field_of(row, options) = i;
      return true;
    }
  char choices[128];
  option_join_choices(row, ", ", choices, sizeof choices);
  error_set(error, "--%s must be one of %s, not '%s'", row->name, choices, value);
  Nearest nearest;
  nearest_start(&nearest, value);
  for (int i = 0; row->choices[i]; i++) nearest_try(&nearest, row->choices[i]);
  return nearest_append(&nearest, "", error);
}

static void get_choice(const OptionRow *row, const void *options, char *text, size_t size) {
  snprintf(text, size, "%s", row->choices[*(const int *)value_of(row, options)]);
}

const OptionKind option_choice = {set_choice, get_choice, NULL, false};

/* The kind of augmentation that `text` begins with, AUGMENT_KINDS: none; *end follows it. */
static int kind_of(const OptionRow *row, const char *text, const char **end) {
  const size_t length = strcspn(text, ",=");
  int k = 0;
  while (row->choices[k] &&
         !(strlen(row->choices[k]) == length && strncmp(row->choices[k], text, length) == 0))
    k++;
  *end = text + length;
  return k;
}

/* NAME=STRENGTH: the strength of kind k at *text, which then stands behind it; NAN: none that is
   allowed. */
static float strength_at(const OptionRow *row, int k, const char **text) {
  OptionRow limits = *row;
  char *end;
  limits.low = 0;
  limits.high = (double)AUGMENT_GREATEST.most[k];
  const float strength = parse_float(&limits, *text, &end);
  *text = end;
  return strength;
}

static bool bad_strengths(const OptionRow *row, const char *value, Error *error) {
  char choices[128];
  option_join_choices(row, ", ", choices, sizeof choices);
  return error_set(error,
                   "--%s must be none, or any of %s, separated by commas, each alone or with its "
                   "strength, as in %s=%g, not '%s'",
                   row->name, choices, row->choices[0], (double)AUGMENT_USUAL.most[0], value);
}

/* none, or some of the choices separated by commas, each at most once. */
static bool set_strengths(const OptionRow *row, const char *value, void *options, Error *error) {
  AugmentStrengths strengths = {0};
  bool seen[AUGMENT_KINDS + 1] = {[AUGMENT_KINDS] = true}, good = true;
  const char *next = strcmp(value, "none") == 0 ? NULL : value;
  while (good && next) {
    const int k = kind_of(row, next, &next);
    if (seen[k]) return bad_strengths(row, value, error);
    seen[k] = true;
    strengths.most[k] = AUGMENT_USUAL.most[k];
    if (*next == '=') {
      next++;
      strengths.most[k] = strength_at(row, k, &next);
      if (isnan(strengths.most[k]))
        return error_set(error, "--%s: the strength of %s must be a number from 0 to %g in '%s'",
                         row->name, row->choices[k], (double)AUGMENT_GREATEST.most[k], value);
    }
    good = !*next || *next == ',';
    next = *next ? next + 1 : NULL;
  }
  if (!good) return bad_strengths(row, value, error);
  *(AugmentStrengths *)field_of(row, options) = strengths;
  return true;
}

/* The usual strengths are left out. */
static void get_strengths(const OptionRow *row, const void *options, char *text, size_t size) {
  const AugmentStrengths *strengths = value_of(row, options);
  size_t used = (size_t)snprintf(text, size, "%s", augment_any(*strengths) ? "" : "none");
  for (int k = 0; k < AUGMENT_KINDS && used < size; k++) {
    const float strength = strengths->most[k];
    char number[32];
    if (strength == 0) continue;
    print_float(strength, number, sizeof number);
    const bool usual = strength == AUGMENT_USUAL.most[k];
    used += (size_t)snprintf(text + used, size - used, "%s%s%s%s", used ? "," : "", row->choices[k],
                             usual ? "" : "=", usual ? "" : number);
  }
}

const OptionKind option_strengths = {set_strengths, get_strengths, NULL, false};

/* ---- files -------------------------------------------------------------------------------- */

/* True if a configuration file can hold the name: there blanks at the ends are dropped, and a
   semicolon behind a blank begins a comment. */
static bool fits_in_a_line(const char *name) {
  for (const char *c = name; *c; c++)
    if (iscntrl((unsigned char)*c) || (*c == ';' && (c == name || c[-1] == ' '))) return false;
  return name[0] != ' ' && name[strlen(name) - 1] != ' ';
}

static bool set_path(const OptionRow *row, const char *value, void *options, Error *error) {
  if (!value[0]) return error_set(error, "--%s must be the name of a file, not ''", row->name);
  if (row->initial && !fits_in_a_line(value))
    return error_set(error,
                     "--%s must be a name that a configuration file can hold: without blanks at "
                     "its ends, control characters or ' ;'",
                     row->name);
  if (strlen(value) >= OPTIONS_PATH)
    return error_set(error, "--%s must be the name of a file of at most %d bytes, not %zu",
                     row->name, OPTIONS_PATH - 1, strlen(value));
  strcpy(field_of(row, options), value);
  return true;
}

static bool set_paths(const OptionRow *row, const char *value, void *options, Error *error) {
  PathList *list = field_of(row, options);
  if (list->count == OPTIONS_LOADS)
    return error_set(error, "--%s can be given %d times at most", row->name, OPTIONS_LOADS);
  OptionRow next = *row; /* the field of the path to come */
  next.field += offsetof(PathList, path) + (size_t)list->count * sizeof *list->path;
  if (!set_path(&next, value, options, error)) return false;
  list->count++;
  return true;
}

static void get_paths(const OptionRow *row, const void *options, char *text, size_t size) {
  const PathList *list = value_of(row, options);
  snprintf(text, size, "%s", list->count > 0 ? list->path[0] : "");
}

static void get_path(const OptionRow *row, const void *options, char *text, size_t size) {
  snprintf(text, size, "%s", (const char *)value_of(row, options));
}

static const char *path_at(const OptionRow *row, const void *options, int index) {
  const char *path = value_of(row, options);
  return index == 0 && *path ? path : NULL;
}

static const char *paths_at(const OptionRow *row, const void *options, int index) {
  const PathList *list = value_of(row, options);
  return index < list->count ? list->path[index] : NULL;
}

static const char *path_unless_none(const OptionRow *row, const void *options, int index) {
  const char *path = path_at(row, options, index);
  return path && strcmp(path, "none") != 0 ? path : NULL;
}

const OptionKind option_path = {set_path, get_path, path_at, false};
const OptionKind option_path_or_none = {set_path, get_path, path_unless_none, false};
const OptionKind option_paths = {set_paths, get_paths, paths_at, false};

double option_share(const char *text) {
  char *end;
  const double share = strtod(text, &end);
  return isdigit((unsigned char)*text) && !*end ? share : NAN;
}

static const char *path_unless_share(const OptionRow *row, const void *options, int index) {
  const char *path = path_at(row, options, index);
  return path && isnan(option_share(path)) ? path : NULL;
}

static bool set_share_or_path(const OptionRow *row, const char *value, void *options,
                              Error *error) {
  const double share = option_share(value);
  if (share < 0 || share > row->high)
    return error_set(error, "--%s must be a share from 0 to %g, or the name of a file, not '%s'",
                     row->name, row->high, value);
  return set_path(row, value, options, error);
}

const OptionKind option_share_or_path = {set_share_or_path, get_path, path_unless_share, false};

/* ---- words -------------------------------------------------------------------------------- */

static bool set_word(const OptionRow *row, const char *value, void *options, Error *error) {
  (void)error;
  *(const char **)field_of(row, options) = value;
  return true;
}

static void get_word(const OptionRow *row, const void *options, char *text, size_t size) {
  const char *const *word = value_of(row, options);
  snprintf(text, size, "%s", *word ? *word : "");
}

static const char *word_at(const OptionRow *row, const void *options, int index) {
  const char *const *word = value_of(row, options);
  return index == 0 ? *word : NULL;
}

const OptionKind option_word = {set_word, get_word, word_at, false};

/* ---- lists of numbers --------------------------------------------------------------------- */

static bool set_sizes(const OptionRow *row, const char *value, void *options, Error *error) {
  HiddenSizes sizes = {0};
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
                     "--%s must be none, or 1 to %d sizes from 1 to %d separated by commas, "
                     "not '%s'",
                     row->name, NETWORK_MAX_LAYERS - 1, NETWORK_MAX_HIDDEN, value);
  *(HiddenSizes *)field_of(row, options) = sizes;
  return true;
}

static void get_sizes(const OptionRow *row, const void *options, char *text, size_t size) {
  const HiddenSizes *sizes = value_of(row, options);
  size_t used = (size_t)snprintf(text, size, "%s", sizes->count ? "" : "none");
  for (int i = 0; i < sizes->count && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%d", i ? "," : "", sizes->size[i]);
}

const OptionKind option_sizes = {set_sizes, get_sizes, NULL, false};

static bool set_shares(const OptionRow *row, const char *value, void *options, Error *error) {
  DropoutShares shares = {0};
  const char *next = value;
  bool good = true;
  while (good && next) {
    char *end;
    const float share = parse_float(row, next, &end);
    good = isfinite(share) && (!*end || *end == ',') && shares.count < NETWORK_MAX_LAYERS - 1;
    if (good) shares.share[shares.count++] = share;
    next = *end ? end + 1 : NULL;
  }
  if (!good)
    return error_set(error,
                     "--%s must be one number from %g to %g, or one for each hidden layer, "
                     "separated by commas, not '%s'",
                     row->name, row->low, row->high, value);
  bool drops = false;
  for (int i = 0; i < shares.count; i++) drops |= shares.share[i] > 0;
  if (!drops) shares.count = 1; /* nothing is dropped, of however many layers */
  *(DropoutShares *)field_of(row, options) = shares;
  return true;
}

static void get_shares(const OptionRow *row, const void *options, char *text, size_t size) {
  const DropoutShares *shares = value_of(row, options);
  size_t used = 0;
  for (int i = 0; i < shares->count && used + 1 < size; i++) {
    if (i) text[used++] = ',';
    print_float(shares->share[i], text + used, size - used);
    used += strlen(text + used);
  }
}

const OptionKind option_shares = {set_shares, get_shares, NULL, false};
