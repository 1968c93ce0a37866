#include "lab/harness.h"

#include <math.h>
#include <time.h>

#include "engine/engine.h"
#include "measure/gpu_rates.h"

bool lab_start(Error *error) {
  return engine_cuda_available(error) && cuda_done(cudaFree(NULL), "creating a context", error);
}

static bool find_properties(struct cudaDeviceProp *properties, Error *error) {
  int device;
  return cuda_done(cudaGetDevice(&device), "finding the device", error) &&
         cuda_done(cudaGetDeviceProperties(properties, device), "finding the device", error);
}

bool lab_machine(LabMachine *machine, bool rates, Error *error) {
  struct cudaDeviceProp properties;
  if (!find_properties(&properties, error)) return false;
  snprintf(machine->gpu, sizeof machine->gpu, "%.127s", properties.name);
  gpu_driver(machine->driver, sizeof machine->driver);
  const time_t now = time(NULL);
  strftime(machine->date, sizeof machine->date, "%Y-%m-%d", gmtime(&now));
  machine->copy = machine->link = machine->fma = NAN;
  return !rates || (gpu_copy_rate(&machine->copy, error) && gpu_link_rate(&machine->link, error) &&
                    gpu_fma_rate(&machine->fma, error));
}

/* ---- mlp-lab device ------------------------------------------------------------------------- */

/* What a device property alone does not say. */
typedef struct {
  int clock, memory_clock, bus_width; /* kHz, kHz, bits */
  int blocks;                         /* that a multiprocessor holds */
  int runtime;
} More;

static bool find_more(More *more, Error *error) {
  static const char what[] = "reading the attributes of the device";
  int device;
  return cuda_done(cudaGetDevice(&device), what, error) &&
         cuda_done(cudaDeviceGetAttribute(&more->clock, cudaDevAttrClockRate, device), what,
                   error) &&
         cuda_done(cudaDeviceGetAttribute(&more->memory_clock, cudaDevAttrMemoryClockRate, device),
                   what, error) &&
         cuda_done(
             cudaDeviceGetAttribute(&more->bus_width, cudaDevAttrGlobalMemoryBusWidth, device),
             what, error) &&
         cuda_done(
             cudaDeviceGetAttribute(&more->blocks, cudaDevAttrMaxBlocksPerMultiprocessor, device),
             what, error) &&
         cuda_done(cudaRuntimeGetVersion(&more->runtime), what, error);
}

/* Float32 multiply-adds that a multiprocessor of that compute capability starts in a clock, from
   the table of arithmetic throughput in the CUDA C++ Programming Guide; 0: not known. */
static int lanes_of(int major, int minor) {
  if (major == 7 || (major == 8 && minor == 0)) return 64;
  return major >= 8 && major <= 12 ? 128 : 0;
}

static void print_parts(const struct cudaDeviceProp *p, const More *more, FILE *file) {
  char driver[64];
  gpu_driver(driver, sizeof driver);
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
static void print_rates(const struct cudaDeviceProp *p, const More *more, const LabMachine *m,
                        FILE *file) {
  const double bandwidth = 2e3 * more->memory_clock * more->bus_width / 8;
  const double fma = 2e3 * more->clock * p->multiProcessorCount * lanes_of(p->major, p->minor);
  if (bandwidth > 0)
    fprintf(file, "%-32s %.0f GB/s\n", "memory bandwidth, in theory", bandwidth / 1e9);
  fprintf(file, "%-32s %.0f GB/s, read + write", "copy on the GPU, measured", m->copy / 1e9);
  if (bandwidth > 0) fprintf(file, ": %.1f%%", 100 * m->copy / bandwidth);
  putc('\n', file);
  if (fma > 0)
    fprintf(file, "%-32s %.1f TFLOP/s\n", "float32 multiply-adds, in theory", fma / 1e12);
  fprintf(file, "%-32s %.1f TFLOP/s", "float32 multiply-adds, measured", m->fma / 1e12);
  if (fma > 0) fprintf(file, ": %.1f%%", 100 * m->fma / fma);
  fprintf(file, "\n%-32s %.1f GB/s\n", "copy to the GPU, pinned", m->link / 1e9);
}

bool lab_device(FILE *file, Error *error) {
  struct cudaDeviceProp properties;
  More more;
  LabMachine machine;
  if (!find_properties(&properties, error) || !find_more(&more, error) ||
      !lab_machine(&machine, true, error))
    return false;
  print_parts(&properties, &more, file);
  putc('\n', file);
  print_rates(&properties, &more, &machine, file);
  return true;
}
