/* A function that is the same on the host and on the device. */
#pragma once

#ifdef __CUDACC__
#define HOST_DEVICE static inline __host__ __device__
#else
#define HOST_DEVICE static inline
#endif
