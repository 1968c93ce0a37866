/* Ranks train one network only if they were started alike: here they compare the program, the
   options that training depends on, the saved run and the bytes of the data files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "commands/commands.h"
#include "data/source.h"

enum { VALUE = 96 };

typedef struct {
  char name[32];
  char value[VALUE]; /* "": none */
} Fact;

static uint32_t checksum(const void *bytes, size_t size) {
  return (uint32_t)crc32_z(0, bytes, size);
}

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

static void describe_run(const Checkpoint *from, char *text) {
  const size_t size = (size_t)from->count * from->network.floats * sizeof *from->parameters;
  snprintf(text, VALUE, "a run after epoch %d, step %llu (CRC-32 %08x)", from->epoch,
           (unsigned long long)from->step, checksum(from->parameters, size));
}

/* True if ranks may have other values: the same network comes of them. */
static bool may_differ(const OptionRow *row) {
  return strcmp(row->name, "threads") == 0 || strcmp(row->name, "device-memory") == 0;
}

/* Fills facts[OPTION_ROWS + 3]; returns how many there are. */
static size_t gather_facts(const Options *o, const Checkpoint *from, Fact *facts) {
  size_t count = 0;
  snprintf(facts[count].name, sizeof facts->name, "version");
  snprintf(facts[count++].value, VALUE, "%s", MLP_TRAIN_VERSION);
  snprintf(facts[count].name, sizeof facts->name, "ensemble");
  snprintf(facts[count++].value, VALUE, "%d", o->ensemble);
  snprintf(facts[count].name, sizeof facts->name, "resume");
  if (*o->resume) describe_run(from, facts[count].value);
  count++;
  for (size_t i = 0; i < options_table.count; i++) {
    const OptionRow *row = &options_table.rows[i];
    char value[OPTIONS_PATH];
    if (!options_is_saved(row) || may_differ(row)) continue;
    Fact *fact = &facts[count++];
    const char *path = row->file == FILE_INPUT ? row->kind->file(row, o, 0) : NULL;
    row->kind->get(row, o, value, sizeof value);
    snprintf(fact->name, sizeof fact->name, "%s", row->name);
    snprintf(fact->value, VALUE, "%.*s", VALUE - 1, value);
    if (path) describe_file(path, fact->value);
  }
  return count;
}

/* Sets the sentence about fact `f`, which rank r has otherwise than rank 0. */
static bool say_difference(Ranks *ranks, const Fact *fact, int r, Error *error) {
  char(*values)[VALUE] = ranks_gather(ranks, fact->value, VALUE, error);
  if (values)
    error_set(error,
              "rank %d was started with --%s %s, rank 0 with %s: give all ranks the same options, "
              "the same saved run and the same data",
              r, fact->name, *values[r] ? values[r] : "left out", *values[0] ? values[0] : "none");
  free(values);
  return false;
}

bool ranks_agree(Ranks *ranks, const Options *options, const Checkpoint *from, Error *error) {
  const int others = ranks_count(ranks);
  Fact facts[OPTION_ROWS + 3] = {0};
  uint32_t sums[OPTION_ROWS + 3] = {0}; /* a rank of another version has as many */
  const size_t count = ranks ? gather_facts(options, from, facts) : 0;
  for (size_t f = 0; f < count; f++) sums[f] = checksum(&facts[f], sizeof facts[f]);
  uint32_t(*all)[OPTION_ROWS + 3] = ranks_gather(ranks, sums, sizeof sums, error);
  bool good = all != NULL;
  for (size_t f = 0; good && f < count; f++)
    for (int r = 1; good && r < others; r++)
      if (all[r][f] != all[0][f]) good = say_difference(ranks, &facts[f], r, error);
  free(all);
  return good;
}
