/* The teams of a block share the launch, the current step, the places of mail, and the weights of
   the second and last layer. Each packet of P belongs to one thread of each group. The thread holds
   it in registers from the first step of the launch to the last. */
#pragma once

#include "epoch/layout.cuh"

namespace epoch {

/* Returns true if a step after the launch's first computes Z1 from the weights that the previous
   step has updated, and so waits for them. */
__device__ inline bool is_direct(uint32_t step) {
  return step % EPOCH_DIRECT == 0;
}

/* The ground of every team. */
struct Team {
  const EpochPlan &plan;
  const EpochJob &job;
  const BlockLayout &layout;
  uint32_t stamp, step, index; /* step: the number in its window, index: in the launch */
  uint32_t position;           /* of the step's first row */

  __device__ void begin() {
    stamp = job.first_stamp;
    step = job.position / (uint32_t)plan.shape.batch;
    index = 0;
    position = job.position;
  }
  __device__ bool has_step() const {
    return position < job.end;
  }
  __device__ uint32_t next_position() const {
    return position + plan.shape.batch;
  }
  __device__ void next_step() {
    stamp++;
    step++;
    index++;
    position = next_position();
  }

  /* The first term of Z1 lies as (split, packet of neurons, row), dZ1 as (packet, row). */
  __device__ Packet *z1_at(int split, int packet, int row, uint32_t stamp) const {
    return layout.z1 + turn(stamp) * layout.z1_size +
           (split * layout.neuron_packets + packet) * ROWS + row;
  }
  __device__ Packet *dz1_at(int packet, int row, uint32_t stamp) const {
    return layout.dz1 + turn(stamp) * layout.dz1_size + packet * ROWS + row;
  }
  /* A row's mail for the patch teams is a record of packets: H1, dZ2, H2, dZ3: (packet, row). */
  __device__ Packet *record_at(int packet, int row) const {
    return layout.records + turn(stamp) * layout.records_size + packet * ROWS + row;
  }
  /* Returns where packet `packet` of row x of P is. Rows lie one after the other, except that eight
     rows of W2 lie side by side. So the packets that a warp of the row team receives at once are
     neighbours. */
  __device__ Packet *p_at(int x, int packet) const {
    const int hidden = layout.hidden_packets, neurons = layout.neurons;
    return layout.p + (x < neurons ? (x / PARTS * hidden + packet) * PARTS + x % PARTS
                                   : (round_up(neurons, PARTS) + x - neurons) * hidden + packet);
  }

  /* Returns the offset in the flat arrays of value o of row x of P, or -1 if there is none. */
  __device__ long long p_offset(int x, int o) const {
    const EpochShape &shape = plan.shape;
    if (x == layout.p_rows) return o < shape.classes ? (long long)job.layout.bias[2] + o : -1;
    if (o >= shape.hidden2) return -1;
    if (x < layout.neurons) {
      const int neuron = layout.group * layout.neurons + x;
      if (neuron >= shape.hidden1) return -1;
      return (long long)(job.layout.weight[1] + (size_t)o * shape.hidden1 + neuron);
    }
    if (x == layout.neurons) return (long long)job.layout.bias[1] + o;
    return (long long)(job.layout.weight[2] + (size_t)(x - layout.neurons - 1) * shape.hidden2 + o);
  }
};

/* ---- the weights of a team that updates them ------------------------------------------------ */

/* The place in P of a lane's packet. */
struct OwnPacket {
  bool exists, decays;
  int x, packet; /* row of P, packet within the row */
};

/* The weights of a lane's packet and their momenta. */
struct OwnWeights {
  float w[3], v[3];
};

/* A team that updates packets of P. */
struct UpdatingTeam : Team {
  /* Returns the offset in the flat arrays of value e of the packet, or -1. */
  __device__ long long offset_of(const OwnPacket &own, int e) const {
    return own.exists ? p_offset(own.x, 3 * own.packet + e) : -1;
  }

  __device__ OwnWeights load_packet(const OwnPacket &own) const {
    OwnWeights weights;
    for (int e = 0; e < 3; e++) {
      const long long offset = offset_of(own, e);
      weights.w[e] = offset < 0 ? 0.0f : job.d_parameters[offset];
      weights.v[e] = offset < 0 ? 0.0f : job.d_momentum[offset];
    }
    return weights;
  }

  /* Writes the packet and its momentum back. b2, W3 and b3 are the same in every group; the first
     group writes them. */
  __device__ void store_packet(const OwnPacket &own, const OwnWeights &weights) const {
    if (own.x >= layout.neurons && layout.group > 0) return;
    for (int e = 0; e < 3; e++) {
      const long long offset = offset_of(own, e);
      if (offset < 0) continue;
      job.d_parameters[offset] = weights.w[e];
      job.d_momentum[offset] = weights.v[e];
    }
  }

  /* Updates the packet by its gradient and mails it to the group's row blocks. */
  __device__ void update_packet(const OwnPacket &own, OwnWeights &weights,
                                const float (&g)[3]) const {
    const UpdateRule rule = {job.rule.momentum, own.decays ? job.rule.weight_decay : 0.0f};
    float(&w)[3] = weights.w;
    unrolled (e, 3) update_value(w[e], weights.v[e], g[e], rule, job.learning_rate);
    if (own.exists) send(p_at(own.x, own.packet), w[0], w[1], w[2], stamp);
  }
};

} // namespace epoch
