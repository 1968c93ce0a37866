/* The question that the stand-in of the CUDA runtime asks of fault.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* malloc that does not fail. */
void *fault_malloc(size_t size);

/* Returns true if this call of a function of the CUDA runtime is to fail. */
bool fault_cuda(const char *name, const void *caller);
