/* Tells ThreadSanitizer what it cannot see in gcc's OpenMP library. What a thread did before a
   parallel region happens before the region, and the region happens before what follows it. `make
   SANITIZE=thread` links every GOMP_parallel, which `#pragma omp parallel` calls, to this one. */
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
