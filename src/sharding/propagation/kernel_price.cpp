#include "sharding/propagation/kernel_price.h"

#include <algorithm>

#include "cluster/cost/device_cost.h"
#include "kernels/bind.h"

namespace tessera {
namespace {

/// A share of the work on whole tensors, as if it were products.
LocalWork work_of_regions(const OpView& op, const OpSharding& sharding) {
  double parts = 1;
  for (const std::vector<int>& axes : sharding.factor_axes)
    for (int axis : axes) parts *= static_cast<double>(sharding.mesh->shape()[axis]);
  const Work whole = op.definition->work(op);
  return {OperationClass::kMatmul, DType::kF32, Flops(whole.flops.value() / parts),
          Bytes(static_cast<int64_t>(static_cast<double>(whole.bytes.value()) / parts)), Bytes(0)};
}

KernelDemand demand_on(const OpView& op, const ShardingRule& rule, const OpSharding& sharding,
                       const Coordinate& rank, const DeviceCost& device, const KernelSet* own) {
  std::vector<TensorType> inputs, outputs;
  for (int i = 0; i < std::ssize(op.inputs); ++i)
    inputs.push_back({op.inputs[i].dtype,
                      input_attr(op, rule, sharding, i).local_shape(op.inputs[i].shape, rank)});
  for (int i = 0; i < std::ssize(op.outputs); ++i)
    outputs.push_back({op.outputs[i].dtype,
                       output_attr(op, rule, sharding, i).local_shape(op.outputs[i].shape, rank)});
  const KernelCall call = op.definition->kernel(op, factor_splits(rule, sharding));
  const LocalCall local = localize(call, rank, std::move(inputs), std::move(outputs));
  return {compute_price(work_of(local, own), device), workspace_of(local, own)};
}

}  // namespace

std::vector<PricedRank> priced_ranks(const Mesh& mesh, const DeviceCost& device,
                                     const std::vector<DeviceCost>& devices) {
  if (devices.empty()) return {{mesh.largest_shard_coordinate(), device}};
  std::vector<PricedRank> ranks;
  for (int i = 0; i < mesh.size(); ++i) {
    Coordinate coordinate = mesh.coordinate_at(i);
    for (int axis = 0; axis < mesh.axis_count(); ++axis)  // the first part is a largest one
      if (mesh.weights()[axis].empty()) coordinate[axis] = 0;
    const bool is_known = std::ranges::any_of(ranks, [&](const PricedRank& known) {
      return known.coordinate == coordinate && known.device == devices[i];
    });
    if (!is_known) ranks.push_back({coordinate, devices[i]});
  }
  return ranks;
}

KernelDemand kernel_demand(const OpView& op, const ShardingRule& rule, const OpSharding& sharding,
                           const std::vector<PricedRank>& ranks, const KernelSet* own) {
  KernelDemand largest;
  for (const PricedRank& rank : ranks) {
    const KernelDemand demand =
        op.regions.empty()
            ? demand_on(op, rule, sharding, rank.coordinate, rank.device, own)
            : KernelDemand{compute_price(work_of_regions(op, sharding), rank.device)};
    largest = {max(largest.price, demand.price), std::max(largest.workspace, demand.workspace)};
  }
  return largest;
}

std::string undivided_kernel(const OpView& op, const ShardingRule& rule) {
  if (!op.regions.empty()) return "";
  const auto mesh = std::make_shared<const Mesh>(Shape{1}, std::vector<std::string>{"one"});
  return op.definition->kernel(op, factor_splits(rule, OpSharding::replicated(mesh, rule))).kernel;
}

}  // namespace tessera
