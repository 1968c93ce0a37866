/* Ranks train one network only if they were started alike: here they compare the program, the
   options that training depends on, the saved run and the bytes of the data files. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands/commands.h"

enum { VALUE = 96 };

typedef struct {
  char name[32];
  char value[VALUE]; /* "": none */
} Fact;

/* Describes the bytes of a file; a rank that has none of that name differs from one that has. */
static void describe_file(const char *path, char *text) {
  unsigned char bytes[1 << 16];
  unsigned long sum = 0, size = 0;
  FILE *file = source_can_repeat(path) ? fopen(path, "rb") : NULL;
  for (size_t count; file && (count = fread(bytes, 1, sizeof bytes, file)) > 0; size += count)
    sum = crc32_z(sum, bytes, count);
  snprintf(text, VALUE, file ? "%.40s (%lu bytes, CRC-32 %08lx)" : "%.40s (no file)", path, size,
           sum);
  if (file) fclose(file);
}

static void add_fact(Fact **fact, const char *name, const char *value) {
  snprintf((*fact)->name, sizeof(*fact)->name, "%s", name);
  snprintf((*fact)++->value, VALUE, "%.*s", VALUE - 1, value);
}

static void gather_facts(const Options *o, const Checkpoint *from, Fact *fact) {
  char value[OPTIONS_PATH];
  add_fact(&fact, "version", MLP_TRAIN_VERSION);
  add_fact(&fact, o->seeds ? "seeds" : "ensemble", text_format("%d", o->ensemble + o->seeds).text);
  const size_t size = (size_t)from->count * from->network.floats * sizeof *from->parameters;
  const ShortText run =
      text_format("a run after epoch %d, step %" PRIu64 " (CRC-32 %08x)", from->epoch, from->step,
                  (unsigned)crc32_z(0, (const void *)from->parameters, size));
  add_fact(&fact, "resume", *o->resume || *o->init ? run.text : "");
  foreach_row (row, &options_table) {
    const bool may_differ = /* the same network comes of other values */
        strcmp(row->name, "threads") == 0 || strcmp(row->name, "device-memory") == 0;
    if (!options_is_saved(row) || may_differ) continue;
    const char *path = row->file == FILE_INPUT ? row->kind->file(row, o, 0) : NULL;
    row->kind->get(row, o, value, sizeof value);
    if (path) describe_file(path, value);
    add_fact(&fact, row->name, value);
  }
}

bool ranks_agree(Ranks *ranks, const Options *options, const Checkpoint *from, Error *error) {
  enum { MOST = OPTION_ROWS + 3 };
  Fact facts[MOST] = {0}; /* a rank of another version has as many */
  if (!ranks) return true;
  gather_facts(options, from, facts);
  Fact(*all)[MOST] = ranks_gather(ranks, facts, sizeof facts, error);
  bool good = all != NULL;
  for (size_t f = 0; good && f < MOST; f++)
    for (int r = 1; good && r < ranks_count(ranks); r++) {
      const char *first = all[0][f].value, *other = all[r][f].value;
      good = strcmp(first, other) == 0 ||
             error_set(error,
                       "rank %d was started with --%s %s, rank 0 with %s: give all ranks the same "
                       "options, the same saved run and the same data",
                       r, facts[f].name, *other ? other : "none", *first ? first : "none");
    }
  free(all);
  return good;
}
