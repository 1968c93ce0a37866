/* Makes chosen calls of the process fail. In mlp-train-faults this file replaces functions of the C
   library, even in calls by other libraries; cuda_stand_in.c replaces CUDA's functions. stdout and
   the streams of fopen and fdopen call these functions, too. The environment says what fails:

     FAULT_AT=N     the Nth counted call since the process began fails
     FAULT_MORE=1   each later call of the same kind fails, too, as when a disk is full
     FAULT_CUDA=1   only calls of the CUDA runtime are counted
     FAULT_TOLD=F   the name of the first function that fails is written to file F

   Of each place in the code, the first FEW calls are counted, then one in MANY, because stb makes
   ten thousand allocations in two places to encode a picture. OpenMP's own calls never fail,
   because OpenMP ends the process if it gets no memory or threads. */
#define _GNU_SOURCE /* for RTLD_NEXT, dladdr and fopencookie */
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "support/fault.h"

typedef enum { MEMORY, OPEN, READ, WRITE, SYNC, RENAME, CLOSE, MODE, THREAD, CUDA } Kind;

/* The errno of each Kind, in that order. test_faults.c has the same values. */
static const int causes[] = {ENOMEM, EMFILE, EIO, ENOSPC, EIO, EACCES, EIO, EPERM, EAGAIN, EIO};

static unsigned long at; /* set by begin() to FAULT_AT's value; while it is 0, no call fails */
static bool more, cuda_alone;
static const char *told;
static atomic_ulong count;
static atomic_int broken = -1; /* the kind of the first call that failed, or -1 */
/* True if FAULT_AT counts this thread's calls. False in OpenMP's threads and inside
   pthread_create. */
static _Thread_local bool counts;

/* The function of the sanitizer or of the C library that this file replaces. */
#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

static bool is_openmp(const void *caller) {
  Dl_info info;
  return dladdr(caller, &info) && info.dli_fname &&
         (strstr(info.dli_fname, "libgomp") || strstr(info.dli_fname, "libomp"));
}

enum { PLACES = 4096, FEW = 150, MANY = 211 };

/* Returns true if this call from the place `caller` is not counted (see FEW at the top). */
static bool passed_over(const void *caller) {
  static struct {
    const void *caller;
    unsigned long calls;
  } places[PLACES];
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  size_t i = (uintptr_t)caller % PLACES;
  pthread_mutex_lock(&mutex);
  while (places[i].caller && places[i].caller != caller) i = (i + 1) % PLACES;
  places[i].caller = caller;
  const unsigned long calls = places[i].calls++;
  pthread_mutex_unlock(&mutex);
  return calls >= FEW && calls % MANY != 0;
}

static bool fails(Kind kind, const char *name, const void *caller) {
  if (!at || !counts || (cuda_alone && kind != CUDA) || is_openmp(caller)) return false;
  const bool again = more && broken == (int)kind;
  if (!again) {
    if (passed_over(caller) || ++count != at) return false;
    broken = (int)kind;
    const int file = REAL(open)(told, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0 || REAL(write)(file, name, strlen(name)) < 0) abort();
    REAL(close)(file);
  }
  errno = causes[kind];
  return true;
}

/* No call fails after the end of main, so that gcov can write its files. */
__attribute__((destructor)) static void stop_failing(void) {
  at = 0;
}

bool fault_cuda(const char *name, const void *caller) {
  return fails(CUDA, name, caller);
}

#define FAILS(kind, name) fails(kind, name, __builtin_return_address(0))

/* Returns time 0 for every clock, so that all runs print the same times. */
int clock_gettime(clockid_t clock, struct timespec *now) {
  (void)clock;
  *now = (struct timespec){0};
  return 0;
}

/* ---- memory ------------------------------------------------------------------------------- */

/* Defines an allocation function that calls the sanitizer's function if there is one, else the C
   library's. The linker finds that function, because dlsym itself may allocate memory. */
#define ALLOCATOR(name, parameters, arguments)                                                     \
  extern void *__libc_##name parameters;                                                           \
  extern void *__interceptor_##name parameters __attribute__((weak));                              \
  static void *real_##name parameters {                                                            \
    if (__interceptor_##name) return __interceptor_##name arguments;                               \
    return __libc_##name arguments;                                                                \
  }                                                                                                \
  void *name parameters {                                                                          \
    return FAILS(MEMORY, #name) ? NULL : real_##name arguments;                                    \
  }

ALLOCATOR(malloc, (size_t size), (size))
ALLOCATOR(calloc, (size_t number, size_t size), (number, size))
ALLOCATOR(realloc, (void *block, size_t size), (block, size))

void *fault_malloc(size_t size) {
  return real_malloc(size);
}

/* Replaces strdup, because the sanitizer's strdup would not call the malloc above. */
char *strdup(const char *text) {
  const size_t size = strlen(text) + 1;
  char *copy = malloc(size);
  return copy ? memcpy(copy, text, size) : NULL;
}

/* ---- files -------------------------------------------------------------------------------- */

/* Defines a function that calls the original function, unless this call must fail. */
#define FAILING(kind, type, name, parameters, arguments)                                           \
  type name parameters {                                                                           \
    return FAILS(kind, #name) ? -1                                                                 \
                              : REAL(name) arguments; /* NOLINT(bugprone-macro-parentheses) */     \
  }

int open(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = flags & O_CREAT ? (mode_t)va_arg(arguments, int) : 0;
  va_end(arguments);
  return FAILS(OPEN, "open") ? -1 : REAL(open)(path, flags, mode);
}

FAILING(READ, ssize_t, read, (int file, void *bytes, size_t size), (file, bytes, size))
FAILING(READ, ssize_t, pread, (int file, void *bytes, size_t size, off_t at_byte),
        (file, bytes, size, at_byte))
FAILING(SYNC, int, fsync, (int file), (file))
FAILING(RENAME, int, rename, (const char *from, const char *to), (from, to))
FAILING(OPEN, int, mkostemp, (char *path, int flags), (path, flags))
FAILING(MODE, int, fchmod, (int file, mode_t mode), (file, mode))

/* A write to standard error never fails, so that messages about failures are printed. */
ssize_t write(int file, const void *bytes, size_t size) {
  return file != STDERR_FILENO && FAILS(WRITE, "write") ? -1 : REAL(write)(file, bytes, size);
}

/* Closes the file even if the call must fail, because Linux does so, too. */
int close(int file) {
  const bool failed = FAILS(CLOSE, "close");
  const int cause = errno;
  const int code = REAL(close)(file);
  if (!failed) return code;
  errno = cause;
  return -1;
}

/* ---- streams ------------------------------------------------------------------------------ */

static ssize_t read_stream(void *cookie, char *bytes, size_t size) {
  return read((int)(intptr_t)cookie, bytes, size);
}

/* Returns 0 on failure, because fopencookie's write function must report errors by 0. */
static ssize_t write_stream(void *cookie, const char *bytes, size_t size) {
  const ssize_t wrote = write((int)(intptr_t)cookie, bytes, size);
  return wrote < 0 ? 0 : wrote;
}

static int seek_stream(void *cookie, off64_t *to, int from) {
  *to = lseek((int)(intptr_t)cookie, *to, from);
  return *to < 0 ? -1 : 0;
}

static int close_stream(void *cookie) {
  return close((int)(intptr_t)cookie);
}

static FILE *stream_of(int file, const char *mode) {
  const cookie_io_functions_t calls = {read_stream, write_stream, seek_stream, close_stream};
  return fopencookie((void *)(intptr_t)file, mode, calls); // NOLINT(performance-no-int-to-ptr)
}

FILE *fopen(const char *path, const char *mode) {
  const int create = *mode == 'a' ? O_APPEND | O_CREAT : O_TRUNC | O_CREAT;
  const int access = strchr(mode, '+') ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY;
  const int file = open(path, *mode == 'r' ? access : access | create, 0666);
  if (file < 0) return NULL;
  FILE *stream = stream_of(file, mode);
  if (!stream) REAL(close)(file);
  return stream;
}

FILE *fdopen(int file, const char *mode) {
  return stream_of(file, mode);
}

/* ---- threads ------------------------------------------------------------------------------ */

typedef struct {
  void *(*start)(void *);
  void *context;
  bool counts;
} Start;

static void *begin_thread(void *context) {
  const Start own = *(Start *)context;
  free(context);
  counts = own.counts;
  return own.start(own.context);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *context) {
  const bool before = counts;
  if (FAILS(THREAD, "pthread_create")) return EAGAIN;
  counts = false;
  Start *own = malloc(sizeof *own);
  if (!own) abort();
  *own = (Start){start, context, before && !is_openmp(__builtin_return_address(0))};
  const int code = REAL(pthread_create)(thread, attributes, begin_thread, own);
  if (code != 0) free(own);
  counts = before;
  return code;
}

/* ---- before main -------------------------------------------------------------------------- */

__attribute__((constructor)) static void begin(void) {
  const char *number = getenv("FAULT_AT");
  told = getenv("FAULT_TOLD");
  more = getenv("FAULT_MORE") != NULL;
  cuda_alone = getenv("FAULT_CUDA") != NULL;
  stdout = stream_of(STDOUT_FILENO, "w");
  if (!stdout) abort();
  if (number && told) at = strtoul(number, NULL, 10);
  counts = true;
}
