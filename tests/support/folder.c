#include "support/folder.h"

#include <dirent.h>
#include <unistd.h>

#include "support/process.h"

enum { MOST_PATHS = 32 };

char *folder;

static char *paths[MOST_PATHS];
static int path_count;
static bool is_entered;

int folder_open(void **state) {
  (void)state;
  const char *parent = getenv("TMPDIR");
  folder = malloc(4096);
  assert_non_null(folder);
  snprintf(folder, 4096, "%s/mlp-train.XXXXXX", parent && *parent ? parent : "/tmp");
  assert_non_null(mkdtemp(folder));
  return 0;
}

int folder_enter(void **state) {
  folder_open(state);
  is_entered = true;
  return chdir(folder);
}

int folder_close(void **state) {
  (void)state;
  char output[256];
  if (is_entered) assert_int_equal(chdir("/"), 0);
  while (path_count > 0) free(paths[--path_count]);
  assert_int_equal(process_run(output, sizeof output, "rm -rf '%s'", folder), 0);
  free(folder);
  folder = NULL;
  return 0;
}

char *folder_path(const char *name) {
  const size_t size = strlen(folder) + 1 + strlen(name) + 1;
  char *path = malloc(size);
  assert_non_null(path);
  snprintf(path, size, "%s/%s", folder, name);
  for (int i = 0; i < path_count; i++)
    if (strcmp(paths[i], path) == 0) {
      free(path);
      return paths[i];
    }
  assert_true(path_count < MOST_PATHS);
  return paths[path_count++] = path;
}

void folder_write_bytes(const char *path, const void *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

char *folder_json(const char *text) {
  char *json = strdup(text);
  assert_non_null(json);
  for (char *at = json; (at = strchr(at, '\'')); at++) *at = '"';
  return json;
}

void folder_write_json(const char *path, const char *text) {
  char *json = folder_json(text);
  folder_write(path, json);
  free(json);
}

void folder_write(const char *path, const char *text) {
  folder_write_bytes(path, text, strlen(text));
}

Content read_content(const char *path) {
  char *bytes;
  size_t size;
  FILE *file = fopen(path, "rb"), *content = open_memstream(&bytes, &size);
  assert_non_null(content);
  for (int c; file && (c = fgetc(file)) != EOF;) fputc(c, content);
  if (file) fclose(file);
  assert_int_equal(fclose(content), 0);
  return (Content){(uint8_t *)bytes, size};
}

char *folder_read(const char *path) {
  assert_true(access(path, R_OK) == 0 && path_count < MOST_PATHS);
  return paths[path_count++] = (char *)read_content(path).bytes;
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
