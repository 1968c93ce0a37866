/* NVIDIA's library of sums over GPUs, which is looked for when a program wants it: one that does
   not needs none. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Opens libnccl.so.2 of NCCL_HOME's lib/, the system's, or that of the folder that the build found.
   Returns dlopen's handle, NULL if there is none. */
void *nccl_open(void);

#ifdef __cplusplus
}
#endif
