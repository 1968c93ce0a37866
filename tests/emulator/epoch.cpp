/* The sources of level epoch, as they are, for the emulator. */
#include "device.h"
#include "ptx.h"

#include "../../kernels/epoch/epoch.cu"
#include "../../kernels/epoch/gram.cu"

#include "epoch.h"

const EmulatedKernel emulated_kernels[] = {
    emulated_kernel(epoch::epoch_kernel<1, 1>), emulated_kernel(epoch::epoch_kernel<1, 2>),
    emulated_kernel(epoch::epoch_kernel<2, 2>), emulated_kernel(epoch::gram_kernel)};
const int emulated_kernels_count = sizeof emulated_kernels / sizeof *emulated_kernels;

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
