/* Launches on the emulator whose blocks wait for each other, as in level epoch. All blocks run at
   once, and a seed decides what runs next. It lets one reader of mail at a time, some warps, some
   blocks, or the same warps of all blocks come last. Packets of mail arrive late and in any order,
   except packets for the same place. There are no caches and there is no time, so a missing fence
   is not noticed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Decides if launches from now on follow a seed, or run one block after another. */
void schedules_draw(bool draw);

/* Instructions for the next launches. If all but `mail` are zero, the kernel runs as it is. */
typedef struct {
  uint32_t seed; /* of the schedule */
  void *mail;    /* packets of 16 bytes */
  size_t mail_bytes;
  size_t stamps; /* this many packets have a stamp in their last 4 bytes; the others have a phase in
                    each half, in the sign of the first number or the last bit of the second */
  /* Faults, which tests must find: */
  int barrier_left_out;     /* 1 to 15: no thread arrives or waits at this barrier */
  size_t buffer_at, buffer; /* two buffers of `buffer` packets lie side by side from packet
                               buffer_at; mail for the second goes to the first */
  uint64_t stamp_too_low;   /* the packet with this number, from 1, is sent with the contents of the
                               step before */
  uint32_t read_too_early;  /* one look in this many takes the previous step's packet for the
                               packet of this step */
} DrawnLaunch;

extern DrawnLaunch drawn_launch;

/* A thread waits until a thread of any block says that a copy of the copy engine has ended. */
void schedules_await_copy(void);
void schedules_copied(void);

uint64_t schedules_packets(void); /* packets of mail sent so far */

/* Returns lines that say what went wrong in the last launch, which then returned
   cudaErrorLaunchFailure, or "". For a deadlock they say which threads wait for what. */
const char *schedules_report(void);

#ifdef __cplusplus
}
#endif
