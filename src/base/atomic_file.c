#include "base/atomic_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool atomic_file_failed(const AtomicFile *output, Error *error) {
  return error_set(error, "cannot write %s: %s", output->path, strerror(errno));
}

/* The name of a file beside `path`, malloc'ed. */
static char *name_beside(const char *path) {
  const size_t size = strlen(path) + 32;
  char *name = malloc(size);
  if (name) snprintf(name, size, "%s.tmp.%ld", path, (long)getpid());
  return name;
}

bool atomic_file_open(AtomicFile *output, const char *path, Error *error) {
  struct stat status;
  *output = (AtomicFile){.path = path};
  if (stat(path, &status) != 0 || S_ISREG(status.st_mode)) {
    output->temporary = name_beside(path);
    if (!output->temporary) return error_set(error, "no memory to write %s", path);
  } /* else a device or a pipe; a folder cannot be opened */
  output->file = fopen(output->temporary ? output->temporary : path, "wb");
  if (output->file) return true;
  error_set(error, "cannot create %s: %s", path, strerror(errno));
  free(output->temporary);
  return false;
}

bool atomic_file_close(AtomicFile *output, bool good, Error *error) {
  if (good && fflush(output->file) != 0) good = atomic_file_failed(output, error);
  if (fclose(output->file) != 0 && good) good = atomic_file_failed(output, error);
  if (good && output->temporary && rename(output->temporary, output->path) != 0)
    good = error_set(error, "cannot replace %s: %s", output->path, strerror(errno));
  if (!good && output->temporary) unlink(output->temporary);
  free(output->temporary);
  return good;
}
