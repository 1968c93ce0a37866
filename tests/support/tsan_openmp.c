/* ThreadSanitizer cannot see into gcc's OpenMP library. This file tells it that the threads
   of a parallel region start after the code before the region has run, and that the code after the
   region waits for them. `#pragma omp parallel` calls GOMP_parallel; `make SANITIZE=thread` links
   the wrapper below in its place. */
#include <sanitizer/tsan_interface.h>

typedef struct {
  void (*body)(void *);
  void *data;
} Region;

static void run(void *argument) {
  Region *region = argument;
  __tsan_acquire(region);
  region->body(region->data);
  __tsan_release(region);
}

void __real_GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags);
void __wrap_GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags);

void __wrap_GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags) {
  Region region = {body, data};
  __tsan_release(&region);
  __real_GOMP_parallel(run, &region, threads, flags);
  __tsan_acquire(&region);
}
