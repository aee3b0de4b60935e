// Determines which cases can be compared without tolerance, and which can be compared at all. Both
// are proved on the data of the case.
#include <algorithm>
#include <cmath>

#include "ir/ops/interpreter.h"
#include "ir/ops/operator_rule.h"
#include "tools/fuzz/fuzz_case.h"

namespace tessera::fuzz {
namespace {

/// Whole numbers below it are exact in an element type.
double exact_limit(DType dtype) {
  return is_float(dtype) ? 1 / unit_roundoff(dtype) : 0x1p24;
}

constexpr double kMaxMagnitude = 1e6;

/// Calls visit(values) with the values of every step of the serial run, until it returns false.
template <typename Visit>
bool every_step(const FuzzCase& given, Visit visit) {
  const Graph& graph = given.graph;
  ReferenceValues variables = initial_variables(graph, given.seed);
  for (auto& [name, value] : variables)
    if (given.fills.contains(name)) value = to_reference(sampled(given, name, value.type, 0));
  for (int64_t step = 0; step < given.steps; ++step) {
    ReferenceValues state = variables;
    for (ValueId input : graph.inputs()) {
      const std::string& name = graph.value(input).name;
      state[name] = to_reference(sampled(given, name, graph.type(input), step));
    }
    const ReferenceValues values = interpret(graph, state);
    if (!visit(values)) return false;
    variables = next_variables(graph, values);
  }
  return true;
}

/// Bounds of the partial values of every value under every placement. When an op is linear in an
/// operand, that operand may be partial, with absolute values that add up to its magnitude. All
/// other operands are whole.
class Magnitudes {
 public:
  Magnitudes(const Graph& graph, const ReferenceValues& values) : graph_(graph), values_(values) {}

  bool all_exact() {
    for (const Op& op : graph_.ops())
      if (!is_exact(op)) return false;
    return true;
  }

 private:
  const ReferenceTensor& value(ValueId id) const { return values_.at(graph_.value(id).name); }

  /// The operand in the form that `op` may get: its magnitudes when it may be partial.
  ReferenceTensor operand(const Op& op, const ShardingRule& rule, size_t index) {
    const bool linear =
        std::any_of(rule.linear.begin(), rule.linear.end(), [&](const std::vector<int>& set) {
          return std::find(set.begin(), set.end(), static_cast<int>(index)) != set.end();
        });
    const ReferenceTensor& actual = value(op.inputs[index]);
    if (!linear || !is_float(actual.type.dtype)) return actual;
    const auto known = magnitudes_.find(op.inputs[index].index);
    ReferenceTensor result = known == magnitudes_.end() ? actual : known->second;
    for (double& element : result.values) element = std::abs(element);
    return result;
  }

  bool is_exact(const Op& op) {
    if (!op.regions.empty()) return false;  // sums inside of regions are not examined
    const OpView seen = view(graph_, op);
    const ShardingRule rule = rule_of(*seen.definition, seen);
    std::vector<ReferenceTensor> inputs, outputs;
    for (size_t i = 0; i < op.inputs.size(); ++i) inputs.push_back(operand(op, rule, i));
    for (const TensorType& type : seen.outputs)
      outputs.push_back(
          {type, std::vector<double>(static_cast<size_t>(element_count(type.shape)))});
    // Subtracted terms add to the magnitude, and so do terms with negative factors.
    const Operator& definition = find_operator(op.kind == "sub" ? "add" : op.kind);
    ReferenceCall call{seen, {}, outputs};
    for (const ReferenceTensor& input : inputs) call.inputs.push_back(&input);
    definition.reference(call);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (!keep(op, op.outputs[i], std::move(outputs[i]))) return false;
    return true;
  }

  bool keep(const Op& op, ValueId id, ReferenceTensor magnitude) {
    const ReferenceTensor& actual = value(id);
    if (actual.type.dtype == DType::kBool) return true;
    for (size_t i = 0; i < magnitude.values.size(); ++i) {
      double& element = magnitude.values[i];
      element = std::max(std::abs(element), std::abs(actual.values[i]));
      if (!(element < exact_limit(actual.type.dtype)) ||
          (actual.values[i] != std::floor(actual.values[i]) && !is_fraction(op)))
        return false;
    }
    magnitudes_.insert_or_assign(id.index, std::move(magnitude));
    return true;
  }

  /// Random numbers are multiples of 2^-24, which stay exact when they are scaled by a power of
  /// two.
  bool is_fraction(const Op& op) const {
    if (op.kind == "random_uniform") return true;
    if (op.kind != "mul_scalar") return false;
    const OpId producer = graph_.value(op.inputs[0]).producer;
    int exponent = 0;
    return producer.index >= 0 && graph_.op(producer).kind == "random_uniform" &&
           std::frexp(op.attributes.number("value"), &exponent) == 0.5;
  }

  const Graph& graph_;
  const ReferenceValues& values_;
  std::map<int, ReferenceTensor> magnitudes_;  // by value
};

}  // namespace

bool in_exact_subset(const FuzzCase& given) {
  return every_step(given, [&](const ReferenceValues& values) {
    return Magnitudes(given.graph, values).all_exact();
  });
}

bool is_bounded(const FuzzCase& given) {
  return every_step(given, [](const ReferenceValues& values) {
    for (const auto& [name, tensor] : values)
      for (double element : tensor.values)
        if (!(std::abs(element) < kMaxMagnitude)) return false;
    return true;
  });
}

}  // namespace tessera::fuzz
