#pragma once

/* For functions that return a cudaError_t: stops at the first failure and returns it. */
#define TRY(call)                                                                                  \
  do {                                                                                             \
    const cudaError_t status_ = (call);                                                            \
    if (status_ != cudaSuccess) return status_;                                                    \
  } while (0)

/* For launchers: returns an error if the arguments are not valid. */
#define REQUIRE(valid)                                                                             \
  do {                                                                                             \
    if (!(valid)) return cudaErrorInvalidValue;                                                    \
  } while (0)
