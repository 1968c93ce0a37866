#define _GNU_SOURCE /* MAP_ANONYMOUS, REG_ERR */
#include "exercise/fence.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/clock.h"
#include "exercise/apart.h"
#include "exercise/exercise.h"

static size_t page_size(void) {
  return (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- arrays --------------------------------------------------------------------------------- */

bool fence_open(Fence *fence, size_t bytes, bool constant, bool at_end) {
  const size_t page = page_size();
  const size_t inside = (bytes + page - 1) / page * page;
  uint8_t *all = apart_memory(inside + 2 * page);
  if (!all) return false;
  *fence = (Fence){.constant = constant, .bytes = bytes, .pages = all + page, .page_bytes = inside};
  fence->start = fence->pages + (at_end ? inside - bytes : 0);
  exercise_poison(fence->pages, 0, inside);
  exercise_poison(fence->start, 0, bytes);
  mprotect(all, page, PROT_NONE);
  mprotect(all + page + inside, page, PROT_NONE);
  return true;
}

void fence_close(Fence *fence) {
  const size_t page = page_size();
  if (fence->pages) apart_release(fence->pages - page, fence->page_bytes + 2 * page);
  *fence = (Fence){0};
}

bool fence_find_write(const Fence *fence, ptrdiff_t *offset) {
  const size_t before = (size_t)(fence->start - fence->pages), end = before + fence->bytes;
  for (size_t at = end; at < fence->page_bytes; at++)
    if (!exercise_is_poison(fence->pages, at, 1)) {
      *offset = (ptrdiff_t)(at - before);
      return true;
    }
  for (size_t at = before; at-- > 0;)
    if (!exercise_is_poison(fence->pages, at, 1)) {
      *offset = (ptrdiff_t)at - (ptrdiff_t)before;
      return true;
    }
  return false;
}

/* ---- watching ------------------------------------------------------------------------------- */

enum { UNTOUCHED, READABLE, WRITABLE };

/* Bytes below the stack that nobody may touch: a large array on it is touched far from its end. */
enum { BELOW_STACK = 64 << 20 };

typedef struct {
  int fence;
  size_t page;
} Place;

/* The state of the process that calls the function. */
static struct {
  Fence *fences;
  int count;
  FenceReport *report;
  size_t page;
  bool watching;
  double most;
  uint8_t *state[ARRAYS]; /* of each page */
  Place *let;             /* the pages that may be touched: a ring, oldest first */
  size_t room, used, oldest;
  uint8_t *stack;
  void (*function)(void *context);
  void *context;
} here;

static void protect(Place place, int protection) {
  mprotect(here.fences[place.fence].pages + place.page * here.page, here.page, protection);
}

static void stop_watching(bool counted) {
  here.watching = false;
  here.report->counted = counted;
  for (int i = 0; i < here.count; i++) {
    const Fence *f = &here.fences[i];
    if (f->pages) mprotect(f->pages, f->page_bytes, PROT_READ | (f->constant ? 0 : PROT_WRITE));
  }
}

/* The array's bytes in that page. */
static size_t bytes_in(Place place) {
  const Fence *f = &here.fences[place.fence];
  const size_t begin = place.page * here.page;
  return f->bytes - begin < here.page ? f->bytes - begin : here.page;
}

static void make_room(Place place) {
  if (here.used == here.room) {
    const Place oldest = here.let[here.oldest];
    here.state[oldest.fence][oldest.page] = UNTOUCHED;
    protect(oldest, PROT_NONE);
    here.let[here.oldest] = place;
    here.oldest = (here.oldest + 1) % here.room;
  } else {
    here.let[here.used++] = place;
  }
}

/* Lets the page be touched, and counts it. False: the function must not do that. */
static bool let(Place place, bool writes) {
  uint8_t *state = &here.state[place.fence][place.page];
  if ((writes && here.fences[place.fence].constant) || *state == WRITABLE) return false;
  if (*state == UNTOUCHED) make_room(place);
  *state = writes ? WRITABLE : READABLE;
  protect(place, PROT_READ | (writes ? PROT_WRITE : 0));
  here.report->moved += (double)bytes_in(place);
  if (here.report->moved > here.most) stop_watching(false);
  return true;
}

/* 1: the access was a write, 0: a read, -1: this processor's way to say it is not known here. */
static int is_write(const void *context) {
  const ucontext_t *at = context;
#if defined(__x86_64__)
  return (int)(at->uc_mcontext.gregs[REG_ERR] >> 1 & 1);
#elif defined(__aarch64__)
  const uint8_t *record = at->uc_mcontext.__reserved; /* (magic, size, ...) up to one of zeros */
  for (uint32_t head[2];; record += head[1]) {
    __builtin_memcpy(head, record, sizeof head);
    if (head[0] == 0 || head[1] == 0) return -1;
    if (head[0] != 0x45535201) continue; /* of the syndrome: bit 6 is "write, not read" */
    uint64_t syndrome;
    __builtin_memcpy(&syndrome, record + sizeof head, sizeof syndrome);
    return (int)(syndrome >> 6 & 1);
  }
#else
  (void)at;
  return -1;
#endif
}

/* The fence that the address is of, itself or the page before or behind; -1: none. */
static int fence_of(const uint8_t *address) {
  for (int i = 0; i < here.count; i++) {
    const Fence *f = &here.fences[i];
    if (f->pages && address >= f->pages - here.page &&
        address < f->pages + f->page_bytes + here.page)
      return i;
  }
  return -1;
}

static void on_fault(int signal_number, siginfo_t *info, void *context) {
  const uint8_t *address = info->si_addr;
  const int i = fence_of(address), writes = is_write(context);
  if (i >= 0 && here.watching && address >= here.fences[i].pages &&
      address < here.fences[i].pages + here.fences[i].page_bytes) {
    if (writes < 0) {
      stop_watching(false);
      return;
    }
    if (let((Place){i, (size_t)(address - here.fences[i].pages) / here.page}, writes)) return;
  }
  here.report->array = i;
  here.report->written = writes;
  if (i >= 0) here.report->offset = address - here.fences[i].start;
  here.report->stack = address >= here.stack - BELOW_STACK && address < here.stack;
  here.report->elsewhere = i < 0 && !here.report->stack;
  here.report->signal = signal_number;
  _exit(1); /* not by the signal itself, which a sanitizer would catch */
}

static void start_watching(double most) {
  here.most = most;
  here.room = FENCE_WINDOW / here.page;
  here.let = calloc(here.room, sizeof *here.let);
  if (!here.let) abort();
  for (int i = 0; i < here.count; i++) {
    const Fence *f = &here.fences[i];
    if (!f->pages) continue;
    here.state[i] = calloc(f->page_bytes / here.page + 1, 1);
    if (!here.state[i]) abort();
    mprotect(f->pages, f->page_bytes, PROT_NONE);
  }
  here.report->counted = true;
  here.watching = true;
}

/* ---- calling -------------------------------------------------------------------------------- */

enum { SIGNAL_STACK = 64 << 10 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STACK = 1 << 20 }; /* a sanitizer needs some itself */
#else
enum { STACK = FENCE_STACK };
#endif

static void *call(void *unused) {
  static uint8_t signal_stack[SIGNAL_STACK]; /* the function's own may be what is used up */
  const stack_t other = {.ss_sp = signal_stack, .ss_size = sizeof signal_stack};
  stack_t before;
  sigaltstack(&other, &before);
  const double began = seconds_now();
  here.function(here.context);
  here.report->seconds = seconds_now() - began;
  sigaltstack(&before, NULL); /* a sanitizer has its own, and wants it back */
  return unused;
}

static void *return_at_once(void *unused) {
  return unused;
}

/* The bytes of the least stack that a thread can have. Variables of each thread lie in it, too,
   those of all libraries: with cuBLAS more than FENCE_STACK. */
static size_t least_stack(void) {
  size_t bytes = 0;
  int failed;
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  do {
    bytes += 16 << 10;
    pthread_attr_setstacksize(&attributes, bytes);
    failed = pthread_create(&thread, &attributes, return_at_once, NULL);
  } while (failed == EINVAL);
  if (failed) abort();
  pthread_join(thread, NULL);
  pthread_attr_destroy(&attributes);
  return bytes;
}

/* So that the time is not that of page tables being filled. */
static void touch_all(void) {
  for (int i = 0; i < here.count; i++)
    for (size_t at = 0; at < here.fences[i].page_bytes; at += here.page) {
      volatile uint8_t *byte = here.fences[i].pages + at;
      *byte = *byte; /* cppcheck-suppress selfAssignment */
    }
}

void fence_call(Fence *fences, int count, double most, FenceReport *report,
                void (*function)(void *context), void *context) {
  here.fences = fences;
  here.count = count;
  here.report = report;
  here.page = page_size();
  here.function = function;
  here.context = context;
  const size_t stack = least_stack() + STACK;
  uint8_t *all = mmap(NULL, BELOW_STACK + stack, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) abort();
  mprotect(all, BELOW_STACK, PROT_NONE);
  here.stack = all + BELOW_STACK;
  touch_all();
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGBUS, &action, NULL);
  stop_watching(false); /* what is constant can only be read from here on */
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, here.stack, stack);
  if (most > 0) start_watching(most);
  if (pthread_create(&thread, &attributes, call, NULL) != 0) abort();
  pthread_join(thread, NULL);
  if (here.watching) stop_watching(true);
}
