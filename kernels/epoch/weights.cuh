/* The weights of the second and the last layer: each packet of P belongs to one thread of each
   group, which holds it in registers from the first step of the launch to the last. */
#pragma once

#include "epoch/layout.cuh"

namespace epoch {

/* The place in P of a lane's packet. */
struct OwnPacket {
  bool exists, decays;
  int x, packet; /* row of P, packet within the row */
};

/* Its weights and their momenta. */
struct OwnWeights {
  float w[3], v[3];
};

/* Returns the offset in the flat arrays of value e of the packet, or -1. */
__device__ inline long long offset_of(const EpochPlan &plan, const EpochJob &job,
                                      const BlockLayout &layout, const OwnPacket &own, int e) {
  return own.exists ? p_offset(plan, job, layout, own.x, 3 * own.packet + e) : -1;
}

__device__ inline OwnWeights load_packet(const EpochPlan &plan, const EpochJob &job,
                                         const BlockLayout &layout, const OwnPacket &own) {
  OwnWeights weights;
  for (int e = 0; e < 3; e++) {
    const long long offset = offset_of(plan, job, layout, own, e);
    weights.w[e] = offset < 0 ? 0.0f : job.d_parameters[offset];
    weights.v[e] = offset < 0 ? 0.0f : job.d_momentum[offset];
  }
  return weights;
}

/* Writes the packet and its momentum back. b2, W3 and b3 are the same in every group: the first one
   writes them. */
__device__ inline void store_packet(const EpochPlan &plan, const EpochJob &job,
                                    const BlockLayout &layout, const OwnPacket &own,
                                    const OwnWeights &weights) {
  if (own.x >= layout.neurons && layout.group > 0) return;
  for (int e = 0; e < 3; e++) {
    const long long offset = offset_of(plan, job, layout, own, e);
    if (offset < 0) continue;
    job.d_parameters[offset] = weights.w[e];
    job.d_momentum[offset] = weights.v[e];
  }
}

/* Updates the packet by its gradient and mails it to the group's row blocks. */
__device__ inline void update_packet(const EpochJob &job, const BlockLayout &layout,
                                     const OwnPacket &own, OwnWeights &weights, const float (&g)[3],
                                     uint32_t stamp) {
  const UpdateRule rule = {job.rule.momentum, own.decays ? job.rule.weight_decay : 0.0f};
  float(&w)[3] = weights.w;
  unrolled (e, 3) update_value(w[e], weights.v[e], g[e], rule, job.learning_rate);
  if (own.exists) send(p_at(layout, own.x, own.packet), w[0], w[1], w[2], stamp);
}

} // namespace epoch
