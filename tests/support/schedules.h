/* Launches on the emulator whose blocks wait for each other (level epoch): all blocks run at once,
   and what runs next is drawn from a seed. By it one reader of mail at a time, some warps, some
   blocks or the same warps of all blocks come last, and packets of mail arrive late and in any
   order, but for those to the same place. There are no caches and there is no time: a missing fence
   stays unseen. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From now on launches are drawn, or run one block after another. */
void schedules_draw(bool draw);

/* Instructions for the next launches. All zero but `mail` is a kernel as it is. */
typedef struct {
  uint32_t seed; /* of the schedule */
  void *mail;    /* packets of 16 bytes */
  size_t mail_bytes;
  size_t stamps; /* so many packets have a stamp in the last 4 bytes; the others have a phase, in
                    the sign of the first number or the last bit of the second one, in each half */
  /* Faults, to see them found: */
  int barrier_left_out;     /* 1 to 15: nobody arrives or waits there */
  size_t buffer_at, buffer; /* packets: mail to the second `buffer` packets from there on goes to
                               the first */
  uint64_t stamp_too_low;   /* the packet that is sent as this one, from 1, is of the step before */
  uint32_t read_too_early;  /* one in so many looks takes the packet of the step before */
} DrawnLaunch;

extern DrawnLaunch drawn_launch;

uint64_t schedules_packets(void); /* of mail that were sent so far */

/* Returns in lines what went wrong in the last launch, which then returned cudaErrorLaunchFailure;
   "" if nothing did. For a deadlock it says which threads wait for what. */
const char *schedules_report(void);

#ifdef __cplusplus
}
#endif
