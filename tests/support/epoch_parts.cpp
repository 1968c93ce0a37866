/* Compiles level epoch's unchanged sources for the emulator. */
#include "emulator/device.h"
#include "support/schedules.h"

/* These macros turn `extern __shared__ __align__(128) unsigned char shared_memory[]` into the
   declaration of a function that returns the shared memory of the running block. */
#undef __shared__
#undef __align__
#define __shared__
#define __align__(bytes)
#define shared_memory (*dynamic_memory())
namespace tiles {
unsigned char (*dynamic_memory())[] {
  return reinterpret_cast<unsigned char(*)[]>(emulator_dynamic());
}
} // namespace tiles

/* The functions below stand for the functions of kernels/layer/hopper.cuh. A bulk copy is complete
   at once. An mbarrier is only the number of its phase. There are no clusters. */
#define HOPPER_CUH
#undef __CUDA_ARCH__
#define __CUDA_ARCH__ 900
static int cluster_rank() {
  return 0;
}
static void cluster_fence() {
}
static void barriers_are_ready() {
}
static void shared_is_written() {
}
static void barrier_init(uint64_t *barrier, int) {
  *barrier = 0;
}
static void barrier_expect(uint64_t *, int) {
}
static void barrier_wait(const uint64_t *barrier, uint32_t parity) {
  if (threadIdx.x % 32 == 0)
    while ((*barrier & 1) == parity) schedules_await_copy();
  __syncwarp();
}
static void copy_bulk(void *to, const void *from, int bytes, uint64_t *barrier) {
  memcpy(to, from, (size_t)bytes);
  ++*barrier;
  schedules_copied();
}
uint32_t address_in(uint32_t address, int rank); /* never called */

#include "../../kernels/epoch/tiles.cu"
#include "../../kernels/epoch/tiles_80.cu"
#include "../../kernels/epoch/tiles_without_hidden.cu"
#include "../../kernels/epoch/tiles_mail.cu"
#include "../../kernels/epoch/tiles_prepare.cu"

#include "support/epoch_parts.h"

/* The emulator has no clusters, so the tables of variants with clusters are empty. */
namespace tiles {
extern const Variant variants_first[VARIANTS] = {}, variants_second[VARIANTS] = {};
} // namespace tiles

const EpochBarrier epoch_barriers[] = {{"DZ_READY", DZ_READY, true},
                                       {"GO", GO, true},
                                       {"Z_READY", Z_READY, true},
                                       {"TERMS_READY", TERMS_READY, true},
                                       {"Z_TAKEN", Z_TAKEN}};

static_assert((int)EPOCH_K_BARRIER == (int)LAST_READY, "the barrier's number");

/* Returns the plan's job for mail at address 0, so that pointers into the mail are offsets. */
static Job mail_at_0(TilesPlan plan) {
  Job job;
  memcpy(&job, plan.job, sizeof job);
  plan.d_work = plan.d_mail = nullptr;
  take_work(plan, &job);
  return job;
}

EpochBuffers epoch_buffers(const TilesPlan *plan, int which) {
  const Job job = mail_at_0(*plan);
  const size_t h = (size_t)job.h[1] / sizeof(uint4), dz = (size_t)job.dz[2] / sizeof(uint4),
               of_h = (size_t)job.mail_size[1], of_dz = (size_t)job.mail_size[2];
  const EpochBuffers all[EPOCH_BUFFERS] = {
      {"H", h, of_h}, {"dZ", dz, of_dz}, {"dZ for gradients", dz + 2 * of_dz, of_dz}};
  return all[which];
}

size_t epoch_stamps(const TilesPlan *plan) {
  return plan->logits_bytes / sizeof(uint4);
}
