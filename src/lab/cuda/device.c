#include "lab/harness.h"

#include <string.h>

#include "measure/cuda/ceilings.h"

bool lab_start(Error *error) {
  return gpu_start(error);
}

/* A CeilingUse: adds a number to the machine's line. */
static bool put_rate(void *line, Ceiling which, double value, Error *error) {
  static const char *const keys[] = {"copy_gb_per_s", "link_gb_per_s", "fma_gflop_per_s"};
  (void)error;
  record_number(line, keys[which], value);
  return true;
}

bool lab_machine(Record *record, const char *command, bool rates, Error *error) {
  GpuMachine machine;
  if (!gpu_machine(&machine, error)) return false;
  memcpy(record->gpu, machine.name, sizeof record->gpu);
  json_t *line = record_line("lab-machine");
  record_text(line, "driver", machine.driver);
  record_text(line, "date", machine.date);
  record_text(line, "command", command);
  if (rates && !ceilings_measure(CEILING_COPY, CEILING_FMA + 1, put_rate, line, error)) {
    json_decref(line);
    return false;
  }
  return record_add(record, line, true, error);
}

/* ---- mlp-lab device ------------------------------------------------------------------------- */

/* Attributes that the device properties lack. */
typedef struct {
  int clock, memory_clock, bus_width; /* kHz, kHz, bits */
  int blocks;                         /* that a multiprocessor holds */
  int runtime;
} More;

static cudaError_t find_more(struct cudaDeviceProp *properties, More *more) {
  int device;
  TRY(cudaGetDevice(&device));
  TRY(cudaGetDeviceProperties(properties, device));
  TRY(cudaDeviceGetAttribute(&more->clock, cudaDevAttrClockRate, device));
  TRY(cudaDeviceGetAttribute(&more->memory_clock, cudaDevAttrMemoryClockRate, device));
  TRY(cudaDeviceGetAttribute(&more->bus_width, cudaDevAttrGlobalMemoryBusWidth, device));
  TRY(cudaDeviceGetAttribute(&more->blocks, cudaDevAttrMaxBlocksPerMultiprocessor, device));
  return cudaRuntimeGetVersion(&more->runtime);
}

/* Float32 multiply-adds that a multiprocessor of that compute capability starts in a clock, from
   the table of arithmetic throughput in the CUDA C++ Programming Guide; 0: not known. */
static int lanes_of(int major, int minor) {
  if (major == 7 || (major == 8 && minor == 0)) return 64;
  return major >= 8 && major <= 12 ? 128 : 0;
}

static void print_parts(const struct cudaDeviceProp *p, const More *more, const char *driver,
                        FILE *file) {
  fprintf(file, "%-32s %s\n", "name", p->name);
  fprintf(file, "%-32s %d.%d\n", "compute capability", p->major, p->minor);
  fprintf(file, "%-32s %s\n", "driver", driver);
  fprintf(file, "%-32s CUDA %d.%d\n", "runtime", more->runtime / 1000, more->runtime % 1000 / 10);
  fprintf(file, "%-32s %.2f GHz\n", "clock, at most", more->clock / 1e6);
  fprintf(file, "%-32s %.1f GB, %d bits wide, %.2f GHz\n", "memory",
          (double)p->totalGlobalMem / 1e9, more->bus_width, more->memory_clock / 1e6);
  fprintf(file, "%-32s %.1f MB\n", "L2 cache", p->l2CacheSize / 1e6);
  fprintf(file, "%-32s %.1f KB\n", "constant memory", (double)p->totalConstMem / 1024);
  fprintf(file, "%-32s %d\n", "multiprocessors", p->multiProcessorCount);
  fprintf(file, "%-32s %d threads, %d blocks, %d registers, %.0f KB shared memory\n",
          "a multiprocessor holds", p->maxThreadsPerMultiProcessor, more->blocks,
          p->regsPerMultiprocessor, (double)p->sharedMemPerMultiprocessor / 1024);
  fprintf(file, "%-32s %d threads, %d registers, %.0f KB shared memory, %.0f KB on request\n",
          "a block holds at most", p->maxThreadsPerBlock, p->regsPerBlock,
          (double)p->sharedMemPerBlock / 1024, (double)p->sharedMemPerBlockOptin / 1024);
  fprintf(file, "%-32s %d x %d x %d\n", "block sizes, at most", p->maxThreadsDim[0],
          p->maxThreadsDim[1], p->maxThreadsDim[2]);
  fprintf(file, "%-32s %d x %d x %d\n", "grid sizes, at most", p->maxGridSize[0], p->maxGridSize[1],
          p->maxGridSize[2]);
  fprintf(file, "%-32s %d threads\n", "a warp", p->warpSize);
  fprintf(file, "%-32s %d\n", "copy engines", p->asyncEngineCount);
  fprintf(file, "%-32s %s\n", "error correction", p->ECCEnabled ? "on" : "off");
}

/* The memory moves two words a clock. */
static void print_rates(const struct cudaDeviceProp *p, const More *more, const json_t *m,
                        FILE *file) {
  const double copy = 1e9 * number_of(m, "copy_gb_per_s"),
               measured = 1e9 * number_of(m, "fma_gflop_per_s");
  const double bandwidth = 2e3 * more->memory_clock * more->bus_width / 8;
  const double fma = 2e3 * more->clock * p->multiProcessorCount * lanes_of(p->major, p->minor);
  if (bandwidth > 0)
    fprintf(file, "%-32s %.0f GB/s\n", "memory bandwidth, in theory", bandwidth / 1e9);
  fprintf(file, "%-32s %.0f GB/s, read + write", "copy on the GPU, measured", copy / 1e9);
  if (bandwidth > 0) fprintf(file, ": %.1f%%", 100 * copy / bandwidth);
  putc('\n', file);
  if (fma > 0)
    fprintf(file, "%-32s %.1f TFLOP/s\n", "float32 multiply-adds, in theory", fma / 1e12);
  fprintf(file, "%-32s %.1f TFLOP/s", "float32 multiply-adds, measured", measured / 1e12);
  if (fma > 0) fprintf(file, ": %.1f%%", 100 * measured / fma);
  fprintf(file, "\n%-32s %.1f GB/s\n", "copy to the GPU, pinned", number_of(m, "link_gb_per_s"));
}

bool lab_device(FILE *file, Error *error) {
  struct cudaDeviceProp properties;
  More more;
  Record record = {.lines = NULL};
  bool good =
      lab_machine(&record, NULL, true, error) &&
      cuda_done(find_more(&properties, &more), "reading the attributes of the device", error);
  if (good) {
    const json_t *machine = json_array_get(record.lines, 0);
    print_parts(&properties, &more, text_of(machine, "driver"), file);
    putc('\n', file);
    print_rates(&properties, &more, machine, file);
  }
  return record_close(&record, good, error);
}
