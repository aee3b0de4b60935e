#include "planner/search/candidates/step_floor.h"

#include <functional>
#include <set>
#include <vector>

#include "cluster/cost/device_cost.h"
#include "ir/ops/operator_rule.h"
#include "ir/ops/operator_set.h"
#include "kernels/bind.h"
#include "sharding/propagation/op_sharding.h"

namespace tessera {
namespace {

/// The highest rates that a kernel may have.
struct HighestRates {
  double flops = 0, bytes = 0;
};

/// Of the values of a graph.
std::set<DType> dtypes_of(const Graph& graph) {
  std::set<DType> dtypes;
  for (int i = 0; i < std::ssize(graph.values()); ++i) dtypes.insert(graph.type({i}).dtype);
  return dtypes;
}

/// Takes in what rates of a class or a kernel are higher.
void include(const ClassRates& rates, const std::set<DType>& dtypes, double efficiency,
             HighestRates& highest) {
  double share = rates.efficiency.empty() ? efficiency : rates.efficiency.largest();
  if (!rates.row_efficiency.empty()) share = std::max(share, rates.row_efficiency.largest());
  if (rates.flops_per_second)
    highest.flops = std::max(highest.flops, share * *rates.flops_per_second);
  for (const auto& [dtype, rate] : rates.flops_per_second_of)
    if (dtypes.contains(dtype)) highest.flops = std::max(highest.flops, share * rate);
  if (rates.bytes_per_second) highest.bytes = std::max(highest.bytes, *rates.bytes_per_second);
  if (!rates.bytes_per_second_at.empty())
    highest.bytes = std::max(highest.bytes, rates.bytes_per_second_at.largest());
}

HighestRates highest_rates(const DeviceCost& device, const std::set<DType>& dtypes) {
  double efficiency = 1, class_factor = 1, kernel_factor = 1;
  const auto widen = [&](const ClassRates& rates, double& factor) {
    for (const SizeCurve* curve : {&rates.efficiency, &rates.row_efficiency})
      if (!curve->empty()) efficiency = std::max(efficiency, curve->largest());
    factor = std::min(factor, rates.time_factor);
  };
  for (const auto& [name, rates] : device.classes) widen(rates, class_factor);
  for (const auto& [name, rates] : device.kernels) widen(rates, kernel_factor);
  HighestRates highest{efficiency * device.flops_per_second, device.bytes_per_second};
  for (const auto& [name, rates] : device.classes) include(rates, dtypes, efficiency, highest);
  for (const auto& [name, rates] : device.kernels) include(rates, dtypes, efficiency, highest);
  const double factor = class_factor * kernel_factor;
  return {highest.flops / factor, highest.bytes / factor};
}

/// The sum of the largest of these.
double sum_of_largest(std::vector<double> values, int maximum) {
  std::ranges::sort(values, std::greater());
  double sum = 0;
  for (int i = 0; i < std::min<int>(maximum, static_cast<int>(values.size())); ++i)
    sum += values[i];
  return sum;
}

/// Of the kernels that no runtime joins with others, on one device: the arithmetic of the others is
/// hidden by their bytes.
double flops_of_single_kernels(const Graph& graph) {
  const auto mesh = std::make_shared<const Mesh>(Shape{1}, std::vector<std::string>{"one"});
  const std::shared_ptr<const KernelSet> own = own_kernels(graph);
  double flops = 0;
  for (const Op& op : graph.ops()) {
    if (!op.regions.empty() || op.outputs.empty()) continue;
    const OpView shape = view(graph, op);
    const ShardingRule rule = rule_of(*shape.definition, shape);
    const KernelCall call =
        shape.definition->kernel(shape, factor_splits(rule, OpSharding::replicated(mesh, rule)));
    const LocalWork work =
        work_of(localize(call, Coordinate{0}, shape.inputs, shape.outputs), own.get());
    if (!is_fusible(work.operation)) flops += work.flops.value() - work.padding.value();
  }
  return flops;
}

double changed_bytes(const Graph& graph) {
  Bytes bytes{0};
  for (const Variable& variable : graph.variables())
    if (variable.trainable && variable.next) bytes += byte_size(graph.type(variable.value));
  return 2 * static_cast<double>(bytes.value());  // read and written
}

}  // namespace

StepFloor step_floor(const PlanRequest& request, int ranks, const EvaluatedCandidate& one_device) {
  const std::set<DType> dtypes = dtypes_of(request.graph);
  std::vector<double> flops, bytes;
  for (DeviceId device = 0; device < request.cluster.device_count(); ++device) {
    const HighestRates rates = highest_rates(request.cluster.type(device).cost, dtypes);
    flops.push_back(rates.flops);
    bytes.push_back(rates.bytes);
  }
  const StepPrediction& step = one_device.prediction;
  const bool fuses = request.cluster.description().runtime.fusion != Fusion::kNone;
  const double smallest =
      fuses ? flops_of_single_kernels(request.graph) : step.executed.value() - step.padding.value();
  return {Seconds(smallest / sum_of_largest(flops, ranks)),
          Seconds(changed_bytes(request.graph) / sum_of_largest(bytes, ranks))};
}

}  // namespace tessera
