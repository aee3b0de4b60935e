#include "training/verify/step_check.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "base/error.h"
#include "ir/ops/operator.h"
#include "training/verify/internal/decisions.h"
#include "training/verify/internal/reference_step.h"

namespace tessera {
namespace {

/// The gradient of a variable that is updated: of the ops behind its next value, through those of
/// the optimizer, the one of the backward that has its shape. Clipping is one of the optimizer.
std::optional<ValueId> gradient_of(const Graph& graph, const Variable& variable) {
  if (!variable.next) return std::nullopt;
  const Shape& shape = graph.type(variable.value).shape;
  std::vector<ValueId> open{*variable.next};
  std::set<ValueId> seen{*variable.next};
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    const OpId producer = graph.value(value).producer;
    if (producer.index < 0) continue;
    const Op& op = graph.op(producer);
    if (op.role == Role::kBackward) return value;
    if (op.role != Role::kOptimizer) continue;
    for (const ValueId input : op.inputs)
      if (graph.type(input).shape == shape && seen.insert(input).second) open.push_back(input);
  }
  return std::nullopt;
}

struct Compared {
  ValueId value;
  std::string what, variable;
  const Tensor* theirs = nullptr;
};

std::vector<Compared> compared_values(const Graph& graph, const ForeignStep& theirs) {
  std::vector<Compared> list;
  for (const Variable& variable : graph.variables()) {
    const std::string& name = graph.value(variable.value).name;
    if (const auto found = theirs.gradients.find(name); found != theirs.gradients.end())
      if (const std::optional<ValueId> gradient = gradient_of(graph, variable))
        list.push_back({*gradient, "the gradient of '" + name + "'", name, &found->second});
    if (const auto found = theirs.updated.find(name);
        found != theirs.updated.end() && variable.next)
      list.push_back({*variable.next, "'" + name + "' after the step", name, &found->second});
  }
  return list;
}

class StepCheck {
 public:
  StepCheck(const Engine& engine, const std::map<std::string, Tensor>& inputs,
            const ForeignStep& theirs)
      : graph_(engine.graph()),
        theirs_(theirs),
        pieces_(graph_),
        reference_(graph_, pieces_, {}),
        decisions_(graph_, engine.compiled()),
        compared_(compared_values(graph_, theirs)) {
    reference_.begin(
        [&engine, &inputs](const std::string& name) {
          if (name == kStepInput) return to_reference(Tensor::scalar(int32_t{0}));
          if (name == kLearningRateInput)
            return to_reference(Tensor::scalar(
                static_cast<float>(learning_rate(engine.config().optimizer.schedule, 0))));
          const auto found = inputs.find(name);
          return to_reference(found == inputs.end() ? engine.runtime().variable(name)
                                                    : found->second.clone());
        },
        0);
    for (const auto& [name, value] : graph_.outputs())
      if (name == "loss") loss_ = value;
  }

  ForeignStepReport run() {
    for (const ReferencePieces::Piece& piece : pieces_.pieces()) {
      reference_.read_state(piece);
      reference_.run(piece, decisions_, {});
      for (int op = piece.begin; op < piece.end && !report_.first_difference; ++op)
        compare_results(OpId{op});
      if (report_.first_difference) break;
      reference_.release(piece);
    }
    return report_;
  }

 private:
  void compare_results(OpId op) {
    if (theirs_.loss && loss_ && graph_.value(*loss_).producer == op)
      compare({*loss_, "the loss", "", nullptr}, {*theirs_.loss});
    for (const Compared& compared : compared_)
      if (graph_.value(compared.value).producer == op && !report_.first_difference)
        compare(compared, to_reference(*compared.theirs).values);
  }

  void compare(const Compared& compared, const std::vector<double>& values) {
    const std::vector<double>& wanted = reference_.expected(compared.value).values;
    ensure(wanted.size() == values.size(), "tensors of other programs have the types of variables");
    const double tolerance = reference_.tolerance(compared.value);
    ++report_.tensors;
    for (size_t i = 0; i < values.size(); ++i) {
      const double allowed = tolerance + theirs_.rounding * std::abs(wanted[i]);
      const double error = std::abs(values[i] - wanted[i]);
      if (error <= allowed) {
        if (allowed > 0) report_.max_error = std::max(report_.max_error, error / allowed);
        continue;
      }
      report_.first_difference = ForeignDifference{
          compared.what, compared.variable, static_cast<int64_t>(i), values[i], wanted[i], allowed};
      return;
    }
  }

  const Graph& graph_;
  const ForeignStep& theirs_;
  ReferencePieces pieces_;
  ReferenceStep reference_;
  DecisionOperands decisions_;
  std::vector<Compared> compared_;
  std::optional<ValueId> loss_ = {};
  ForeignStepReport report_;
};

}  // namespace

ForeignStepReport check_step(const Engine& engine, const std::map<std::string, Tensor>& inputs,
                             const ForeignStep& theirs) {
  return StepCheck(engine, inputs, theirs).run();
}

}  // namespace tessera
