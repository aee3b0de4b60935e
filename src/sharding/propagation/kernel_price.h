// The price and the workspace of the kernel of an op under a strategy.
#pragma once

#include <string>
#include <vector>

#include "cluster/cost/device_cost.h"
#include "ir/graph/graph.h"
#include "ir/ops/operator.h"
#include "kernels/kernel_set.h"
#include "sharding/propagation/op_sharding.h"

namespace tessera {

/// Ranks whose kernels are the slowest among those of their device and their parts.
struct PricedRank {
  Coordinate coordinate;
  DeviceCost device;
};

/// The ranks of which one is the slowest, whatever the op: of each kind of device and each part of
/// weighted axes the first one.
///   devices  of each rank of the mesh, in its order; empty: all have `device`
std::vector<PricedRank> priced_ranks(const Mesh& mesh, const DeviceCost& device,
                                     const std::vector<DeviceCost>& devices = {});

struct KernelDemand {
  Price price;
  Bytes workspace{0};
};

/// compute_price(work_of(call)) of the slowest of `ranks`, and the largest workspace. Of an op with
/// regions, all their kernels divided by the number of parts, a While as often as it runs at most
/// (once when it has no limit).
///   own  the kernels of the user's operators; nullptr: none
KernelDemand kernel_demand(const OpView& op, const ShardingRule& rule, const OpSharding& sharding,
                           const std::vector<PricedRank>& ranks, const KernelSet* own = nullptr);

/// The name of the kernel of an op on whole tensors; "" of an op with regions.
std::string undivided_kernel(const OpView& op, const ShardingRule& rule);

}  // namespace tessera
