/* The calls that the stand-in of the CUDA runtime makes to fault.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Does the same as malloc, but never fails. */
void *fault_malloc(size_t size);

/* Returns true if this call of the CUDA runtime must fail. */
bool fault_cuda(const char *name, const void *caller);
