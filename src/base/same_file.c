/* Compares the files that paths lead to. */
#include "base/same_file.h"

#include <string.h>
#include <unistd.h>

#include "base/file_target.h"

/* What makes a file one: its own device and inode, or those of the folder that it will be in and
   its name there. */
typedef struct {
  dev_t device;
  ino_t inode;
  char name[NAME_MAX + 1]; /* "": it exists */
} Identity;

static bool identity_of_status(const struct stat *status, Identity *identity) {
  *identity = (Identity){.device = status->st_dev, .inode = status->st_ino};
  return !S_ISCHR(status->st_mode) && !S_ISSOCK(status->st_mode);
}

/* False if there is nothing to compare. */
static bool identify(const NamedFile *file, Identity *identity) {
  FileTarget target;
  struct stat status;
  char folder[PATH_MAX];
  if (!file->path || !*file->path) return false;
  if (strcmp(file->path, "-") == 0)
    return fstat(file->written ? STDOUT_FILENO : STDIN_FILENO, &status) == 0 &&
           identity_of_status(&status, identity);
  if (!file_target_find(&target, file->path)) return false;
  if (target.kind != TARGET_NEW) return identity_of_status(&target.status, identity);
  const char *name = file_target_folder(&target, folder);
  if (strlen(name) > NAME_MAX || stat(folder, &status) != 0) return false;
  identity_of_status(&status, identity);
  strcpy(identity->name, name);
  return true;
}

static bool is_same(const Identity *a, const Identity *b) {
  return a->device == b->device && a->inode == b->inode && strcmp(a->name, b->name) == 0;
}

bool same_file_check(const NamedFile *files, int count, Error *error) {
  Identity written, other;
  for (int w = 0; w < count; w++) {
    if (!files[w].written || !identify(&files[w], &written)) continue;
    for (int i = 0; i < count; i++) {
      if (i == w || !identify(&files[i], &other) || !is_same(&written, &other)) continue;
      const NamedFile *a = &files[i < w ? i : w], *b = &files[i < w ? w : i];
      return error_set(error, "%s %s and %s %s are the same file: give one of them another name",
                       a->option, a->path, b->option, b->path);
    }
  }
  return true;
}
