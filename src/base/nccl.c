#include "base/nccl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

void *nccl_open(void) {
  char path[1024];
  const char *home = getenv("NCCL_HOME");
  snprintf(path, sizeof path, "%s/lib/libnccl.so.2", home ? home : "");
  void *library = home ? dlopen(path, RTLD_NOW) : NULL;
  if (!library) library = dlopen("libnccl.so.2", RTLD_NOW);
#ifdef NCCL_FOLDER
  if (!library) library = dlopen(NCCL_FOLDER "/lib/libnccl.so.2", RTLD_NOW);
#endif
  return library;
}
