/* Functions of fault.c that the stand-in for the CUDA runtime calls. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Does the same as malloc, but no fault makes it fail. */
void *fault_malloc(size_t size);

/* Returns true if this call of the CUDA runtime must fail. */
bool fault_cuda(const char *name, const void *caller);
