#include "ops/operator.h"

#include <algorithm>
#include <cmath>

#include "ops/discovery/discovery.h"

namespace tessera {
namespace {

template <typename T>
std::vector<double> widen(const Tensor& tensor) {
  const std::span<const T> values = tensor.values<T>();
  return {values.begin(), values.end()};
}

int32_t nearest_integer(double value) {
  if (std::isnan(value)) return 0;
  return static_cast<int32_t>(std::clamp(std::nearbyint(value), -0x1p31, 0x1p31 - 1));
}

}  // namespace

OpView view(const Graph& graph, const Op& op) {
  OpView view{op.name, op.attributes, {}, {}, &find_operator(graph, op.kind), op.regions};
  for (ValueId input : op.inputs) view.inputs.push_back(graph.type(input));
  for (ValueId output : op.outputs) view.outputs.push_back(graph.type(output));
  return view;
}

ShardingRule rule_of(const Operator& definition, const OpView& op) {
  return definition.rule ? definition.rule(op) : discover_rule(definition, op).rule;
}

ReferenceTensor to_reference(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kF32: return {tensor.type(), widen<float>(tensor)};
    case DType::kI32: return {tensor.type(), widen<int32_t>(tensor)};
    case DType::kBool: return {tensor.type(), widen<uint8_t>(tensor)};
  }
  throw InternalError("unknown element type");
}

Tensor from_reference(const ReferenceTensor& reference) {
  Tensor tensor(reference.type);
  const std::vector<double>& from = reference.values;
  ensure(static_cast<int64_t>(from.size()) == tensor.size(),
         "as many values as the shape has elements");
  switch (tensor.dtype()) {
    case DType::kF32:
      std::transform(from.begin(), from.end(), tensor.values<float>().begin(),
                     [](double value) { return static_cast<float>(value); });
      break;
    case DType::kI32:
      std::transform(from.begin(), from.end(), tensor.values<int32_t>().begin(), nearest_integer);
      break;
    case DType::kBool:
      std::transform(from.begin(), from.end(), tensor.values<uint8_t>().begin(),
                     [](double value) { return uint8_t{value != 0}; });
      break;
  }
  return tensor;
}

}  // namespace tessera
