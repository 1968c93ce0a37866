#define _GNU_SOURCE /* strcasestr */
#include "data/dataset.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "base/text.h"
#include "data/csv_chunk.h"
#include "data/cures.h"
#include "data/idx.h"

enum { LOOK = 4096 }; /* number of rows that show if a file is sorted; fits a staging buffer */

/* Size in bytes of a chunk's text. Large chunks need little locking. Small chunks let the first
   rows come soon and let all threads end at about the same time. Every line must fit in a chunk; a
   line of 4097 quoted fields takes a tenth of a chunk. */
enum { CHUNK_BYTES = 1 << 18 };

typedef struct Worker {
  struct Worker *next;
  DatasetReader *reader;
  pthread_t thread;
  ChunkParser parser;
  Chunk *chunk; /* the chunk that is being filled */
  char text[CHUNK_BYTES];
  uint8_t row[DATASET_MAX_COLUMNS];
} Worker;

struct DatasetReader {
  DatasetConfig config;
  CsvColumns columns;
  size_t chunk_rows; /* maximum number of rows in a chunk */
  Worker *workers;

  /* The mutex guards the next fields, which all threads share. */
  pthread_mutex_t mutex;
  pthread_cond_t turn;        /* tells a worker that it may read the source or must stop */
  pthread_cond_t ready;       /* tells the consumer that a chunk has been parsed */
  bool reading;               /* a worker is reading the source */
  bool ended;                 /* no worker will read the source again */
  size_t chunks, chunk_limit; /* number of allocated chunks; maximum of this number */
  size_t unparsed;            /* number of chunks that are being filled or parsed */
  uint64_t parsed_rows;
  Chunk *spare;       /* list of the chunks that are free to be filled */
  Chunk *head, **end; /* queue of chunks in file order; where to link the next chunk */

  /* Only the worker that is reading the source uses the next fields. */
  Source source;
  Idx idx;            /* turns the source's pictures into lines, if it has pictures */
  size_t tail_length; /* number of bytes in `tail`, which holds the start of the next line */
  char tail[CHUNK_BYTES];

  /* Only the consumer, which calls dataset_read, uses the next fields. */
  Split split;  /* if split.share is 0, all rows are delivered */
  size_t taken; /* number of rows delivered from the chunk `head` */
  uint64_t rows;
  DataSummary summary;
  uint64_t pixel_sum;
  uint16_t last_label; /* the label of the last delivered row */
  uint64_t ignored;    /* the last ignored label of the delivered chunks, if it is a number */
  uint64_t *numbers;   /* numbers of the rows that the last dataset_read delivered, if there is a
                          split */
  size_t numbers_room;
  uint64_t first_number; /* the number of the first of these rows */
  FILE *ids;             /* writes id_text; NULL if rows have no ids or nobody wants them */
  char *id_text;         /* the ids of these rows, each with a 0 byte */
  size_t id_size;
  const char *next_id; /* the next id in id_text that dataset_id returns */
  uint64_t offset;     /* Chunk.offset of the last chunk whose rows were all delivered */
  uint64_t line;       /* line number of the first line of the chunk `head` */
  uint64_t blank_line; /* line where the blank lines just before `head` start, or CSV_NONE */
};

/* ---- the threads ------------------------------------------------------------------------- */

/* Reads whole lines into worker->text and returns their length. Keeps the rest in reader->tail. */
static size_t take_lines(DatasetReader *reader, Worker *worker) {
  char *text = worker->text;
  Source *source = &reader->source;
  size_t length = reader->tail_length;
  memcpy(text, reader->tail, length);
  length += idx_read(&reader->idx, source, text + length, CHUNK_BYTES - length);
  size_t cut = length;
  if (!reader->idx.ended || *source->error.text)
    while (cut > 0 && text[cut - 1] != '\n') cut--;
  if (cut == 0 && length == CHUNK_BYTES)
    error_set(chunk_fault(worker->chunk, 0, 0), "longer than %d bytes", CHUNK_BYTES - 1);
  reader->tail_length = length - cut;
  memcpy(reader->tail, text + cut, reader->tail_length);
  return cut;
}

/* Returns true if the numbers of rows are kept. */
static bool keeps_ids(const DatasetReader *reader) {
  return reader->config.predicts && reader->summary.id;
}

static size_t chunk_bytes(const DatasetReader *reader) {
  const size_t ids = keeps_ids(reader) ? reader->chunk_rows * sizeof(uint32_t) + CHUNK_BYTES : 0;
  return sizeof(Chunk) + ids + reader->chunk_rows * (reader->columns.inputs + sizeof(uint16_t));
}

static void free_chunk(Chunk *chunk) {
  if (chunk->ids) free(chunk->id_text);
  free(chunk->ids);
  free(chunk);
}

static Chunk *new_chunk(DatasetReader *reader) {
  Chunk *chunk = malloc(chunk_bytes(reader));
  if (!chunk) return NULL;
  chunk->pixels = (uint8_t *)(chunk->labels + reader->chunk_rows);
  chunk->ids = NULL;
  if (keeps_ids(reader)) {
    chunk->ids = malloc(reader->chunk_rows * sizeof *chunk->ids);
    chunk->id_text = malloc(CHUNK_BYTES);
  }
  if (keeps_ids(reader) && (!chunk->ids || !chunk->id_text)) {
    free_chunk(chunk);
    return NULL;
  }
  reader->chunks++;
  return chunk;
}

/* Returns a chunk to be filled, or NULL if all chunks are in use. */
static Chunk *take_chunk(DatasetReader *reader) {
  Chunk *chunk = reader->spare;
  if (chunk) {
    reader->spare = chunk->next;
  } else if (reader->chunks < reader->chunk_limit) {
    chunk = new_chunk(reader);
    if (!chunk) { /* memory ran out; dataset_max_rows may wait for a chunk, so wake it */
      reader->chunk_limit = reader->chunks;
      pthread_cond_signal(&reader->ready);
    }
  }
  return chunk;
}

/* Waits until the worker may read. Returns false if no text is left. The caller holds the mutex. */
static bool begin_turn(Worker *worker) {
  DatasetReader *reader = worker->reader;
  while (!reader->ended) {
    Chunk *chunk = reader->reading ? NULL : take_chunk(reader);
    if (chunk) {
      chunk->next = NULL;
      chunk->parsed = chunk->words = chunk->mapped = false;
      chunk->rows = chunk->lines = chunk->id_end = 0;
      chunk->blank = chunk->fault_line = CSV_NONE;
      worker->chunk = *reader->end = chunk;
      reader->end = &chunk->next;
      reader->reading = true;
      reader->unparsed++;
      return true;
    }
    pthread_cond_wait(&reader->turn, &reader->mutex);
  }
  return false;
}

/* Puts the pixels of the chunk's rows into the network's order. `row` has room for a row. */
static void reorder(Chunk *chunk, const CsvColumns *c, uint8_t *row) {
  for (size_t r = 0; c->order && r < chunk->rows; r++) {
    uint8_t *pixels = chunk->pixels + r * c->inputs;
    memcpy(row, pixels, c->inputs);
    for (size_t i = 0; i < c->inputs; i++) pixels[c->order[i]] = row[i];
  }
}

/* Finds the least and the greatest pixel of the chunk's rows, and the sum of all pixels. */
static void measure(Chunk *chunk, size_t inputs) {
  uint8_t least = UINT8_MAX, greatest = 0;
  chunk->sum = 0;
  for (size_t r = 0; r < chunk->rows; r++) {
    const uint8_t *row = chunk->pixels + r * inputs;
    uint32_t sum = 0;
    for (size_t i = 0; i < inputs; i++) {
      least = row[i] < least ? row[i] : least;
      greatest = row[i] > greatest ? row[i] : greatest;
      sum += row[i];
    }
    chunk->sum += sum;
  }
  chunk->least = least;
  chunk->greatest = greatest;
}

static void *work(void *context) {
  Worker *worker = context;
  DatasetReader *reader = worker->reader;
  pthread_mutex_lock(&reader->mutex);
  while (begin_turn(worker)) {
    pthread_mutex_unlock(&reader->mutex);
    const size_t length = take_lines(reader, worker);
    worker->chunk->cut_off = *reader->source.error.text != '\0';
    worker->chunk->offset = reader->source.offset;
    const bool last = reader->idx.ended || chunk_failed(worker->chunk);
    pthread_mutex_lock(&reader->mutex);
    reader->reading = false;
    reader->ended = reader->ended || last;
    pthread_cond_signal(&reader->turn);
    pthread_mutex_unlock(&reader->mutex);
    chunk_parse(&worker->parser, worker->chunk, worker->text, length);
    reorder(worker->chunk, &reader->columns, worker->row);
    measure(worker->chunk, reader->columns.inputs);
    pthread_mutex_lock(&reader->mutex);
    worker->chunk->parsed = true;
    reader->unparsed--;
    reader->parsed_rows += worker->chunk->rows;
    if (chunk_failed(worker->chunk)) reader->ended = true; /* text after a fault is not read */
    pthread_cond_signal(&reader->ready);
  }
  pthread_mutex_unlock(&reader->mutex);
  return NULL;
}

/* ---- opening ----------------------------------------------------------------------------- */

static void drop(DatasetReader *reader, size_t length) {
  reader->tail_length -= length;
  memmove(reader->tail, reader->tail + length, reader->tail_length);
}

/* Learns the columns from the first line, and drops that line if it is a header. */
static bool read_first_line(DatasetReader *reader, Error *error) {
  const char *name = reader->source.name, *tail = reader->tail;
  const DatasetConfig *config = &reader->config;
  reader->tail_length = idx_read(&reader->idx, &reader->source, reader->tail, CHUNK_BYTES);
  if (*reader->source.error.text) return error_set(error, "%s", reader->source.error.text);
  if (reader->tail_length >= 3 && memcmp(tail, "\xef\xbb\xbf", 3) == 0) drop(reader, 3);
  if (reader->tail_length == 0) return error_set(error, "%s is empty", name);

  const char *end = memchr(tail, '\n', reader->tail_length);
  const size_t length = end ? (size_t)(end - tail) + 1 : reader->tail_length;
  if (!csv_check_text(name, tail, length, error)) return false;
  if (!end && length == CHUNK_BYTES)
    return error_set(error, "%s, line 1: longer than %d bytes", name, CHUNK_BYTES - 1);
  LinesOf lines = LINES_OF_TEXT;
  if (reader->idx.rows > 0)
    lines = reader->idx.labels ? LINES_OF_LABELLED_PICTURES : LINES_OF_PICTURES;
  const ColumnsKnown known = {name,           config->label,    config->left_out,
                              config->inputs, config->predicts, config->trained,
                              lines};
  if (!columns_decide(&known, tail, length, &reader->columns, &reader->summary, error)) {
    if (lines == LINES_OF_TEXT) cures_append(config->path, &reader->columns, 2, 0, error);
    return false;
  }
  reader->line = reader->columns.named ? 2 : 1;
  if (reader->columns.named) drop(reader, length);
  return true;
}

/* Starts up to `threads` workers. Returns false if not even one starts. */
static bool start_workers(DatasetReader *reader, size_t threads, Error *error) {
  int code = ENOMEM;
  for (size_t i = 0; i < threads; i++) {
    Worker *worker = calloc(1, sizeof *worker);
    if (!worker) break;
    worker->next = reader->workers;
    worker->reader = reader;
    chunk_parser_open(&worker->parser, &reader->columns);
    code = pthread_create(&worker->thread, NULL, work, worker);
    if (code != 0) {
      free(worker);
      break;
    }
    reader->workers = worker;
  }
  return reader->workers || error_set(error, "cannot start a thread to read %s: %s",
                                      reader->source.name, strerror(code));
}

/* Waits until the next chunk in file order is parsed. Returns the chunk, or NULL at the end. */
static Chunk *wait_for_chunk(DatasetReader *reader) {
  pthread_mutex_lock(&reader->mutex);
  while (reader->head ? !reader->head->parsed : !reader->ended)
    pthread_cond_wait(&reader->ready, &reader->mutex);
  Chunk *chunk = reader->head;
  pthread_mutex_unlock(&reader->mutex);
  return chunk;
}

/* Returns true if `classes` columns are one-hot: in each row, one of them is 1 and the others are
   0, and the 1 is not always in the same column. Looks at the first columns or, if `last`, at the
   last columns. The label column may be among them. */
static bool is_one_hot(const Chunk *chunk, const CsvColumns *c, bool last) {
  const size_t classes = (size_t)c->classes, begin = last ? c->inputs + 1 - classes : 0;
  size_t place = 0;
  bool varies = false;
  for (size_t r = 0; r < chunk->rows; r++) {
    size_t sum = 0, one = 0;
    for (size_t i = begin; i < begin + classes; i++) {
      const size_t value =
          i == c->label ? chunk->labels[r] : chunk->pixels[r * c->inputs + i - (i > c->label)];
      sum += value;
      if (value) one = i;
    }
    if (sum != 1) return false;
    varies |= r > 0 && one != place;
    place = one;
  }
  return varies;
}

/* Refuses a file whose first rows have one-hot labels. */
static bool check_one_hot(DatasetReader *reader, Error *error) {
  enum { ENOUGH = 10 };
  const CsvColumns *c = &reader->columns;
  if (!c->judged || c->inputs <= (size_t)c->classes) return true;
  const Chunk *chunk = wait_for_chunk(reader);
  for (int last = 0; chunk->rows >= ENOUGH && last < 2; last++)
    if (is_one_hot(chunk, c, last))
      return error_set(error,
                       "%s: the %s %d columns hold a single 1, a one-hot label: write the number "
                       "of the class in one column, as numpy's argmax(axis=1) gives it",
                       reader->source.name, last ? "last" : "first", c->classes);
  return true;
}

/* Returns the size in bytes of the shortest possible row. Each column takes at least a digit and a
   separator. Only a column that is ignored may be empty. */
static size_t least_bytes(const CsvColumns *c) {
  return 2 * c->columns - (c->stops - c->judged);
}

/* Returns true if the file's size is the length of its text, as it is not for pipes, archives and
   pictures. */
static bool knows_length(const DatasetReader *reader) {
  return !reader->source.once && !reader->source.packed && reader->idx.rows == 0;
}

/* Refuses pictures without labels, unless rows may lack labels. */
static bool check_pictures(const DatasetReader *reader, Error *error) {
  char path[IDX_PATH];
  const char *name = reader->source.name;
  if (reader->idx.rows == 0 || reader->idx.labels || reader->config.predicts) return true;
  if (!idx_labels_path(name, path))
    return error_set(
        error,
        "%s holds pictures, but their labels cannot be found by its name: rename both files, or "
        "link them with ln -s, to names like my-images and my-labels",
        name);
  return error_set(error, "%s holds pictures, but there is no file of their labels, %s", name,
                   path);
}

static bool start(DatasetReader *reader, Error *error) {
  const DatasetConfig *c = &reader->config;
  if (!source_open(&reader->source, c->path, error) ||
      !idx_open(&reader->idx, &reader->source, error) || !check_pictures(reader, error) ||
      !read_first_line(reader, error))
    return false;
  reader->summary.on_side = reader->idx.rows > 0 && strcasestr(c->path, "emnist");
  reader->summary.device = reader->source.stamp.st_dev;
  reader->summary.inode = reader->source.stamp.st_ino;
  reader->summary.file_size = reader->source.size;
  size_t threads = (size_t)c->threads, useful = reader->source.size / CHUNK_BYTES + 1;
  if (knows_length(reader) && threads > useful) threads = useful;
  /* The parser may also begin a row that is too short, so a chunk has room for 1 more row. */
  reader->chunk_rows = CHUNK_BYTES / least_bytes(&reader->columns) + 1;
  /* A small archive may hold any number of rows. If the caller sets no limit (`ahead`), chunks take
     at most half of the memory. The other half is for the dataset. */
  reader->chunk_limit = c->ahead > 0 ? c->ahead / reader->chunk_rows + 1
                                     : memory_available() / 2 / chunk_bytes(reader);
  if (reader->chunk_limit < threads) reader->chunk_limit = threads;
  reader->spare = new_chunk(reader); /* if memory runs out later, this one chunk is enough */
  if (!reader->spare) return error_set(error, "no memory to read %s", reader->source.name);
  reader->spare->next = NULL;
  return start_workers(reader, threads, error) && check_one_hot(reader, error);
}

DatasetReader *dataset_open(const DatasetConfig *config, Error *error) {
  DatasetReader *reader = calloc(1, sizeof *reader);
  if (!reader) return error_null(error, "no memory to read %s", config->path);
  reader->config = *config;
  if (!config->label) reader->config.label = "";
  if (!config->left_out) reader->config.left_out = "";
  reader->columns.classes = config->classes;
  reader->columns.names = config->names;
  reader->columns.words =
      config->names && config->found_names && config->trained && config->trained->words;
  reader->split = (Split){config->hold_out, config->seed, config->held_out, config->classes, {{0}}};
  reader->blank_line = CSV_NONE;
  reader->end = &reader->head;
  reader->source.file = -1;
  reader->summary = (DataSummary){.classes = config->classes, .least = UINT8_MAX};
  pthread_mutex_init(&reader->mutex, NULL);
  pthread_cond_init(&reader->turn, NULL);
  pthread_cond_init(&reader->ready, NULL);
  if (start(reader, error)) return reader;
  dataset_close(reader);
  return NULL;
}

void dataset_close(DatasetReader *reader) {
  if (!reader) return;
  pthread_mutex_lock(&reader->mutex);
  reader->ended = true;
  pthread_cond_broadcast(&reader->turn);
  pthread_mutex_unlock(&reader->mutex);
  atomic_store(&reader->source.abandoned, true);
  while (reader->workers) {
    Worker *worker = reader->workers;
    pthread_join(worker->thread, NULL);
    reader->workers = worker->next;
    csv_free(&worker->parser.csv);
    free(worker);
  }
  *reader->end = reader->spare;
  for (Chunk *next; reader->head; reader->head = next) {
    next = reader->head->next;
    free_chunk(reader->head);
  }
  pthread_cond_destroy(&reader->ready);
  pthread_cond_destroy(&reader->turn);
  pthread_mutex_destroy(&reader->mutex);
  source_close(&reader->source);
  idx_close(&reader->idx);
  if (reader->ids) fclose(reader->ids);
  free(reader->id_text);
  free(reader->columns.order);
  free(reader->numbers);
  free(reader);
}

/* ---- the consumer ------------------------------------------------------------------------ */

int dataset_inputs(const DatasetReader *reader) {
  return (int)reader->columns.inputs;
}

const Source *dataset_source(const DatasetReader *reader) {
  return &reader->source;
}

/* Returns the bound of dataset_max_rows for a reader without a split. */
static uint64_t max_rows(DatasetReader *reader, uint64_t most) {
  if (knows_length(reader)) return (reader->source.size + 1) / least_bytes(&reader->columns);
  if (reader->idx.rows > 0) return reader->idx.rows;
  pthread_mutex_lock(&reader->mutex);
  bool all, full = false; /* full: no chunk is free and no more may be allocated */
  while (!(all = reader->ended && reader->unparsed == 0) && !full && reader->parsed_rows <= most) {
    full = reader->unparsed == 0 && !reader->spare && reader->chunks >= reader->chunk_limit;
    if (!full) pthread_cond_wait(&reader->ready, &reader->mutex);
  }
  const uint64_t rows = reader->parsed_rows;
  pthread_mutex_unlock(&reader->mutex);
  return all || rows > most ? rows : most + 1;
}

uint64_t dataset_max_rows(DatasetReader *reader, uint64_t most) {
  const uint64_t rows = max_rows(reader, most);
  const bool counted = knows_length(reader) || reader->idx.rows > 0 || rows <= most;
  return reader->split.share > 0 && counted ? split_most(&reader->split, rows) : rows;
}

double dataset_progress(const DatasetReader *reader) {
  const uint64_t size = reader->source.size;
  if (size == 0) return 0;
  return reader->offset < size ? (double)reader->offset / (double)size : 1;
}

const DataSummary *dataset_summary(DatasetReader *reader) {
  DataSummary *s = &reader->summary;
  s->file_rows = reader->rows + reader->taken;
  s->mean = (double)reader->pixel_sum / fmax(1, (double)reader->rows * s->inputs);
  if (s->rows < LOOK) s->sorted = data_is_sorted(s, false);
  return s;
}

/* Notes what the ignored labels of the next chunk are. */
static void see_ignored(DatasetReader *reader, const IgnoredLabels *next) {
  DataSummary *s = &reader->summary;
  const bool is_first = reader->rows == 0;
  if (is_first) s->first_ignored = next->first;
  s->counts_up =
      next->counts_up && (is_first || (s->counts_up && next->first == reader->ignored + 1));
  s->constant = next->constant && (is_first || (s->constant && next->first == s->first_ignored));
  reader->ignored = next->last;
}

/* Adds a delivered chunk to the reader's totals. The chunk can then be filled again. */
static void recycle(DatasetReader *reader, Chunk *chunk) {
  DataSummary *s = &reader->summary;
  s->least = min_int(s->least, chunk->least);
  s->greatest = max_int(s->greatest, chunk->greatest);
  reader->pixel_sum += chunk->sum;
  s->words |= chunk->words || chunk->mapped;
  s->mapped |= chunk->mapped;
  if (chunk->blank != CSV_NONE && reader->blank_line == CSV_NONE)
    reader->blank_line = reader->line + chunk->blank;
  if (chunk->rows > 0 && reader->columns.labelled && !reader->columns.judged)
    see_ignored(reader, &chunk->ignored);
  reader->line += chunk->lines;
  reader->offset = chunk->offset;
  reader->rows += chunk->rows;
  reader->taken = 0;
  pthread_mutex_lock(&reader->mutex);
  reader->head = chunk->next;
  if (!reader->head) reader->end = &reader->head;
  chunk->next = reader->spare;
  reader->spare = chunk;
  pthread_cond_signal(&reader->turn);
  pthread_mutex_unlock(&reader->mutex);
}

/* Keeps the number and the id of the chunk's next row, which is row `index` of this call of
   dataset_read, if anybody wants them. */
static void keep_number(DatasetReader *reader, const Chunk *chunk, size_t index) {
  if (chunk->ids) {
    const char *id = chunk->id_text + chunk->ids[reader->taken];
    fwrite(id, 1, strlen(id) + 1, reader->ids);
  }
  if (reader->split.share > 0) reader->numbers[index] = reader->rows + reader->taken + 1;
}

/* Copies at most `wanted` of the chunk's next rows, of which the first is row `first` of this call
   of dataset_read. Returns the number of rows copied. */
static size_t take_rows(DatasetReader *reader, const Chunk *chunk, uint8_t *pixels, size_t stride,
                        uint16_t *labels, size_t first, size_t wanted) {
  const size_t inputs = reader->columns.inputs;
  DataSummary *s = &reader->summary;
  size_t count = 0;
  for (; count < wanted && reader->taken < chunk->rows; reader->taken++) {
    const uint16_t label = chunk->labels[reader->taken];
    if (reader->split.share > 0 && !split_takes(&reader->split, label)) continue;
    s->alike += s->rows > 0 && label == reader->last_label;
    s->counts[reader->last_label = label] += reader->columns.judged;
    if (++s->rows == LOOK) s->sorted = data_is_sorted(s, true);
    memcpy(pixels + count * stride, chunk->pixels + reader->taken * inputs, inputs);
    keep_number(reader, chunk, first + count);
    labels[count++] = label;
  }
  return count;
}

/* Gives reader->numbers room for `rows` rows if there is a split. Makes room for ids. */
static bool make_numbers(DatasetReader *reader, size_t rows, Error *error) {
  reader->first_number = reader->rows + reader->taken + 1;
  if (keeps_ids(reader)) {
    if (!reader->ids) reader->ids = open_memstream(&reader->id_text, &reader->id_size);
    if (!reader->ids) return error_set(error, "no memory to read %s", reader->source.name);
    rewind(reader->ids);
    reader->next_id = NULL;
  }
  if (reader->split.share == 0 || rows <= reader->numbers_room) return true;
  free(reader->numbers);
  reader->numbers = make_array(reader->numbers, rows);
  reader->numbers_room = reader->numbers ? rows : 0;
  return reader->numbers || error_set(error, "no memory to read %s", reader->source.name);
}

uint64_t dataset_number(const DatasetReader *reader, size_t index) {
  return reader->split.share > 0 ? reader->numbers[index] : reader->first_number + index;
}

const char *dataset_next_id(DatasetReader *reader) {
  if (!reader->ids) return NULL;
  if (!reader->next_id) {
    if (fflush(reader->ids) != 0 || ferror(reader->ids)) return NULL;
    reader->next_id = reader->id_text;
  }
  const char *id = reader->next_id;
  reader->next_id += strlen(id) + 1;
  return id;
}

/* Refuses rows that all have one label if they are to train, or if they are to be compared with the
   answers of a network but their label's column may be wrong. */
static bool check_labels(const DatasetReader *reader, Error *error) {
  enum { ENOUGH = 10 }; /* the labels of fewer rows may be equal by chance */
  const DataSummary *s = &reader->summary;
  const bool doubtful = s->label_found < LABEL_NAMED, trains = reader->config.trains;
  int label = 0;
  while (label < s->classes - 1 && s->counts[label] == 0) label++;
  if (s->counts[label] < (trains ? 2 : ENOUGH) || s->counts[label] < s->rows) return true;
  if (!trains && !(doubtful && reader->config.trained)) return true;
  ShortText where = {""};
  if (s->label) where = text_format(" in column %d", s->label);
  error_set(error, "%s: all %" PRIu64 " rows have label %d%s%s", reader->source.name, s->rows,
            label, where.text, trains ? ", but training needs two classes" : "");
  const size_t length = strlen(error->text);
  if (doubtful)
    cures_append(reader->config.path, &reader->columns, CSV_NONE, (size_t)s->label, error);
  if (doubtful && strlen(error->text) == length)
    text_append(error->text, ": --label-column says which column has the labels");
  return false;
}

/* Sets *error to the chunk's fault and the place of it in the file. Returns false. */
static bool say_fault(const DatasetReader *reader, const Chunk *chunk, Error *error) {
  const uint64_t line = reader->line + chunk->fault_line;
  ShortText column = {""};
  if (chunk->fault_column > 0) column = text_format(", column %zu", chunk->fault_column);
  error_set(error, "%s, line %" PRIu64 "%s: %s", reader->source.name, line, column.text,
            chunk->fault.text);
  if (reader->idx.rows == 0)
    cures_append(reader->config.path, &reader->columns, line, chunk->fault_column, error);
  return false;
}

bool dataset_read(DatasetReader *reader, uint8_t *pixels, size_t stride, uint16_t *labels,
                  size_t rows, size_t *filled, Error *error) {
  *filled = 0;
  if (!make_numbers(reader, rows, error)) return false;
  while (*filled < rows) {
    Chunk *chunk = wait_for_chunk(reader);
    if (!chunk && reader->rows == 0)
      return error_set(error, "%s holds a header, but no rows", reader->source.name);
    if (!chunk) return check_labels(reader, error);
    if (reader->blank_line != CSV_NONE && (chunk->rows > 0 || chunk_failed(chunk)))
      return error_set(error, "%s, line %" PRIu64 ": " CSV_BLANK_LINE, reader->source.name,
                       reader->blank_line);
    *filled += take_rows(reader, chunk, pixels + *filled * stride, stride, labels + *filled,
                         *filled, rows - *filled);
    if (reader->taken < chunk->rows) continue;
    if (chunk_failed(chunk)) return say_fault(reader, chunk, error);
    if (chunk->cut_off) return error_set(error, "%s", reader->source.error.text);
    recycle(reader, chunk);
  }
  return true;
}
