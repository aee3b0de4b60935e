#include "placement_search/kernel_price.h"

#include "cost/device_cost.h"
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

}  // namespace

Price kernel_price(const OpView& op, const ShardingRule& rule, const OpSharding& sharding,
                   const DeviceCost& device, const KernelSet* own) {
  if (!op.regions.empty()) return compute_price(work_of_regions(op, sharding), device);
  const Coordinate rank = sharding.mesh->heaviest();
  std::vector<TensorType> inputs, outputs;
  for (int i = 0; i < std::ssize(op.inputs); ++i)
    inputs.push_back({op.inputs[i].dtype,
                      input_attr(op, rule, sharding, i).local_shape(op.inputs[i].shape, rank)});
  for (int i = 0; i < std::ssize(op.outputs); ++i)
    outputs.push_back({op.outputs[i].dtype,
                       output_attr(op, rule, sharding, i).local_shape(op.outputs[i].shape, rank)});
  const KernelCall call = op.definition->kernel(op, factor_splits(rule, sharding));
  return compute_price(work_of(localize(call, rank, std::move(inputs), std::move(outputs)), own),
                       device);
}

}  // namespace tessera
