/* HOST_DEVICE declares a function that the host and the device can call. */
#pragma once

#ifdef __CUDACC__
#define HOST_DEVICE static inline __host__ __device__
#else
#define HOST_DEVICE static inline
#endif
