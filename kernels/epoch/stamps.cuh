/* The device's half of stamps.h. Without EPOCH_STAMPED, which only the second object defines, every
   macro here is nothing. */
#pragma once

#ifdef EPOCH_STAMPED

#include "epoch/stamps.h"

#define WITH_STAMPS(...) __VA_ARGS__
/* Notes that the team's first thread is here now. `s` is the block's Shared, `stamp` the step's. */
#define STAMP(which) take_stamp(s.stamps, which, stamp)

namespace epoch {

__device__ inline uint64_t cycles() {
  uint64_t clock;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(clock)::"memory");
  return clock;
}

__device__ inline uint64_t nanoseconds() {
  uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time)::"memory");
  return time;
}

/* stamps.first: the stamp of the first step that is wanted. */
__device__ inline void take_stamp(const EpochStamps &stamps, EpochStamp which, uint32_t stamp) {
  const int leader = which < STAMP_HEAD    ? 0
                     : which < STAMP_PATCH ? ROW_THREADS
                                           : ROW_THREADS + HEAD_THREADS;
  if ((int)threadIdx.x == leader && stamp - stamps.first < stamps.steps)
    stamps.d_clock[((size_t)blockIdx.x * stamps.steps + (stamp - stamps.first)) * EPOCH_STAMPS +
                   which] = cycles();
}

/* The GPU's clock moves in ticks of up to a microsecond: the pair is taken as one begins. */
__device__ inline void take_anchor(const EpochStamps &stamps, int end) {
  const uint64_t before = nanoseconds();
  uint64_t time = before;
  while (time == before) time = nanoseconds();
  stamps.d_anchor[blockIdx.x].time[end] = time;
  stamps.d_anchor[blockIdx.x].clock[end] = cycles();
}

} // namespace epoch

#else
#define WITH_STAMPS(...)
#define STAMP(which)
#endif
