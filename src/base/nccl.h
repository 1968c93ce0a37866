/* NCCL, NVIDIA's library that sums over GPUs. It is loaded when a program first needs it, so other
   programs run without it. */
#pragma once

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef NCCL_FOLDER
#define NCCL_FOLDER "" /* the build found no NCCL */
#endif

/* Opens libnccl.so.2 from the lib/ of NCCL_HOME, from the system, or from the folder that the build
   found. Returns dlopen's handle, or NULL if there is no such library. */
static inline void *nccl_open(void) {
  char path[1024];
  const char *home = getenv("NCCL_HOME");
  snprintf(path, sizeof path, "%s/lib/libnccl.so.2", home ? home : "");
  void *library = home ? dlopen(path, RTLD_NOW) : NULL;
  if (!library) library = dlopen("libnccl.so.2", RTLD_NOW);
  return library ? library : dlopen(NCCL_FOLDER "/lib/libnccl.so.2", RTLD_NOW);
}
