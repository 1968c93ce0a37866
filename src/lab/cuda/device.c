#include "lab/harness.h"

#include "measure/cuda/ceilings.h"

bool lab_start(Error *error) {
  return gpu_start(error);
}

bool lab_machine(Record *record, const char *command, const char *sources, bool rates,
                 Error *error) {
  GpuMachine gpu;
  if (!gpu_machine(&gpu, error)) return false;
  record_add_machine(record, gpu.name, gpu.driver, NULL, command, sources);
  return !rates || ceilings_add(record, CEILING_COPY, CEILING_FMA + 1, error);
}

/* ---- mlp-lab device ------------------------------------------------------------------------- */

/* Prints a line, or its beginning, with a name before the rest. */
#define PART(name, ...) (printf("%-32s ", name), printf(__VA_ARGS__))

static void print_parts(const struct cudaDeviceProp *p) {
  PART("compute capability", "%d.%d\n", p->major, p->minor);
  PART("memory", "%.1f GB, %d bits wide\n", (double)p->totalGlobalMem / 1e9, p->memoryBusWidth);
  PART("L2 cache", "%.1f MB\n", p->l2CacheSize / 1e6);
  PART("multiprocessors", "%d\n", p->multiProcessorCount);
  PART("a multiprocessor holds", "%d threads, %d blocks, %d registers, %.0f KB shared memory\n",
       p->maxThreadsPerMultiProcessor, p->maxBlocksPerMultiProcessor, p->regsPerMultiprocessor,
       (double)p->sharedMemPerMultiprocessor / 1024);
  PART("a block holds at most",
       "%d threads, %d registers, %.0f KB shared memory, %.0f KB on request\n",
       p->maxThreadsPerBlock, p->regsPerBlock, (double)p->sharedMemPerBlock / 1024,
       (double)p->sharedMemPerBlockOptin / 1024);
}

bool lab_device(Error *error) {
  struct cudaDeviceProp properties;
  Record record = {.lines = NULL};
  int device;
  const bool good =
      lab_machine(&record, NULL, NULL, true, error) &&
      cuda_done(cudaGetDevice(&device), "finding the device", error) &&
      cuda_done(cudaGetDeviceProperties(&properties, device), "finding the device", error);
  if (good) {
    record_print_machine(&record, "What there is", stdout, false);
    print_parts(&properties);
    foreach_of (line, &record, "ceiling", NULL)
      PART(text_of(line, "name"), "%.0f %s, measured\n", number_of(line, "value"),
           text_of(line, "unit"));
  }
  return record_close(&record, good, error);
}
