#include "lab/harness.h"

#include "measure/cuda/ceilings.h"

bool lab_start(Error *error) {
  return gpu_start(error);
}

bool lab_machine(Record *record, const char *command, bool rates, Error *error) {
  static const char *const keys[] = {"copy_gb_per_s", "link_gb_per_s", "fma_gflop_per_s"};
  double values[CEILINGS];
  if (!gpu_machine(&record->machine, error) ||
      (rates && !ceilings_measure(CEILING_COPY, CEILING_FMA + 1, values, error)))
    return false;
  json_t *line = record_line("lab-machine");
  record_text(line, "driver", record->machine.driver);
  record_text(line, "date", record->machine.date);
  record_text(line, "command", command);
  for (int i = CEILING_COPY; rates && i <= CEILING_FMA; i++)
    record_number(line, keys[i], values[i]);
  record_add(record, line, true);
  return true;
}

/* ---- mlp-lab device ------------------------------------------------------------------------- */

typedef struct {
  struct cudaDeviceProp properties;
  int clock, memory_clock; /* kHz */
  int runtime;
} Device;

static cudaError_t find_device(Device *d) {
  int device;
  TRY(cudaGetDevice(&device));
  TRY(cudaGetDeviceProperties(&d->properties, device));
  TRY(cudaDeviceGetAttribute(&d->clock, cudaDevAttrClockRate, device));
  TRY(cudaDeviceGetAttribute(&d->memory_clock, cudaDevAttrMemoryClockRate, device));
  return cudaRuntimeGetVersion(&d->runtime);
}

/* Float32 multiply-adds that a multiprocessor of that compute capability starts in a clock, from
   the table of arithmetic throughput in the CUDA C++ Programming Guide; 0: not known. */
static int lanes_of(int major, int minor) {
  if (major == 7 || (major == 8 && minor == 0)) return 64;
  return major >= 8 && major <= 12 ? 128 : 0;
}

/* Prints a line, or its beginning, with a name before the rest. */
#define PART(name, ...) (printf("%-32s ", name), printf(__VA_ARGS__))

static void print_parts(const Device *d, const char *driver) {
  const struct cudaDeviceProp *p = &d->properties;
  PART("name", "%s\n", p->name);
  PART("compute capability", "%d.%d\n", p->major, p->minor);
  PART("driver", "%s\n", driver);
  PART("runtime", "CUDA %d.%d\n", d->runtime / 1000, d->runtime % 1000 / 10);
  PART("clock, at most", "%.2f GHz\n", d->clock / 1e6);
  PART("memory", "%.1f GB, %d bits wide, %.2f GHz\n", (double)p->totalGlobalMem / 1e9,
       p->memoryBusWidth, d->memory_clock / 1e6);
  PART("L2 cache", "%.1f MB\n", p->l2CacheSize / 1e6);
  PART("constant memory", "%.1f KB\n", (double)p->totalConstMem / 1024);
  PART("multiprocessors", "%d\n", p->multiProcessorCount);
  PART("a multiprocessor holds", "%d threads, %d blocks, %d registers, %.0f KB shared memory\n",
       p->maxThreadsPerMultiProcessor, p->maxBlocksPerMultiProcessor, p->regsPerMultiprocessor,
       (double)p->sharedMemPerMultiprocessor / 1024);
  PART("a block holds at most",
       "%d threads, %d registers, %.0f KB shared memory, %.0f KB on request\n",
       p->maxThreadsPerBlock, p->regsPerBlock, (double)p->sharedMemPerBlock / 1024,
       (double)p->sharedMemPerBlockOptin / 1024);
  PART("block sizes, at most", "%d x %d x %d\n", p->maxThreadsDim[0], p->maxThreadsDim[1],
       p->maxThreadsDim[2]);
  PART("grid sizes, at most", "%d x %d x %d\n", p->maxGridSize[0], p->maxGridSize[1],
       p->maxGridSize[2]);
  PART("a warp", "%d threads\n", p->warpSize);
  PART("copy engines", "%d\n", p->asyncEngineCount);
  PART("error correction", "%s\n", p->ECCEnabled ? "on" : "off");
}

/* Ends a line by the share of what there is in theory, where that is known. */
static void print_share(double rate, double theory) {
  if (theory > 0) printf(": %.1f%%", 100 * rate / theory);
  putchar('\n');
}

/* The memory moves two words a clock. */
static void print_rates(const Device *d, const json_t *machine) {
  const struct cudaDeviceProp *p = &d->properties;
  const double copy = number_of(machine, "copy_gb_per_s"),
               fma = number_of(machine, "fma_gflop_per_s") / 1e3,
               bandwidth = 2e-6 * d->memory_clock * p->memoryBusWidth / 8,
               most = 2e-9 * d->clock * p->multiProcessorCount * lanes_of(p->major, p->minor);
  if (bandwidth > 0) PART("memory bandwidth, in theory", "%.0f GB/s\n", bandwidth);
  PART("copy on the GPU, measured", "%.0f GB/s, read + write", copy);
  print_share(copy, bandwidth);
  if (most > 0) PART("float32 multiply-adds, in theory", "%.1f TFLOP/s\n", most);
  PART("float32 multiply-adds, measured", "%.1f TFLOP/s", fma);
  print_share(fma, most);
  PART("copy to the GPU, pinned", "%.1f GB/s\n", number_of(machine, "link_gb_per_s"));
}

bool lab_device(Error *error) {
  Device device;
  Record record = {.lines = NULL};
  const bool good = lab_machine(&record, NULL, true, error) &&
                    cuda_done(find_device(&device), "reading the attributes of the device", error);
  if (good) {
    const json_t *machine = record_first(&record, "lab-machine");
    print_parts(&device, text_of(machine, "driver"));
    putchar('\n');
    print_rates(&device, machine);
  }
  return record_close(&record, good, error);
}
