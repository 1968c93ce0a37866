#pragma once

/* Makes the calling function return the error if `call`, which returns a cudaError_t, fails. */
#define TRY(call)                                                                                  \
  do {                                                                                             \
    const cudaError_t status_ = (call);                                                            \
    if (status_ != cudaSuccess) return status_;                                                    \
  } while (0)

/* Makes the calling launcher return cudaErrorInvalidValue if `valid` is false. */
#define REQUIRE(valid)                                                                             \
  do {                                                                                             \
    if (!(valid)) return cudaErrorInvalidValue;                                                    \
  } while (0)
