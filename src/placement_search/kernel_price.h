// The price of the kernel of an op under a strategy.
#pragma once

#include "cost/device_cost.h"
#include "graph/graph.h"
#include "kernels/kernel_set.h"
#include "ops/operator.h"
#include "shard/op_sharding.h"

namespace tessera {

/// compute_price(work_of(call)) of the rank with the largest parts. Of an op with regions, all
/// their kernels divided by the number of parts, a While as often as it runs at most (once when it
/// has no limit).
///   own  the kernels of the user's operators; nullptr: none
Price kernel_price(const OpView& op, const ShardingRule& rule, const OpSharding& sharding,
                   const DeviceCost& device, const KernelSet* own = nullptr);

}  // namespace tessera
