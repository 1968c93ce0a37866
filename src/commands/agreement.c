/* Ranks train one network only if they were started alike: here they compare their options and the
   saved run. */
#include <inttypes.h>
#include <string.h>

#include "commands/commands.h"

/* Returns true if ranks may have other values of the option: each has its threads and its names of
   files to load, and only the first one prints and writes. */
static bool may_differ(const OptionRow *row) {
  const bool is_loaded = row->file == FILE_INPUT && row->resume == ONE_RUN;
  return !row->kind || row->resume == RANKS_FREE || row->file == FILE_OUTPUT || is_loaded ||
         row->kind == &option_yes_no;
}

bool ranks_agree(Ranks *ranks, const Options *o, const Checkpoint *from, Error *error) {
  ShortText mine[OPTION_ROWS + 1] = {{{""}}}; /* the last one is of the saved run */
  const size_t size = (size_t)from->count * from->network.floats * sizeof *from->parameters;
  if (!ranks) return true;
  foreach_row (row, &options_table)
    if (!may_differ(row)) mine[row - options_table.rows] = row->kind->get(row, o);
  mine[OPTION_ROWS] =
      text_format("epoch %d, step %" PRIu64 ", CRC-32 %08x", from->epoch, from->step,
                  (unsigned)crc32_z(0, (const void *)from->parameters, size));
  ShortText(*all)[OPTION_ROWS + 1] = ranks_gather(ranks, mine, sizeof mine, error);
  bool good = all != NULL;
  for (size_t i = 0; good && i <= OPTION_ROWS; i++)
    for (int r = 1; good && r < ranks_count(ranks); r++)
      good = strcmp(all[0][i].text, all[r][i].text) == 0 ||
             error_set(error,
                       "rank %d was started with %s%s '%.100s', rank 0 with '%.100s': give all "
                       "ranks the same options and the same saved run",
                       r, i < OPTION_ROWS ? "--" : "",
                       i < OPTION_ROWS ? options_table.rows[i].name : "a saved run of",
                       all[r][i].text, all[0][i].text);
  free(all);
  return good;
}
