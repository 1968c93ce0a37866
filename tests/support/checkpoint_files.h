/* Checkpoints and their files, for the tests of checkpoint.c: written, forged and read by hand,
   without its reader and without JSON. The folder is that of folder.h. */
#pragma once

#include "model/checkpoint.h"
#include "support/folder.h"

/* A file in the working folder, which does not exist at first, and the fixtures of each test. */
static const char model[] = "model.safetensors";
int checkpoint_files_open(void **state);
int checkpoint_files_close(void **state);
#define IN_FOLDER(name) TEST_WITH(name, checkpoint_files_open, checkpoint_files_close)

/* ---- files by hand -------------------------------------------------------------------------- */

void assert_content(const char *path, Content expected);

/* Writes a file with this header and `data` bytes of data (0: as its tensors have), the floats 1,
   2, 3, ... In the header
   <0.weight 2,3 0,24> stands for the entry of a tensor: name, shape (- for none) and data_offsets.
   A header that begins with < consists of entries only: braces and commas are added.
   A ' stands for ". */
void forge(const char *path, const char *header, size_t data);

/* The header as text, and where the data starts; checks the length, the padding and what follows
   from the format alone. */
char *header_of(Content content, size_t *start);

/* Every test has a checkpoint of a network 5 - 7 - 3 - 2, every value of which differs from every
   other, and the bytes of the file that save_sample writes it to, which is `model`. */
extern Checkpoint sample;
extern Content saved;
void save_sample(void);

/* ---- checkpoints ---------------------------------------------------------------------------- */

/* Fills the first `count` arrays with values, and zeros as padding. */
void make_arrays(Checkpoint *checkpoint, int count);

void must_save(const Checkpoint *checkpoint, const char *path);
Checkpoint must_load(const char *path);

/* One sentence names the path and has `message` in it; nothing is allocated. */
void assert_refuses_to_load(const char *path, const char *message);
/* Of the sample: the sentence is "cannot", that verb (save or write), the path and `message`. */
void assert_refuses_to_save(const char *verb, const char *path, const char *message);
