/* Runs, on the emulator, launches whose blocks wait for each other, as in level epoch. All blocks
   run at once. A seed decides which warp runs next, and which warps are slow: one reader of mail at
   a time, some warps, some blocks, or the same warps of all blocks. Packets of mail arrive late.
   Packets for one place keep their order; others may overtake each other. The emulator has no
   caches and no clock, so it does not notice a missing fence. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* If `draw` is true, a seed schedules later launches. Otherwise, their blocks run one by one. */
void schedules_draw(bool draw);

/* Instructions for the next launches. A fault is planted only if its field is not 0. */
typedef struct {
  uint32_t seed; /* seed of the schedule */
  void *mail;    /* the launch's mail, in packets of 16 bytes */
  size_t mail_bytes;
  size_t stamps; /* the first `stamps` packets end with a stamp of 4 bytes; later packets have a
                    phase in each half: the sign of its number 1 or the last bit of its number 2 */
  /* Faults that tests must find: */
  int barrier_left_out;     /* number (1 to 15) of a barrier that all threads skip */
  size_t buffer_at, buffer; /* at packet buffer_at, two buffers of `buffer` packets each begin; mail
                               for the second buffer is stored in the first buffer */
  uint64_t stamp_too_low; /* number (from 1) of a packet that is sent with the previous step's stamp
                             or phase */
  uint32_t read_too_early; /* with probability 1 / read_too_early, a read makes the previous step's
                              packet look like this step's packet */
} DrawnLaunch;

extern DrawnLaunch drawn_launch;

/* schedules_await_copy makes a thread wait until some thread calls schedules_copied. */
void schedules_await_copy(void);
void schedules_copied(void);

uint64_t schedules_packets(void); /* number of packets sent so far */

/* Returns "" if the last launch succeeded. If it returned cudaErrorLaunchFailure, returns lines
   that say why. After a deadlock, the lines say which threads wait for what. */
const char *schedules_report(void);

#ifdef __cplusplus
}
#endif
