/* The sources of level epoch, as they are, for the emulator. */
#include "device.h"
#include "ptx.h"

#include "../../kernels/epoch/epoch.cu"

const EmulatedKernel emulated_cooperative = emulated_kernel(epoch::epoch_kernel);
