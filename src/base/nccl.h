/* Loads NCCL, NVIDIA's library that sums arrays of several GPUs. A program loads NCCL when it first
   needs it, so programs that do not need NCCL run without it. */
#pragma once

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef NCCL_FOLDER
#define NCCL_FOLDER "" /* "" means that the build found no NCCL */
#endif

/* Opens libnccl.so.2 from $NCCL_HOME/lib, from the system's folders, or from the folder that the
   build found. Returns dlopen's handle, or NULL if none of the folders has the library. */
static inline void *nccl_open(void) {
  char path[1024];
  const char *home = getenv("NCCL_HOME");
  snprintf(path, sizeof path, "%s/lib/libnccl.so.2", home ? home : "");
  void *library = home ? dlopen(path, RTLD_NOW) : NULL;
  if (!library) library = dlopen("libnccl.so.2", RTLD_NOW);
  return library ? library : dlopen(NCCL_FOLDER "/lib/libnccl.so.2", RTLD_NOW);
}
