#include "data/dataset.h"

#include <csv.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Text of a chunk. Large enough that taking turns costs nothing beside parsing, small enough
   that the first rows come soon and the threads end together. It also bounds a line: ten times
   what 4097 quoted columns need. */
enum { CHUNK_BYTES = 1 << 18 };

/* REPALL_NL: blank lines are reported, too. */
enum { CSV_OPTIONS = CSV_STRICT | CSV_STRICT_FINI | CSV_REPALL_NL };

static const uint64_t NONE = UINT64_MAX;

#define BLANK_LINE "a blank line, but more lines follow"
#define UNENDED_QUOTE "a quoted field that does not end on its line"
#define STRAY_QUOTE "a stray quote"

/* What became of some whole lines of text. Lines count from 0 within the chunk: only the
   consumer knows how many lines went before. */
typedef struct Chunk {
  struct Chunk *next;
  bool parsed;
  uint64_t offset; /* how far the file had been read for it */
  size_t rows;
  uint64_t lines; /* that ended */
  uint64_t blank; /* the first of the blank lines at the end, or NONE */
  Error fault;    /* what is wrong after these rows, if fault_line is not NONE, */
  uint64_t fault_line;
  size_t fault_column; /* from 1; 0: the line as a whole */
  bool cut_off;        /* the source failed behind it */
  uint8_t *pixels;     /* (capacity, inputs) */
  uint16_t labels[];   /* (capacity), with the pixels behind them */
} Chunk;

typedef struct Worker {
  struct Worker *next;
  DatasetReader *reader;
  pthread_t thread;
  struct csv_parser csv;
  Chunk *chunk;               /* being filled */
  uint8_t *row;               /* pixels of the row that is being parsed */
  uint8_t *pixel, *row_end;   /* where its next pixel goes; equal: the next field is not a pixel */
  size_t others;              /* its fields that were no pixels: a label, fields too many */
  bool row_on_line, carriage; /* the line has had a row, a carriage return */
  char text[CHUNK_BYTES];
} Worker;

struct DatasetReader {
  int classes;
  size_t columns, inputs;
  bool labelled;     /* the first column is a label, all others are pixels */
  size_t chunk_rows; /* a chunk's capacity */
  Worker *workers;

  /* Shared, under the mutex. */
  pthread_mutex_t mutex;
  pthread_cond_t turn;  /* a worker may take its turn, or stop */
  pthread_cond_t ready; /* a chunk has been parsed */
  bool reading;         /* a worker has its turn */
  bool ended;           /* no worker takes another turn */
  bool closing;
  size_t chunks, chunk_limit; /* allocated; allowed */
  size_t unparsed;            /* chunks being filled or parsed */
  uint64_t parsed_rows;
  Chunk *spare;       /* chunks to be filled */
  Chunk *head, **end; /* the queue in file order; the link where the next chunk goes */

  /* Of the thread whose turn it is. */
  Source source;
  size_t tail_length; /* the beginning of a line, to be read on by the next turn */
  char tail[CHUNK_BYTES];

  /* The consumer's: how far it is in the first chunk, and what all chunks before it held. */
  size_t taken; /* rows */
  uint64_t rows;
  uint64_t offset;     /* the last of those chunks' */
  uint64_t line;       /* the number of the line that follows */
  uint64_t blank_line; /* the first of the blank lines that end them, or NONE */

  char path[];
};

/* ---- one chunk, parsed by libcsv --------------------------------------------------------- */

/* Notes a fault, which ends the chunk's rows: the caller writes what it is. */
static Error *fault_at(Worker *worker, uint64_t line, size_t column) {
  worker->chunk->fault_line = line;
  worker->chunk->fault_column = column;
  worker->pixel = worker->row_end = worker->row;
  return &worker->chunk->fault;
}

static bool failed(const Worker *worker) {
  return worker->chunk->fault_line != NONE;
}

static size_t fields(const Worker *worker) {
  return worker->others + (size_t)(worker->pixel - worker->row);
}

static void not_an_integer(Worker *worker, const void *field, size_t length) {
  const char *text = field;
  const bool is_label = worker->reader->labelled && fields(worker) == 0;
  Error *fault = fault_at(worker, worker->chunk->lines, fields(worker) + 1);
  if (memchr(text, CSV_LF, length)) {
    error_set(fault, UNENDED_QUOTE);
    return;
  }
  enum { SHOWN = 24 };
  char shown[SHOWN + 1];
  const size_t count = length < SHOWN ? length : SHOWN;
  memcpy(shown, text, count);
  shown[count] = '\0';
  for (size_t i = 0; i < count; i++) {
    if (shown[i] < ' ' || shown[i] > '~') shown[i] = '?';
  }
  error_set(fault, "'%s%s' is not %s from 0 to %d", shown, count < length ? "..." : "",
            is_label ? "a label" : "an integer", is_label ? worker->reader->classes - 1 : 255);
}

/* Digits alone, of a value below `limit`. */
static inline bool parse_integer(const unsigned char *text, size_t length, unsigned limit,
                                 unsigned *value) {
  unsigned sum = 0;
  for (size_t i = 0; i < length; i++) {
    const unsigned digit = text[i] - (unsigned)'0';
    sum = sum * 10 + digit;
    if (digit > 9 || sum >= limit) return false;
  }
  *value = sum;
  return length > 0;
}

/* Before a row's first field: false after a fault, and if the line may not begin here. */
static bool begin_row(Worker *worker) {
  const Chunk *chunk = worker->chunk;
  if (chunk->blank != NONE) {
    error_set(fault_at(worker, chunk->blank, 0), BLANK_LINE);
  } else if (worker->carriage) {
    error_set(fault_at(worker, chunk->lines, 0), "a carriage return inside the line");
  }
  return !failed(worker);
}

/* A row's first field, a bad pixel, or a field too many, which does not matter after a fault. */
static void take_other(Worker *worker, const unsigned char *text, size_t length) {
  const DatasetReader *reader = worker->reader;
  if (worker->pixel != worker->row_end) {
    not_an_integer(worker, text, length);
    return;
  }
  if (fields(worker) > 0) {
    worker->others++; /* a field too many: end_row says how many there were */
    return;
  }
  if (!begin_row(worker)) return;
  unsigned value;
  if (!parse_integer(text, length, reader->labelled ? (unsigned)reader->classes : 256, &value)) {
    not_an_integer(worker, text, length);
    return;
  }
  worker->chunk->labels[worker->chunk->rows] = reader->labelled ? (uint16_t)value : 0;
  worker->row_end = worker->row + reader->inputs;
  if (reader->labelled)
    worker->others = 1;
  else
    *worker->pixel++ = (uint8_t)value;
}

/* libcsv has a field: fifty million times in MNIST, so the pixels go first. */
static void take_field(void *text, size_t length, void *context) {
  Worker *worker = context;
  unsigned value;
  if (worker->pixel != worker->row_end && parse_integer(text, length, 256, &value)) {
    *worker->pixel++ = (uint8_t)value;
  } else {
    take_other(worker, text, length);
  }
}

/* libcsv has met a carriage return, a line feed or the end of the text, after fields or not. */
static void end_row(int terminator, void *context) {
  Worker *worker = context;
  Chunk *chunk = worker->chunk;
  const size_t count = fields(worker), columns = worker->reader->columns;
  if (failed(worker)) return;
  if (count > 0 && count != columns) {
    error_set(fault_at(worker, chunk->lines, 0), "%zu field%s, but line 1 has %zu", count,
              count == 1 ? "" : "s", columns);
    return;
  }
  if (count > 0) {
    chunk->rows++;
    worker->row_on_line = true;
    worker->row = worker->pixel = worker->row_end;
    worker->others = 0;
  }
  if (terminator == CSV_CR) {
    worker->carriage = true;
    return;
  }
  if (!worker->row_on_line && chunk->blank == NONE) chunk->blank = chunk->lines;
  worker->row_on_line = worker->carriage = false;
  chunk->lines++;
}

static void parse(Worker *worker, size_t length) {
  Chunk *chunk = worker->chunk;
  worker->row = worker->pixel = worker->row_end = chunk->pixels;
  worker->others = 0;
  worker->row_on_line = worker->carriage = false;
  const bool parsed =
      csv_parse(&worker->csv, worker->text, length, take_field, end_row, worker) == length;
  if (parsed && csv_fini(&worker->csv, take_field, end_row, worker) == 0) return;
  if (failed(worker) || (fields(worker) == 0 && !begin_row(worker))) return;
  Error *fault = fault_at(worker, chunk->lines, fields(worker) + 1);
  if (csv_error(&worker->csv) != CSV_EPARSE) {
    error_set(fault, "no memory for this field");
  } else {
    error_set(fault, "%s", parsed ? UNENDED_QUOTE : STRAY_QUOTE);
  }
}

/* ---- the threads ------------------------------------------------------------------------- */

/* Whole lines for the worker: returns their bytes, keeps the rest for the next turn. */
static size_t take_lines(DatasetReader *reader, Worker *worker) {
  char *text = worker->text;
  Source *source = &reader->source;
  size_t length = reader->tail_length;
  memcpy(text, reader->tail, length);
  length += source_read(source, text + length, CHUNK_BYTES - length);
  worker->chunk->cut_off = *source->error.text != '\0';
  worker->chunk->offset = source->offset;
  size_t cut = length;
  if (!source->ended || worker->chunk->cut_off) {
    while (cut > 0 && text[cut - 1] != CSV_LF) cut--;
  }
  if (cut == 0 && length == CHUNK_BYTES) {
    error_set(fault_at(worker, 0, 0), "longer than %d bytes", CHUNK_BYTES - 1);
  }
  reader->tail_length = length - cut;
  memcpy(reader->tail, text + cut, reader->tail_length);
  return cut;
}

static size_t chunk_bytes(const DatasetReader *reader) {
  return sizeof(Chunk) + reader->chunk_rows * dataset_row_bytes(reader);
}

static Chunk *new_chunk(DatasetReader *reader) {
  Chunk *chunk = malloc(chunk_bytes(reader));
  if (!chunk) return NULL;
  chunk->pixels = (uint8_t *)(chunk->labels + reader->chunk_rows);
  reader->chunks++;
  return chunk;
}

/* A chunk to be filled, or NULL if the reader must first be done with one. */
static Chunk *take_chunk(DatasetReader *reader) {
  Chunk *chunk = reader->spare;
  if (chunk) {
    reader->spare = chunk->next;
  } else if (reader->chunks < reader->chunk_limit) {
    chunk = new_chunk(reader);
    if (!chunk) { /* make do with what there is; who waits for all rows must know */
      reader->chunk_limit = reader->chunks;
      pthread_cond_signal(&reader->ready);
    }
  }
  return chunk;
}

/* Waits for the worker's turn. Called, and returns, with the mutex locked. */
static bool begin_turn(Worker *worker) {
  DatasetReader *reader = worker->reader;
  while (!reader->ended && !reader->closing) {
    Chunk *chunk = reader->reading ? NULL : take_chunk(reader);
    if (chunk) {
      chunk->next = NULL;
      chunk->parsed = false;
      chunk->rows = 0;
      chunk->lines = 0;
      chunk->blank = chunk->fault_line = NONE;
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

static void *work(void *context) {
  Worker *worker = context;
  DatasetReader *reader = worker->reader;
  pthread_mutex_lock(&reader->mutex);
  while (begin_turn(worker)) {
    pthread_mutex_unlock(&reader->mutex);
    const size_t length = take_lines(reader, worker);
    const bool last = reader->source.ended || failed(worker);
    pthread_mutex_lock(&reader->mutex);
    reader->reading = false;
    reader->ended = reader->ended || last;
    pthread_cond_signal(&reader->turn);
    pthread_mutex_unlock(&reader->mutex);
    parse(worker, length);
    pthread_mutex_lock(&reader->mutex);
    worker->chunk->parsed = true;
    reader->unparsed--;
    reader->parsed_rows += worker->chunk->rows;
    reader->ended = reader->ended || failed(worker); /* what follows a fault is not wanted */
    pthread_cond_signal(&reader->ready);
  }
  pthread_mutex_unlock(&reader->mutex);
  return NULL;
}

/* ---- opening ----------------------------------------------------------------------------- */

typedef struct {
  size_t fields;
  bool named; /* the first field starts as no number does */
} FirstLine;

static void see_field(void *text, size_t length, void *context) {
  FirstLine *first = context;
  if (first->fields++ == 0) {
    first->named = length > 0 && !strchr("0123456789+-.", *(const char *)text);
  }
}

static void drop(DatasetReader *reader, size_t length) {
  reader->tail_length -= length;
  memmove(reader->tail, reader->tail + length, reader->tail_length);
}

/* Says early, and better than a parser could, that a file is binary. */
static bool check_text(const char *path, const char *line, size_t length, Error *error) {
  while (length > 0 && (line[length - 1] == CSV_LF || line[length - 1] == CSV_CR)) length--;
  for (size_t i = 0; i < length; i++) {
    const unsigned char byte = (unsigned char)line[i];
    if (byte < CSV_SPACE && byte != CSV_TAB) {
      return error_set(error, "%s, line 1: byte %zu is 0x%02x: no text with LF or CRLF lines", path,
                       i + 1, byte);
    }
  }
  return true;
}

/* Counts the fields of the first line, header or row. */
static bool parse_first_line(const char *path, const char *line, size_t length, FirstLine *first,
                             Error *error) {
  struct csv_parser csv;
  csv_init(&csv, CSV_OPTIONS);
  const bool parsed = csv_parse(&csv, line, length, see_field, NULL, first) == length &&
                      csv_fini(&csv, see_field, NULL, first) == 0;
  const bool is_text_wrong = csv_error(&csv) == CSV_EPARSE;
  csv_free(&csv);
  if (!parsed && !is_text_wrong) return error_set(error, "no memory to read %s", path);
  if (!parsed) {
    return error_set(error, "%s, line 1, column %zu: " STRAY_QUOTE, path, first->fields + 1);
  }
  if (first->fields == 0) return error_set(error, "%s, line 1: a blank line", path);
  return true;
}

/* What the columns are. inputs: how many pixels a row must have, 0: any number and a label. */
static bool assign_columns(DatasetReader *reader, size_t columns, size_t inputs, Error *error) {
  const char *s = columns == 1 ? "" : "s";
  reader->columns = columns;
  reader->labelled = columns != inputs;
  reader->inputs = columns - reader->labelled;
  if (inputs > 0 && reader->inputs != inputs) {
    return error_set(error,
                     "%s, line 1: %zu field%s, but the network takes %zu pixels a row, with or "
                     "without a label before them",
                     reader->source.name, columns, s, inputs);
  }
  if (inputs == 0 && (columns < 2 || columns > DATASET_MAX_COLUMNS)) {
    return error_set(error, "%s, line 1: %zu field%s, but a row is a label and 1 to %d pixels",
                     reader->source.name, columns, s, DATASET_MAX_COLUMNS - 1);
  }
  return true;
}

/* Learns the number of columns from the first line, and drops that line if it is a header. */
static bool read_first_line(DatasetReader *reader, size_t inputs, Error *error) {
  const char *name = reader->source.name, *tail = reader->tail;
  reader->tail_length = source_read(&reader->source, reader->tail, CHUNK_BYTES);
  if (*reader->source.error.text) return error_set(error, "%s", reader->source.error.text);
  if (reader->tail_length >= 3 && memcmp(tail, "\xef\xbb\xbf", 3) == 0) drop(reader, 3);
  if (reader->tail_length == 0) return error_set(error, "%s is empty", name);

  const char *end = memchr(tail, CSV_LF, reader->tail_length);
  const size_t length = end ? (size_t)(end - tail) + 1 : reader->tail_length;
  if (!check_text(name, tail, length, error)) return false;
  if (!end && length == CHUNK_BYTES) {
    return error_set(error, "%s, line 1: longer than %d bytes", name, CHUNK_BYTES - 1);
  }
  FirstLine first = {0};
  if (!parse_first_line(name, tail, length, &first, error)) return false;
  if (!assign_columns(reader, first.fields, inputs, error)) return false;
  reader->line = first.named ? 2 : 1;
  if (first.named) drop(reader, length);
  return true;
}

/* Starts up to `threads` workers; one is enough. */
static bool start_workers(DatasetReader *reader, int threads, Error *error) {
  int code = ENOMEM;
  for (int i = 0; i < threads; i++) {
    Worker *worker = calloc(1, sizeof *worker);
    if (!worker) break;
    worker->next = reader->workers;
    worker->reader = reader;
    csv_init(&worker->csv, CSV_OPTIONS);
    code = pthread_create(&worker->thread, NULL, work, worker);
    if (code != 0) {
      free(worker);
      break;
    }
    reader->workers = worker;
  }
  if (reader->workers) return true;
  return error_set(error, "cannot start a thread to read %s: %s", reader->source.name,
                   strerror(code));
}

/* Of its text: that of an archive is known when it has been unpacked. */
static bool knows_length(const DatasetReader *reader) {
  return !reader->source.once && !reader->source.packed;
}

/* How many chunks may wait. Without a bound of rows half of the memory is the bound, and the other
   half is for where the rows go: a small archive may hold rows without end. */
static size_t chunks_allowed(const DatasetReader *reader, int threads, size_t ahead) {
  const uint64_t most =
      ahead > 0 ? ahead / reader->chunk_rows + 1 : memory_available() / 2 / chunk_bytes(reader);
  return most < (uint64_t)threads ? (size_t)threads : (size_t)most;
}

static bool start(DatasetReader *reader, size_t inputs, int threads, size_t ahead, Error *error) {
  if (!source_open(&reader->source, reader->path, error) || !read_first_line(reader, inputs, error))
    return false;
  const uint64_t useful = reader->source.size / CHUNK_BYTES + 1;
  if (knows_length(reader) && (uint64_t)threads > useful) threads = (int)useful;
  /* A row is at least a digit and a separator a column; one more may be begun and fail. */
  reader->chunk_rows = CHUNK_BYTES / (2 * reader->columns) + 1;
  reader->chunk_limit = chunks_allowed(reader, threads, ahead);
  reader->spare = new_chunk(reader); /* with one, the reader gets on however short memory is */
  if (!reader->spare) return error_set(error, "no memory to read %s", reader->source.name);
  reader->spare->next = NULL;
  return start_workers(reader, threads, error);
}

/* inputs: as in assign_columns. */
static DatasetReader *open_reader(const char *path, size_t inputs, int classes, int threads,
                                  size_t ahead, Error *error) {
  const size_t path_size = strlen(path) + 1;
  DatasetReader *reader = calloc(1, sizeof *reader + path_size);
  if (!reader) {
    error_set(error, "no memory to read %s", path);
    return NULL;
  }
  memcpy(reader->path, path, path_size);
  reader->classes = classes;
  reader->blank_line = NONE;
  reader->end = &reader->head;
  reader->source.file = -1;
  pthread_mutex_init(&reader->mutex, NULL);
  pthread_cond_init(&reader->turn, NULL);
  pthread_cond_init(&reader->ready, NULL);
  if (!start(reader, inputs, threads, ahead, error)) {
    dataset_close(reader);
    return NULL;
  }
  return reader;
}

DatasetReader *dataset_open(const char *path, int classes, int threads, size_t ahead,
                            Error *error) {
  return open_reader(path, 0, classes, threads, ahead, error);
}

DatasetReader *dataset_open_for(const char *path, int inputs, int classes, int threads,
                                size_t ahead, Error *error) {
  return open_reader(path, (size_t)inputs, classes, threads, ahead, error);
}

static void free_chunks(Chunk *chunk) {
  while (chunk) {
    Chunk *next = chunk->next;
    free(chunk);
    chunk = next;
  }
}

void dataset_close(DatasetReader *reader) {
  if (!reader) return;
  pthread_mutex_lock(&reader->mutex);
  reader->closing = true;
  pthread_cond_broadcast(&reader->turn);
  pthread_mutex_unlock(&reader->mutex);
  source_abandon(&reader->source);
  while (reader->workers) {
    Worker *worker = reader->workers;
    pthread_join(worker->thread, NULL);
    reader->workers = worker->next;
    csv_free(&worker->csv);
    free(worker);
  }
  free_chunks(reader->head);
  free_chunks(reader->spare);
  pthread_cond_destroy(&reader->ready);
  pthread_cond_destroy(&reader->turn);
  pthread_mutex_destroy(&reader->mutex);
  source_close(&reader->source);
  free(reader);
}

/* ---- the consumer ------------------------------------------------------------------------ */

int dataset_inputs(const DatasetReader *reader) {
  return (int)reader->inputs;
}

size_t dataset_row_bytes(const DatasetReader *reader) {
  return reader->inputs + sizeof(uint16_t);
}

bool dataset_is_once(const DatasetReader *reader) {
  return reader->source.once;
}

bool dataset_reads(const DatasetReader *reader, const char *path) {
  return source_is(&reader->source, path);
}

const SourceStamp *dataset_stamp(const DatasetReader *reader) {
  return &reader->source.stamp;
}

/* No worker can get on before somebody reads. */
static bool is_full(const DatasetReader *reader) {
  return reader->unparsed == 0 && !reader->spare && reader->chunks >= reader->chunk_limit;
}

uint64_t dataset_max_rows(DatasetReader *reader, uint64_t most) {
  if (knows_length(reader)) return (reader->source.size + 1) / (2 * reader->columns);
  pthread_mutex_lock(&reader->mutex);
  while (reader->parsed_rows <= most && !is_full(reader) &&
         !(reader->ended && reader->unparsed == 0)) {
    pthread_cond_wait(&reader->ready, &reader->mutex);
  }
  const bool all = reader->ended && reader->unparsed == 0;
  const uint64_t rows = reader->parsed_rows;
  pthread_mutex_unlock(&reader->mutex);
  return all || rows > most ? rows : most + 1;
}

double dataset_progress(const DatasetReader *reader) {
  const uint64_t size = reader->source.size;
  if (size == 0) return 0;
  return reader->offset < size ? (double)reader->offset / (double)size : 1;
}

/* The next chunk in file order, once it is parsed; NULL at the end. */
static Chunk *wait_for_chunk(DatasetReader *reader) {
  pthread_mutex_lock(&reader->mutex);
  while (reader->head ? !reader->head->parsed : !reader->ended) {
    pthread_cond_wait(&reader->ready, &reader->mutex);
  }
  Chunk *chunk = reader->head;
  pthread_mutex_unlock(&reader->mutex);
  return chunk;
}

/* Reports what ended the chunk's rows, if anything did. */
static bool check_chunk(const DatasetReader *reader, const Chunk *chunk, Error *error) {
  if (chunk->fault_line != NONE) {
    const unsigned long long line = reader->line + chunk->fault_line;
    if (chunk->fault_column > 0) {
      return error_set(error, "%s, line %llu, column %zu: %s", reader->source.name, line,
                       chunk->fault_column, chunk->fault.text);
    }
    return error_set(error, "%s, line %llu: %s", reader->source.name, line, chunk->fault.text);
  }
  if (chunk->cut_off) return error_set(error, "%s", reader->source.error.text);
  return true;
}

/* Counts a chunk that has been delivered, and lets a worker fill it again. */
static void recycle(DatasetReader *reader, Chunk *chunk) {
  if (chunk->blank != NONE && reader->blank_line == NONE) {
    reader->blank_line = reader->line + chunk->blank;
  }
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

static void copy_rows(const Chunk *chunk, size_t first, size_t rows, size_t inputs, uint8_t *pixels,
                      size_t stride, uint16_t *labels) {
  for (size_t i = 0; i < rows; i++) {
    memcpy(pixels + i * stride, chunk->pixels + (first + i) * inputs, inputs);
  }
  memcpy(labels, chunk->labels + first, rows * sizeof *labels);
}

bool dataset_read(DatasetReader *reader, uint8_t *pixels, size_t stride, uint16_t *labels,
                  size_t rows, size_t *filled, Error *error) {
  *filled = 0;
  while (*filled < rows) {
    Chunk *chunk = wait_for_chunk(reader);
    if (!chunk) {
      return reader->rows > 0 ||
             error_set(error, "%s holds a header, but no rows", reader->source.name);
    }
    if (reader->blank_line != NONE && (chunk->rows > 0 || chunk->fault_line != NONE)) {
      return error_set(error, "%s, line %llu: " BLANK_LINE, reader->source.name,
                       (unsigned long long)reader->blank_line);
    }
    const size_t left = chunk->rows - reader->taken, wanted = rows - *filled;
    const size_t count = left < wanted ? left : wanted;
    copy_rows(chunk, reader->taken, count, reader->inputs, pixels + *filled * stride, stride,
              labels + *filled);
    *filled += count;
    reader->taken += count;
    if (reader->taken < chunk->rows) continue;
    if (!check_chunk(reader, chunk, error)) return false;
    recycle(reader, chunk);
  }
  return true;
}
