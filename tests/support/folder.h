/* A working folder for the files of a test program. An error in these functions fails the running
   cmocka test. */
#pragma once

#include <dirent.h>

#include "support/test.h"

/* Absolute paths of the tests' working folder and of the working folder before the tests. */
static char *folder, *folder_was;

/* Fixtures of cmocka, for a group or for each test. folder_enter creates an empty folder in $TMPDIR
   or /tmp and makes it the working folder. folder_close returns to the earlier working folder and
   removes the new one. */
static inline FIXTURE(folder_enter) {
  const char *parent = getenv("TMPDIR");
  folder_was = keep(getcwd(NULL, 0));
  folder = text_printf("%s/mlp-train.XXXXXX", parent && *parent ? parent : "/tmp");
  assert_non_null(mkdtemp(folder));
  return chdir(folder);
}

static inline FIXTURE(folder_close) {
  assert_int_equal(chdir(folder_was), 0);
  return system(text_printf("rm -rf '%s'", folder));
}

/* Defines a test that runs in a new, empty folder. */
#define IN_FOLDER(name) TEST_WITH(name, folder_enter, folder_close)

/* Returns the path of a file in folder_was, which is the top folder of the checkout. */
static inline char *folder_before(const char *name) {
  return text_printf("%s/%s", folder_was, name);
}

/* Creates a file, or empties an existing one, and opens it for writing. */
static inline FILE *folder_create(const char *path) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  return file;
}

/* folder_write_bytes and folder_write create the file `path`, or replace its contents. */
static inline void folder_write_bytes(const char *path, const void *bytes, size_t size) {
  FILE *file = folder_create(path);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  close_file(file);
}

static inline void folder_write(const char *path, const char *text) {
  folder_write_bytes(path, text, strlen(text));
}

/* Writes the text with " in place of every ', so that callers need no escapes in JSON. */
static inline void folder_write_json(const char *path, const char *text) {
  char *json = keep(strdup(text));
  for (char *at = json; (at = strchr(at, '\'')); at++) *at = '"';
  folder_write(path, json);
}

/* Returns the contents of the file `path`. A file that does not exist counts as empty. */
static inline Content read_content(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) return (Content){allocate(1, 1), 0};
  const Content content = read_rest(file);
  fclose(file);
  return content;
}

static inline char *folder_read(const char *path) {
  assert_int_equal(access(path, R_OK), 0);
  return (char *)read_content(path).bytes;
}

/* Returns how many files are in the working folder. */
static inline int files_in_folder(void) {
  int count = 0;
  DIR *directory = opendir(folder);
  assert_non_null(directory);
  while (readdir(directory)) count++;
  closedir(directory);
  return count - 2; /* . and .. */
}

#define assert_files(count) assert_int_equal(files_in_folder(), count)

/* Checks that the file is a PNG of width x height pixels. */
static inline void assert_png(const char *path, int width, int height) {
  const uint8_t *head = (const uint8_t *)folder_read(path);
  assert_memory_equal(head, "\x89PNG\r\n\x1a\n", 8);
  assert_int_equal(head[18] * 256 + head[19], width);
  assert_int_equal(head[22] * 256 + head[23], height);
}
