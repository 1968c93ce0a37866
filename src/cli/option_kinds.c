#define _DEFAULT_SOURCE /* for strsep */
#include "cli/option_kinds.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "engine/training.h"

/* Returns the row's field. The result is not const, but only `set` functions write to it. */
static void *field_of(const OptionRow *row, const void *options) {
  return (char *)options + row->field;
}

/* ---- numbers ------------------------------------------------------------------------------ */

enum { MEGABYTE = 1000000 };

/* Sets *whole to the text's number. Returns false unless it is a whole number from low to high. */
static bool whole_of(const char *text, double low, double high, uint64_t *whole) {
  char *end;
  errno = 0;
  *whole = strtoull(text, &end, 10);
  return isdigit((unsigned char)*text) && !*end && !errno && (double)*whole >= low &&
         (double)*whole <= high;
}

static bool set_whole(const OptionRow *row, const char *value, void *options, Error *error) {
  void *field = field_of(row, options);
  uint64_t whole;
  if (!whole_of(value, row->low, row->high, &whole))
    return error_set(error, "--%s must be a whole number from %.0f to %" PRIu64 ", not '%s'",
                     row->name, row->low, row->high < 0x1p64 ? (uint64_t)row->high : UINT64_MAX,
                     value);
  if (row->kind == &option_whole)
    *(int *)field = (int)whole;
  else
    *(uint64_t *)field = row->kind == &option_megabytes ? whole * MEGABYTE : whole;
  return true;
}

static ShortText get_whole(const OptionRow *row, const void *options) {
  const void *field = field_of(row, options);
  if (row->kind == &option_whole) return text_format("%d", *(const int *)field);
  const uint64_t whole = *(const uint64_t *)field;
  return text_format("%" PRIu64, row->kind == &option_megabytes ? whole / MEGABYTE : whole);
}

const OptionKind option_whole = {set_whole, get_whole, NULL, true},
                 option_whole64 = {set_whole, get_whole, NULL, true},
                 option_megabytes = {set_whole, get_whole, NULL, true};

/* Returns the number at the start of the text as a float32, or NAN if there is no number from low
   to high. Sets *end to where the number ends. */
static float number_at(const char *text, double low, double high, char **end) {
  errno = 0;
  const float number = strtof(text, end);
  const bool underflows = errno == ERANGE && number == 0; /* a denormal number is valid */
  const bool good = *text && !isspace((unsigned char)*text) && *end != text && !underflows &&
                    number >= (float)low && number <= (float)high;
  return good ? number : NAN;
}

static bool set_float(const OptionRow *row, const char *value, void *options, Error *error) {
  const bool may_be_auto = row->kind == &option_number_or_auto,
             is_auto = may_be_auto && strcmp(value, "auto") == 0;
  char *end;
  const float number = number_at(value, row->low, row->high, &end);
  if (!is_auto && (!isfinite(number) || *end))
    return error_set(error, "--%s must be %sa number from %g to %g, not '%s'", row->name,
                     may_be_auto ? "auto, or " : "", row->low, row->high, value);
  *(float *)field_of(row, options) = is_auto ? NAN : number;
  return true;
}

static ShortText get_float(const OptionRow *row, const void *options) {
  const double number = *(const float *)field_of(row, options);
  return isnan(number) ? text_format("auto") : number_text(number, true);
}

const OptionKind option_number = {set_float, get_float, NULL, true},
                 option_number_or_auto = {set_float, get_float, NULL, true};

/* ---- one of a few words ---------------------------------------------------------------------- */

static bool set_yes_no(const OptionRow *row, const char *value, void *options, Error *error) {
  const bool yes = strcmp(value, "yes") == 0;
  if (!yes && strcmp(value, "no") != 0)
    return error_set(error, "--%s must be yes or no, not '%s'", row->name, value);
  *(bool *)field_of(row, options) = yes;
  return true;
}

static ShortText get_yes_no(const OptionRow *row, const void *options) {
  return text_format(*(const bool *)field_of(row, options) ? "yes" : "no");
}

const OptionKind option_yes_no = {set_yes_no, get_yes_no, NULL, false};

/* Returns the index of the choice, or -1 if the word is not a choice. */
static int choice_of(const OptionRow *row, const char *word) {
  for (int i = 0; row->choices[i]; i++)
    if (strcmp(word, row->choices[i]) == 0) return i;
  return -1;
}

static bool set_choice(const OptionRow *row, const char *value, void *options, Error *error) {
  const int choice = choice_of(row, value);
  if (choice >= 0) {
    *(int *)field_of(row, options) = choice;
    return true;
  }
  error_set(error, "--%s must be one of %s, not '%s'", row->name, option_choices(row, ", ").text,
            value);
  return nearest_append(value, row->choices, "", error);
}

static ShortText get_choice(const OptionRow *row, const void *options) {
  return text_format("%s", row->choices[*(const int *)field_of(row, options)]);
}

const OptionKind option_choice = {set_choice, get_choice, NULL, false};

/* ---- files and other texts ------------------------------------------------------------------ */

double option_share(const char *text) {
  char *end;
  errno = 0;
  double share = strtod(text, &end);
  if (share == 0 && errno == ERANGE) share = DBL_MIN; /* 1e-999 is not 0 */
  if (*end == '%') share /= 100, end++;
  return isdigit((unsigned char)text[strspn(text, "-.")]) && !*end ? share : NAN;
}

static bool set_path(const OptionRow *row, const char *value, void *options, Error *error) {
  const double share = row->kind == &option_share_or_path ? option_share(value) : NAN;
  if (share < 0 || share > row->high || (share > 0 && share < row->low))
    return error_set(error,
                     "--%s must be 0, a fraction from %g to %g, or the name of a file, not '%s'",
                     row->name, row->low, row->high, value);
  if (!value[0])
    return error_set(error, "--%s must be %s, not ''", row->name,
                     row->kind == &option_name ? "a text" : "the name of a file");
  if (strlen(value) >= OPTIONS_PATH)
    return error_set(error, "--%s must be %s of at most %d bytes, not %zu", row->name,
                     row->kind == &option_name ? "a text" : "the name of a file", OPTIONS_PATH - 1,
                     strlen(value));
  strcpy(field_of(row, options), isnan(share) ? value : number_text(share, false).text);
  return true;
}

static bool set_paths(const OptionRow *row, const char *value, void *options, Error *error) {
  PathList *list = field_of(row, options);
  if (list->count == OPTIONS_LOADS)
    return error_set(error, "--%s can be given at most %d times", row->name, OPTIONS_LOADS);
  OptionRow next = *row; /* a copy of *row for the list's next path */
  next.field += offsetof(PathList, path) + (size_t)list->count * sizeof *list->path;
  if (!set_path(&next, value, options, error)) return false;
  list->count++;
  return true;
}

static bool set_word(const OptionRow *row, const char *value, void *options, Error *error) {
  (void)error;
  *(const char **)field_of(row, options) = value;
  return true;
}

/* Returns text number `index` of the field, counted from 0, or NULL after the last text. */
static const char *text_at(const OptionRow *row, const void *options, int index) {
  const void *field = field_of(row, options);
  const PathList *list = field;
  if (row->kind == &option_paths) return index < list->count ? list->path[index] : NULL;
  if (index > 0) return NULL;
  return row->kind == &option_word ? *(const char *const *)field : field;
}

static ShortText get_text(const OptionRow *row, const void *options) {
  const char *first = text_at(row, options, 0);
  return text_format("%s", first ? first : "");
}

static const char *file_at(const OptionRow *row, const void *options, int index) {
  const char *path = text_at(row, options, index);
  if (!path || !*path) return NULL;
  const bool is_none = row->kind == &option_path_or_none &&
                       (strcmp(path, "none") == 0 || strcmp(path, "auto") == 0),
             is_share = row->kind == &option_share_or_path && !isnan(option_share(path));
  return is_none || is_share ? NULL : path;
}

const OptionKind option_path = {set_path, get_text, file_at, false},
                 option_name = {set_path, get_text, NULL, false},
                 option_path_or_none = {set_path, get_text, file_at, false},
                 option_share_or_path = {set_path, get_text, file_at, false},
                 option_paths = {set_paths, get_text, file_at, false},
                 option_word = {set_word, get_text, file_at, false};

/* ---- lists, whose items are separated by commas ---------------------------------------------- */

enum { LIST = 512 }; /* bytes of a list, including the final 0 */

/* Copies a list for strsep. Returns NULL for "none". Sets *good to false if the copy is cut. */
static char *items_of(const char *value, char copy[LIST], bool *good) {
  *good = (size_t)snprintf(copy, LIST, "%s", value) < LIST;
  return strcmp(value, "none") == 0 ? NULL : copy;
}

static bool set_sizes(const OptionRow *row, const char *value, void *options, Error *error) {
  HiddenSizes sizes = {0};
  bool good;
  char copy[LIST], *rest = items_of(value, copy, &good);
  for (const char *item; good && (item = strsep(&rest, ","));) {
    uint64_t size;
    good = whole_of(item, 1, NETWORK_MAX_HIDDEN, &size) && sizes.count < NETWORK_MAX_LAYERS - 1;
    if (good) sizes.size[sizes.count++] = (int)size;
  }
  if (!good)
    return error_set(
        error, "--%s must be none, or 1 to %d sizes from 1 to %d separated by commas, not '%s'",
        row->name, NETWORK_MAX_LAYERS - 1, NETWORK_MAX_HIDDEN, value);
  *(HiddenSizes *)field_of(row, options) = sizes;
  return true;
}

static ShortText get_sizes(const OptionRow *row, const void *options) {
  const HiddenSizes *sizes = field_of(row, options);
  ShortText list = {""};
  for (int i = 0; i < sizes->count; i++)
    text_append(list.text, "%s%d", i ? "," : "", sizes->size[i]);
  return sizes->count ? list : text_format("none");
}

const OptionKind option_sizes = {set_sizes, get_sizes, NULL, false};

static bool set_shares(const OptionRow *row, const char *value, void *options, Error *error) {
  DropoutShares shares = {0};
  bool good, drops = false;
  char copy[LIST], *rest = items_of(value, copy, &good), *end;
  for (const char *item; good && (item = strsep(&rest, ","));) {
    const float share = number_at(item, row->low, row->high, &end);
    good = isfinite(share) && !*end && shares.count < NETWORK_MAX_LAYERS - 1;
    if (good) shares.share[shares.count++] = share;
    drops |= share > 0;
  }
  if (!good || shares.count == 0)
    return error_set(error,
                     "--%s must be one number from %g to %g, or one for each hidden layer, "
                     "separated by commas, not '%s'",
                     row->name, row->low, row->high, value);
  if (!drops) shares.count = 1; /* if nothing is dropped, the number of layers does not matter */
  *(DropoutShares *)field_of(row, options) = shares;
  return true;
}

static ShortText get_shares(const OptionRow *row, const void *options) {
  const DropoutShares *shares = field_of(row, options);
  ShortText list = {""};
  for (int i = 0; i < shares->count; i++)
    text_append(list.text, "%s%s", i ? "," : "", number_text(shares->share[i], true).text);
  return list;
}

const OptionKind option_shares = {set_shares, get_shares, NULL, false};

/* Reads "none", or a list of choices that names each choice at most once. */
static bool set_strengths(const OptionRow *row, const char *value, void *options, Error *error) {
  AugmentStrengths strengths = {0};
  bool seen[AUGMENT_KINDS] = {false}, good;
  char copy[LIST], *rest = items_of(value, copy, &good), *end;
  for (char *item; good && (item = strsep(&rest, ","));) {
    char *strength = strchr(item, '=');
    if (strength) *strength++ = '\0';
    const int k = choice_of(row, item);
    good = k >= 0 && !seen[k];
    if (!good) break;
    const double most = AUGMENT_GREATEST.most[k];
    seen[k] = true;
    strengths.most[k] = strength ? number_at(strength, 0, most, &end) : AUGMENT_USUAL.most[k];
    if (isnan(strengths.most[k]))
      return error_set(error, "--%s: the strength of %s must be a number from 0 to %g in '%s'",
                       row->name, item, most, value);
    good = !strength || !*end;
  }
  if (good) {
    *(AugmentStrengths *)field_of(row, options) = strengths;
    return true;
  }
  return error_set(error,
                   "--%s must be none, or any of %s, separated by commas, each alone or with its "
                   "strength, as in %s=%g, not '%s'",
                   row->name, option_choices(row, ", ").text, row->choices[0],
                   AUGMENT_USUAL.most[0], value);
}

/* Writes a strength only if it differs from the usual strength. */
static ShortText get_strengths(const OptionRow *row, const void *options) {
  const AugmentStrengths *strengths = field_of(row, options);
  ShortText list = {""};
  for (int k = 0; k < AUGMENT_KINDS; k++) {
    const float strength = strengths->most[k];
    if (strength == 0) continue;
    text_append(list.text, "%s%s", *list.text ? "," : "", row->choices[k]);
    if (strength != AUGMENT_USUAL.most[k])
      text_append(list.text, "=%s", number_text(strength, true).text);
  }
  return *list.text ? list : text_format("none");
}

const OptionKind option_strengths = {set_strengths, get_strengths, NULL, false};
