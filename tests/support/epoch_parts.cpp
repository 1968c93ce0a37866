/* The sources of level epoch, as they are, for the emulator. */
#include "emulator/device.h"

/* How a kernel is called, whose type a launch by its address does not tell. */
struct Kernel {
  const void *address;
  void (*call)(void *arguments); /* a pointer to each */
};

template <auto kernel, class... Parameters> Kernel kernel_of(void (*)(Parameters...)) {
  return {reinterpret_cast<const void *>(kernel), [](void *arguments) {
            void **next = *static_cast<void ***>(arguments);
            std::apply(kernel, std::tuple<Parameters...>{*static_cast<Parameters *>(*next++)...});
          }};
}

static cudaError_t cudaLaunchKernel(const void *address, dim3 blocks, dim3 threads,
                                    void **arguments, size_t shared, cudaStream_t);
static cudaError_t cudaLaunchCooperativeKernel(const void *address, dim3 blocks, dim3 threads,
                                               void **arguments, size_t shared,
                                               cudaStream_t stream) {
  constexpr unsigned MOST_BLOCKS = 1 << 16; /* that all run at once */
  if (blocks.x > MOST_BLOCKS) return cudaErrorCooperativeLaunchTooLarge;
  return cudaLaunchKernel(address, blocks, threads, arguments, shared, stream);
}

/* `extern __shared__ __align__(16) unsigned char shared_memory[]` becomes the declaration of a
   function, which gives the array of the block that runs. */
#undef __shared__
#undef __align__
#define __shared__
#define __align__(bytes)
#define shared_memory (*dynamic_memory())
namespace epoch {
unsigned char (*dynamic_memory())[] {
  return reinterpret_cast<unsigned char(*)[]>(emulator_dynamic());
}
} // namespace epoch

#include "../../kernels/epoch/epoch.cu"
#include "../../kernels/epoch/gram.cu"

#include "support/epoch_parts.h"

#define KERNEL(name) kernel_of<name>(name)

static cudaError_t cudaLaunchKernel(const void *address, dim3 blocks, dim3 threads,
                                    void **arguments, size_t shared, cudaStream_t) {
  static const Kernel kernels[] = {KERNEL((epoch::epoch_kernel<1, 1>)),
                                   KERNEL((epoch::epoch_kernel<1, 2>)),
                                   KERNEL((epoch::epoch_kernel<2, 2>)), KERNEL(epoch::gram_kernel)};
  for (const Kernel &kernel : kernels)
    if (kernel.address == address)
      return emulator_run(blocks, threads, shared, kernel.call, &arguments, sizeof arguments);
  return cudaErrorInvalidValue;
}

const EpochBarrier epoch_barriers[] = {
    {"MATRIX", epoch::MATRIX},    {"ROW", epoch::ROW},           {"HEAD", epoch::HEAD},
    {"H1_SENT", epoch::H1_SENT},  {"H2_READY", epoch::H2_READY}, {"DZ2_READY", epoch::DZ2_READY},
    {"DZ2_SENT", epoch::DZ2_SENT}};

EpochBuffers epoch_buffers(const EpochPlan *plan, int which) {
  const epoch::MailSizes s = epoch::mail_sizes(*plan);
  const size_t dz1 = s.z2 + 2 * s.z1;
  const EpochBuffers all[EPOCH_BUFFERS] = {{"Z2", 0, s.z2 / 2},
                                           {"the first term of Z1", s.z2, s.z1},
                                           {"dZ1", dz1, s.dz1},
                                           {"records", dz1 + 2 * s.dz1, epoch::ROWS * s.record}};
  return all[which];
}
