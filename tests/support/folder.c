#include "support/folder.h"

#include <dirent.h>

char *folder;
static char *before; /* the working folder then */

FIXTURE(folder_enter) {
  const char *parent = getenv("TMPDIR");
  before = keep(getcwd(NULL, 0));
  folder = text_printf("%s/mlp-train.XXXXXX", parent && *parent ? parent : "/tmp");
  assert_non_null(mkdtemp(folder));
  return chdir(folder);
}

FIXTURE(folder_close) {
  assert_int_equal(chdir(before), 0);
  return system(text_printf("rm -rf '%s'", folder));
}

char *folder_before(const char *name) {
  return text_printf("%s/%s", before, name);
}

FILE *folder_create(const char *path) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  return file;
}

void folder_write_bytes(const char *path, const void *bytes, size_t size) {
  FILE *file = folder_create(path);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  close_file(file);
}

char *folder_json(const char *text) {
  char *json = keep(strdup(text));
  for (char *at = json; (at = strchr(at, '\'')); at++) *at = '"';
  return json;
}

void folder_write_json(const char *path, const char *text) {
  folder_write(path, folder_json(text));
}

void folder_write(const char *path, const char *text) {
  folder_write_bytes(path, text, strlen(text));
}

Content read_content(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) return (Content){allocate(1, 1), 0};
  const Content content = read_rest(file);
  fclose(file);
  return content;
}

char *folder_read(const char *path) {
  assert_int_equal(access(path, R_OK), 0);
  return (char *)read_content(path).bytes;
}

int files_in_folder(void) {
  int count = 0;
  DIR *directory = opendir(folder);
  assert_non_null(directory);
  while (readdir(directory)) count++;
  closedir(directory);
  return count - 2; /* . and .. */
}

void assert_png(const char *path, int width, int height) {
  const uint8_t *head = (const uint8_t *)folder_read(path);
  assert_memory_equal(head, "\x89PNG\r\n\x1a\n", 8);
  assert_int_equal(head[18] * 256 + head[19], width);
  assert_int_equal(head[22] * 256 + head[23], height);
}
