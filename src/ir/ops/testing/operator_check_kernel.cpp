// check_rule, check_kernel and check_operator.
#include <algorithm>

#include "ir/ops/operator_rule.h"
#include "ir/ops/testing/operator_check_run.h"
#include "kernels/reference/reference.h"

namespace tessera::operator_testing {
namespace {

using ::testing::AssertionFailure;
using ::testing::AssertionResult;
using ::testing::AssertionSuccess;

std::string mismatch(const ShardingRule& rule, const DimFactor& dim, int d, const Shape& shape) {
  const Factor& factor = rule.factors.at(dim.factor);
  const std::string what = "dim " + std::to_string(d) + " of [" + tessera::to_text(shape) + "] ";
  const int64_t extent = factor.extent * dim.unit * dim.chunks;
  if (dim.window && (dim.window->from != extent || dim.window->to != shape[d]))
    return what + "has a window of other extents";
  if (!dim.window && extent != shape[d])
    return what + "is not " + std::to_string(factor.extent) + " units of " +
           std::to_string(dim.unit) +
           (dim.chunks == 1 ? "" : " in " + std::to_string(dim.chunks) + " chunks");
  return {};
}

/// "" when the factors describe the shape.
std::string mismatch(const ShardingRule& rule, const OperandFactors& factors, const Shape& shape) {
  if (static_cast<int>(factors.size()) != shape.size())
    return "the rule has " + std::to_string(factors.size()) + " dims for [" +
           tessera::to_text(shape) + "]";
  for (int d = 0; d < shape.size(); ++d)
    for (const DimFactor& choice : choices_of(factors[d]))
      if (const std::string text = mismatch(rule, choice, d, shape); !text.empty()) return text;
  return {};
}

std::string missing_parallel_factor(const ShardingRule& rule) {
  for (int f = 0; f < static_cast<int>(rule.factors.size()); ++f)
    for (const OperandFactors& output : rule.outputs)
      if (rule.factors[f].kind == FactorKind::kParallel && !has_factor(output, f))
        return "factor " + rule.factors[f].name + " is parallel, and a result has it not";
  return {};
}

std::string rule_offence(const OpView& view, const ShardingRule& rule) {
  if (rule.inputs.size() != view.inputs.size() || rule.outputs.size() != view.outputs.size())
    return "the rule has another number of operands";
  for (size_t i = 0; i < rule.inputs.size(); ++i)
    if (const std::string text = mismatch(rule, rule.inputs[i], view.inputs[i].shape);
        !text.empty())
      return "operand " + std::to_string(i) + ": " + text;
  for (size_t i = 0; i < rule.outputs.size(); ++i)
    if (const std::string text = mismatch(rule, rule.outputs[i], view.outputs[i].shape);
        !text.empty())
      return "result " + std::to_string(i) + ": " + text;
  return missing_parallel_factor(rule);
}

/// Kernels of a user's program have no plain twin; the reference of their operator takes its place.
bool is_own_kernel(const OperatorCase& given, const LocalCall& call) {
  return given.operators && given.operators->kernels()->find(call.kernel);
}

}  // namespace

AssertionResult check_rule(const Operator& op, const OperatorCase& given) {
  const OpView view = view_of(op, given);
  const ShardingRule rule = rule_of(op, view);
  const std::string offence = rule_offence(view, rule);
  return offence.empty()
             ? AssertionSuccess()
             : AssertionFailure() << given << ": " << offence << "\n  " << tessera::to_text(rule);
}

AssertionResult check_kernel(const Operator& op, const OperatorCase& given) {
  const OpView view = view_of(op, given);
  const std::vector<ReferenceTensor> inputs = sample_inputs(given);
  std::vector<ReferenceTensor> expected = reference_results(op, given, inputs);
  std::vector<Tensor> tensors;
  for (const ReferenceTensor& input : inputs) tensors.push_back(from_reference(input));
  const LocalCall local =
      localize(op.kernel(view, undivided(rule_of(op, view))), {}, view.inputs, view.outputs);
  const auto compare = [&](const BoundKernel& kernel, const std::string& who) {
    const std::vector<Tensor> actual = run_kernel(kernel, tensors, view.outputs);
    for (size_t o = 0; o < actual.size(); ++o) {
      const std::vector<double> tolerance =
          tolerance_of(op, call_of(view, inputs, expected), static_cast<int>(o));
      const std::string difference =
          first_difference(to_reference(actual[o]), held(expected[o]), tolerance);
      if (!difference.empty())
        return AssertionFailure() << given << ": " << who << ", result " << o << ": " << difference;
    }
    return AssertionSuccess();
  };
  const AssertionResult fast = compare(bind_for(given, local), "the kernel");
  if (!fast || is_own_kernel(given, local)) return fast;
  return compare(bind_reference_kernel(local), "its plain twin");
}

AssertionResult check_operator(const OperatorCase& given) {
  const Operator& op = find_operator(empty_graph(given), given.kind);
  for (const auto check :
       {check_rule, check_kernel, check_gradient, check_division, check_work, check_linearity})
    if (const AssertionResult result = check(op, given); !result) return result;
  return AssertionSuccess();
}

}  // namespace tessera::operator_testing
