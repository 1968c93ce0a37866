/* A folder for the files of a test program. For tests only: what goes wrong here fails the running
   cmocka test. */
#pragma once

#include "support/test.h"

/* The working folder of the tests: an absolute path. */
extern char *folder;

/* Fixtures of cmocka, for a group or for each test: make a new, empty folder under $TMPDIR or /tmp
   the working folder; return to the one before, and remove it and what is in it. */
int folder_enter(void **state);
int folder_close(void **state);

/* The path of a file in the folder before, which is the checkout's. */
char *folder_before(const char *name);

/* Replaces what is in the file `path` by the text or the bytes. */
void folder_write(const char *path, const char *text);
/* The text with every ' as ", which C strings escape. */
char *folder_json(const char *text);
/* Writes that text. */
void folder_write_json(const char *path, const char *text);
void folder_write_bytes(const char *path, const void *bytes, size_t size);
/* The file, emptied, to be written. */
FILE *folder_create(const char *path);

/* The file `path`: its bytes, none if there is no file; its text. */
Content read_content(const char *path);
char *folder_read(const char *path);

/* How many files are in the working folder. */
int files_in_folder(void);
#define assert_files(count) assert_int_equal(files_in_folder(), count)

/* The file is a PNG of that size. */
void assert_png(const char *path, int width, int height);
