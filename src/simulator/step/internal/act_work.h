// What acts compute and move, without prices: the same for every device and every runtime with the
// same kernels.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "base/units.h"
#include "cluster/cluster/cluster.h"
#include "cluster/cluster/runtime_profile.h"
#include "cluster/cost/device_cost.h"
#include "kernels/work.h"
#include "simulator/clock/demands.h"

namespace tessera {

inline int64_t nanoseconds(Seconds time) {
  return std::llround(1e9 * time.value());
}

/// The kernels of one act.
struct KernelPrice {
  Seconds time{0};
  Flops flops{0};
  Flops padding{0};  // LocalWork::padding
};

inline KernelPrice operator+(KernelPrice a, KernelPrice b) {
  return {a.time + b.time, a.flops + b.flops, a.padding + b.padding};
}

/// One kernel of a runtime that fuses.
struct KernelWork {
  LocalWork work = {};    // of fused steps: their flops, and the bytes that the kernel moves
  bool is_fused = false;  // bytes at the rate of memory
  int launches = 1;       // 0: a part of a kernel that works on a list of tensors
  /// Of attention with AttentionKernel::kScores: the scores of all heads, of which the work is the
  /// products; and how many times as many passes as a forward it has.
  double scores = 0, passes = 0;
  KernelPrice priced = {};  // of a While or an If, which has a price instead of work
};

/// The kernels of a task on a device: their sum with the gaps between them.
KernelPrice price_of(std::span<const KernelWork> kernels, const DeviceCost& device,
                     const RuntimeProfile& runtime);

/// What a rank receives in an exchange.
struct ExchangeWork {
  struct Message {
    DeviceId from = 0;
    int64_t bytes = 0;
  };
  DeviceId to = 0;
  std::vector<Message> messages = {};  // from other devices
  double start = 1;  // the part of a start and its hops that is its own, not of a bucket's others
  Bytes copied{0};   // that are put in their places or added, those of this rank too
};

/// The greatest start of its links, and for each sender a latency; then a flow over the channels of
/// each path. The copies are not in it.
ActDemand demand_of(const ExchangeWork& exchange, const Cluster& cluster);
/// Of the channel that the flows of an act alone use longest.
Seconds flow_time(const ActDemand& demand, const Cluster& cluster);

/// What a rank does in a forward or backward of one micro-batch, or in the optimizer: the host runs
/// ahead of the device inside of it.
struct PassWork {
  struct Kernels {
    std::vector<KernelWork> kernels;
    int64_t tasks = 0;  // that are identical
  };
  struct Exchange {
    ExchangeWork exchange;
    int64_t tasks = 0;
  };
  DeviceId device = 0;
  std::vector<Kernels> kernels;
  std::vector<Exchange> exchanges;  // inside of the mesh
};

int64_t launches(std::span<const KernelWork> kernels);

/// What the host takes longer for the pass than the device with its exchanges, for each launch.
Seconds host_wait(const PassWork& pass, const Cluster& cluster);

}  // namespace tessera
