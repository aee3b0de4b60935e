// check_gradient and check_linearity, which use the plain reference in doubles.
#include <cmath>

#include "base/text/text.h"
#include "ir/ops/builder.h"
#include "ir/ops/interpreter.h"
#include "ir/ops/operator_rule.h"
#include "ir/ops/testing/operator_check_run.h"

namespace tessera::operator_testing {
namespace {

using ::testing::AssertionFailure;
using ::testing::AssertionResult;
using ::testing::AssertionSuccess;

/// A power of two, so that x + h is exact for the sampled x.
constexpr double kStep = 0x1p-17;
/// Tolerances of operators are for f32, with a unit roundoff of 2^-24; doubles have 2^-53.
constexpr double kDoubleOfSingle = 0x1p-29;
constexpr double kUnitRoundoff = 0x1p-53;
/// The constants of scalar operators are f32: a gradient such as 2 / sqrt(pi) exp(-x^2) has one or
/// two, each with an error of at most 2^-24 of it.
constexpr double kConstants = 2 * 0x1p-24;
/// Where the differences of two steps differ by more than this fraction, a kink or a pole is too
/// near for a difference to be a derivative.
constexpr double kSmooth = 0x1p-16;

std::string input_name(size_t i) {
  return "x" + std::to_string(i);
}

/// sum(weights * result 0), and its rounding error.
struct Loss {
  double value = 0;
  double error = 0;
};

/// A case with its derivative.
struct Differentiation {
  const Operator& op;
  const OperatorCase& given;
  std::vector<ReferenceTensor> inputs;
  ReferenceTensor weights;

  Loss loss(size_t input, size_t element, double step) const {
    const OpView view = view_of(op, given);
    std::vector<ReferenceTensor> moved = inputs;
    moved[input].values[element] += step;
    std::vector<ReferenceTensor> results = reference_results(op, given, moved);
    const std::vector<double> tolerance = op.tolerance(call_of(view, moved, results), 0);
    Loss loss;
    for (size_t i = 0; i < tolerance.size(); ++i) {
      const double term = weights.values[i] * results[0].values[i];
      loss.value += term;
      loss.error += std::abs(weights.values[i]) * tolerance[i] * kDoubleOfSingle +
                    static_cast<double>(tolerance.size() + 2) * kUnitRoundoff * std::abs(term);
    }
    return loss;
  }

  /// "" when `gradient` is the central difference D(h). Its truncation error is h^2 f'''/6, a third
  /// of D(2h) - D(h), and its rounding error at most error / h.
  std::string compare(size_t input, size_t element, double gradient) const {
    const Loss up = loss(input, element, kStep), down = loss(input, element, -kStep);
    const Loss far_up = loss(input, element, 2 * kStep),
               far_down = loss(input, element, -2 * kStep);
    const double near = (up.value - down.value) / (2 * kStep);
    const double far = (far_up.value - far_down.value) / (4 * kStep);
    const std::string where =
        "operand " + std::to_string(input) + ", element " + std::to_string(element) + ": ";
    if (std::abs(far - near) > kSmooth * (1 + std::abs(near)))
      return where + "the case is not smooth here: sample other operands";
    const double tolerance =
        std::abs(far - near) + (up.error + down.error) / kStep + kConstants * std::abs(gradient);
    if (std::abs(gradient - near) <= tolerance) return {};
    return where + "the gradient is " + double_text(gradient) + ", the difference quotient " +
           double_text(near) + " within " + double_text(tolerance);
  }
};

/// The gradients of the operands by the operator's gradient function: nullopt for operands that are
/// not f32, zeros where the function returns none.
std::vector<std::optional<ReferenceTensor>> interpreted_gradients(const Differentiation& problem) {
  Graph graph = empty_graph(problem.given);
  Builder builder(graph);
  ReferenceValues state{{"w", problem.weights}};
  std::vector<ValueId> operands;
  std::vector<bool> wanted;
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    operands.push_back(builder.input(input_name(i), problem.inputs[i].type));
    wanted.push_back(problem.inputs[i].type.dtype == DType::kF32);
    state[input_name(i)] = problem.inputs[i];
  }
  const ValueId weights = builder.input("w", problem.weights.type);
  builder.op(problem.given.kind, operands, problem.given.attributes, "y");
  const Op forward = graph.ops().back();
  std::vector<std::optional<ValueId>> flow(forward.outputs.size());
  flow[0] = weights;
  const auto scope = builder.scope("y.grad");
  const std::vector<std::optional<ValueId>> gradients =
      problem.op.gradient(builder, {graph, forward, flow, wanted});
  const ReferenceValues values = interpret(graph, state);
  std::vector<std::optional<ReferenceTensor>> results(wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i]) continue;
    const TensorType& type = problem.inputs[i].type;
    results[i] =
        gradients.at(i)
            ? values.at(graph.value(*gradients[i]).name)
            : ReferenceTensor{type, std::vector<double>(problem.inputs[i].values.size(), 0.0)};
  }
  return results;
}

using Operands = std::vector<ReferenceTensor>;

/// {x, part, rest}: x = part + rest in the operands of `set`, and all three alike in the others.
std::vector<Operands> split_operands(const OperatorCase& given, const std::vector<int>& set) {
  const Operands x = sample_inputs(given);
  Operands part = x, rest = x;
  for (int input : set) {
    const auto i = static_cast<size_t>(input);
    part[i] = sample_tensor(given.inputs[i], fill_of(given, i), "part of " + to_text(given), i);
    for (size_t e = 0; e < x[i].values.size(); ++e)
      rest[i].values[e] = x[i].values[e] - part[i].values[e];
  }
  return {x, part, rest};
}

/// One rounding of each of the three results and of the sum, and the roundings of the operator
/// itself.
std::vector<double> linearity_tolerance(const Operator& op, const OpView& view,
                                        const std::vector<Operands>& operands,
                                        std::vector<std::vector<ReferenceTensor>>& results,
                                        size_t output) {
  std::vector<double> tolerance(results[0][output].values.size(), 0.0);
  for (size_t which = 0; which < operands.size(); ++which) {
    const std::vector<double> single =
        op.tolerance(call_of(view, operands[which], results[which]), static_cast<int>(output));
    for (size_t e = 0; e < tolerance.size(); ++e)
      tolerance[e] += single[e] * kDoubleOfSingle +
                      4 * kUnitRoundoff * std::abs(results[which][output].values[e]);
  }
  return tolerance;
}

/// Sampled numbers have 24 bits, so that x - part is exact in doubles.
std::string linearity_offence(const Operator& op, const OperatorCase& given,
                              const std::vector<int>& set) {
  const OpView view = view_of(op, given);
  const std::vector<Operands> operands = split_operands(given, set);
  std::vector<std::vector<ReferenceTensor>> results;
  for (const Operands& inputs : operands) results.push_back(reference_results(op, given, inputs));
  for (size_t o = 0; o < view.outputs.size(); ++o) {
    ReferenceTensor sum = results[1][o];
    for (size_t e = 0; e < sum.values.size(); ++e) sum.values[e] += results[2][o].values[e];
    const std::string difference = first_difference(
        sum, results[0][o].values, linearity_tolerance(op, view, operands, results, o));
    if (!difference.empty()) return "result " + std::to_string(o) + ": " + difference;
  }
  return {};
}

}  // namespace

AssertionResult check_gradient(const Operator& op, const OperatorCase& given) {
  const OpView view = view_of(op, given);
  if (op.gradient == nullptr || view.outputs.at(0).dtype != DType::kF32) return AssertionSuccess();
  const Differentiation problem{
      op, given, sample_inputs(given),
      sample_tensor(view.outputs[0], {}, "weights of " + to_text(given), 0)};
  const std::vector<std::optional<ReferenceTensor>> gradients = interpreted_gradients(problem);
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i]) continue;
    if (gradients[i]->type != given.inputs[i])
      return AssertionFailure() << given << ": the gradient of operand " << i << " is "
                                << tessera::to_text(gradients[i]->type);
    for (size_t e = 0; e < gradients[i]->values.size(); ++e) {
      const std::string difference = problem.compare(i, e, gradients[i]->values[e]);
      if (!difference.empty()) return AssertionFailure() << given << ": " << difference;
    }
  }
  return AssertionSuccess();
}

AssertionResult check_linearity(const Operator& op, const OperatorCase& given) {
  const ShardingRule rule = rule_of(op, view_of(op, given));
  for (const std::vector<int>& set : rule.linear) {
    // A sum of booleans is not a boolean, so there is no Partial(sum) of them.
    bool adds = true;
    for (int input : set) adds = adds && given.inputs.at(input).dtype != DType::kBool;
    if (!adds) continue;
    const std::string offence = linearity_offence(op, given, set);
    if (!offence.empty())
      return AssertionFailure() << given << ": not linear in its set "
                                << ::testing::PrintToString(set) << ": " << offence;
  }
  return AssertionSuccess();
}

}  // namespace tessera::operator_testing
