/* NVIDIA's library of sums over GPUs, which is looked for when a program wants it: one that does
   not needs none. */
#pragma once

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef NCCL_FOLDER
#define NCCL_FOLDER "" /* the build found none */
#endif

/* Opens libnccl.so.2 of NCCL_HOME's lib/, the system's, or that of the folder that the build found.
   Returns dlopen's handle, NULL if there is none. */
static inline void *nccl_open(void) {
  char path[1024];
  const char *home = getenv("NCCL_HOME");
  snprintf(path, sizeof path, "%s/lib/libnccl.so.2", home ? home : "");
  void *library = home ? dlopen(path, RTLD_NOW) : NULL;
  if (!library) library = dlopen("libnccl.so.2", RTLD_NOW);
  return library ? library : dlopen(NCCL_FOLDER "/lib/libnccl.so.2", RTLD_NOW);
}
