/* Arrays in pages of their own, with a page before and one behind that nobody may touch, and a
   count of the bytes that a function moves between them and a cache.

   What is counted is what happens, not what a function says of itself, and it is the same number
   each time: a time would depend on the machine and on who else is busy on it. While a function is
   watched, its arrays lie in pages that it may not touch. The first access to a page is a fault.
   The handler counts the page, as read or as written, lets it be touched, and takes the page back
   that was let longest ago, so that never more than FENCE_WINDOW bytes can be touched. That is a
   cache of this size with pages for lines. A second pass over an array that is larger faults on
   each of its pages again. It does not matter which function or loop it stands in, or what it is
   called. Three loops over a row that stays in the window count once, as they do in a real cache.

   Memory of the function's own is not counted. So it must have none to speak of: its stack is
   FENCE_STACK bytes; scripts/seal_exercise.sh refuses calls that allocate, and static arrays. */
#ifndef FENCE_H
#define FENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FENCE_WINDOW = 1 << 20, FENCE_STACK = 128 << 10 };

typedef struct {
  bool constant;     /* must not be written to */
  uint8_t *start;    /* the array */
  size_t bytes;      /* of it */
  uint8_t *pages;    /* those that the array lies in */
  size_t page_bytes; /* of them */
} Fence;

/* The report of a process to the one that waits for it, in shared memory. */
typedef struct {
  /* The access to memory that ended the function, if one did. */
  int signal;       /* SIGSEGV or SIGBUS, 0: none */
  int array;        /* which of the arrays it was near, -1: none */
  int written;      /* 1: it wrote, 0: it read, -1: not known */
  ptrdiff_t offset; /* bytes from the array's start */
  bool stack, elsewhere;
  /* The function's time and bytes. */
  double seconds;
  double moved; /* bytes, if `counted` */
  bool counted;
} FenceReport;

/* An array of `bytes` in memory that processes share. at_end: it ends where its last page ends, so
   that the element behind it cannot be touched; else it begins where a page begins. false: there is
   no memory. */
bool fence_open(Fence *fence, size_t bytes, bool constant, bool at_end);
void fence_close(Fence *fence);
/* Somebody has written to what is left of the pages beside the array: *offset is where, in bytes
   from the array's start; nearest to it of all such places. */
bool fence_find_write(const Fence *fence, ptrdiff_t *offset);

/* To be called in a process of its own, once: calls function(context) on a stack of its own with
   the faults caught. most: bytes to count; 0: nothing is watched; beyond them `counted` is false.
 */
void fence_call(Fence *fences, int count, double most, FenceReport *report,
                void (*function)(void *context), void *context);

#endif
