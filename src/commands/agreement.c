/* Ranks train one network only if they were started alike: here they compare the program, the
   options that training depends on, the saved run and the bytes of the data files. */
#include <inttypes.h>
#include <string.h>

#include "commands/commands.h"

typedef struct {
  const char *name;
  ShortText value; /* "": none */
} Fact;

/* Describes the bytes of a file; a rank that has none of that name differs from one that has. */
static ShortText describe_file(const char *path) {
  unsigned char bytes[1 << 16];
  unsigned long sum = 0, size = 0;
  FILE *file = source_can_repeat(path) ? fopen(path, "rb") : NULL;
  if (!file) return text_format("%.40s (no file)", path);
  for (size_t count; (count = fread(bytes, 1, sizeof bytes, file)) > 0; size += count)
    sum = crc32_z(sum, bytes, count);
  fclose(file);
  return text_format("%.40s (%lu bytes, CRC-32 %08lx)", path, size, sum);
}

static void gather_facts(const Options *o, const Checkpoint *from, Fact *fact) {
  const size_t size = (size_t)from->count * from->network.floats * sizeof *from->parameters;
  *fact++ = (Fact){"version", {MLP_TRAIN_VERSION}};
  *fact++ = (Fact){"seeds", text_format("%d", o->seeds)};
  *fact = (Fact){"resume", {""}};
  if (*o->resume || *o->init)
    fact->value =
        text_format("a run after epoch %d, step %" PRIu64 " (CRC-32 %08x)", from->epoch, from->step,
                    (unsigned)crc32_z(0, (const void *)from->parameters, size));
  foreach_row (row, &options_table) {
    if (!options_is_saved(row) || row->resume == RANKS_FREE) continue;
    const char *path = row->file == FILE_INPUT ? row->kind->file(row, o, 0) : NULL;
    *++fact = (Fact){row->name, path ? describe_file(path) : row->kind->get(row, o)};
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
      const char *first = all[0][f].value.text, *other = all[r][f].value.text;
      good = strcmp(first, other) == 0 ||
             error_set(error,
                       "rank %d was started with --%s %s, rank 0 with %s: give all ranks the same "
                       "options, the same saved run and the same data",
                       r, facts[f].name, *other ? other : "none", *first ? first : "none");
    }
  free(all);
  return good;
}
